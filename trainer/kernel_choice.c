/* SPDX-License-Identifier: MIT */
/* The file has a line for each pass of a shape that was timed:
 *
 *     conv 6 avx512 AMD EPYC, 2 cores
 *     8 64 56 56 64 1 3 3 1 1 1 1 1 1 0 forward f32 winograd
 *
 * with the images of one thread first.
 * A file of another format, or one that cannot be read, is written anew.
 * Nothing is lost with it but time. */
#include "kernel_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "file.h"
#include "kernels/conv_pack.h"
#include "programs/machine.h"
#include "programs/options.h"
#include "programs/whole_file.h"
#include "random.h"

static const struct conv_method *const methods[] = {
    &conv_direct, &conv_gemm, &conv_winograd, &conv_strassen, &conv_bf16};
enum { NMETHODS = sizeof(methods) / sizeof(methods[0]), MOST = 4096 };

static const char *precision(bool bf16)
{
    return bf16 ? "bf16" : "f32";
}

static const char *const passes[] = {"forward", "backward_data",
                                     "backward_weights"};

/* --- what is known -------------------------------------------------------- */

static struct known {
    struct conv shape;
    enum conv_pass pass;
    bool bf16; /* was allowed */
    const struct conv_method *method;
} known[MOST];
static int nknown;

static bool same(const struct conv *a, const struct conv *b)
{
    return a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w
           && a->k == b->k && a->groups == b->groups
           && a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w
           && a->stride_h == b->stride_h && a->stride_w == b->stride_w
           && a->pad_h == b->pad_h && a->pad_w == b->pad_w
           && a->dilation_h == b->dilation_h && a->dilation_w == b->dilation_w
           && a->plain == b->plain;
}

static const struct conv_method *recall(const struct conv *c,
                                        enum conv_pass pass)
{
    for (int i = 0; i < nknown; i++)
        if (known[i].pass == pass && known[i].bf16 == conv_bf16_allowed()
            && same(&known[i].shape, c))
            return known[i].method;
    return NULL;
}

static const struct conv_method *find(const char *name)
{
    for (int i = 0; i < NMETHODS; i++)
        if (!strcmp(methods[i]->name, name))
            return methods[i];
    return NULL;
}

/* --- the file ------------------------------------------------------------- */

static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static void first_line(char *text, size_t bytes)
{
    char machine[200];
    machine_describe(machine, sizeof(machine));
    snprintf(text, bytes, "conv 6 %s %s\n", conv_isa()->name, machine);
}

/* Named after what it holds for, as homes are shared by machines that differ;
 * not after its format, so that an older one is replaced. */
static bool file_path(char *path, size_t bytes, const char *first)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool own = cache && *cache == '/';
    if (!own && (!home || *home != '/'))
        return false;
    const int used = snprintf(
        path, bytes, "%s%s/libcoll/conv-%016" PRIx64 ".txt", own ? cache : home,
        own ? "" : "/.cache", hash(strchr(first + strlen("conv "), ' ')));
    return used > 0 && (size_t)used < bytes;
}

static bool read_line(const char *line, struct known *k)
{
    struct conv *c = &k->shape;
    char pass[20], numbers[20], method[20];
    int plain;
    if (sscanf(line,
               "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %19s %19s %19s",
               &c->n, &c->c, &c->h, &c->w, &c->k, &c->groups, &c->kernel_h,
               &c->kernel_w, &c->stride_h, &c->stride_w, &c->pad_h, &c->pad_w,
               &c->dilation_h, &c->dilation_w, &plain, pass, numbers, method)
        != 18)
        return false;
    c->plain = plain;
    k->bf16 = !strcmp(numbers, precision(true));
    k->method = find(method);
    for (enum conv_pass p = 0; p < CONV_PASSES; p++)
        if (!strcmp(passes[p], pass)) {
            k->pass = p;
            return k->method && (k->bf16 || k->method != &conv_bf16);
        }
    return false;
}

static void read_known(const char *text)
{
    for (; *text && nknown < MOST; text++) {
        if (read_line(text, &known[nknown]))
            nknown++;
        text = strchrnul(text, '\n');
        if (!*text)
            return;
    }
}

static void write_known(FILE *to)
{
    for (int i = 0; i < nknown; i++) {
        const struct conv *c = &known[i].shape;
        fprintf(to, "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %s %s %s\n",
                c->n, c->c, c->h, c->w, c->k, c->groups, c->kernel_h,
                c->kernel_w, c->stride_h, c->stride_w, c->pad_h, c->pad_w,
                c->dilation_h, c->dilation_w, c->plain, passes[known[i].pass],
                precision(known[i].bf16), known[i].method->name);
    }
}

static void load(void)
{
    char path[PATH_MAX], error[200], first[300];
    first_line(first, sizeof(first));
    if (!file_path(path, sizeof(path), first))
        return;
    char *text = file_text(path, 1 << 20, error, sizeof(error));
    if (text && !strncmp(text, first, strlen(first)))
        read_known(text + strlen(first));
    free(text);
}

/* What cannot be written is timed again by the next run. */
static void store(void)
{
    char path[PATH_MAX], error[PATH_MAX + 100], first[300];
    struct whole_file f;
    first_line(first, sizeof(first));
    if (!file_path(path, sizeof(path), first))
        return;
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        const bool made = !mkdir(path, 0700) || errno == EEXIST;
        *slash = '/';
        if (!made)
            return;
    }
    if (!whole_file_begin(&f, path, error, sizeof(error)))
        return;
    fputs(first, f.stream);
    write_known(f.stream);
    whole_file_end(&f, true, error, sizeof(error));
}

/* --- timing --------------------------------------------------------------- */

/* In arenas, as a net has them: where memory begins matters. */
struct operands {
    struct arena x, y, w, scratch;
};

static void fill(struct arena *a)
{
    for (size_t i = 0; i < a->count; i++)
        a->x[i] = 2 * random_unit(1, i) - 1;
}

static double run(const struct conv_method *m, const struct conv *c,
                  enum conv_pass pass, const struct operands *o)
{
    const double start = clock_now();
    struct conv fresh = *c;
    fresh.fresh = conv_writes(m);
    if (pass == CONV_FORWARD)
        m->forward(c, o->x.x, o->w.x, NULL, o->y.x, o->scratch.x);
    else if (pass == CONV_BACKWARD_DATA)
        m->backward_data(c, o->y.x, o->w.x, o->x.x, o->scratch.x);
    else
        m->backward_weights(&fresh, o->x.x, o->y.x, o->w.x, o->scratch.x);
    return clock_now() - start;
}

static bool can(const struct conv_method *m, const struct conv *c,
                enum conv_pass pass)
{
    return !m->cannot(c, pass) && (m != &conv_bf16 || conv_bf16_allowed());
}

static size_t most_scratch(const struct conv *c, enum conv_pass pass)
{
    size_t most = 0;
    for (int i = 0; i < NMETHODS; i++) {
        const size_t floats =
            can(methods[i], c, pass) ? methods[i]->scratch(c, pass) : 0;
        most = floats > most ? floats : most;
    }
    return most;
}

/* The least time of each method, in turns, so that what else the machine does
 * meets all alike, and none finds its own data in the caches, as in a step,
 * where other layers come between. The first turn also brings the memory; who
 * is far behind after it is not tried again. */
static const struct conv_method *
least_time(const struct conv *c, enum conv_pass pass, const struct operands *o)
{
    enum { TURNS = 3, MOST_TURNS = 50 };
    const double enough = 0.03, far = 2;
    double least[NMETHODS];
    int best = -1;
    const double begun = clock_now();
    for (int turn = 0;
         turn < TURNS || (turn < MOST_TURNS && clock_now() < begun + enough);
         turn++)
        for (int i = 0; i < NMETHODS; i++) {
            if (!can(methods[i], c, pass)
                || (turn > 1 && least[i] > far * least[best]))
                continue;
            const double seconds = run(methods[i], c, pass, o);
            if (turn < 1 || seconds < least[i])
                least[i] = seconds;
            if (best < 0 || least[i] < least[best])
                best = i;
        }
    return best < 0 ? NULL : methods[best];
}

static const struct conv_method *fastest(const struct conv *c,
                                         enum conv_pass pass)
{
    const size_t nw = (size_t)c->k * (size_t)(c->c / c->groups)
                      * (size_t)(c->kernel_h * c->kernel_w);
    const struct conv_method *best = NULL;
    struct operands o = {0};
    if (!arena_alloc(&o.x, conv_blocked(c->n, c->c, c->h, c->w))
        && !arena_alloc(&o.y, conv_blocked(c->n, c->k, c->out_h, c->out_w))
        && !arena_alloc(&o.w, nw)
        && !arena_alloc(&o.scratch, most_scratch(c, pass))) {
        fill(&o.x);
        fill(&o.y);
        fill(&o.w);
        best = least_time(c, pass, &o);
    }
    arena_free(&o.x);
    arena_free(&o.y);
    arena_free(&o.w);
    arena_free(&o.scratch);
    return best;
}

/* At most so much work at once: of large layers a few images will do. */
static struct conv with_few_images(struct conv c)
{
    const double image = 2.0 * c.out_h * c.out_w * c.k * (c.c / c.groups)
                         * c.kernel_h * c.kernel_w;
    const double most = 1e10;
    while (c.n > 1 && c.n * image > most)
        c.n = (c.n + 1) / 2;
    return c;
}

static bool measuring;
static int threads; /* that share out the images: outputs are not tried */
static bool told;   /* what is known is rank 0's, and all there is */

static const struct conv_method *measured(const struct conv *c,
                                          enum conv_pass pass)
{
    struct conv part = *c;
    part.n = (c->n + threads - 1) / threads;
    const struct conv_method *method = recall(&part, pass);
    if (method || told || nknown == MOST)
        return method; /* NULL: by the rule */
    const struct conv few = with_few_images(part);
    method = fastest(&few, pass);
    if (method) {
        known[nknown++] =
            (struct known){part, pass, conv_bf16_allowed(), method};
        store();
    }
    return method;
}

/* --- all ranks as rank 0 ---------------------------------------------------
 */

static coll_status tell(coll_comm *comm)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream) {
        write_known(stream);
        fclose(stream);
    }
    uint64_t count = text ? bytes : 0;
    coll_status status =
        coll_broadcast(&count, &count, 1, COLL_U64, 0, comm, NULL);
    if (!status && count)
        status = coll_broadcast(text, text, count, COLL_I8, 0, comm, NULL);
    free(text);
    return status;
}

static coll_status hear(coll_comm *comm)
{
    uint64_t count;
    coll_status status =
        coll_broadcast(&count, &count, 1, COLL_U64, 0, comm, NULL);
    if (status)
        return status;
    char *text = calloc(count + 1, 1);
    if (!text)
        return COLL_ERR_MEMORY;
    if (count)
        status = coll_broadcast(text, text, count, COLL_I8, 0, comm, NULL);
    nknown = 0;
    told = true;
    read_known(text);
    free(text);
    return status;
}

coll_status kernel_agree(coll_comm *comm, bool has_net)
{
    const bool root = !coll_comm_user_rank(comm);
    if (!measuring || coll_comm_count(comm) == 1 || root != has_net)
        return COLL_OK;
    return root ? tell(comm) : hear(comm);
}

/* --- names ---------------------------------------------------------------- */

static const struct conv_method *forced;

static const struct conv_method *force(const struct conv *c,
                                       enum conv_pass pass)
{
    return forced == &conv_direct && conv_bf16_allowed()
                   && !conv_bf16.cannot(c, pass)
               ? &conv_bf16
               : forced;
}

int kernel_choose(const char *name, int nthreads, char *error,
                  size_t error_bytes)
{
    const char *const names[] = {"auto",     "direct",   "gemm", "measured",
                                 "strassen", "winograd", NULL};
    forced = strcmp(name, conv_bf16.name) ? find(name) : NULL;
    if (conv_bf16_allowed() && forced && forced != &conv_direct) {
        snprintf(error, error_bytes,
                 "found \"%s\", which computes in f32; valid with --precision "
                 "bf16 is auto, direct or measured",
                 name);
        return -1;
    }
    measuring = !strcmp(name, "measured");
    threads = nthreads;
    conv_choose(forced ? force : measuring ? measured : NULL);
    if (forced || !strcmp(name, "auto"))
        return 0;
    if (measuring) {
        if (!nknown)
            load();
        return 0;
    }
    say_unknown(error, error_bytes, name, names, 6);
    return -1;
}
