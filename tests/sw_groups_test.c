/* SPDX-License-Identifier: MIT */
/* Four core groups on four threads: the barrier, with delays; convolutions
 * that they share against the same on one; the sum of gradients. For the
 * thread sanitizer too. Speaks TAP. */
#include "sw_checks.h"

#include <sched.h>
#include <stdatomic.h>

#include "kernels/sw/sw_groups.h"
#include "shapes.h"

static struct sw_groups *groups;

/* --- the barrier -------------------------------------------------------- */

enum { ROUNDS = 300 };

static atomic_int came[SW_GROUPS];

/* Some come late, others hurry ahead: nobody may see one who has not come. */
static const char *come_together(struct sw_groups *g, int group, void *argument)
{
    const uint64_t *seed = argument;
    for (int round = 1; round <= ROUNDS; round++) {
        const int late = pick(*seed + (uint64_t)group, round, 0, 9);
        for (int i = 0; late > 6 && i < 50 * late; i++)
            sched_yield();
        atomic_store_explicit(&came[group], round, memory_order_relaxed);
        sw_groups_sync(g);
        for (int i = 0; i < SW_GROUPS; i++) {
            const int at = atomic_load_explicit(&came[i], memory_order_relaxed);
            if (at < round || at > round + 1)
                return "somebody left before all had come";
        }
    }
    return NULL;
}

static void the_barrier_is_full(void)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (int i = 0; i < SW_GROUPS; i++)
            atomic_store(&came[i], 0);
        const char *error = sw_groups_run(groups, come_together, &seed);
        require(!error, "%s", error);
    }
}

/* What is not atomic, the barrier alone keeps apart: each writes a place that
 * its neighbour reads. */
static int passed[SW_GROUPS];

static const char *pass_on(struct sw_groups *g, int group, void *argument)
{
    const char *error = NULL;
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        passed[group] = round * SW_GROUPS + group;
        sw_groups_sync(g);
        const int from = (group + 1) % SW_GROUPS;
        if (passed[from] != round * SW_GROUPS + from)
            error = "what a neighbour wrote is not there";
        sw_groups_sync(g);
    }
    return error;
}

static const char *third_fails(struct sw_groups *g, int group, void *argument)
{
    (void)argument;
    sw_groups_sync(g);
    return group == 2 ? "the third" : group == 3 ? "the fourth" : NULL;
}

static void what_is_written_is_there(void)
{
    const char *error = sw_groups_run(groups, pass_on, NULL);
    require(!error, "%s", error);
    error = sw_groups_run(groups, third_fails, NULL);
    require(error && !strcmp(error, "the third"), "it says %s", error);
}

/* --- convolution -------------------------------------------------------- */

struct tensors {
    size_t nx, ny, nw;
    float *x, *w, *dy;
};

static float *result(struct conv c, enum conv_pass pass,
                     const struct tensors *t, size_t count, bool shared)
{
    float *out = unset(count);
    const struct sw_conv job = {
        .conv = c,
        .pass = pass,
        .in = pass == CONV_BACKWARD_DATA ? t->dy : t->x,
        .by = pass == CONV_BACKWARD_WEIGHTS ? t->dy : t->w,
        .out = out,
    };
    const char *cannot =
        shared ? sw_groups_conv_cannot(&job) : sw_conv_cannot(&job);
    require(!cannot, "%s", cannot);
    float *scratch =
        unset(shared ? sw_groups_conv_scratch(&job) : sw_conv_scratch(&job));
    const char *error =
        shared ? sw_groups_conv(groups, &job, scratch, NULL)
               : sw_conv(sw_groups_machine(groups, 3), &job, scratch, NULL);
    require(!error, "%s", error);
    free(scratch);
    return out;
}

static void four_equal_one(struct conv c, uint64_t seed)
{
    struct tensors t;
    require(conv_set_outputs(&c), "a window fits");
    t.nx = (size_t)(c.n * c.c * c.h * c.w);
    t.ny = (size_t)(c.n * c.k * c.out_h * c.out_w);
    t.nw = (size_t)(c.k * (c.c / c.groups) * c.kernel_h * c.kernel_w);
    t.x = eighths(t.nx, seed);
    t.w = eighths(t.nw, seed + 1);
    t.dy = eighths(t.ny, seed + 2);
    const size_t count[] = {t.ny, t.nx, t.nw};
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        float *four = result(c, pass, &t, count[pass], true);
        float *one = result(c, pass, &t, count[pass], false);
        equal(four, one, count[pass], "of four groups");
        free(four);
        free(one);
    }
    free(t.x);
    free(t.w);
    free(t.dy);
}

static void four_come_to_the_same_as_one(void)
{
    static const struct conv some[] = {
        SHAPE(8, 3, 6, 5, 10, 1, 3, 3, 2, 1, 1, 1, 1, 1),
        SHAPE(4, 64, 2, 3, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(12, 4, 5, 5, 6, 2, 2, 2, 1, 1, 0, 0, 1, 1),
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        four_equal_one(some[i], 10 * i);
    struct sw_conv five = {.conv = some[0]};
    five.conv.n = 5;
    require(sw_groups_conv_cannot(&five) != NULL, "five images");
}

/* From 32 Ki numbers on by the mesh, with DMA of three floats for each. */
static void gradients_are_added_up(void)
{
    static const size_t counts[] = {5, SW_SUM_ON_MESH - 1, SW_SUM_ON_MESH,
                                    100003};
    struct sw_machine *m = sw_groups_machine(groups, 0);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const size_t n = counts[i], mesh = n >= SW_SUM_ON_MESH ? n : 0;
        float *a = eighths(n, 1), *b = eighths(n, 2), *c = eighths(n, 3);
        float *wanted = eighths(n, 1);
        for (size_t k = 0; k < n; k++)
            wanted[k] += b[k] + c[k];
        sw_machine_clear(m);
        const char *error =
            sw_gradient_sum(m, a, (const float *const[]){b, c}, 2, n);
        require(!error, "%s", error);
        equal(a, wanted, n, "a sum of gradients");
        const struct sw_counts found = sw_machine_counts(m);
        require(found.get_bytes == 2 * 8 * mesh
                    && found.put_bytes == 2 * 4 * mesh,
                "%zu and %zu bytes", found.get_bytes, found.put_bytes);
        require(!mesh || found.ldm_bytes == 3 * 16 * 1024, "LDM");
        free(a);
        free(b);
        free(c);
        free(wanted);
    }
}

int main(void)
{
    static const struct check checks[] = {
        {"the barrier is full",          the_barrier_is_full         },
        {"what is written is there",     what_is_written_is_there    },
        {"four come to the same as one", four_come_to_the_same_as_one},
        {"gradients are added up",       gradients_are_added_up      },
    };
    groups = sw_groups_create();
    require(groups != NULL, "no memory");
    const int status =
        run_checks(checks, (int)(sizeof(checks) / sizeof(checks[0])));
    sw_groups_free(groups);
    return status;
}
