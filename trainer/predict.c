/* SPDX-License-Identifier: MIT */
#include "predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dist/collect.h"
#include "dist/strategy.h"
#include "programs/whole_file.h"

struct csv {
    FILE *to;
    size_t columns; /* of a row: the label, the classes */
    size_t done;    /* floats that were written */
};

static size_t columns(const struct net *net)
{
    return 1 + (size_t)net->nclasses;
}

/* Of this rank. */
static size_t count_rows(const struct dataset *data, coll_comm *comm)
{
    const int rank = coll_comm_user_rank(comm), nranks = coll_comm_count(comm);
    return evaluate_first(data, rank + 1, nranks)
           - evaluate_first(data, rank, nranks);
}

float *predict_rows(const struct net *net, const struct dataset *data,
                    coll_comm *comm)
{
    /* A rank may have no image; NULL says only that there is no memory. */
    return malloc((1 + count_rows(data, comm) * columns(net)) * sizeof(float));
}

/* A take_fn. Parts may end within a row. */
static void write_part(void *context, int rank, const float *x, size_t count)
{
    (void)rank;
    struct csv *csv = context;
    for (size_t i = 0; i < count; i++, csv->done++) {
        const size_t column = csv->done % csv->columns;
        if (column == 0)
            fprintf(csv->to, "%zu,%d", csv->done / csv->columns, (int)x[i]);
        else
            fprintf(csv->to, ",%.6g", exp((double)x[i]));
        if (column == csv->columns - 1)
            putc('\n', csv->to);
    }
}

static void write_head(FILE *to, int nclasses)
{
    fputs("image,label", to);
    for (int c = 0; c < nclasses; c++)
        fprintf(to, ",%d", c);
    putc('\n', to);
}

/* What rank 0 does once it knows how much each rank has. */
static coll_status write_file(struct csv *csv, const char *path, int nclasses,
                              const struct floats *mine, const uint64_t *counts,
                              coll_comm *comm, char *error, size_t bytes)
{
    struct whole_file file;
    if (!whole_file_begin(&file, path, error, bytes))
        return COLL_ERR_SYSTEM;
    csv->to = file.stream;
    write_head(csv->to, nclasses);
    const coll_status status = collect(comm, mine, counts, write_part, csv);
    if (!status)
        return whole_file_end(&file, true, error, bytes) ? COLL_OK
                                                         : COLL_ERR_SYSTEM;
    whole_file_drop(&file);
    return status;
}

coll_status predict_write(const char *path, const struct net *net,
                          const struct dataset *data, const float *rows,
                          coll_comm *comm, char *error, size_t error_bytes)
{
    const struct floats mine = {
        .n = 1, .spans = {{rows, count_rows(data, comm) * columns(net)}}};
    const bool root = !coll_comm_user_rank(comm);
    struct csv csv = {.columns = columns(net)};
    uint64_t *counts = calloc((size_t)coll_comm_count(comm), sizeof(*counts));
    error[0] = '\0';
    coll_status status =
        counts ? collect_counts(comm, &mine, counts) : COLL_ERR_MEMORY;
    if (!status)
        status = root ? write_file(&csv, path, net->nclasses, &mine, counts,
                                   comm, error, error_bytes)
                      : collect(comm, &mine, counts, write_part, &csv);
    free(counts);
    if (status && !error[0])
        snprintf(error, error_bytes, "%s", strategy_why(comm, status));
    return status;
}
