/* SPDX-License-Identifier: MIT */
/* Command lines from tables: see programs/options.h.
 *
 * getopt_long() is not used because its messages say neither what is valid nor
 * what was meant, and its table cannot carry types, ranges and help texts.
 */
#include "programs/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/whole_file.h"

enum { WIDTH = 80, HELP_COLUMN = 28, MAX_CHOICES = 64 };

/* What every program has besides its table. */
/* clang-format off */
static const struct option_row builtin[] = {
    {.letter = 'h', .name = "help", .help = "show this text and end"},
    {.name = "version", .help = "show the version and end"},
};
/* clang-format on */
enum { NBUILTIN = sizeof(builtin) / sizeof(builtin[0]) };

/* Where a file gives the option that the message begins with, or NULL. */
static const char *place_of(const struct program *p, const char *message)
{
    char name[64];
    const size_t length = strcspn(message, ": ");
    if (!p->place || strncmp(message, "--", 2) || !message[length]
        || length - 2 >= sizeof(name))
        return NULL;
    snprintf(name, sizeof(name), "%.*s", (int)length - 2, message + 2);
    return p->place(name);
}

void options_say(const struct program *p, const char *message)
{
    const char *const place = place_of(p, message);
    flockfile(stderr);
    fprintf(stderr, "%s: ", p->name);
    if (place) {
        fprintf(stderr, "%s: ", place);
        message += 2;
    }
    for (; *message; message++)
        if (iscntrl((unsigned char)*message))
            fprintf(stderr, "\\x%02x", (unsigned char)*message);
        else
            fputc(*message, stderr);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void options_die(const struct program *p, const char *format, ...)
{
    char message[4096];
    va_list args;
    fflush(stdout);
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    options_say(p, message);
    exit(2);
}

static bool is_clash(const struct option_file *f, const struct option_file *of)
{
    return of->path && f != of && (f > of || of->use == FILE_READ)
           && (of->use != FILE_READ || !access(of->path, F_OK))
           && whole_file_same(f->path, of->path);
}

bool options_files_fit(const struct option_file *files, int n, char *error,
                       size_t error_bytes)
{
    char why[512];
    for (const struct option_file *f = files; f < files + n; f++) {
        if (!f->path || f->use == FILE_READ)
            continue;
        if (!(f->use == FILE_WATCHED
                  ? whole_file_watchable
                  : whole_file_possible)(f->path, why, sizeof(why))) {
            snprintf(error, error_bytes, "%s: %s", f->option, why);
            return false;
        }
        for (int k = 0; k < n; k++)
            if (is_clash(f, &files[k])) {
                snprintf(error, error_bytes,
                         "%s: found %s, the file of %s, valid is another one",
                         f->option, f->path, files[k].option);
                return false;
            }
    }
    return true;
}

void options_check_files(const struct program *p,
                         const struct option_file *files, int n)
{
    char error[1024];
    if (!options_files_fit(files, n, error, sizeof(error)))
        options_die(p, "%s", error);
}

/* The table's rows, then the built-in ones. */
static const struct option_row *row_at(const struct program *p, int i)
{
    return i < p->noptions ? &p->options[i] : &builtin[i - p->noptions];
}

static bool letter_taken(const struct program *p, char letter)
{
    for (int i = 0; i < p->noptions; i++)
        if (p->options[i].letter == letter)
            return true;
    return false;
}

/* A table may use -h for itself. */
static char letter_of(const struct program *p, int i)
{
    const char letter = row_at(p, i)->letter;
    return i >= p->noptions && letter_taken(p, letter) ? 0 : letter;
}

/* Prints text from column `at` on, wrapped at spaces, indented to `indent`. */
static void print_wrapped(const char *text, int at, int indent)
{
    bool first = true;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (!first && at + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            at += printf(" ");
        }
        at += printf("%.*s", length, text);
        text += length + (text[length] == ' ');
        first = false;
    }
    putchar('\n');
}

/* "core|none" -> "core, none"; the caller frees. */
static char *list_of_choices(const char *choices)
{
    char *list = malloc(2 * strlen(choices) + 1), *to = list;
    if (!list)
        abort();
    for (; *choices; choices++) {
        if (*choices == '|') {
            *to++ = ',';
            *to++ = ' ';
        } else {
            *to++ = *choices;
        }
    }
    *to = '\0';
    return list;
}

static void print_row(const struct program *p, int i)
{
    const struct option_row *row = row_at(p, i);
    const char letter = letter_of(p, i);
    char text[2048];
    int at = letter ? printf("  -%c", letter) : printf("    ");
    if (row->name)
        at += printf("%s --%s", letter ? "," : " ", row->name);
    if (row->arg)
        at += printf(" %s", row->arg);
    if (at + 2 > HELP_COLUMN) {
        putchar('\n');
        at = 0;
    }
    printf("%*s", HELP_COLUMN - at, "");
    if (row->choices) {
        char *list = list_of_choices(row->choices);
        snprintf(text, sizeof(text), "%s; one of: %s", row->help, list);
        free(list);
    } else {
        snprintf(text, sizeof(text), "%s", row->help);
    }
    print_wrapped(text, HELP_COLUMN, HELP_COLUMN);
}

static void print_usage(const char *usage)
{
    for (const char *lead = "Usage: "; *usage; lead = "       ") {
        const int length = (int)strcspn(usage, "\n");
        printf("%s%.*s\n", lead, length, usage);
        usage += length + (usage[length] == '\n');
    }
}

__attribute__((noreturn)) static void end_shown(const struct program *p)
{
    if (!fflush(stdout) && !ferror(stdout))
        exit(0);
    fprintf(stderr, "%s: cannot write to standard output\n", p->name);
    exit(1);
}

__attribute__((noreturn)) static void show_help(const struct program *p)
{
    print_usage(p->usage);
    printf("\n%s\n\nOptions:\n", p->summary);
    for (int i = 0; i < p->noptions + NBUILTIN; i++)
        print_row(p, i);
    if (p->epilogue)
        printf("\n%s\n", p->epilogue);
    end_shown(p);
}

__attribute__((noreturn)) static void show_version(const struct program *p)
{
    printf("%s (libcoll) %s\n", p->name, COLL_BUILD_VERSION);
    end_shown(p);
}

/* "from 1 to 9", "of at least 1", or "" if the row takes any value. */
static const char *range_of(const struct option_row *row, char *text,
                            size_t size)
{
    text[0] = '\0';
    if (row->min != row->max && row->max >= 9.2e18)
        snprintf(text, size, " of at least %.15g", row->min);
    else if (row->min != row->max)
        snprintf(text, size, " from %.15g to %.15g", row->min, row->max);
    return text;
}

static bool in_range(const struct option_row *row, double x)
{
    return row->min == row->max || (x >= row->min && x <= row->max);
}

static bool bad_value(const struct option_row *row, const char *value,
                      const char *what, char *error, size_t bytes)
{
    char range[80];
    snprintf(error, bytes, "found \"%s\", valid is %s%s", value, what,
             range_of(row, range, sizeof(range)));
    return false;
}

static bool set_int(const struct option_row *row, const char *value,
                    char *error, size_t bytes)
{
    char *end;
    errno = 0;
    const long x = strtol(value, &end, 10);
    if (end == value || *end || errno || !in_range(row, (double)x))
        return bad_value(row, value, "a whole number", error, bytes);
    *(long *)row->out = x;
    return true;
}

static bool set_number(const struct option_row *row, const char *value,
                       char *error, size_t bytes)
{
    char *end;
    const double x = strtod(value, &end);
    if (end == value || *end || !isfinite(x) || !in_range(row, x))
        return bad_value(row, value, "a number", error, bytes);
    *(double *)row->out = x;
    return true;
}

bool options_bytes(const char *text, size_t *bytes)
{
    const char *units = "KMGT", *unit = NULL;
    char *end;
    double x = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
    if (x < 0 || !isfinite(x))
        return false;
    if (*end)
        unit = strchr(units, toupper((unsigned char)*end));
    if (*end && (!unit || end[1]))
        return false;
    for (long i = 0; unit && i <= unit - units; i++)
        x *= 1024;
    if (x != floor(x) || x >= (double)SIZE_MAX)
        return false;
    *bytes = (size_t)x;
    return true;
}

static bool set_bytes(const struct option_row *row, const char *value,
                      char *error, size_t bytes)
{
    size_t x;
    if (!options_bytes(value, &x) || !in_range(row, (double)x))
        return bad_value(row, value,
                         "a size in bytes such as 512, 4K, 64M or 1G", error,
                         bytes);
    *(size_t *)row->out = x;
    return true;
}

/* Splits a copy of "a|b|c" in place. */
static int split_choices(char *copy, const char **names)
{
    int count = 0;
    char *rest;
    for (char *name = strtok_r(copy, "|", &rest); name && count < MAX_CHOICES;
         name = strtok_r(NULL, "|", &rest))
        names[count++] = name;
    return count;
}

static bool set_text(const struct option_row *row, const char *value,
                     char *error, size_t bytes)
{
    const char *names[MAX_CHOICES];
    char *copy = row->choices ? strdup(row->choices) : NULL;
    const int count = copy ? split_choices(copy, names) : 0;
    bool valid = !count;
    for (int i = 0; i < count; i++)
        valid |= !strcmp(names[i], value);
    if (valid)
        *(const char **)row->out = value;
    else
        say_unknown(error, bytes, value, names, count);
    free(copy);
    return valid;
}

bool options_set(const struct option_row *row, const char *value, char *error,
                 size_t bytes)
{
    switch (row->kind) {
    case OPTION_TEXT:
        return set_text(row, value, error, bytes);
    case OPTION_INT:
        return set_int(row, value, error, bytes);
    case OPTION_NUMBER:
        return set_number(row, value, error, bytes);
    case OPTION_BYTES:
        return set_bytes(row, value, error, bytes);
    default:
        return bad_value(row, value, "nothing", error, bytes);
    }
}

static void add_to_list(struct option_list *list, const char *value)
{
    const char **items =
        realloc(list->items, ((size_t)list->count + 1) * sizeof(*items));
    if (!items)
        abort();
    list->items = items;
    list->items[list->count++] = value;
}

static bool is_off(const char *value)
{
    return !strcmp(value, "0");
}

/* What may stand behind a switch. */
static bool is_position(const char *word)
{
    return word && (is_off(word) || !strcmp(word, "1"));
}

/* `spelled` is the option as the user wrote it, without its value. */
static void take(const struct program *p, const struct option_row *row,
                 const char *spelled, const char *value)
{
    char error[2048];
    if (row == &builtin[0])
        show_help(p);
    if (row == &builtin[1])
        show_version(p);
    if (row->kind == OPTION_FLAG || row->kind == OPTION_SWITCH)
        *(bool *)row->out = !value || !is_off(value);
    else if (row->kind == OPTION_LIST)
        add_to_list(row->out, value);
    else if (!options_set(row, value, error, sizeof(error)))
        options_die(p, "%s: %s", spelled, error);
}

__attribute__((noreturn)) static void unknown(const struct program *p,
                                              const char *name)
{
    struct option_list names = {0};
    for (int i = 0; i < p->noptions + NBUILTIN; i++)
        if (row_at(p, i)->name)
            add_to_list(&names, row_at(p, i)->name);
    const char *near = nearest_name(name, names.items, names.count);
    options_die(p,
                "--%s: no such option%s%s%s (%s --help lists the valid ones)",
                name, near ? "; did you mean --" : "", near ? near : "",
                near ? "?" : "", p->name);
}

__attribute__((noreturn)) static void missing(const struct program *p,
                                              const struct option_row *row,
                                              const char *spelled)
{
    options_die(p, "%s: found nothing after it, valid is %s %s", spelled,
                spelled, row->arg ? row->arg : "VALUE");
}

/* --name, --name=value; `next` is the following argument or NULL. Returns how
 * many arguments were used. */
static int parse_long(const struct program *p, char *word, const char *next)
{
    char *equals = strchr(word, '=');
    const struct option_row *row = NULL;
    if (equals)
        *equals = '\0';
    for (int i = 0; i < p->noptions + NBUILTIN && !row; i++)
        if (row_at(p, i)->name && !strcmp(row_at(p, i)->name, word + 2))
            row = row_at(p, i);
    if (!row)
        unknown(p, word + 2);
    if (row->kind == OPTION_FLAG) {
        if (equals)
            options_die(p, "%s: found \"=%s\", valid is %s alone", word,
                        equals + 1, word);
        take(p, row, word, NULL);
        return 1;
    }
    if (row->kind == OPTION_SWITCH) {
        if (equals && !is_position(equals + 1))
            options_die(p, "%s: found \"%s\", valid is 0 or 1", word,
                        equals + 1);
        const bool follows = !equals && is_position(next);
        take(p, row, word, equals ? equals + 1 : follows ? next : NULL);
        return follows ? 2 : 1;
    }
    if (!equals && !next)
        missing(p, row, word);
    take(p, row, word, equals ? equals + 1 : next);
    return equals ? 1 : 2;
}

/* -x value, -xvalue, -abc. Returns how many arguments were used. */
static int parse_letters(const struct program *p, const char *word,
                         const char *next)
{
    for (const char *at = word + 1; *at; at++) {
        const struct option_row *row = NULL;
        const char spelled[] = {'-', *at, '\0'};
        for (int i = 0; i < p->noptions + NBUILTIN && !row; i++)
            if (letter_of(p, i) == *at)
                row = row_at(p, i);
        if (!row)
            options_die(p,
                        "%s%s%s: no such option (%s --help lists the "
                        "valid ones)",
                        spelled, at[1] || at > word + 1 ? " in " : "",
                        at[1] || at > word + 1 ? word : "", p->name);
        if (row->kind == OPTION_FLAG
            || (row->kind == OPTION_SWITCH
                && !is_position(at[1] ? at + 1 : next))) {
            take(p, row, spelled, NULL);
            continue;
        }
        if (!at[1] && !next)
            missing(p, row, spelled);
        take(p, row, spelled, at[1] ? at + 1 : next);
        return at[1] ? 1 : 2;
    }
    return 1;
}

/* What is closed would be given to the next file that is opened, and get what
 * is printed. To write there stays an error. */
static void keep_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

void options_parse(const struct program *p, int argc, char **argv,
                   int *noperands, bool stop_early)
{
    int kept = 0;
    keep_standard_streams();
    bool options = true;
    for (int i = 1; i < argc;) {
        char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (options && !strcmp(word, "--")) {
            options = false;
            i++;
        } else if (options && !strncmp(word, "--", 2)) {
            i += parse_long(p, word, next);
        } else if (options && word[0] == '-' && word[1]) {
            i += parse_letters(p, word, next);
        } else {
            argv[++kept] = word;
            options = options && !stop_early;
            i++;
        }
    }
    if (kept + 1 < argc)
        argv[kept + 1] = NULL;
    *noperands = kept;
}
