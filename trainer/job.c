/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <errno.h>
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

/* Where the last file gives each row. */
static struct place {
    const char *option; /* NULL: it does not */
    char *at, *text;    /* text: the value's, if it is one; both live as long
                           as the process, whoever says what again */
    bool again;
} places[MAX_OPTIONS];

static struct place *place_of(const char *option)
{
    struct place *p = places;
    while (p < places + MAX_OPTIONS
           && (!p->option || strcmp(p->option, option)))
        p++;
    return p < places + MAX_OPTIONS ? p : NULL;
}

const char *job_place(const char *option)
{
    const struct place *p = place_of(option);
    return p && !p->again ? p->at : NULL;
}

void job_said_again(const char *option)
{
    struct place *p = place_of(option);
    if (p)
        p->again = true;
}

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

static int remember(const struct job *j, int row, yaml_mark_t at)
{
    const size_t bytes = strlen(j->path) + 48;
    struct place *p = &places[row];
    free(p->at);
    p->at = malloc(bytes);
    if (!p->at)
        return refuse(j, at, "no memory");
    snprintf(p->at, bytes, "%s:%zu:%zu", j->path, at.line + 1, at.column + 1);
    p->option = j->rows[row].name;
    p->again = false;
    return 0;
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

static int set_flag(const struct job *j, const struct option_row *row,
                    const yaml_event_t *value)
{
    const bool yes = !strcmp(text_of(value), "true");
    if (!yes && strcmp(text_of(value), "false"))
        return refuse(j, value->start_mark,
                      "%s: found \"%s\", valid is true or false", row->name,
                      text_of(value));
    *(bool *)row->out = yes;
    return 0;
}

static int set_copy(const struct job *j, int row, const yaml_event_t *value)
{
    char error[2048];
    char *copy = strdup(text_of(value));
    if (!copy)
        return refuse(j, value->start_mark, "no memory");
    const bool set = options_set(&j->rows[row], copy, error, sizeof(error));
    if (set && j->rows[row].kind == OPTION_TEXT)
        places[row].text = copy;
    else
        free(copy);
    return set ? 0
               : refuse(j, value->start_mark, "%s: %s", j->rows[row].name,
                        error);
}

static int set_value(const struct job *j, int i, const yaml_event_t *value)
{
    const struct option_row *row = &j->rows[i];
    if (value->type != YAML_SCALAR_EVENT)
        return refuse(j, value->start_mark,
                      "%s: found a list or a mapping, "
                      "valid is one value",
                      row->name);
    if (row->kind == OPTION_LIST)
        return refuse(j, value->start_mark,
                      "%s: valid only on the command "
                      "line",
                      row->name);
    return row->kind == OPTION_FLAG || row->kind == OPTION_SWITCH
               ? set_flag(j, row, value)
               : set_copy(j, i, value);
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
            failed =
                set_value(j, row, &value) || remember(j, row, value.start_mark);
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
