/* SPDX-License-Identifier: MIT */
/* What every row of transports.def promises, told by n ends in one thread.
 *
 * Each claim runs with all ranks on one host, with two on each and with one on
 * each; a transport that does not reach the others there is left out. So UCX
 * is tested over shared memory and over TCP (loopback), there also with lanes.
 */
#include <criterion/criterion.h>

#include "fabric.h"
#include "letters.h"
#include "thorough.h"

static const size_t sizes[] = {
    1,    7,    8,    40,   41,   63,     64,     65,     4095,    8191,
    8192, 8193, 8128, 8129, 8256, 131071, 131072, 131073, 1 << 20, 16 << 20,
};
enum { NSIZES = sizeof(sizes) / sizeof(sizes[0]), NSMALL = NSIZES - 2 };

static void every_size(struct fabric *f)
{
    const int n = f->n == 2 ? NSIZES : f->n < 5 ? NSMALL : NSMALL - 8;
    for (int from = 0; from < f->n; from++)
        for (int to = 0; to < f->n; to++)
            for (int i = 0; i < n && from != to; i++) {
                if (!thorough() && sizes[i] > 4 << 20)
                    continue;
                const bool late = (from + to + i) % 2;
                exchange(f, from, to, sizes[i], late);
                if (thorough())
                    exchange(f, from, to, sizes[i], !late);
            }
}

Test(transports, every_pair_exchanges_every_size)
{
    const int counts[] = {2, 5, 3, 8};
    for (unsigned i = 0; i < cases(4, 1); i++)
        everywhere(counts[i], every_size);
    over_lanes(2, every_size);
}

Test(transports, a_small_ring_carries_every_size)
{
    struct fabric f;
    setenv("COLL_SHM_RING", "4K", 1);
    cr_assert(fabric_open(&f, transport_find("shm"), MAX_ENDS, 2));
    every_size(&f);
    fabric_close(&f);
}

static void two_hundred(struct fabric *f)
{
    enum { EACH = 200, PAIRS = 6 };
    static struct letter *all[2 * EACH * PAIRS];
    size_t n = 0;
    for (int from = 0; from < f->n; from++)
        for (int to = 0; to < f->n; to++)
            for (size_t k = 0; k < EACH && from != to; k++) {
                const size_t bytes = 1 + k * 37 % 3000;
                all[n++] = letter_send(f->ends[from], to, bytes, k);
                all[n++] = letter_recv(f->ends[to], from, bytes, k);
            }
    deliver(f, all, n);
}

Test(transports, messages_of_a_pair_arrive_in_posting_order)
{
    everywhere(3, two_hundred);
}

static void large_both_ways(struct fabric *f)
{
    struct letter *all[4];
    for (int r = 0; r < 2; r++)
        all[r] = letter_send(f->ends[r], !r, 8 << 20, (uint64_t)r);
    for (int i = 0; i < 10; i++)
        fabric_progress(f);
    for (int r = 0; r < 2; r++)
        all[2 + r] = letter_recv(f->ends[r], !r, 8 << 20, !r);
    deliver(f, all, 4);
}

Test(transports, large_messages_cross_without_deadlock)
{
    everywhere(2, large_both_ways);
    over_lanes(2, large_both_ways);
}

/* Sizes and seeds follow from the pair and the letter's number, so the two
 * ends agree whenever each is posted. */
static size_t size_of(int from, int to, uint32_t k)
{
    uint32_t state = (uint32_t)from * 8191 + (uint32_t)to * 127 + k;
    letter_draw(&state);
    const uint32_t shift = letter_draw(&state) % 17;
    return 1 + letter_draw(&state) % (1u << shift);
}

static void random_traffic(struct fabric *f)
{
    enum { EACH = 40, ENDS = 4, ALL = 2 * EACH * ENDS * (ENDS - 1) };
    static struct letter *all[ALL];
    uint32_t posted[ENDS][ENDS][2] = {{{0}}}, state = 7;
    size_t n = 0;
    while (n < ALL) {
        const int me = (int)(letter_draw(&state) % ENDS);
        const int peer = (int)(letter_draw(&state) % ENDS);
        const bool sends = letter_draw(&state) % 2;
        const uint32_t k = posted[me][peer][sends];
        f->ops->progress(f->ends[letter_draw(&state) % ENDS]);
        if (me == peer || k == EACH)
            continue;
        posted[me][peer][sends]++;
        all[n++] =
            sends ? letter_send(f->ends[me], peer, size_of(me, peer, k), k)
                  : letter_recv(f->ends[me], peer, size_of(peer, me, k), k);
    }
    deliver(f, all, ALL);
}

Test(transports, random_traffic_arrives_whole)
{
    everywhere(4, random_traffic);
    over_lanes(4, random_traffic);
}

Test(transports, ucx_serves_inside_and_between_hosts)
{
    setenv("COLL_TRANSPORT", "ucx", 1); /* else it leaves the inside to shm */
    everywhere(4, random_traffic);
}

/* Ends that have not as many lanes do not take each other for reached. */
Test(transports, another_number_of_lanes_is_not_reached)
{
    static struct transport_address all[2];
    struct fabric f;
    bool reached[2] = {false};
    cr_assert(fabric_open_lanes(&f, transport_find("ucx"), 1, 2, 3));
    fabric_close(&f);
    f.jobs[1].lanes = 2;
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(f.ops->open(&f.ends[r], &f.jobs[r]), COLL_OK);
        f.ops->address(f.ends[r], &all[r]);
    }
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(f.ops->connect(f.ends[r], all, reached), COLL_OK);
        cr_assert_not(reached[1 - r]);
    }
    fabric_close(&f);
}

/* As many as there may be: the addresses of all lanes must fit. */
Test(transports, all_lanes_on_all_rails_reach)
{
    struct transport_rail rails[TRANSPORT_RAILS_MAX];
    struct fabric f;
    cr_assert(fabric_open_lanes(&f, transport_find("ucx"), 1, 2, 8));
    fabric_close(&f);
    for (int i = 0; i < TRANSPORT_RAILS_MAX; i++)
        rails[i] = (struct transport_rail){.interface = "lo", .share = 1};
    for (int r = 0; r < 2; r++) {
        f.jobs[r].rails = rails;
        f.jobs[r].nrails = TRANSPORT_RAILS_MAX;
        cr_assert_eq(f.ops->open(&f.ends[r], &f.jobs[r]), COLL_OK);
    }
    cr_assert(fabric_connect(&f));
    exchange(&f, 0, 1, 1 << 20, false);
    fabric_close(&f);
}

/* Sends and receives at every stage, then cancel at both ends in turn: each is
 * over, and no buffer changes afterwards although the other side goes on. */
static void cancelled(struct fabric *f)
{
    enum { N = 24 };
    struct letter *tx[N], *rx[N];
    char *copies[N];
    for (size_t i = 0; i < N; i++) {
        const size_t bytes = i % 3 == 0 ? 16 : i % 3 == 1 ? 9000 : 1 << 20;
        tx[i] = letter_send(f->ends[0], 1, bytes, i);
        rx[i] = letter_recv(f->ends[1], 0, bytes + (i > 20), i);
    }
    for (int i = 0; i < 6; i++)
        fabric_progress(f);
    f->ops->cancel(f->ends[1]);
    for (size_t i = 0; i < N; i++) {
        const size_t bytes = rx[i]->transfer.bytes + LETTER_GUARD;
        cr_assert(letter_status(rx[i]) == COLL_OK
                      || letter_status(rx[i]) == COLL_ERR_ABORTED
                      || (letter_status(rx[i]) == COLL_ERR_MISMATCH && i > 20),
                  "%s: status %d", f->ops->name, letter_status(rx[i]));
        copies[i] = memcpy(malloc(bytes), rx[i]->transfer.buf, bytes);
    }
    for (int i = 0; i < 200; i++)
        fabric_progress(f);
    f->ops->cancel(f->ends[0]);
    for (size_t i = 0; i < N; i++) {
        cr_assert_neq(letter_status(tx[i]), COLL_IN_PROGRESS);
        cr_assert_arr_eq(copies[i], rx[i]->transfer.buf,
                         rx[i]->transfer.bytes + LETTER_GUARD);
        letter_free(tx[i]);
        letter_free(rx[i]);
        free(copies[i]);
    }
    if (!f->sim) { /* whose ends may go on */
        struct letter *late = letter_send(f->ends[0], 1, 8, 0);
        cr_assert_eq(letter_status(late), COLL_ERR_ABORTED, "%s", f->ops->name);
        letter_free(late);
    }
    for (int i = 0; i < 200; i++) /* memory is gone: ASan sees any access */
        fabric_progress(f);
}

Test(transports, cancel_ends_all_and_touches_nothing_afterwards)
{
    for (unsigned i = 0; i < cases(3, 1); i++)
        everywhere(2, cancelled);
    over_lanes(2, cancelled);
}

/* Closes in the order of ranks, each while the next still has transfers. */
static void close_one_by_one(struct fabric *f)
{
    struct letter *rx[MAX_ENDS];
    for (int r = 0; r < f->n; r++)
        exchange(f, r, (r + 1) % f->n, 5000, r % 2);
    for (int r = 0; r < f->n; r++)
        rx[r] = letter_recv(f->ends[r], (r + 1) % f->n, 64, 0);
    for (int r = 0; r < f->n; r++) {
        f->ops->close(f->ends[r]);
        f->ends[r] = NULL;
        for (int i = 0; i < 20 && !f->sim; i++)
            fabric_progress(f);
    }
    for (int r = 0; r < f->n; r++) {
        cr_assert_neq(letter_status(rx[r]), COLL_OK);
        cr_assert_neq(letter_status(rx[r]), COLL_IN_PROGRESS);
        letter_free(rx[r]);
    }
}

Test(transports, an_end_closes_with_peers_gone)
{
    everywhere(3, close_one_by_one);
    over_lanes(3, close_one_by_one);
}

static coll_status flush_one(struct fabric *f, int r)
{
    const double deadline = letter_clock() + 60;
    coll_status status = COLL_IN_PROGRESS;
    while (status == COLL_IN_PROGRESS && letter_clock() < deadline) {
        status = f->ops->flush(f->ends[r]);
        fabric_progress(f);
    }
    return status;
}

static void orderly(struct fabric *f)
{
    for (int r = 0; r < f->n; r++)
        exchange(f, r, (r + 1) % f->n, 100000, false);
    for (int r = 0; r < f->n && f->ops->flush; r++)
        cr_assert_eq(flush_one(f, r), COLL_OK, "%s", f->ops->name);
    const double start = letter_clock();
    for (int r = 0; r < f->n; r++) {
        f->ops->close(f->ends[r]);
        f->ends[r] = NULL;
    }
    cr_assert_lt(letter_clock() - start, 5.0, "%s closes in %g s", f->ops->name,
                 letter_clock() - start);
}

Test(transports, an_orderly_close_is_quick)
{
    /* Peers of the same thread do not answer, so each waits for a while. */
    everywhere(thorough() ? 4 : 2, orderly);
    if (thorough())
        over_lanes(4, orderly);
}

static void idle(struct fabric *f)
{
    exchange(f, 0, 1, 1000, false);
    for (int i = 0; i < 1000; i++) /* what it still had to say */
        fabric_progress(f);
    for (int i = 0; i < 1000; i++)
        cr_assert_not(fabric_progress(f), "%s", f->ops->name);
}

Test(transports, progress_of_an_idle_end_is_none)
{
    everywhere(2, idle);
}
