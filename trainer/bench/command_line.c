/* SPDX-License-Identifier: MIT */
#include "bench/command_line.h"

#include <stdio.h>
#include <string.h>

#include "kernel_choice.h"
#include "kernels/sw/sw_conv.h"

/* A word that an option takes. */
struct choice {
    const char *name;
    const struct conv_method *method; /* kernels; NULL: the trainer's choice */
    const char *isa;                  /* kernels: the only one it goes with */
    enum sw_way way;                  /* of the Sunway's */
};

/* clang-format off */
static const struct choice kernels[] = {
    {.name = "auto"},
    {.name = "measured"},
    {.name = "gemm", .method = &conv_gemm},
    {.name = "direct", .method = &conv_direct},
    {.name = "winograd", .method = &conv_winograd},
    {.name = "strassen", .method = &conv_strassen},
    {.name = "tile",
     .method = &conv_tile_sw,
     .isa = "scalar",
     .way = SW_BY_MODEL},
    {.name = "tile_explicit",
     .method = &conv_tile_sw,
     .isa = "scalar",
     .way = SW_EXPLICIT},
    {.name = "tile_implicit",
     .method = &conv_tile_sw,
     .isa = "scalar",
     .way = SW_IMPLICIT},
    {.name = "tile_winograd",
     .method = &conv_tile_sw,
     .isa = "scalar",
     .way = SW_WINOGRAD},
    {.name = "scalar", .method = &conv_direct, .isa = "scalar"},
    {0},
};
static const struct choice isas[] = {
    {.name = "auto"},
    {.name = "avx512"},
    {.name = "amx"}, /* avx512, where it has AMX for bf16 */
    {.name = "avx2"},
    {.name = "neon"},
    {.name = "scalar"},
    {0},
};
static const struct choice dtypes[] = {
    {.name = "f32"},
    {.name = "bf16"},
    {0},
};
static const struct choice passes[] = {
    [CONV_FORWARD] = {.name = "fwd"},
    [CONV_BACKWARD_DATA] = {.name = "bwd_data"},
    [CONV_BACKWARD_WEIGHTS] = {.name = "bwd_weights"},
    [CONV_PASSES] = {.name = "all"},
    {0},
};
/* clang-format on */

enum { HELP_BYTES = 256, MOST_CHOICES = 16 };

static struct bench_options o = {
    .net = "vgg16", .batch = 16, .threads = 1, .seconds = 0.5, .dtype = "f32"};
static const char *kernel = "auto", *isa = "auto", *pass = "all";
static char kernel_help[HELP_BYTES], isa_help[HELP_BYTES];
static char dtype_help[HELP_BYTES], pass_help[HELP_BYTES];

/* clang-format off */
static const struct option_row rows[] = {
    {0, "net", "NAME|FILE", OPTION_TEXT, &o.net, 0, 0, NULL,
     "net whose convolutions to measure: a built-in name (default vgg16) or a "
     "file"},
    {0, "batch", "N", OPTION_INT, &o.batch, 1, 1 << 20, NULL,
     "images at a time (default 16)"},
    {0, "kernel", "NAME", OPTION_TEXT, &kernel, 0, 0, NULL, kernel_help},
    {0, "isa", "NAME", OPTION_TEXT, &isa, 0, 0, NULL, isa_help},
    {0, "pass", "NAME", OPTION_TEXT, &pass, 0, 0, NULL, pass_help},
    {0, "threads", "N", OPTION_INT, &o.threads, 1, 1024, NULL,
     "threads, which share out the images (default 1)"},
    {0, "dtype", "NAME", OPTION_TEXT, &o.dtype, 0, 0, NULL, dtype_help},
    {0, "iterations", "N", OPTION_INT, &o.iterations, 1, 1000, NULL,
     "runs of each row after one that does not count (default: as many as "
     "--seconds allows, at least 3)"},
    {0, "seconds", "S", OPTION_NUMBER, &o.seconds, 0, 1e6, NULL,
     "time for the runs of each row (default 0.5)"},
    {0, "cold", NULL, OPTION_FLAG, &o.cold, 0, 0, NULL,
     "go through other memory before each run, as other layers do in a step"},
    {0, "check", NULL, OPTION_FLAG, &o.check, 0, 0, NULL,
     "only compare results with the definition"},
    {0, "list", NULL, OPTION_FLAG, &o.list, 0, 0, NULL,
     "only show the shapes, and which kernels would run"},
    {0, "json", "FILE", OPTION_TEXT, &o.json, 0, 0, NULL,
     "write the results as JSON"},
    {0, "plot", "FILE", OPTION_TEXT, &o.plot, 0, 0, NULL,
     "draw GFLOP/s as bars, and the peak (PNG)"},
};
/* clang-format on */

const struct program conv_bench_program = {
    .name = "conv_bench",
    .usage = "conv_bench [options]",
    .summary =
        "Measures the convolutions of a net, each distinct shape once, on one "
        "core or\nseveral; says what these could do, and how far results are "
        "from the definition.",
    .options = rows,
    .noptions = sizeof(rows) / sizeof(rows[0]),
    .epilogue =
        "Example:\n  conv_bench --net vgg16 --batch 16 --json vgg16.json",
};

const char *pass_name(enum conv_pass p)
{
    return passes[p].name;
}

/* Adds a word to a list such as "a, b". */
static void add_word(char *list, size_t bytes, const char *word)
{
    const size_t used = strlen(list);
    snprintf(list + used, bytes - used, "%s%s", used ? ", " : "", word);
}

/* The tables are what --help and the completions show. */
static void explain(char *help, const char *what, const struct choice *of)
{
    char list[HELP_BYTES] = "";
    for (; of->name; of++)
        add_word(list, sizeof(list), of->name);
    snprintf(help, HELP_BYTES, "%s; one of: %s", what, list);
}

/* What is in the way of a choice; NULL: nothing. */
static const char *obstacle(const struct choice *c)
{
    if (!strcmp(c->name, "amx"))
        return conv_use("avx512") && !strcmp(conv_bf16_isa(), "amx")
                   ? NULL
                   : "this processor or build does not have it";
    const bool is_isa = c >= isas && c < isas + sizeof(isas) / sizeof(isas[0]);
    return is_isa && strcmp(c->name, "auto") && !conv_use(c->name)
               ? "this processor or build does not have it"
               : NULL;
}

static const struct choice *choose(const char *option, const char *word,
                                   const struct choice *of)
{
    const char *valid[MOST_CHOICES], *why = NULL;
    char list[HELP_BYTES] = "";
    int count = 0;
    for (; of->name; of++) {
        const bool meant = !strcmp(of->name, word);
        if (meant)
            why = obstacle(of);
        if (meant && !why)
            return of;
        if (obstacle(of))
            continue;
        valid[count++] = of->name;
        add_word(list, sizeof(list), of->name);
    }
    if (why)
        options_die(&conv_bench_program,
                    "%s: found \"%s\", but %s; valid is %s", option, word, why,
                    list);
    const char *near = nearest_name(word, valid, count);
    options_die(&conv_bench_program, "%s: found \"%s\", valid is %s%s%s%s",
                option, word, list, near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

static void choose_kernel(void)
{
    const struct choice *k = choose("--kernel", kernel, kernels);
    const struct choice *i = choose("--isa", isa, isas);
    const bool any = !strcmp(i->name, "auto");
    if (k->isa && !any && strcmp(k->isa, i->name))
        options_die(&conv_bench_program,
                    "--isa: found \"%s\", valid with --kernel %s is %s", isa,
                    kernel, k->isa);
    const bool amx = !strcmp(i->name, "amx");
    if (amx && !o.bf16)
        options_die(&conv_bench_program,
                    "--isa: found \"amx\", valid with --dtype bf16 only");
    const bool direct = k->method == &conv_direct;
    if (o.bf16 && k->method && !direct)
        options_die(&conv_bench_program,
                    "--kernel: found \"%s\", which computes in f32; valid with "
                    "--dtype bf16 is auto, measured, direct, scalar",
                    kernel);
    o.method = o.bf16 && direct ? &conv_bf16 : k->method;
    conv_allow_bf16(o.bf16);
    if (k->method == &conv_tile_sw)
        sw_method_use(k->way);
    o.isa = conv_use(k->isa ? k->isa : any ? NULL : amx ? "avx512" : i->name);
    if (!k->method)
        kernel_choose(kernel, (int)o.threads, NULL, 0);
}

/* What measures nothing has nothing to write. */
static void check_exclusive(const char *option, bool given, const char *other,
                            bool too)
{
    if (given && too)
        options_die(&conv_bench_program,
                    "%s: found together with %s, valid is one of them", option,
                    other);
}

const struct bench_options *bench_parse(int argc, char **argv)
{
    int noperands;
    explain(kernel_help, "how to compute (default auto, as the trainer does)",
            kernels);
    explain(isa_help, "instruction set (default auto, the best one here)",
            isas);
    explain(pass_help, "which pass to measure (default all)", passes);
    explain(dtype_help, "operands of products (default f32)", dtypes);
    options_parse(&conv_bench_program, argc, argv, &noperands, false);
    if (noperands)
        options_die(&conv_bench_program, "found \"%s\", valid are options only",
                    argv[1]);
    check_exclusive("--list", o.list, "--check", o.check);
    check_exclusive("--list", o.list, "--json", o.json);
    check_exclusive("--list", o.list, "--plot", o.plot);
    check_exclusive("--check", o.check, "--plot", o.plot);
    o.bf16 = choose("--dtype", o.dtype, dtypes) == &dtypes[1];
    choose_kernel();
    const struct choice *p = choose("--pass", pass, passes);
    for (int i = 0; i < CONV_PASSES; i++)
        o.pass[i] = p == &passes[i] || p == &passes[CONV_PASSES];
    return &o;
}
