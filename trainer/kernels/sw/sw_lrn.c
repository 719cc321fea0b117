/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_lrn.h"

#include <math.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

enum {
    LDM_FLOATS = SW_LDM_FOR_DATA / 4,
    MOST_PLACES = 64,
    WINDOWS = 8 /* that a block of channels is to have at least */
};

/* --- blocks ------------------------------------------------------------- */

/* Arrays of a block of channels, and of one with its neighbours. */
struct arrays {
    int own, with;
};
static const struct arrays arrays_forward = {2, 1}, arrays_backward = {1, 3};

/* How much at a time. */
struct cut {
    int places, channels;
};

static int most_channels(struct sw_channels s, int size, struct arrays a,
                         int places)
{
    const int all = LDM_FLOATS / places - a.with * (size - 1);
    return sw_least(s.c, all / (a.own + a.with));
}

/* Fewer places leave room for more channels, of which neighbours then are a
 * smaller part, and give work to more CPEs. */
static struct cut cut(struct sw_channels s, int size, struct arrays a)
{
    int places = sw_least(s.places, MOST_PLACES);
    while (places > 1
           && (most_channels(s, size, a, places) < sw_least(s.c, WINDOWS * size)
               || (places > SW_SIDE
                   && s.n * sw_parts(s.places, places) < SW_CPES)))
        places /= 2;
    return (struct cut){places, most_channels(s, size, a, places)};
}

/* Channels first to before end, and those that are read for them. */
struct block {
    int image, place, places, first, end, read, read_end;
};

static int blocks(struct sw_channels s, struct cut c)
{
    return s.n * sw_parts(s.places, c.places) * sw_parts(s.c, c.channels);
}

static struct block block_of(struct sw_channels s, int size, struct cut c,
                             int i)
{
    const int down = sw_parts(s.c, c.channels);
    const int across = sw_parts(s.places, c.places);
    struct block b = {.image = i / down / across,
                      .place = i / down % across * c.places,
                      .first = i % down * c.channels};
    b.places = sw_least(c.places, s.places - b.place);
    b.end = sw_least(s.c, b.first + c.channels);
    b.read = sw_most(0, b.first - size / 2);
    b.read_end = sw_least(s.c, b.end + size / 2);
    return b;
}

/* Channels of all blocks with their neighbours, at one place. */
static size_t channels_read(struct sw_channels s, int size, struct arrays a)
{
    const struct cut c = cut(s, size, a);
    size_t sum = 0;
    for (int i = 0; i < sw_parts(s.c, c.channels); i++) {
        const struct block b = block_of(s, size, c, i);
        sum += (size_t)(b.read_end - b.read);
    }
    return sum;
}

/* --- transfers ---------------------------------------------------------- */

static size_t at_channel(struct sw_channels s, const struct block *b,
                         int channel)
{
    return sw_times(b->image, s.c, s.places)
           + (size_t)channel * (size_t)s.places + (size_t)b->place;
}

static struct sw_stretch rows(struct sw_channels s, const struct block *b,
                              int channels)
{
    return sw_rows((size_t)channels, (size_t)b->places, (size_t)s.places);
}

static void get_read(struct sw_cpe *cpe, struct sw_channels s,
                     const struct block *b, const float *from, float *to)
{
    sw_bring_rows(cpe, to, from + at_channel(s, b, b->read),
                  rows(s, b, b->read_end - b->read));
}

static void put_own(struct sw_cpe *cpe, struct sw_channels s,
                    const struct block *b, const float *from, float *to)
{
    sw_take_rows(cpe, from, to + at_channel(s, b, b->first),
                 rows(s, b, b->end - b->first));
}

/* --- arithmetic --------------------------------------------------------- */

/* s^-beta; the usual beta needs no powf. */
static float lower(float s, float beta)
{
    return beta == 0.75F ? 1 / (sqrtf(s) * sqrtf(sqrtf(s))) : powf(s, -beta);
}

/* The sum over the window of a channel that is in the block, with `of` from
 * channel b->read on; of its squares, or of itself. */
static float window(const struct block *b, int size, const float *of,
                    int channel, int place, bool squares)
{
    const int end = sw_least(b->read_end, channel + size / 2 + 1);
    float sum = 0;
    for (int c = sw_most(b->read, channel - size / 2); c < end; c++) {
        const float v = of[(c - b->read) * b->places + place];
        sum += squares ? v * v : v;
    }
    return sum;
}

static size_t numbers(const struct block *b)
{
    return sw_times(b->end - b->first, b->places, 1);
}

/* A multiplication and addition for each of a window, and four more. */
static void count(struct sw_cpe *cpe, const struct block *b, int size)
{
    sw_count(cpe, (numbers(b) + SW_LANES - 1) / SW_LANES * (size_t)(size + 4));
}

static float *room(struct sw_cpe *cpe, struct cut c, int channels)
{
    return sw_ldm(cpe, sizeof(float) * sw_times(c.places, channels, 1));
}

/* --- forward ------------------------------------------------------------ */

void sw_lrn_forward(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_lrn *job = argument;
    const struct cut c = cut(job->shape, job->size, arrays_forward);
    const float alpha = job->alpha / (float)job->size;
    float *x = room(cpe, c, c.channels + job->size - 1);
    float *s = room(cpe, c, c.channels), *y = room(cpe, c, c.channels);
    for (int i = sw_number(cpe); i < blocks(job->shape, c); i += SW_CPES) {
        const struct block b = block_of(job->shape, job->size, c, i);
        const int before = (b.first - b.read) * b.places;
        get_read(cpe, job->shape, &b, job->x, x);
        for (int k = 0; k < (int)numbers(&b); k++) {
            s[k] = job->k
                   + alpha
                         * window(&b, job->size, x, b.first + k / b.places,
                                  k % b.places, true);
            y[k] = lower(s[k], job->beta) * x[before + k];
        }
        put_own(cpe, job->shape, &b, s, job->s);
        put_own(cpe, job->shape, &b, y, job->y);
        count(cpe, &b, job->size);
    }
}

const char *sw_lrn(struct sw_machine *m, const struct sw_lrn *job)
{
    return sw_spawn(m, sw_lrn_forward, job, sizeof(*job));
}

/* --- backward ----------------------------------------------------------- */

/* dx = dy s^-beta - 2 alpha beta / size x times the window's sum of dy y / s */
void sw_lrn_backward_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_lrn_backward *job = argument;
    const struct sw_channels shape = job->shape;
    const struct cut c = cut(shape, job->size, arrays_backward);
    const float share = 2 * job->beta * job->alpha / (float)job->size;
    const int with = c.channels + job->size - 1;
    float *dy = room(cpe, c, with), *s = room(cpe, c, with);
    float *y = room(cpe, c, with), *x = room(cpe, c, c.channels);
    for (int i = sw_number(cpe); i < blocks(shape, c); i += SW_CPES) {
        const struct block b = block_of(shape, job->size, c, i);
        const int before = (b.first - b.read) * b.places;
        get_read(cpe, shape, &b, job->dy, dy);
        get_read(cpe, shape, &b, job->s, s);
        get_read(cpe, shape, &b, job->y, y);
        sw_bring_rows(cpe, x, job->x + at_channel(shape, &b, b.first),
                      rows(shape, &b, b.end - b.first));
        for (int k = 0; k < (b.read_end - b.read) * b.places; k++)
            y[k] = dy[k] * y[k] / s[k];
        for (int k = 0; k < (int)numbers(&b); k++)
            x[k] = dy[before + k] * lower(s[before + k], job->beta)
                   - share * x[k]
                         * window(&b, job->size, y, b.first + k / b.places,
                                  k % b.places, false);
        put_own(cpe, shape, &b, x, job->dx);
        count(cpe, &b, job->size);
    }
}

const char *sw_lrn_backward(struct sw_machine *m,
                            const struct sw_lrn_backward *job)
{
    return sw_spawn(m, sw_lrn_backward_all, job, sizeof(*job));
}

/* --- bytes -------------------------------------------------------------- */

static struct sw_bytes bytes(struct sw_channels s, int size, struct arrays a,
                             size_t own_read, size_t own_written)
{
    const size_t channel = sizeof(float) * sw_times(s.n, s.places, 1);
    return (struct sw_bytes){channel
                                 * ((size_t)a.with * channels_read(s, size, a)
                                    + own_read * (size_t)s.c),
                             channel * own_written * (size_t)s.c};
}

struct sw_bytes sw_lrn_bytes(struct sw_channels s, int size)
{
    return bytes(s, size, arrays_forward, 0, 2);
}

struct sw_bytes sw_lrn_backward_bytes(struct sw_channels s, int size)
{
    return bytes(s, size, arrays_backward, 1, 1);
}
