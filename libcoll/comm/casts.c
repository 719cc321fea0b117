/* SPDX-License-Identifier: MIT */
#include "comm/casts.h"

static void drop(struct casts *c, struct kept_cast *k)
{
    c->bytes -= k->bytes;
    cast_free(&k->cast);
    *k = (struct kept_cast){.lineup = NULL};
}

/* What was not used for longest; free places were never used. */
static struct kept_cast *oldest(struct casts *c, bool free_too)
{
    struct kept_cast *k = NULL;
    for (int i = 0; i < CASTS; i++)
        if ((c->kept[i].lineup || free_too)
            && (!k || c->kept[i].used < k->used))
            k = &c->kept[i];
    return k;
}

coll_status casts_get(struct casts *c, const struct lineup *lineup,
                      const struct performance *what, const struct cast **cast)
{
    const int segments = lineup_segments(lineup, what);
    for (int i = 0; i < CASTS; i++) {
        struct kept_cast *k = &c->kept[i];
        if (k->lineup != lineup || k->algo != what->algo
            || k->segments != segments)
            continue;
        k->used = ++c->now;
        *cast = &k->cast;
        return COLL_OK;
    }
    struct cast made;
    const coll_status status = lineup_cast(lineup, what, &made);
    if (status < 0)
        return status;
    const size_t bytes = cast_bytes(&made);
    while (c->bytes > 0 && c->bytes + bytes > CASTS_BYTES)
        drop(c, oldest(c, false));
    struct kept_cast *k = oldest(c, true);
    if (k->lineup)
        drop(c, k);
    *k =
        (struct kept_cast){lineup, what->algo, segments, made, bytes, ++c->now};
    c->bytes += bytes;
    *cast = &k->cast;
    return COLL_OK;
}

void casts_free(struct casts *c)
{
    for (int i = 0; i < CASTS; i++)
        if (c->kept[i].lineup)
            drop(c, &c->kept[i]);
}
