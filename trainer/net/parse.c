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
    bool head_only; /* not the layers, which choose kernels as they are read */
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
    if (!l->wrong && l->ops->joins)
        return fail(r, NULL, "%s (the first input is %dx%dx%d)", why, in.c,
                    in.h, in.w);
    if (!l->wrong)
        return fail(r, NULL, "the line ends early: %s (its input is %dx%dx%d)",
                    why, in.c, in.h, in.w);
    return fail(r, l->wrong, "\"%.40s\": %s (its input is %dx%dx%d)", l->wrong,
                why, in.c, in.h, in.w);
}

/* The number of the layer of that name, -1 for the images, else -2. */
static int find_layer(const struct net *net, const char *name)
{
    if (!strcmp(name, "input"))
        return -1;
    for (int i = 0; i < net->nlayers; i++)
        if (!strcmp(net->layers[i].name, name))
            return i;
    return -2;
}

static int unknown_name(struct reader *r, char *word)
{
    const struct net *net = r->net;
    const char **names = calloc((size_t)net->nlayers + 1, sizeof(*names));
    int count = 0;
    if (!names)
        return fail(r, word, "no memory");
    for (int i = 0; i < net->nlayers; i++)
        if (*net->layers[i].name)
            names[count++] = net->layers[i].name;
    names[count++] = "input";
    const char *near = nearest_name(word, names, count);
    const int failed =
        near ? fail(r, word,
                    "no line before has the name \"%.40s\", did you mean "
                    "\"%s\"?",
                    word, near)
             : fail(r, word,
                    "no line before has the name \"%.40s\"; a line gets one "
                    "in front, as in \"left: relu\"",
                    word);
    free(names);
    return failed;
}

/* NAME: in front of a line, which is taken off. */
static int read_label(struct reader *r, struct layer *l)
{
    char *word = r->words[0];
    const size_t length = strlen(word);
    if (word[length - 1] != ':')
        return 0;
    if (length == 1 || length > LAYER_NAME)
        return fail(r, word, "a name has 1 to %d letters before its colon",
                    LAYER_NAME - 1);
    for (size_t i = 0; i + 1 < length; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "0123456789_-/",
                    word[i]))
            return fail(r, word + i, "a name has letters, digits, _, - and /");
    memcpy(l->name, word, length - 1);
    if (find_layer(r->net, l->name) != -2) {
        const int at = find_layer(r->net, l->name);
        return at < 0 ? fail(r, word, "input names the images already")
                      : fail(r, word, "line %d has the name \"%s\" already",
                             r->net->layers[at].line, l->name);
    }
    r->nwords--;
    memmove(r->words, r->words + 1, (size_t)r->nwords * sizeof(*r->words));
    if (!r->nwords) {
        r->words[0] = word;
        r->nwords = 1;
        return fail(r, NULL, "after the name comes a layer, as in \"%s: relu\"",
                    l->name);
    }
    return 0;
}

/* from A B ... at the end of a line; else the layer above. own: the words
 * before.
 */
static int read_inputs(struct reader *r, struct layer *l, int *own)
{
    struct net *net = r->net;
    int at = 1;
    l->ninputs = 1;
    l->from[0] = net->nlayers - 1;
    while (at < r->nwords && strcmp(r->words[at], "from"))
        at++;
    if (at < r->nwords) {
        const int count = r->nwords - at - 1;
        if (!count)
            return fail(r, NULL,
                        "from is followed by names of lines, as in "
                        "add from left right");
        if (count > LAYER_INPUTS)
            return fail(r, r->words[at + 1 + LAYER_INPUTS],
                        "too many names, at most %d are valid", LAYER_INPUTS);
        l->ninputs = count;
        for (int i = 0; i < count; i++) {
            l->from[i] = find_layer(net, r->words[at + 1 + i]);
            if (l->from[i] == -2)
                return unknown_name(r, r->words[at + 1 + i]);
            for (int k = 0; k < i; k++)
                if (l->from[k] == l->from[i])
                    return fail(r, r->words[at + 1 + i],
                                "the name is there twice");
        }
    }
    if (l->ops->joins && l->ninputs < 2)
        return fail(r, NULL,
                    "%s needs two inputs or more, as in %s from left "
                    "right",
                    l->ops->name, l->ops->name);
    if (!l->ops->joins && l->ninputs > 1)
        return fail(r, r->words[at + 2], "%s has one input", l->ops->name);
    for (int i = 0; i < l->ninputs; i++)
        l->ins[i] = l->from[i] < 0 ? net->input : net->layers[l->from[i]].out;
    l->in = l->ins[0];
    *own = at;
    return 0;
}

static int read_layer(struct reader *r)
{
    struct net *net = r->net;
    struct layer *l = &net->layers[net->nlayers];
    const int given = r->nwords;
    *l = (struct layer){.line = r->line};
    if (net->input.n && read_label(r, l))
        return -1;
    const bool labelled = r->nwords < given;
    l->ops = layer_find(r->words[0]);
    if (!l->ops)
        return unknown_layer(r);
    if (!net->input.n)
        return fail(r, r->words[0],
                    "the input line comes first, as in "
                    "input 1x28x28");
    if (net->nlayers && l[-1].ops->loss)
        return fail(r, r->words[0], "nothing may follow the loss %s",
                    l[-1].ops->name);
    if (labelled && l->ops->loss)
        return fail(r, r->words[0], "a loss has no name, as nothing reads it");
    int own = 1;
    if (read_inputs(r, l, &own))
        return -1;
    if (!l->ops->joins) /* "the line ends early" means before its from */
        r->nwords = own;
    const char *why = l->ops->parse(l, own - 1, r->words + 1);
    if (why)
        return complain(r, l, why);
    l->wrong = r->words[0];
    if (!floats_fit((double)l->out.n * shape_blocks(l->out) * BLOCK * l->out.h
                    * l->out.w))
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

/* What a line computes must be of use. */
static int all_are_read(struct reader *r)
{
    const struct net *net = r->net;
    for (int i = 0; i + 1 < net->nlayers; i++) {
        int readers = 0;
        for (int j = i + 1; j < net->nlayers; j++)
            for (int k = 0; k < net->layers[j].ninputs; k++)
                readers += net->layers[j].from[k] == i;
        if (!readers) {
            r->line = net->layers[i].line;
            return fail(r, r->start, "nothing reads what this %s gives",
                        net->layers[i].ops->name);
        }
    }
    return 0;
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
    return all_are_read(r);
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
        if (r->head_only && r->net->input.n)
            return 0;
        if (!newline)
            break;
    }
    return read_end(r);
}

static int parse(struct reader *r, const char *text)
{
    size_t nlines = 1;
    for (const char *at = text; *at; at++)
        nlines += *at == '\n';
    char *copy = strdup(text);
    r->net->layers = calloc(nlines, sizeof(*r->net->layers));
    int failed = -1;
    if (copy && r->net->layers)
        failed = read_text(r, copy);
    else
        snprintf(r->error, r->error_bytes, "no memory for %zu lines", nlines);
    free(copy);
    return failed;
}

int net_parse(struct net *net, const char *text, int batch, char *error,
              size_t error_bytes)
{
    struct reader r = {
        .net = net, .batch = batch, .error = error, .error_bytes = error_bytes};
    return parse(&r, text);
}

int net_takes(const char *text, struct shape *shape, char *error,
              size_t error_bytes)
{
    struct net net = {0};
    struct reader r = {.net = &net,
                       .head_only = true,
                       .batch = 1,
                       .error = error,
                       .error_bytes = error_bytes};
    const int failed = parse(&r, text);
    *shape = net.input;
    net_free(&net);
    return failed;
}
