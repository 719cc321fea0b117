/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register.
 *
 * A tile of sums stays in registers. What they are summed from, a block of
 * TERMS by SPAN, is brought near first: it stays in the first cache for all
 * rows of `to`, in a tile's order, where its own rows may be turned, across
 * cache lines, or a power of two apart, so that they get in each other's way.
 * While tiles are summed up they ask memory for the next block, some lines at a
 * time.
 *
 * Of a dense layer's dy a relu makes half zeros, a dropout of 0.5 half of the
 * rest. There a row is summed up at a time, longer, of the other terms alone:
 * adding 0 changes nothing but the sign of a 0, where numbers are finite. With
 * AVX-512 not measured.
 *
 * Few rows of AVX-512 go by rows_few.h, all but columns that fill no register.
 */
#include "kernels/rows.h"

#include <stdint.h>
#include <string.h>

#include "kernels/reg.h"
#include "kernels/rows_few.h"
#include "kernels/turn.h"

enum {
    HIGH = CONV_LANES == 16 ? 3 : 16 / CONV_LANES,     /* registers of a tile */
    WIDE = (CONV_REGISTERS - HIGH - 1) / HIGH / 2 * 2, /* and its rows */
    SPAN = HIGH * LANES,
    TERMS = 128,
    ROWS = 128,   /* of which a second cache has the next columns, too, */
    PANEL = 4096, /* or so many columns */
    /* For no more rows than that each column that is turned comes whole: memory
     * is read in order. */
    WHOLE = 32,
    LINE = 16,  /* floats of a cache line */
    STRIDE = 4, /* terms for which lines are asked for at once */
    LONG = 12,  /* registers of a row summed up by itself, */
    LENGTH = LONG * LANES,
    LONG_TERMS = 512 / LANES, /* with so many near, */
    LONG_ROWS = 16,           /* and at least as many rows, */
    DENSE = 60,               /* of terms less than so many percent */
};

/* --- what comes next ------------------------------------------------------
 */

/* Lines of some rows. */
struct ahead {
    const float *at;
    int lines, line; /* of a row; from its last to the next row's first: */
    ptrdiff_t skip;  /* floats */
    int at_once;
};

/* All of them by so many calls of ask(). */
static struct ahead ahead_of(const float *x, int rows, size_t next, int columns,
                             int calls)
{
    const int lines = columns / LINE + 1;
    return (struct ahead){
        .at = x,
        .lines = lines,
        .skip = (ptrdiff_t)next - lines * LINE,
        .at_once = (rows * lines + calls - 1) / calls,
    };
}

INLINE void ask(struct ahead *a)
{
    for (int i = 0; i < a->at_once; i++) {
        __builtin_prefetch(a->at, 0, 2);
        a->at += LINE;
        if (++a->line == a->lines) {
            a->line = 0;
            a->at += a->skip;
        }
    }
}

/* --- tiles ----------------------------------------------------------------
 */

/* One term. */
PER_CASE void step(reg sums[][HIGH], const float *near, const float *by,
                   size_t by_row, const int nrows, const int nregs)
{
    reg v[HIGH];
    UNROLL(4)
    for (int k = 0; k < nregs; k++)
        v[k] = load(near + k * LANES);
    UNROLL(8)
    for (int i = 0; i < nrows; i++) {
        const reg one = by[(size_t)i * by_row] - (reg){0};
        UNROLL(4)
        for (int k = 0; k < nregs; k++)
            sums[i][k] += one * v[k];
    }
}

PER_CASE void tile(const struct rows_sum *s, int row, const float *near,
                   struct ahead *ahead, const int nrows, const int nregs)
{
    float *to = s->to + (size_t)row * s->to_next;
    const float *by = s->by + (size_t)row * s->by_row;
    const size_t by_row = s->by_row, by_term = s->by_term;
    struct ahead next = *ahead;
    reg sums[WIDE][HIGH];
    UNROLL(8)
    for (int i = 0; i < nrows; i++) {
        UNROLL(4)
        for (int k = 0; k < nregs; k++) {
            float *at = to + (size_t)i * s->to_next + k * LANES;
            __builtin_prefetch(at + SPAN, 1, 2);
            sums[i][k] = s->add ? load(at) : (reg){0};
        }
    }
    int t = 0;
    for (; t + STRIDE <= s->terms; t += STRIDE) {
        ask(&next);
        UNROLL(4)
        for (int i = 0; i < STRIDE; i++, near += SPAN, by += by_term)
            step(sums, near, by, by_row, nrows, nregs);
    }
    for (; t < s->terms; t++, near += SPAN, by += by_term)
        step(sums, near, by, by_row, nrows, nregs);
    UNROLL(8)
    for (int i = 0; i < nrows; i++) {
        UNROLL(4)
        for (int k = 0; k < nregs; k++)
            store(to + (size_t)i * s->to_next + k * LANES, sums[i][k]);
    }
    *ahead = next;
}

PER_CASE void tiles(const struct rows_sum *s, const float *near,
                    struct ahead *ahead, const int nregs)
{
    int row = 0;
    for (; row + WIDE <= s->rows; row += WIDE)
        tile(s, row, near, ahead, WIDE, nregs);
    for (; WIDE > 4 && row + 4 <= s->rows; row += 4)
        tile(s, row, near, ahead, 4, nregs);
    for (; row + 2 <= s->rows; row += 2)
        tile(s, row, near, ahead, 2, nregs);
    if (row < s->rows)
        tile(s, row, near, ahead, 1, nregs);
}

static int tiles_of(int rows)
{
    const int left = rows % WIDE;
    return rows / WIDE + (WIDE > 4 && left >= 4) + (left % 4 + 1) / 2;
}

/* Whole registers. */
static void sum_near(const struct rows_sum *s, const float *near,
                     struct ahead *ahead)
{
    const int nregs = (s->columns + LANES - 1) / LANES;
    if (nregs == 1)
        tiles(s, near, ahead, 1);
    else if (nregs == 2)
        tiles(s, near, ahead, 2);
    else if (nregs == 3)
        tiles(s, near, ahead, least(HIGH, 3));
    else
        tiles(s, near, ahead, HIGH);
}

/* The last one in part. */
static void sum_ragged(struct rows_sum s, const float *near,
                       struct ahead *ahead)
{
    float part[ROWS * SPAN];
    const size_t bytes = (size_t)s.columns * sizeof(float);
    float *const to = s.to;
    const size_t next = s.to_next;
    s.to = part;
    s.to_next = SPAN;
    if (s.add)
        memset(part, 0, sizeof(part)); /* lanes that do not count, too */
    for (int i = 0; s.add && i < s.rows; i++)
        memcpy(part + i * SPAN, to + (size_t)i * next, bytes);
    sum_near(&s, near, ahead);
    for (int i = 0; i < s.rows; i++)
        memcpy(to + (size_t)i * next, part + i * SPAN, bytes);
}

/* --- bringing near --------------------------------------------------------
 */

INLINE void turn(const float *from, size_t next, float *near)
{
    for (int i = 0; i < BLOCK; i += SIDE)
        for (int j = 0; j < BLOCK; j += SIDE) {
            side r[SIDE];
            for (int k = 0; k < SIDE; k++)
                r[k] = *(const loose *)(from + (size_t)(i + k) * next + j);
            turn_square(r);
            for (int k = 0; k < SIDE; k++)
                *(loose *)(near + (j + k) * SPAN + i) = r[k];
        }
}

static void turn_ragged(const float *from, size_t next, int columns, int terms,
                        float *near)
{
    float part[BLOCK * BLOCK] = {0};
    for (int c = 0; c < columns; c++)
        memcpy(part + c * BLOCK, from + (size_t)c * next,
               (size_t)terms * sizeof(float));
    turn(part, BLOCK, near);
}

static void bring_turned(const struct rows_sum *s, float *near)
{
    for (int c = 0; c < s->columns; c += BLOCK)
        for (int t = 0; t < s->terms; t += BLOCK) {
            const float *from = s->from + (size_t)c * s->from_next + t;
            const int columns = least(s->columns - c, BLOCK);
            const int terms = least(s->terms - t, BLOCK);
            float *to = near + t * SPAN + c;
            if (columns == BLOCK && terms == BLOCK)
                turn(from, s->from_next, to);
            else
                turn_ragged(from, s->from_next, columns, terms, to);
        }
}

static void bring(const struct rows_sum *s, float *near)
{
    for (int t = 0; t < s->terms; t++, near += SPAN) {
        const float *from = s->from + (size_t)t * s->from_next;
        if (s->columns < SPAN) {
            memset(near, 0, SPAN * sizeof(float));
            memcpy(near, from, (size_t)s->columns * sizeof(float));
        } else
            for (int k = 0; k < HIGH; k++)
                store(near + k * LANES, load(from + k * LANES));
    }
}

/* --- terms that are not 0 -------------------------------------------------
 */

/* Those of each row, and where they are near. */
struct terms {
    struct term {
        float by;
        int at;
    } of[ROWS][LONG_TERMS];
    int count[ROWS];
};

/* Without a jump, which nobody could guess. */
INLINE int is_some(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits << 1 != 0;
}

/* As every STRIDE-th term says. */
static bool has_zeros(const struct rows_sum *s)
{
    long all = 0, others = 0;
    if (s->turned || s->rows < LONG_ROWS || s->columns < 2 * LENGTH)
        return false;
    for (int t = 0; t < s->terms; t += STRIDE, all += s->rows)
        for (int r = 0; r < s->rows; r++)
            others +=
                is_some(s->by[(size_t)r * s->by_row + (size_t)t * s->by_term]);
    return others * 100 < all * DENSE;
}

static void list_terms(const struct rows_sum *s, struct terms *to)
{
    memset(to->count, 0, sizeof(to->count));
    for (int t = 0; t < s->terms; t++)
        for (int r = 0; r < s->rows; r++) {
            const float by =
                s->by[(size_t)r * s->by_row + (size_t)t * s->by_term];
            to->of[r][to->count[r]] = (struct term){by, t * LENGTH};
            to->count[r] += is_some(by);
        }
}

INLINE void long_row(float *to, const float *near, const struct term *terms,
                     int n, bool add)
{
    reg sums[LONG];
    UNROLL(12)
    for (int k = 0; k < LONG; k++)
        sums[k] = add ? load(to + k * LANES) : (reg){0};
    for (int i = 0; i < n; i++) {
        const reg one = terms[i].by - (reg){0};
        const float *from = near + terms[i].at;
        UNROLL(12)
        for (int k = 0; k < LONG; k++)
            sums[k] += one * load(from + k * LANES);
    }
    UNROLL(12)
    for (int k = 0; k < LONG; k++)
        store(to + k * LANES, sums[k]);
}

/* No more terms than LONG_TERMS. Returns how many columns it did. */
static int sum_long(const struct rows_sum *s)
{
    float near[LONG_TERMS * LENGTH] __attribute__((aligned(64)));
    struct terms terms;
    int c = 0;
    list_terms(s, &terms);
    for (; c + LENGTH <= s->columns; c += LENGTH) {
        for (int t = 0; t < s->terms; t++) {
            const float *from = s->from + (size_t)t * s->from_next + c;
            for (int k = 0; k < LENGTH; k += LANES)
                store(near + t * LENGTH + k, load(from + k));
        }
        struct ahead ahead = ahead_of(s->from + c + LENGTH, s->terms,
                                      s->from_next, LENGTH, s->rows);
        for (int r = 0; r < s->rows; r++) {
            ask(&ahead);
            long_row(s->to + (size_t)r * s->to_next + c, near, terms.of[r],
                     terms.count[r], s->add);
        }
    }
    return c;
}

/* All terms of these columns. Returns how many columns it did. */
static int sum_others(struct rows_sum s)
{
    const int terms = s.terms;
    int columns = 0;
    for (int t = 0; t < terms; t += LONG_TERMS) {
        s.terms = least(terms - t, LONG_TERMS);
        columns = sum_long(&s);
        s.from += (size_t)LONG_TERMS * s.from_next;
        s.by += (size_t)LONG_TERMS * s.by_term;
        s.add = true;
    }
    return columns;
}

/* --- blocks ---------------------------------------------------------------
 */

/* All columns, but no more terms than TERMS and rows than ROWS. */
static void sum_block(struct rows_sum s)
{
    float near[TERMS * SPAN] __attribute__((aligned(64)));
    const int columns = s.columns;
    /* There may be none; of fewer terms nothing is asked for. */
    const int calls = tiles_of(s.rows) * (s.terms / STRIDE) + 1;
    for (int c = 0; c < columns; c += SPAN) {
        s.columns = least(columns - c, SPAN);
        (s.turned ? bring_turned : bring)(&s, near);
        const float *more = s.from + s.terms; /* of a column by itself */
        s.from += s.turned ? SPAN * s.from_next : SPAN;
        if (columns > SPAN)
            more = s.from;
        struct ahead ahead =
            s.turned ? ahead_of(more, SPAN, s.from_next, s.terms, calls)
                     : ahead_of(s.from, s.terms, s.from_next, SPAN, calls);
        if (s.columns % LANES)
            sum_ragged(s, near, &ahead);
        else
            sum_near(&s, near, &ahead);
        s.to += SPAN;
    }
}

/* Returns how many columns that did. */
static int sum_few(const struct rows_sum *s)
{
    if (CONV_LANES < 16 || s->rows > FEW_ROWS)
        return 0;
    return s->turned ? few_columns(s) : few_terms(s);
}

static void sum(const struct rows_sum *all)
{
    struct rows_sum rest = *all, *s = &rest;
    const size_t column = s->turned ? s->from_next : 1;
    const size_t term = s->turned ? 1 : s->from_next;
    const int few = sum_few(s);
    s->columns -= few;
    s->to += few;
    s->from += (size_t)few * column;
    const int panel = s->turned && s->rows <= WHOLE ? SPAN : PANEL;
    for (int c = 0; c < s->columns; c += panel)
        for (int r = 0; r < s->rows; r += ROWS)
            for (int t = 0; t == 0 || t < s->terms; t += TERMS) {
                struct rows_sum part = *s;
                part.rows = least(s->rows - r, ROWS);
                part.columns = least(s->columns - c, panel);
                part.terms = least(s->terms - t, TERMS);
                part.to += (size_t)r * s->to_next + (size_t)c;
                part.from += (size_t)c * column + (size_t)t * term;
                part.by += (size_t)r * s->by_row + (size_t)t * s->by_term;
                part.add = s->add || t;
                if (has_zeros(&part)) {
                    const int done = sum_others(part);
                    part.columns -= done;
                    part.to += done;
                    part.from += done;
                }
                sum_block(part);
            }
}

const struct rows_loops NAME(rows_, CONV_ISA) = {
    .sum = sum,
};
