/* SPDX-License-Identifier: MIT */
/* Command lines of the project's programs; not installed.
 *
 * A program describes its options in a table; parsing, --help, --version and
 * the errors follow from it. Bad input ends the program with status 2 and one
 * line on stderr: program, option, what was found, what is valid, and the
 * nearest valid name where one is close.
 */
#ifndef PROGRAMS_OPTIONS_H
#define PROGRAMS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum option_kind {
    OPTION_FLAG,   /* bool: no argument */
    OPTION_SWITCH, /* bool: a flag, and the next word may be 0 or 1 */
    OPTION_TEXT,   /* const char * */
    OPTION_INT,    /* long: min..max */
    OPTION_NUMBER, /* double: min..max */
    OPTION_BYTES,  /* size_t: 4K, 64M, 1G; min..max */
    OPTION_LIST,   /* struct option_list: text, may be given repeatedly */
};

struct option_list {
    const char **items; /* the array lives as long as the process */
    int count;
};

struct option_row {
    char letter;      /* 0: none */
    const char *name; /* long name without --; NULL: none */
    const char *arg;  /* what --help calls the argument; NULL for flags, switches */
    enum option_kind kind;
    void *out;        /* bool *, const char **, long *, ... as above */
    double min, max;  /* min == max: any value */
    const char *choices; /* TEXT: "a|b|c" are all that is valid; NULL: any */
    const char *help;
};

struct program {
    const char *name, *usage, *summary; /* usage lines separated by \n */
    const struct option_row *options;
    int noptions;
    const char *epilogue; /* after the options in --help; may be NULL */
    /* Optional: where a file gives an option, "job.yaml:2:11"; NULL: it does
     * not. What is said of "--NAME: " then begins with that place. */
    const char *(*place)(const char *option);
};

/* Parses argv[1..]; operands are moved to argv[1..*noperands] in order, with
 * NULL behind them. --name value, --name=value, -x value, -xvalue and clusters
 * of flags such as -vk are understood; an option given twice counts last. Stops
 * at the first operand if stop_early (for collrun), at "--" always. Handles
 * --help and --version (prints to stdout, exits 0). Exits 2 on bad input. */
void options_parse(const struct program *, int argc, char **argv,
                   int *noperands, bool stop_early);

/* Sets a row that takes a value, but for lists. false: error says what was
 * found and what is valid. Text is kept as it is given, not copied. */
bool options_set(const struct option_row *, const char *value, char *error,
                 size_t error_bytes);

/* A size such as 512, 4K, 64M or 1G. false: it is none. */
bool options_bytes(const char *text, size_t *bytes);

/* Prints one line "name: message" on stderr, whatever the message holds. */
void options_say(const struct program *, const char *message);

/* The same, and ends the program with status 2. */
__attribute__((format(printf, 2, 3), noreturn)) void
options_die(const struct program *, const char *format, ...);

/* The file of an option; path NULL: none. */
struct option_file {
    const char *option, *path;
    enum option_file_use { FILE_WRITTEN, FILE_WATCHED, FILE_READ } use;
};

/* Whether those that are to be written can be, and none is another's too,
 * before any time is spent on what they will hold; false: error says why not,
 * "--json: ...". */
bool options_files_fit(const struct option_file *, int n, char *error,
                       size_t error_bytes);
/* Ends the program as options_die() does unless they do. */
void options_check_files(const struct program *, const struct option_file *,
                         int n);

/* See libcoll/base/nearest.h. */
const char *nearest_name(const char *word, const char *const *names, int count);
/* Writes: found "WORD", valid is A, B, C; did you mean B? */
void say_unknown(char *text, size_t bytes, const char *word,
                 const char *const *names, int count);

#endif
