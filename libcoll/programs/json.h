/* SPDX-License-Identifier: MIT */
/* Writes JSON to a file as it goes; commas and indentation follow by
 * themselves. A key of NULL is for an element of an array. */
#ifndef PROGRAMS_JSON_H
#define PROGRAMS_JSON_H

#include <stdbool.h>
#include <stdio.h>

struct json {
    FILE *file;
    int depth;
    int empty; /* nothing stands in the innermost object or array yet */
};

void json_begin(struct json *, const char *key, char bracket); /* { or [ */
void json_end(struct json *, char bracket);                    /* } or ] */
void json_text(struct json *, const char *key, const char *value);
void json_bool(struct json *, const char *key, bool value);
void json_number(struct json *, const char *key, double value);

#endif
