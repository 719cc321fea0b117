/* SPDX-License-Identifier: MIT */
#include "layer/pool.h"

#include "layer/words.h"

static int clamp(long long x, int max)
{
    return x < 0 ? 0 : x > max ? max : (int)x;
}

struct window pool_window(const struct layer *l, int row, int column)
{
    const long long top = (long long)row * l->option.window.stride_h
                          - l->option.window.pad,
                    left = (long long)column * l->option.window.stride_w
                           - l->option.window.pad;
    return (struct window){
        .top = clamp(top, l->in.h),
        .bottom = clamp(top + l->option.window.kernel_h, l->in.h),
        .left = clamp(left, l->in.w),
        .right = clamp(left + l->option.window.kernel_w, l->in.w),
    };
}

const char *pool_parse(struct layer *l, int nwords, char **words)
{
    l->out = l->in;
    return window_parse(l, 0, " global stride pad ceil", nwords, words);
}
