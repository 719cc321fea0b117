/* SPDX-License-Identifier: MIT */
/* What knocking at the doors of far hosts tells: who is far, and how fast the
 * streams of the ring came. */
#include <criterion/criterion.h>
#include <math.h>

#include "bootstrap/arrivals.h"
#include "comm/ways.h"

enum { HOSTS = 5, ROUNDS = 7, ALL = 1 << 18 };
static const float far = 2e-3f;

/* Hosts i and j are 1 + |i - j| * 10 ms apart; the stream to i takes i + 1 ns
 * a byte. */
struct job {
    struct ways_seen seen[HOSTS];
    int next[HOSTS];
    struct nearby_pair ways[HOSTS * ROUNDS];
    int nrounds;
};

static float apart(int a, int b)
{
    return 1e-3f + 10e-3f * fabsf((float)(a - b));
}

static struct job ring(void)
{
    struct job job = {.nrounds = nearby_rounds(HOSTS)};
    cr_assert_eq(job.nrounds, ROUNDS);
    for (int h = 0; h < HOSTS; h++) {
        job.next[h] = (h + 1) % HOSTS;
        job.seen[h].seconds_per_byte = 1e-9f * (float)(h + 1);
        for (int k = 0; k < ROUNDS; k++) {
            const int other = nearby_partner(HOSTS, h, k);
            job.seen[h].round_trip[k] = other < 0 ? 0 : apart(h, other);
        }
    }
    return job;
}

static bool find(struct job *job)
{
    return ways_find(HOSTS, job->seen, job->next, far, job->ways);
}

Test(ways, round_trips_of_all_and_rates_of_the_first_round)
{
    struct job job = ring();
    cr_assert(find(&job));
    for (int h = 0; h < HOSTS; h++)
        for (int k = 0; k < ROUNDS; k++) {
            const int other = nearby_partner(HOSTS, h, k);
            const struct nearby_pair *way = &job.ways[h * ROUNDS + k];
            cr_expect_float_eq(way->alpha, other < 0 ? 0 : apart(h, other) / 2,
                               1e-9, "%d %d", h, k);
            /* 0 to 1, and 2 to 3. */
            cr_expect_float_eq(
                way->beta,
                k == 0 && other >= 0 ? 1e-9f * (float)((h | 1) + 1) : 0, 1e-15,
                "%d %d", h, k);
        }
    cr_assert(ways_are_all(HOSTS, job.ways));
}

Test(ways, the_less_of_what_two_ends_saw_counts)
{
    struct job job = ring();
    job.seen[0].round_trip[0] = 1;
    job.seen[2].round_trip[0] = 0; /* unknown to one */
    cr_assert(find(&job));
    cr_expect_float_eq(job.ways[0].alpha, apart(0, 1) / 2, 1e-9);
    cr_expect_float_eq(job.ways[2 * ROUNDS].alpha, apart(2, 3) / 2, 1e-9);
    job.seen[3].round_trip[0] = 0; /* and to the other */
    cr_assert_not(find(&job));
}

Test(ways, near_ones_are_left_to_messages)
{
    struct job job = ring();
    job.seen[0].round_trip[0] = far / 2;
    cr_assert(find(&job));
    cr_expect_eq(job.ways[0].alpha, 0);
    cr_expect_eq(job.ways[0].beta, 0);
    cr_assert_not(ways_are_all(HOSTS, job.ways));
}

Test(ways, a_rate_that_no_stream_told_is_asked_for)
{
    struct job job = ring();
    job.next[0] = 2;
    cr_assert(find(&job));
    cr_expect_gt(job.ways[0].alpha, 0);
    cr_expect_eq(job.ways[0].beta, 0);
    cr_assert_not(ways_are_all(HOSTS, job.ways));
}

/* --- rates
 * ------------------------------------------------------------------*/

/* In pieces of 4 KiB, 1 us a KiB; after so many bytes it rests. They are told
 * last to first, as one may read them. */
static struct arrivals *come(struct arrivals *a, size_t bytes, size_t rests_at,
                             double rest)
{
    enum { PIECE = 4096 };
    *a = (struct arrivals){.all = ALL};
    for (size_t end = bytes; end > 0; end -= PIECE)
        arrivals_add(a,
                     1 + 1e-6 * (double)(end / 1024) + (end > rests_at) * rest,
                     PIECE);
    arrivals_sort(a);
    return a;
}

static const double slowness = 1e-6 / 1024; /* seconds a byte */

Test(arrivals, a_rate_is_that_of_the_second_half)
{
    static struct arrivals a;
    come(&a, ALL, ALL / 4, 1);
    cr_expect(arrivals_complete(&a));
    cr_expect_float_eq(arrivals_rate(&a, 9) * slowness, 1, 1e-6);
    cr_expect_float_eq(arrivals_without_pause(&a) / slowness, 1, 1e-6);
}

Test(arrivals, a_pause_does_not_count)
{
    static struct arrivals a;
    come(&a, ALL, ALL / 4 * 3, 1e-3);
    cr_expect_lt(arrivals_rate(&a, 9) * slowness, 0.5);
    cr_expect_float_eq(arrivals_without_pause(&a) / slowness, 1, 1e-6);
}

Test(arrivals, what_has_not_ended_came_slowly)
{
    static struct arrivals a;
    come(&a, ALL / 2, ALL, 0);
    cr_expect_not(arrivals_complete(&a));
    cr_expect_float_eq(arrivals_rate(&a, 2), ALL / 2, ALL / 100.0);
    cr_expect_eq(arrivals_without_pause(&a), 0);
    a = (struct arrivals){.all = ALL};
    cr_expect_eq(arrivals_rate(&a, 2), 0);
}

Test(arrivals, more_pieces_than_there_is_room_for_are_one)
{
    static struct arrivals a;
    a = (struct arrivals){.all = ALL};
    for (int i = 0; i < ALL / 64; i++)
        arrivals_add(&a, 1e-6 * i, 64);
    arrivals_sort(&a);
    cr_expect(arrivals_complete(&a));
    cr_expect_eq(a.n, ARRIVALS_MAX);
}
