/* SPDX-License-Identifier: MIT */
#include "net/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer/words.h"
#include "programs/options.h"

enum { MOST_WORDS = 16 };

/* Where reading is, in a copy of the text whose words get cut apart. */
struct reader {
    struct net *net;
    int batch, line, nlines_with_words;
    char *start, *end; /* of the line */
    char *words[MOST_WORDS];
    int nwords;
    char *error;
    size_t error_bytes;
};

/* at: where in the line; NULL: behind its last word. */
__attribute__((format(printf, 3, 4))) static int
fail(struct reader *r, const char *at, const char *format, ...)
{
    va_list args;
    if (!at && r->nwords)
        at = r->words[r->nwords - 1] + strlen(r->words[r->nwords - 1]);
    if (!at)
        at = r->end;
    const int used =
        snprintf(r->error, r->error_bytes, "line %d, column %d: ", r->line,
                 (int)(at - r->start) + 1);
    if (used < 0 || (size_t)used >= r->error_bytes)
        return -1;
    va_start(args, format);
    vsnprintf(r->error + used, r->error_bytes - (size_t)used, format, args);
    va_end(args);
    return -1;
}

static int split(struct reader *r)
{
    char *at = r->start;
    r->nwords = 0;
    for (;;) {
        while (*at && strchr(" \t\r", *at))
            at++;
        if (!*at || *at == '#')
            return 0;
        if (r->nwords == MOST_WORDS)
            return fail(r, at, "too many words, at most %d are valid",
                        MOST_WORDS);
        r->words[r->nwords++] = at;
        while (*at && !strchr(" \t\r#", *at))
            at++;
        const bool comment = *at == '#';
        if (*at)
            *at++ = '\0';
        if (comment)
            return 0;
    }
}

static int read_name(struct reader *r)
{
    if (r->nlines_with_words > 1)
        return fail(r, r->words[0], "a net line may only be the first line");
    if (r->nwords != 2)
        return fail(r, r->nwords > 2 ? r->words[2] : NULL,
                    "net is followed by one name, as in net lenet");
    return 0;
}

static int read_input(struct reader *r)
{
    int sizes[3];
    struct net *net = r->net;
    if (net->input.n)
        return fail(r, r->words[0], "a second input line, one is valid");
    if (r->nwords != 2 || !word_numbers(r->words[1], 1, 3, sizes))
        return fail(r,
                    r->nwords > 2   ? r->words[2]
                    : r->nwords > 1 ? r->words[1]
                                    : NULL,
                    "input is followed by channels x rows x columns, as in "
                    "input 1x28x28");
    if (!floats_fit((double)r->batch * sizes[0] * sizes[1] * sizes[2]))
        return fail(r, r->words[1],
                    "%d images of %s are too large, at most "
                    "2147483647 numbers are valid",
                    r->batch, r->words[1]);
    net->input = (struct shape){r->batch, sizes[0], sizes[1], sizes[2]};
    return 0;
}

/* Offers every name that may start a line. */
static int unknown_layer(struct reader *r)
{
    const char **names = calloc((size_t)nlayers + 2, sizeof(*names));
    char list[512] = "";
    size_t used = 0;
    if (!names)
        return fail(r, r->words[0], "no memory");
    for (int i = 0; i < nlayers; i++)
        names[i] = layers[i]->name;
    names[nlayers] = "input";
    names[nlayers + 1] = "net";
    for (int i = 0; i < nlayers && used < sizeof(list); i++)
        used +=
            (size_t)snprintf(list + used, sizeof(list) - used, " %s", names[i]);
    const char *near = nearest_name(r->words[0], names, nlayers + 2);
    const int failed =
        near ? fail(r, r->words[0],
                    "\"%.40s\" is no layer, did you mean \"%s\"? Valid are:%s",
                    r->words[0], near, list)
             : fail(r, r->words[0], "\"%.40s\" is no layer, valid are:%s",
                    r->words[0], list);
    free(names);
    return failed;
}

static int complain(struct reader *r, const struct layer *l, const char *why)
{
    const struct shape in = l->in;
    if (!l->wrong)
        return fail(r, NULL, "the line ends early: %s (its input is %dx%dx%d)",
                    why, in.c, in.h, in.w);
    return fail(r, l->wrong, "\"%.40s\": %s (its input is %dx%dx%d)", l->wrong,
                why, in.c, in.h, in.w);
}

static int read_layer(struct reader *r)
{
    struct net *net = r->net;
    struct layer *l = &net->layers[net->nlayers];
    l->ops = layer_find(r->words[0]);
    if (!l->ops)
        return unknown_layer(r);
    if (!net->input.n)
        return fail(r, r->words[0],
                    "the input line comes first, as in "
                    "input 1x28x28");
    l->in = net->nlayers ? l[-1].out : net->input;
    if (net->nlayers && l[-1].ops->loss)
        return fail(r, r->words[0], "nothing may follow the loss %s",
                    l[-1].ops->name);
    const char *why = l->ops->parse(l, r->nwords - 1, r->words + 1);
    if (why)
        return complain(r, l, why);
    l->wrong = r->words[0];
    if (!floats_fit((double)l->out.n * l->out.c * l->out.h * l->out.w))
        return complain(r, l,
                        "the output of a batch is too large, at most "
                        "2147483647 numbers are valid");
    if (l->ops->loss && l->out.c < 2)
        return complain(r, l, "a loss needs at least 2 classes");
    l->wrong = NULL;
    net->nlayers++;
    return 0;
}

static int read_line(struct reader *r)
{
    if (split(r))
        return -1;
    if (!r->nwords)
        return 0;
    r->nlines_with_words++;
    if (!strcmp(r->words[0], "net"))
        return read_name(r);
    if (!strcmp(r->words[0], "input"))
        return read_input(r);
    return read_layer(r);
}

/* The text is over: it must have had everything. */
static int read_end(struct reader *r)
{
    struct net *net = r->net;
    const struct layer *last = net->layers + net->nlayers - 1;
    r->nwords = 0;
    if (!net->input.n)
        return fail(r, NULL,
                    "the text ends without an input line, as in "
                    "input 1x28x28");
    if (!net->nlayers || !last->ops->loss)
        return fail(r, NULL,
                    "the text ends without a loss, the last line of a "
                    "net is softmax_loss");
    net->nclasses = last->out.c;
    return 0;
}

static int read_text(struct reader *r, char *text)
{
    for (char *newline = text; newline; text = newline + 1) {
        newline = strchr(text, '\n');
        r->line++;
        r->start = text;
        r->end = newline ? newline : text + strlen(text);
        *r->end = '\0';
        if (read_line(r))
            return -1;
        if (!newline)
            break;
    }
    return read_end(r);
}

int net_parse(struct net *net, const char *text, int batch, char *error,
              size_t error_bytes)
{
    struct reader r = {
        .net = net, .batch = batch, .error = error, .error_bytes = error_bytes};
    size_t nlines = 1;
    for (const char *at = text; *at; at++)
        nlines += *at == '\n';
    char *copy = strdup(text);
    net->layers = calloc(nlines, sizeof(*net->layers));
    int failed = -1;
    if (copy && net->layers)
        failed = read_text(&r, copy);
    else
        snprintf(error, error_bytes, "no memory for %zu lines", nlines);
    free(copy);
    return failed;
}
