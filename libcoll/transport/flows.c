/* SPDX-License-Identifier: MIT */
#include "transport/flows.h"

#include <math.h>
#include <stdlib.h>

#include "transport/agenda.h"

enum { NONE = -1 };

static const double tolerance = 1e-9; /* of what is full, for rounding */
static const double same = 1e-12; /* rates that differ by less, relatively */

/* One way on one resource; in its list while something flows. */
struct use {
    int resource, flow, prev, next;
    double weight;
};

/* A way, and what flows on it. */
struct flow {
    int first, nuses; /* its uses: flows.uses[first] and on */
    unsigned pass;    /* in which it was last met */
    bool active, fresh, rated;
    double left, rate, since; /* bytes left at `since`, bytes per second */
    double most;              /* its rate if it had all resources alone */
};

struct resource {
    int first; /* use, the one that came last; NONE: idle */
    int nflows;
    bool dirty;
    bool scarce; /* when rates were last found */
    unsigned pass;
    double demand; /* sum of weight * most: above 1 some flow has to wait */
    double spare, weights; /* while rates are found */
    int waiting;           /* flows on it without a rate yet */
};

/* Numbers, each at most once. */
struct list {
    int *at;
    int n;
};

/* A resource, and the rate that its flows may have by what it leaves, or might
 * have had before. */
struct level {
    double rate;
    int resource, order; /* in which it was reached, where rates are equal */
};

struct flows {
    struct resource *resources;
    struct flow *flows;
    struct use *uses;
    int nflows, capacity, nuses, uses_capacity;
    struct agenda ends;         /* of flows */
    struct list dirty, reached; /* resources */
    struct list fresh, met;     /* flows */
    struct level *levels;       /* while rates are found: a heap, least first */
    int nlevels;
    int unrated;  /* flows that were met */
    double least; /* that one of those could have, or less */
    unsigned pass;
    bool failed; /* for want of memory */
};

/* Room for n items; they may move. False: no memory. */
static bool make_room(void **items, int *capacity, int n, size_t item_bytes)
{
    if (n <= *capacity)
        return true;
    const int more = 2 * n;
    void *moved = realloc(*items, (size_t)more * item_bytes);
    if (!moved)
        return false;
    *items = moved;
    *capacity = more;
    return true;
}

static void push(struct list *l, int x)
{
    l->at[l->n++] = x;
}

/* Room for so many in a list. */
static bool fit_list(struct list *l, int n)
{
    int *at = realloc(l->at, (size_t)n * sizeof(*at));
    l->at = at ? at : l->at;
    return at;
}

struct flows *flows_create(int nresources)
{
    struct flows *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->resources = calloc((size_t)nresources + 1, sizeof(*f->resources));
    f->levels = malloc(((size_t)nresources + 1) * sizeof(*f->levels));
    if (!f->resources || !f->levels || !fit_list(&f->dirty, nresources + 1)
        || !fit_list(&f->reached, nresources + 1)) {
        flows_free(f);
        return NULL;
    }
    for (int r = 0; r < nresources; r++)
        f->resources[r].first = NONE;
    f->least = INFINITY;
    return f;
}

void flows_free(struct flows *f)
{
    if (!f)
        return;
    free(f->resources);
    free(f->flows);
    free(f->uses);
    agenda_free(&f->ends);
    free(f->levels);
    free(f->dirty.at);
    free(f->reached.at);
    free(f->fresh.at);
    free(f->met.at);
    free(f);
}

static void note_end(struct flows *f, int flow, double at)
{
    f->failed |=
        !agenda_put(&f->ends, (struct agenda_item){.at = at, .what = flow});
}

static void mark_dirty(struct flows *f, int resource)
{
    struct resource *r = &f->resources[resource];
    if (!r->dirty)
        push(&f->dirty, resource);
    r->dirty = true;
}

/* For one more flow. */
static bool make_room_for_flow(struct flows *f)
{
    return f->nflows < f->capacity
           || (make_room((void **)&f->flows, &f->capacity, f->nflows + 1,
                         sizeof(*f->flows))
               && fit_list(&f->fresh, f->capacity)
               && fit_list(&f->met, f->capacity));
}

int flows_add_way(struct flows *f, const struct flow_use *uses, int nuses)
{
    double heaviest = 0;
    if (!make_room_for_flow(f)
        || !make_room((void **)&f->uses, &f->uses_capacity, f->nuses + nuses,
                      sizeof(*f->uses)))
        return NONE;
    for (int i = 0; i < nuses; i++) {
        heaviest = fmax(heaviest, uses[i].weight);
        f->uses[f->nuses + i] = (struct use){.resource = uses[i].resource,
                                             .flow = f->nflows,
                                             .weight = uses[i].weight};
    }
    f->flows[f->nflows] =
        (struct flow){.first = f->nuses, .nuses = nuses, .most = 1 / heaviest};
    f->nuses += nuses;
    return f->nflows++;
}

static void enter(struct flows *f, int use)
{
    struct use *u = &f->uses[use];
    struct resource *r = &f->resources[u->resource];
    u->prev = NONE;
    u->next = r->first;
    if (r->first != NONE)
        f->uses[r->first].prev = use;
    r->first = use;
    r->nflows++;
    r->demand += u->weight * f->flows[u->flow].most;
    mark_dirty(f, u->resource);
}

static void leave(struct flows *f, int use)
{
    const struct use *u = &f->uses[use];
    struct resource *r = &f->resources[u->resource];
    *(u->prev != NONE ? &f->uses[u->prev].next : &r->first) = u->next;
    if (u->next != NONE)
        f->uses[u->next].prev = u->prev;
    r->nflows--;
    r->demand = r->nflows ? r->demand - u->weight * f->flows[u->flow].most : 0;
    mark_dirty(f, u->resource);
}

bool flows_start(struct flows *f, int way, double bytes, double now)
{
    struct flow *flow = &f->flows[way];
    flow->left = bytes;
    flow->rate = 0;
    flow->since = now;
    flow->active = true;
    for (int i = 0; i < flow->nuses; i++)
        enter(f, flow->first + i);
    if (flow->nuses == 0)
        note_end(f, way, now);
    else if (!flow->fresh)
        push(&f->fresh, way);
    flow->fresh = flow->nuses > 0;
    return !f->failed;
}

void flows_stop(struct flows *f, int way)
{
    struct flow *flow = &f->flows[way];
    for (int i = 0; i < flow->nuses; i++)
        leave(f, flow->first + i);
    agenda_drop(&f->ends, way);
    flow->active = false;
}

static void reach(struct flows *f, int resource)
{
    struct resource *r = &f->resources[resource];
    if (r->pass == f->pass)
        return;
    r->pass = f->pass;
    r->spare = 1;
    r->weights = 0;
    r->waiting = 0;
    push(&f->reached, resource);
}

static void meet(struct flows *f, int place)
{
    struct flow *flow = &f->flows[place];
    if (flow->pass == f->pass)
        return;
    flow->pass = f->pass;
    flow->rated = false;
    f->unrated++;
    f->least = flow->most < f->least ? flow->most : f->least;
    push(&f->met, place);
    const struct use *use = &f->uses[flow->first];
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[use[i].resource];
        if (!r->scarce)
            continue;
        reach(f, use[i].resource);
        r->weights += use[i].weight;
        r->waiting++;
    }
}

static void meet_all(struct flows *f, int resource)
{
    for (int u = f->resources[resource].first; u != NONE; u = f->uses[u].next)
        meet(f, f->uses[u].flow);
}

static void set_rate(struct flows *f, struct flow *flow, double rate,
                     double now)
{
    if (fabs(rate - flow->rate) <= same * rate)
        return;
    flow->left -= (flow->rate > 0 ? flow->rate : rate) * (now - flow->since);
    if (flow->left < 0 && flow->rate > 0)
        flow->left = 0;
    flow->since = now;
    flow->rate = rate;
    note_end(f, (int)(flow - f->flows), now + flow->left / rate);
}

static void give_rate(struct flows *f, struct flow *flow, double rate,
                      double now)
{
    const struct use *use = &f->uses[flow->first];
    flow->rated = true;
    f->unrated--;
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[use[i].resource];
        if (!r->scarce)
            continue;
        r->spare -= rate * use[i].weight;
        r->weights -= use[i].weight;
        r->waiting--;
    }
    set_rate(f, flow, rate, now);
}

/* The rate that the flows of a resource may have by what it leaves. */
static double level_of(const struct resource *r)
{
    return r->spare > 0 ? r->spare / r->weights : 0;
}

static bool is_less(const struct level *x, const struct level *y)
{
    return x->rate < y->rate || (x->rate == y->rate && x->order < y->order);
}

/* Puts a level at place i of the heap or below. */
static void sink(struct flows *f, int i, struct level level)
{
    struct level *heap = f->levels;
    for (int child; (child = 2 * i + 1) < f->nlevels; i = child) {
        if (child + 1 < f->nlevels && is_less(&heap[child + 1], &heap[child]))
            child++;
        if (!is_less(&heap[child], &level))
            break;
        heap[i] = heap[child];
    }
    heap[i] = level;
}

static void note_levels(struct flows *f)
{
    f->nlevels = f->reached.n;
    for (int i = f->nlevels - 1; i >= 0; i--) {
        const int r = f->reached.at[i];
        sink(f, i, (struct level){level_of(&f->resources[r]), r, i});
    }
}

/* The fullest resource with flows to rate, or NONE. Levels only rise, so what
 * stands first is the fullest if its level is still what is noted. */
static int find_fullest(struct flows *f)
{
    while (f->unrated && f->nlevels) {
        const struct level first = f->levels[0];
        const struct resource *r = &f->resources[first.resource];
        const double rate = r->waiting ? level_of(r) : 0;
        if (!r->waiting)
            sink(f, 0, f->levels[--f->nlevels]);
        else if (rate <= first.rate * (1 + same))
            return first.resource;
        else
            sink(f, 0, (struct level){rate, first.resource, first.order});
    }
    return NONE;
}

/* Flows that can never reach the level get what they can, and leave the list.
 */
static void rate_limited(struct flows *f, double level, double now)
{
    struct list *l = &f->met;
    double least = INFINITY;
    for (int i = 0; i < l->n;) {
        struct flow *flow = &f->flows[l->at[i]];
        if (!flow->rated && flow->most > level) {
            least = flow->most < least ? flow->most : least;
            i++;
            continue;
        }
        if (!flow->rated)
            give_rate(f, flow, flow->most, now);
        l->at[i] = l->at[--l->n];
    }
    f->least = least;
}

static void rate_all(struct flows *f, int resource, double level, double now)
{
    for (int u = f->resources[resource].first; u != NONE; u = f->uses[u].next) {
        struct flow *flow = &f->flows[f->uses[u].flow];
        if (!flow->rated)
            give_rate(f, flow, fmax(level, 1e-30), now);
    }
}

/* All flows whose rates depend on those that were met: their rates grow alike
 * until a flow has all it can use or a resource is full, and so on. */
static void fill(struct flows *f, double now)
{
    for (int next = 0; next < f->reached.n; next++)
        meet_all(f, f->reached.at[next]);
    note_levels(f);
    for (int fullest; (fullest = find_fullest(f)) != NONE;) {
        const double level = level_of(&f->resources[fullest]);
        if (f->least <= level)
            rate_limited(f, level, now);
        else
            rate_all(f, fullest, level, now);
    }
    if (f->unrated)
        rate_limited(f, INFINITY, now);
    f->met.n = f->reached.n = 0;
    f->least = INFINITY;
}

/* Where a resource has enough for all, now and before, no flow's rate depends
 * on another's. So only what is or was scarce is looked at, and new flows:
 * those that were not met use nothing scarce. */
bool flows_settle(struct flows *f, double now)
{
    int n = 0;
    f->pass++;
    for (int i = 0; i < f->dirty.n; i++) {
        struct resource *r = &f->resources[f->dirty.at[i]];
        const bool before = r->scarce;
        r->dirty = false;
        r->scarce = r->demand > 1 + tolerance;
        if (before || r->scarce)
            f->dirty.at[n++] = f->dirty.at[i];
    }
    for (int i = 0; i < n; i++) {
        meet_all(f, f->dirty.at[i]);
        if (f->met.n)
            fill(f, now);
    }
    for (int i = 0; i < f->fresh.n; i++) {
        struct flow *flow = &f->flows[f->fresh.at[i]];
        flow->fresh = false;
        if (flow->active && flow->pass != f->pass)
            set_rate(f, flow, flow->most, now);
    }
    f->dirty.n = f->fresh.n = 0;
    return !f->failed;
}

bool flows_next(struct flows *f, double *at, int *way)
{
    const struct agenda_item *first = agenda_first(&f->ends);
    if (!first)
        return false;
    *at = first->at;
    *way = first->what;
    return true;
}
