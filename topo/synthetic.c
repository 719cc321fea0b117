/* SPDX-License-Identifier: MIT */
/* The inside of a host in hwloc's synthetic form, or by the name of a machine.
 *
 * hwloc says only that it refuses a text, and takes any count, so words and
 * counts are checked here before hwloc sees them.
 */
#include "parse.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "programs/options.h"

/* hwloc's words (in any case), what hwloc is told, and how it calls the size of
 * such an object. */
static const struct {
    const char *word, *hwloc, *size;
} words[] = {
    {"package",  "Package",  NULL    },
    {"socket",   "Package",  NULL    },
    {"numa",     "NUMANode", "memory"},
    {"numanode", "NUMANode", "memory"},
    {"die",      "Die",      NULL    },
    {"group",    "Group",    NULL    },
    {"l5",       "L5Cache",  "size"  },
    {"l5cache",  "L5Cache",  "size"  },
    {"l4",       "L4Cache",  "size"  },
    {"l4cache",  "L4Cache",  "size"  },
    {"l3",       "L3Cache",  "size"  },
    {"l3cache",  "L3Cache",  "size"  },
    {"l2",       "L2Cache",  "size"  },
    {"l2cache",  "L2Cache",  "size"  },
    {"l1",       "L1dCache", "size"  },
    {"l1cache",  "L1dCache", "size"  },
    {"l1d",      "L1dCache", "size"  },
    {"l1dcache", "L1dCache", "size"  },
    {"core",     "Core",     NULL    },
    {"pu",       "PU",       NULL    },
};
enum { NWORDS = sizeof(words) / sizeof(words[0]), MAX_HWLOC_LEVELS = 16 };

const char *const inside_words[] = {"machine", "package", "numa", "group",
                                    "l3",      "l2",      "core", "pu"};
const int ninside_words = sizeof(inside_words) / sizeof(inside_words[0]);

static int find(const struct word *word)
{
    for (int i = 0; i < NWORDS; i++)
        if (strlen(words[i].word) == (size_t)word->length
            && !strncasecmp(words[i].word, word->start, (size_t)word->length))
            return i;
    return -1;
}

bool inside_begins(const struct word *word)
{
    return word_is(word, "machine") || find(word) >= 0;
}

const char *parse_hint(const struct word *word, char *buffer, size_t bytes)
{
    char name[MAX_NAME];
    snprintf(name, sizeof(name), "%.*s", word->length, word->start);
    const char *near = nearest_name(name, inside_words, ninside_words);
    snprintf(buffer, bytes, "%s%s%s", near ? "; did you mean " : "",
             near ? near : "", near ? "?" : "");
    return buffer;
}

/* hwloc's synthetic form, checked and written anew for hwloc. */
struct synthetic {
    char text[4096];
    size_t length;
    int levels, pus; /* so far */
    bool numa, core, pu;
};

PRINTF(3, 4)
static bool append(struct parser *p, struct synthetic *s, const char *format,
                   ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(s->text + s->length, sizeof(s->text) - s->length,
                            format, args);
    va_end(args);
    s->length += (size_t)n;
    return s->length < sizeof(s->text)
           || parse_fail(p, p->at,
                         "the inside of a node is longer than %d "
                         "characters",
                         (int)sizeof(s->text) - 1);
}

/* hwloc's list of indices: numbers, or the words of levels. */
static bool parse_indexes(struct parser *p, struct synthetic *s)
{
    const char *start = p->at;
    while (isalnum((unsigned char)*p->at) || (*p->at && strchr(",:*", *p->at)))
        p->at++;
    if (p->at == start)
        return parse_fail(p, start, "expected a list of indices");
    return append(p, s, "%.*s", (int)(p->at - start), start);
}

/* In bytes, as hwloc's own units differ between its versions. */
static bool parse_size(struct parser *p, struct synthetic *s)
{
    uint64_t bytes;
    return parse_bytes(p, &bytes)
           && append(p, s, "%llu", (unsigned long long)bytes);
}

static bool parse_attribute(struct parser *p, struct synthetic *s,
                            const struct word *name)
{
    char found[8];
    const bool indexes = word_is(name, "indexes");
    if (!indexes && !word_is(name, "size") && !word_is(name, "memory"))
        return parse_fail(p, name->start,
                          "\"%.*s\" is none of size, memory and "
                          "indexes",
                          name->length, name->start);
    if (!parse_char(p, '='))
        return parse_fail(p, p->at, "expected '=', found %s",
                          parse_found(p, found));
    return append(p, s, "%.*s=", name->length, name->start)
           && (indexes ? parse_indexes(p, s) : parse_size(p, s))
           && append(p, s, " ");
}

/* "(size=32MB indexes=0,2,1)", where there is one. hwloc makes up a `size` (or
 * `memory`) that is not stated, or is 0; it then gets 1, for "unknown". */
static bool parse_attributes(struct parser *p, struct synthetic *s,
                             const char *size)
{
    struct word name;
    if (!append(p, s, "("))
        return false;
    if (parse_char(p, '('))
        for (parse_space(p); !parse_char(p, ')'); parse_space(p)) {
            if (!parse_word(p, "size=, memory=, indexes= or ')'", &name)
                || !parse_attribute(p, s, &name))
                return false;
            if (size && word_is(&name, size))
                size = NULL;
        }
    if (size && !append(p, s, "%s=1 ", size))
        return false;
    s->text[s->length - 1] = s->text[s->length - 1] == '(' ? ' ' : ')';
    return true;
}

/* "[numa(memory=8GB)]" */
static bool parse_attached(struct parser *p, struct synthetic *s)
{
    struct word word;
    char found[8];
    parse_space(p);
    if (!parse_word(p, "numa", &word))
        return false;
    const int kind = find(&word);
    if (kind < 0 || strcmp(words[kind].hwloc, "NUMANode") != 0)
        return parse_fail(p, word.start, "only numa can stand in brackets");
    if (!append(p, s, "[NUMANode") || !parse_attributes(p, s, "memory"))
        return false;
    s->numa = true;
    parse_space(p);
    if (!parse_char(p, ']'))
        return parse_fail(p, p->at, "expected ']', found %s",
                          parse_found(p, found));
    return append(p, s, "] ");
}

/* hwloc 2.9 drops a second level of a type, and leaks; groups may repeat. */
static bool already_there(const struct synthetic *s, const char *type)
{
    char level[16];
    snprintf(level, sizeof(level), " %s:", type);
    return strcmp(type, "Group") != 0 && strstr(s->text, level);
}

static bool parse_synthetic_level(struct parser *p, struct synthetic *s)
{
    struct word word;
    char buffer[64];
    int count;
    if (!parse_word(p, "a part of a machine (package, numa, core, ...)", &word))
        return false;
    const int kind = find(&word);
    if (kind < 0)
        return parse_fail(p, word.start, "\"%.*s\" is no part of a machine%s",
                          word.length, word.start,
                          parse_hint(&word, buffer, sizeof(buffer)));
    if (s->pu)
        return parse_fail(p, word.start, "nothing is inside a pu");
    if (already_there(s, words[kind].hwloc))
        return parse_fail(p, word.start, "%.*s inside %.*s", word.length,
                          word.start, word.length, word.start);
    if (s->core && strcmp(words[kind].hwloc, "PU") != 0)
        return parse_fail(p, word.start, "only pu can be inside a core");
    if (++s->levels > MAX_HWLOC_LEVELS)
        return parse_fail(p, word.start, "more than %d levels in a node",
                          MAX_HWLOC_LEVELS);
    if (!parse_char(p, ':'))
        return parse_fail(p, p->at, "expected ':' and a count after %.*s",
                          word.length, word.start);
    const char *number = p->at;
    if (!parse_count(p, "count", 1, MAX_PUS, &count))
        return false;
    if (count > MAX_PUS / s->pus)
        return parse_fail(p, number, "more than %d PUs in a node", MAX_PUS);
    s->pus *= count;
    s->numa |= !strcmp(words[kind].hwloc, "NUMANode");
    s->core |= !strcmp(words[kind].hwloc, "Core");
    s->pu |= !strcmp(words[kind].hwloc, "PU");
    return append(p, s, "%s:%d", words[kind].hwloc, count)
           && parse_attributes(p, s, words[kind].size) && append(p, s, " ");
}

bool parse_synthetic(struct parser *p, coll_topo **host)
{
    static const char memory[] = "[NUMANode(memory=1)] ";
    struct synthetic s = {.pus = 1, .length = sizeof(memory) - 1};
    const char *start = p->at;
    char sentence[256];
    memcpy(s.text, memory, sizeof(memory));
    for (; *p->at; parse_space(p))
        if (parse_char(p, '[') ? !parse_attached(p, &s)
                               : !parse_synthetic_level(p, &s))
            return false;
    if (!append(p, &s, "%s%s", s.core || s.pu ? "" : "Core:1 ",
                s.pu ? "" : "PU:1"))
        return false;
    const char *text = s.numa ? s.text + sizeof(memory) - 1 : s.text;
    if (machine_from_synthetic(host, text, sentence, sizeof(sentence)))
        return parse_fail(p, start, "%s: %s", sentence, text);
    if ((*host)->counts[COLL_TOPO_PU] != s.pus) {
        coll_topo_free(*host);
        *host = NULL;
        return parse_fail(p, start, "indexes that are not each another one");
    }
    for (int i = 0; i < (*host)->nobjects; i++)
        if ((*host)->objects[i].bytes == 1)
            (*host)->objects[i].bytes = 0;
    return true;
}

#define MACHINE(name, text, source) {#name, text, source},
static const coll_topo_machine machines[] = {
#include "machines.def"
};
#undef MACHINE
#define MACHINE(name, text, source) #name,
static const char *const machine_names[] = {
#include "machines.def"
};
#undef MACHINE
enum { NMACHINES = sizeof(machines) / sizeof(machines[0]) };

int coll_topo_machine_get(int i, coll_topo_machine *machine)
{
    if (i < 0 || i >= NMACHINES)
        return 0;
    *machine = machines[i];
    return 1;
}

static bool unknown_machine(struct parser *p, const char *place,
                            const char *name)
{
    char list[256] = "";
    const char *near = nearest_name(name, machine_names, NMACHINES);
    for (int i = 0; i < NMACHINES; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                 i ? ", " : "", machine_names[i]);
    return parse_fail(p, place,
                      "\"%s\" is no machine%s%s%s; valid are %s and "
                      "the path of an .xml file",
                      name, near ? ", did you mean " : "", near ? near : "",
                      near ? "?" : "", list);
}

static bool load_xml(struct parser *p, const char *place, const char *path,
                     coll_topo **host)
{
    char sentence[256];
    FILE *file = fopen(path, "re");
    if (!file)
        return parse_fail(p, place, "cannot read %s", path);
    fclose(file);
    const coll_status status =
        machine_from_xml(host, path, sentence, sizeof(sentence));
    return !status || parse_fail(p, place, "%s: %s", path, sentence);
}

bool parse_named(struct parser *p, coll_topo **host)
{
    const char *start = p->at;
    char name[1024], found[8];
    const size_t length = strcspn(p->at, " \t\r\n#");
    if (!length)
        return parse_fail(p, p->at, "expected the name of a machine, found %s",
                          parse_found(p, found));
    if (length >= sizeof(name))
        return parse_fail(p, p->at, "a path longer than %d characters",
                          (int)sizeof(name) - 1);
    memcpy(name, p->at, length);
    name[length] = '\0';
    p->at += length;
    parse_space(p);
    if (*p->at)
        return parse_fail(p, p->at, "nothing may follow the machine, found %s",
                          parse_found(p, found));
    for (int i = 0; i < NMACHINES; i++) {
        struct parser row = {.text = machines[i].text,
                             .at = machines[i].text,
                             .where = machines[i].name,
                             .error = p->error,
                             .error_bytes = p->error_bytes};
        if (strcmp(machines[i].name, name) != 0)
            continue;
        parse_synthetic(&row, host);
        p->status = row.status;
        return !p->status;
    }
    if (length > 4 && !strcmp(name + length - 4, ".xml"))
        return load_xml(p, start, name, host);
    return unknown_machine(p, start, name);
}
