/* SPDX-License-Identifier: MIT */
/* Short vectors: everybody publishes, everybody reads and combines.
 *
 *   time    one transfer of a cache line on up to NODE_GROUP_MAX ranks of one
 *           cache or NUMA node; two more for each level of groups above
 *   order   by place within a group, groups by leader, so all ranks compute the
 *           same bits; f16, bf16 and f8 are rounded once
 *
 * Up to NODE_LINE_DATA bytes travel in the very line that says that they are
 * there; longer ones lie beside it. There is no barrier at the end: a slot is
 * written again four operations later, see node.h.
 *
 * With groups, a leader combines its group's vectors and publishes the sum one
 * level up; at the top all read all; then each leader publishes the result for
 * its group. Sums of narrow floats would be rounded at each level, so they go
 * without groups.
 */
#include <string.h>

#include "node/large.h"
#include "node/lines.h"

enum { GATE, UP };

static const unsigned char zeros[NODE_INLINE_BYTES];

static bool grouped(const struct node *n, const struct node_call *c)
{
    switch (c->kind) {
    case ALLREDUCE:
    case REDUCE:
        return !n->flat && !op_narrow(c->dtype) && !c->flat;
    case BROADCAST:
    case BARRIER:
        return !n->flat;
    default:
        return false;
    }
}

/* What this rank publishes first. */
static size_t sent_bytes(const struct node *n, const struct node_call *c)
{
    const size_t bytes = c->count * c->elem_bytes;
    switch (c->kind) {
    case BROADCAST:
        return n->me == c->root ? bytes : 0;
    case REDUCE:
    case GATHER:
        return n->me == c->root ? 0 : bytes;
    case SCATTER:
        return n->me == c->root ? bytes * (size_t)n->n : 0;
    case REDUCE_SCATTER:
        return c->parts ? c->parts->all.before[n->n] * c->elem_bytes
                        : bytes * (size_t)n->n;
    case ALLTOALL:
        return bytes * (size_t)n->n;
    case ALLGATHER:
        return large_part(c, n->me) * c->elem_bytes;
    case BARRIER:
        return 0;
    default:
        return bytes;
    }
}

static unsigned slot(const struct node *n)
{
    return n->number % NODE_SLOTS;
}

static unsigned next_slot(const struct node *n)
{
    return (n->number + 1) % NODE_SLOTS;
}

static void publish(struct node *n, struct node_line *line, unsigned char *copy,
                    const void *data, size_t bytes)
{
    if (bytes == 8) /* without a call of memcpy() */
        memcpy(line->data, data, 8);
    else if (bytes)
        memcpy(bytes <= NODE_LINE_DATA ? line->data : copy, data, bytes);
    n->bytes_read += bytes;
    n->bytes_written += bytes;
    node_mark(line, n->word);
}

static void publish_up(struct node *n, int level, const void *data,
                       size_t bytes)
{
    struct node_region *r = n->peers[n->me].region;
    const unsigned s = slot(n);
    node_tell(n);
    publish(n, &r->entry[level][s], r->copy[level][s], data, bytes);
}

/* Parts that lie apart, one after another. */
static void publish_parts(struct node *n)
{
    struct node_region *r = n->peers[n->me].region;
    const struct node_call *c = &n->call;
    const unsigned s = slot(n);
    const size_t bytes = c->count * c->elem_bytes, all = bytes * (size_t)n->n;
    unsigned char *to =
        all <= NODE_LINE_DATA ? r->entry[0][s].data : r->copy[0][s];
    node_tell(n);
    for (int i = 0; i < n->n && bytes; i++)
        memcpy(to + (size_t)i * bytes,
               (const char *)c->in + large_part_at(c, i) * c->elem_bytes,
               bytes);
    n->bytes_read += all;
    n->bytes_written += all;
    node_mark(&r->entry[0][s], n->word);
}

/* Where the vector of a rank lies, that it published at a level. */
static const void *published(const struct node *n, int place, int level,
                             size_t bytes)
{
    const struct node_region *r = n->peers[place].region;
    const unsigned s = slot(n);
    return bytes <= NODE_LINE_DATA ? r->entry[level][s].data
                                   : r->copy[level][s];
}

/* What this rank will read of each rank that it hears of, where that does not
 * fit into a line. */
static void look_ahead(struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t bytes = c->count * c->elem_bytes;
    const bool parts = large_in_parts(c);
    const size_t first =
        c->parts ? c->parts->all.before[n->me] : (size_t)n->me * c->count;
    n->ahead_at = parts ? first * c->elem_bytes : 0;
    n->ahead = (parts ? bytes * (size_t)n->n : bytes) > NODE_LINE_DATA
                       && c->kind != BARRIER
                   ? bytes
                   : 0;
}

static void fetch_ahead(const struct node *n, int place)
{
    node_fetch_ahead(n->peers[place].region->copy[0][slot(n)] + n->ahead_at,
                     n->ahead);
}

/* Waits for the entries of members [n->at, nmembers). */
static coll_status gather(struct node *n, const int *members, int nmembers,
                          int level)
{
    for (; n->at < nmembers; n->at++) {
        const int place = members ? members[n->at] : n->at;
        if (place == n->me)
            continue;
        if (n->ahead)
            fetch_ahead(n, place);
        const coll_status status = node_arrived(
            n, place, &n->peers[place].region->entry[level][slot(n)]);
        if (status != COLL_OK)
            return status;
    }
    return COLL_OK;
}

static void combine(struct node *n, void *dst, int nsrc, size_t count,
                    int divisor)
{
    const struct node_call *c = &n->call;
    if (!count)
        return;
    op_run(c->combine, &dst, 1, n->src, nsrc, count, divisor, false);
    n->bytes_read += (size_t)nsrc * count * c->elem_bytes;
    n->bytes_written += count * c->elem_bytes;
}

static void copy(struct node *n, void *dst, const void *src, size_t bytes)
{
    if (!bytes || dst == src)
        return;
    memcpy(dst, src, bytes);
    n->bytes_read += bytes;
    n->bytes_written += bytes;
}

/* --- one group ------------------------------------------------------------ */

/* This rank's own vector, or what another published. */
static const void *whose(const struct node *n, int place, size_t bytes)
{
    return place == n->me ? n->call.in : published(n, place, 0, bytes);
}

/* Of all ranks' vectors, which have a part for each, this rank's. */
static void combine_parts(struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t all = sent_bytes(n, c), me = (size_t)n->me;
    const size_t first = c->parts ? c->parts->all.before[me] : me * c->count;
    for (int i = 0; i < n->n; i++)
        n->src[i] =
            (i == n->me && !c->apart ? (const char *)c->in
                                     : (const char *)published(n, i, 0, all))
            + first * c->elem_bytes;
    combine(n, c->out, n->n, large_part(c, n->me), n->n);
}

static void gather_parts(struct node *n)
{
    const struct node_call *c = &n->call;
    char *out = c->out;
    for (int i = 0; i < n->n; i++) {
        const size_t bytes = large_part(c, i) * c->elem_bytes;
        copy(n, out + large_part_at(c, i) * c->elem_bytes, whose(n, i, bytes),
             bytes);
    }
}

static void finish_flat(struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t bytes = c->count * c->elem_bytes;
    const size_t all = bytes * (size_t)n->n, mine = (size_t)n->me * bytes;
    char *out = c->out;
    switch (c->kind) {
    case REDUCE:
        if (n->me != c->root)
            return;
        /* fall through */
    case ALLREDUCE:
        for (int i = 0; i < n->n; i++)
            n->src[i] = whose(n, i, bytes);
        combine(n, out, n->n, c->count, n->n);
        return;
    case REDUCE_SCATTER:
        combine_parts(n);
        return;
    case BROADCAST:
        copy(n, out, whose(n, c->root, bytes), bytes);
        return;
    case SCATTER:
        copy(n, out, (const char *)whose(n, c->root, all) + mine, bytes);
        return;
    case GATHER:
        if (n->me != c->root)
            return;
        /* fall through */
    case ALLGATHER:
        gather_parts(n);
        return;
    case ALLTOALL:
        for (int i = 0; i < n->n; i++)
            copy(n, out + (size_t)i * bytes,
                 (const char *)whose(n, i, all) + mine, bytes);
        return;
    default:
        return;
    }
}

/* Whom this rank has to hear of. */
static coll_status hear(struct node *n)
{
    const struct node_call *c = &n->call;
    const struct node_region *root = n->peers[c->root].region;
    switch (c->kind) {
    case BROADCAST:
    case SCATTER:
        if (n->me == c->root)
            return COLL_OK;
        if (n->ahead)
            fetch_ahead(n, c->root);
        return node_arrived(n, c->root, &root->entry[0][slot(n)]);
    case REDUCE:
    case GATHER:
        if (n->me != c->root)
            return COLL_OK;
        /* fall through */
    default: {
        const coll_status status = gather(n, NULL, n->n, 0);
        if (status == COLL_OK)
            n->safe = n->number;
        return status;
    }
    }
}

static coll_status step_flat(struct node *n)
{
    if (n->state == GATE) {
        const coll_status status = node_gate(n);
        if (status != COLL_OK)
            return status;
        if (n->call.apart && n->call.kind == REDUCE_SCATTER)
            publish_parts(n);
        else
            publish_up(n, 0, n->call.in, sent_bytes(n, &n->call));
        n->at = 0;
        n->state = UP;
        look_ahead(n);
        node_ring_all(n);
        return COLL_IN_PROGRESS; /* nobody has had the time to answer */
    }
    const coll_status status = hear(n);
    if (status == COLL_OK) {
        finish_flat(n);
        fetch_to_write(&n->peers[n->me].region->entry[0][next_slot(n)]);
    }
    return status;
}

/* --- groups of groups ------------------------------------------------------
 */

/* Where this rank's vector of a level lies; at level ngroups, where it
 * publishes the result for those whom it leads. */
static void *room(const struct node *n, int level, size_t bytes)
{
    struct node_region *r = n->peers[n->me].region;
    const unsigned s = slot(n);
    const bool small = bytes <= NODE_LINE_DATA;
    if (level == n->ngroups)
        return small ? r->result[s].data : r->copy[NODE_LEVELS_MAX][s];
    return small ? r->entry[level][s].data : r->copy[level][s];
}

/* The vectors of a group's members, combined. */
static void combine_group(struct node *n, int level, void *dst, int divisor)
{
    const struct node_membership *g = &n->groups[level];
    const struct node_call *c = &n->call;
    for (int i = 0; i < g->nmembers; i++)
        n->src[i] =
            published(n, g->members[i], level, c->count * c->elem_bytes);
    combine(n, dst, g->nmembers, c->count, divisor);
}

/* The result is in `from`. */
static coll_status deliver(struct node *n, const void *from, size_t bytes)
{
    void *const mine = room(n, n->ngroups, bytes);
    if (n->ngroups > 1) {
        copy(n, mine, from, bytes);
        node_mark(&n->peers[n->me].region->result[slot(n)], n->word);
        node_ring_all(n);
    }
    if (n->call.kind != REDUCE || n->me == n->call.root)
        copy(n, n->call.out, from, bytes);
    n->safe = n->number;
    return COLL_OK;
}

/* Level by level, as long as this rank leads. */
static coll_status climb(struct node *n, size_t bytes)
{
    for (; n->level < n->ngroups - 1; n->level++) {
        const struct node_membership *g = &n->groups[n->level];
        const coll_status status = gather(n, g->members, g->nmembers, n->level);
        if (status != COLL_OK)
            return status;
        n->at = 0;
        combine_group(n, n->level, room(n, n->level + 1, bytes), 1);
        node_mark(&n->peers[n->me].region->entry[n->level + 1][slot(n)],
                  n->word);
        node_ring_all(n);
    }
    return COLL_OK;
}

static coll_status step_grouped(struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t bytes = c->count * c->elem_bytes;
    const struct node_membership *last = &n->groups[n->ngroups - 1];
    coll_status status;
    if (n->state == GATE) {
        if ((status = node_gate(n)) != COLL_OK)
            return status;
        publish_up(n, 0, c->in, bytes);
        n->at = n->level = 0;
        n->ahead = 0;
        n->state = UP;
        node_ring_all(n);
    }
    if ((status = climb(n, bytes)) != COLL_OK)
        return status;
    if (!n->top) { /* the leader has the result */
        const struct node_region *r = n->peers[last->members[0]].region;
        status = node_arrived(n, last->members[0], &r->result[slot(n)]);
        return status != COLL_OK
                   ? status
                   : deliver(n,
                             bytes <= NODE_LINE_DATA
                                 ? r->result[slot(n)].data
                                 : r->copy[NODE_LEVELS_MAX][slot(n)],
                             bytes);
    }
    if ((status = gather(n, last->members, last->nmembers, n->level))
        != COLL_OK)
        return status;
    combine_group(n, n->level, room(n, n->ngroups, bytes), n->n);
    return deliver(n, room(n, n->ngroups, bytes), bytes);
}

void node_start_inline(struct node *n)
{
    struct node_call *c = &n->call;
    node_begin(n);
    n->step = step_flat;
    if (!grouped(n, c))
        return;
    n->step = step_grouped;
    if (c->kind == BROADCAST) { /* as a sum to which only the root adds */
        c->combine = op_combine(COLL_U8, COLL_BOR);
        c->count *= c->elem_bytes;
        c->elem_bytes = 1;
        if (n->me != c->root)
            c->in = zeros;
    }
}
