/* SPDX-License-Identifier: MIT */
#include "dist/wire.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "dist/codec.h"
#include "dist/group.h"

const char *const wire_names[] = {"f32", "bf16", "int8", "topk"};

/* One sum on its way. Each peer of the exchange has a share of it, the last
 * ones fewer floats. */
struct piece {
    size_t first, count; /* of x, without what other positions of hosts carry */
    size_t share;        /* floats; of top-k pairs */
    size_t bytes;        /* of its code */
    unsigned char *out, *in; /* the codes of all shares */
};

struct wire {
    const struct codec *codec; /* NULL: top-k */
    double top;
    coll_comm *job, *across; /* across: with whom codes are exchanged */
    coll_comm *inside;       /* the ranks of this host; NULL: job is across */
    int npeers, me;          /* of across */
    struct arena *x, *lost;
    unsigned char *code; /* room for the codes of all pieces */
    size_t used;         /* bytes of it, in this step */
    size_t *counts;      /* of the parts of a host's ranks */
    struct piece *pieces;
    coll_request **requests; /* of each piece, the last */
    int npieces, nsummed;    /* in this step; whose sums were sent */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Of n floats, for the first of `parts` that are equal but for the last. */
static size_t part_of(size_t n, int parts)
{
    const size_t part = (n + (size_t)parts - 1) / (size_t)parts;
    return (part + BLOCK - 1) / BLOCK * BLOCK;
}

/* Those that part r of such parts has; *first: where it begins. */
static size_t part_at(size_t n, size_t part, int r, size_t *first)
{
    *first = least((size_t)r * part, n);
    return least(part, n - *first);
}

bool wire_loses(enum wire_kind kind)
{
    return kind == WIRE_TOPK || (kind == WIRE_INT8 && codec_int8.feeds_back);
}

bool wire_is_whole(const struct wire *w)
{
    return w->inside != NULL;
}

/* --- opening ----------------------------------------------------------------
 */

/* Makes inside and across where hosts have as many ranks each, above one. */
static coll_status split_by_hosts(struct wire *w)
{
    coll_status status =
        coll_comm_split(w->job, COLL_SPLIT_HOST, 0, &w->inside, NULL);
    if (status)
        return status;
    const double n = coll_comm_count(w->inside);
    double bounds[2] = {n, -n};
    status =
        coll_allreduce(bounds, bounds, 2, COLL_F64, COLL_MAX, w->job, NULL);
    if (status)
        return status;
    if (n > 1 && bounds[0] == -bounds[1])
        return coll_comm_split(w->job, coll_comm_user_rank(w->inside), 0,
                               &w->across, NULL);
    coll_comm *one = w->inside;
    w->inside = NULL;
    return coll_comm_destroy(one);
}

static size_t code_bytes(const struct wire *w, size_t count)
{
    return w->codec ? w->codec->bytes(count) : topk_bytes(count);
}

/* Sets all but first and count, and the place of its code. */
static void measure(const struct wire *w, struct piece *p)
{
    p->share =
        w->codec ? part_of(p->count, w->npeers) : topk_count(p->count, w->top);
    p->bytes = code_bytes(w, p->share);
}

/* Bytes for the codes of all pieces: each but for rounding as the whole. */
static size_t room(const struct wire *w, int most_pieces)
{
    struct piece whole = {.count = w->x->count}, tiny = {.count = 1};
    measure(w, &whole);
    measure(w, &tiny);
    const size_t each = whole.bytes + (size_t)most_pieces * tiny.bytes;
    return (w->codec ? 2 : 1) * (size_t)w->npeers * each;
}

static coll_status take_memory(struct wire *w, int most_pieces)
{
    const size_t most = (size_t)most_pieces;
    w->npeers = coll_comm_count(w->across);
    w->me = coll_comm_user_rank(w->across);
    w->code = malloc(room(w, most_pieces));
    w->pieces = calloc(most, sizeof(*w->pieces));
    w->requests = calloc(most, sizeof(coll_request *));
    w->counts = calloc((size_t)coll_comm_count(w->job), sizeof(*w->counts));
    return w->code && w->pieces && w->requests && w->counts ? COLL_OK
                                                            : COLL_ERR_MEMORY;
}

coll_status wire_open(struct wire **wire, struct wire_settings settings,
                      coll_comm *comm, struct arena *x, struct arena *lost,
                      int most_pieces)
{
    struct wire *w = *wire = calloc(1, sizeof(*w));
    if (!w)
        return COLL_ERR_MEMORY;
    w->codec = settings.kind == WIRE_BF16   ? &codec_bf16
               : settings.kind == WIRE_INT8 ? &codec_int8
                                            : NULL;
    w->top = settings.top;
    w->job = comm;
    w->x = x;
    w->lost = lost;
    const coll_status status = split_by_hosts(w);
    if (!w->across)
        w->across = comm;
    return status ? status : take_memory(w, most_pieces);
}

void wire_close(struct wire *w)
{
    if (!w)
        return;
    group_leave(w->across == w->job ? NULL : w->across, w->job);
    group_leave(w->inside, w->job);
    free(w->code);
    free(w->pieces);
    free(w->requests);
    free(w->counts);
    free(w);
}

static double expected(coll_comm *comm, const char *collective, size_t count,
                       coll_dtype dtype)
{
    coll_choice c;
    return !coll_explain(comm, collective, count, dtype, COLL_SUM, &c)
                   && c.predicted_seconds > 0
               ? c.predicted_seconds
               : 0;
}

double wire_seconds(const struct wire *w, size_t count)
{
    struct piece p = {.count = count};
    measure(w, &p);
    return (w->codec ? expected(w->across, "alltoall", p.bytes, COLL_U8) : 0)
           + expected(w->across, "allgather", p.bytes, COLL_U8);
}

/* --- across hosts -----------------------------------------------------------
 */

static float *lost_at(const struct wire *w, size_t i)
{
    return w->lost->count ? w->lost->x + i : NULL;
}

static void encode_shares(const struct wire *w, const struct piece *p)
{
    for (int r = 0; r < w->npeers; r++) {
        size_t at;
        const size_t n = part_at(p->count, p->share, r, &at);
        at += p->first;
        w->codec->encode(w->x->x + at, lost_at(w, at), n,
                         p->out + (size_t)r * p->bytes);
    }
}

/* The sum of this rank's share takes its place in x; what its code has not is
 * lost here, once. */
static coll_status sum_share(struct wire *w, int i)
{
    const struct piece *p = &w->pieces[i];
    const coll_status status = coll_wait(&w->requests[i]);
    if (status)
        return status;
    unsigned char *mine = p->out + (size_t)w->me * p->bytes;
    size_t at;
    const size_t n = part_at(p->count, p->share, w->me, &at);
    at += p->first;
    float *x = w->x->x + at;
    w->codec->decode(p->in, n, x);
    for (int r = 1; r < w->npeers; r++)
        w->codec->add(p->in + (size_t)r * p->bytes, n, x);
    w->codec->encode(x, lost_at(w, at), n, mine);
    return coll_allgather(mine, p->out, p->bytes, COLL_U8, w->across,
                          &w->requests[i]);
}

static coll_status sum_shares_before(struct wire *w, int end)
{
    coll_status status = COLL_OK;
    while (!status && w->codec && w->nsummed < end)
        status = sum_share(w, w->nsummed++);
    return status;
}

/* All ranks call alltoall and allgather in one order, whatever came first: the
 * sum of a piece is sent before the shares of the next but one. */
static coll_status exchange(struct wire *w, size_t first, size_t count)
{
    const int i = w->npieces++;
    struct piece *p = &w->pieces[i];
    *p = (struct piece){.first = first, .count = count};
    measure(w, p);
    const size_t all = (size_t)w->npeers * p->bytes;
    p->out = w->code + w->used;
    p->in = w->codec ? p->out + all : NULL;
    w->used += w->codec ? 2 * all : all;
    if (!w->codec) {
        unsigned char *mine = p->out + (size_t)w->me * p->bytes;
        topk_encode(w->x->x + first, w->lost->x + first, count, p->share, mine);
        return coll_allgather(mine, p->out, p->bytes, COLL_U8, w->across,
                              &w->requests[i]);
    }
    encode_shares(w, p);
    const coll_status status = sum_shares_before(w, i - 1);
    return status ? status
                  : coll_alltoall(p->out, p->in, p->bytes, COLL_U8, w->across,
                                  &w->requests[i]);
}

static void decode(const struct wire *w, const struct piece *p)
{
    float *x = w->x->x + p->first;
    if (!w->codec)
        memset(x, 0, p->count * sizeof(float));
    for (int r = 0; r < w->npeers; r++) {
        const unsigned char *code = p->out + (size_t)r * p->bytes;
        size_t at;
        if (!w->codec) {
            topk_add(code, p->share, x);
            continue;
        }
        const size_t n = part_at(p->count, p->share, r, &at);
        w->codec->decode(code, n, x + at);
    }
}

/* --- inside a host ----------------------------------------------------------
 */

/* Sets counts; *first: where this rank's part begins. */
static size_t own_part(struct wire *w, size_t count, size_t *first)
{
    const int n = coll_comm_count(w->inside),
              me = coll_comm_user_rank(w->inside);
    const size_t part = part_of(count, n);
    size_t own = 0, at;
    for (int r = 0; r < n; r++) {
        w->counts[r] = part_at(count, part, r, &at);
        if (r == me) {
            own = w->counts[r];
            *first = at;
        }
    }
    return own;
}

static coll_status send_part(struct wire *w)
{
    size_t first = 0;
    const size_t own = own_part(w, w->x->count, &first);
    const coll_status status =
        coll_reduce_scatter_v(w->x->x, w->x->x + first, w->counts, COLL_F32,
                              COLL_SUM, w->inside, NULL);
    return status ? status : exchange(w, first, own);
}

/* The barrier says that all peers have what this rank has sent: while it waits
 * for those of its host, nothing else might move that on. */
static coll_status gather_parts(struct wire *w)
{
    size_t first = 0;
    coll_request *both[2] = {NULL, NULL};
    own_part(w, w->x->count, &first);
    coll_status status = coll_barrier(w->across, &both[0]);
    if (!status)
        status = coll_allgather_v(w->x->x + first, w->x->x, w->counts, NULL,
                                  COLL_F32, w->inside, &both[1]);
    const coll_status waited = coll_wait_all(2, both);
    return status ? status : waited;
}

/* --- a step -----------------------------------------------------------------
 */

coll_status wire_send(struct wire *w, size_t first, size_t count)
{
    return w->inside ? send_part(w) : exchange(w, first, count);
}

coll_status wire_test(struct wire *w)
{
    const coll_status status = coll_test_all(w->npieces, w->requests);
    return status < 0 ? status : COLL_OK;
}

coll_status wire_finish(struct wire *w)
{
    coll_status status = sum_shares_before(w, w->npieces);
    for (int i = 0; i < w->npieces && !status; i++) {
        status = coll_wait(&w->requests[i]);
        if (!status)
            decode(w, &w->pieces[i]);
    }
    if (!status && w->inside)
        status = gather_parts(w);
    w->npieces = w->nsummed = 0;
    w->used = 0;
    return status;
}

/* --- a trial ----------------------------------------------------------------
 */

/* Numbers of all signs and many sizes, as gradients are. */
static void fill(const struct arena *x)
{
    uint32_t random = 1;
    for (size_t i = 0; i < x->count; i++) {
        random = random * 1664525 + 1013904223;
        const float u = (float)(random >> 8) / (1 << 23) - 1;
        x->x[i] = u * u * u;
    }
}

static coll_status sum_once(struct wire *w, bool coded)
{
    if (!coded)
        return coll_allreduce(w->x->x, w->x->x, w->x->count, COLL_F32, COLL_SUM,
                              w->job, NULL);
    const coll_status status = wire_send(w, 0, w->x->count);
    return status ? status : wire_finish(w);
}

/* The least of some tries, the first of which meet cold caches and what the
 * library has not learned yet: both ways in turn, as it learns all the while.
 */
static coll_status time_sums(struct wire *w, struct wire_trial *t)
{
    enum { TRIES = 8 };
    coll_status status = COLL_OK;
    *t = (struct wire_trial){.f32 = INFINITY, .coded = INFINITY};
    for (int i = 0; i < 2 * TRIES && !status; i++) {
        const bool coded = i % 2;
        double *best = coded ? &t->coded : &t->f32;
        fill(w->x);
        status = coll_barrier(w->job, NULL);
        const double began = clock_now();
        if (!status)
            status = sum_once(w, coded);
        *best = fmin(*best, clock_now() - began);
    }
    return status;
}

coll_status wire_try(struct wire *w, struct wire_trial *t)
{
    enum { MOST = 1 << 17 };
    struct arena *const x = w->x, *const lost = w->lost;
    struct arena some_x = {0}, some_lost = {0};
    coll_status status = COLL_ERR_MEMORY;
    w->x = &some_x;
    w->lost = &some_lost;
    if (!arena_alloc(&some_x, least(x->count, MOST))
        && !arena_alloc(&some_lost, some_x.count))
        status = time_sums(w, t);
    if (!status)
        status = coll_broadcast(t, t, sizeof(*t), COLL_U8, 0, w->job, NULL);
    w->x = x;
    w->lost = lost;
    arena_free(&some_x);
    arena_free(&some_lost);
    return status;
}
