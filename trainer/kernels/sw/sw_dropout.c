/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_dropout.h"

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "random.h"

enum { PIECE = 4096 };

/* Numbers of all images, of which the first is number `at`. */
static void drop(const struct sw_dropout *job, float *x, size_t at,
                 size_t count)
{
    const float keep = 1 / (1 - job->rate);
    uint64_t of_image = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t place = (at + i) % job->image;
        if (i == 0 || place == 0)
            of_image =
                random_u64(job->seed, job->first_image + (at + i) / job->image);
        x[i] *= random_unit(of_image, place) < job->rate ? 0 : keep;
    }
}

void sw_dropout_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_dropout *job = argument;
    const size_t all = job->image * (size_t)job->n;
    float *x = sw_ldm(cpe, PIECE * sizeof(float));
    for (size_t at = (size_t)sw_number(cpe) * PIECE; at < all;
         at += (size_t)SW_CPES * PIECE) {
        const size_t count = all - at < PIECE ? all - at : PIECE;
        sw_bring(cpe, x, job->from + at, count);
        drop(job, x, at, count);
        sw_take(cpe, x, job->to + at, count);
        sw_count(cpe, (count + SW_LANES - 1) / SW_LANES);
    }
}

const char *sw_dropout(struct sw_machine *m, const struct sw_dropout *job)
{
    return sw_spawn(m, sw_dropout_all, job, sizeof(*job));
}

struct sw_bytes sw_dropout_bytes(const struct sw_dropout *job)
{
    const size_t all = sizeof(float) * job->image * (size_t)job->n;
    return (struct sw_bytes){all, all};
}
