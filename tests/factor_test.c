/* SPDX-License-Identifier: MIT */
/* Layers with factors move by what their gradients would have been, bit by bit:
 * each weight's terms are added up in the order of the images, whatever tiles
 * and threads do, and whichever part has them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "net/factor.h"
#include "nets.h"
#include "update.h"

enum { PARTS_MOST = 3, STEPS = 2 };

static const struct {
    const char *text;
    int factorable; /* layers: any that follow each other have factors */
} nets[] = {
    {"input 3x7x5\ndense 25\nrelu\ndense 3\nsoftmax_loss\n",      2},
    {"input 2x6x6\nconv 20 3x3\nrelu\ndense 24\nrelu\ndense 47\nprelu\n"
     "dense 9\nsoftmax_loss\n",                              1},
    {"input 1x41x40\nconv 3 1x1\nmaxpool 2x1\ndense 100\nrelu\n"
     "dropout 0.4\ndense 7\nsoftmax_loss\n",                 2},
    {"input 5x1x1\ndense 1600\nrelu\ndense 50\nrelu\ndense 2\n"
     "softmax_loss\n",                                       3},
    {"input 1x4x4\nconv 4 3x3\nrelu\nconv 3 2x2\nsoftmax_loss\n", 0},
};
enum { NETS = sizeof(nets) / sizeof(nets[0]) };

static void threads(struct net *net, int n)
{
    char error[200];
    cr_assert_eq(net_use_threads(net, n, NULL, error, sizeof(error)), 0, "%s",
                 error);
}

static void open(struct update *u, const struct net *net, const char *name)
{
    char error[200];
    u->optim = optim_find(name, error, sizeof(error));
    u->settings.weight_decay = 0.01;
    for (int i = 0; i < OPTIM_NNUMBERS; i++)
        u->settings.numbers[i] = NAN;
    cr_assert_eq(optim_complete(u->optim, &u->settings, error, sizeof(error)),
                 0, "%s", error);
    cr_assert_eq(update_open(u, net, NULL), 0);
}

struct images {
    float *x;
    int *labels;
    size_t each;
};

static struct images make_images(const struct net *net, int n)
{
    const size_t each = shape_count(net->input) / (size_t)net->input.n;
    struct images b = {malloc((size_t)n * each * sizeof(float)),
                       malloc((size_t)n * sizeof(int)), each};
    cr_assert(b.x && b.labels);
    make_batch(net, b.x, b.labels, n);
    return b;
}

static void free_images(const struct images *b)
{
    free(b->x);
    free(b->labels);
}

static void learn(struct net *net, const struct images *b, int first, int n)
{
    net_forward(net, b->x + (size_t)first * b->each, b->labels + first, n, true,
                7, (uint64_t)first, NULL);
    net_backward(net, 0.25f, NULL, NULL);
}

/* As ranks do that gather: the last part has `last` images only, and the first
 * part's net gets the factors of all. */
static void learn_parts(struct net *net, int nparts, const struct images *b,
                        int last)
{
    const int batch = net[0].input.n;
    const size_t count = net[0].factors.count / (size_t)nparts;
    for (int i = 0; i < nparts; i++) {
        const int n = i < nparts - 1 ? batch : last;
        if (n)
            learn(&net[i], b, i * batch, n);
        else
            net_clear_gradients(&net[i]);
        if (i)
            memcpy(net[0].factors.x + (size_t)i * count,
                   net[i].factors.x + (size_t)i * count, count * sizeof(float));
    }
}

static void expect_bits(const float *a, const float *b, size_t n,
                        const char *about, int step)
{
    size_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    cr_assert_eq(i, n, "%s: number %zu of %zu in step %d: %.9g, not %.9g",
                 about, i, n, step, i < n ? (double)a[i] : 0,
                 i < n ? (double)b[i] : 0);
}

/* Those it has. */
static void take_gradients(struct net *net, const struct net *from)
{
    for (int i = 0; i < net->nlayers; i++)
        if (net->layers[i].nparams && !net->layers[i].factors.x)
            memcpy(net->layers[i].grads, from->layers[i].grads,
                   net->layers[i].nparams * sizeof(float));
}

/* A net of all images, whose gradients are there, and nets of the parts. */
static void compare(int which, struct factor_span span, int batch, int nparts,
                    int nthreads, int last, const char *optimiser)
{
    const char *text = nets[which].text;
    struct net all, part[PARTS_MOST];
    struct update u = {.average = 0.5}, v = {.average = 0.5};
    const int images = (nparts - 1) * batch + last;
    char about[200];
    snprintf(
        about, sizeof(about),
        "net %d, %d layers before %d, %d parts of %d, %d last, %d threads, "
        "%s",
        which, span.n, span.after, nparts, batch, last, nthreads, optimiser);
    make_net(&all, text, nparts * batch);
    const struct images b = make_images(&all, images);
    for (int i = 0; i < nparts; i++) {
        make_net(&part[i], text, batch);
        cr_assert_eq(net_factor(&part[i], span, nparts, i), 0);
    }
    threads(&part[0], nthreads);
    open(&u, &all, optimiser);
    open(&v, &part[0], optimiser);
    for (int step = 1; step <= STEPS; step++) {
        learn(&all, &b, 0, images);
        learn_parts(part, nparts, &b, last);
        take_gradients(&part[0], &all);
        update_step(&u, &all, 0.1, step);
        update_step(&v, &part[0], 0.1, step);
        expect_bits(part[0].params.x, all.params.x, all.params.count, about,
                    step);
        for (int i = 0; i < nparts; i++) /* and go on from the same */
            memcpy(part[i].params.x, all.params.x,
                   all.params.count * sizeof(float));
    }
    expect_bits(u.state.x, v.state.x, u.state.count, about, STEPS);
    update_close(&u);
    update_close(&v);
    for (int i = 0; i < nparts; i++)
        net_free(&part[i]);
    net_free(&all);
    free_images(&b);
}

Test(factor, weights_move_as_by_gradients)
{
    enum { BATCH = 5 };
    static const char *const names[] = {"sgd", "adam", "rmsprop"};
    int k = 0;
    for (int i = 0; i < NETS; i++)
        for (int after = 0; after < nets[i].factorable; after++)
            for (int nparts = 1; nparts <= 3; nparts++)
                for (int last = nparts > 1 ? 0 : 1; last <= BATCH; last++, k++)
                    compare(
                        i,
                        (struct factor_span){
                            1 + k / 2 % (nets[i].factorable - after), after},
                        BATCH, nparts, k % 2 ? 3 : 1, last, names[k % 3]);
}

/* Kernels have partial sums in memory between so many. */
Test(factor, many_images_are_added_in_order)
{
    for (int i = 0; i < 2; i++) {
        const struct factor_span all = {nets[i].factorable, 0};
        compare(i, all, 150, 1, 1, 150, "sgd");
        compare(i, all, 70, 3, 2, 60, "adam");
    }
}

/* From layer `whole` on at once. */
static void move_in_slices(struct factor_span span, int whole)
{
    enum { BATCH = 5 };
    struct net a, b;
    struct update u = {0}, v = {0};
    const char *text = nets[3].text;
    make_net(&a, text, BATCH);
    make_net(&b, text, BATCH);
    const struct images all = make_images(&a, BATCH);
    cr_assert_eq(net_factor(&a, span, 1, 0) || net_factor(&b, span, 1, 0), 0);
    open(&u, &a, "sgd");
    open(&v, &b, "sgd");
    learn(&a, &all, 0, BATCH);
    learn(&b, &all, 0, BATCH);
    update_step(&u, &a, 0.1, 1);
    for (int i = 0; i < b.nlayers; i++) {
        const struct layer *l = &b.layers[i];
        const size_t first = (size_t)(l->params - b.params.x);
        const bool last = i == whole;
        if (l->nparams)
            update_slice(&v, &b, 0.1, 1, first,
                         last ? b.params.count - first : l->nparams);
        if (last)
            break;
    }
    expect_bits(a.params.x, b.params.x, a.params.count, "slices", 1);
    update_close(&u);
    update_close(&v);
    net_free(&a);
    net_free(&b);
    free_images(&all);
}

Test(factor, layers_in_slices_move_as_all_at_once)
{
    for (int after = 0; after < 3; after++)
        for (int whole = 0; whole <= 4; whole += 2) /* with parameters */
            move_in_slices((struct factor_span){1, after}, whole);
}

/* As near ranks do that have the weights in common: pieces in turn, while sums
 * are on their way. */
static void move_in_pieces(int which, struct factor_span span, int nthreads)
{
    enum { BATCH = 5, RANKS = 2 };
    struct net a, b;
    struct update u = {0}, v = {0};
    make_net(&a, nets[which].text, BATCH);
    make_net(&b, nets[which].text, BATCH);
    const struct images all = make_images(&a, BATCH);
    cr_assert_eq(net_factor(&a, span, 1, 0) || net_factor(&b, span, 1, 0), 0);
    threads(&b, nthreads);
    open(&u, &a, "adam");
    open(&v, &b, "adam");
    v.common.nranks = RANKS;
    cr_assert_eq(arena_alloc(&v.common.board, RANKS), 0);
    learn(&a, &all, 0, BATCH);
    learn(&b, &all, 0, BATCH);
    float *before = malloc(b.params.count * sizeof(float));
    memcpy(before, b.params.x, b.params.count * sizeof(float));
    update_step(&u, &a, 0.1, 1);
    for (int turn = 0; update_some(&v, &b, 0.1, 1); turn++)
        v.common.rank = turn % RANKS;
    expect_bits(b.params.x + b.factored_at, a.params.x + b.factored_at,
                b.nfactored, "pieces", 1);
    memcpy(before + b.factored_at, b.params.x + b.factored_at,
           b.nfactored * sizeof(float));
    expect_bits(b.params.x, before, b.params.count, "what has gradients", 1);
    free(before);
    arena_free(&v.common.board);
    update_close(&u);
    update_close(&v);
    net_free(&a);
    net_free(&b);
    free_images(&all);
}

Test(factor, layers_in_pieces_move_as_all_at_once)
{
    for (int i = 0; i < NETS; i++)
        for (int n = 1; n <= nets[i].factorable; n++)
            move_in_pieces(i, (struct factor_span){n, 0}, 1 + n % 2);
}

Test(factor, gradients_close_up_where_layers_have_none)
{
    struct net net;
    make_net(&net, nets[3].text, 1);
    cr_assert_eq(net_factor(&net, (struct factor_span){1, 1}, 1, 0), 0);
    size_t at = 0;
    for (int i = 0; i < net.nlayers; i++) {
        const struct layer *l = &net.layers[i];
        const size_t first = (size_t)(l->params - net.params.x);
        if (!l->nparams)
            continue;
        cr_assert_eq(net_is_factored(&net, first), l->out.c == 50);
        cr_assert_eq(net_gradient_at(&net, first), at);
        cr_assert_eq(l->grads, l->out.c == 50 ? NULL : net.grads.x + at);
        at += l->out.c == 50 ? 0 : l->nparams;
        cr_assert_eq(net_gradient_at(&net, first + l->nparams), at);
    }
    cr_assert_eq(at, net.grads.count);
    net_free(&net);
}

Test(factor, last_layers_alone_can_have_them)
{
    enum { BATCH = 5 };
    for (int i = 0; i < NETS; i++) {
        struct net net;
        const struct factor_span span = {nets[i].factorable, 0};
        make_net(&net, nets[i].text, BATCH);
        cr_assert_eq(net_factorable(&net), nets[i].factorable, "net %d", i);
        const size_t before = net.grads.count;
        const struct factor_sizes z = net_factor_sizes(&net, span);
        cr_assert_eq(z.params > 0, nets[i].factorable > 0);
        if (span.n) {
            cr_assert_eq(net_factor(&net, span, 2, 1), 0);
            cr_assert_eq(net.grads.count, before - z.params);
            cr_assert_eq(net.factors.count, 2 * BATCH * z.floats);
        }
        net_free(&net);
    }
}
