/* SPDX-License-Identifier: MIT */
/* The recorder's files, written and read in one process, and damaged. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/trace_job.h"
#include "random.h"

enum { FILE_BYTES = sizeof(struct record_file) };

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/trace_file_test.XXXXXX");
    cr_assert(mkdtemp(folder));
    setenv("COLL_RECORDER", folder, 1);
}

static int clean_folder(bool removes)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            if (removes)
                unlinkat(dirfd(d), e->d_name, 0);
            n++;
        }
    closedir(d);
    if (removes)
        rmdir(folder);
    return n;
}

/* An allreduce of `count` f64 begins. */
static void write_one(struct recorder *d, uint64_t count)
{
    struct record *e = record_next(&d->calls);
    called_set(&e->called, ALLREDUCE, COLL_F64, COLL_SUM, 0, count);
    e->tag = (uint32_t)count;
    e->how = record_how(1, 0, 0);
    record_publish(&d->calls, 0, COLL_OK, record_ticks(d->counts), 0);
}

/* A receive of `count` f64 from rank 3, which waits. */
static void write_message(struct recorder *d, uint64_t count)
{
    struct record *e = record_next(&d->messages);
    called_set(&e->called, CALLED_RECV, COLL_F64, COLL_SUM, 3, count);
    e->tag = 5;
    e->how = record_how(RECORD_NO_ALGO, 0, 0);
    record_publish(&d->messages, 0, COLL_OK, record_ticks(d->counts), 0);
}

static void open_one(struct recorder *d, int rank)
{
    cr_assert_eq(recorder_init(d), COLL_OK);
    recorder_open(d, &(struct record_job){.rank = rank,
                                          .nranks = 4,
                                          .job = 77,
                                          .machine = 5,
                                          .host = "here"});
    cr_assert(d->path, "no file in %s", folder);
}

static size_t load(const char *path, unsigned char *bytes)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file);
    const size_t n = fread(bytes, 1, FILE_BYTES, file);
    fclose(file);
    return n;
}

Test(trace_file, the_ring_keeps_the_last_operations)
{
    char error[TRACE_ERROR], call[TRACE_CALL];
    struct recorder d;
    struct trace_file f;
    make_folder();
    open_one(&d, 1);
    for (uint32_t i = 1; i <= RECORD_RING + 100; i++) {
        write_one(&d, i);
        record_end(&d, COLL_OK);
    }
    write_one(&d, 3); /* under way */
    cr_assert(trace_file_read(&f, d.path, error), "%s", error);
    /* All but the one that the next one would be written over. */
    cr_assert_eq(f.n, RECORD_RING - 1);
    cr_assert_eq(f.records[0].number, 103);
    for (size_t i = 0; i + 1 < f.n; i++) {
        const struct record *r = &f.records[i];
        cr_assert(r->number == 103 + i && r->called.count == r->number);
        cr_assert(r->ended >= r->begun && r[1].begun >= r->ended);
    }
    cr_assert_eq(f.records[f.n - 1].ended, 0);
    cr_assert_str_eq(trace_call(&f, &f.records[f.n - 1], call),
                     "allreduce of 3 f64, sum");
    cr_assert_eq(f.header.rank, 1);
    trace_file_free(&f);
    recorder_close(&d, false);
    cr_assert_eq(clean_folder(true), 0);
}

/* A second of the clock is one of the trace. */
Test(trace_file, ticks_become_nanoseconds)
{
    char error[TRACE_ERROR];
    struct recorder d;
    struct trace_file f;
    make_folder();
    open_one(&d, 0);
    write_one(&d, 1);
    const uint64_t from = record_nanoseconds(CLOCK_MONOTONIC);
    while (record_nanoseconds(CLOCK_MONOTONIC) < from + 20000000)
        ;
    record_end(&d, COLL_OK);
    const uint64_t to = record_nanoseconds(CLOCK_MONOTONIC);
    recorder_note(&d);
    cr_assert(trace_file_read(&f, d.path, error), "%s", error);
    const double begun = trace_time(&f, f.records[0].begun),
                 ended = trace_time(&f, f.records[0].ended);
    cr_assert(begun <= (double)from + 1e4 && ended <= (double)to + 1e4
                  && ended - begun > 19.9e6,
              "%f to %f for %lu to %lu", begun, ended, (unsigned long)from,
              (unsigned long)to);
    const double seconds =
        recorder_seconds(&d, f.records[0].ended - f.records[0].begun);
    cr_assert(seconds > .0199 && seconds < 1e-9 * (double)(to - from) + 1e-4,
              "%f s", seconds);
    trace_file_free(&f);
    recorder_close(&d, false);
    clean_folder(true);
}

static size_t example(unsigned char *bytes)
{
    struct recorder d;
    make_folder();
    open_one(&d, 2);
    for (uint32_t i = 1; i <= 60; i++) {
        write_one(&d, i);
        record_end(&d, COLL_OK);
    }
    for (uint64_t i = 1; i <= 20; i++)
        write_message(&d, i);
    recorder_fail(&d, COLL_ERR_PEER, "rank 3 is no more");
    recorder_note(&d);
    const size_t n = load(d.path, bytes);
    recorder_close(&d, false);
    clean_folder(true);
    cr_assert_eq(n, FILE_BYTES);
    return n;
}

Test(trace_file, what_changes_between_two_looks_is_left_out)
{
    static unsigned char bytes[FILE_BYTES], later[FILE_BYTES];
    char error[TRACE_ERROR];
    struct trace_file f;
    const size_t n = example(bytes);
    memcpy(later, bytes, n);
    later[RECORD_HEADER_BYTES + 4 * sizeof(struct record)]++;
    cr_assert(trace_file_parse(&f, "x", bytes, later, n, error), "%s", error);
    cr_assert_eq(f.n, 59);
    cr_assert_eq(f.records[3].number, 5);
    cr_assert_eq(f.nmessages, 20);
    cr_assert_str_eq(f.header.sentence, "rank 3 is no more");
    trace_file_free(&f);
}

Test(trace_file, every_shorter_file_says_why)
{
    static unsigned char bytes[FILE_BYTES];
    char error[TRACE_ERROR];
    struct trace_file f;
    const size_t whole = example(bytes);
    for (size_t n = 0; n < whole; n += n < 9000 ? 1 : 997) {
        error[0] = '\0';
        cr_assert(!trace_file_parse(&f, "x", bytes, bytes, n, error),
                  "%zu bytes are taken for a file", n);
        cr_assert(!strncmp(error, "x: ", 3) && strlen(error) > 9, "%s", error);
        trace_file_free(&f);
    }
}

/* Half of the changes in the header, the others in the records that there are,
 * or anywhere. */
static void mutate(unsigned char *bytes, size_t n, uint64_t seed)
{
    const size_t header = sizeof(struct record_header) - RECORD_SENTENCE;
    const uint64_t times = 1 + random_below(seed, 0, 6);
    for (uint64_t i = 1; i <= times; i++) {
        const uint64_t where = random_below(seed, 3 * i, 6);
        const size_t from = where == 3 ? RECORD_HEADER_BYTES
                            : where == 4
                                ? offsetof(struct record_file, messages)
                                : 0;
        const size_t reach = where < 3    ? header
                             : where == 3 ? 60 * sizeof(struct record)
                             : where == 4 ? 20 * sizeof(struct record)
                                          : n;
        const uint64_t value = random_u64(seed, 3 * i + 1);
        bytes[from + random_below(seed, 3 * i + 2, (uint32_t)reach)] =
            (unsigned char)(value & 256   ? value
                            : value & 512 ? 255
                                          : 0);
    }
}

Test(trace_file, mutated_files_are_read_or_say_why, .timeout = 60)
{
    static unsigned char bytes[FILE_BYTES], good[FILE_BYTES];
    char error[TRACE_ERROR];
    const size_t n = example(good);
    int read = 0;
    FILE *const console = stdout;
    stdout = fopen("/dev/null", "w");
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct trace_file f, other;
        struct trace_file *both[] = {&f, &other};
        struct trace_job j;
        memcpy(bytes, good, n);
        mutate(bytes, n, seed);
        cr_assert(trace_file_parse(&other, "y", good, good, n, error));
        other.header.rank = 3;
        error[0] = '\0';
        if (trace_file_parse(&f, "x", bytes, bytes, n, error)) {
            read++;
            cr_assert(trace_job_make(&j, both, 2));
            trace_verdict(&j);
            trace_job_free(&j);
        } else {
            cr_assert(!strncmp(error, "x: ", 3) && strlen(error) > 9,
                      "seed %lu: %s", (unsigned long)seed, error);
        }
        trace_file_free(&f);
        trace_file_free(&other);
    }
    fclose(stdout);
    stdout = console;
    cr_assert(read > 300 && read < 2900, "%d were read", read);
}

/* --- clocks and divergence -------------------------------------------------
 */

/* A rank of a machine whose clock is so many ns ahead: 20 allreduces, of which
 * this rank begins each `late` ns after the first one would. */
static void make_up(struct trace_file *f, int rank, uint64_t machine,
                    int64_t ahead, int64_t late)
{
    static char allreduce[] = "allreduce";
    *f = (struct trace_file){.n = 20, .ns_per_tick = 1};
    f->header.rank = rank;
    f->header.nranks = 2;
    f->header.machine = machine;
    f->header.first.real_ns = 1000000 * rank; /* the dates are wrong */
    f->records = calloc(f->n, sizeof(*f->records));
    f->table[RECORD_KINDS] = malloc(sizeof(char *));
    f->table[RECORD_KINDS][0] = allreduce;
    f->entries[RECORD_KINDS] = 1;
    for (int i = 0; i < 20; i++)
        f->records[i] = (struct record){
            .number = (uint64_t)i + 1,
            .called = {.what = 1ull << 48, .count = 1},
            .begun = (uint64_t)(50000 * (i + 1) + ahead + late),
            .ended = (uint64_t)(50000 * (i + 1) + ahead + 3000),
        };
}

Test(trace_job, clocks_of_machines_align_by_operations)
{
    struct trace_file a, b;
    struct trace_file *both[] = {&b, &a}; /* in any order */
    struct trace_job j;
    make_up(&a, 0, 1, 0, 1000);
    make_up(&b, 1, 2, 777000, 2000);
    cr_assert(trace_job_make(&j, both, 2));
    const struct trace_clock *c = &j.clocks[1];
    cr_assert(j.nmachines == 2 && c->matched);
    cr_assert(c->offset_ns + 777000 <= c->doubt_ns
                  && c->offset_ns + 777000 >= -c->doubt_ns,
              "%f +- %f", c->offset_ns, c->doubt_ns);
    cr_assert_lt(c->doubt_ns, 3001);
    trace_job_free(&j);
    a.records[0].tag = 9; /* of the operation that differs */
    cr_assert(trace_job_make(&j, both, 2));
    FILE *const console = stdout;
    stdout = fopen("/dev/null", "w");
    cr_assert(trace_verdict(&j));
    fclose(stdout);
    stdout = console;
    trace_job_free(&j);
    trace_file_free(&a);
    trace_file_free(&b);
}

Test(trace_job, without_common_operations_dates_serve)
{
    struct trace_file a, b;
    struct trace_file *both[] = {&a, &b};
    struct trace_job j;
    make_up(&a, 0, 1, 0, 1000);
    make_up(&b, 1, 2, 0, 1000);
    for (size_t i = 0; i < b.n; i++)
        b.records[i].number += 100;
    cr_assert(trace_job_make(&j, both, 2));
    cr_assert(!j.clocks[1].matched);
    cr_assert_float_eq(j.clocks[1].offset_ns, 1e6, 1);
    trace_job_free(&j);
    trace_file_free(&a);
    trace_file_free(&b);
}

/* --- the folder ------------------------------------------------------------
 */

static void put_old(int i, long seconds)
{
    char path[128];
    const struct timespec at[2] = {{.tv_sec = time(NULL) - seconds},
                                   {.tv_sec = time(NULL) - seconds}};
    snprintf(path, sizeof(path), "%s/coll-%016x-0-%d.rec", folder, i, i + 1);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fclose(file);
    cr_assert_eq(utimensat(AT_FDCWD, path, at, 0), 0);
}

Test(record_folder, old_files_of_the_dead_do_not_pile_up)
{
    struct recorder d;
    int ready[2], done[2];
    char byte;
    make_folder();
    cr_assert(pipe(ready) == 0 && pipe(done) == 0);
    const pid_t other = fork();
    if (other == 0) { /* lives, and has not written for ten days */
        open_one(&d, 3);
        const struct timespec at[2] = {{.tv_sec = time(NULL) - 864000},
                                       {.tv_sec = time(NULL) - 864000}};
        utimensat(AT_FDCWD, d.path, at, 0);
        cr_assert(write(ready[1], "x", 1) == 1);
        cr_assert(read(done[0], &byte, 1) == 1);
        _exit(0);
    }
    cr_assert(read(ready[0], &byte, 1) == 1);
    for (int i = 0; i < 300; i++)
        put_old(i, i < 20 ? 700000 : 5000 - i);
    char path[128];
    snprintf(path, sizeof(path), "%s/coll-something-else.rec", folder);
    fclose(fopen(path, "w"));
    record_clean(folder);
    /* The one that lives, 255 of the dead, and what is no record. */
    cr_assert_eq(clean_folder(false), 257);
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "%s/coll-%016x-0-%d.rec", folder, i,
                 i + 1);
        cr_assert_eq(access(path, F_OK) == 0, i >= 45, "file %d", i);
    }
    cr_assert(write(done[1], "x", 1) == 1);
    waitpid(other, NULL, 0);
    clean_folder(true);
}
