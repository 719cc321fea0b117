/* SPDX-License-Identifier: MIT */
#include "node/modes.h"

#include <time.h>

/* How often a mode is tried that was not the best; how much worse a mode may
 * have been at its first try to get a second one. */
enum { REPEAT = 128 };
static const float second_chance = 1.5F;

/* A clock that costs next to nothing. Only compared with itself. */
static uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

static struct mode_record *record_of(struct modes *m, enum coll_kind kind,
                                     bool foreign, size_t bytes)
{
    const int size = bytes ? 63 - __builtin_clzll(bytes) : 0;
    return &m->record[kind][foreign][size < MODE_SIZES ? size : MODE_SIZES - 1];
}

static int best_of(const struct mode_record *r, int likely, unsigned may)
{
    int best = likely;
    for (int i = 0; i < NMODES; i++)
        if (may >> i & 1 && r->tries[i]
            && (!r->tries[best] || r->ticks[i] < r->ticks[best]))
            best = i;
    return best;
}

static int pick(struct mode_record *r, int likely, unsigned may)
{
    const int best = best_of(r, likely, may);
    const uint32_t turn = r->operations++;
    if (!r->tries[likely])
        return likely;
    for (int i = 0; i < NMODES; i++)
        if (may >> i & 1 && i + 1 != r->asked
            && (r->tries[i] == 0
                || (r->tries[i] == 1
                    && r->ticks[i] < second_chance * r->ticks[best])))
            return i;
    if (turn % REPEAT == REPEAT - 1) {
        const int other = (int)(turn / REPEAT % NMODES);
        if (may >> other & 1)
            return other;
    }
    return best;
}

int modes_choose(struct modes *m, enum coll_kind kind, bool foreign,
                 size_t bytes, int likely, unsigned may)
{
    struct mode_record *r = record_of(m, kind, foreign, bytes);
    const int mode = pick(r, likely, may);
    r->asked = (uint8_t)(mode + 1);
    return mode;
}

void modes_start(struct modes *m)
{
    m->started = ticks_now();
}

void modes_learn(struct modes *m, enum coll_kind kind, bool foreign,
                 size_t bytes, int mode, float ticks)
{
    struct mode_record *r = record_of(m, kind, foreign, bytes);
    float *known = &r->ticks[mode];
    if (!r->tries[mode] || ticks < *known)
        *known = ticks;
    else /* what was once so fast may not be any more */
        *known += (ticks - *known) / 16;
    if (r->tries[mode] < 2)
        r->tries[mode]++;
}

float modes_ticks(const struct modes *m)
{
    return (float)(ticks_now() - m->started);
}
