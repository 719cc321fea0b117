/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

enum { MAX_OPTIONS = 64 };

struct job {
    const char *path;
    const struct option_row *rows;
    int nrows;
    char *error;
    size_t error_bytes;
    yaml_parser_t parser;
    bool given[MAX_OPTIONS];
};

/* Lines and columns count from 1. */
__attribute__((format(printf, 3, 4))) static int
refuse(const struct job *j, yaml_mark_t at, const char *format, ...)
{
    va_list args;
    const int used = snprintf(j->error, j->error_bytes, "%s:%zu:%zu: ", j->path,
                              at.line + 1, at.column + 1);
    if (used < 0 || (size_t)used >= j->error_bytes)
        return -1;
    va_start(args, format);
    vsnprintf(j->error + used, j->error_bytes - (size_t)used, format, args);
    va_end(args);
    return -1;
}

static int next(struct job *j, yaml_event_t *event)
{
    if (yaml_parser_parse(&j->parser, event))
        return 0;
    return refuse(j, j->parser.problem_mark, "no valid YAML: %s",
                  j->parser.problem ? j->parser.problem : "unreadable");
}

static const char *text_of(const yaml_event_t *event)
{
    return (const char *)event->data.scalar.value;
}

static int find_row(struct job *j, const yaml_event_t *key)
{
    const char *names[MAX_OPTIONS], *word = text_of(key);
    for (int i = 0; i < j->nrows; i++) {
        names[i] = j->rows[i].name;
        if (strcmp(word, names[i]))
            continue;
        if (j->given[i])
            return refuse(j, key->start_mark, "\"%s\" is given twice", word);
        j->given[i] = true;
        return i;
    }
    const char *near = nearest_name(word, names, j->nrows);
    return refuse(j, key->start_mark,
                  "no option is called \"%s\"%s%s%s; "
                  "--help lists the valid ones",
                  word, near ? "; did you mean " : "", near ? near : "",
                  near ? "?" : "");
}

static int bad_value(const struct job *j, const struct option_row *row,
                     const yaml_event_t *value, const char *what)
{
    char range[80] = "";
    if (row->min != row->max && row->max >= 9.2e18)
        snprintf(range, sizeof(range), " of at least %.15g", row->min);
    else if (row->min != row->max)
        snprintf(range, sizeof(range), " from %.15g to %.15g", row->min,
                 row->max);
    return refuse(j, value->start_mark, "%s: found \"%s\", valid is %s%s",
                  row->name, text_of(value), what, range);
}

static bool in_range(const struct option_row *row, double x)
{
    return row->min == row->max || (x >= row->min && x <= row->max);
}

static bool is_choice(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, word, length)
            && (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

static int set_flag(const struct job *j, const struct option_row *row,
                    const yaml_event_t *value)
{
    const bool yes = !strcmp(text_of(value), "true");
    if (!yes && strcmp(text_of(value), "false"))
        return bad_value(j, row, value, "true or false");
    *(bool *)row->out = yes;
    return 0;
}

static int set_number(const struct job *j, const struct option_row *row,
                      const yaml_event_t *value)
{
    const char *text = text_of(value);
    const bool whole = row->kind == OPTION_INT;
    char *end;
    errno = 0;
    const long n = whole ? strtol(text, &end, 10) : 0;
    const double x = whole ? (double)n : strtod(text, &end);
    if (end == text || *end || (whole && errno) || !isfinite(x)
        || !in_range(row, x))
        return bad_value(j, row, value, whole ? "a whole number" : "a number");
    if (whole)
        *(long *)row->out = n;
    else
        *(double *)row->out = x;
    return 0;
}

static int set_bytes(const struct job *j, const struct option_row *row,
                     const yaml_event_t *value)
{
    size_t bytes;
    if (!options_bytes(text_of(value), &bytes) || !in_range(row, (double)bytes))
        return bad_value(j, row, value,
                         "a size in bytes such as 512, 4K, 64M or 1G");
    *(size_t *)row->out = bytes;
    return 0;
}

static int set_text(const struct job *j, const struct option_row *row,
                    const yaml_event_t *value)
{
    if (row->choices && !is_choice(row->choices, text_of(value))) {
        char list[256];
        snprintf(list, sizeof(list), "one of %s", row->choices);
        return bad_value(j, row, value, list);
    }
    char *copy = strdup(text_of(value));
    if (!copy)
        return refuse(j, value->start_mark, "no memory");
    *(const char **)row->out = copy;
    return 0;
}

static int set_value(const struct job *j, const struct option_row *row,
                     const yaml_event_t *value)
{
    if (value->type != YAML_SCALAR_EVENT)
        return refuse(j, value->start_mark,
                      "%s: found a list or a mapping, "
                      "valid is one value",
                      row->name);
    switch (row->kind) {
    case OPTION_FLAG:
        return set_flag(j, row, value);
    case OPTION_INT:
    case OPTION_NUMBER:
        return set_number(j, row, value);
    case OPTION_BYTES:
        return set_bytes(j, row, value);
    case OPTION_TEXT:
        return set_text(j, row, value);
    default:
        return refuse(j, value->start_mark,
                      "%s: valid only on the command "
                      "line",
                      row->name);
    }
}

/* One "name: value"; *done at the end of the mapping. */
static int read_pair(struct job *j, bool *done)
{
    yaml_event_t key, value;
    if (next(j, &key))
        return -1;
    int failed = 0;
    *done = key.type == YAML_MAPPING_END_EVENT;
    if (!*done && key.type != YAML_SCALAR_EVENT) {
        failed = refuse(j, key.start_mark,
                        "found no name, valid is an "
                        "option's name, a colon and a value");
    } else if (!*done) {
        const int row = find_row(j, &key);
        failed = row < 0 || next(j, &value);
        if (!failed) {
            failed = set_value(j, &j->rows[row], &value);
            yaml_event_delete(&value);
        }
    }
    yaml_event_delete(&key);
    return failed;
}

/* Takes one event, which must be of this type. */
static int expect(struct job *j, yaml_event_type_t type)
{
    yaml_event_t event;
    if (next(j, &event))
        return -1;
    const bool fits = event.type == type;
    const yaml_mark_t at = event.start_mark;
    yaml_event_delete(&event);
    return fits ? 0
                : refuse(j, at,
                         "valid is one flat mapping of option names "
                         "to values, such as \"epochs: 2\"");
}

int job_read(const char *path, const struct option_row *rows, int nrows,
             char *error, size_t error_bytes)
{
    static const yaml_event_type_t head[] = {YAML_STREAM_START_EVENT,
                                             YAML_DOCUMENT_START_EVENT,
                                             YAML_MAPPING_START_EVENT};
    static const yaml_event_type_t tail[] = {YAML_DOCUMENT_END_EVENT,
                                             YAML_STREAM_END_EVENT};
    struct job j = {
        path,  rows,        nrows < MAX_OPTIONS ? nrows : MAX_OPTIONS,
        error, error_bytes, .given = {false}};
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &status) || S_ISDIR(status.st_mode)) {
        snprintf(error, error_bytes, "%s: cannot read: %s", path,
                 file ? "it is a folder" : strerror(errno));
        if (file)
            fclose(file);
        return -1;
    }
    bool done = false;
    int failed = !yaml_parser_initialize(&j.parser);
    if (failed) {
        snprintf(error, error_bytes, "%s: no memory", path);
    } else {
        yaml_parser_set_input_file(&j.parser, file);
        for (size_t i = 0; !failed && i < sizeof(head) / sizeof(head[0]); i++)
            failed = expect(&j, head[i]);
        while (!failed && !done)
            failed = read_pair(&j, &done);
        for (size_t i = 0; !failed && i < sizeof(tail) / sizeof(tail[0]); i++)
            failed = expect(&j, tail[i]);
        yaml_parser_delete(&j.parser);
    }
    fclose(file);
    return failed ? -1 : 0;
}
