/* SPDX-License-Identifier: MIT */
#include "data/sampler.h"

#include <assert.h>
#include <stdlib.h>

#include "random.h"

int sampler_create(struct sampler *s, size_t count, uint64_t seed,
                   enum shuffle shuffle)
{
    assert(count && count <= UINT32_MAX);
    *s = (struct sampler){
        .shuffle = shuffle, .count = count, .seed = seed, .epoch = -1};
    s->order = malloc(count * sizeof(*s->order));
    if (shuffle == SHUFFLE_STRIPES) /* there are at most as many runs */
        s->runs = malloc(count * sizeof(*s->runs));
    return s->order && (s->runs || shuffle != SHUFFLE_STRIPES) ? 0 : -1;
}

void sampler_free(struct sampler *s)
{
    free(s->order);
    free(s->runs);
    s->order = s->runs = NULL;
}

long sampler_steps(size_t count, long global_batch)
{
    return (long)((count + (size_t)global_batch - 1) / (size_t)global_batch);
}

/* Fisher-Yates, always from the identity so that history does not matter. */
static void permute(uint32_t *order, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; count && i > 0; i--) {
        const size_t j = random_below(seed, i, (uint32_t)(i + 1));
        const uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void draw(uint32_t *order, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        order[i] = random_below(seed, i, (uint32_t)count);
}

static struct share share_dealt(struct sampler *s, long epoch, long step,
                                int rank, int nranks, int batch)
{
    const size_t global = (size_t)nranks * (size_t)batch,
                 start = (size_t)step * global;
    if (s->epoch != epoch)
        (s->shuffle == SHUFFLE_DRAW ? draw : permute)(
            s->order, s->count, random_u64(s->seed, (uint64_t)epoch));
    s->epoch = epoch;
    const size_t present =
        s->count - start < global ? s->count - start : global;
    size_t first = (size_t)rank * (size_t)batch;
    first = first < present ? first : present;
    const size_t mine =
        present - first < (size_t)batch ? present - first : (size_t)batch;
    return (struct share){s->order + start + first, (int)mine, (int)present,
                          first};
}

/* The images from one on, in turn; the runs in any order. */
static void lay_out(struct sampler *s, long epoch, size_t nruns)
{
    const uint64_t seed = random_u64(s->seed, (uint64_t)epoch);
    const size_t first = random_below(seed, 0, (uint32_t)s->count);
    for (size_t i = 0; i < s->count; i++)
        s->order[i] = (uint32_t)((first + i) % s->count);
    permute(s->runs, nruns, random_u64(seed, 1));
    s->epoch = epoch;
    s->nruns = nruns;
}

/* Parts differ by one image at most. Each is whole batches, in which all ranks
 * go along, and what is left for the last step. */
static struct share share_stripes(struct sampler *s, long epoch, long step,
                                  int rank, int nranks, int batch)
{
    const size_t b = (size_t)batch, n = (size_t)nranks, r = (size_t)rank,
                 nruns = (s->count - 1) / (n * b), whole = nruns * b,
                 start = s->count * r / n, end = s->count * (r + 1) / n;
    if (s->epoch != epoch || s->nruns != nruns)
        lay_out(s, epoch, nruns);
    if ((size_t)step < nruns)
        return (struct share){s->order + start + s->runs[step] * b, batch,
                              (int)(n * b), r * b};
    return (struct share){s->order + start + whole, (int)(end - start - whole),
                          (int)(s->count - n * whole), start - r * whole};
}

struct share sampler_share(struct sampler *s, long epoch, long step, int rank,
                           int nranks, int batch)
{
    assert(step < sampler_steps(s->count, (long)nranks * batch));
    return (s->shuffle == SHUFFLE_STRIPES ? share_stripes : share_dealt)(
        s, epoch, step, rank, nranks, batch);
}
