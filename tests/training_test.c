/* SPDX-License-Identifier: MIT */
/* Training in one process: it learns, repeats itself bit for bit, resumes as
 * if nothing had happened, stops when asked. Several ranks:
 * tests/training_ranks.py. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "net/checkpoint.h"
#include "net/safetensors.h"
#include "random.h"
#include "train.h"

static const char net[] = "net tiny\n"
                          "input 1x12x12\n"
                          "conv 4 3x3\n"
                          "relu\n"
                          "maxpool 2x2\n"
                          "dropout 0.2\n"
                          "dense 10\n"
                          "softmax_loss\n";

static const char *const batches[] = {"data_batch_1.bin", "data_batch_2.bin",
                                      "data_batch_3.bin", "data_batch_4.bin",
                                      "data_batch_5.bin", "test_batch.bin"};

static char folder[] = "/tmp/training_test.XXXXXX";
static coll_comm *comm;

static const char *file(const char *name)
{
    static char path[8][64];
    static int turn;
    char *to = path[turn++ % 8];
    snprintf(to, sizeof(path[0]), "%s/%s", folder, name);
    return to;
}

static void setup(void)
{
    cr_assert(mkdtemp(folder));
    cr_assert_eq(coll_comm_init(&comm), COLL_OK, "%s", coll_last_error(NULL));
}

static void teardown(void)
{
    static const char *const names[] = {"a", "b", "log", "job"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        remove(file(names[i]));
    for (int i = 0; i < 6; i++)
        remove(file(batches[i]));
    cr_assert_eq(rmdir(folder), 0, "something else was left in %s", folder);
    coll_comm_destroy(comm);
}

TestSuite(training, .init = setup, .fini = teardown);

static struct train_settings settings(void)
{
    return (struct train_settings){
        .net_text = net,
        .data = "synthetic:100x1x12x12",
        .strategy = "sync",
        .optimiser = "sgd",
        .epochs = 3, /* of 13 steps, the last with 4 images */
        .batch = 8,
        .seed = 7,
        .optim = {1e-4,        {0.9, NAN, NAN, NAN, NAN}},
        .schedule = { .name = "cosine", .lr = 0.02,               .warmup = 5},
    };
}

static void start(struct train *t, const struct train_settings *s)
{
    cr_assert_eq(train_open_data(t, s), 0, "%s", t->error);
    cr_assert_eq(train_open(t, comm), 0, "%s", t->error);
}

static void expect_same(const struct train *a, const struct train *b)
{
    cr_assert_eq(a->step, b->step);
    cr_assert_eq(a->net.params.count, b->net.params.count);
    cr_assert(!memcmp(a->net.params.x, b->net.params.x,
                      a->net.params.count * sizeof(float)));
    cr_assert_eq(a->update.state.count, b->update.state.count);
    cr_assert(!memcmp(a->update.state.x, b->update.state.x,
                      a->update.state.count * sizeof(float)));
}

Test(training, learns)
{
    struct report report;
    struct train t;
    struct train_settings s = settings();
    char error[512];
    s.epochs = 8;
    start(&t, &s);
    cr_assert_eq(report_open(&report, NULL, 0, error, sizeof(error)), 0);
    cr_assert_eq(train_run(&t, t.nsteps, &report), 0, "%s", t.error);
    cr_assert(report.npoints == 8 * 13);
    cr_assert(report.points[0].loss > 1.5);
    cr_assert(report.points[100].loss < 0.5 * report.points[0].loss);
    cr_assert(t.score.accuracy > 0.6, "%g", t.score.accuracy);
    report_close(&report, error, sizeof(error));
    train_close(&t);
}

Test(training, same_seed_same_bits)
{
    struct train a, b, c;
    struct train_settings s = settings();
    start(&a, &s);
    start(&b, &s);
    s.seed++;
    start(&c, &s);
    cr_assert_eq(train_run(&a, 20, NULL), 0);
    cr_assert_eq(train_run(&b, 20, NULL), 0);
    cr_assert_eq(train_run(&c, 20, NULL), 0);
    expect_same(&a, &b);
    cr_assert(memcmp(a.net.params.x, c.net.params.x,
                     a.net.params.count * sizeof(float)));
    train_close(&a);
    train_close(&b);
    train_close(&c);
}

Test(training, resumes_as_if_never_stopped)
{
    static const long stops[] = {1, 12, 13, 14, 30};
    struct train whole;
    struct train_settings s = settings();
    start(&whole, &s);
    cr_assert_eq(train_run(&whole, whole.nsteps, NULL), 0);
    for (int i = 0; i < 5; i++) {
        struct train first, second;
        s = settings();
        s.checkpoint = file("a");
        s.checkpoint_every = stops[i];
        start(&first, &s);
        cr_assert_eq(train_run(&first, stops[i], NULL), 0, "%s", first.error);
        train_close(&first);
        s.resume = s.checkpoint;
        start(&second, &s);
        cr_assert_eq(second.step, stops[i]);
        cr_assert_eq(train_run(&second, second.nsteps, NULL), 0, "%s",
                     second.error);
        expect_same(&whole, &second);
        train_close(&second);
    }
    train_close(&whole);
}

Test(training, resumes_adam_and_the_mean_of_the_weights)
{
    struct train whole, first, second;
    struct train_settings s = settings();
    s.optimiser = "adamw";
    s.optim.numbers[OPTIM_MOMENTUM] = NAN;
    s.average = 0.9;
    s.batch = 4;
    s.accumulate = 2;
    start(&whole, &s);
    cr_assert_eq(whole.nsteps, 39);
    cr_assert_eq(train_run(&whole, 39, NULL), 0);
    s.checkpoint = file("a");
    s.checkpoint_every = 17;
    start(&first, &s);
    cr_assert_eq(train_run(&first, 17, NULL), 0, "%s", first.error);
    train_close(&first);
    s.resume = s.checkpoint;
    start(&second, &s);
    cr_assert_eq(train_run(&second, 39, NULL), 0, "%s", second.error);
    expect_same(&whole, &second);
    cr_assert_eq(whole.score.loss, second.score.loss);
    train_close(&second);
    s.average = 0;
    cr_assert_eq(train_open_data(&second, &s), 0);
    cr_assert_eq(train_open(&second, comm), 2);
    cr_assert(strstr(second.error, "--ema"), "%s", second.error);
    train_close(&second);
    train_close(&whole);
}

/* Dropout goes by an image's place in the batch of the step. */
Test(training, small_batches_add_up_to_a_large_one)
{
    struct train large, small;
    struct train_settings s = settings();
    s.batch = 24;
    start(&large, &s);
    s.batch = 5; /* the last step of an epoch has four images */
    s.global_batch = 24;
    s.accumulate = 5;
    start(&small, &s);
    cr_assert_eq(small.pass, 5);
    cr_assert_eq(train_run(&large, 12, NULL), 0);
    cr_assert_eq(train_run(&small, 12, NULL), 0);
    cr_assert_eq(large.step, small.step);
    for (size_t i = 0; i < large.net.params.count; i++)
        cr_assert_float_eq(large.net.params.x[i], small.net.params.x[i], 1e-5);
    train_close(&large);
    train_close(&small);
}

/* Of which almost all of the first weights stays. */
Test(training, the_mean_of_the_weights_is_evaluated)
{
    struct train mean, plain;
    struct train_settings s = settings();
    start(&plain, &s);
    cr_assert_eq(train_run(&plain, plain.nsteps, NULL), 0);
    s.average = 0.999999;
    start(&mean, &s);
    cr_assert_eq(train_run(&mean, mean.nsteps, NULL), 0);
    cr_assert(!memcmp(mean.net.params.x, plain.net.params.x,
                      plain.net.params.count * sizeof(float)));
    cr_assert(mean.score.loss > 1.2 * plain.score.loss, "%g, %g",
              mean.score.loss, plain.score.loss);
    train_close(&mean);
    train_close(&plain);
}

Test(training, resumes_only_what_fits)
{
    struct train t;
    struct train_settings s = settings();
    s.checkpoint = file("a");
    s.resume = file("a");
    s.resume_optional = true; /* there is none yet */
    s.steps = 3;
    s.schedule.warmup = 0;
    start(&t, &s);
    cr_assert_eq(train_run(&t, 3, NULL), 0);
    train_close(&t);
    struct train_settings wrong[] = {s, s, s, s, s, s};
    wrong[0].seed = 8;
    wrong[1].batch = 9;
    wrong[2].data = "synthetic:99x1x12x12";
    wrong[3].net_text = "net other\ninput 1x12x12\ndense 10\nsoftmax_loss\n";
    wrong[4].resume = file("b");
    wrong[4].resume_optional = false;
    wrong[5].shuffle = SHUFFLE_DRAW;
    static const char *const say[] = {"--seed was 7, found 8",
                                      "--global-batch 8 keeps it",
                                      "100 images of synthetic",
                                      "another net",
                                      "cannot read",
                                      "found 100 of synthetic --shuffle draw"};
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(train_open_data(&t, &wrong[i]), 0);
        cr_assert_eq(train_open(&t, comm), 2);
        cr_assert(strstr(t.error, say[i]), "%s", t.error);
        train_close(&t);
    }
}

/* CIFAR-10 with noise in the first file and black images in the others, which
 * are holes. */
static void put_cifar(void)
{
    enum { RECORD = 3073, RECORDS = 10000 };
    unsigned char record[RECORD];
    for (int i = 0; i < 6; i++) {
        FILE *to = fopen(file(batches[i]), "wb");
        cr_assert(to);
        for (uint64_t j = 0; i == 0 && j < RECORDS; j++) {
            for (int k = 1; k < RECORD; k++)
                record[k] = (unsigned char)(random_u64(j, (uint64_t)k) >> 56);
            record[0] = (unsigned char)(j % 10);
            cr_assert_eq(fwrite(record, RECORD, 1, to), 1);
        }
        cr_assert_eq(ftruncate(fileno(to), (off_t)RECORD * RECORDS), 0);
        fclose(to);
    }
}

Test(training, augments_the_same_when_resumed)
{
    struct train whole, plain, t;
    char data[128];
    struct train_settings s = settings(), other;
    put_cifar();
    snprintf(data, sizeof(data), "cifar10:%s", folder);
    s.data = data;
    s.net_text = "input 3x32x32\navgpool 4x4\ndense 10\nsoftmax_loss\n";
    s.checkpoint_every = 4;
    s.checkpoint = file("b");
    start(&plain, &s);
    s.augment = true;
    s.checkpoint = file("a");
    start(&whole, &s);
    cr_assert_eq(train_run(&plain, 6, NULL), 0);
    cr_assert_eq(train_run(&whole, 6, NULL), 0);
    cr_assert(memcmp(plain.net.params.x, whole.net.params.x,
                     whole.net.params.count * sizeof(float)));
    train_close(&plain);
    s.resume = file("a");
    start(&t, &s);
    cr_assert_eq(t.step, 4);
    cr_assert_eq(train_run(&t, 6, NULL), 0);
    expect_same(&whole, &t);
    train_close(&t);
    train_close(&whole);
    other = s;
    other.augment = false;
    cr_assert_eq(train_open_data(&t, &other), 0);
    cr_assert_eq(train_open(&t, comm), 2);
    cr_assert(strstr(t.error, "50000 images of cifar10 --augment, "
                              "found 50000 of cifar10"),
              "%s", t.error);
    train_close(&t);
    s.resume = file("b");
    cr_assert_eq(train_open_data(&t, &s), 0);
    cr_assert_eq(train_open(&t, comm), 2);
    cr_assert(strstr(t.error, "50000 images of cifar10, "
                              "found 50000 of cifar10 --augment"),
              "%s", t.error);
    train_close(&t);
}

Test(training, stops_after_a_step_with_a_checkpoint)
{
    const volatile sig_atomic_t stop = SIGTERM;
    struct checkpoint c;
    struct train t;
    struct train_settings s = settings();
    char error[512];
    s.stop = &stop;
    s.checkpoint = file("a");
    start(&t, &s);
    cr_assert_eq(train_run(&t, t.nsteps, NULL), 128 + SIGTERM);
    cr_assert(strstr(t.error, "signal 15 after step 1 of 39"), "%s", t.error);
    cr_assert_eq(checkpoint_read(&c, s.checkpoint, -1, error, sizeof(error)),
                 0);
    cr_assert_eq(c.state.step, 1);
    checkpoint_free(&c);
    train_close(&t);
}

/* As a learning rate of 1e30 would do: to a weight behind which the loss is
 * not a number, and to one whose effect relu and maxpool hide. */
Test(training, numbers_that_explode_spare_the_checkpoint)
{
    for (int hidden = 0; hidden < 2; hidden++) {
        struct checkpoint c;
        struct train t;
        struct train_settings s = settings();
        char error[512];
        s.checkpoint = file("a");
        s.checkpoint_every = 1;
        start(&t, &s);
        cr_assert_eq(train_run(&t, 4, NULL), 0);
        t.net.params.x[hidden ? 0 : t.net.params.count - 1] = NAN;
        cr_assert_eq(train_run(&t, t.nsteps, NULL), 1);
        cr_assert(strstr(t.error, hidden ? "step 5: parameter 0 is nan"
                                         : "rank 0, step 4: the loss is"),
                  "%s", t.error);
        cr_assert_eq(
            checkpoint_read(&c, s.checkpoint, -1, error, sizeof(error)), 0);
        cr_assert_eq(c.state.step, 4);
        checkpoint_free(&c);
        train_close(&t);
    }
}

Test(training, refuses_bad_settings)
{
    struct train t;
    struct train_settings wrong[8];
    static const char *const say[] = {"valid is sync",
                                      "1x28x28",
                                      "--schedule",
                                      "line",
                                      "found \"imagenet\", valid is cifar10, ",
                                      "--augment: the images of synthetic "
                                      "are never changed, valid is --data "
                                      "with one of: cifar10",
                                      "did you mean adam?",
                                      "--beta1: --optimizer sgd has no"};
    for (int i = 0; i < 8; i++)
        wrong[i] = settings();
    wrong[0].strategy = "easgd";
    wrong[1].data = "synthetic:10";
    wrong[2].schedule.name = "cosnie";
    wrong[3].net_text = "net x\ninput 1x12x12\nconf 4 3x3\n";
    wrong[4].data = "imagenet";
    wrong[5].augment = true;
    wrong[6].optimiser = "adamx";
    wrong[7].optim.numbers[OPTIM_BETA1] = 0.5;
    for (int i = 0; i < 8; i++) {
        int status = train_open_data(&t, &wrong[i]);
        if (!status)
            status = train_open(&t, comm);
        cr_assert_eq(status, 2, "%d", i);
        cr_assert(strstr(t.error, say[i]), "%s", t.error);
        train_close(&t);
    }
}

static size_t read_all(const char *name, char *text, size_t room)
{
    FILE *from = fopen(file(name), "rb");
    cr_assert(from);
    const size_t count = fread(text, 1, room - 1, from);
    text[count] = '\0';
    fclose(from);
    return count;
}

Test(training, log_of_a_resumed_run_is_whole)
{
    struct report r;
    struct report_point p = {.epoch = 1, .loss = 0.5, .test_loss = NAN};
    char error[512], text[4096];
    cr_assert_eq(report_open(&r, file("log"), 0, error, sizeof(error)), 0);
    for (p.step = 1; p.step <= 5; p.step++)
        report_step(&r, &p);
    cr_assert_eq(report_close(&r, error, sizeof(error)), 0);
    /* Whoever wrote the fifth line was killed in it. */
    const size_t whole = read_all("log", text, sizeof(text));
    cr_assert_eq(truncate(file("log"), (off_t)whole - 3), 0);
    cr_assert_eq(report_open(&r, file("log"), 5, error, sizeof(error)), 0);
    cr_assert_eq(r.npoints, 4);
    cr_assert_eq(report_close(&r, error, sizeof(error)), 0);
    /* The checkpoint was of step 3. */
    cr_assert_eq(report_open(&r, file("log"), 3, error, sizeof(error)), 0);
    cr_assert_eq(r.npoints, 3);
    for (p.step = 4; p.step <= 6; p.step++)
        report_step(&r, &p);
    report_final(&r, &(struct report_final){.accuracy = 0.5});
    cr_assert_eq(report_close(&r, error, sizeof(error)), 0);
    read_all("log", text, sizeof(text));
    char *at = text, start_of[32];
    for (int i = 1; i <= 6; i++) {
        snprintf(start_of, sizeof(start_of), "{\"step\": %d, ", i);
        cr_assert(!strncmp(at, start_of, strlen(start_of)), "%s", at);
        at = strchr(at, '\n') + 1;
    }
    cr_assert(!strncmp(at, "{\"final\": true, \"accuracy\": 0.5, ", 33));
}

Test(training, exports_named_tensors)
{
    struct train t;
    const struct train_settings s = settings();
    char error[512], text[65536];
    start(&t, &s);
    cr_assert_eq(safetensors_write(file("a"), &t.net, 5, error, sizeof(error)),
                 0);
    const size_t count = read_all("a", text, sizeof(text));
    uint64_t header;
    memcpy(&header, text, 8);
    cr_assert_eq(header % 8, 0);
    cr_assert_eq(count, 8 + header + t.net.params.count * sizeof(float));
    cr_assert(!memcmp(text + 8 + header, t.net.params.x,
                      t.net.params.count * sizeof(float)));
    text[8 + header] = '\0';
    cr_assert(strstr(text + 8, "\"0.conv.weight\":{\"dtype\":\"F32\","
                               "\"shape\":[4,1,3,3],\"data_offsets\":[0,144]}"),
              "%s", text + 8);
    cr_assert(strstr(text + 8, "\"4.dense.bias\":{\"dtype\":\"F32\","
                               "\"shape\":[10],"));
    train_close(&t);
}

static long number;
static double rate;
static bool flag;
static const char *choice, *name;
static const struct option_row rows[] = {
    {0, "number", "N",  OPTION_INT,    &number, 1, 9, NULL,        ""},
    {0, "rate",   "R",  OPTION_NUMBER, &rate,   0, 0, NULL,        ""},
    {0, "flag",   NULL, OPTION_FLAG,   &flag,   0, 0, NULL,        ""},
    {0, "choice", "X",  OPTION_TEXT,   &choice, 0, 0, "red|green", ""},
    {0, "name",   "X",  OPTION_TEXT,   &name,   0, 0, NULL,        ""},
};

static int read_job(const char *text, char *error)
{
    FILE *to = fopen(file("job"), "w");
    cr_assert(to && fputs(text, to) >= 0);
    fclose(to);
    return job_read(file("job"), rows, 5, error, 512);
}

Test(training, job_file_sets_options)
{
    char error[512];
    cr_assert_eq(read_job("# a job\nnumber: 7\nrate: 1e-3\nflag: true\n"
                          "choice: green\nname: \"a b\"\n",
                          error),
                 0, "%s", error);
    cr_assert(number == 7 && rate == 1e-3 && flag);
    cr_assert_str_eq(choice, "green");
    cr_assert_str_eq(name, "a b");
    cr_assert(strstr(job_place("choice"), ":5:9"), "%s", job_place("choice"));
    job_said_again("choice");
    cr_assert_null(job_place("choice"));
    cr_assert_null(job_place("other"));
    free((char *)choice);
    free((char *)name);
}

Test(training, job_file_errors_say_where)
{
    static const struct wrong {
        const char *text, *where, *say;
    } wrong[] = {
        {"numbr: 7\n",              ":1:1:", "did you mean number?"      },
        {"rate: 1\nnumber: 10\n",   ":2:9:", "a whole number from 1 to 9"},
        {"number: x\n",             ":1:9:", "found \"x\""               },
        {"rate: 1e\n",              ":1:7:", "valid is a number"         },
        {"flag: yes\n",             ":1:7:", "true or false"             },
        {"choice: gree\n",          ":1:9:", "did you mean green?"       },
        {"name: [a, b]\n",          ":1:7:", "one value"                 },
        {"rate: 1\nrate: 2\n",      ":2:1:", "twice"                     },
        {"- a\n",                   ":1:1:", "flat mapping"              },
        {"rate: 1\n}\n",            ":2:1:", "no valid YAML"             },
        {"name: \"a\n",             ":2:1:", "no valid YAML"             },
        {"rate: 1\n---\nrate: 2\n", ":2:1:", "flat mapping"              },
        {"",                        ":1:1:", "flat mapping"              },
    };
    char error[512];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_eq(read_job(wrong[i].text, error), -1, "%s", wrong[i].text);
        cr_assert(strstr(error, wrong[i].where) && strstr(error, wrong[i].say),
                  "\"%s\" lacks %s or \"%s\"", error, wrong[i].where,
                  wrong[i].say);
    }
    cr_assert_eq(job_read("/nowhere", rows, 5, error, 512), -1);
    cr_assert_eq(job_read("/tmp", rows, 5, error, 512), -1);
    cr_assert(strstr(error, "a folder"));
}
