/* SPDX-License-Identifier: MIT */
#include "data/sampler.h"

#include <assert.h>
#include <stdlib.h>

#include "random.h"

int sampler_create(struct sampler *s, size_t count, uint64_t seed)
{
    assert(count && count <= UINT32_MAX);
    *s = (struct sampler){.count = count, .seed = seed, .epoch = -1};
    s->order = malloc(count * sizeof(*s->order));
    return s->order ? 0 : -1;
}

void sampler_free(struct sampler *s)
{
    free(s->order);
    s->order = NULL;
}

long sampler_steps(size_t count, long global_batch)
{
    return (long)((count + (size_t)global_batch - 1) / (size_t)global_batch);
}

/* Fisher-Yates, always from the identity so that history does not matter. */
static void shuffle(struct sampler *s, long epoch)
{
    const uint64_t seed = random_u64(s->seed, (uint64_t)epoch);
    for (size_t i = 0; i < s->count; i++)
        s->order[i] = (uint32_t)i;
    for (size_t i = s->count - 1; i > 0; i--) {
        const size_t j = random_below(seed, i, (uint32_t)(i + 1));
        const uint32_t kept = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = kept;
    }
    s->epoch = epoch;
}

struct share sampler_share(struct sampler *s, long epoch, long step, int rank,
                           int nranks, int batch)
{
    const size_t global = (size_t)nranks * (size_t)batch,
                 start = (size_t)step * global;
    assert(start < s->count);
    if (s->epoch != epoch)
        shuffle(s, epoch);
    const size_t present =
        s->count - start < global ? s->count - start : global;
    size_t first = (size_t)rank * (size_t)batch;
    first = first < present ? first : present;
    const size_t mine =
        present - first < (size_t)batch ? present - first : (size_t)batch;
    return (struct share){s->order + start + first, (int)mine, (int)present,
                          first};
}
