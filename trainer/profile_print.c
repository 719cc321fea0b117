/* SPDX-License-Identifier: MIT */
/* The tables of --profile. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "layer/reorders.h"
#include "profile.h"

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of the seconds that were kept of layer i. */
static double median(const struct profile *p, const float *kept, int i)
{
    const long n = p->nsteps < p->room ? p->nsteps : p->room;
    memcpy(p->sorted, kept + i * p->room, (size_t)n * sizeof(*kept));
    qsort(p->sorted, (size_t)n, sizeof(*p->sorted), ascending);
    return 0.5 * ((double)p->sorted[(n - 1) / 2] + (double)p->sorted[n / 2]);
}

/* Of one image, as convolution and product are defined: each weight meets each
 * position of the output. 0 for layers that are neither, whose parameters come
 * one a channel. */
static double multiply_adds(const struct layer *l)
{
    struct layer_param params[4] = {{0}};
    if (!l->nparams)
        return 0;
    l->ops->describe(l, params, 4);
    if (params[0].ndims < 2)
        return 0;
    double weights = 1;
    for (int i = 0; i < params[0].ndims; i++)
        weights *= params[0].dims[i];
    return weights * (double)shape_plane(l->out);
}

/* Anything learns before it. */
static bool has_data_gradient(const struct net *net, int i)
{
    const int from = net->layers[i].from[0];
    return from >= 0 && net->layers[from].learns;
}

/* Gradients that backward computes by as many multiply-adds as forward: those
 * of the input, and of weights that have no factors. */
static int ngradients(const struct net *net, int i)
{
    return has_data_gradient(net, i) + !net->layers[i].factors.x;
}

static void shape_text(char *to, size_t bytes, struct shape s, int more)
{
    int used = s.h == 1 && s.w == 1
                   ? snprintf(to, bytes, "%d", s.c)
                   : snprintf(to, bytes, "%dx%dx%d", s.c, s.h, s.w);
    if (more)
        snprintf(to + used, bytes - (size_t)used, " +%d", more);
}

/* "-" where there is no such number. */
static void put_number(FILE *to, int width, int digits, double x)
{
    if (x > 0)
        fprintf(to, "%*.*f", width, digits, x);
    else
        fprintf(to, "%*s", width, "-");
}

static int label_width(const struct net *net)
{
    size_t width = strlen("name");
    for (int i = 0; i < net->nlayers; i++)
        if (strlen(net->layers[i].name) > width)
            width = strlen(net->layers[i].name);
    return (int)width;
}

static void print_layer(const struct profile *p, int i, int width, FILE *to)
{
    const struct layer *l = &p->net->layers[i];
    const double forward = median(p, p->forward, i),
                 backward = median(p, p->backward, i),
                 flops = 2e-9 * multiply_adds(l) * p->images;
    char in[64], out[64];
    shape_text(in, sizeof(in), l->in, l->ninputs - 1);
    shape_text(out, sizeof(out), l->out, 0);
    fprintf(to, "%5d  %-*s  %-12s  %-14s  %-12s", i, width,
            *l->name ? l->name : "-", l->ops->name, in, out);
    if (l->done) { /* its time is that of a neighbour */
        fprintf(to, "%10s%10s%8s%10s%10s\n", "fused", "fused", "-", "-", "-");
        return;
    }
    if (l->summed) /* forward's is */
        fprintf(to, "%10s", "fused");
    else
        put_number(to, 10, 3, forward * 1e3);
    put_number(to, 10, 3, backward * 1e3);
    fprintf(to, "%8.1f", 100 * p->layer_sums[i] / p->seconds);
    put_number(to, 10, 1, forward > 0 ? flops / forward : 0);
    put_number(to, 10, 1,
               backward > 0 ? flops * ngradients(p->net, i) / backward : 0);
    fputc('\n', to);
}

static void print_layers(const struct profile *p, FILE *to)
{
    const int width = label_width(p->net);
    fprintf(to, "%*s  %20s%8s  %18s\n", width + 51, "", "median milliseconds",
            "% of", "GFLOP/s");
    fprintf(to, "%5s  %-*s  %-12s  %-14s  %-12s%10s%10s%8s%10s%10s\n", "layer",
            width, "name", "kind", "input", "output", "forward", "backward",
            "step", "forward", "backward");
    for (int i = 0; i < p->net->nlayers; i++)
        print_layer(p, i, width, to);
}

static void print_part(const char *name, double seconds,
                       const struct profile *p, FILE *to)
{
    fprintf(to, "  %-40s%14.3f%10.1f\n", name,
            seconds * 1e3 / (double)p->nsteps, 100 * seconds / p->seconds);
}

static void print_parts(const struct profile *p, FILE *to)
{
    fprintf(to, "%-42s%14s%10s\n", "part of the step", "milliseconds", "%");
    static const enum part parts[] = {PART_READ,   PART_FORWARD, PART_BACKWARD,
                                      PART_INSIDE, PART_UPDATE,  PART_CENTRE};
    double rest = p->seconds;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const double seconds = parts[i] == PART_INSIDE
                                   ? breakdown_communication(p->sums)
                                   : p->sums[parts[i]];
        rest -= seconds;
        if (seconds > 0 || parts[i] != PART_CENTRE) /* most have none */
            print_part(part_name(parts[i]), seconds, p, to);
    }
    print_part(part_name(PART_REST), rest, p, to);
    print_part("step", p->seconds, p, to);
}

static void print_bytes(const char *name, size_t bytes, FILE *to)
{
    fprintf(to, "  %-40s%14zu%10.1f\n", name, bytes, (double)bytes / 1048576);
}

/* What images, outputs and their gradients would take if each had a place of
 * its own. */
static size_t unshared_bytes(const struct net *net)
{
    size_t floats =
        net->plain ? shape_count(net->input) : shape_floats(net->input);
    for (int i = 0; i < net->nlayers; i++)
        floats += layer_floats(&net->layers[i]) * (net->dy[i].x ? 2 : 1);
    return floats * sizeof(float);
}

static size_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (size_t)usage.ru_maxrss * 1024;
}

/* What the net has besides that has a line of its own. */
static size_t scratch_bytes(const struct net *net)
{
    const size_t counts[] = {net->params.count, net->grads.count,
                             net->state.count,  net->work.count,
                             net->saved.count,  net->factors.count};
    size_t bytes = net_bytes(net);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        bytes -= arena_bytes(counts[i]);
    return bytes;
}

static void print_memory(const struct profile *p, const struct update *u,
                         FILE *to)
{
    const struct net *net = p->net;
    const size_t weights = arena_bytes(net->params.count),
                 state = arena_bytes(u->state.count);
    fprintf(to, "%-42s%14s%10s\n", "memory", "bytes", "MiB");
    print_bytes("parameters", weights, to);
    print_bytes("gradients", arena_bytes(net->grads.count), to);
    if (net->factors.x)
        print_bytes("factors of gradients", arena_bytes(net->factors.count),
                    to);
    print_bytes("outputs and their gradients", arena_bytes(net->work.count),
                to);
    print_bytes("  the same without sharing", unshared_bytes(net), to);
    print_bytes("saved from forward to backward", arena_bytes(net->saved.count),
                to);
    print_bytes("scratch", scratch_bytes(net), to);
    print_bytes("kept but not learned", arena_bytes(net->state.count), to);
    print_bytes("optimiser", state, to);
    if (u->common.nranks > 1) {
        char what[64];
        snprintf(what, sizeof(what), "parameters, optimiser: once for %d ranks",
                 u->common.nranks);
        print_bytes(what, weights + state, to);
    }
    print_bytes("peak of the whole process", peak_bytes(), to);
}

/* The images too, where no layer takes them as they come. */
static size_t reordered_bytes(const struct net *net, bool everywhere)
{
    size_t count = net->plain ? 0 : shape_count(net->input);
    for (int i = 0; i < net->nlayers; i++)
        count += layer_reorders(&net->layers[i], has_data_gradient(net, i),
                                everywhere);
    return count * sizeof(float);
}

static void print_layouts(const struct net *net, FILE *to)
{
    fprintf(to, "%-42s%14s%10s\n", "reordered in a step", "bytes", "MiB");
    print_bytes("between blocked and plain", reordered_bytes(net, false), to);
    print_bytes("the same if every convolution did", reordered_bytes(net, true),
                to);
}

void profile_print(const struct profile *p, const struct update *u, FILE *to)
{
    if (p->nsteps) {
        fprintf(to,
                "profile of rank 0: %ld step%s of %d image%s; without the "
                "first step and those with fewer images\n\n",
                p->nsteps, p->nsteps == 1 ? "" : "s", p->images,
                p->images == 1 ? "" : "s");
        print_layers(p, to);
        fputc('\n', to);
        print_parts(p, to);
    } else {
        fputs("profile of rank 0: no step to measure, as the first one does "
              "not count\n",
              to);
    }
    fputc('\n', to);
    print_memory(p, u, to);
    fputc('\n', to);
    print_layouts(p->net, to);
    fputc('\n', to);
}
