/* SPDX-License-Identifier: MIT */
/* What travels in place of floats. Decoding gives the same bits everywhere.
 * What is no number stays none: a NaN in bf16, and in int8 a NaN or an infinity
 * makes all of its block NaN. */
#ifndef TRAINER_DIST_CODEC_H
#define TRAINER_DIST_CODEC_H

#include <stdbool.h>
#include <stddef.h>

/* Code is aligned to 4 bytes, and so are its lengths. */
struct codec {
    const char *name;          /* "bf16" */
    bool feeds_back;           /* what a code has not goes into the next */
    size_t (*bytes)(size_t n); /* of the code of n floats */
    /* Of x + lost, where it feeds back: leaves in lost what the code has not.
     * Else lost is not touched, and may be NULL. */
    void (*encode)(const float *x, float *lost, size_t n, void *to);
    void (*decode)(const void *from, size_t n, float *x);
    void (*add)(const void *from, size_t n, float *x); /* to x */
};

extern const struct codec codec_bf16, codec_int8;

/* The largest: `percent` of n floats, at least one, each with its index. */
size_t topk_count(size_t n, double percent);
size_t topk_bytes(size_t count);
/* Takes the `count` largest of x + lost, of n < 2^32, and leaves the rest in
 * lost. Of equal ones the first; a NaN and then an infinity are above all. */
void topk_encode(const float *x, float *lost, size_t n, size_t count, void *to);
void topk_add(const void *from, size_t count, float *x);

#endif
