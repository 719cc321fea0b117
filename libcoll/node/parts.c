/* SPDX-License-Identifier: MIT */
/* Parts whose lengths only two ranks know each: gather_v, scatter_v and
 * alltoall_v.
 *
 *   short   a rank publishes what it has for others, with lengths, as in
 *           inline.c; who wants a part copies it out
 *   long    it says so instead, and all go on as in direct.c, with lengths and
 *           places of parts beside the vectors' own: who wants a part reads it,
 *           or, of a gather, who has it writes it
 *   time    short: one transfer of a cache line; long: as in direct.c, as a
 *           rank with long parts publishes both at once
 *
 * One long part makes it long for all, and not every rank knows. The root of a
 * gather or scatter knows all lengths, so its word counts, for which the others
 * wait; in an alltoall all hear of all.
 *
 * A length is compared with what the other rank expects before a byte is moved.
 */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "node/large.h"
#include "node/lines.h"

enum { GATE, HEAR };
enum { FORM_LINE, FORM_COPY, FORM_LONG, FORM_BITS = 2 };

/* At the beginning of a line: elements << FORM_BITS | form. Of a gather so many
 * are the rank's own. */
typedef uint64_t head;
enum { LINE_ROOM = NODE_LINE_DATA - sizeof(head) };

/* Of a short message but a gather's: where each part ends, in bytes; then, on a
 * boundary of 8 bytes, the parts but the rank's own. */
typedef uint16_t end;
_Static_assert(NODE_INLINE_BYTES <= UINT16_MAX, "an end has 16 bits");

/* Of a long one, in the slot's copy. */
struct table {
    uint64_t longest;
    struct large_parts_entry part[NODE_PARTS_RANKS];
};
_Static_assert(sizeof(struct table) <= NODE_INLINE_BYTES, "fits into a slot");

static unsigned slot(const struct node *n)
{
    return n->number % NODE_SLOTS;
}

static struct node_line *entry(const struct node *n, int place)
{
    return &n->peers[place].region->entry[0][slot(n)];
}

static unsigned char *copy_of(const struct node *n, int place)
{
    return n->peers[place].region->copy[0][slot(n)];
}

static head head_of(const struct node *n, int place)
{
    head h;
    memcpy(&h, entry(n, place)->data, sizeof(h));
    return h;
}

static bool is_root(const struct node *n)
{
    return n->me == n->call.root;
}

/* Whether a rank has a part for each. */
static bool has_parts(const struct node_call *c, int place)
{
    return c->kind == ALLTOALL || (c->kind == SCATTER && place == c->root);
}

static size_t ends_bytes(const struct node *n)
{
    return ((size_t)n->n * sizeof(end) + 7) & ~(size_t)7;
}

/* --- what this rank says ---------------------------------------------------
 */

/* Of its short message, if it is short. */
static size_t said_bytes(const struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t mine = large_part(c, n->me);
    if (has_parts(c, n->me))
        return ends_bytes(n)
               + (c->parts->all.before[n->n] - mine) * c->elem_bytes;
    return c->kind == GATHER && !is_root(n) ? mine * c->elem_bytes : 0;
}

/* As for even parts: one exchange less pays for another copy. */
static bool is_short(const struct node *n, size_t bytes)
{
    return bytes <= NODE_INLINE_BYTES && bytes <= 2 * n->inline_bytes;
}

static bool says_short(const struct node *n, size_t bytes)
{
    const struct node_call *c = &n->call;
    for (int i = 0; c->kind == GATHER && is_root(n) && i < n->n; i++)
        if (i != n->me && !is_short(n, large_part(c, i) * c->elem_bytes))
            return false;
    return is_short(n, bytes);
}

static void write_parts(const struct node *n, unsigned char *to)
{
    const struct node_call *c = &n->call;
    unsigned char *const data = to + ends_bytes(n);
    size_t at = 0;
    for (int i = 0; i < n->n; i++) {
        const size_t bytes = i == n->me ? 0 : large_part(c, i) * c->elem_bytes;
        if (bytes)
            memcpy(data + at,
                   (const char *)c->in + large_part_at(c, i) * c->elem_bytes,
                   bytes);
        at += bytes;
        const end e = (end)at;
        memcpy(to + (size_t)i * sizeof(e), &e, sizeof(e));
    }
}

static void write_table(const struct node *n)
{
    const struct node_call *c = &n->call;
    struct table *t = (struct table *)(void *)copy_of(n, n->me);
    t->longest = c->count;
    for (int i = 0; i < n->n; i++)
        t->part[i] =
            (struct large_parts_entry){large_part_at(c, i), large_part(c, i)};
}

static void enter_long(struct node *n)
{
    const struct node_call *c = &n->call;
    if (has_parts(c, n->me) || (c->kind == GATHER && is_root(n)))
        write_table(n);
    n->level = 1;
    large_enter(n);
}

static void publish(struct node *n)
{
    const struct node_call *c = &n->call;
    struct node_line *line = entry(n, n->me);
    const size_t bytes = said_bytes(n);
    const bool brief = says_short(n, bytes);
    const unsigned form = !brief               ? FORM_LONG
                          : bytes <= LINE_ROOM ? FORM_LINE
                                               : FORM_COPY;
    const head h = (head)(c->kind == GATHER ? large_part(c, n->me) : 0)
                       << FORM_BITS
                   | form;
    unsigned char *const to =
        form == FORM_LINE ? line->data + sizeof(h) : copy_of(n, n->me);
    if (!brief) {
        enter_long(n);
    } else if (has_parts(c, n->me)) {
        write_parts(n, to);
    } else if (bytes) {
        memcpy(to, c->in, bytes);
    }
    if (brief) {
        n->bytes_read += bytes;
        n->bytes_written += bytes;
    }
    memcpy(line->data, &h, sizeof(h));
    node_mark(line, n->word);
    node_ring_all(n);
}

/* --- whom it hears ---------------------------------------------------------
 */

static bool hears(const struct node *n, int place)
{
    const struct node_call *c = &n->call;
    if (place == n->me)
        return false;
    return c->kind == ALLTOALL || place == c->root
           || (c->kind == GATHER && is_root(n));
}

static bool hears_all(const struct node *n)
{
    return n->call.kind == ALLTOALL || (n->call.kind == GATHER && is_root(n));
}

/* So many bytes that it wants of a rank. */
static size_t wanted(const struct node *n, int place)
{
    const struct node_call *c = &n->call;
    const size_t count = c->kind == ALLTOALL ? large_got(c, place)
                         : c->kind == GATHER
                             ? (is_root(n) ? large_part(c, place) : 0)
                             : large_part(c, n->me);
    return count * c->elem_bytes;
}

static coll_status hear(struct node *n)
{
    for (; n->at < n->n; n->at++) {
        if (!hears(n, n->at))
            continue;
        if (n->ahead)
            node_fetch_ahead(copy_of(n, n->at), wanted(n, n->at));
        const coll_status status = node_arrived(n, n->at, entry(n, n->at));
        if (status != COLL_OK)
            return status;
    }
    return COLL_OK;
}

/* After it has heard them. */
static bool is_long(const struct node *n)
{
    const struct node_call *c = &n->call;
    if (n->level) /* it is this rank that said so */
        return true;
    for (int i = 0; i < n->n; i++)
        if (hears(n, i) && (c->kind == ALLTOALL || i == c->root)
            && (head_of(n, i) & 3) == FORM_LONG)
            return true;
    return false;
}

/* --- short -----------------------------------------------------------------
 */

static coll_status differ(struct node *n, int from, int to, size_t sent,
                          size_t expected)
{
    if (sent == expected)
        return COLL_OK;
    n->differ = (struct node_lengths){from, to, sent, expected};
    return fail(COLL_ERR_MISMATCH, "shm",
                "rank %d sends %zu elements to rank %d, which expects %zu",
                n->rank_of[from], sent, n->rank_of[to], expected);
}

static const unsigned char *message_of(const struct node *n, int place, head h)
{
    return (h & 3) == FORM_LINE ? entry(n, place)->data + sizeof(h)
                                : copy_of(n, place);
}

/* What another rank has for this one; *bytes of it. */
static const unsigned char *part_of(const struct node *n, int place,
                                    size_t *bytes)
{
    const head h = head_of(n, place);
    const unsigned char *x = message_of(n, place, h);
    const size_t me = (size_t)n->me;
    end first = 0, last;
    if (n->call.kind == GATHER) {
        *bytes = (size_t)(h >> FORM_BITS) * n->call.elem_bytes;
        return x;
    }
    if (me)
        memcpy(&first, x + (me - 1) * sizeof(end), sizeof(end));
    memcpy(&last, x + me * sizeof(end), sizeof(end));
    *bytes = (size_t)last - first;
    return x + ends_bytes(n) + first;
}

/* What this rank has for itself. */
static const void *own_part(const struct node_call *c, int me)
{
    return has_parts(c, me) && large_part(c, me)
               ? (const char *)c->in + large_part_at(c, me) * c->elem_bytes
               : c->in;
}

/* This rank's part of what another has published, or its own. */
static coll_status take(struct node *n, int place)
{
    const struct node_call *c = &n->call;
    const size_t elem = c->elem_bytes, bytes = wanted(n, place);
    size_t sent = bytes;
    const void *from =
        place == n->me ? own_part(c, n->me) : part_of(n, place, &sent);
    if (sent != bytes)
        return differ(n, place, n->me, sent / elem, bytes / elem);
    if (!bytes)
        return COLL_OK;
    const size_t at = c->kind == ALLTOALL ? large_got_at(c, place)
                      : c->kind == GATHER ? large_part_at(c, place)
                                          : 0;
    char *const out = (char *)c->out + at * elem;
    if (from == out)
        return COLL_OK;
    memcpy(out, from, bytes);
    n->bytes_read += bytes;
    n->bytes_written += bytes;
    return COLL_OK;
}

static coll_status take_all(struct node *n)
{
    const bool own = n->call.kind == ALLTOALL || is_root(n);
    coll_status status = own ? take(n, n->me) : COLL_OK;
    for (int i = 0; i < n->n && status == COLL_OK; i++)
        if (hears(n, i) && !(n->call.kind == GATHER && !is_root(n)))
            status = take(n, i);
    return status;
}

/* --- long ------------------------------------------------------------------
 */

struct large_parts_entry large_parts_of(const struct node *n, int place)
{
    const struct table *t = (const struct table *)(void *)copy_of(n, place);
    return t->part[n->me];
}

size_t large_parts_span(const struct node *n)
{
    const struct node_call *c = &n->call;
    size_t span = 0;
    for (int i = 0; i < n->n; i++) {
        const size_t count = large_part(c, i);
        if (count && large_part_at(c, i) + count > span)
            span = large_part_at(c, i) + count;
    }
    return span;
}

/* The two lengths of the part between another rank and this one. */
static coll_status compare(struct node *n, int place)
{
    const struct node_call *c = &n->call;
    const bool to_root = c->kind == GATHER;
    const size_t mine = wanted(n, place) / c->elem_bytes;
    if (to_root && is_root(n))
        return differ(n, place, n->me, (size_t)(head_of(n, place) >> FORM_BITS),
                      mine);
    if (c->kind != ALLTOALL && place != c->root)
        return COLL_OK;
    const size_t its = (size_t)large_parts_of(n, place).count;
    return to_root ? differ(n, n->me, place, large_part(c, n->me), its)
                   : differ(n, place, n->me, its, mine);
}

coll_status large_parts_agree(struct node *n)
{
    struct node_call *c = &n->call;
    coll_status status = COLL_OK;
    for (int i = 0; i < n->n && status == COLL_OK; i++) {
        if (c->kind == ALLTOALL || i == c->root) {
            const struct table *t = (const struct table *)(void *)copy_of(n, i);
            if (t->longest > c->count)
                c->count = (size_t)t->longest;
        }
        if (i != n->me)
            status = compare(n, i);
    }
    return status;
}

static coll_status step(struct node *n)
{
    coll_status status;
    if (n->state == GATE) {
        if ((status = node_gate(n)) != COLL_OK)
            return status;
        publish(n);
        n->at = 0;
        n->ahead =
            n->call.count * n->call.elem_bytes + ends_bytes(n) > LINE_ROOM;
        n->state = HEAR;
        return COLL_IN_PROGRESS; /* nobody has had the time to answer */
    }
    if ((status = hear(n)) != COLL_OK)
        return status;
    if (hears_all(n))
        n->safe = n->number;
    if (is_long(n)) {
        if (!n->level)
            enter_long(n);
        large_follow(n);
        return n->step(n);
    }
    status = take_all(n);
    if (status == COLL_OK)
        fetch_to_write(
            &n->peers[n->me].region->entry[0][(n->number + 1) % NODE_SLOTS]);
    return status;
}

void node_start_parts(struct node *n)
{
    assert(n->n <= NODE_PARTS_RANKS);
    node_begin(n);
    n->differ.from = -1;
    n->step = step;
}
