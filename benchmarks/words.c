/* SPDX-License-Identifier: MIT */
#include "words.h"

#include <stdio.h>
#include <string.h>

void words_add(char list[WORDS_BYTES], const char *word)
{
    const size_t used = strlen(list);
    snprintf(list + used, WORDS_BYTES - used, "%s%s", used ? "|" : "", word);
}

static const struct {
    const char *name;
    coll_dtype dtype;
} of_nccl_tests[] = {
    {"int8",     COLL_I8  },
    {"uint8",    COLL_U8  },
    {"int32",    COLL_I32 },
    {"uint32",   COLL_U32 },
    {"int64",    COLL_I64 },
    {"uint64",   COLL_U64 },
    {"half",     COLL_F16 },
    {"float",    COLL_F32 },
    {"double",   COLL_F64 },
    {"bfloat16", COLL_BF16},
};
enum { OF_NCCL_TESTS = sizeof(of_nccl_tests) / sizeof(of_nccl_tests[0]) };

void words_dtypes(char list[WORDS_BYTES])
{
    const char *word;
    for (int i = 0; (word = coll_dtype_name((coll_dtype)i)); i++)
        words_add(list, word);
    for (int i = 0; i < OF_NCCL_TESTS; i++)
        words_add(list, of_nccl_tests[i].name);
}

coll_dtype words_dtype(const char *name)
{
    coll_dtype found = COLL_F32;
    coll_dtype_find(name, &found);
    for (int i = 0; i < OF_NCCL_TESTS; i++)
        if (!strcmp(name, of_nccl_tests[i].name))
            found = of_nccl_tests[i].dtype;
    return found;
}

/* Some options are not for every collective. With all, --in-place leaves the
 * others out; the rest measure more where they can. */
static void check_uses(const struct program *program, struct bench_options *o,
                       const char *word)
{
    const struct {
        bool given;
        const char *option, *valid;
        bool (*fits)(enum collective);
    } uses[] = {
        {o->in_place,    "in-place",    "collectives without send or receive",
         collective_in_place},
        {o->overlap,     "overlap",     "calls that a request can stand for",
         collective_at_once },
        {o->group > 0,   "group",       "calls that a request can stand for",
         collective_at_once },
        {o->determinism, "determinism", "collectives that reduce",
         collective_reduces },
    };
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        for (int c = 0; c < NCOLLECTIVES && uses[i].given; c++) {
            if (uses[i].fits((enum collective)c))
                continue;
            if (strcmp(word, collective_name((enum collective)c)) == 0)
                options_die(program, "--%s: found with %s, valid are %s",
                            uses[i].option, word, uses[i].valid);
            if (o->in_place && i == 0)
                o->collectives[c] = false;
        }
}

void words_collective(const struct program *program, struct bench_options *o,
                      int noperands, char **operands)
{
    const char *known[NCOLLECTIVES + 1];
    char list[WORDS_BYTES] = "";
    const char *const word = noperands > 0 ? operands[0] : "allreduce";
    bool found = false;
    if (noperands > 1)
        options_die(program,
                    "found \"%s\" after \"%s\", valid is one "
                    "collective",
                    operands[1], operands[0]);
    for (int c = 0; c < NCOLLECTIVES; c++) {
        known[c] = collective_name((enum collective)c);
        o->collectives[c] =
            strcmp(word, known[c]) == 0 || strcmp(word, "all") == 0;
        found = found || o->collectives[c];
        words_add(list, known[c]);
    }
    if (found) {
        check_uses(program, o, word);
        return;
    }
    known[NCOLLECTIVES] = "all";
    words_add(list, "all");
    const char *const near = nearest_name(word, known, NCOLLECTIVES + 1);
    options_die(program, "found the collective \"%s\", valid are %s%s%s%s",
                word, list, near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "");
}

/* What is the algorithm of no collective that is measured is a mistake. */
static void check_algorithm(const struct program *program,
                            const struct bench_options *o, const char *name)
{
    const char *of[COLLECTIVE_ALGORITHMS];
    char list[WORDS_BYTES] = "";
    int last = 0;
    for (int c = 0; c < NCOLLECTIVES; c++) {
        if (!o->collectives[c])
            continue;
        if (collective_has_algorithm((enum collective)c, name))
            return;
        last = c;
    }
    /* With more than one of them it has already been looked for in all. */
    const int n = collective_algorithms((enum collective)last, of);
    for (int i = 0; i < n; i++)
        words_add(list, of[i]);
    const char *const near = nearest_name(name, of, n);
    options_die(program, "--algo: found \"%s\", valid for %s are %s%s%s%s",
                name, collective_name((enum collective)last), n ? list : "none",
                near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "");
}

void words_algorithms(const struct program *program,
                      const struct bench_options *o)
{
    const char *const names = o->algorithms;
    if (!names || strcmp(names, "all") == 0)
        return;
    char name[ALGORITHM_BYTES];
    for (const char *at = names; collective_next_name(&at, name);)
        if (strcmp(name, "auto") != 0)
            check_algorithm(program, o, name);
}

static void check_mode(const struct program *program, struct bench_options *o,
                       const char *name)
{
    for (int i = 0; i < BENCH_MODES; i++)
        if (strcmp(name, bench_mode_names[i]) == 0) {
            o->modes[i] = true;
            return;
        }
    const char *const near = nearest_name(name, bench_mode_names, BENCH_MODES);
    options_die(program,
                "--determinism: found \"%s\", valid are off|run|layout|full|all"
                "%s%s%s",
                name, near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "");
}

void words_modes(const struct program *program, struct bench_options *o)
{
    const char *names = o->determinism;
    char name[ALGORITHM_BYTES];
    if (!names)
        return;
    check_mode(program, o, "off");
    if (strcmp(names, "all") == 0)
        names = "run,layout,full";
    for (const char *at = names; collective_next_name(&at, name);)
        check_mode(program, o, name);
    if (o->algorithms)
        options_die(program, "found both --determinism and --algo, valid is "
                             "one: a mode chooses among algorithms");
}
