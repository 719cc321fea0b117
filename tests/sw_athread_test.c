/* SPDX-License-Identifier: MIT */
/* sw_athread.c, which no Sunway has run, with a stand-in for the athread
 * library: each CPE is a thread, and a row or a column a lock. The kernels'
 * results are compared with convolution by OpenBLAS and with plain loops.
 * Speaks TAP. */
#include "sw_checks.h"

#include <pthread.h>

#include "athread/athread.h"
#include "athread/simd.h"
#include "athread/slave.h"
#include "kernels/sw/sw_conv.h"
#include "kernels/sw/sw_norm.h"
#include "shapes.h"

/* --- the stand-in ------------------------------------------------------- */

enum { SIDE = 8, QUEUE = 4, ALL_OTHERS = 8 };

/* The messages that wait at a CPE of a row or column. */
struct waiting {
    doublev4 message[QUEUE];
    int first, count;
};

static struct bus {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct waiting at[SIDE];
} rows[SIDE], columns[SIDE];

static pthread_barrier_t everybody;
static _Thread_local int me;
static void (*function)(void *);
static void *argument;

int athread_init(void)
{
    for (int i = 0; i < 2 * SIDE; i++) {
        struct bus *b = i < SIDE ? &rows[i] : &columns[i - SIDE];
        memset(b, 0, sizeof(*b));
        pthread_mutex_init(&b->lock, NULL);
        pthread_cond_init(&b->moved, NULL);
    }
    return pthread_barrier_init(&everybody, NULL, SIDE * SIDE);
}

int athread_halt(void)
{
    return pthread_barrier_destroy(&everybody);
}

static void *cpe(void *id)
{
    me = *(const int *)id;
    function(argument);
    return NULL;
}

int athread_spawn_slave(void (*f)(void *), void *a)
{
    function = f;
    argument = a;
    return 0;
}

int athread_join(void)
{
    pthread_t thread[SIDE * SIDE];
    int id[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        id[i] = i;
        require(!pthread_create(&thread[i], NULL, cpe, &id[i]), "no thread");
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

int athread_get_id(int core)
{
    return core < 0 ? me : core;
}

int athread_syn(scope of, int mask)
{
    require(of == ARRAY_SCOPE && mask == 0xffff, "a barrier of all");
    pthread_barrier_wait(&everybody);
    return 0;
}

static void transfer(char *memory, char *ldm, int length, void *reply,
                     int stride, int bsize, bool put)
{
    const int block = bsize ? bsize : length;
    for (int at = 0; at < length; at += block, memory += block + stride)
        memcpy(put ? memory : ldm + at, put ? ldm + at : memory, (size_t)block);
    ++*(volatile int *)reply;
}

int athread_get(dma_mode mode, void *memory, void *ldm, int length, void *reply,
                char mask, int stride, int bsize)
{
    require(mode == PE_MODE && mask == 0, "a CPE for itself");
    transfer(memory, ldm, length, reply, stride, bsize, false);
    return 0;
}

int athread_put(dma_mode mode, void *ldm, void *memory, int length, void *reply,
                int stride, int bsize)
{
    require(mode == PE_MODE, "a CPE for itself");
    transfer(memory, ldm, length, reply, stride, bsize, true);
    return 0;
}

static bool goes_to(int to, int own, int i)
{
    return to & ALL_OTHERS ? i != own : i == to;
}

static bool has_room(const struct bus *b, int to, int own)
{
    for (int i = 0; i < SIDE; i++)
        if (goes_to(to, own, i) && b->at[i].count == QUEUE)
            return false;
    return true;
}

static void send(struct bus *b, int to, int own, doublev4 v)
{
    pthread_mutex_lock(&b->lock);
    while (!has_room(b, to, own))
        pthread_cond_wait(&b->moved, &b->lock);
    for (int i = 0; i < SIDE; i++)
        if (goes_to(to, own, i)) {
            struct waiting *w = &b->at[i];
            w->message[(w->first + w->count++) % QUEUE] = v;
        }
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
}

static doublev4 receive(struct bus *b, int own)
{
    struct waiting *w = &b->at[own];
    pthread_mutex_lock(&b->lock);
    while (!w->count)
        pthread_cond_wait(&b->moved, &b->lock);
    const doublev4 v = w->message[w->first];
    w->first = (w->first + 1) % QUEUE;
    w->count--;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
    return v;
}

void simd_putr(doublev4 v, int column)
{
    send(&rows[me / SIDE], column, me % SIDE, v);
}

void simd_putc(doublev4 v, int row)
{
    send(&columns[me % SIDE], row, me / SIDE, v);
}

doublev4 simd_getr(doublev4 v)
{
    (void)v;
    return receive(&rows[me / SIDE], me % SIDE);
}

doublev4 simd_getc(doublev4 v)
{
    (void)v;
    return receive(&columns[me % SIDE], me / SIDE);
}

/* --- the claims --------------------------------------------------------- */

static struct sw_machine *machine;

/* An implicit pass, of tensors that are not blocked. */
static float *implicit(const struct conv *c, enum conv_pass pass,
                       const float *in, const float *by, size_t count)
{
    float *out = unset(count);
    const struct sw_conv job = {.conv = *c,
                                .pass = pass,
                                .way = SW_IMPLICIT,
                                .in = in,
                                .by = by,
                                .out = out};
    float *scratch = unset(sw_conv_scratch(&job));
    const char *error = sw_conv(machine, &job, scratch, NULL);
    require(!error, "%s", error);
    free(scratch);
    return out;
}

/* 32 images, 32 channels to 8. OpenBLAS's way takes them blocked. */
static void implicit_as_openblas(void)
{
    struct conv c = SHAPE(32, 32, 1, 3, 8, 1, 1, 3, 1, 1, 0, 1, 1, 1);
    conv_set_outputs(&c);
    const size_t nx = 32 * 32 * 3, ny = 32 * 8 * 3, nw = 8 * 32 * 3;
    float *x = eighths(nx, 1), *w = eighths(nw, 2), *dy = eighths(ny, 3);
    float *bx = unset(nx), *by = unset(2 * ny), *scratch = unset(1 << 16);
    float *y = implicit(&c, CONV_FORWARD, x, w, ny), *back = unset(nx);
    float *dx = implicit(&c, CONV_BACKWARD_DATA, dy, w, nx);
    float *dw = implicit(&c, CONV_BACKWARD_WEIGHTS, x, dy, nw);
    conv_to_blocked(x, bx, c.n, c.c, 1, 3);
    conv_gemm.forward(&c, bx, w, NULL, by, scratch);
    conv_to_plain(by, back, c.n, c.k, 1, 3);
    equal(y, back, ny, "implicit y");
    conv_to_blocked(dy, by, c.n, c.k, 1, 3);
    float *wanted = unset(nw);
    memset(wanted, 0, nw * sizeof(float));
    conv_gemm.backward_weights(&c, bx, by, wanted, scratch);
    equal(dw, wanted, nw, "implicit dw");
    conv_gemm.backward_data(&c, by, w, bx, scratch);
    conv_to_plain(bx, back, c.n, c.c, 1, 3);
    equal(dx, back, nx, "implicit dx");
    float *all[] = {x, w, dy, bx, by, scratch, y, back, dx, dw, wanted};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void explicit_as_openblas(void)
{
    struct conv c = SHAPE(1, 16, 5, 4, 32, 2, 3, 2, 2, 1, 1, 1, 1, 1);
    conv_set_outputs(&c);
    const size_t nx = conv_blocked(c.n, c.c, c.h, c.w), nw = 32 * 8 * 6;
    const size_t ny = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    const struct conv_method *const way[] = {&conv_gemm, &conv_tile_sw};
    float *x = eighths(nx, 1), *w = eighths(nw, 2), *dy = eighths(ny, 3);
    float *y[2], *dx[2], *dw[2];
    for (int i = 0; i < 2; i++) {
        size_t most = 0;
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
            if (way[i]->scratch(&c, pass) > most)
                most = way[i]->scratch(&c, pass);
        float *scratch = unset(most);
        y[i] = unset(ny);
        dx[i] = unset(nx);
        dw[i] = eighths(nw, 4);
        way[i]->forward(&c, x, w, NULL, y[i], scratch);
        way[i]->backward_data(&c, dy, w, dx[i], scratch);
        way[i]->backward_weights(&c, x, dy, dw[i], scratch);
        free(scratch);
    }
    equal(y[1], y[0], ny, "y");
    equal(dx[1], dx[0], nx, "dx");
    equal(dw[1], dw[0], nw, "dw");
    float *all[] = {x, w, dy, y[0], y[1], dx[0], dx[1], dw[0], dw[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* The sums that go from neighbour to neighbour. */
static void sums_of_channels(void)
{
    enum { N = 5, C = 3, PLACES = 7, COUNT = N * C * PLACES };
    float *x = eighths(COUNT, 1), *dy = eighths(COUNT, 2), df[C], db[C];
    const struct sw_scale_backward job = {
        {N, C, PLACES},
        x, dy, df, db
    };
    const char *error = sw_scale_backward(machine, &job);
    require(!error, "%s", error);
    for (int c = 0; c < C; c++) {
        float f = 0, b = 0;
        for (int i = 0; i < COUNT; i++)
            if (i / PLACES % C == c) {
                f += x[i] * dy[i];
                b += dy[i];
            }
        require(df[c] == f && db[c] == b, "channel %d", c);
    }
    free(x);
    free(dy);
}

int main(void)
{
    static const struct check checks[] = {
        {"implicit, as OpenBLAS has it", implicit_as_openblas},
        {"sums of channels",             sums_of_channels    },
        {"explicit, as OpenBLAS has it", explicit_as_openblas},
    };
    machine = new_machine();
    const int status =
        run_checks(checks, (int)(sizeof(checks) / sizeof(checks[0])));
    free(machine);
    return status;
}
