/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_column.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"

static size_t padded(const struct im2col *s)
{
    return (size_t)s->w + 2 * (size_t)s->pad_w;
}

/* The way back takes more: a row in double, and one in float. */
const char *sw_column_cannot(const struct im2col *s)
{
    enum { REGISTER = SW_LANES * sizeof(double) };
    const size_t most = (size_t)(s->w > s->out_w ? s->w : s->out_w);
    const size_t bytes = padded(s) * sizeof(double) + most * sizeof(float);
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

/* Where the column matrix has channel, tap (i, j) and a row of windows. */
static size_t column_at(const struct sw_column *job, int channel, int i, int j,
                        int window)
{
    const struct im2col *s = &job->shape;
    const size_t row = ((size_t)channel * (size_t)s->kernel_h + (size_t)i)
                           * (size_t)s->kernel_w
                       + (size_t)j;
    return row * job->column_row + (size_t)window * (size_t)s->out_w;
}

/* --- image to column ---------------------------------------------------- */

/* Element j of each window of a row. */
static void pick(const struct im2col *s, const float *line, int j, float *out)
{
    for (int x = 0; x < s->out_w; x++)
        out[x] = line[x * s->stride_w + j * s->dilation_w];
}

static void get_line(struct sw_cpe *cpe, const struct sw_column *job,
                     int channel, int row, float *line)
{
    const struct im2col *s = &job->shape;
    struct sw_reply reply = {0};
    memset(line, 0, padded(s) * sizeof(float));
    if (row < 0 || row >= s->h)
        return;
    sw_get(cpe, line + s->pad_w,
           job->from
               + ((size_t)channel * (size_t)s->h + (size_t)row) * (size_t)s->w,
           sw_run((size_t)s->w), &reply);
    sw_wait(cpe, &reply, 1);
}

static void one_line(struct sw_cpe *cpe, const struct sw_column *job,
                     int channel, int row, float *line, float *out)
{
    const struct im2col *s = &job->shape;
    int window;
    get_line(cpe, job, channel, row - s->pad_h, line);
    for (int j = 0; j < s->kernel_w; j++) {
        struct sw_reply reply = {0};
        int puts = 0;
        pick(s, line, j, out);
        for (int i = 0; i < s->kernel_h; i++)
            if (window_row(s, row, i, &window)) {
                sw_put(cpe, out,
                       job->to + column_at(job, channel, i, j, window),
                       sw_run((size_t)s->out_w), &reply);
                sw_wait(cpe, &reply, ++puts);
            }
    }
}

void sw_column_make(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_column *job = argument;
    const struct im2col *s = &job->shape;
    const int rows = s->h + 2 * s->pad_h;
    float *line = sw_ldm(cpe, padded(s) * sizeof(float));
    float *out = sw_ldm(cpe, (size_t)s->out_w * sizeof(float));
    for (int i = sw_number(cpe); i < rows * s->c; i += SW_CPES)
        one_line(cpe, job, i / rows, i % rows, line, out);
}

const char *sw_im2col(struct sw_machine *m, const struct sw_column *job)
{
    return sw_spawn(m, sw_column_make, job, sizeof(*job));
}

/* --- column to image ---------------------------------------------------- */

static void add(const struct im2col *s, double *line, int j, const float *in)
{
    for (int x = 0; x < s->out_w; x++)
        line[x * s->stride_w + j * s->dilation_w] += (double)in[x];
}

static void sum_line(struct sw_cpe *cpe, const struct sw_column *job,
                     int channel, int row, double *line, float *in)
{
    const struct im2col *s = &job->shape;
    int window;
    for (size_t x = 0; x < padded(s); x++)
        line[x] = 0;
    for (int i = 0; i < s->kernel_h; i++)
        for (int j = 0;
             j < s->kernel_w && window_row(s, row + s->pad_h, i, &window);
             j++) {
            struct sw_reply reply = {0};
            sw_get(cpe, in, job->from + column_at(job, channel, i, j, window),
                   sw_run((size_t)s->out_w), &reply);
            sw_wait(cpe, &reply, 1);
            add(s, line, j, in);
        }
}

static void put_line(struct sw_cpe *cpe, const struct sw_column *job,
                     int channel, int row, const double *line, float *out)
{
    const struct im2col *s = &job->shape;
    struct sw_reply reply = {0};
    for (int x = 0; x < s->w; x++)
        out[x] = (float)line[s->pad_w + x];
    sw_put(cpe, out,
           job->to
               + ((size_t)channel * (size_t)s->h + (size_t)row) * (size_t)s->w,
           sw_run((size_t)s->w), &reply);
    sw_wait(cpe, &reply, 1);
}

void sw_column_add_up(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_column *job = argument;
    const struct im2col *s = &job->shape;
    const size_t most = (size_t)(s->w > s->out_w ? s->w : s->out_w);
    double *line = sw_ldm(cpe, padded(s) * sizeof(double));
    float *floats = sw_ldm(cpe, most * sizeof(float));
    for (int i = sw_number(cpe); i < s->h * s->c; i += SW_CPES) {
        sum_line(cpe, job, i / s->h, i % s->h, line, floats);
        put_line(cpe, job, i / s->h, i % s->h, line, floats);
    }
}

const char *sw_col2im(struct sw_machine *m, const struct sw_column *job)
{
    return sw_spawn(m, sw_column_add_up, job, sizeof(*job));
}
