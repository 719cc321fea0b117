/* SPDX-License-Identifier: MIT */
#include "net/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "programs/whole_file.h"

enum { MOST_PARAMS = 4 };

/* A layer's arrays, called by its name or, if it has none, its number and kind:
 * "conv1.weight", "3.conv.weight". Those of params begin at float *param of the
 * file, those of state at *state; both move on. */
static void write_layer(FILE *to, const struct layer *l, int number,
                        size_t *param, size_t *state)
{
    struct layer_param params[MOST_PARAMS + 1] = {0};
    size_t learned = 0;
    l->ops->describe(l, params, MOST_PARAMS);
    for (const struct layer_param *p = params; p->name; p++) {
        size_t count = 1, *first = learned < l->nparams ? param : state;
        if (*l->name)
            fprintf(to, ",\"%s.%s\"", l->name, p->name);
        else
            fprintf(to, ",\"%d.%s.%s\"", number, l->ops->name, p->name);
        fputs(":{\"dtype\":\"F32\",\"shape\":[", to);
        for (int i = 0; i < p->ndims; i++) {
            fprintf(to, "%s%d", i ? "," : "", p->dims[i]);
            count *= (size_t)p->dims[i];
        }
        fprintf(to, "],\"data_offsets\":[%zu,%zu]}", *first * sizeof(float),
                (*first + count) * sizeof(float));
        *first += count;
        learned += count;
    }
}

static char *header_text(const struct net *net, uint64_t step, size_t *bytes)
{
    char *text = NULL;
    size_t param = 0, state = net->params.count;
    FILE *to = open_memstream(&text, bytes);
    if (!to)
        return NULL;
    fprintf(to, "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"%llu\"}",
            (unsigned long long)step);
    for (int i = 0; i < net->nlayers; i++)
        if (net->layers[i].nparams)
            write_layer(to, &net->layers[i], i, &param, &state);
    fputc('}', to);
    for (long length = ftell(to); length % 8; length++)
        fputc(' ', to);
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

int safetensors_write(const char *path, const struct net *net, uint64_t step,
                      char *error, size_t error_bytes)
{
    struct whole_file f;
    size_t bytes = 0;
    unsigned char length[8];
    char *header = header_text(net, step, &bytes);
    if (!header) {
        snprintf(error, error_bytes, "%s: no memory", path);
        return -1;
    }
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)bytes >> (8 * i));
    bool good = whole_file_begin(&f, path, error, error_bytes);
    if (good) {
        fwrite(length, 1, sizeof(length), f.stream);
        fwrite(header, 1, bytes, f.stream);
        fwrite(net->params.x, sizeof(float), net->params.count, f.stream);
        fwrite(net->state.x, sizeof(float), net->state.count, f.stream);
        good = whole_file_end(&f, true, error, error_bytes);
    }
    free(header);
    return good ? 0 : -1;
}
