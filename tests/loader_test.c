/* SPDX-License-Identifier: MIT */
/* Images come in the same order whoever reads them, every one once an epoch,
 * and a slow reader is hidden behind those who train. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "loader.h"
#include "random.h"

/* Image i has the number i, and takes so long to read. */
struct pace {
    double seconds;
    bool busy; /* keeps a processor at work meanwhile */
    size_t damaged; /* this image; 0: none */
};

static void spend(struct pace pace)
{
    const double end = clock_now() + pace.seconds;
    const struct timespec t = {0, (long)(pace.seconds * 1e9)};
    if (!pace.busy && pace.seconds > 0)
        nanosleep(&t, NULL);
    while (pace.busy && clock_now() < end)
        ;
}

static int read_number(const struct dataset *d, size_t index, float *image,
                       int *label, char *error, size_t error_bytes)
{
    const struct pace *pace = d->own;
    spend(*pace);
    if (pace->damaged && index == pace->damaged) {
        snprintf(error, error_bytes, "number %zu is damaged", index);
        return -1;
    }
    image[0] = (float)index;
    image[1] = -1;
    *label = (int)index % 10;
    return 0;
}

static int read_changed(const struct dataset *d, size_t index, uint64_t seed,
                        float *image, int *label, char *error,
                        size_t error_bytes)
{
    const int failed = read_number(d, index, image, label, error, error_bytes);
    image[1] = random_unit(seed, 0);
    return failed;
}

static const struct dataset_ops numbers = {
    .name = "numbers",
    .read = read_number,
    .read_augmented = read_changed,
};

static struct dataset dataset(size_t count, struct pace *pace)
{
    return (struct dataset){
        .ops = &numbers,
        .image = {1, 1, 1, 2},
        .count = count,
        .nclasses = 10,
        .own = pace
    };
}

static struct loader_settings settings(const struct dataset *d, int rank,
                                       int nranks, int batch, long epochs)
{
    const long steps = sampler_steps(d->count, (long)nranks * batch);
    return (struct loader_settings){.data = d,
                                    .seed = 5,
                                    .rank = rank,
                                    .nranks = nranks,
                                    .batch = batch,
                                    .epoch_steps = steps,
                                    .nsteps = epochs * steps,
                                    .prefetch = PREFETCH_OFF};
}

static void expect_equal(const struct batch *a, const struct batch *b)
{
    cr_assert(a->count == b->count && a->global_count == b->global_count);
    cr_assert_eq(a->first, b->first);
    for (int i = 0; i < a->count; i++)
        cr_assert(a->labels[i] == b->labels[i]
                  && !memcmp(a->images + 2 * i, b->images + 2 * i,
                             2 * sizeof(float)));
}

Test(loader, reads_the_same_ahead_as_in_place)
{
    enum { EPOCHS = 3 };
    struct pace pace = {0};
    const struct dataset d = dataset(103, &pace);
    for (int augment = 0; augment < 2; augment++)
        for (int start = 0; start < 5; start += 4) {
            struct loader here, ahead;
            struct loader_settings s = settings(&d, 1, 2, 8, EPOCHS);
            s.augment = augment;
            cr_assert_eq(loader_open(&here, &s), 0);
            s.prefetch = PREFETCH_ON;
            cr_assert_eq(loader_open(&ahead, &s), 0);
            for (long i = start; i < s.nsteps; i++)
                expect_equal(loader_take(&here, i), loader_take(&ahead, i));
            cr_assert(ahead.ahead && !here.ahead);
            loader_close(&here);
            loader_close(&ahead);
        }
}

/* So also whatever is read of a file is read by one rank. */
Test(loader, ranks_have_all_images_and_none_in_common)
{
    enum { COUNT = 101, EPOCHS = 2, BATCH = 4 };
    struct pace pace = {0};
    const struct dataset d = dataset(COUNT, &pace);
    for (int nranks = 1; nranks <= 33; nranks++) {
        int seen[EPOCHS][COUNT] = {{0}};
        for (int rank = 0; rank < nranks; rank++) {
            struct loader l;
            struct loader_settings s =
                settings(&d, rank, nranks, BATCH, EPOCHS);
            s.prefetch = rank % 2 ? PREFETCH_ON : PREFETCH_OFF;
            cr_assert_eq(loader_open(&l, &s), 0);
            for (long i = 0; i < s.nsteps; i++) {
                const struct batch *b = loader_take(&l, i);
                for (int k = 0; k < b->count; k++)
                    seen[i / s.epoch_steps][(int)b->images[2 * k]]++;
            }
            loader_close(&l);
        }
        for (int i = 0; i < EPOCHS * COUNT; i++)
            cr_assert_eq(seen[i / COUNT][i % COUNT], 1, "%d ranks, image %d",
                         nranks, i % COUNT);
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of steps that read so long and train so long. */
static double step_seconds(double read, double train, enum prefetch prefetch)
{
    enum { STEPS = 9, BATCH = 2 };
    struct pace pace = {read / BATCH, false, 0};
    const struct dataset d = dataset(1000, &pace);
    struct loader_settings s = settings(&d, 0, 1, BATCH, 1);
    struct loader l;
    double took[STEPS], before = clock_now();
    s.prefetch = prefetch;
    cr_assert_eq(loader_open(&l, &s), 0);
    for (int i = 0; i < STEPS; i++) {
        loader_take(&l, i);
        spend((struct pace){train, false, 0});
        took[i] = clock_now() - before;
        before += took[i];
    }
    loader_close(&l); /* while it reads */
    qsort(took, STEPS, sizeof(took[0]), ascending);
    return took[STEPS / 2];
}

/* Who shares the processors with this test may delay a sleeper. */
static bool is_about(double read, double train, enum prefetch prefetch,
                           double wanted)
{
    double got = 0;
    for (int i = 0; i < 5; i++) {
        got = step_seconds(read, train, prefetch);
        if (got > 0.99 * wanted && got < 1.3 * wanted)
            return true;
    }
    cr_log_error("%g seconds, not %g", got, wanted);
    return false;
}

Test(loader, a_step_takes_the_longer_of_reading_and_training)
{
    static const struct {
        double read, train;
    } cases[] = {
        {0.03,  0.02 },
        {0.02,  0.03 },
        {0.025, 0.025}
    };
    for (int i = 0; i < 3; i++) {
        const double r = cases[i].read, t = cases[i].train;
        cr_expect(is_about(r, t, PREFETCH_ON, r > t ? r : t));
        cr_expect(is_about(r, t, PREFETCH_OFF, r + t));
    }
}

static bool goes_ahead(struct pace pace, double train, bool spare)
{
    const struct dataset d = dataset(1000, &pace);
    struct loader_settings s = settings(&d, 0, 1, 1, 1);
    struct loader l;
    s.prefetch = PREFETCH_AUTO;
    cr_assert_eq(loader_open(&l, &s), 0);
    l.spare = spare;
    for (int i = 0; i < 2 + LOADER_TRIALS; i++) {
        loader_take(&l, i);
        spend((struct pace){train, false, 0});
    }
    const bool ahead = l.ahead;
    loader_close(&l);
    return ahead;
}

Test(loader, goes_ahead_where_that_hides_something)
{
    const struct pace cheap = {0}, waits = {0.004, false, 0},
                      works = {0.004, true, 0};
    cr_expect(!goes_ahead(cheap, 0.004, true));
    cr_expect(!goes_ahead(cheap, 0.004, false));
    cr_expect(goes_ahead(waits, 0.004, true));
    cr_expect(goes_ahead(waits, 0.004, false));
    cr_expect(goes_ahead(works, 0.004, true));
}

/* A processor that is taken away looks like waiting, so it is tried again. */
Test(loader, takes_no_core_from_those_who_train)
{
    int times = 0;
    for (int i = 0; i < 9; i++)
        times += goes_ahead((struct pace){0.002, true, 0}, 0.002, false);
    cr_expect(times < 9, "always");
}

Test(loader, time_goes_to_reading_or_to_waiting_for_it)
{
    struct pace pace = {0.002, false, 0};
    const struct dataset d = dataset(100, &pace);
    for (int on = 0; on < 2; on++) {
        struct breakdown time;
        struct loader l;
        struct loader_settings s = settings(&d, 0, 1, 1, 1);
        breakdown_start(&time, 0);
        s.time = &time;
        s.prefetch = on ? PREFETCH_ON : PREFETCH_OFF;
        cr_assert_eq(loader_open(&l, &s), 0);
        breakdown_enter(&time, PART_REST);
        for (int i = 0; i < 5; i++)
            loader_take(&l, i);
        cr_expect(time.seconds[on ? PART_DATA : PART_READ] > 0.004);
        cr_expect_eq(time.seconds[on ? PART_READ : PART_DATA], 0);
        cr_expect_eq(time.part, PART_REST);
        loader_close(&l);
    }
}

/* In the step that wants it, however early it was read. */
Test(loader, a_damaged_image_ends_its_step_only)
{
    enum { BATCH = 4 };
    struct pace pace = {.damaged = 7};
    const struct dataset d = dataset(40, &pace);
    for (int on = 0; on < 2; on++) {
        struct loader_settings s = settings(&d, 0, 1, BATCH, 1);
        struct loader l;
        long failed = -1;
        s.prefetch = on ? PREFETCH_ON : PREFETCH_OFF;
        cr_assert_eq(loader_open(&l, &s), 0);
        for (long i = 0; i < s.nsteps; i++) {
            struct share share = {0};
            struct sampler order;
            bool has = false;
            cr_assert_eq(sampler_create(&order, d.count, 5, SHUFFLE_ALL), 0);
            share = sampler_share(&order, 0, i, 0, 1, BATCH);
            for (int k = 0; k < share.count; k++)
                has |= share.images[k] == 7;
            sampler_free(&order);
            const struct batch *b = loader_take(&l, i);
            cr_assert_eq(!b, has, "step %ld", i);
            cr_assert_str_eq(loader_error(&l),
                             has ? "number 7 is damaged" : "");
            failed = has ? i : failed;
        }
        cr_expect(failed >= 0);
        loader_close(&l);
    }
}
