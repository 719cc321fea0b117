/* SPDX-License-Identifier: MIT */
#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/options.h"

#define DATASET(name, file) extern const struct dataset_ops dataset_##name;
#include "data/datasets.def"
#undef DATASET

#define DATASET(name, file) &dataset_##name,
const struct dataset_ops *const datasets[] = {
#include "data/datasets.def"
};
#undef DATASET
enum { NDATASETS = sizeof(datasets) / sizeof(datasets[0]) };
const int ndatasets = NDATASETS;

static void refuse_name(const char *name, int length, char *error, size_t bytes)
{
    const char *names[NDATASETS];
    char word[64];
    for (int i = 0; i < NDATASETS; i++)
        names[i] = datasets[i]->name;
    snprintf(word, sizeof(word), "%.*s", length, name);
    say_unknown(error, bytes, word, names, NDATASETS);
}

int dataset_open(struct dataset *d, const char *name, enum dataset_part part,
                 struct shape wanted, char *error, size_t error_bytes)
{
    const char *colon = strchr(name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    *d = (struct dataset){0};
    for (int i = 0; i < ndatasets; i++) {
        const struct dataset_ops *ops = datasets[i];
        if (strlen(ops->name) != length || strncmp(ops->name, name, length))
            continue;
        const char *where = colon && colon[1] ? colon + 1 : ops->where;
        d->image = (struct shape){1, wanted.c, wanted.h, wanted.w};
        const int failed = ops->open(d, where, part, error, error_bytes);
        if (failed) {
            *d = (struct dataset){0};
            return failed;
        }
        d->ops = ops;
        return 0;
    }
    refuse_name(name, (int)length, error, error_bytes);
    return -1;
}

void dataset_close(struct dataset *d)
{
    if (d->ops)
        d->ops->close(d);
    *d = (struct dataset){0};
}
