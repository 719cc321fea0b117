/* SPDX-License-Identifier: MIT */
#include "transport/flows.h"

#include <math.h>
#include <stdlib.h>

#include "transport/agenda.h"

enum { NONE = -1 };

static const double tolerance = 1e-9; /* of what is full, for rounding */
static const double same = 1e-12; /* rates that differ by less, relatively */

/* One flow on one resource, in the list of the resource. */
struct use {
    int resource, prev, next;
    double weight;
};

struct flow {
    int nuses; /* NONE: a free place, next_free is the next one */
    int next_free;
    double left, rate, since; /* bytes left at `since`, bytes per second */
    double most;              /* its rate if it had all resources alone */
    unsigned pass;            /* in which it was last met */
    bool rated;
    struct use use[FLOW_USES];
};

struct resource {
    int first; /* use number: flow * FLOW_USES + index; NONE: idle */
    int nflows;
    double demand; /* sum of weight * most: above 1 some flow has to wait */
    bool dirty;
    bool scarce; /* when rates were last found */
    unsigned pass;
    double spare, weights; /* while rates are found */
    int waiting;           /* flows on it without a rate yet */
};

/* Growing lists of numbers. */
struct list {
    int *at;
    size_t n, capacity;
};

struct flows {
    struct resource *resources;
    struct flow *flows;
    int nflows, capacity, free_flow;
    struct agenda ends, levels; /* of flows; of resources, while filled */
    struct list dirty, reached; /* resources */
    struct list fresh, met;     /* flows */
    unsigned pass;
    bool failed; /* for want of memory */
};

static void push(struct flows *f, struct list *l, int x)
{
    if (l->n == l->capacity) {
        const size_t capacity = l->capacity ? 2 * l->capacity : 64;
        int *at = realloc(l->at, capacity * sizeof(*at));
        if (!at) {
            f->failed = true;
            return;
        }
        l->at = at;
        l->capacity = capacity;
    }
    l->at[l->n++] = x;
}

struct flows *flows_create(int nresources)
{
    struct flows *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->free_flow = NONE;
    f->resources = calloc((size_t)nresources + 1, sizeof(*f->resources));
    if (!f->resources) {
        free(f);
        return NULL;
    }
    for (int r = 0; r < nresources; r++)
        f->resources[r].first = NONE;
    return f;
}

void flows_free(struct flows *f)
{
    if (!f)
        return;
    free(f->resources);
    free(f->flows);
    agenda_free(&f->ends);
    agenda_free(&f->levels);
    free(f->dirty.at);
    free(f->reached.at);
    free(f->fresh.at);
    free(f->met.at);
    free(f);
}

static struct use *use_of(struct flows *f, int number)
{
    return &f->flows[number / FLOW_USES].use[number % FLOW_USES];
}

static void note_end(struct flows *f, int place, double at)
{
    f->failed |=
        !agenda_put(&f->ends, (struct agenda_item){.at = at, .what = place});
}

static void mark_dirty(struct flows *f, int resource)
{
    struct resource *r = &f->resources[resource];
    if (!r->dirty)
        push(f, &f->dirty, resource);
    r->dirty = true;
}

static int take_place(struct flows *f)
{
    if (f->free_flow != NONE) {
        const int place = f->free_flow;
        f->free_flow = f->flows[place].next_free;
        return place;
    }
    if (f->nflows == f->capacity) {
        const int capacity = f->capacity ? 2 * f->capacity : 256;
        struct flow *flows =
            realloc(f->flows, (size_t)capacity * sizeof(*flows));
        if (!flows)
            return NONE;
        f->flows = flows;
        f->capacity = capacity;
    }
    f->flows[f->nflows].pass = 0;
    return f->nflows++;
}

static void link_use(struct flows *f, int number)
{
    struct use *u = use_of(f, number);
    struct resource *r = &f->resources[u->resource];
    u->prev = NONE;
    u->next = r->first;
    if (r->first != NONE)
        use_of(f, r->first)->prev = number;
    r->first = number;
    r->nflows++;
}

static void unlink_use(struct flows *f, int number)
{
    struct use *u = use_of(f, number);
    struct resource *r = &f->resources[u->resource];
    if (u->prev != NONE)
        use_of(f, u->prev)->next = u->next;
    else
        r->first = u->next;
    if (u->next != NONE)
        use_of(f, u->next)->prev = u->prev;
    r->nflows--;
}

int flows_add(struct flows *f, const struct flow_use *uses, int nuses,
              double bytes, double now)
{
    const int place = take_place(f);
    if (place == NONE)
        return NONE;
    struct flow *flow = &f->flows[place];
    double heaviest = 0;
    for (int i = 0; i < nuses; i++)
        heaviest = fmax(heaviest, uses[i].weight);
    flow->nuses = nuses;
    flow->left = bytes;
    flow->rate = 0;
    flow->since = now;
    flow->most = 1 / heaviest;
    for (int i = 0; i < nuses; i++) {
        flow->use[i] = (struct use){.resource = uses[i].resource,
                                    .weight = uses[i].weight};
        link_use(f, place * FLOW_USES + i);
        f->resources[uses[i].resource].demand += uses[i].weight * flow->most;
        mark_dirty(f, uses[i].resource);
    }
    if (nuses == 0)
        note_end(f, place, now);
    else
        push(f, &f->fresh, place);
    return place;
}

void flows_remove(struct flows *f, int place)
{
    struct flow *flow = &f->flows[place];
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[flow->use[i].resource];
        unlink_use(f, place * FLOW_USES + i);
        r->demand =
            r->nflows ? r->demand - flow->use[i].weight * flow->most : 0;
        mark_dirty(f, flow->use[i].resource);
    }
    agenda_drop(&f->ends, place);
    flow->nuses = NONE;
    flow->next_free = f->free_flow;
    f->free_flow = place;
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
    push(f, &f->reached, resource);
}

static void meet(struct flows *f, int place)
{
    struct flow *flow = &f->flows[place];
    if (flow->pass == f->pass)
        return;
    flow->pass = f->pass;
    flow->rated = false;
    push(f, &f->met, place);
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[flow->use[i].resource];
        if (!r->scarce)
            continue;
        reach(f, flow->use[i].resource);
        r->weights += flow->use[i].weight;
        r->waiting++;
    }
}

static void meet_all(struct flows *f, int resource)
{
    for (int u = f->resources[resource].first; u != NONE;
         u = use_of(f, u)->next)
        meet(f, u / FLOW_USES);
}

static void give_rate(struct flows *f, struct flow *flow, double rate,
                      double now)
{
    flow->rated = true;
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[flow->use[i].resource];
        if (!r->scarce)
            continue;
        r->spare -= rate * flow->use[i].weight;
        r->weights -= flow->use[i].weight;
        r->waiting--;
    }
    if (fabs(rate - flow->rate) <= same * rate)
        return;
    flow->left -= (flow->rate > 0 ? flow->rate : rate) * (now - flow->since);
    if (flow->left < 0 && flow->rate > 0)
        flow->left = 0;
    flow->since = now;
    flow->rate = rate;
    note_end(f, (int)(flow - f->flows), now + flow->left / rate);
}

/* The rate that the flows of a resource may have by what it leaves. */
static double level_of(const struct resource *r)
{
    return fmax(r->spare, 0) / r->weights;
}

static void note_level(struct flows *f, int resource)
{
    f->failed |=
        !agenda_put(&f->levels, (struct agenda_item){
                                    .at = level_of(&f->resources[resource]),
                                    .what = resource,
                                });
}

/* The fullest resource with flows to rate, or NONE. Levels only rise, so what
 * stands first is the fullest if its level is still what is noted. */
static int find_fullest(struct flows *f)
{
    while (f->levels.n) {
        const struct agenda_item first = f->levels.heap[0];
        const struct resource *r = &f->resources[first.what];
        if (!r->waiting)
            agenda_take(&f->levels);
        else if (level_of(r) <= first.at * (1 + same))
            return first.what;
        else
            note_level(f, first.what);
    }
    return NONE;
}

/* Flows that can never reach the level get what they can, and leave the list.
 * Returns the least that one of the others could have. */
static double rate_limited(struct flows *f, double level, double now)
{
    struct list *l = &f->met;
    double least = INFINITY;
    for (size_t i = 0; i < l->n;) {
        struct flow *flow = &f->flows[l->at[i]];
        if (!flow->rated && flow->most > level) {
            least = fmin(least, flow->most);
            i++;
            continue;
        }
        if (!flow->rated)
            give_rate(f, flow, flow->most, now);
        l->at[i] = l->at[--l->n];
    }
    return least;
}

static void rate_all(struct flows *f, int resource, double level, double now)
{
    for (int u = f->resources[resource].first; u != NONE;
         u = use_of(f, u)->next) {
        struct flow *flow = &f->flows[u / FLOW_USES];
        if (!flow->rated)
            give_rate(f, flow, fmax(level, 1e-30), now);
    }
}

/* All flows whose rates depend on those that were met: their rates grow alike
 * until a flow has all it can use or a resource is full, and so on. */
static void fill(struct flows *f, double now)
{
    for (size_t next = 0; next < f->reached.n; next++)
        meet_all(f, f->reached.at[next]);
    for (size_t i = 0; i < f->reached.n; i++)
        note_level(f, f->reached.at[i]);
    double least = 0; /* that a flow of the list could have */
    for (int fullest; (fullest = find_fullest(f)) != NONE;) {
        const double level = level_of(&f->resources[fullest]);
        if (least <= level)
            least = rate_limited(f, level, now);
        else
            rate_all(f, fullest, level, now);
    }
    rate_limited(f, INFINITY, now);
    f->reached.n = 0;
}

/* Where a resource has enough for all, now and before, no flow's rate depends
 * on another's. So only what is or was scarce is looked at, and new flows. */
bool flows_settle(struct flows *f, double now)
{
    size_t n = 0;
    f->pass++;
    for (size_t i = 0; i < f->dirty.n; i++) {
        struct resource *r = &f->resources[f->dirty.at[i]];
        const bool before = r->scarce;
        r->dirty = false;
        r->scarce = r->demand > 1 + tolerance;
        if (before || r->scarce)
            f->dirty.at[n++] = f->dirty.at[i];
    }
    for (size_t i = 0; i < n; i++) {
        meet_all(f, f->dirty.at[i]);
        fill(f, now);
    }
    for (size_t i = 0; i < f->fresh.n; i++) {
        const struct flow *flow = &f->flows[f->fresh.at[i]];
        if (flow->nuses != NONE && flow->rate == 0)
            meet(f, f->fresh.at[i]);
        fill(f, now);
    }
    f->dirty.n = f->fresh.n = 0;
    return !f->failed;
}

bool flows_next(const struct flows *f, double *at, int *flow)
{
    if (!f->ends.n)
        return false;
    *at = f->ends.heap[0].at;
    *flow = f->ends.heap[0].what;
    return true;
}
