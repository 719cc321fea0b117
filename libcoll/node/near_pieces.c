/* SPDX-License-Identifier: MIT */
/* Long vectors by groups: who has which piece. See near.c for what is done with
 * them; here is how vectors and areas are cut.
 *
 * A slice is that of one rank of a group of level 0. It is cut into blocks, and
 * a block into the pieces of level 1, and each of these into those of level 2:
 * at cache lines, so the last ones may be shorter or empty.
 */
#include "node/near.h"

#include "base/log.h"

coll_status near_group(struct node *n, const struct node_place places[])
{
    char text[NEST_TEXT_BYTES];
    struct node_near *near = &n->near;
    const coll_status status =
        nest_build(near->nest, near->place_of, places, n->n);
    if (status < 0)
        return status;
    for (int i = 0; i < n->n; i++)
        near->position_of[near->place_of[i]] = i;
    for (int kind = 0; kind < NKINDS && n->me == 0; kind++) {
        nest_print(&near->nest[kind], text);
        if (near->nest[kind].depth)
            log_line(COLL_LOG_INFO, "shm", "long %s: %s%s", kind_names[kind],
                     kind_reduces((enum coll_kind)kind) ? "" : "as one, or ",
                     text);
    }
    return COLL_OK;
}

static int position(const struct node *n)
{
    return n->near.position_of[n->me];
}

int near_digit(const struct node *n, int level)
{
    return nest_digit(near_nest(n), level, position(n));
}

int near_sibling(const struct node *n, int level, int i)
{
    const int away = (i - near_digit(n, level)) * near_nest(n)->under[level];
    return n->near.place_of[position(n) + away];
}

bool near_has_root(const struct node *n, int level)
{
    const int ranks = near_nest(n)->under[level];
    return n->near.position_of[n->call.root] / ranks == position(n) / ranks;
}

size_t near_parts(const struct node *n, int level)
{
    return kind_has_parts(n->call.kind)
               ? (size_t)(n->n / nest_ranks(near_nest(n), level))
               : 1;
}

int near_part_of(const struct node *n, int level, int place, size_t k)
{
    const int ranks = nest_ranks(near_nest(n), level);
    return n->near
        .place_of[(int)k * ranks + n->near.position_of[place] % ranks];
}

size_t near_part_at(const struct node *n, int level, int place, size_t k)
{
    return kind_has_parts(n->call.kind)
               ? large_part_at(&n->call, near_part_of(n, level, place, k))
               : 0;
}

/* A level's pieces are half as long as those of the level below, or less, and
 * those of the last level need no area. */
static size_t area_at(int level)
{
    return NODE_STAGE_BYTES - (NODE_STAGE_BYTES >> level);
}

char *near_area(const struct node *n, int level, int place, size_t block)
{
    return (char *)n->peers[place].region->in[block % 2] + area_at(level);
}

/* What fits into the area of level 0, which has all where there is no other. */
static size_t block_count(const struct node *n)
{
    const size_t room = near_top(n) > 1 ? area_at(1) : NODE_STAGE_BYTES;
    const size_t count = room / n->call.elem_bytes / near_parts(n, 0);
    return count & ~(size_t)63 ? count & ~(size_t)63 : count;
}

/* The cut of s that falls to a position on a level. */
static struct large_share cut(const struct node *n, int level, int at,
                              struct large_share s)
{
    const struct nest *t = near_nest(n);
    return large_share(&n->call, nest_digit(t, level, at), t->size[level],
                       s.first, s.count);
}

static struct large_share slice(const struct node *n, int at)
{
    const struct large_share all = {0, n->call.count};
    return kind_has_parts(n->call.kind) ? all : cut(n, 0, at, all);
}

size_t near_blocks(const struct node *n)
{
    const size_t each = block_count(n), count = slice(n, 0).count;
    return count > each ? (count + each - 1) / each : 1;
}

struct large_share near_piece(const struct node *n, int level, int place,
                              size_t block)
{
    const int at = n->near.position_of[place];
    const size_t each = block_count(n);
    struct large_share s = slice(n, at);
    const size_t skip = block * each < s.count ? block * each : s.count;
    s.first += skip;
    s.count = s.count - skip < each ? s.count - skip : each;
    const bool whole = kind_has_parts(n->call.kind);
    for (int l = 1; l <= level && !whole; l++)
        if (l < near_top(n) || near_nest(n)->split)
            s = cut(n, l, at, s);
    return s;
}
