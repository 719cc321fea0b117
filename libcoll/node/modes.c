/* SPDX-License-Identifier: MIT */
#include "node/modes.h"

#include <time.h>

/* A look at a mode: so many operations in a row. The first one finds the caches
 * and page tables as another mode has left them and may take twice as long as
 * the next ones, so it does not count; but of long vectors one will do, as
 * nothing of them stays in a cache. */
enum { LOOK = 4, LONG_BYTES = 4 << 20 };
/* Operations from one look at a mode that is not the best to the next, at first
 * and at last. */
enum { PAUSE = 64, MOST_PAUSE = 512 };
/* How much worse than the best a mode may have been to get a second look soon,
 * and from which on one operation is enough; how much better one has to be. */
static const float second_chance = 1.5F, hopeless = 4, better = 0.97F;

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

static int best_of(struct mode_record *r, int likely, unsigned may)
{
    int best = r->best && may >> (r->best - 1) & 1 ? r->best - 1 : likely;
    for (int i = 0; i < NMODES; i++)
        if (may >> i & 1 && r->samples[i]
            && (!r->samples[best] || r->ticks[i] < better * r->ticks[best]))
            best = i;
    r->best = (uint8_t)(best + 1);
    return best;
}

static int look_at(struct mode_record *r, int mode, bool is_long)
{
    r->look = (uint8_t)(mode + 1);
    r->left = is_long ? 0 : LOOK - 1;
    r->looks[mode] = r->looks[mode] ? 2 : 1;
    if (r->samples[mode]) /* what is new counts as much as what was */
        r->samples[mode] = 1;
    return mode;
}

/* Whose first or second look is due, but not of the best, which runs anyway,
 * nor of the one that was just looked at, as it is not all heard of yet; -1:
 * nobody's. */
static int due(const struct mode_record *r, int best, unsigned may)
{
    for (int i = 0; i < NMODES; i++)
        if (may >> i & 1 && i != best && i + 1 != r->look
            && (r->looks[i] == 0
                || (r->looks[i] == 1 && r->samples[i]
                    && r->ticks[i] < second_chance * r->ticks[best])))
            return i;
    return -1;
}

/* The others in turn. */
static int next_of(const struct mode_record *r, int best, unsigned may)
{
    for (int i = 0; i < NMODES; i++) {
        const int mode = (r->look + i) % NMODES;
        if (mode != best && may >> mode & 1)
            return mode;
    }
    return -1;
}

static int pick(struct mode_record *r, int likely, unsigned may, bool is_long)
{
    if (!r->samples[likely]) {
        r->looks[likely] = 1;
        return likely;
    }
    if (r->left > 0 && may >> (r->look - 1) & 1) {
        r->left--;
        return r->look - 1;
    }
    const int best = best_of(r, likely, may);
    int mode = due(r, best, may);
    const int pause = r->pause ? r->pause : PAUSE;
    if (mode < 0 && ++r->passed >= pause) {
        r->passed = 0;
        r->pause = (uint16_t)(2 * pause < MOST_PAUSE ? 2 * pause : MOST_PAUSE);
        mode = next_of(r, best, may);
    }
    return mode < 0 ? best : look_at(r, mode, is_long);
}

int modes_choose(struct modes *m, enum coll_kind kind, bool foreign,
                 size_t bytes, int likely, unsigned may)
{
    return pick(record_of(m, kind, foreign, bytes), likely, may,
                bytes >= LONG_BYTES);
}

void modes_start(struct modes *m)
{
    m->started = ticks_now();
}

/* The least of the first samples, so that what is good is not missed for a bad
 * moment; then, as it runs, what it takes on average, where a bad moment counts
 * as twice that. */
void modes_learn(struct modes *m, enum coll_kind kind, bool foreign,
                 size_t bytes, int mode, float ticks)
{
    struct mode_record *r = record_of(m, kind, foreign, bytes);
    float *known = &r->ticks[mode];
    const bool settled = bytes >= LONG_BYTES || r->ran == mode + 1;
    const int best = r->best - 1;
    const bool bad = best >= 0 && ticks > hopeless * r->ticks[best];
    r->ran = (uint8_t)(mode + 1);
    if (!settled && !bad)
        return;
    if (!settled && r->look == mode + 1)
        r->left = 0;
    if (r->samples[mode] < MODE_SAMPLES) {
        if (!r->samples[mode] || ticks < *known)
            *known = ticks;
        r->samples[mode]++;
        return;
    }
    *known += ((ticks < 2 * *known ? ticks : 2 * *known) - *known) / 8;
}

float modes_ticks(const struct modes *m)
{
    return (float)(ticks_now() - m->started);
}
