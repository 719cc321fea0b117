/* SPDX-License-Identifier: MIT */
#include "update.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "net/factor.h"

/* What this rank moves of a tensor. */
struct tensor_part {
    size_t first, count; /* of all parameters; count may be 0 */
    bool vector;
};

static float *array(const struct update *u, int i)
{
    return u->state.x + (size_t)i * u->count;
}

static float *mean(const struct update *u)
{
    return array(u, u->optim->nstate);
}

static int narrays(const struct update *u)
{
    return u->optim->nstate + (u->average > 0);
}

/* --- tensors ----------------------------------------------------------------
 */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void add_tensor(struct update *u, size_t first, size_t count,
                       bool vector)
{
    const size_t end = least(first + count, u->first + u->count);
    if (first < u->first)
        first = u->first;
    if (u->tensors)
        u->tensors[u->ntensors] =
            (struct tensor_part){first, end > first ? end - first : 0, vector};
    u->ntensors++;
}

/* The tensors of a layer lie one after another. */
static void list_layer(struct update *u, const struct net *net,
                       const struct layer *l)
{
    enum { MOST = 8 };
    struct layer_param tensors[MOST] = {0};
    size_t at = 0;
    l->ops->describe(l, tensors, MOST);
    for (int i = 0; i < MOST && tensors[i].name && at < l->nparams; i++) {
        size_t n = 1;
        for (int d = 0; d < tensors[i].ndims; d++)
            n *= (size_t)tensors[i].dims[d];
        add_tensor(u, (size_t)(l->params - net->params.x) + at, n,
                   tensors[i].ndims < 2);
        at += n;
    }
}

static void list(struct update *u, const struct net *net)
{
    u->ntensors = 0;
    for (int i = 0; i < net->nlayers; i++)
        if (net->layers[i].nparams)
            list_layer(u, net, &net->layers[i]);
}

static int list_tensors(struct update *u, const struct net *net)
{
    list(u, net); /* counts */
    const size_t n = (size_t)u->ntensors;
    u->tensors = calloc(n + 1, sizeof(*u->tensors));
    u->sums = calloc(2 * n + 1, sizeof(*u->sums));
    if (!u->tensors || !u->sums)
        return -1;
    list(u, net);
    return 0;
}

/* --- opening ----------------------------------------------------------------
 */

int update_open(struct update *u, const struct net *net,
                struct strategy *strategy)
{
    u->first = 0;
    u->count = net->params.count;
    u->common.nranks = 1;
    if (strategy && strategy->shard.counts) {
        u->sharing = strategy;
        u->first = strategy->shard.first;
        u->count = strategy->shard.count;
    }
    if (arena_alloc(&u->state, (size_t)narrays(u) * u->count)
        || (u->optim->measure && list_tensors(u, net)))
        return -1;
    if (u->average > 0)
        memcpy(mean(u), net->params.x + u->first, u->count * sizeof(float));
    return 0;
}

void update_close(struct update *u)
{
    arena_free(&u->state);
    free(u->tensors);
    free(u->sums);
}

/* Less fits into a core's second cache, where to move all of it takes no longer
 * than to meet. */
enum { COMMON_BYTES = 4 << 20 };

coll_status update_join(struct update *u, struct net *net,
                        struct strategy *strategy)
{
    struct arena *const vectors[] = {&net->params, &u->state};
    /* What sums over tensors needs all of a tensor, and what may move while
     * gradients arrive would meet at each layer. */
    if (strategy->ops->apart || strategy->listens || u->sharing
        || u->optim->measure || coll_comm_count(strategy->comm) == 1
        || arena_bytes(net->params.count) < COMMON_BYTES)
        return COLL_OK;
    const coll_status status = common_open(&u->common, strategy, vectors);
    double any = u->common.nranks > 1;
    if (status)
        return status;
    const coll_status told = strategy_reduce(strategy, &any, 1, COLL_MAX);
    u->joined = any > 0;
    return told;
}

void update_part(struct update *u)
{
    if (u->common.nranks > 1)
        common_close(&u->common);
}

/* --- a step -----------------------------------------------------------------
 */

struct stroke {
    const struct update *update;
    struct net *net;
    double lr;
    long number;
    size_t first, count; /* of this rank's parameters: those to move */
    atomic_uint *taken;  /* pieces that somebody moves, or has moved */
};

static const float *gradient(const struct stroke *s, size_t first)
{
    return s->net->grads.x + net_gradient_at(s->net, s->update->first + first);
}

/* Those from `first` on, counted from this rank's first. */
static struct optim_part part(const struct stroke *s, size_t first,
                              const float *g, size_t n)
{
    const struct update *u = s->update;
    struct optim_part p = {
        .w = s->net->params.x + u->first + first,
        .g = g,
        .n = n,
    };
    for (int i = 0; i < u->optim->nstate; i++)
        p.state[i] = array(u, i) + first;
    return p;
}

static void move(const struct stroke *s, size_t first, struct optim_part p)
{
    const struct update *u = s->update;
    u->optim->step(&u->settings, s->lr, s->number, p);
    if (u->average <= 0)
        return;
    const float stays = (float)u->average, comes = (float)(1 - u->average);
    float *m = mean(u) + first;
    for (size_t i = 0; i < p.n; i++)
        m[i] = stays * m[i] + comes * p.w[i];
}

static void move_share(void *context, int i, int n)
{
    const struct stroke *s = context;
    const struct common *c = &s->update->common;
    size_t first;
    const size_t count =
        crew_floats(s->count, c->rank * n + i, c->nranks * n, &first);
    first += s->first;
    move(s, first, part(s, first, gradient(s, first), count));
}

/* A layer that has factors. */
struct factored {
    const struct stroke *stroke;
    const struct layer *layer;
    struct factors factors;
    size_t first; /* of its parameters */
};

static void move_run(void *context, size_t first, const float *g, size_t n)
{
    const struct factored *f = context;
    first += f->first;
    move(f->stroke, first, part(f->stroke, first, g, n));
}

/* Of a layer that has factors: as many outputs as there is scratch for, but
 * three blocks at least, which are two tiles of long rows. */
static int pieces_of(const struct layer *l)
{
    const size_t blocks = l->nscratch / shape_count(l->in) / BLOCK;
    const int n = shape_blocks(l->out) / (blocks > 3 ? (int)blocks : 3);
    return n ? n : 1;
}

/* The next piece, of all layers with factors that are to move; false: all are
 * taken. */
static bool move_piece(const struct stroke *s, int thread)
{
    const struct net *net = s->net;
    int piece = (int)atomic_fetch_add(s->taken, 1);
    for (int i = 0; i < net->nlayers; i++) {
        const struct layer *l = &net->layers[i];
        const size_t first = (size_t)(l->params - net->params.x);
        if (!l->factors.x || first < s->first || first >= s->first + s->count)
            continue;
        const int n = pieces_of(l);
        if (piece < n) {
            struct factored f = {s, l, net_factors_of(net, l), first};
            l->ops->by_factors(l, &f.factors, piece, n,
                               net_scratch(net, thread), move_run, &f);
            return true;
        }
        piece -= n;
    }
    return false;
}

static void move_pieces(void *context, int i, int n)
{
    (void)n;
    while (move_piece(context, i))
        ;
}

/* Adds up over the ranks that share the parameters. */
static coll_status sum_up(const struct update *u, double *sums, size_t n)
{
    return u->sharing ? strategy_reduce(u->sharing, sums, n, COLL_SUM)
                      : COLL_OK;
}

static struct optim_part tensor(const struct stroke *s, int i)
{
    const struct tensor_part *t = &s->update->tensors[i];
    const size_t first = t->first - s->update->first;
    struct optim_part p = part(s, first, gradient(s, first), t->count);
    p.vector = t->vector;
    p.sums = &s->update->sums[2 * i];
    return p;
}

/* Whether it is one to move, and has something. */
static bool moves(const struct stroke *s, int i)
{
    const struct tensor_part *t = &s->update->tensors[i];
    return t->count && t->first - s->update->first - s->first < s->count;
}

static coll_status move_tensors(const struct stroke *s)
{
    const struct update *u = s->update;
    memset(u->sums, 0, 2 * (size_t)u->ntensors * sizeof(*u->sums));
    for (int i = 0; i < u->ntensors; i++)
        if (moves(s, i))
            u->optim->measure(&u->settings, s->number, tensor(s, i));
    const coll_status status = sum_up(u, u->sums, 2 * (size_t)u->ntensors);
    for (int i = 0; i < u->ntensors && !status; i++)
        if (moves(s, i))
            move(s, u->tensors[i].first - u->first, tensor(s, i));
    return status;
}

/* Those that have gradients, from `first` to `end`. */
static void move_plain(const struct stroke *s, size_t first, size_t end)
{
    struct stroke plain = *s;
    plain.first = first > s->first ? first : s->first;
    end = least(end, s->first + s->count);
    if (plain.first >= end)
        return;
    plain.count = end - plain.first;
    crew_run(s->net->crew, move_share, &plain);
}

/* Of whole layers. */
static void move_layers(struct stroke *s)
{
    struct net *net = s->net;
    atomic_uint own = 0;
    move_plain(s, 0, net->factored_at);
    move_plain(s, net->factored_at + net->nfactored, s->first + s->count);
    s->taken =
        s->update->common.nranks > 1 ? common_taken(&s->update->common) : &own;
    if (net->factors.x)
        crew_run(net->crew, move_pieces, s);
}

static coll_status move_all(struct stroke *s)
{
    if (s->update->optim->measure)
        return move_tensors(s);
    move_layers(s);
    return COLL_OK;
}

static coll_status clip(const struct update *u, struct net *net)
{
    float *g = net->grads.x + u->first;
    double square = optim_square(g, u->count);
    const coll_status status = sum_up(u, &square, 1);
    const double norm = sqrt(square);
    if (status || norm <= u->clip_norm)
        return status;
    const float factor = (float)(u->clip_norm / norm);
    for (size_t i = 0; i < u->count; i++)
        g[i] *= factor;
    return COLL_OK;
}

/* To all what this rank has moved. */
static coll_status bring(struct update *u, struct net *net)
{
    return u->sharing ? strategy_gather(u->sharing, net->params.x)
                      : common_meet(&u->common);
}

coll_status update_step(struct update *u, struct net *net, double lr,
                        long number)
{
    struct stroke s = {u, net, lr, number, 0, u->count, NULL};
    coll_status status = u->clip_norm > 0 ? clip(u, net) : COLL_OK;
    if (!status)
        status = move_all(&s);
    return status ? status : bring(u, net);
}

struct some {
    struct stroke stroke;
    bool any; /* for the first thread, so for the others maybe */
};

static void move_some(void *context, int i, int n)
{
    struct some *s = context;
    (void)n;
    const bool any = move_piece(&s->stroke, i);
    if (i == 0)
        s->any = any;
}

bool update_some(struct update *u, struct net *net, double lr, long number)
{
    if (u->common.nranks == 1)
        return false;
    struct some s = {
        {u, net, lr, number, 0, u->count, common_taken(&u->common)},
        false
    };
    crew_run(net->crew, move_some, &s);
    return s.any;
}

coll_status update_slice(struct update *u, struct net *net, double lr,
                         long number, size_t first, size_t count)
{
    assert(!u->sharing && u->common.nranks == 1 && u->clip_norm <= 0);
    struct stroke s = {u, net, lr, number, first, count, NULL};
    return move_all(&s);
}

void update_make_step(const struct update *u, struct net *net, double lr)
{
    const float decay = (float)u->settings.weight_decay, rate = (float)lr;
    if (u->clip_norm > 0)
        clip(u, net);
    for (size_t i = 0; i < net->grads.count; i++)
        net->grads.x[i] = -rate * (net->grads.x[i] + decay * net->params.x[i]);
}

coll_status update_swap(struct update *u, struct net *net)
{
    if (u->average <= 0)
        return COLL_OK;
    size_t first;
    const size_t count =
        crew_floats(u->count, u->common.rank, u->common.nranks, &first);
    float *m = mean(u) + first, *w = net->params.x + u->first + first;
    for (size_t i = 0; i < count; i++) {
        const float kept = w[i];
        w[i] = m[i];
        m[i] = kept;
    }
    return bring(u, net);
}

/* --- checkpoints ------------------------------------------------------------
 */

size_t update_floats(const struct update *u, const struct net *net)
{
    return (size_t)narrays(u) * net->params.count;
}

void update_take(struct update *u, const struct net *net, const float *from)
{
    for (int i = 0; i < narrays(u) && u->count; i++)
        memcpy(array(u, i), from + (size_t)i * net->params.count + u->first,
               u->count * sizeof(float));
}

coll_status update_collect(const struct update *u, const struct net *net,
                           float *to)
{
    coll_status status = COLL_OK;
    for (int i = 0; i < narrays(u) && !status; i++) {
        float *whole = to ? to + (size_t)i * net->params.count : NULL;
        if (u->sharing)
            status = shard_collect(&u->sharing->shard, array(u, i), whole);
        else if (whole && u->count)
            memcpy(whole, array(u, i), u->count * sizeof(float));
    }
    return status;
}
