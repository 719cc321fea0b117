/* SPDX-License-Identifier: MIT */
#include "evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int net_fits(const struct net *net, const struct dataset *data, char *error,
             size_t error_bytes)
{
    const struct shape a = net->input, b = data->image;
    if (a.c != b.c || a.h != b.h || a.w != b.w) {
        snprintf(error, error_bytes,
                 "the net takes %dx%dx%d, but the images "
                 "of %s are %dx%dx%d",
                 a.c, a.h, a.w, data->ops->name, b.c, b.h, b.w);
        return -1;
    }
    if (net->nclasses < data->nclasses) {
        snprintf(error, error_bytes, "the net knows %d classes, but %s has %d",
                 net->nclasses, data->ops->name, data->nclasses);
        return -1;
    }
    return 0;
}

/* What one rank does of an evaluation. */
struct pass {
    struct net *net;
    const struct dataset *data;
    float *images;
    int *labels;
    float *rows; /* the next one to write; NULL: none wanted */
    double loss, correct;
    char *error;
    size_t error_bytes;
};

size_t evaluate_first(const struct dataset *data, int rank, int nranks)
{
    return data->count * (size_t)rank / (size_t)nranks;
}

static void add_rows(struct pass *p, int n)
{
    const struct tensor y = p->net->y[p->net->nlayers - 1];
    const size_t nclasses = (size_t)p->net->nclasses;
    for (int i = 0; i < n; i++, p->rows += 1 + nclasses) {
        p->rows[0] = (float)p->labels[i];
        memcpy(p->rows + 1, y.x + (size_t)i * image_floats(y.shape),
               nclasses * sizeof(float));
    }
}

static int read_images(struct pass *p, size_t first, int n)
{
    const size_t pixels = shape_count(p->data->image);
    int failed = 0;
    for (int i = 0; !failed && i < n; i++)
        failed = p->data->ops->read(p->data, first + (size_t)i,
                                    p->images + (size_t)i * pixels,
                                    &p->labels[i], p->error, p->error_bytes);
    return failed;
}

/* Sums over images first..end-1. */
static int add_scores(struct pass *p, size_t first, size_t end)
{
    while (first < end) {
        const size_t left = end - first, batch = (size_t)p->net->input.n;
        const int n = (int)(left < batch ? left : batch);
        int right = 0;
        if (read_images(p, first, n))
            return -1;
        p->loss +=
            net_forward(p->net, p->images, p->labels, n, false, 0, 0, &right);
        p->correct += right;
        if (p->rows)
            add_rows(p, n);
        first += (size_t)n;
    }
    return 0;
}

coll_status evaluate(struct net *net, const struct dataset *data,
                     struct strategy *strategy, float *rows,
                     struct score *score, char *error, size_t error_bytes)
{
    const int nranks = coll_comm_count(strategy->comm),
              rank = coll_comm_user_rank(strategy->comm);
    const size_t batch = (size_t)net->input.n;
    struct pass p = {
        .net = net,
        .data = data,
        .images = malloc(batch * shape_count(data->image) * sizeof(float)),
        .labels = malloc(batch * sizeof(int)),
        .rows = rows,
        .error = error,
        .error_bytes = error_bytes,
    };
    const bool ready = p.images && p.labels;
    const int failed =
        ready
        && add_scores(&p, evaluate_first(data, rank, nranks),
                      evaluate_first(data, rank + 1, nranks));
    free(p.images);
    free(p.labels);
    if (failed)
        return COLL_ERR_SYSTEM;
    double sums[] = {p.loss, p.correct, !ready};
    const coll_status status = strategy_reduce(strategy, sums, 3, COLL_SUM);
    if (status)
        return status;
    if (sums[2] > 0) /* on any rank, so that all return the same */
        return COLL_ERR_MEMORY;
    *score = (struct score){sums[0] / (double)data->count,
                            sums[1] / (double)data->count};
    return COLL_OK;
}
