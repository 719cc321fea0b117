/* SPDX-License-Identifier: MIT */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

/* A step, its layers, and the parts, of which communication may come between
 * the layers' backward, and with the update before their forward. */
static size_t trace_room(const struct net *net)
{
    return PROFILE_TRACE_STEPS * (8 * (size_t)net->nlayers + 16);
}

int profile_open(struct profile *p, struct net *net, struct breakdown *time,
                 long nsteps, bool trace)
{
    const size_t n = (size_t)net->nlayers;
    const long room = nsteps < PROFILE_KEEP ? nsteps : PROFILE_KEEP;
    *p =
        (struct profile){.net = net, .time = time, .room = room > 0 ? room : 1};
    const size_t kept = n * (size_t)p->room;
    p->clock.forward = calloc(n, sizeof(*p->clock.forward));
    p->clock.gradients = calloc(n, sizeof(*p->clock.gradients));
    p->clock.backward = calloc(n, sizeof(*p->clock.backward));
    p->layer_sums = calloc(n, sizeof(*p->layer_sums));
    p->forward = calloc(kept, sizeof(*p->forward));
    p->backward = calloc(kept, sizeof(*p->backward));
    p->sorted = calloc((size_t)p->room, sizeof(*p->sorted));
    if (!p->clock.forward || !p->clock.gradients || !p->clock.backward
        || !p->layer_sums || !p->forward || !p->backward || !p->sorted
        || (trace && trace_open(&p->trace, trace_room(net)))) {
        profile_close(p);
        return -1;
    }
    net->clock = &p->clock;
    return 0;
}

void profile_close(struct profile *p)
{
    if (p->net)
        p->net->clock = NULL;
    if (p->time)
        p->time->trace = NULL;
    trace_close(&p->trace);
    free(p->clock.forward);
    free(p->clock.gradients);
    free(p->clock.backward);
    free(p->layer_sums);
    free(p->forward);
    free(p->backward);
    free(p->sorted);
    *p = (struct profile){0};
}

/* Whether the trace has the step at work. */
static bool is_traced(const struct profile *p)
{
    return p->trace.room && p->begun > 1 && p->begun <= 1 + PROFILE_TRACE_STEPS;
}

static void add(struct profile *p, const char *category, const char *name,
                long number, struct net_span span)
{
    trace_add(&p->trace, (struct trace_event){category, name, number, span});
}

void profile_begin(struct profile *p, long step)
{
    if (!p)
        return;
    const size_t bytes = (size_t)p->net->nlayers * sizeof(struct net_span);
    memset(p->clock.forward, 0, bytes);
    memset(p->clock.gradients, 0, bytes);
    memset(p->clock.backward, 0, bytes);
    memcpy(p->before, p->time->seconds, sizeof(p->before));
    p->begun++;
    p->start = p->time->entered;
    p->event = p->trace.count;
    if (!is_traced(p))
        return;
    add(p, "step", "step", step, (struct net_span){p->start, p->start});
    p->time->trace = &p->trace;
}

static void trace_layers(struct profile *p, const char *category,
                         const struct net_span *spans)
{
    for (int i = 0; i < p->net->nlayers; i++)
        if (spans[i].end > 0)
            add(p, category, NULL, i, spans[i]);
}

/* Steps with fewer images do not count, so with more all begins anew. */
static bool counts(struct profile *p, int images)
{
    if (images > p->images) {
        p->images = images;
        p->nsteps = 0;
        p->seconds = 0;
        memset(p->sums, 0, sizeof(p->sums));
        memset(p->layer_sums, 0,
               (size_t)p->net->nlayers * sizeof(*p->layer_sums));
    }
    return images && images == p->images;
}

static double seconds(struct net_span s)
{
    return s.end - s.start;
}

static void keep(struct profile *p)
{
    const long at = p->nsteps++ % p->room;
    p->seconds += p->time->entered - p->start;
    for (int i = 0; i < PARTS; i++)
        p->sums[i] += p->time->seconds[i] - p->before[i];
    for (int i = 0; i < p->net->nlayers; i++) {
        const double forward = seconds(p->clock.forward[i]);
        const double backward =
            seconds(p->clock.gradients[i]) + seconds(p->clock.backward[i]);
        p->layer_sums[i] += forward + backward;
        p->forward[i * p->room + at] = (float)forward;
        p->backward[i * p->room + at] = (float)backward;
    }
}

void profile_end(struct profile *p, int images)
{
    if (!p)
        return;
    p->time->trace = NULL;
    if (is_traced(p)) {
        if (p->event < p->trace.count)
            p->trace.events[p->event].span.end = p->time->entered;
        trace_layers(p, "forward", p->clock.forward);
        trace_layers(p, "gradients", p->clock.gradients);
        trace_layers(p, "backward", p->clock.backward);
    }
    if (p->begun > 1 && counts(p, images))
        keep(p);
}
