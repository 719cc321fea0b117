/* SPDX-License-Identifier: MIT */
#include "evaluate.h"

#include <stdio.h>
#include <stdlib.h>

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

/* Sums over images first..end-1. */
static void add_scores(struct net *net, const struct dataset *data,
                       float *images, int *labels, size_t first, size_t end,
                       double *loss, double *correct)
{
    const size_t pixels = shape_count(data->image);
    while (first < end) {
        const size_t left = end - first, batch = (size_t)net->input.n;
        const int n = (int)(left < batch ? left : batch);
        int right = 0;
        for (int i = 0; i < n; i++)
            data->ops->read(data, first + (size_t)i,
                            images + (size_t)i * pixels, &labels[i]);
        *loss += net_forward(net, images, labels, n, false, 0, 0, &right);
        *correct += right;
        first += (size_t)n;
    }
}

coll_status evaluate(struct net *net, const struct dataset *data,
                     struct strategy *strategy, struct score *score)
{
    const size_t nranks = (size_t)coll_comm_count(strategy->comm),
                 rank = (size_t)coll_comm_user_rank(strategy->comm),
                 batch = (size_t)net->input.n;
    float *images = malloc(batch * shape_count(data->image) * sizeof(float));
    int *labels = malloc(batch * sizeof(*labels));
    double sums[3] = {0, 0, !images || !labels};
    if (images && labels)
        add_scores(net, data, images, labels, data->count * rank / nranks,
                   data->count * (rank + 1) / nranks, &sums[0], &sums[1]);
    free(images);
    free(labels);
    const coll_status status = strategy_reduce(strategy, sums, 3, COLL_SUM);
    if (status)
        return status;
    if (sums[2] > 0) /* on any rank, so that all return the same */
        return COLL_ERR_MEMORY;
    *score = (struct score){sums[0] / (double)data->count,
                            sums[1] / (double)data->count};
    return COLL_OK;
}
