/* SPDX-License-Identifier: MIT */
/* Random numbers of tests, the same in every run: splitmix64 (Steele, Lea and
 * Flood, OOPSLA 2014). */
#ifndef TESTS_DRAW_H
#define TESTS_DRAW_H

#include <stdint.h>

static inline uint64_t draw_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t draw_from(uint64_t *state, uint64_t below)
{
    *state += 0x9e3779b97f4a7c15u;
    return draw_mix(*state) % below;
}

/* Of a test's own: set it to the seed of a case. */
static uint64_t draw_state;

static inline int draw(int below)
{
    return (int)draw_from(&draw_state, (uint64_t)below);
}

#endif
