/* SPDX-License-Identifier: MIT */
#include "transport/flows.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { NONE = -1 };

/* One flow on one resource, in the list of the resource. */
struct use {
    int resource, prev, next;
    double weight;
};

struct flow {
    struct use use[FLOW_USES];
    int nuses; /* NONE: a free place, next_free is the next one */
    int next_free;
    double left, rate, since; /* bytes left at `since`, bytes per second */
    uint32_t version;         /* of its entry in the heap */
    unsigned pass;            /* in which it was last met */
    bool rated;
};

struct resource {
    int first; /* use number: flow * FLOW_USES + index; NONE: idle */
    int nflows;
    bool dirty;
    unsigned pass;
    double spare, weights; /* while rates are found */
    int waiting;           /* flows on it without a rate yet */
};

struct end {
    double at;
    int flow;
    uint32_t version;
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
    struct end *heap;
    size_t nheap, heap_capacity;
    struct list dirty, reached; /* resources */
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
    free(f->heap);
    free(f->dirty.at);
    free(f->reached.at);
    free(f);
}

static struct use *use_of(struct flows *f, int number)
{
    return &f->flows[number / FLOW_USES].use[number % FLOW_USES];
}

static void heap_push(struct flows *f, struct end e)
{
    if (f->nheap == f->heap_capacity) {
        const size_t capacity = f->heap_capacity ? 2 * f->heap_capacity : 256;
        struct end *heap = realloc(f->heap, capacity * sizeof(*heap));
        if (!heap) {
            f->failed = true;
            return;
        }
        f->heap = heap;
        f->heap_capacity = capacity;
    }
    size_t i = f->nheap++;
    for (; i > 0 && e.at < f->heap[(i - 1) / 2].at; i = (i - 1) / 2)
        f->heap[i] = f->heap[(i - 1) / 2];
    f->heap[i] = e;
}

static void heap_drop(struct flows *f)
{
    const struct end last = f->heap[--f->nheap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < f->nheap; i = child) {
        if (child + 1 < f->nheap && f->heap[child + 1].at < f->heap[child].at)
            child++;
        if (last.at <= f->heap[child].at)
            break;
        f->heap[i] = f->heap[child];
    }
    f->heap[i] = last;
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
    f->flows[f->nflows].version = 0;
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
    flow->nuses = nuses;
    flow->left = bytes;
    flow->rate = 0;
    flow->since = now;
    for (int i = 0; i < nuses; i++) {
        flow->use[i] = (struct use){.resource = uses[i].resource,
                                    .weight = uses[i].weight};
        link_use(f, place * FLOW_USES + i);
        mark_dirty(f, uses[i].resource);
    }
    if (nuses == 0)
        heap_push(f, (struct end){now, place, flow->version});
    return place;
}

void flows_remove(struct flows *f, int place)
{
    struct flow *flow = &f->flows[place];
    for (int i = 0; i < flow->nuses; i++) {
        unlink_use(f, place * FLOW_USES + i);
        mark_dirty(f, flow->use[i].resource);
    }
    flow->version++;
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
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[flow->use[i].resource];
        reach(f, flow->use[i].resource);
        r->weights += flow->use[i].weight;
        r->waiting++;
    }
}

/* All flows whose rates may depend on those of a resource. */
static void gather(struct flows *f, int resource)
{
    size_t next = f->reached.n;
    reach(f, resource);
    for (; next < f->reached.n; next++)
        for (int u = f->resources[f->reached.at[next]].first; u != NONE;
             u = use_of(f, u)->next)
            meet(f, u / FLOW_USES);
}

static void give_rate(struct flows *f, struct flow *flow, double rate,
                      double now)
{
    flow->rated = true;
    for (int i = 0; i < flow->nuses; i++) {
        struct resource *r = &f->resources[flow->use[i].resource];
        r->spare -= rate * flow->use[i].weight;
        r->weights -= flow->use[i].weight;
        r->waiting--;
    }
    if (rate == flow->rate)
        return;
    flow->left -= flow->rate * (now - flow->since);
    if (flow->left < 0)
        flow->left = 0;
    flow->since = now;
    flow->rate = rate;
    flow->version++;
    heap_push(f, (struct end){now + flow->left / rate, (int)(flow - f->flows),
                              flow->version});
}

/* Fills all rates alike until a resource is full, fixes those of its flows, and
 * so on. */
static void fill(struct flows *f, size_t first_resource, double now)
{
    const double tolerance = 1e-9;
    size_t n = f->reached.n;
    int *const at = f->reached.at;
    while (n > first_resource) {
        double least = INFINITY;
        for (size_t i = first_resource; i < n;) {
            const struct resource *r = &f->resources[at[i]];
            if (r->waiting == 0) { /* done with: out of the way */
                const int done = at[i];
                at[i] = at[--n];
                at[n] = done;
                continue;
            }
            least = fmin(least, fmax(r->spare, 0) / r->weights);
            i++;
        }
        for (size_t i = first_resource; i < n; i++) {
            const struct resource *r = &f->resources[at[i]];
            if (r->waiting == 0
                || fmax(r->spare, 0) / r->weights > least * (1 + tolerance))
                continue;
            for (int u = r->first; u != NONE; u = use_of(f, u)->next) {
                struct flow *flow = &f->flows[u / FLOW_USES];
                if (!flow->rated)
                    give_rate(f, flow, fmax(least, 1e-30), now);
            }
        }
    }
}

bool flows_settle(struct flows *f, double now)
{
    if (!f->dirty.n)
        return !f->failed;
    f->pass++;
    f->reached.n = 0;
    for (size_t i = 0; i < f->dirty.n; i++) {
        const size_t first = f->reached.n;
        f->resources[f->dirty.at[i]].dirty = false;
        if (f->resources[f->dirty.at[i]].pass == f->pass)
            continue;
        gather(f, f->dirty.at[i]);
        fill(f, first, now);
    }
    f->dirty.n = 0;
    return !f->failed;
}

bool flows_next(struct flows *f, double *at, int *flow)
{
    while (f->nheap) {
        const struct end e = f->heap[0];
        if (f->flows[e.flow].version == e.version
            && f->flows[e.flow].nuses != NONE) {
            *at = e.at;
            *flow = e.flow;
            return true;
        }
        heap_drop(f);
    }
    return false;
}
