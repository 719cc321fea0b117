/* SPDX-License-Identifier: MIT */
/* Times oneDNN's convolutions as conv_bench times the trainer's; built and run
 * by compare_onednn.py.
 *
 *   peer_onednn direct|auto f32|bf16 SECONDS < CONVOLUTIONS
 *
 * A line has a pass (fwd, bwd_data, bwd_weights), images, channels, rows and
 * columns, outputs, groups, rows and columns of the window, stride, pad and
 * dilation. The first line of the answer is oneDNN's version; each other one
 * has least and median milliseconds, and what oneDNN calls what ran, or "none".
 *
 * All tensors are in the order that oneDNN likes best, with bf16 all of them of
 * bf16, and neither reordering nor biases take time, which is in its favour. */
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEWEST_RUNS = 3, MOST_RUNS = 1000 };
enum { TENSORS = 3 }; /* of a pass: two in, one out */

struct shape {
    char pass[16];
    int n, c, h, w, k, groups, kernel_h, kernel_w, stride, pad, dilation;
};

struct timed {
    double min, p50;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_data_type_t numbers; /* of all tensors */

static void must(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "peer_onednn: %s: oneDNN's status %d\n", what, status);
    exit(1);
}

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- what is to run -------------------------------------------------------
 */

static bool read_shape(struct shape *s)
{
    return scanf("%15s %d %d %d %d %d %d %d %d %d %d %d", s->pass, &s->n, &s->c,
                 &s->h, &s->w, &s->k, &s->groups, &s->kernel_h, &s->kernel_w,
                 &s->stride, &s->pad, &s->dilation)
           == 12;
}

static int positions(int size, int window, const struct shape *s)
{
    return (size + 2 * s->pad - (window - 1) * s->dilation - 1) / s->stride + 1;
}

/* In an order that oneDNN may choose. */
static dnnl_memory_desc_t tensor(int ndims, const dnnl_dims_t dims)
{
    dnnl_memory_desc_t d;
    must(dnnl_memory_desc_init_by_tag(&d, ndims, dims, numbers,
                                      dnnl_format_tag_any),
         "a tensor");
    return d;
}

static dnnl_memory_desc_t weights(const struct shape *s)
{
    const dnnl_dims_t dims = {s->groups, s->k / s->groups, s->c / s->groups,
                              s->kernel_h, s->kernel_w};
    return s->groups > 1 ? tensor(5, dims)
                         : tensor(4, (const dnnl_dims_t){
                                         s->k, s->c, s->kernel_h, s->kernel_w});
}

/* NULL: oneDNN has none. */
static dnnl_primitive_desc_t describe(const struct shape *s, const char *pass,
                                      dnnl_alg_kind_t kind,
                                      dnnl_primitive_desc_t forward)
{
    const dnnl_memory_desc_t x = tensor(4, (const dnnl_dims_t){s->n, s->c, s->h,
                                                               s->w}),
                             y = tensor(4,
                                        (const dnnl_dims_t){
                                            s->n, s->k,
                                            positions(s->h, s->kernel_h, s),
                                            positions(s->w, s->kernel_w, s)}),
                             w = weights(s);
    const dnnl_dims_t stride = {s->stride, s->stride}, pad = {s->pad, s->pad},
                      gaps = {s->dilation - 1, s->dilation - 1};
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_t found = NULL;
    if (!strcmp(pass, "fwd"))
        must(dnnl_dilated_convolution_forward_desc_init(
                 &d, dnnl_forward_training, kind, &x, &w, NULL, &y, stride,
                 gaps, pad, pad),
             pass);
    else if (!strcmp(pass, "bwd_data"))
        must(dnnl_dilated_convolution_backward_data_desc_init(
                 &d, kind, &x, &w, &y, stride, gaps, pad, pad),
             pass);
    else
        must(dnnl_dilated_convolution_backward_weights_desc_init(
                 &d, kind, &x, &w, NULL, &y, stride, gaps, pad, pad),
             pass);
    const dnnl_status_t status =
        dnnl_primitive_desc_create(&found, &d, NULL, engine, forward);
    if (status != dnnl_unimplemented)
        must(status, pass);
    return found;
}

/* --- how long it takes ----------------------------------------------------
 */

/* Full of numbers in [-1, 1]. */
static dnnl_memory_t memory_of(dnnl_primitive_desc_t d, int arg)
{
    const dnnl_memory_desc_t *is =
        dnnl_primitive_desc_query_md(d, dnnl_query_exec_arg_md, arg);
    const size_t size = numbers == dnnl_bf16 ? 2 : sizeof(float);
    const size_t count = dnnl_memory_desc_get_size(is) / size;
    dnnl_memory_t memory;
    void *at;
    must(dnnl_memory_create(&memory, is, engine, DNNL_MEMORY_ALLOCATE),
         "memory");
    must(dnnl_memory_get_data_handle(memory, &at), "memory");
    uint32_t x = 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 1664525 + 1013904223;
        const float number = (float)(int32_t)x / 2147483648.F;
        /* Of bf16 the upper half. */
        memcpy((char *)at + i * size, (const char *)&number + 4 - size, size);
    }
    return memory;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(dnnl_primitive_t p, const dnnl_exec_arg_t *args)
{
    must(dnnl_primitive_execute(p, stream, TENSORS, args), "a run");
    must(dnnl_stream_wait(stream), "a run");
}

/* As conv_bench does: the first run does not count. */
static struct timed time_of(dnnl_primitive_t p, const dnnl_exec_arg_t *args,
                            double for_seconds)
{
    static double seconds[MOST_RUNS];
    int runs = 0;
    run(p, args);
    const double end = clock_now() + for_seconds;
    for (double now = 0;
         runs < MOST_RUNS && (runs < FEWEST_RUNS || now < end);) {
        const double begun = clock_now();
        run(p, args);
        now = clock_now();
        seconds[runs++] = now - begun;
    }
    qsort(seconds, (size_t)runs, sizeof(seconds[0]), by_size);
    return (struct timed){seconds[0],
                          (seconds[(runs - 1) / 2] + seconds[runs / 2]) / 2};
}

static struct timed measure(dnnl_primitive_desc_t d, const char *pass,
                            double seconds)
{
    static const int tensors[][TENSORS] = {
        {DNNL_ARG_SRC,      DNNL_ARG_WEIGHTS,  DNNL_ARG_DST         },
        {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS,  DNNL_ARG_DIFF_SRC    },
        {DNNL_ARG_SRC,      DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS},
    };
    const int row = !strcmp(pass, "fwd")        ? 0
                    : !strcmp(pass, "bwd_data") ? 1
                                                : 2;
    dnnl_exec_arg_t args[TENSORS];
    dnnl_primitive_t p;
    for (int i = 0; i < TENSORS; i++)
        args[i] =
            (dnnl_exec_arg_t){tensors[row][i], memory_of(d, tensors[row][i])};
    must(dnnl_primitive_create(&p, d), pass);
    const struct timed t = time_of(p, args, seconds);
    must(dnnl_primitive_destroy(p), pass);
    for (int i = 0; i < TENSORS; i++)
        must(dnnl_memory_destroy(args[i].memory), pass);
    return t;
}

static void answer(const struct shape *s, dnnl_alg_kind_t kind, double seconds)
{
    const bool is_forward = !strcmp(s->pass, "fwd");
    dnnl_primitive_desc_t forward = describe(s, "fwd", kind, NULL), d = forward;
    if (!is_forward && forward)
        d = describe(s, s->pass, kind, forward);
    if (!d) {
        puts("0 0 none");
    } else {
        const struct timed t = measure(d, s->pass, seconds);
        const char *name;
        must(dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, &name),
             s->pass);
        printf("%.6f %.6f %s\n", t.min * 1e3, t.p50 * 1e3, name);
    }
    if (d && d != forward)
        must(dnnl_primitive_desc_destroy(d), s->pass);
    if (forward)
        must(dnnl_primitive_desc_destroy(forward), s->pass);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: peer_onednn direct|auto f32|bf16 SECONDS < CONVOLUTIONS\n",
              stderr);
        return 2;
    }
    const dnnl_alg_kind_t kind = strcmp(argv[1], "auto")
                                     ? dnnl_convolution_direct
                                     : dnnl_convolution_auto;
    const dnnl_version_t *version = dnnl_version();
    numbers = strcmp(argv[2], "bf16") ? dnnl_f32 : dnnl_bf16;
    must(dnnl_engine_create(&engine, dnnl_cpu, 0), "an engine");
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags),
         "a stream");
    printf("oneDNN %d.%d.%d\n", version->major, version->minor, version->patch);
    for (struct shape s; read_shape(&s);)
        answer(&s, kind, atof(argv[3]));
    must(dnnl_stream_destroy(stream), "a stream");
    must(dnnl_engine_destroy(engine), "an engine");
    return fflush(stdout) || ferror(stdout);
}
