/* SPDX-License-Identifier: MIT */
/* Checkpoints, and every way in which one can be wrong. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <zlib.h>

#include "folder.h"
#include "net/checkpoint.h"
#include "random.h"

enum { NPARAMS = 61, NOPTIM = 61, NRANKS = 3 };

/* Of ranks that have floats of their own. */
static const uint64_t counts[NRANKS] = {20, 0, 13};

static float numbers[NPARAMS + NOPTIM];
static char net[] = "net tiny\ninput 1x4x4\ndense 10\nsoftmax_loss\n";

static struct checkpoint example(float first, uint32_t nranks)
{
    struct checkpoint c = {
        .state = {.step = 12,
                  .epoch = 3,
                  .seed = 1,
                  .images = 50,
                  .global_batch = 8,
                  .nranks = 2,
                  .lr = 0.1,
                  .schedule = "fixed",
                  .optimiser = "sgd",
                  .strategy = "sync",
                  .data = "mnist"},
        .text = net,
        .params = numbers,
        .optim = numbers + NPARAMS,
        .nparams = NPARAMS,
        .noptim = NOPTIM,
        .nranks = nranks,
    };
    for (int i = 0; i < NPARAMS + NOPTIM; i++)
        numbers[i] = first + (float)i;
    return c;
}

/* Rank r's are numbers + r, ..., in two parts. */
static int save(const char *path, const struct checkpoint *c, char *error)
{
    struct checkpoint_file f;
    if (checkpoint_begin(&f, path, c, counts, error, 512))
        return -1;
    for (int r = 0; r < (int)c->nranks; r++) {
        const size_t half = counts[r] / 3;
        checkpoint_add(&f, r, numbers + r, half);
        checkpoint_add(&f, r, numbers + r + half, counts[r] - half);
    }
    return checkpoint_commit(&f, error, 512);
}

static int read_as(int rank, const char *path, char *error)
{
    struct checkpoint c;
    error[0] = '\0';
    const int failed = checkpoint_read(&c, path, rank, error, 512);
    cr_assert(failed || !error[0]);
    cr_assert(!failed || (strstr(error, path) && !strchr(error, '\n')));
    checkpoint_free(&c);
    return failed;
}

/* Of any rank. */
static int read_error(const char *path, char *error)
{
    for (int rank = -1; rank < NRANKS; rank++)
        if (read_as(rank, path, error))
            return -1;
    return 0;
}

static void expect_first(const char *path, float first, uint32_t nranks)
{
    struct checkpoint c, good = example(first, nranks);
    char error[512];
    for (int r = 0; r <= NRANKS; r++) {
        const bool has = r < (int)nranks;
        cr_assert_eq(checkpoint_read(&c, path, r, error, 512), 0, "%s", error);
        cr_assert_eq(c.nranks, nranks);
        cr_assert_eq(c.own != NULL, has);
        cr_assert_eq(c.nown, has ? counts[r] : 0);
        cr_assert(!has || !memcmp(c.own, numbers + r, c.nown * sizeof(float)));
        checkpoint_free(&c);
    }
    cr_assert_eq(checkpoint_read(&c, path, -1, error, 512), 0, "%s", error);
    cr_assert(!c.own);
    cr_assert_str_eq(c.text, good.text);
    cr_assert(!memcmp(&c.state, &good.state, sizeof(c.state)));
    cr_assert(c.nparams == NPARAMS && c.noptim == NOPTIM);
    cr_assert(!memcmp(c.params, good.params, NPARAMS * sizeof(float)));
    cr_assert(!memcmp(c.optim, good.optim, NOPTIM * sizeof(float)));
    checkpoint_free(&c);
}

Test(checkpoint, comes_back_as_it_was)
{
    struct folder f;
    char error[512];
    folder_make(&f, "");
    for (uint32_t nranks = 0; nranks <= NRANKS; nranks += NRANKS) {
        const struct checkpoint c = example(1, nranks);
        cr_assert_eq(save(file_in(&f, "c"), &c, error), 0, "%s", error);
        expect_first(file_in(&f, "c"), 1, nranks);
    }
    folder_clean(&f, "c", "d", NULL);
}

/* So that mutations get past the checksum, which knows nothing of the ranks'
 * floats before the table at the end. */
static void repair_crc(unsigned char *bytes, size_t count, uint32_t nranks)
{
    const size_t table = nranks * (size_t)16,
                 floats = nranks ? (20 + 0 + 13) * sizeof(float) : 0;
    memset(bytes + 68, 0, 4);
    uLong crc = crc32_z(0, bytes, count - table - floats);
    crc = crc32_z(crc, bytes + count - table, table);
    const uint32_t word = (uint32_t)crc;
    memcpy(bytes + 68, &word, 4);
}

/* Version 3 is version 4 without ranks' floats. */
Test(checkpoint, reads_version_3_and_no_other)
{
    unsigned char bytes[4096];
    struct folder f;
    char error[512];
    folder_make(&f, "");
    const struct checkpoint c = example(1, 0);
    cr_assert_eq(save(file_in(&f, "c"), &c, error), 0);
    const size_t count = get(file_in(&f, "c"), bytes, sizeof(bytes));
    for (unsigned char version = 0; version < 8; version++) {
        bytes[8] = version;
        repair_crc(bytes, count, 0);
        put(file_in(&f, "c"), bytes, count);
        if (version == 3 || version == 4) {
            expect_first(file_in(&f, "c"), 1, 0);
            continue;
        }
        cr_assert(read_as(-1, file_in(&f, "c"), error));
        cr_assert(strstr(error, "valid are 3 and 4"), "%s", error);
    }
    folder_clean(&f, "c", "d", NULL);
}

static void refuse_damage(uint32_t nranks)
{
    unsigned char bytes[4096];
    char error[512];
    struct folder f;
    folder_make(&f, "");
    const struct checkpoint c = example(1, nranks);
    cr_assert_eq(save(file_in(&f, "c"), &c, error), 0);
    const size_t count = get(file_in(&f, "c"), bytes, sizeof(bytes));
    for (size_t i = 0; i < count; i += i < 72 || nranks ? 1 : 7) {
        const unsigned char bit = (unsigned char)(1 << i % 8);
        bytes[i] ^= bit;
        put(file_in(&f, "c"), bytes, count);
        cr_assert(read_error(file_in(&f, "c"), error), "byte %zu", i);
        bytes[i] ^= bit;
    }
    for (size_t n = 0; n < count; n++) {
        put(file_in(&f, "c"), bytes, n);
        cr_assert(read_error(file_in(&f, "c"), error), "%zu bytes", n);
    }
    put(file_in(&f, "c"), bytes, count + 1);
    cr_assert(read_error(file_in(&f, "c"), error));
    put(file_in(&f, "c"), bytes, count);
    expect_first(file_in(&f, "c"), 1, nranks);
    cr_assert(read_error(f.path, error));
    cr_assert(strstr(error, "a folder"));
    folder_clean(&f, "c", "d", NULL);
}

Test(checkpoint, refuses_every_damage)
{
    refuse_damage(0);
}

Test(checkpoint, some_rank_refuses_every_damage)
{
    refuse_damage(NRANKS);
}

Test(checkpoint, stays_when_the_next_cannot_be_written)
{
    struct folder f;
    char error[512];
    folder_make(&f, "");
    struct checkpoint c = example(1, NRANKS);
    cr_assert_eq(save(file_in(&f, "c"), &c, error), 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {100, RLIM_INFINITY},
                        any = {RLIM_INFINITY, RLIM_INFINITY};
    c = example(2, NRANKS);
    setrlimit(RLIMIT_FSIZE, &small); /* as a full disk */
    const int failed = save(file_in(&f, "c"), &c, error);
    setrlimit(RLIMIT_FSIZE, &any);
    cr_assert_eq(failed, -1);
    cr_assert(strstr(error, "cannot write: File too large"), "%s", error);
    expect_first(file_in(&f, "c"), 1, NRANKS);
    cr_assert_eq(save("/nowhere/c", &c, error), -1);
    cr_assert(strstr(error, "/nowhere/c: cannot write: No such"), "%s", error);
    folder_clean(&f, "c", "d",
                 NULL); /* which finds any temporary file that is left */
}

static void survive_damage(uint32_t nranks)
{
    unsigned char good[4096], bytes[4096];
    char error[512];
    struct folder f;
    int accepted = 0;
    folder_make(&f, "");
    const struct checkpoint c = example(1, nranks);
    cr_assert_eq(save(file_in(&f, "c"), &c, error), 0);
    const size_t count = get(file_in(&f, "c"), good, sizeof(good));
    for (uint64_t seed = 1; seed <= MUTATIONS; seed++) {
        memcpy(bytes, good, count);
        size_t n = mutate(bytes, count, seed);
        if (seed % 8 == 0)
            for (size_t i = 0; i < count; i++)
                bytes[i] = (unsigned char)random_u64(seed, i);
        if (n >= 1024 && seed % 2)
            repair_crc(bytes, n, nranks);
        put(file_in(&f, "d"), bytes, n);
        accepted += !read_error(file_in(&f, "d"), error);
    }
    cr_assert(accepted < MUTATIONS / 2);
    folder_clean(&f, "c", "d", NULL);
}

Test(checkpoint, survives_random_damage)
{
    survive_damage(0);
    survive_damage(NRANKS);
}
