/* SPDX-License-Identifier: MIT */
#include "hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HOST_NAME = 256, MAX_DIGITS = 9, MAX_BRACKETS = 8 };

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

static bool add(struct parser *p, struct hostlist *list, const char *place,
                const char *name)
{
    if (list->count == MAX_HOST_NAMES)
        return parse_fail(p, place, "more than %d names", MAX_HOST_NAMES);
    if (list->count == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 64;
        void *more =
            realloc(list->names, (size_t)capacity * sizeof(list->names[0]));
        if (!more)
            return parse_fail(p, place, "no memory for %d names", capacity);
        list->names = more;
        list->capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy)
        return parse_fail(p, place, "no memory for a name");
    list->names[list->count++] = (struct host_name){copy, place};
    return true;
}

/* The number at p->at, and how many digits it has. */
static bool parse_number(struct parser *p, long *number, int *width)
{
    const char *start = p->at;
    char found[8];
    *number = 0;
    for (; isdigit((unsigned char)*p->at) && p->at - start <= MAX_DIGITS;
         p->at++)
        *number = 10 * *number + (*p->at - '0');
    *width = (int)(p->at - start);
    if (*width > MAX_DIGITS)
        return parse_fail(p, start, "a number of more than %d digits",
                          MAX_DIGITS);
    return *width
           || parse_fail(p, start, "expected a number, found %s",
                         parse_found(p, found));
}

/* One name in the making, and the expression that it comes from. */
struct making {
    struct hostlist *list;
    const char *place, *end; /* of the expression in the text */
    char name[MAX_HOST_NAME + 16];
    int length, brackets;
};

static bool expand(struct parser *p, struct making *m);

/* "3" or "00-17" inside a bracket whose end is `behind`; what follows the
 * bracket is read for each number. */
static bool expand_range(struct parser *p, struct making *m, const char *behind)
{
    const char *start = p->at;
    const int length = m->length;
    long first, last;
    int width, unused;
    if (!parse_number(p, &first, &width))
        return false;
    last = first;
    if (parse_char(p, '-') && !parse_number(p, &last, &unused))
        return false;
    if (last < first)
        return parse_fail(p, start, "the range %ld-%ld goes backwards", first,
                          last);
    if (last - first >= MAX_HOST_NAMES)
        return parse_fail(p, start, "more than %d names", MAX_HOST_NAMES);
    const char *after = p->at;
    for (long number = first; number <= last; number++) {
        m->length = length
                    + snprintf(m->name + length, MAX_DIGITS + 2, "%0*ld", width,
                               number);
        p->at = behind;
        if (!expand(p, m))
            return false;
        m->end = p->at;
    }
    m->length = length;
    p->at = after;
    return true;
}

/* After '['. Reads on to where the whole expression ends. */
static bool expand_bracket(struct parser *p, struct making *m)
{
    const char *start = p->at - 1, *end = start + strcspn(start, "] \t\r\n");
    char found[8];
    if (*end != ']')
        return parse_fail(p, start, "this [ has no ]");
    if (++m->brackets > MAX_BRACKETS)
        return parse_fail(p, start, "more than %d brackets in a name",
                          MAX_BRACKETS);
    do
        if (!expand_range(p, m, end + 1))
            return false;
    while (parse_char(p, ','));
    m->brackets--;
    if (p->at != end)
        return parse_fail(p, p->at, "expected ',' or ']', found %s",
                          parse_found(p, found));
    p->at = m->end;
    return true;
}

/* The rest of one name; adds each that it can be. */
static bool expand(struct parser *p, struct making *m)
{
    const int length = m->length;
    bool ok;
    for (; in_name(*p->at); p->at++) {
        if (m->length == MAX_HOST_NAME)
            return parse_fail(p, m->place, "a name of more than %d characters",
                              MAX_HOST_NAME - 1);
        m->name[m->length++] = *p->at;
    }
    if (m->length >= MAX_HOST_NAME)
        return parse_fail(p, m->place, "a name of more than %d characters",
                          MAX_HOST_NAME - 1);
    m->name[m->length] = '\0';
    if (parse_char(p, '['))
        ok = expand_bracket(p, m);
    else
        ok = add(p, m->list, m->place, m->name);
    m->length = length;
    return ok;
}

bool hostlist_parse(struct parser *p, struct hostlist *list)
{
    char found[8];
    do {
        struct making m = {.list = list, .place = p->at};
        if (!in_name(*p->at) && *p->at != '[')
            return parse_fail(p, p->at, "expected a name, found %s",
                              parse_found(p, found));
        if (!expand(p, &m))
            return false;
    } while (parse_char(p, ','));
    if (*p->at && !strchr(" \t\r\n#", *p->at))
        return parse_fail(p, p->at,
                          "expected ',' or a blank after a name, found %s",
                          parse_found(p, found));
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct host_entry *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

struct host_entry *hostlist_sort(const struct hostlist *list)
{
    struct host_entry *sorted =
        malloc(((size_t)list->count + 1) * sizeof(*sorted));
    for (int i = 0; sorted && i < list->count; i++)
        sorted[i] = (struct host_entry){list->names[i].text, i};
    if (sorted)
        qsort(sorted, (size_t)list->count, sizeof(*sorted), by_name);
    return sorted;
}

int hostlist_find(const struct host_entry sorted[], int count, const char *name)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(sorted[middle].text, name);
        if (!order)
            return sorted[middle].index;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

void hostlist_free(struct hostlist *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->names[i].text);
    free(list->names);
    *list = (struct hostlist){.names = NULL};
}
