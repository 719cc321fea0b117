/* SPDX-License-Identifier: MIT */
/* The largest numbers of a vector with their indices: all indices, rising, then
 * all numbers. How large they are is found digit by digit of their bits, which
 * as integers have the order of the absolute values. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dist/codec.h"
#include "kernels/code.h"
#include "kernels/lanes.h"

enum { DIGIT = 11, BINS = 1 << DIGIT, ALL = 31 }; /* bits; 11, 11 and 9 */

static uint32_t size_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7fffffff;
}

size_t topk_count(size_t n, double percent)
{
    const double count = ceil((double)n * percent / 100);
    return count < 1 ? (n > 0) : count < (double)n ? (size_t)count : n;
}

size_t topk_bytes(size_t count)
{
    return count * (sizeof(uint32_t) + sizeof(float));
}

/* The size of the one that has count - 1 above it, or beside. */
static uint32_t threshold(const float *x, size_t n, size_t count)
{
    uint32_t found = 0;
    for (int known = 0; known < ALL;) {
        uint32_t bins[BINS] = {0};
        const int width = known + DIGIT < ALL ? DIGIT : ALL - known;
        const int rest = ALL - known - width;
        for (size_t i = 0; i < n; i++)
            if (size_of(x[i]) >> (rest + width) == found)
                bins[size_of(x[i]) >> rest & ((1u << width) - 1)]++;
        uint32_t bin = (1u << width) - 1;
        while (bins[bin] < count)
            count -= bins[bin--];
        found = found << width | bin;
        known += width;
    }
    return found;
}

void topk_encode(const float *x, float *lost, size_t n, size_t count, void *to)
{
    uint32_t *index = to;
    float *value = (float *)(index + count);
    lanes()->code->add(x, n, lost);
    const uint32_t least = threshold(lost, n, count);
    size_t above = 0, taken = 0;
    for (size_t i = 0; i < n; i++)
        above += size_of(lost[i]) > least;
    size_t equal = count - above;
    for (size_t i = 0; taken < count; i++) {
        const uint32_t size = size_of(lost[i]);
        if (size < least || (size == least && !equal))
            continue;
        equal -= size == least;
        index[taken] = (uint32_t)i;
        value[taken++] = lost[i];
        lost[i] = 0;
    }
}

void topk_add(const void *from, size_t count, float *x)
{
    const uint32_t *index = from;
    const float *value = (const float *)(index + count);
    for (size_t i = 0; i < count; i++)
        x[index[i]] += value[i];
}
