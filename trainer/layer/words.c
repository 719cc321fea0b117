/* SPDX-License-Identifier: MIT */
#include "layer/words.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "random.h"

bool word_numbers(const char *word, int least, int count, int *numbers)
{
    for (int i = 0; i < count; i++) {
        long long n = 0;
        if (i && *word++ != 'x')
            return false;
        if (*word < '0' || *word > '9')
            return false;
        for (; *word >= '0' && *word <= '9'; word++) {
            n = 10 * n + (*word - '0');
            if (n > INT_MAX)
                return false;
        }
        if (n < least)
            return false;
        numbers[i] = (int)n;
    }
    return !*word;
}

bool floats_fit(double count)
{
    return count <= INT_MAX;
}

static const char *window_words(struct layer *l, int nwords, char **words)
{
    for (int i = 1; i < nwords; i += 2) {
        const bool stride = !strcmp(words[i], "stride");
        int n;
        l->wrong = words[i];
        if (!stride && strcmp(words[i], "pad"))
            return "after the window comes stride S or pad P";
        l->wrong = i + 1 < nwords ? words[i + 1] : NULL;
        if (!l->wrong || !word_numbers(words[i + 1], stride, 1, &n))
            return stride ? "a stride is a whole number from 1, as in stride 2"
                          : "a pad is a whole number from 0, as in pad 2";
        if (stride)
            l->option.window.stride_h = l->option.window.stride_w = n;
        else
            l->option.window.pad = n;
    }
    return NULL;
}

/* Positions of a window along one side; 0 if it does not fit. */
static long long positions(int size, int kernel, int stride, int pad)
{
    const long long room = size + 2LL * pad - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

const char *window_parse(struct layer *l, int default_stride, int nwords,
                         char **words)
{
    int k[2];
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 2, k))
        return "a window is rows x columns, as in 5x5";
    l->option.window.kernel_h = k[0];
    l->option.window.kernel_w = k[1];
    l->option.window.stride_h = default_stride ? default_stride : k[0];
    l->option.window.stride_w = default_stride ? default_stride : k[1];
    l->option.window.pad = 0;
    const char *why = window_words(l, nwords, words);
    if (why)
        return why;
    const int pad = l->option.window.pad;
    l->wrong = words[0];
    if (pad >= k[0] || pad >= k[1])
        return "a pad is smaller than the window";
    const long long h = positions(l->in.h, k[0], l->option.window.stride_h,
                                  pad),
                    w = positions(l->in.w, k[1], l->option.window.stride_w,
                                  pad);
    if (!h || !w)
        return "the window is larger than the input with its padding";
    if (h > INT_MAX || w > INT_MAX)
        return "the output is too large, at most 2147483647 numbers are valid";
    l->out.h = (int)h;
    l->out.w = (int)w;
    return NULL;
}

const char *plain_parse(struct layer *l, int nwords, char **words)
{
    l->wrong = nwords ? words[0] : NULL;
    if (nwords)
        return "this layer has no options";
    l->out = l->in;
    return NULL;
}

void fan_in_init(const struct layer *l, float *weights, size_t count,
                 size_t fan_in, uint64_t seed)
{
    const double gain = l->before_relu ? 2 : 1;
    const float bound = (float)sqrt(3 * gain / (double)fan_in);
    for (size_t i = 0; i < count; i++)
        weights[i] = bound * (2 * random_unit(seed, i) - 1);
}
