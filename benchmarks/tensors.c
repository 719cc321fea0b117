/* SPDX-License-Identifier: MIT */
/* What it costs to sum a net's gradients as one vector, tensor by tensor, or
 * all tensors in a group: for papers/packing.py.
 *
 *     coll_tensors FILE [SECONDS]
 *
 * FILE has the tensors' elements, a number a line, first layer first; they are
 * summed last layer first, as a backward pass has them. The ways take turns for
 * about SECONDS. Rank 0 prints a line of JSON: medians of the slowest rank's
 * milliseconds, and the messages of all ranks in the last turn. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "coll_tensors"
#include "small.h"

enum way { PACKED, LAYERS, GROUP, NWAYS };
enum { TURNS_MAX = 1000 };

struct tensors {
    coll_comm *comm;
    size_t *counts, total;
    int n;
    float *x;
    uint64_t messages[NWAYS]; /* that this rank sent in the last turn */
};

static void read_counts(struct tensors *t, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t count;
    if (!file)
        fail("the file of tensors cannot be read");
    while (fscanf(file, "%zu", &count) == 1) {
        size_t *more =
            realloc(t->counts, ((size_t)t->n + 1) * sizeof(*t->counts));
        if (!more)
            fail("no memory");
        t->counts = more;
        t->counts[t->n++] = count;
        t->total += count;
    }
    const bool all = feof(file);
    fclose(file);
    if (!t->total)
        fail("the file of tensors has no number above 0");
    if (!all)
        fail("the file of tensors has a line that is no number");
}

static uint64_t sent(const struct tensors *t)
{
    uint64_t messages;
    check(coll_stats_messages(t->comm, NULL, &messages));
    return messages;
}

static void sum(const struct tensors *t, enum way way)
{
    if (way == PACKED) {
        check(coll_allreduce(t->x, t->x, t->total, COLL_F32, COLL_SUM, t->comm,
                             NULL));
        return;
    }
    float *at = t->x + t->total;
    if (way == GROUP)
        check(coll_group_start());
    for (int i = t->n - 1; i >= 0; i--) {
        at -= t->counts[i];
        check(coll_allreduce(at, at, t->counts[i], COLL_F32, COLL_SUM, t->comm,
                             NULL));
    }
    if (way == GROUP)
        check(coll_group_end());
}

/* Of the slowest rank; all start together. */
static double timed(struct tensors *t, enum way way)
{
    double seconds;
    char word = 0;
    check(coll_allreduce(&word, &word, 1, COLL_I8, COLL_MAX, t->comm, NULL));
    const uint64_t before = sent(t);
    const double begin = now();
    sum(t, way);
    seconds = now() - begin;
    t->messages[way] = sent(t) - before;
    check(coll_allreduce(&seconds, &seconds, 1, COLL_F64, COLL_MAX, t->comm,
                         NULL));
    return seconds;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* times: sorted. */
static void print(const struct tensors *t, int turns,
                  double times[NWAYS][TURNS_MAX])
{
    static const char *const names[NWAYS] = {"packed", "layers", "group"};
    printf("{\"tensors\": %d, \"elements\": %zu, \"turns\": %d", t->n, t->total,
           turns);
    for (int way = 0; way < NWAYS; way++)
        printf(", \"%s_ms\": %.6g, \"%s_messages\": %" PRIu64, names[way],
               1e3 * times[way][turns / 2], names[way], t->messages[way]);
    printf("}\n");
}

int main(int argc, char **argv)
{
    struct tensors t = {0};
    static double times[NWAYS][TURNS_MAX];
    double first = 0;
    void *memory;
    if (argc < 2 || argc > 3)
        fail("found other than one file and seconds, valid is coll_tensors "
             "FILE [SECONDS]");
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 2;
    read_counts(&t, argv[1]);
    check(coll_comm_init(&t.comm));
    check(coll_mem_alloc(&memory, t.total * sizeof(float)));
    t.x = memset(memory, 0, t.total * sizeof(float));
    /* The first turn warms up; all ranks agree on how long it took. */
    for (int way = 0; way < NWAYS; way++)
        first += timed(&t, (enum way)way);
    const double fit = seconds / first;
    const int turns = fit < 3 ? 3 : fit > TURNS_MAX ? TURNS_MAX : (int)fit;
    for (int i = 0; i < turns; i++)
        for (int way = 0; way < NWAYS; way++)
            times[way][i] = timed(&t, (enum way)way);
    for (int way = 0; way < NWAYS; way++)
        qsort(times[way], (size_t)turns, sizeof(double), ascending);
    check(coll_allreduce(t.messages, t.messages, NWAYS, COLL_U64, COLL_SUM,
                         t.comm, NULL));
    if (coll_comm_user_rank(t.comm) == 0)
        print(&t, turns, times);
    check(coll_mem_free(memory));
    check(coll_comm_destroy(t.comm));
    free(t.counts);
    return 0;
}
