/* SPDX-License-Identifier: MIT */
#include "command_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

static struct options o = {
    .net = "lenet", .data = "fashion-mnist", .strategy = "sync",
    .schedule = "fixed", .precision = "f32", .kernel = "auto", .bind = "core", .epochs = 1,
    .exchange = "auto", .wire = "f32", .factors = "auto", .top = NAN, .prefetch = "auto",
    .shuffle = "all",
    .batch = 64, .seed = 1, .lr = 0.01, .gamma = NAN, .power = NAN,
    .optimizer = "sgd", .momentum = NAN, .beta1 = NAN, .beta2 = NAN,
    .epsilon = NAN, .trust = NAN,
};

static const struct option_row train_rows[] = {
    {0, "net", "NAME|FILE", OPTION_TEXT, &o.net, 0, 0, NULL,
     "net to train: a built-in name (default lenet) or a file"},
    {0, "data", "NAME[:PATH]", OPTION_TEXT, &o.data, 0, 0, NULL,
     "fashion-mnist (default), mnist:FOLDER, cifar10, "
     "synthetic[:COUNT[xCxHxW]], shards:PATH (tar files of JPEGs or PNGs and "
     "their classes), folder:PATH (a folder of them for each class)"},
    {0, "augment", NULL, OPTION_FLAG, &o.augment, 0, 0, NULL,
     "crop and mirror training images by chance (cifar10, shards, folder)"},
    {0, "shuffle", "HOW", OPTION_TEXT, &o.shuffle, 0, 0, "all|draw|stripes",
     "all images in any order (default); each drawn from all; or, of shards, "
     "runs of images as they lie, each rank from a part of its own"},
    {0, "epochs", "N", OPTION_INT, &o.epochs, 1, 1e6, NULL,
     "passes over the training set (default 1)"},
    {0, "steps", "N", OPTION_INT, &o.steps, 1, 1e12, NULL,
     "train for so many steps in all, whatever --epochs says"},
    {0, "batch", "N", OPTION_INT, &o.batch, 1, 1 << 20, NULL,
     "images per rank and step (default 64)"},
    {0, "global-batch", "N", OPTION_INT, &o.global_batch, 1, 1 << 30, NULL,
     "images per step of the whole job, instead of --batch"},
    {0, "accumulate", "N", OPTION_INT, &o.accumulate, 1, 1 << 20, NULL,
     "add up the gradients of N batches for a step (default 1)"},
    {0, "optimizer", "NAME", OPTION_TEXT, &o.optimizer, 0, 0, NULL,
     "sgd (default), nesterov, adagrad, rmsprop, adadelta, adam, adamw, lars, "
     "lamb"},
    {0, "lr", "RATE", OPTION_NUMBER, &o.lr, 1e-12, 1e6, NULL,
     "learning rate (default 0.01)"},
    {0, "momentum", "M", OPTION_NUMBER, &o.momentum, 0, 1, NULL,
     "sgd, nesterov, rmsprop, lars: momentum of the gradient (default 0; 0.9 "
     "for nesterov and lars)"},
    {0, "beta1", "B", OPTION_NUMBER, &o.beta1, 0, 1, NULL,
     "adam, adamw, lamb: what stays of the mean gradient (default 0.9)"},
    {0, "beta2", "B", OPTION_NUMBER, &o.beta2, 0, 1, NULL,
     "these, rmsprop, adadelta: and of the mean square (default 0.999, 0.99, "
     "0.9)"},
    {0, "epsilon", "E", OPTION_NUMBER, &o.epsilon, 0, 1, NULL,
     "all but sgd and nesterov: added to divisors (default: see the manual)"},
    {0, "trust", "T", OPTION_NUMBER, &o.trust, 0, 1e6, NULL,
     "lars: a tensor's rate by the size of its weights (default 0.001)"},
    {0, "weight-decay", "D", OPTION_NUMBER, &o.weight_decay, 0, 1e6, NULL,
     "L2 penalty on the weights; adamw, lamb: their decay (default 0)"},
    {0, "clip-norm", "X", OPTION_NUMBER, &o.clip_norm, 0, 1e30, NULL,
     "shorten gradients that are longer to X (default 0, never)"},
    {0, "ema", "D", OPTION_NUMBER, &o.ema, 0, 0.9999999, NULL,
     "evaluate and export a moving average of the weights, of which D stays "
     "each step (default 0, none)"},
    {0, "schedule", "NAME", OPTION_TEXT, &o.schedule, 0, 0,
     "fixed|step|multistep|exp|inv|poly|sigmoid|cosine",
     "how the learning rate changes (default fixed)"},
    {0, "gamma", "G", OPTION_NUMBER, &o.gamma, 0, 1e6, NULL,
     "schedules step, multistep, exp: factor of each change; inv, sigmoid: how "
     "fast it falls (default 0.1)"},
    {0, "power", "P", OPTION_NUMBER, &o.power, 0, 1e6, NULL,
     "schedules inv, poly: exponent (default 1)"},
    {0, "every", "N", OPTION_INT, &o.every, 1, 1e12, NULL,
     "schedule step: steps between changes; sigmoid: the step around which it "
     "falls (default one epoch)"},
    {0, "milestones", "LIST", OPTION_TEXT, &o.milestones, 0, 0, NULL,
     "schedule multistep: the steps of its changes, as in 30000,60000"},
    {0, "warmup", "N", OPTION_INT, &o.warmup, 0, 1e12, NULL,
     "let the learning rate rise from 0 over so many steps (default 0)"},
    {0, "warmup-from", "RATE", OPTION_NUMBER, &o.warmup_from, 0, 1e6, NULL,
     "and from this rate in place of 0"},
    {0, "strategy", "NAME", OPTION_TEXT, &o.strategy, 0, 0, NULL,
     "how ranks share what they learn: sync (default), sync-easgd1, "
     "sync-easgd2, sync-easgd3, decentralized-easgd; or with ranks that serve: "
     "easgd-round-robin, async-sgd, async-msgd, hogwild-sgd, async-easgd, "
     "async-measgd, hogwild-easgd, parameter-server"},
    {0, "servers", "K", OPTION_INT, &o.servers, 1, 1 << 20, NULL,
     "of these: the last K ranks serve, each a part of the weights (default 1)"},
    {0, "original-strict", NULL, OPTION_FLAG, &o.original_strict, 0, 0, NULL,
     "easgd-round-robin: a worker computes in its turn only"},
    {0, "tau", "N", OPTION_INT, &o.tau, 1, 1e12, NULL,
     "with all but sync: exchange every N steps (default 1)"},
    {0, "alpha", "A", OPTION_NUMBER, &o.alpha, 1e-12, 1, NULL,
     "with weights of each rank: how far an exchange moves them towards the "
     "centre, as a part of their distance (default 0.9 / tau / ranks that work)"},
    {0, "rho", "R", OPTION_NUMBER, &o.rho, 0, 1e6, NULL,
     "parameter-server: add R times the distance from the centre that a worker "
     "saw last to each of its gradients (default 0)"},
    {0, "centre", "HOW", OPTION_TEXT, &o.centre, 0, 0,
     "replicated|sharded|hierarchical",
     "decentralized-easgd: every rank has the centre (default); each a part of "
     "it; or all, with sums by level of the network"},
    {0, "exchange", "HOW", OPTION_TEXT, &o.exchange, 0, 0,
     "auto|packed|layers|buckets|priority",
     "how gradients travel: packed as one vector, by layers, in buckets that "
     "travel while the layers before them work, or by priority also under the "
     "next forward, what it needs first going first (default auto: packed on "
     "one host, else buckets or priority)"},
    {0, "bucket", "BYTES", OPTION_BYTES, &o.bucket, 1, 1e15, NULL,
     "exchange buckets: start one when so much is ready; priority: length of a "
     "piece (default: chosen by the model, corrected by what is measured)"},
    {0, "factors", "HOW", OPTION_TEXT, &o.factors, 0, 0, "auto|on|off",
     "strategy sync: dense layers' gradients are products of few rows, which "
     "ranks exchange in their place, and weights move by tiles of them; on, off, "
     "or where that is faster (default auto)"},
    {0, "wire", "HOW", OPTION_TEXT, &o.wire, 0, 0, "f32|bf16|int8|topk",
     "strategy sync, gradients between hosts: f32 (default), bf16, int8 with a "
     "scale for each 256, or the largest of them only, where a trial finds that "
     "to take less time than f32; sums are f32"},
    {0, "wire-always", NULL, OPTION_FLAG, &o.wire_always, 0, 0, NULL,
     "wire bf16, int8 and topk: also where a trial would find f32 faster, but not "
     "inside a host; --deterministic implies it"},
    {0, "top", "PERCENT", OPTION_NUMBER, &o.top, 1e-6, 100, NULL,
     "wire topk: how many of the gradients travel in a step (default 1)"},
    {0, "delay", "RANK:MS", OPTION_TEXT, &o.delay, 0, 0, NULL,
     "let a rank sleep so long in each of its steps, to see what that does"},
    {0, "shard-optimizer", NULL, OPTION_FLAG, &o.shard, 0, 0, NULL,
     "strategy sync: each rank has its part of the optimiser's state, updates its "
     "part of the weights, and all exchange these"},
    {0, "seed", "N", OPTION_INT, &o.seed, 0, 9.3e18, NULL,
     "seed of weights, order of images, dropout, --augment (default 1)"},
    {0, "deterministic", NULL, OPTION_FLAG, &o.deterministic, 0, 0, NULL,
     "the same bits in every run with as many ranks on as many hosts, on any "
     "number of threads; with as many, on one host always so, but for --kernel "
     "measured and servers that take what comes first"},
    {0, "threads", "N", OPTION_INT, &o.threads, 1, 1024, NULL,
     "threads per rank (default 1)"},
    {0, "bind", "HOW", OPTION_TEXT, &o.bind, 0, 0, "core|none",
     "threads, where a rank has several, on a core each (default core)"},
    {0, "partition", NULL, OPTION_FLAG, &o.partition, 0, 0, NULL,
     "a rank for each NUMA node, with weights and images of its own in the "
     "node's memory; an error where they do not fit"},
    {0, "prefetch", "HOW", OPTION_TEXT, &o.prefetch, 0, 0, "auto|on|off",
     "a thread reads the next images while these are learnt (default auto: "
     "where the first steps show that it helps)"},
    {0, "precision", "NAME", OPTION_TEXT, &o.precision, 0, 0,
     "f32|bf16",
     "operands of convolutions, and with AMX outputs of layers (default f32); "
     "bf16 needs AVX512-BF16 or AMX to be fast"},
    {0, "kernel", "NAME", OPTION_TEXT, &o.kernel, 0, 0, NULL,
     "how to convolve: auto (default, by rule), measured (timed once on a "
     "machine), direct, gemm, winograd, strassen"},
    {0, "checkpoint", "FILE", OPTION_TEXT, &o.checkpoint, 0, 0, NULL,
     "write the state of training there after each epoch"},
    {0, "checkpoint-every", "N", OPTION_INT, &o.checkpoint_every, 1, 1e12,
     NULL, "and also every N steps"},
    {0, "test-every", "N", OPTION_INT, &o.test_every, 1, 1e12, NULL,
     "evaluate also every N steps"},
    {0, "resume", "[FILE]", OPTION_TEXT, &o.resume, 0, 0, NULL,
     "go on from FILE; without it, from --checkpoint's file if that exists"},
    {0, "log", "FILE", OPTION_TEXT, &o.log, 0, 0, NULL,
     "write one JSON object per step there"},
    {0, "plot", "FILE", OPTION_TEXT, &o.plot, 0, 0, NULL,
     "draw loss, accuracy and learning rate there (PNG)"},
    {0, "breakdown", NULL, OPTION_FLAG, &o.breakdown, 0, 0, NULL,
     "print where the time of all ranks went, in eight parts"},
    {0, "profile", NULL, OPTION_FLAG, &o.profile, 0, 0, NULL,
     "print the time of each layer and part of a step, and the memory"},
    {0, "trace", "FILE", OPTION_TEXT, &o.trace, 0, 0, NULL,
     "write there what this run's steps 2 to 6 did when, for Perfetto"},
};

static const struct option_row eval_rows[] = {
    {0, "checkpoint", "FILE", OPTION_TEXT, &o.checkpoint, 0, 0, NULL,
     "file that training wrote"},
    {0, "data", "NAME[:PATH]", OPTION_TEXT, &o.data, 0, 0, NULL,
     "data set whose test images to use (default fashion-mnist)"},
    {0, "predict", "FILE", OPTION_TEXT, &o.predict, 0, 0, NULL,
     "write the probability of each class there, for each image (CSV)"},
    {0, "batch", "N", OPTION_INT, &o.batch, 1, 1 << 20, NULL,
     "images per rank at a time (default 64)"},
    {0, "threads", "N", OPTION_INT, &o.threads, 1, 1024, NULL,
     "threads per rank (default 1)"},
    {0, "bind", "HOW", OPTION_TEXT, &o.bind, 0, 0, "core|none",
     "threads, where a rank has several, on a core each (default core)"},
};

static const struct option_row export_rows[] = {
    {0, "checkpoint", "FILE", OPTION_TEXT, &o.checkpoint, 0, 0, NULL,
     "file that training wrote"},
    {0, "safetensors", "FILE", OPTION_TEXT, &o.safetensors, 0, 0, NULL,
     "file to write the weights to"},
};

#define COUNT(rows) (int)(sizeof(rows) / sizeof(rows[0]))

const struct program train_program = {
    "coll_train",
    "coll_train [OPTIONS] [JOB.yaml]\n"
    "coll_train eval --checkpoint FILE [--data NAME[:PATH]] [--predict FILE]\n"
    "coll_train export --checkpoint FILE --safetensors FILE",
    "Trains a convolutional net, under collrun with all ranks of a job. A job\n"
    "file holds options as \"name: value\" lines; the command line wins.",
    train_rows, COUNT(train_rows),
    "Example:\n  collrun -n 2 coll_train --net lenet --data fashion-mnist "
    "--epochs 2",
    job_place,
};
const struct program eval_program = {
    "coll_train eval", "coll_train eval --checkpoint FILE [OPTIONS]",
    "Says how well a trained net does on a test set.", eval_rows,
    COUNT(eval_rows), NULL, NULL,
};
const struct program export_program = {
    "coll_train export",
    "coll_train export --checkpoint FILE --safetensors FILE",
    "Writes the weights of a checkpoint in safetensors format.", export_rows,
    COUNT(export_rows), NULL, NULL,
};

/* "--resume" may stand alone, which option tables do not know: it becomes
 * "--resume=", and "--resume FILE" becomes "--resume=FILE". A job file behind
 * it is none to resume from. */
static int join_resume(int argc, char **argv)
{
    int kept = 0;
    for (int i = 0; i < argc; i++) {
        const char *file = i + 1 < argc ? argv[i + 1] : "-";
        const size_t length = strlen(file);
        const bool job = length > 5 && !strcmp(file + length - 5, ".yaml");
        if (strcmp(argv[i], "--resume")) {
            argv[kept++] = argv[i];
            continue;
        }
        const bool alone = file[0] == '-' || job;
        char *word = malloc(length + 16);
        if (!word)
            abort();
        sprintf(word, "--resume=%s", alone ? "" : file);
        argv[kept++] = word;
        i += !alone;
    }
    argv[kept] = NULL;
    return kept;
}

/* What was no option and no command is a job file, or should be. */
static void read_job(const char *path)
{
    static const char *const commands[] = {"eval", "export"};
    char error[2560];
    const char *near =
        access(path, F_OK) ? nearest_name(path, commands, 2) : NULL;
    if (near)
        options_die(&train_program,
                    "found \"%s\", valid are a job file, eval and export; did "
                    "you mean %s?",
                    path, near);
    if (job_read(path, train_rows, COUNT(train_rows), error, sizeof(error)))
        options_die(&train_program, "%s", error);
}

/* The command line's own errors are its, whatever the file says. */
static void say_again(char **words)
{
    for (; *words; words++) {
        char name[64];
        if (!strncmp(*words, "--", 2)) {
            snprintf(name, sizeof(name), "%.*s",
                     (int)strcspn(*words + 2, "="), *words + 2);
            job_said_again(name);
        }
    }
}

/* Options may follow from a job file; those of the command line are parsed
 * again so that they win. */
const struct options *parse_train(int argc, char **argv)
{
    int noperands;
    argc = join_resume(argc, argv);
    /* Options point at the words, so they stay; parsing drops some. */
    static char **words;
    words = calloc(2 * (size_t)argc + 1, sizeof(*words));
    for (int i = 0; i < argc; i++)
        if (!words || !(words[i] = strdup(argv[i])))
            abort();
    char **again = words + argc;
    memcpy(again, words, (size_t)argc * sizeof(*words));
    options_parse(&train_program, argc, argv, &noperands, false);
    if (noperands > 1)
        options_die(&train_program, "found \"%s\", valid is one job file",
                    argv[2]);
    if (noperands == 1) {
        read_job(argv[1]);
        say_again(again);
        options_parse(&train_program, argc, again, &noperands, false);
    }
    return &o;
}

static void no_operands(const struct program *p, int argc, char **argv)
{
    int noperands;
    options_parse(p, argc, argv, &noperands, false);
    if (noperands)
        options_die(p, "found \"%s\", valid are options only", argv[1]);
}

const struct options *parse_eval(int argc, char **argv)
{
    no_operands(&eval_program, argc, argv);
    return &o;
}

const struct options *parse_export(int argc, char **argv)
{
    no_operands(&export_program, argc, argv);
    return &o;
}
