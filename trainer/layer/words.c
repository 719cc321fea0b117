/* SPDX-License-Identifier: MIT */
#include "layer/words.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
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

bool word_real(const char *word, float least, float most, float *to)
{
    char *end = NULL;
    const float x = strtof(word, &end);
    if (end == word || *end || !(x >= least && x <= most))
        return false;
    *to = x;
    return true;
}

enum { STRIDE, PAD, GROUPS, DILATION, NOPTIONS };

/* Those with a number. */
static const struct {
    const char *name;
    int least;
    const char *wrong;
} with_number[NOPTIONS] = {
    [STRIDE] = {"stride",   1,
                "a stride is a whole number from 1, as in stride 2"             },
    [PAD] = {"pad",      0, "a pad is a whole number from 0, as in pad 2"    },
    [GROUPS] = {"groups",   1, "groups is a whole number from 1, as in groups 2"},
    [DILATION] = {"dilation", 1,
                "a dilation is a whole number from 1, as in dilation 2"         },
};

/* Whether a word is one of those in a list with a space before each. */
static bool listed(const char *word, const char *list)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at++)
        if (length && at > list && at[-1] == ' '
            && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static const char *const once = "a layer has each of its options once";

/* Whether an option, words[i], is one of those before it. */
static bool repeated(char **words, int i)
{
    for (int k = 0; k < i; k++)
        if (!strcmp(words[k], words[i]))
            return true;
    return false;
}

static const char *window_words(struct layer *l, const char *options,
                                int nwords, char **words)
{
    struct window_option *o = &l->option.window;
    for (int i = 1; i < nwords; i++) {
        int which = 0, n = 0;
        l->wrong = words[i];
        if (repeated(words + 1, i - 1))
            return once;
        if (!listed(words[i], options) || !strcmp(words[i], "global"))
            return listed("groups", options)
                       ? "after the window comes stride S, pad P, groups G, "
                         "dilation D or nobias"
                       : "after the window comes stride S, pad P or ceil";
        while (which < NOPTIONS && strcmp(words[i], with_number[which].name))
            which++;
        if (which == NOPTIONS) {
            o->ceil |= !strcmp(words[i], "ceil");
            o->no_bias |= !strcmp(words[i], "nobias");
            continue;
        }
        l->wrong = ++i < nwords ? words[i] : NULL;
        if (!l->wrong
            || !word_numbers(words[i], with_number[which].least, 1, &n))
            return with_number[which].wrong;
        if (which == STRIDE)
            o->stride_h = o->stride_w = n;
        else
            *(which == PAD      ? &o->pad
              : which == GROUPS ? &o->groups
                                : &o->dilation) = n;
    }
    return NULL;
}

/* Positions of a window along one side; 0 if it does not fit. Rounded up, the
 * last one still begins inside the image or the padding before it. */
static long long positions(int size, int kernel, int stride, int pad, bool ceil)
{
    const long long room = size + 2LL * pad - kernel;
    if (room < 0)
        return 0;
    const long long n = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    return (n - 1) * stride >= (long long)size + pad ? n - 1 : n;
}

const char *window_parse(struct layer *l, int default_stride,
                         const char *options, int nwords, char **words)
{
    struct window_option *o = &l->option.window;
    int k[2];
    l->wrong = nwords ? words[0] : NULL;
    *o = (struct window_option){.groups = 1, .dilation = 1};
    if (nwords && listed(words[0], options) && !strcmp(words[0], "global")) {
        k[0] = l->in.h;
        k[1] = l->in.w;
    } else if (!nwords || !word_numbers(words[0], 1, 2, k))
        return "a window is rows x columns, as in 5x5";
    o->kernel_h = k[0];
    o->kernel_w = k[1];
    o->stride_h = default_stride ? default_stride : k[0];
    o->stride_w = default_stride ? default_stride : k[1];
    const char *why = window_words(l, options, nwords, words);
    if (why)
        return why;
    l->wrong = words[0];
    if ((k[0] - 1.0) * o->dilation >= INT_MAX / 4
        || (k[1] - 1.0) * o->dilation >= INT_MAX / 4)
        return "the window is larger than the input with its padding";
    const int high = (k[0] - 1) * o->dilation + 1;
    const int wide = (k[1] - 1) * o->dilation + 1;
    if (o->pad >= high || o->pad >= wide)
        return "a pad is smaller than the window";
    const long long h = positions(l->in.h, high, o->stride_h, o->pad, o->ceil),
                    w = positions(l->in.w, wide, o->stride_w, o->pad, o->ceil);
    if (!h || !w)
        return "the window is larger than the input with its padding";
    if (h > INT_MAX || w > INT_MAX)
        return "the output is too large, at most 2147483647 numbers are valid";
    l->out.h = (int)h;
    l->out.w = (int)w;
    return NULL;
}

const char *reals_parse(struct layer *l, const struct real_option *options,
                        const char *valid, int nwords, char **words)
{
    for (int i = 0; i < nwords; i += 2) {
        const struct real_option *o = options;
        while (o->to && strcmp(o->name, words[i]))
            o++;
        l->wrong = words[i];
        if (!o->to)
            return valid;
        if (repeated(words, i))
            return once;
        l->wrong = i + 1 < nwords ? words[i + 1] : NULL;
        if (!l->wrong || !word_real(words[i + 1], o->least, o->most, o->to))
            return valid;
    }
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
