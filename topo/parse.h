/* SPDX-License-Identifier: MIT */
/* Reading the notation: a cursor, its errors, numbers with units.
 *
 * A function that finds something wrong calls parse_fail(), which keeps the
 * first sentence, and everybody returns false up to the top.
 */
#ifndef TOPO_PARSE_H
#define TOPO_PARSE_H

#include "machine.h"

enum {
    MAX_PUS = 4096, /* in a host by hwloc; its time grows with the square */
    MAX_COUNT = 1 << 20,
    MAX_DEPTH = 16, /* of { } */
};

struct parser {
    const char *text, *at; /* all of it, and the next character to read */
    const char *where;     /* stands before line and column in errors */
    char *error;
    size_t error_bytes;
    coll_status status;
};

/* A piece of the text. */
struct word {
    const char *start;
    int length;
};

/* place is in p->text. Always false. */
PRINTF(3, 4)
bool parse_fail(struct parser *p, const char *place, const char *format, ...);

/* Past blanks, newlines and comments (# to the end of the line). */
void parse_space(struct parser *p);

/* Takes the character if it comes next. */
bool parse_char(struct parser *p, char c);

/* A letter, then letters, digits, _ and -; what is for the error: "expected
 * WHAT, found ...". */
bool parse_word(struct parser *p, const char *what, struct word *word);
bool word_is(const struct word *word, const char *text);

/* What comes next, for errors: "'x'" or "the end"; buffer of 8. */
const char *parse_found(const struct parser *p, char *buffer);

/* A whole number in [min, max]; what names it in errors. */
bool parse_count(struct parser *p, const char *what, int min, int max,
                 int *count);

/* "64GB", "512KiB", "100": decimal and binary units of bytes. */
bool parse_bytes(struct parser *p, uint64_t *bytes);

/* "(3us 3GB/s)" or "(3us 3GB/s shared)", after the opening parenthesis. */
bool parse_link(struct parser *p, coll_topo_link *link);

/* A host with one core, for a level without an inside. (cluster.c) */
bool parse_one_core(struct parser *p, coll_topo **host);

/* The inside of a host, up to the end of the text: any form (inside.c), hwloc's
 * synthetic one, and what stands behind "machine:" (synthetic.c). */
bool parse_inside(struct parser *p, coll_topo **host);
bool parse_synthetic(struct parser *p, coll_topo **host);
bool parse_named(struct parser *p, coll_topo **host);

/* Words that begin an inside, for telling them from levels, and which of them
 * is meant: "; did you mean core?", or "". */
extern const char *const inside_words[];
extern const int ninside_words;
bool inside_begins(const struct word *word);
const char *parse_hint(const struct word *word, char *buffer, size_t bytes);

#endif
