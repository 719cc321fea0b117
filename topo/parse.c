/* SPDX-License-Identifier: MIT */
#include "parse.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/options.h"

bool parse_fail(struct parser *p, const char *place, const char *format, ...)
{
    char sentence[512];
    int line = 1, column = 1;
    if (p->status)
        return false;
    for (const char *c = p->text; c < place; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    p->status = topo_fail(COLL_ERR_INVALID, p->error, p->error_bytes,
                          "%s:%d:%d: %s", p->where, line, column, sentence);
    return false;
}

void parse_space(struct parser *p)
{
    for (;;) {
        p->at += strspn(p->at, " \t\r\n");
        if (*p->at != '#')
            return;
        p->at += strcspn(p->at, "\n");
    }
}

bool parse_char(struct parser *p, char c)
{
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

const char *parse_found(const struct parser *p, char *buffer)
{
    const unsigned char c = (unsigned char)*p->at;
    if (!c)
        return "the end";
    snprintf(buffer, 8, isprint(c) ? "'%c'" : "\\x%02x", c);
    return buffer;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

bool parse_word(struct parser *p, const char *what, struct word *word)
{
    char found[8];
    word->start = p->at;
    if (!isalpha((unsigned char)*p->at))
        return parse_fail(p, p->at, "expected %s, found %s", what,
                          parse_found(p, found));
    while (in_word(*p->at))
        p->at++;
    if (p->at - word->start >= MAX_NAME)
        return parse_fail(p, word->start, "a name longer than %d letters",
                          MAX_NAME - 1);
    word->length = (int)(p->at - word->start);
    return true;
}

bool word_is(const struct word *word, const char *text)
{
    return strlen(text) == (size_t)word->length
           && !strncmp(word->start, text, (size_t)word->length);
}

bool parse_count(struct parser *p, const char *what, int min, int max,
                 int *count)
{
    const char *start = p->at;
    char found[8];
    long long n = 0;
    if (!isdigit((unsigned char)*p->at))
        return parse_fail(p, p->at, "expected %s from %d to %d, found %s", what,
                          min, max, parse_found(p, found));
    for (; isdigit((unsigned char)*p->at); p->at++)
        n = n > MAX_OBJECTS ? n : 10 * n + (*p->at - '0');
    if (n < min || n > max)
        return parse_fail(p, start,
                          "%.*s is outside the valid %s from %d to %d",
                          (int)(p->at - start > 24 ? 24 : p->at - start), start,
                          what, min, max);
    *count = (int)n;
    return true;
}

/* Digits with a point and an exponent. */
static bool parse_real(struct parser *p, const char *what, double *x)
{
    const char *start = p->at, *end = start;
    char digits[40], found[8];
    end += strspn(end, "0123456789");
    if (end > start && *end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    if (end > start && (*end == 'e' || *end == 'E')) {
        const char *power = end + 1 + (end[1] == '-' || end[1] == '+');
        if (isdigit((unsigned char)*power))
            end = power + strspn(power, "0123456789");
    }
    if (end == start)
        return parse_fail(p, start, "expected %s, found %s", what,
                          parse_found(p, found));
    if (end - start >= (int)sizeof(digits))
        return parse_fail(p, start, "a number of more than %d characters",
                          (int)sizeof(digits) - 1);
    memcpy(digits, start, (size_t)(end - start));
    digits[end - start] = '\0';
    /* Whatever locale the program has set. The C locale is a constant. */
    *x = strtod_l(digits, NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0));
    p->at = end;
    return true;
}

struct unit {
    const char *name;
    double scale;
};

/* A number and directly behind it one of the units. */
static bool parse_quantity(struct parser *p, const char *what,
                           const struct unit *units, int nunits, double *x)
{
    const char *start = p->at;
    double number = 0;
    if (!parse_real(p, what, &number))
        return false;
    size_t length = 0;
    while (isalpha((unsigned char)p->at[length]) || p->at[length] == '/')
        length++;
    for (int u = 0; u < nunits; u++) {
        if (strlen(units[u].name) != length
            || strncmp(p->at, units[u].name, length) != 0)
            continue;
        *x = number * units[u].scale;
        if (!isfinite(*x))
            return parse_fail(p, start, "a number too large");
        p->at += length;
        return true;
    }
    return parse_fail(p, p->at, "\"%.*s\" is no unit of %s",
                      (int)(length > 24 ? 24 : length), p->at, what);
}

bool parse_bytes(struct parser *p, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"",    1                 },
        {"B",   1                 },
        {"kB",  1e3               },
        {"KB",  1e3               },
        {"MB",  1e6               },
        {"GB",  1e9               },
        {"TB",  1e12              },
        {"KiB", 1024              },
        {"MiB", 1 << 20           },
        {"GiB", 1 << 30           },
        {"TiB", 1024.0 * (1 << 30)},
    };
    const char *start = p->at;
    double x = 0;
    if (!parse_quantity(p, "a size (64GB, 512KiB)", units,
                        sizeof(units) / sizeof(units[0]), &x))
        return false;
    /* All whole numbers up to here are exact in a double. */
    if (x > 9007199254740992.0)
        return parse_fail(p, start, "a size above 8 PiB");
    *bytes = (uint64_t)x;
    return true;
}

/* The word that may stand behind the bandwidth. */
static bool parse_shared(struct parser *p, coll_topo_link *link)
{
    static const char *const names[] = {"shared"};
    struct word word;
    char name[MAX_NAME];
    if (!isalpha((unsigned char)*p->at))
        return true;
    if (!parse_word(p, "shared", &word))
        return false;
    snprintf(name, sizeof(name), "%.*s", word.length, word.start);
    if (strcmp(name, names[0]) != 0)
        return parse_fail(
            p, word.start,
            "\"%s\" is not valid after the bandwidth%s; valid are shared "
            "and ')'",
            name, nearest_name(name, names, 1) ? ", did you mean shared?" : "");
    link->shared = 1;
    return true;
}

bool parse_link(struct parser *p, coll_topo_link *link)
{
    static const struct unit seconds[] = {
        {"ns", 1e-9},
        {"us", 1e-6},
        {"ms", 1e-3},
        {"s",  1   }
    };
    static const struct unit speeds[] = {
        {"B/s",    1       },
        {"kB/s",   1e3     },
        {"MB/s",   1e6     },
        {"GB/s",   1e9     },
        {"TB/s",   1e12    },
        {"KiB/s",  1024    },
        {"MiB/s",  1 << 20 },
        {"GiB/s",  1 << 30 },
        {"kb/s",   1e3 / 8 },
        {"Mb/s",   1e6 / 8 },
        {"Gb/s",   1e9 / 8 },
        {"Tb/s",   1e12 / 8},
        {"Mbit/s", 1e6 / 8 },
        {"Gbit/s", 1e9 / 8 },
    };
    char found[8];
    parse_space(p);
    if (!parse_quantity(p, "a latency (3us, 200ns)", seconds,
                        sizeof(seconds) / sizeof(seconds[0]),
                        &link->latency_seconds))
        return false;
    parse_space(p);
    const char *start = p->at;
    if (!parse_quantity(p, "a bandwidth (3GB/s, 100Gb/s)", speeds,
                        sizeof(speeds) / sizeof(speeds[0]),
                        &link->bytes_per_second))
        return false;
    if (link->bytes_per_second <= 0)
        return parse_fail(p, start, "the bandwidth must be above 0");
    parse_space(p);
    if (!parse_shared(p, link))
        return false;
    parse_space(p);
    if (!parse_char(p, ')'))
        return parse_fail(p, p->at, "expected ')' after the link, found %s",
                          parse_found(p, found));
    return true;
}
