/* SPDX-License-Identifier: MIT */
/* coll_send() and coll_recv() among real processes: every byte of what was
 * sent, from whom it was wanted, in whatever order it was called. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "ranks.h"
#include "thorough.h"

enum { LONGEST = 8 << 20 };
static const size_t lengths[] = {0,    1,    8,    40,     100,     8167,
                                 8168, 8169, 7976, 7977,   65536,   300000,
                                 1,    2,    3,    500000, LONGEST, 9000};
enum { NLENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 32;
}

static void fill(unsigned char *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (unsigned char)(mix(seed) >> i % 8 * 8 ^ i * 131 >> 3);
}

static int is_filled(const unsigned char *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != (unsigned char)(mix(seed) >> i % 8 * 8 ^ i * 131 >> 3))
            return 0;
    return 1;
}

/* A message that all ranks know of; its number is its tag. */
struct message {
    int from, to;
    size_t bytes;
    unsigned char *out, *in;
    coll_message heard;
    coll_request *send, *recv;
};

enum { MESSAGES = 40 };

static void shuffle(int *order, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)(mix(seed + (uint64_t)i) % (uint64_t)(i + 1));
        const int x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
}

static int post_one(coll_comm *comm, int rank, struct message *m, int tag,
                    int any)
{
    if (m->from == rank) {
        m->out = malloc(m->bytes + 1);
        fill(m->out, m->bytes, (uint64_t)tag);
        EXPECT(coll_send(m->out, m->bytes, COLL_U8, m->to, tag, comm, &m->send)
                   == COLL_OK,
               "send");
    }
    if (m->to == rank) {
        m->in = calloc(1, m->bytes + 9);
        EXPECT(coll_recv(m->in, m->bytes + (any ? 8 : 0), COLL_U8,
                         any ? COLL_ANY_SOURCE : m->from, tag, comm, &m->heard,
                         &m->recv)
                   == COLL_OK,
               "receive");
    }
    return 0;
}

static int check_one(struct message *m, int tag)
{
    EXPECT(coll_wait(&m->send) == COLL_OK, "tag %d", tag);
    EXPECT(coll_wait(&m->recv) == COLL_OK, "tag %d", tag);
    if (m->in)
        EXPECT(m->heard.source == m->from && m->heard.tag == tag
                   && m->heard.count == m->bytes
                   && is_filled(m->in, m->bytes, (uint64_t)tag)
                   && m->in[m->bytes] == 0,
               "tag %d: %zu bytes from %d", tag, m->bytes, m->from);
    free(m->in);
    free(m->out);
    return 0;
}

/* Each rank has an order of its own, in which it also comes to an allreduce. No
 * round uses the tags of another, as one rank may be ahead of the others, and a
 * receive from anybody would take what it sends. */
static int random_round(coll_comm *comm, int rank, int n, uint64_t seed)
{
    struct message messages[MESSAGES];
    int order[MESSAGES], sum = 1;
    memset(messages, 0, sizeof(messages));
    for (int i = 0; i < MESSAGES; i++) {
        const uint64_t x = mix(seed * 1000 + (uint64_t)i);
        messages[i].from = (int)(x % (uint64_t)n);
        messages[i].to = (int)(x / 64 % (uint64_t)n);
        messages[i].bytes = lengths[x / 4096 % NLENGTHS];
        if (messages[i].bytes == LONGEST && (i > 5 || seed > 100))
            messages[i].bytes = 20000;
    }
    shuffle(order, MESSAGES, seed * 77 + (uint64_t)rank);
    const int when = (int)(mix(seed + (uint64_t)rank) % MESSAGES);
    const int tags = (int)seed * MESSAGES;
    for (int i = 0; i < MESSAGES; i++) {
        const int k = order[i];
        if (post_one(comm, rank, &messages[k], tags + k, k % 3 == 0))
            return 1;
        if (i == when)
            EXPECT(coll_allreduce(&sum, &sum, 1, COLL_I32, COLL_SUM, comm, NULL)
                           == COLL_OK
                       && sum == n,
                   "the sum is %d", sum);
    }
    for (int i = 0; i < MESSAGES; i++)
        if (check_one(&messages[order[i]], tags + order[i]))
            return 1;
    return 0;
}

static int random_messages(coll_comm *comm, int rank, int n)
{
    for (uint64_t round = 0; round < cases(10, 1); round++)
        if (random_round(comm, rank, n, round * 100 + (uint64_t)n))
            return 1;
    return 0;
}

Test(p2p, random_messages_of_all_lengths_arrive)
{
    for (int n = 2; n <= (thorough() ? 8 : 3); n++) {
        cr_expect_eq(run_ranks(n, over_shm, random_messages), 0, "%d by shm",
                     n);
        cr_expect_eq(run_ranks(n, over_ucx, random_messages), 0, "%d by ucx",
                     n);
    }
}

static const char *const copied_twice[] = {"COLL_SINGLE_COPY=off",
                                           "COLL_SHM_RING=16K", NULL};

Test(p2p, and_through_small_rings_without_the_kernels_help)
{
    cr_expect_eq(run_ranks(2, copied_twice, random_messages), 0);
}

/* Messages of one tag, long and short, and who takes any sees them in order. */
static int in_order(coll_comm *comm, int rank, int n)
{
    enum { EACH = 60, MOST = 70000 };
    unsigned char *x = malloc(MOST);
    int next[8] = {0};
    for (int i = 0; i < EACH && rank > 0; i++) {
        const size_t bytes = i % 7 == 3 ? MOST : 4 + (size_t)i;
        x[0] = (unsigned char)i;
        EXPECT(coll_send(x, bytes, COLL_U8, 0, 5, comm, NULL) == COLL_OK,
               "send %d", i);
    }
    for (int i = 0; i < EACH * (n - 1) && rank == 0; i++) {
        coll_message m;
        EXPECT(coll_recv(x, MOST, COLL_U8, COLL_ANY_SOURCE,
                         i % 2 ? 5 : COLL_ANY_TAG, comm, &m, NULL)
                   == COLL_OK,
               "receive %d", i);
        EXPECT(m.tag == 5 && x[0] == next[m.source],
               "%d of rank %d came, not %d", x[0], m.source, next[m.source]);
        next[m.source]++;
    }
    free(x);
    return 0;
}

Test(p2p, messages_do_not_overtake)
{
    cr_expect_eq(run_ranks(4, over_shm, in_order), 0);
    cr_expect_eq(run_ranks(3, over_ucx, in_order), 0);
}

/* Receives are posted in order: any, then of a tag; the first that fits takes
 * the message. */
static int first_receive_takes(coll_comm *comm, int rank, int n)
{
    int x[3] = {0}, y[3] = {1, 2, 3};
    coll_request *r[3];
    coll_message m[3];
    (void)n;
    if (rank == 1) {
        coll_recv(&x[0], 1, COLL_I32, 0, 9, comm, &m[0], &r[0]);
        coll_recv(&x[1], 1, COLL_I32, COLL_ANY_SOURCE, COLL_ANY_TAG, comm,
                  &m[1], &r[1]);
        coll_recv(&x[2], 1, COLL_I32, 0, 4, comm, &m[2], &r[2]);
    }
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    for (int i = 0; i < 3 && rank == 0; i++)
        EXPECT(coll_send(&y[i], 1, COLL_I32, 1, i < 2 ? 4 : 9, comm, NULL)
                   == COLL_OK,
               "send");
    for (int i = 0; i < 3 && rank == 1; i++)
        EXPECT(coll_wait(&r[i]) == COLL_OK, "wait");
    if (rank == 1)
        EXPECT(x[0] == 3 && x[1] == 1 && x[2] == 2, "%d %d %d", x[0], x[1],
               x[2]);
    return 0;
}

Test(p2p, the_first_receive_that_fits_takes_a_message)
{
    cr_expect_eq(run_ranks(2, over_shm, first_receive_takes), 0);
    cr_expect_eq(run_ranks(2, over_ucx, first_receive_takes), 0);
}

/* More than is kept for a rank that does not look, in whatever order it is then
 * wanted; the last tag first. Every fourth is empty. */
static int flood(coll_comm *comm, int rank, int n)
{
    enum { MANY = 6000, BLOCKING = 2000 };
    coll_request **r = calloc(MANY, sizeof(coll_request *));
    int *x = calloc(MANY, sizeof(int)), sum = 1;
    for (int i = 0; i < BLOCKING && rank == 0; i++)
        EXPECT(coll_send(&i, i % 4 != 0, COLL_I32, 1, i, comm, NULL) == COLL_OK,
               "blocking send %d", i);
    for (int i = BLOCKING; i < MANY && rank == 0; i++) {
        x[i] = i;
        EXPECT(coll_send(&x[i], i % 4 != 0, COLL_I32, 1, i, comm, &r[i])
                   == COLL_OK,
               "send %d", i);
    }
    EXPECT(coll_allreduce(&sum, &sum, 1, COLL_I32, COLL_SUM, comm, NULL)
                   == COLL_OK
               && sum == n,
           "sum %d", sum);
    for (int i = MANY - 1; i >= 0 && rank == 1; i--)
        EXPECT(coll_recv(&x[i], 1, COLL_I32, 0, i, comm, NULL, NULL) == COLL_OK
                   && x[i] == (i % 4 ? i : 0),
               "receive %d: %d", i, x[i]);
    for (int i = 0; i < MANY; i++)
        EXPECT(coll_wait(&r[i]) == COLL_OK, "wait %d", i);
    free(r);
    free(x);
    return 0;
}

Test(p2p, a_flood_is_kept_and_the_rest_waits)
{
    cr_expect_eq(run_ranks(2, over_shm, flood), 0);
    cr_expect_eq(run_ranks(2, over_ucx, flood), 0);
}

/* A send that nobody receives yet, then a collective: a long one, with a
 * request, needs the other's help while that one waits in the collective. */
static int while_others_wait(coll_comm *comm, int rank, unsigned us, int *late)
{
    enum { LONG = 1 << 20 };
    unsigned char *x = malloc(LONG);
    coll_request *r = NULL;
    int y = 1, z = 0;
    fill(x, LONG, 1);
    if (rank == 0) {
        EXPECT(coll_send(&y, 1, COLL_I32, 1, 0, comm, NULL) == COLL_OK, "send");
        EXPECT(coll_send(x, LONG, COLL_U8, 1, 1, comm, &r) == COLL_OK, "send");
    }
    if (rank == 1) {
        memset(x, 0, LONG);
        EXPECT(coll_recv(x, LONG, COLL_U8, 0, 1, comm, NULL, &r) == COLL_OK,
               "receive");
    }
    if (rank == 2) /* all others wait for it in the collective meanwhile */
        usleep(us);
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    if (rank == 1) {
        *late = coll_test(&r) == COLL_IN_PROGRESS;
        EXPECT(coll_wait(&r) == COLL_OK, "wait");
        EXPECT(is_filled(x, LONG, 1), "bytes");
        EXPECT(coll_recv(&z, 1, COLL_I32, 0, 0, comm, NULL, NULL) == COLL_OK
                   && z == 1,
               "receive");
    }
    EXPECT(coll_wait(&r) == COLL_OK, "wait");
    free(x);
    return 0;
}

/* What came while a rank was in the barrier is there; on a busy machine after a
 * longer time. */
static int beside_collectives(coll_comm *comm, int rank, int n)
{
    int late = 1;
    (void)n;
    for (unsigned us = 100000; late; us *= 2) {
        late = 0;
        if (while_others_wait(comm, rank, us, &late))
            return 1;
        EXPECT(coll_allreduce(&late, &late, 1, COLL_I32, COLL_MAX, comm, NULL)
                   == COLL_OK,
               "allreduce");
        EXPECT(!late || us < 6400000, "1 MiB not there after %u us", us);
    }
    return 0;
}

/* A split waits for collectives, but not for a send that is received later. */
static int across_a_split(coll_comm *comm, int rank, int n)
{
    enum { LONG = 300000 };
    unsigned char *x = malloc(LONG);
    coll_comm *half;
    coll_request *r = NULL;
    (void)n;
    fill(x, LONG, 7);
    if (rank == 0)
        EXPECT(coll_send(x, LONG, COLL_U8, 1, 0, comm, &r) == COLL_OK, "send");
    EXPECT(coll_comm_split(comm, rank, 0, &half, NULL) == COLL_OK, "split");
    if (rank == 1) {
        memset(x, 0, LONG);
        EXPECT(coll_recv(x, LONG, COLL_U8, 0, 0, comm, NULL, NULL) == COLL_OK
                   && is_filled(x, LONG, 7),
               "receive");
    }
    EXPECT(coll_wait(&r) == COLL_OK, "wait");
    EXPECT(coll_comm_destroy(half) == COLL_OK, "destroy");
    free(x);
    return 0;
}

Test(p2p, goes_on_while_ranks_wait_in_collectives)
{
    cr_expect_eq(run_ranks(3, over_shm, beside_collectives), 0);
    cr_expect_eq(run_ranks(3, over_ucx, beside_collectives), 0);
    cr_expect_eq(run_ranks(2, over_shm, across_a_split), 0);
    cr_expect_eq(run_ranks(2, over_ucx, across_a_split), 0);
}

static int to_itself(coll_comm *comm, int rank, int n)
{
    enum { LONG = 1 << 20 };
    unsigned char *x = malloc(LONG), *y = calloc(1, LONG);
    coll_message m;
    coll_request *r;
    (void)n;
    fill(x, LONG, 3);
    EXPECT(coll_send(x, 100, COLL_U8, rank, 1, comm, NULL) == COLL_OK, "send");
    EXPECT(coll_recv(y, 200, COLL_U8, rank, 1, comm, &m, NULL) == COLL_OK
               && m.count == 100 && m.source == rank && is_filled(y, 100, 3),
           "receive of itself");
    EXPECT(coll_recv(y, LONG, COLL_U8, COLL_ANY_SOURCE, 2, comm, &m, &r)
               == COLL_OK,
           "receive");
    EXPECT(coll_send(x, LONG, COLL_U8, rank, 2, comm, NULL) == COLL_OK, "send");
    EXPECT(coll_wait(&r) == COLL_OK && is_filled(y, LONG, 3), "long one");
    free(x);
    free(y);
    return 0;
}

Test(p2p, a_rank_sends_to_itself)
{
    cr_expect_eq(run_ranks(1, NULL, to_itself), 0);
    cr_expect_eq(run_ranks(2, over_shm, to_itself), 0);
}

/* --- wrong --------------------------------------------------------------- */

static int truncated(coll_comm *comm, int rank, int n)
{
    float x[3000] = {0};
    const size_t count = rank == 0 ? 3000 : 2999;
    (void)n;
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "meet, as UCX connects late");
    const coll_status status =
        rank == 0 ? coll_send(x, count, COLL_F32, 1, 7, comm, NULL)
                  : coll_recv(x, count, COLL_F32, 0, 7, comm, NULL, NULL);
    if (rank == 1)
        EXPECT(status == COLL_ERR_MISMATCH, "status %d", status);
    await_failure(comm);
    EXPECT(
        strstr(coll_last_error(comm),
               "rank 0 sent 3000 f32 with tag 7 to rank 1, which receives at "
               "most 2999 f32 with tag 7: the message is truncated"),
        "%s", coll_last_error(comm));
    mark_rank();
    await_marks(2);
    _exit(0);
}

static int other_dtype(coll_comm *comm, int rank, int n)
{
    float x = 0;
    (void)n;
    if (rank == 0)
        coll_send(&x, 1, COLL_I32, 1, 7, comm, NULL);
    else
        EXPECT(coll_recv(&x, 1, COLL_F32, COLL_ANY_SOURCE, COLL_ANY_TAG, comm,
                         NULL, NULL)
                   == COLL_ERR_MISMATCH,
               "received");
    await_failure(comm);
    EXPECT(strstr(coll_last_error(comm), "the datatypes differ"), "%s",
           coll_last_error(comm));
    mark_rank();
    await_marks(2);
    _exit(0);
}

static int peer_dies(coll_comm *comm, int rank, int n)
{
    int x = 0;
    coll_request *r = NULL;
    (void)n;
    if (rank != 1)
        EXPECT(coll_recv(&x, 1, COLL_I32, 1, 0, comm, NULL, &r) == COLL_OK,
               "post");
    coll_barrier(comm, NULL); /* all have joined; it may see the death */
    if (rank == 1)
        raise(SIGKILL);
    const coll_status status = coll_wait(&r);
    EXPECT(status == COLL_ERR_PEER, "status %d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "%s",
           coll_last_error(comm));
    mark_rank();
    if (rank == 0)
        await_marks(2);
    _exit(0);
}

static int late_peer;
static const char *late_words;

static int too_late(coll_comm *comm, int rank, int n)
{
    int x = 0;
    (void)n;
    if (rank == 0)
        EXPECT(coll_recv(&x, 1, COLL_I32, late_peer, 0, comm, NULL, NULL)
                       == COLL_ERR_TIMEOUT
                   && strstr(coll_last_error(comm), late_words),
               "%s", coll_last_error(comm));
    await_failure(comm);
    mark_rank();
    await_marks(2);
    _exit(0);
}

static int left_over(coll_comm *comm, int rank, int n)
{
    int x[4] = {0};
    (void)n;
    if (rank == 0)
        EXPECT(coll_send(x, 4, COLL_I32, 1, 3, comm, NULL) == COLL_OK, "send");
    const coll_status status = coll_comm_destroy(comm);
    if (rank == 1)
        EXPECT(status == COLL_ERR_MISMATCH
                   && strstr(coll_last_error(NULL),
                             "rank 1 leaves without having received 1 message; "
                             "the first is 4 i32 with tag 3 from rank 0"),
               "%s", coll_last_error(NULL));
    mark_rank();
    await_marks(2);
    _exit(0);
}

static int aborted(coll_comm *comm, int rank, int n)
{
    int x = 0;
    (void)n;
    if (rank == 1)
        coll_comm_abort(comm);
    else
        EXPECT(coll_recv(&x, 1, COLL_I32, 1, 0, comm, NULL, NULL)
                   == COLL_ERR_ABORTED,
               "received");
    mark_rank();
    await_marks(2);
    _exit(0);
}

static const char *const soon[] = {"COLL_OP_SECONDS=0.2", NULL};

Test(p2p, a_message_too_long_is_told_to_both)
{
    cr_expect_eq(run_ranks(2, over_shm, truncated), 0);
    cr_expect_eq(run_ranks(2, over_ucx, truncated), 0);
    cr_expect_eq(run_ranks(2, over_shm, other_dtype), 0);
}

Test(p2p, a_receive_ends_when_its_peer_dies)
{
    cr_expect_eq(run_ranks(3, over_shm, peer_dies), 1);
    cr_expect_eq(run_ranks(3, over_ucx, peer_dies), 1);
}

Test(p2p, a_receive_has_a_deadline)
{
    late_peer = 1;
    late_words = "a receive did not finish within 0.2 s: messages are awaited "
                 "of rank 1; a receive of at most 1 i32 from rank 1 with";
    cr_expect_eq(run_ranks(2, soon, too_late), 0);
    late_peer = COLL_ANY_SOURCE;
    late_words = "a receive did not finish within 0.2 s; a receive of at most "
                 "1 i32 from any rank with tag 0 waits";
    cr_expect_eq(run_ranks(2, soon, too_late), 0);
}

Test(p2p, messages_that_nobody_received_are_told)
{
    cr_expect_eq(run_ranks(2, over_shm, left_over), 0);
    cr_expect_eq(run_ranks(2, over_ucx, left_over), 0);
}

Test(p2p, abort_ends_a_receive)
{
    cr_expect_eq(run_ranks(2, over_shm, aborted), 0);
}

static int wrong_arguments(coll_comm *comm, int rank, int n)
{
    float x = 0;
    (void)rank, (void)n;
    REFUSED(coll_send(&x, 1, COLL_F32, 0, 0, NULL, NULL),
            "coll_send: the communicator is NULL");
    REFUSED(coll_send(&x, 1, COLL_F32, 2, 0, comm, NULL),
            "coll_send: peer 2 is no rank of 2");
    REFUSED(coll_send(&x, 1, COLL_F32, COLL_ANY_SOURCE, 0, comm, NULL),
            "coll_send: peer -1");
    REFUSED(coll_recv(&x, 1, COLL_F32, -2, 0, comm, NULL, NULL),
            "nor COLL_ANY_SOURCE");
    REFUSED(coll_send(&x, 1, COLL_F32, 0, COLL_ANY_TAG, comm, NULL),
            "coll_send: tag -1 is not from 0");
    REFUSED(coll_recv(&x, 1, COLL_F32, 0, -2, comm, NULL, NULL),
            "nor COLL_ANY_TAG");
    REFUSED(coll_recv(NULL, 1, COLL_F32, 0, 0, comm, NULL, NULL),
            "coll_recv: the vector is NULL with count 1");
    REFUSED(coll_send(&x, 1, (coll_dtype)99, 0, 0, comm, NULL),
            "coll_send: 99 is no coll_dtype");
    REFUSED(coll_send(&x, SIZE_MAX / 4, COLL_F32, 0, 0, comm, NULL),
            "address space");
    return 0;
}

Test(p2p, wrong_arguments_are_refused)
{
    cr_expect_eq(run_ranks(2, over_shm, wrong_arguments), 0);
}
