/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_matrices.h"

#include "kernels/sw/sw_column.h"
#include "kernels/sw/sw_cost.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_product.h"

/* Columns of a matrix, beyond which more images at once save next to nothing,
 * and take memory. */
enum { MOST_COLUMNS = 4096, COLUMNS = 128 };

struct sw_matrices sw_matrices_of(const struct conv *c, int images)
{
    const int channels = c->c / c->groups;
    struct sw_matrices s = {
        .images = images,
        .m = c->k / c->groups,
        .k = channels * c->kernel_h * c->kernel_w,
        .p = images * c->out_h * c->out_w,
        .shape = {channels, c->h, c->w, c->kernel_h, c->kernel_w, c->stride_h,
                  c->stride_w, c->pad_h, c->pad_w, c->dilation_h, c->dilation_w,
                  c->out_h, c->out_w},
    };
    s.m_full = sw_full(s.m, SW_SIDE);
    s.k_full = sw_full(s.k, SW_SIDE * SW_LANES);
    s.p_full = sw_full(s.p, COLUMNS);
    return s;
}

const char *sw_matrices_cannot(const struct conv *c, int images)
{
    const struct sw_matrices s = sw_matrices_of(c, images);
    if (images < 1 || (c->n && c->n % images))
        return "the number of images at once does not divide them";
    return sw_column_cannot(&s.shape, images);
}

/* --- counts ------------------------------------------------------------- */

static struct sw_product product_of(const struct sw_matrices *s,
                                    enum conv_pass pass)
{
    switch (pass) {
    case CONV_BACKWARD_DATA:
        return (struct sw_product){
            .n = s->k_full, .k = s->m_full, .m = s->p_full};
    case CONV_BACKWARD_WEIGHTS:
        return (struct sw_product){
            .n = s->m_full, .k = s->p_full, .m = s->k_full};
    default:
        return (struct sw_product){
            .n = s->m_full, .k = s->k_full, .m = s->p_full};
    }
}

static void add_product(struct sw_counts *sum, const struct sw_product *p)
{
    const struct sw_counts one = {
        .get_bytes = sw_product_get_bytes(p),
        .put_bytes = sw_product_put_bytes(p),
        .row_messages = sw_product_row_messages(p),
        .column_messages = sw_product_column_messages(p),
        .instructions = sw_times(p->n, p->k, p->m) / SW_LANES,
    };
    sw_counts_add(sum, &one);
}

struct sw_counts sw_matrices_counts(const struct conv *c, enum conv_pass pass,
                                    int images)
{
    const struct sw_matrices s = sw_matrices_of(c, images);
    struct sw_product p = product_of(&s, pass);
    const struct sw_bytes column = pass == CONV_BACKWARD_DATA
                                       ? sw_col2im_bytes(&s.shape)
                                       : sw_im2col_bytes(&s.shape);
    const size_t all = (size_t)c->n * (size_t)c->groups;
    struct sw_counts sum = {.get_bytes = all * column.get,
                            .put_bytes = all * column.put};
    for (int i = 0; i < c->n / images * c->groups; i++) {
        p.adds = pass == CONV_BACKWARD_WEIGHTS && i >= c->groups;
        add_product(&sum, &p);
    }
    return sum;
}

/* --- the choice --------------------------------------------------------- */

static double seconds(const struct conv *c, enum conv_pass pass, int images)
{
    const struct sw_counts counts = sw_matrices_counts(c, pass, images);
    return sw_model(&counts, sw_speed_high).one_by_one;
}

int sw_matrices_images(const struct conv *c, enum conv_pass pass)
{
    const int places = c->out_h * c->out_w;
    int best = 1;
    for (int i = 2; i <= c->n && i * places <= MOST_COLUMNS; i++)
        if (!sw_matrices_cannot(c, i)
            && seconds(c, pass, i) < seconds(c, pass, best))
            best = i;
    return best;
}
