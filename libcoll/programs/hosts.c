/* SPDX-License-Identifier: MIT */
#include "programs/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where an entry comes from, for error sentences. */
struct place {
    const struct program *program;
    const char *where; /* "--hosts" or the path of the file */
    int line;          /* 0: none */
};

__attribute__((noreturn)) static void
bad_entry(const struct place *place, const char *entry, const char *why)
{
    static const char valid[] = "valid is HOST, HOST:RANKS or [ADDRESS]:RANKS";
    if (place->line)
        options_die(place->program, "%s:%d: found \"%s\", %s; %s", place->where,
                    place->line, entry, why, valid);
    options_die(place->program, "%s: found \"%s\", %s; %s", place->where, entry,
                why, valid);
}

/* A name goes to a remote shell's command line; a leading '-' would be taken
 * for an option of ssh. user@host is ssh's own notation. */
static void check_name(const struct place *place, const char *entry,
                       const char *name)
{
    if (!*name)
        bad_entry(place, entry, "which names no host");
    if (*name == '-')
        bad_entry(place, entry, "which begins with '-'");
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".-_:%@", *c))
            bad_entry(place, entry, "which is no host name");
}

static int find_or_add(struct hosts *hosts, const char *name)
{
    for (int i = 0; i < hosts->count; i++)
        if (!strcmp(hosts->names[i], name))
            return i;
    hosts->names = realloc(hosts->names,
                           ((size_t)hosts->count + 1) * sizeof(*hosts->names));
    if (!hosts->names || !(hosts->names[hosts->count] = strdup(name)))
        abort();
    return hosts->count++;
}

static void add_ranks(struct hosts *hosts, int host, int ranks)
{
    hosts->host_of =
        realloc(hosts->host_of, (size_t)(hosts->nranks + ranks) * sizeof(int));
    if (!hosts->host_of)
        abort();
    for (int i = 0; i < ranks; i++)
        hosts->host_of[hosts->nranks++] = host;
}

static long parse_count(const struct place *place, const char *entry,
                        const char *digits)
{
    char *end;
    errno = 0;
    const long ranks = strtol(digits, &end, 10);
    if (!isdigit((unsigned char)*digits) || *end || errno || ranks < 1
        || ranks > MAX_LOCAL_RANKS)
        bad_entry(place, entry, "whose number of ranks is not from 1 to 4096");
    return ranks;
}

/* entry: "name", "name:2", "[v6]:2". More than one colon and no brackets is
 * an IPv6 address without a count. */
static void add_entry(struct hosts *hosts, const struct place *place,
                      const char *entry)
{
    char *name = strdup(entry), *start = name;
    if (!name)
        abort();
    char *colon = strchr(name, ':');
    const char *digits = NULL;
    if (*name == '[') {
        char *bracket = strchr(name, ']');
        if (!bracket || (bracket[1] && bracket[1] != ':'))
            bad_entry(place, entry, "whose brackets do not match");
        digits = bracket[1] ? bracket + 2 : NULL;
        *bracket = '\0';
        start = name + 1;
    } else if (colon && !strchr(colon + 1, ':')) {
        *colon = '\0';
        digits = colon + 1;
    }
    check_name(place, entry, start);
    const long ranks = digits ? parse_count(place, entry, digits) : 1;
    if (hosts->nranks + ranks > MAX_RANKS || hosts->count == MAX_HOSTS)
        options_die(place->program, "%s: more than %d ranks or %d hosts",
                    place->where, MAX_RANKS, MAX_HOSTS);
    add_ranks(hosts, find_or_add(hosts, start), (int)ranks);
    free(name);
}

/* -n may ask for fewer ranks than there is room for. Hosts that then have no
 * rank are dropped; as ranks fill hosts in order, those are the last ones. */
static void limit(struct hosts *hosts, const struct place *place, int nranks)
{
    if (!hosts->nranks)
        options_die(place->program, "%s: names no host", place->where);
    if (nranks > hosts->nranks)
        options_die(place->program,
                    "-n: found %d, valid is 1 to %d, the ranks that %s has "
                    "room for (HOST:RANKS gives a host more)",
                    nranks, hosts->nranks, place->where);
    if (nranks)
        hosts->nranks = nranks;
    int used = 0;
    for (int r = 0; r < hosts->nranks; r++)
        used = hosts->host_of[r] >= used ? hosts->host_of[r] + 1 : used;
    while (hosts->count > used)
        free(hosts->names[--hosts->count]);
}

struct hosts hosts_from_list(const struct program *program, const char *list,
                             int nranks)
{
    const struct place place = {program, "--hosts", 0};
    struct hosts hosts = {0};
    char *copy = strdup(list), *rest = copy, *entry;
    while (copy && (entry = strsep(&rest, ",")))
        add_entry(&hosts, &place, entry);
    free(copy);
    limit(&hosts, &place, nranks);
    return hosts;
}

/* "a slots=2" -> "a:2", in place; surrounding spaces go. */
static char *normalise(const struct place *place, char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    line += strspn(line, " \t");
    char *space = line + strcspn(line, " \t");
    char *second = space + strspn(space, " \t");
    if (*second) {
        char *end = second + strcspn(second, " \t");
        if (strncmp(second, "slots=", 6) || end[strspn(end, " \t")])
            bad_entry(place, line, "which has more than a host and slots=N");
        if (memchr(line, ':', (size_t)(space - line)) && *line != '[')
            bad_entry(place, line, "which has both ':' and slots=");
        *end = '\0';
        *space = ':';
        memmove(space + 1, second + 6, strlen(second + 6) + 1);
    } else {
        *space = '\0';
    }
    return line;
}

struct hosts hosts_from_file(const struct program *program, const char *path,
                             int nranks)
{
    struct place place = {program, path, 0};
    struct hosts hosts = {0};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        options_die(program, "--hostfile: %s: %s", path, strerror(errno));
    while (getline(&line, &room, file) >= 0) {
        place.line++;
        const char *entry = normalise(&place, line);
        if (*entry)
            add_entry(&hosts, &place, entry);
    }
    if (ferror(file))
        options_die(program, "--hostfile: %s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    place.line = 0;
    limit(&hosts, &place, nranks);
    return hosts;
}

struct hosts hosts_local(int nranks)
{
    struct hosts hosts = {0};
    add_ranks(&hosts, find_or_add(&hosts, "localhost"), nranks);
    return hosts;
}

void hosts_free(struct hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        free(hosts->names[i]);
    free(hosts->names);
    free(hosts->host_of);
    *hosts = (struct hosts){0};
}
