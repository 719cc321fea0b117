/* SPDX-License-Identifier: MIT */
#include "programs/json.h"

static void put_string(struct json *j, const char *s)
{
    putc('"', j->file);
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(j->file, "\\%c", c);
        else if (c < ' ')
            fprintf(j->file, "\\u%04x", c);
        else
            putc(c, j->file);
    }
    putc('"', j->file);
}

/* A comma, a new line, and the key. */
static void begin_value(struct json *j, const char *key)
{
    if (j->depth > 0)
        fprintf(j->file, "%s\n%*s", j->empty ? "" : ",", 2 * j->depth, "");
    j->empty = 0;
    if (key) {
        put_string(j, key);
        fputs(": ", j->file);
    }
}

void json_begin(struct json *j, const char *key, char bracket)
{
    begin_value(j, key);
    putc(bracket, j->file);
    j->depth++;
    j->empty = 1;
}

void json_end(struct json *j, char bracket)
{
    j->depth--;
    if (!j->empty)
        fprintf(j->file, "\n%*s", 2 * j->depth, "");
    putc(bracket, j->file);
    j->empty = 0;
    if (j->depth == 0)
        putc('\n', j->file);
}

void json_text(struct json *j, const char *key, const char *value)
{
    begin_value(j, key);
    put_string(j, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", j->file);
}

void json_number(struct json *j, const char *key, double value)
{
    begin_value(j, key);
    fprintf(j->file, "%.15g", value);
}
