/* SPDX-License-Identifier: MIT */
#include "net/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

static void write_entry(FILE *to, int layer, const char *name, const char *what,
                        const char *shape, size_t first, size_t count)
{
    fprintf(to,
            ",\"%d.%s.%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
            "\"data_offsets\":[%zu,%zu]}",
            layer, name, what, shape, first * sizeof(float),
            (first + count) * sizeof(float));
}

/* Weights come first, then one bias per output channel. */
static void write_layer(FILE *to, const struct layer *l, int number,
                        size_t first)
{
    char shape[96];
    const size_t out = (size_t)l->out.c, nbias = out;
    const size_t nweights = l->nparams - nbias,
                 window = (size_t)l->option.window.kernel_h
                          * (size_t)l->option.window.kernel_w;
    if (!strcmp(l->ops->name, "conv"))
        snprintf(shape, sizeof(shape), "%zu,%zu,%d,%d", out,
                 nweights / out / window, l->option.window.kernel_h,
                 l->option.window.kernel_w);
    else
        snprintf(shape, sizeof(shape), "%zu,%zu", out, nweights / out);
    write_entry(to, number, l->ops->name, "weight", shape, first, nweights);
    snprintf(shape, sizeof(shape), "%zu", nbias);
    write_entry(to, number, l->ops->name, "bias", shape, first + nweights,
                nbias);
}

static char *header_text(const struct net *net, uint64_t step, size_t *bytes)
{
    char *text = NULL;
    size_t first = 0;
    FILE *to = open_memstream(&text, bytes);
    if (!to)
        return NULL;
    fprintf(to, "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"%llu\"}",
            (unsigned long long)step);
    for (int i = 0; i < net->nlayers; i++) {
        if (net->layers[i].nparams)
            write_layer(to, &net->layers[i], i, first);
        first += net->layers[i].nparams;
    }
    fputc('}', to);
    for (long length = ftell(to); length % 8; length++)
        fputc(' ', to);
    return fclose(to) ? NULL : text;
}

int safetensors_write(const char *path, const struct net *net, uint64_t step,
                      char *error, size_t error_bytes)
{
    struct new_file f;
    size_t bytes = 0;
    unsigned char length[8];
    char *header = header_text(net, step, &bytes);
    if (!header) {
        snprintf(error, error_bytes, "%s: no memory", path);
        return -1;
    }
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)bytes >> (8 * i));
    int failed = file_begin(&f, path, error, error_bytes);
    if (!failed) {
        fwrite(length, 1, sizeof(length), f.stream);
        fwrite(header, 1, bytes, f.stream);
        fwrite(net->params.x, sizeof(float), net->params.count, f.stream);
        failed = file_commit(&f, error, error_bytes);
    }
    free(header);
    return failed;
}
