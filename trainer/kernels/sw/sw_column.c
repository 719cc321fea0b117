/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_column.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

/* The way back takes more: a row in double, and one in float. */
const char *sw_column_cannot(const struct im2col *s, int images)
{
    enum { REGISTER = SW_LANES * sizeof(double) };
    const size_t bytes =
        sizeof(double) * sw_times(images, s->w, 1)
        + sizeof(float) * sw_times(images, sw_most(s->w, s->out_w), 1);
    return bytes + REGISTER > SW_LDM_FOR_DATA
               ? "a row of the image does not fit into the LDM"
               : NULL;
}

/* The row of windows that sees row `row` of the padded image with its row i of
 * taps. */
static bool window_row(const struct im2col *s, int row, int i, int *window)
{
    const int top = row - i * s->dilation_h;
    *window = top / s->stride_h;
    return top >= 0 && top % s->stride_h == 0 && *window < s->out_h;
}

/* Where the first image has a row; and where the column matrix has channel, tap
 * (i, j) and a row of windows of it. */
static size_t image_at(const struct im2col *s, int channel, int row)
{
    return ((size_t)channel * (size_t)s->h + (size_t)row) * (size_t)s->w;
}

static size_t column_at(const struct sw_column *job, int channel, int i, int j,
                        int window)
{
    const struct im2col *s = &job->shape;
    const size_t row = ((size_t)channel * (size_t)s->kernel_h + (size_t)i)
                           * (size_t)s->kernel_w
                       + (size_t)j;
    return row * job->column_row + (size_t)window * (size_t)s->out_w;
}

/* The same row of all images, and of their parts of the column matrix. */
static struct sw_stretch of_images(const struct sw_column *job)
{
    return sw_rows((size_t)job->images, (size_t)job->shape.w, job->image);
}

static struct sw_stretch of_columns(const struct sw_column *job)
{
    const struct im2col *s = &job->shape;
    return sw_rows((size_t)job->images, (size_t)s->out_w,
                   sw_times(s->out_h, s->out_w, 1));
}

/* Which windows of a row see the image with element j: from first to before
 * end; the first of them sees number `from`. */
struct seen {
    int first, end, from;
};

static struct seen seen_by(const struct im2col *s, int j)
{
    const int shift = j * s->dilation_w - s->pad_w;
    struct seen v = {0, s->out_w, shift};
    if (shift < 0)
        v.first = sw_least(s->out_w, sw_parts(-shift, s->stride_w));
    if (s->w <= shift)
        v.end = v.first;
    else
        v.end = sw_least(s->out_w, sw_parts(s->w - shift, s->stride_w));
    v.end = sw_most(v.first, v.end);
    v.from = shift + v.first * s->stride_w;
    return v;
}

/* --- image to column ---------------------------------------------------- */

/* Element j of each window of a row, of all images; 0 outside. */
static void pick(const struct sw_column *job, const float *line, int j,
                 float *out)
{
    const struct im2col *s = &job->shape;
    const struct seen v = seen_by(s, j);
    memset(out, 0, sizeof(float) * sw_times(job->images, s->out_w, 1));
    for (int i = 0; i < job->images; i++, line += s->w, out += s->out_w)
        for (int x = v.first; x < v.end; x++)
            out[x] = line[v.from + (x - v.first) * s->stride_w];
}

static void one_line(struct sw_cpe *cpe, const struct sw_column *job,
                     int channel, int row, float *line, float *out)
{
    const struct im2col *s = &job->shape;
    const bool inside = row >= s->pad_h && row - s->pad_h < s->h;
    int window;
    if (inside)
        sw_bring_rows(cpe, line,
                      job->from + image_at(s, channel, row - s->pad_h),
                      of_images(job));
    else
        memset(line, 0, sizeof(float) * sw_times(job->images, s->w, 1));
    for (int j = 0; j < s->kernel_w; j++) {
        struct sw_reply reply = {0};
        int puts = 0;
        pick(job, line, j, out);
        for (int i = 0; i < s->kernel_h; i++)
            if (window_row(s, row, i, &window)) {
                sw_put(cpe, out,
                       job->to + column_at(job, channel, i, j, window),
                       of_columns(job), &reply);
                sw_wait(cpe, &reply, ++puts);
            }
    }
}

void sw_column_make(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_column *job = argument;
    const struct im2col *s = &job->shape;
    const int rows = s->h + 2 * s->pad_h;
    float *line = sw_ldm(cpe, sizeof(float) * sw_times(job->images, s->w, 1));
    float *out =
        sw_ldm(cpe, sizeof(float) * sw_times(job->images, s->out_w, 1));
    for (int i = sw_number(cpe); i < rows * s->c; i += SW_CPES)
        one_line(cpe, job, i / rows, i % rows, line, out);
}

const char *sw_im2col(struct sw_machine *m, const struct sw_column *job)
{
    return sw_spawn(m, sw_column_make, job, sizeof(*job));
}

/* --- column to image ---------------------------------------------------- */

static void add(const struct sw_column *job, double *line, int j,
                const float *in)
{
    const struct im2col *s = &job->shape;
    const struct seen v = seen_by(s, j);
    for (int i = 0; i < job->images; i++, line += s->w, in += s->out_w)
        for (int x = v.first; x < v.end; x++)
            line[v.from + (x - v.first) * s->stride_w] += (double)in[x];
}

static void sum_line(struct sw_cpe *cpe, const struct sw_column *job,
                     int channel, int row, double *line, float *in)
{
    const struct im2col *s = &job->shape;
    int window;
    for (int i = 0; i < s->kernel_h; i++)
        for (int j = 0;
             j < s->kernel_w && window_row(s, row + s->pad_h, i, &window);
             j++) {
            sw_bring_rows(cpe, in,
                          job->from + column_at(job, channel, i, j, window),
                          of_columns(job));
            add(job, line, j, in);
        }
}

void sw_column_add_up(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_column *job = argument;
    const struct im2col *s = &job->shape;
    const size_t numbers = sw_times(job->images, s->w, 1);
    double *line = sw_ldm(cpe, numbers * sizeof(double));
    float *floats = sw_ldm(
        cpe, sizeof(float) * sw_times(job->images, sw_most(s->w, s->out_w), 1));
    for (int i = sw_number(cpe); i < s->h * s->c; i += SW_CPES) {
        memset(line, 0, numbers * sizeof(double));
        sum_line(cpe, job, i / s->h, i % s->h, line, floats);
        for (size_t x = 0; x < numbers; x++)
            floats[x] = (float)line[x];
        sw_take_rows(cpe, floats, job->to + image_at(s, i / s->h, i % s->h),
                     of_images(job));
    }
}

const char *sw_col2im(struct sw_machine *m, const struct sw_column *job)
{
    return sw_spawn(m, sw_column_add_up, job, sizeof(*job));
}

/* --- bytes -------------------------------------------------------------- */

/* Of rows of windows that see so many rows of the image, for all taps of a row,
 * in all channels. */
static size_t column_bytes(const struct im2col *s, size_t rows)
{
    return sizeof(float) * rows * sw_times(s->c, s->kernel_w, s->out_w);
}

struct sw_bytes sw_im2col_bytes(const struct im2col *s)
{
    return (struct sw_bytes){
        sizeof(float) * sw_times(s->c, s->h, s->w),
        column_bytes(s, sw_times(s->kernel_h, s->out_h, 1))};
}

struct sw_bytes sw_col2im_bytes(const struct im2col *s)
{
    size_t pairs = 0; /* of a row of windows and a row of taps that see it */
    for (int i = 0; i < s->kernel_h; i++)
        for (int r = 0; r < s->out_h; r++) {
            const int row = r * s->stride_h - s->pad_h + i * s->dilation_h;
            pairs += row >= 0 && row < s->h;
        }
    return (struct sw_bytes){column_bytes(s, pairs),
                             sizeof(float) * sw_times(s->c, s->h, s->w)};
}
