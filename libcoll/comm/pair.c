/* SPDX-License-Identifier: MIT */
#include "comm/pair.h"

#include <assert.h>
#include <math.h>

enum {
    PINGS = 8,                    /* at most */
    BURST = 8,                    /* short messages at once */
    LEAST = 16384,                /* bytes of a long message, */
    FIRST = 65536,                /* of the first one, */
    BUCKET = 131072,              /* that may pass faster than those after, */
    MOST = PAIR_BUFFER_BYTES / 2, /* and of all at once */
    BUDGETED = 1000, /* microseconds that a long message is to take */
};
static const double ping_seconds = 0.001; /* of one round's pings */
static const double slower = 4;           /* times, that the next link may be */
static const double short_seconds = 0.001; /* no less for a long message */
static const double least_seconds = 0.002; /* no less for a pair's long ones */

/* Messages under way at the same time. */
struct messages {
    struct transfer tx[PAIR_MESSAGES], rx[PAIR_MESSAGES];
    double came[PAIR_MESSAGES]; /* when; 0: not yet */
    int n;
};

/* COLL_OK once all is over. */
static coll_status over(void *context)
{
    struct messages *m = context;
    coll_status status = COLL_OK;
    for (int i = 0; i < m->n; i++) {
        if (m->tx[i].status < 0 || m->rx[i].status < 0)
            return m->tx[i].status < 0 ? m->tx[i].status : m->rx[i].status;
        if (m->rx[i].status == COLL_OK && m->came[i] == 0)
            m->came[i] = comm_clock();
        if (m->tx[i].status == COLL_IN_PROGRESS
            || m->rx[i].status == COLL_IN_PROGRESS)
            status = COLL_IN_PROGRESS;
    }
    return status;
}

/* One more message each way; 0 bytes: none that way. */
static void add(struct pair_meter *p, struct messages *m, int peer,
                const void *out, size_t out_bytes, void *in, size_t in_bytes)
{
    struct transport *to = p->comm->to[peer];
    struct transfer *rx = &m->rx[m->n], *tx = &m->tx[m->n];
    m->came[m->n++] = 0;
    *rx = (struct transfer){.buf = in, .bytes = in_bytes, .peer = peer};
    *tx = (struct transfer){
        .buf = (void *)(uintptr_t)out, .bytes = out_bytes, .peer = peer};
    if (in_bytes) {
        rx->status = COLL_IN_PROGRESS;
        to->ops->recv(to, rx);
    }
    if (out_bytes) {
        tx->status = COLL_IN_PROGRESS;
        to->ops->send(to, tx);
        phases_sent(p->cost, 1, out_bytes);
    }
}

static coll_status await(struct pair_meter *p, struct messages *m)
{
    if (m->rx[0].bytes > 0)
        phases_waited(p->cost, 1);
    const coll_status status = comm_wait(
        p->comm, over, m, p->comm->join_seconds, "a measurement at start");
    if (status < 0)
        comm_cancel(p->comm);
    return status;
}

static coll_status exchange(struct pair_meter *p, int peer, const void *out,
                            size_t out_bytes, void *in, size_t in_bytes)
{
    struct messages m = {.n = 0};
    add(p, &m, peer, out, out_bytes, in, in_bytes);
    return await(p, &m);
}

/* n messages each way at once. */
static coll_status exchange_many(struct pair_meter *p, int peer, int n,
                                 size_t bytes, struct messages *m)
{
    m->n = 0;
    assert(n <= PAIR_MESSAGES && (size_t)n * bytes <= MOST);
    for (size_t i = 0; i < (size_t)n; i++)
        add(p, m, peer, p->buf + i * bytes, bytes, p->buf + MOST + i * bytes,
            bytes);
    return await(p, m);
}

/* What the lower rank of a pair says and both go by. */
struct word {
    double round_trip;    /* the least so far */
    uint32_t over, more;  /* of pings; whether long messages follow */
    uint64_t first_bytes; /* of those */
};

static size_t bytes_for(double beta)
{
    size_t bytes = MOST;
    while (beta > 0 && bytes > LEAST
           && (double)bytes / 2 * beta > 1e-6 * BUDGETED)
        bytes /= 2;
    return beta > 0 ? bytes : FIRST;
}

/* The lower rank's word to the other; or back. */
static coll_status say(struct pair_meter *p, int peer, bool back,
                       struct word *word)
{
    return (p->comm->rank < peer) != back
               ? exchange(p, peer, word, sizeof(*word), NULL, 0)
               : exchange(p, peer, NULL, 0, word, sizeof(*word));
}

/* Short messages to and fro. Half of a round trip is one message. */
static coll_status ping(struct pair_meter *p, int peer, double *one_way)
{
    struct word word = {.round_trip = INFINITY}, reply = {0};
    const double begun = comm_clock();
    coll_status status = COLL_OK;
    for (int i = 0; status == COLL_OK && !word.over; i++) {
        const double start = comm_clock();
        word.over =
            i == PINGS
            || (i > p->comm->crowded && word.round_trip > pair_far_seconds)
            || (i > 2 && start - begun > ping_seconds);
        status = say(p, peer, false, &word);
        if (status < 0 || word.over)
            break;
        status = say(p, peer, true, &reply);
        word.round_trip = fmin(word.round_trip, comm_clock() - start);
    }
    *one_way = word.round_trip / 2;
    return status;
}

coll_status pair_run_train(struct pair_meter *p, int peer, int n, size_t bytes,
                           bool far, double *beta)
{
    struct messages m;
    const coll_status status = exchange_many(p, peer, n, bytes, &m);
    const int counted = n - n / 2 - far;
    double all = 0, longest = 0;
    for (int i = n / 2; i < n; i++) {
        all += m.came[i] - m.came[i - 1];
        longest = fmax(longest, m.came[i] - m.came[i - 1]);
    }
    *beta = (far ? all - longest : all) / ((double)bytes * counted);
    return status;
}

/* One each way, and what the slower of the two took, which both then know. */
static coll_status exchange_long(struct pair_meter *p, int peer, size_t bytes,
                                 double *took)
{
    const double start = comm_clock();
    coll_status status = exchange(p, peer, p->buf, bytes, p->buf + MOST, bytes);
    const double mine = comm_clock() - start;
    double other = 0;
    if (status == COLL_OK)
        status = exchange(p, peer, &mine, sizeof(mine), &other, sizeof(other));
    *took = fmax(mine, other);
    return status;
}

static bool agree(double a, double b)
{
    return fabs(a - b) < .25 * b;
}

/* Both ways at once: seconds per byte of long messages, the last of a few. The
 * first ones open windows and empty token buckets, so they do not count: they
 * go on until two in a row agree, and are long enough for the clock. Both ends
 * decide by what both know, else one would wait for the other. */
static coll_status stream(struct pair_meter *p, int peer, double one_way,
                          size_t bytes, double *beta)
{
    const double enough = fmax(least_seconds, p->share);
    double each = 0, took = 0, all = 0;
    size_t sent = 0;
    coll_status status = COLL_OK;
    p->settled = false;
    while (status == COLL_OK) {
        const double before = each;
        status = exchange_long(p, peer, bytes, &took);
        all += took;
        each = took / (double)bytes;
        const bool last = before > 0 && (took > short_seconds || bytes == MOST);
        p->settled = last && sent >= BUCKET && agree(before, each);
        /* What never settled is believed if it is slow, as buckets and windows
         * only make the first messages look faster or slower. */
        if (p->settled
            || (last && all > (sent < BUCKET ? 1.5 * enough : enough)))
            break;
        sent += bytes;
        if (took < short_seconds && bytes < MOST && sent >= BUCKET)
            bytes *= 2;
        for (double t = took; t > 4 * short_seconds && bytes > LEAST; t /= 2)
            bytes /= 2;
    }
    if (status == COLL_OK && p->sure && p->settled)
        status = exchange_long(p, peer, bytes, &took);
    if (agree(took / (double)bytes, each)) /* else its bucket had filled */
        each = fmin(each, took / (double)bytes);
    *beta = each - fmin(one_way / (double)bytes, each / 2);
    return status;
}

/* The work of a short message, from several at once. */
static coll_status find_overhead(struct pair_meter *p, int peer, double one_way,
                                 double *overhead)
{
    struct messages m;
    double burst = 0;
    coll_status status = COLL_OK;
    for (int i = 0; i < 2 && status == COLL_OK; i++) {
        const double start = comm_clock();
        status = exchange_many(p, peer, BURST, 64, &m);
        burst = comm_clock() - start;
    }
    *overhead =
        fmin(fmax((burst - one_way) / (2 * (BURST - 1)), 0), one_way / 3);
    return status;
}

coll_status pair_find_latency(struct pair_meter *p, int peer,
                              struct nearby_pair *pair)
{
    double one_way = 0, overhead = 0;
    coll_status status = ping(p, peer, &one_way);
    if (status == COLL_OK && 2 * one_way <= pair_far_seconds)
        status = find_overhead(p, peer, one_way, &overhead);
    *pair = (struct nearby_pair){(float)(one_way - 2 * overhead),
                                 (float)overhead, 0};
    return status;
}

static void found_rate(struct pair_meter *p, double beta,
                       struct nearby_pair *pair)
{
    if (beta > 0)
        p->beta = beta;
    nearby_keep_better(pair, &(struct nearby_pair){.beta = (float)beta});
}

/* A window of 10 packets that doubles with each round trip lets them pass in
 * five. */
coll_status pair_find_far_rate(struct pair_meter *p, int peer,
                               struct nearby_pair *pair)
{
    double beta = 0;
    const coll_status status =
        pair_run_train(p, peer, PAIR_MESSAGES, LEAST, true, &beta);
    p->settled = true;
    found_rate(p, beta, pair);
    return status;
}

coll_status pair_find_rate(struct pair_meter *p, int peer, bool must,
                           struct nearby_pair *pair)
{
    const double one_way = (double)pair->alpha + 2 * (double)pair->overhead;
    const bool has_time = comm_clock() - p->begun < p->budget;
    struct word word = {
        .round_trip = 2 * one_way,
        .more = must || has_time,
        .first_bytes = bytes_for(slower * p->beta),
    };
    double beta = 0;
    if (word.first_bytes < 2 * LEAST)
        word.first_bytes = 2 * LEAST;
    coll_status status = say(p, peer, false, &word);
    if (status < 0 || !word.more)
        return status;
    if (word.round_trip > pair_far_seconds)
        return pair_find_far_rate(p, peer, pair);
    status =
        stream(p, peer, word.round_trip / 2, (size_t)word.first_bytes, &beta);
    found_rate(p, beta, pair);
    return status;
}

coll_status pair_greet(struct pair_meter *p, const int *peers, int n)
{
    const char hello = 0;
    char replies[PAIR_MESSAGES];
    struct messages m = {.n = 0};
    assert(n <= PAIR_MESSAGES);
    for (int i = 0; i < n; i++)
        add(p, &m, peers[i], &hello, 1, &replies[i], 1);
    return await(p, &m);
}

size_t pair_train_bytes(double beta)
{
    const size_t bytes = bytes_for(beta) / PAIR_MESSAGES;
    return bytes < LEAST ? LEAST : bytes;
}
