/* SPDX-License-Identifier: MIT */
/* One batch through a net, written down for a program that computes the same
 * by other means (net_torch_test.py).
 *
 *     net_job NET_FILE BATCH SEED FOLDER
 *
 * FOLDER gets these files of floats as the machine has them: params and before
 * (the state) as they are at the start, images (N, C, H, W), grads of the mean
 * loss, and state as the step in training mode leaves it; labels are ints.
 * NUMBER.x is what layer NUMBER read in that step, (N, C, H, W) too, for layers
 * with a kink: where x lies next to it, rounding decides on which side the
 * gradient is taken, and the other program has to take the same.
 * Prints "training LOSS RIGHT" and "evaluation LOSS RIGHT", losses summed over
 * the images. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv.h"
#include "net/net.h"
#include "random.h"

static const char *folder;
static const struct net *recorded;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "net_job: %s: %s\n", what, why);
    exit(1);
}

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory)
        die("memory", "there is not enough");
    return memory;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        die(path, strerror(errno));
}

static void write_arena(const char *name, struct arena arena, float *x)
{
    write_file(name, x, arena.count * sizeof(float));
}

static char *read_text(const char *path)
{
    enum { MOST = 1 << 20 };
    char *text = take(MOST + 1, 1);
    FILE *file = fopen(path, "rb");
    if (!file)
        die(path, strerror(errno));
    if (fread(text, 1, MOST, file) == MOST || ferror(file))
        die(path, "cannot be read, or is no net");
    fclose(file);
    return text;
}

static bool has_kink(const struct layer *l)
{
    return !strcmp(l->ops->name, "relu") || !strcmp(l->ops->name, "prelu")
           || !strcmp(l->ops->name, "maxpool");
}

static void record(const struct layer *l, struct tensor x)
{
    const struct shape s = x.shape;
    const size_t count = shape_count(s);
    float *plain = take(count, sizeof(*plain));
    char name[32];
    if (l->plain)
        memcpy(plain, x.x, count * sizeof(*plain));
    else
        conv_to_plain(x.x, plain, s.n, s.c, s.h, s.w);
    snprintf(name, sizeof(name), "%d.x", (int)(l - recorded->layers));
    write_file(name, plain, count * sizeof(*plain));
    free(plain);
}

static void recording_forward(struct layer *l, const struct tensor *x,
                              struct tensor y)
{
    if (l->training)
        record(l, *x);
    layer_find(l->ops->name)->forward(l, x, y);
}

/* The layer whose relu this one does: its own, or in training that of the sum
 * that it does as well; or NULL. */
static struct layer *relu_done_by(struct layer *l)
{
    struct layer *last = l->sum ? l->sum : l;
    return last->relu ? last : NULL;
}

/* The relu that this one does as well, before it; or NULL. */
static const struct layer *relu_before(const struct layer *l)
{
    const int from = l->from[0];
    struct layer *before = from < 0 ? NULL : &recorded->layers[from];
    return l->relu && l->ops->relu_first && before && before->done
                   && !relu_done_by(&recorded->layers[before->from[0]])
               ? before
               : NULL;
}

/* The one that follows; or NULL. */
static const struct layer *relu_behind(const struct layer *last)
{
    for (int i = 0; i < recorded->nlayers; i++)
        if (recorded->layers[i].done && recorded->layers[i].from[0] >= 0
            && &recorded->layers[recorded->layers[i].from[0]] == last)
            return &recorded->layers[i];
    return NULL;
}

/* What the relu makes of x, for the caller to free. */
static struct tensor positive_of(struct tensor x)
{
    const size_t count = shape_floats(x.shape);
    struct tensor positive = {x.shape, take(count, sizeof(float))};
    for (size_t i = 0; i < count; i++)
        positive.x[i] = x.x[i] > 0 ? x.x[i] : 0;
    return positive;
}

/* In training, of a layer that does a relu: what that and the layer would have
 * read, and the one that follows, by another forward into memory of its own. */
static void record_apart(struct layer *l, const struct tensor *x,
                         struct shape out)
{
    struct layer *last = relu_done_by(l);
    const struct layer *before = relu_before(l), *behind = relu_behind(last);
    struct tensor read[LAYER_INPUTS] = {0};
    struct tensor own = {out, take(shape_floats(out), sizeof(float))};
    float *state = take(l->nstate, sizeof(*state));
    memcpy(state, l->state, l->nstate * sizeof(*state));
    memcpy(read, x, (size_t)(l->ninputs + !!l->sum) * sizeof(*x));
    if (before) {
        record(before, *x);
        read[0] = positive_of(*x);
    }
    if (has_kink(l))
        record(l, read[0]);
    last->relu = false;
    if (behind) {
        layer_find(l->ops->name)->forward(l, read, own);
        record(behind, own);
    }
    last->relu = true;
    if (before)
        free(read[0].x);
    memcpy(l->state, state, l->nstate * sizeof(*state));
    free(state);
    free(own.x);
}

static void recording_relu(struct layer *l, const struct tensor *x,
                           struct tensor y)
{
    if (l->training)
        record_apart(l, x, y.shape);
    layer_find(l->ops->name)->forward(l, x, y);
}

/* Each layer with a kink gets operations of its own; nothing of the net changes
 * but that they write first. */
static struct layer_ops *start_recording(struct net *net)
{
    struct layer_ops *all = take((size_t)net->nlayers, sizeof(*all));
    recorded = net;
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        const bool relu = relu_done_by(l);
        if (!has_kink(l) && !relu)
            continue;
        all[i] = *l->ops;
        all[i].forward = relu ? recording_relu : recording_forward;
        l->ops = &all[i];
    }
    return all;
}

/* A bit of noise: else all weights of a batchnorm are 1 and all biases 0, and
 * nobody would see one taken for another. */
static void start(struct net *net, uint64_t seed)
{
    net_init(net, seed);
    for (size_t i = 0; i < net->params.count; i++)
        net->params.x[i] += 0.02f * random_unit(seed + 1, i) - 0.01f;
    for (size_t i = 0; i < net->state.count; i++)
        net->state.x[i] += 0.02f * random_unit(seed + 2, i) - 0.01f;
    write_arena("params", net->params, net->params.x);
    write_arena("before", net->state, net->state.x);
}

static void step(struct net *net, int batch, uint64_t seed)
{
    const size_t count = shape_count(net->input);
    float *images = take(count, sizeof(*images));
    int *labels = take((size_t)batch, sizeof(*labels)), right = 0;
    for (size_t i = 0; i < count; i++)
        images[i] = 2 * random_unit(seed + 3, i) - 1;
    for (int i = 0; i < batch; i++)
        labels[i] =
            (int)random_below(seed + 4, (uint64_t)i, (uint32_t)net->nclasses);
    write_file("images", images, count * sizeof(*images));
    write_file("labels", labels, (size_t)batch * sizeof(*labels));

    double loss = net_forward(net, images, labels, batch, true, 0, 0, &right);
    printf("training %.17g %d\n", loss, right);
    net_backward(net, 1 / (float)batch, NULL, NULL);
    write_arena("grads", net->grads, net->grads.x);
    write_arena("state", net->state, net->state.x);

    loss = net_forward(net, images, labels, batch, false, 0, 0, &right);
    printf("evaluation %.17g %d\n", loss, right);
    free(labels);
    free(images);
}

int main(int argc, char **argv)
{
    struct net net;
    char error[1000];
    if (argc != 5 || atoi(argv[2]) < 1)
        die("usage", "net_job NET_FILE BATCH SEED FOLDER");
    const int batch = atoi(argv[2]);
    const uint64_t seed = strtoull(argv[3], NULL, 10);
    folder = argv[4];
    char *text = read_text(argv[1]);
    if (net_create(&net, text, batch, error, sizeof(error)))
        die(argv[1], error);
    struct layer_ops *ops = start_recording(&net);
    start(&net, seed);
    step(&net, batch, seed);
    net_free(&net);
    free(ops);
    free(text);
    return 0;
}
