/* SPDX-License-Identifier: MIT */
/* Messages whose every byte follows from a seed, for tests of transports. */
#ifndef TESTS_LETTERS_H
#define TESTS_LETTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/transport.h"

enum { LETTER_GUARD = 16 }; /* bytes after a letter that nobody may touch */

static inline uint64_t letter_word(uint64_t seed, size_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 29;
}

static inline void letter_write(char *buf, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t word = letter_word(seed, i);
        memcpy(buf + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static inline bool letter_intact(const char *buf, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t word = letter_word(seed, i);
        if (memcmp(buf + i, &word, bytes - i < 8 ? bytes - i : 8))
            return false;
    }
    return true;
}

/* A small generator, so that two ends draw the same sizes. */
static inline uint32_t letter_draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* One end of a message; the buffer lives until letter_free(). */
struct letter {
    struct transfer transfer;
    uint64_t seed;
};

static inline struct letter *letter_new(int peer, size_t bytes, uint64_t seed)
{
    struct letter *l = calloc(1, sizeof(*l));
    l->seed = seed;
    l->transfer = (struct transfer){
        .buf = malloc(bytes + LETTER_GUARD),
        .bytes = bytes,
        .peer = peer,
        .tag = 0xc0ffee,
        .status = COLL_IN_PROGRESS,
    };
    memset(l->transfer.buf, 0x5a, bytes + LETTER_GUARD);
    return l;
}

static inline struct letter *letter_send(struct transport *t, int peer,
                                         size_t bytes, uint64_t seed)
{
    struct letter *l = letter_new(peer, bytes, seed);
    letter_write(l->transfer.buf, bytes, seed);
    t->ops->send(t, &l->transfer);
    return l;
}

static inline struct letter *letter_recv(struct transport *t, int peer,
                                         size_t bytes, uint64_t seed)
{
    struct letter *l = letter_new(peer, bytes, seed);
    t->ops->recv(t, &l->transfer);
    return l;
}

static inline coll_status letter_status(const struct letter *l)
{
    return l->transfer.status;
}

/* Arrived whole (or, for a sent one, still as written), and nothing after. */
static inline bool letter_good(const struct letter *l)
{
    const char *buf = l->transfer.buf;
    bool good = l->transfer.status == COLL_OK
                && letter_intact(buf, l->transfer.bytes, l->seed);
    for (size_t i = 0; i < LETTER_GUARD; i++)
        good &= buf[l->transfer.bytes + i] == 0x5a;
    return good;
}

static inline void letter_free(struct letter *l)
{
    free(l->transfer.buf);
    free(l);
}

static inline double letter_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
