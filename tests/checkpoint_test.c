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

enum { NPARAMS = 61, NOPTIM = 61 };

static float numbers[NPARAMS + NOPTIM];
static char net[] = "net tiny\ninput 1x4x4\ndense 10\nsoftmax_loss\n";

static struct checkpoint example(float first)
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
    };
    for (int i = 0; i < NPARAMS + NOPTIM; i++)
        numbers[i] = first + (float)i;
    return c;
}

static int read_error(const char *path, char *error)
{
    struct checkpoint c;
    error[0] = '\0';
    const int failed = checkpoint_read(&c, path, error, 512);
    cr_assert(failed || !error[0]);
    cr_assert(!failed || (strstr(error, path) && !strchr(error, '\n')));
    checkpoint_free(&c);
    return failed;
}

static void expect_first(const char *path, float first)
{
    struct checkpoint c, good = example(first);
    char error[512];
    cr_assert_eq(checkpoint_read(&c, path, error, 512), 0, "%s", error);
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
    const struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    expect_first(file_in(&f, "c"), 1);
    folder_clean(&f, "c", "d", NULL);
}

Test(checkpoint, refuses_every_damage)
{
    unsigned char bytes[4096];
    char error[512];
    struct folder f;
    folder_make(&f, "");
    const struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    const size_t count = get(file_in(&f, "c"), bytes, sizeof(bytes));
    for (size_t i = 0; i < count; i += i < 64 ? 1 : 7) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            put(file_in(&f, "c"), bytes, count);
            cr_assert(read_error(file_in(&f, "c"), error), "byte %zu", i);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    }
    for (size_t n = 0; n < count; n++) {
        put(file_in(&f, "c"), bytes, n);
        cr_assert(read_error(file_in(&f, "c"), error), "%zu bytes", n);
    }
    put(file_in(&f, "c"), bytes, count + 1);
    cr_assert(read_error(file_in(&f, "c"), error));
    put(file_in(&f, "c"), bytes, count);
    expect_first(file_in(&f, "c"), 1);
    cr_assert(read_error(f.path, error));
    cr_assert(strstr(error, "a folder"));
    folder_clean(&f, "c", "d", NULL);
}

Test(checkpoint, stays_when_the_next_cannot_be_written)
{
    struct folder f;
    char error[512];
    folder_make(&f, "");
    struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {100, RLIM_INFINITY},
                        any = {RLIM_INFINITY, RLIM_INFINITY};
    c = example(2);
    setrlimit(RLIMIT_FSIZE, &small); /* as a full disk */
    const int failed = checkpoint_write(file_in(&f, "c"), &c, error, 512);
    setrlimit(RLIMIT_FSIZE, &any);
    cr_assert_eq(failed, -1);
    cr_assert(strstr(error, "cannot write: File too large"), "%s", error);
    expect_first(file_in(&f, "c"), 1);
    cr_assert_eq(checkpoint_write("/nowhere/c", &c, error, 512), -1);
    cr_assert(strstr(error, "/nowhere/c: cannot write: No such"), "%s", error);
    folder_clean(&f, "c", "d",
                 NULL); /* which finds any temporary file that is left */
}

/* So that mutations get past the checksum. */
static void repair_crc(unsigned char *bytes, size_t count)
{
    memset(bytes + 60, 0, 4);
    const uint32_t crc = (uint32_t)crc32_z(0, bytes, count);
    memcpy(bytes + 60, &crc, 4);
}

Test(checkpoint, survives_random_damage)
{
    unsigned char good[4096], bytes[4096];
    char error[512];
    struct folder f;
    int accepted = 0;
    folder_make(&f, "");
    const struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    const size_t count = get(file_in(&f, "c"), good, sizeof(good));
    for (uint64_t seed = 1; seed <= MUTATIONS; seed++) {
        memcpy(bytes, good, count);
        size_t n = mutate(bytes, count, seed);
        if (seed % 8 == 0)
            for (size_t i = 0; i < count; i++)
                bytes[i] = (unsigned char)random_u64(seed, i);
        if (n >= 64 && seed % 2)
            repair_crc(bytes, n);
        put(file_in(&f, "d"), bytes, n);
        accepted += !read_error(file_in(&f, "d"), error);
    }
    cr_assert(accepted < MUTATIONS / 2);
    folder_clean(&f, "c", "d", NULL);
}
