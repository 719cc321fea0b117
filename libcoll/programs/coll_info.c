/* SPDX-License-Identifier: MIT */
/* coll_info: what libcoll knows of this machine, its settings and itself.
 *
 * Each section is written by two functions, one for people and one as JSON;
 * the table at the end says which option asks for which. Without an option
 * every section is shown, short.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "coll/topo.h"
#include "programs/draw.h"
#include "programs/explain.h"
#include "programs/facts.h"
#include "programs/json.h"
#include "programs/options.h"
#include "programs/placement.h"

struct info {
    bool machine, settings, algorithms, transports, build, clusters, json;
    const char *cluster, *svg, *png;
    struct explain_request explain; /* collective NULL: not asked */
    long nranks, ranks_per_host;
    long place;      /* 0: not asked */
    bool brief;      /* no section was named */
    coll_topo *host; /* this one; NULL if nothing asks for it */
    coll_topo *topo; /* the cluster, else this host */
};

static const struct program program;

static char *tree_of(const coll_topo *topo)
{
    const size_t length = coll_topo_print_tree(topo, NULL, 0);
    char *text = malloc(length + 1);
    if (text)
        coll_topo_print_tree(topo, text, length + 1);
    return text;
}

static char *notation_of(const coll_topo *topo)
{
    const size_t length = coll_topo_print_notation(topo, NULL, 0);
    char *text = malloc(length + 1);
    if (text)
        coll_topo_print_notation(topo, text, length + 1);
    return text;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

static void show_facts(void)
{
    struct facts f;
    coll_topo_limits l;
    facts_get(&f);
    coll_topo_limits_get(&l);
    printf("host             %s\n", f.host);
    printf("kernel           %s\n", f.kernel);
    printf("boot id          %s\n", f.boot_id);
    if (*f.cpu)
        printf("processor        %s\n", f.cpu);
    printf("instruction sets %s\n", f.isa);
    printf("memory           %.1f GiB, %.1f available\n", gib(f.memory),
           gib(f.memory_available));
    printf("/dev/shm         %.1f GiB, %.1f free\n", gib(f.shm),
           gib(f.shm_free));
    printf("usable CPUs      %d: %d online, %d in the affinity mask, ",
           l.usable, l.online, l.allowed);
    if (l.quota_cpus > 0)
        printf("cgroup quota %.3g\n", l.quota_cpus);
    else
        printf("no cgroup quota\n");
}

static void machine_text(const struct info *info)
{
    char *tree = tree_of(info->host);
    show_facts();
    printf("\n%s", tree ? tree : "");
    if (!coll_topo_is_this_host(info->host))
        printf("  (as HWLOC_SYNTHETIC or HWLOC_XMLFILE describe it)\n");
    free(tree);
}

static void write_counts(struct json *j, const coll_topo *topo)
{
    json_begin(j, "counts", '{');
    for (int k = 0; k < COLL_TOPO_NKINDS; k++) {
        const coll_topo_kind kind = (coll_topo_kind)k;
        if (coll_topo_count(topo, kind))
            json_number(j, coll_topo_kind_name(kind),
                        coll_topo_count(topo, kind));
    }
    json_end(j, '}');
}

static void write_topo(struct json *j, const coll_topo *topo)
{
    char *notation = notation_of(topo);
    json_text(j, "notation", notation ? notation : "");
    free(notation);
    write_counts(j, topo);
}

static void machine_json(const struct info *info, struct json *j)
{
    struct facts f;
    coll_topo_limits l;
    facts_get(&f);
    coll_topo_limits_get(&l);
    json_begin(j, "machine", '{');
    json_text(j, "host", f.host);
    json_text(j, "kernel", f.kernel);
    json_text(j, "boot_id", f.boot_id);
    json_text(j, "processor", f.cpu);
    json_text(j, "instruction_sets", f.isa);
    json_number(j, "memory_bytes", (double)f.memory);
    json_number(j, "memory_available_bytes", (double)f.memory_available);
    json_number(j, "shm_bytes", (double)f.shm);
    json_number(j, "shm_free_bytes", (double)f.shm_free);
    json_number(j, "cpus_online", l.online);
    json_number(j, "cpus_allowed", l.allowed);
    json_number(j, "cpu_quota", l.quota_cpus);
    json_number(j, "cpus_usable", l.usable);
    json_number(j, "this_host", coll_topo_is_this_host(info->host));
    write_topo(j, info->host);
    json_end(j, '}');
}

static void cluster_text(const struct info *info)
{
    char *tree = tree_of(info->topo), *notation = notation_of(info->topo);
    if (tree && notation)
        printf("%s\n%s\n", tree, notation);
    free(tree);
    free(notation);
}

static void cluster_json(const struct info *info, struct json *j)
{
    json_begin(j, "cluster", '{');
    write_topo(j, info->topo);
    json_end(j, '}');
}

/* The next setting; what is secret is not shown to whoever looks on. */
static bool next_setting(int i, coll_setting_info *s)
{
    if (!coll_setting_get(i, s))
        return false;
    if (!strcmp(s->name, "COLL_JOB_KEY") && *s->value)
        s->value = "(secret)";
    return true;
}

static void settings_text(const struct info *info)
{
    coll_setting_info s;
    int changed = 0, n = 0;
    for (; next_setting(n, &s); n++) {
        const bool other = strcmp(s.source, "default") != 0;
        changed += other;
        if (!info->brief)
            printf("%s%s = %s\n    %s\n    default %s; this value is from: "
                   "%s\n",
                   n ? "\n" : "", s.name, *s.value ? s.value : "\"\"",
                   s.meaning, *s.fallback ? s.fallback : "\"\"", s.source);
        else if (other)
            printf("%s = %s (from: %s)\n", s.name, s.value, s.source);
    }
    if (info->brief)
        printf("%d of %d settings have their defaults; --settings lists all\n",
               n - changed, n);
}

static void settings_json(const struct info *info, struct json *j)
{
    coll_setting_info s;
    (void)info;
    json_begin(j, "settings", '[');
    for (int i = 0; next_setting(i, &s); i++) {
        json_begin(j, NULL, '{');
        json_text(j, "name", s.name);
        json_text(j, "value", s.value);
        json_text(j, "default", s.fallback);
        json_text(j, "source", s.source);
        json_text(j, "meaning", s.meaning);
        json_end(j, '}');
    }
    json_end(j, ']');
}

static void algorithms_text(const struct info *info)
{
    coll_algorithm_info a;
    const char *last = "";
    for (int i = 0; coll_algorithm_get(i, &a); i++) {
        const bool next = strcmp(a.collective, last) != 0;
        if (!info->brief)
            printf("%-14s %-24s %s\n", a.collective, a.name, a.when);
        else
            printf("%s%s%s%s", next && i ? "\n" : "", next ? a.collective : "",
                   next ? ": " : ", ", a.name);
        last = a.collective;
    }
    printf("%s", info->brief ? "\n" : "");
}

static void algorithms_json(const struct info *info, struct json *j)
{
    coll_algorithm_info a;
    (void)info;
    json_begin(j, "algorithms", '[');
    for (int i = 0; coll_algorithm_get(i, &a); i++) {
        json_begin(j, NULL, '{');
        json_text(j, "collective", a.collective);
        json_text(j, "name", a.name);
        json_text(j, "when", a.when);
        json_end(j, '}');
    }
    json_end(j, ']');
}

static void transports_text(const struct info *info)
{
    const char *name;
    printf("%s", info->brief ? "transports: " : "");
    for (int i = 0; (name = coll_transport_get(i)); i++)
        printf("%s%s", i == 0 ? "" : info->brief ? ", " : "\n", name);
    printf("\n");
}

static void transports_json(const struct info *info, struct json *j)
{
    const char *name;
    (void)info;
    json_begin(j, "transports", '[');
    for (int i = 0; (name = coll_transport_get(i)); i++)
        json_text(j, NULL, name);
    json_end(j, ']');
}

/* What --cluster knows by name, and the machines of "machine:NAME". */
static void clusters_text(const struct info *info)
{
    coll_topo_cluster c;
    coll_topo_machine m;
    if (info->brief) {
        printf("clusters: ");
        for (int i = 0; coll_topo_cluster_get(i, &c); i++)
            printf("%s%s", i ? ", " : "", c.name);
        printf("\nmachines: ");
        for (int i = 0; coll_topo_machine_get(i, &m); i++)
            printf("%s%s", i ? ", " : "", m.name);
        printf("\n");
        return;
    }
    for (int i = 0; coll_topo_cluster_get(i, &c); i++)
        printf("%-26s %s\n", c.name, c.about);
    for (int i = 0; coll_topo_machine_get(i, &m); i++)
        printf("machine:%-18s %s\n", m.name, m.source);
}

static void clusters_json(const struct info *info, struct json *j)
{
    coll_topo_cluster c;
    coll_topo_machine m;
    (void)info;
    json_begin(j, "clusters", '[');
    for (int i = 0; coll_topo_cluster_get(i, &c); i++) {
        json_begin(j, NULL, '{');
        json_text(j, "name", c.name);
        json_text(j, "about", c.about);
        json_text(j, "text", c.text);
        json_end(j, '}');
    }
    json_end(j, ']');
    json_begin(j, "machines", '[');
    for (int i = 0; coll_topo_machine_get(i, &m); i++) {
        json_begin(j, NULL, '{');
        json_text(j, "name", m.name);
        json_text(j, "text", m.text);
        json_text(j, "source", m.source);
        json_end(j, '}');
    }
    json_end(j, ']');
}

static const char *library_version(char buffer[32])
{
    const int v = coll_version();
    snprintf(buffer, 32, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return buffer;
}

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void build_text(const struct info *info)
{
    char version[32];
    (void)info;
    printf("libcoll %s, coll_info %s, built by " COMPILER "\n",
           library_version(version), COLL_BUILD_VERSION);
}

static void build_json(const struct info *info, struct json *j)
{
    char version[32];
    (void)info;
    json_begin(j, "build", '{');
    json_text(j, "library", library_version(version));
    json_text(j, "program", COLL_BUILD_VERSION);
    json_text(j, "compiler", COMPILER);
    json_end(j, '}');
}

static void place_text(const struct info *info)
{
    placement_text(info->topo, (int)info->place);
}

static void place_json(const struct info *info, struct json *j)
{
    placement_json(info->topo, (int)info->place, j);
}

static struct info info;

/* clang-format off */
static const struct option_row options[] = {
    {.name = "machine", .kind = OPTION_FLAG, .out = &info.machine,
     .help = "this host: processors, memory, what of it may be used"},
    {.name = "settings", .kind = OPTION_FLAG, .out = &info.settings,
     .help = "every COLL_* setting: value, default, where it is from, meaning"},
    {.name = "algorithms", .kind = OPTION_FLAG, .out = &info.algorithms,
     .help = "every algorithm, and when it is good"},
    {.name = "transports", .kind = OPTION_FLAG, .out = &info.transports,
     .help = "the ways in which data travels"},
    {.name = "build", .kind = OPTION_FLAG, .out = &info.build,
     .help = "versions and compiler"},
    {.name = "clusters", .kind = OPTION_FLAG, .out = &info.clusters,
     .help = "the clusters that --cluster knows by name, and the machines of "
             "machine:NAME"},
    {.name = "cluster", .arg = "SPEC", .kind = OPTION_TEXT,
     .out = &info.cluster,
     .help = "the cluster that a name, a text, a file or slurm:FILE (a "
             "topology.conf) describes, as in COLL_CLUSTER"},
    {.name = "place", .arg = "N", .kind = OPTION_INT, .out = &info.place,
     .min = 1, .max = 1 << 20,
     .help = "where N ranks would go, here or on --cluster, who shares what, "
             "and how small collectives group the ranks of a host"},
    {.name = "svg", .arg = "FILE", .kind = OPTION_TEXT, .out = &info.svg,
     .help = "draw this host or --cluster, with the ranks of --place"},
    {.name = "png", .arg = "FILE", .kind = OPTION_TEXT, .out = &info.png,
     .help = "the same as pixels"},
    {.name = "explain", .arg = "COLLECTIVE", .kind = OPTION_TEXT,
     .out = &info.explain.collective,
     .help = "what the library would run on --cluster, for the SIZE that "
             "stands last (such as 1M), and why not the others"},
    {.letter = 'n', .name = "ranks", .arg = "N", .kind = OPTION_INT,
     .out = &info.nranks, .min = 1, .max = 65536,
     .help = "for --explain: of so many ranks, at most 2048 (default: one a "
             "host)"},
    {.name = "ranks-per-host", .arg = "K", .kind = OPTION_INT,
     .out = &info.ranks_per_host, .min = 1, .max = 65536,
     .help = "for --explain: neighbours in rank on one host (default 1)"},
    {.name = "json", .kind = OPTION_FLAG, .out = &info.json,
     .help = "write the same as JSON"},
};
/* clang-format on */

static const struct program program = {
    .name = "coll_info",
    .usage = "coll_info [OPTION...]\n"
             "coll_info --explain COLLECTIVE --cluster SPEC [-n N] SIZE",
    .summary = "Shows what libcoll knows of this machine, its settings and "
               "itself.\nWithout an option: all of it, short.",
    .options = options,
    .noptions = sizeof(options) / sizeof(options[0]),
    .epilogue = "A cluster: supernode:4 (3us 3GB/s) node:256 (1us 12GB/s) "
                "machine:sw26010\n"
                "By name:   taihulight, fat_tree_3level; --clusters lists all",
};

/* Sections in the order they are shown. */
static const struct section {
    const bool *wanted;
    void (*text)(const struct info *);
    void (*json)(const struct info *, struct json *);
} sections[] = {
    {&info.build,      build_text,      build_json     },
    {&info.machine,    machine_text,    machine_json   },
    {&info.settings,   settings_text,   settings_json  },
    {&info.algorithms, algorithms_text, algorithms_json},
    {&info.transports, transports_text, transports_json},
    {&info.clusters,   clusters_text,   clusters_json  },
};
enum { NSECTIONS = sizeof(sections) / sizeof(sections[0]) };

static void show(struct json *j)
{
    bool first = true;
    for (int i = 0; i < NSECTIONS; i++) {
        if (!*sections[i].wanted)
            continue;
        if (!info.json)
            printf("%s", first ? "" : "\n");
        if (info.json)
            sections[i].json(&info, j);
        else
            sections[i].text(&info);
        first = false;
    }
}

/* Reads what the sections are about, before any output: a cluster that cannot
 * be read is bad input, a host that cannot is a failure. */
static void load(void)
{
    char error[512];
    coll_status status = COLL_OK;
    if (info.cluster)
        status = coll_topo_load(&info.topo, info.cluster, "--cluster", error,
                                sizeof(error));
    if (status && status != COLL_ERR_MEMORY)
        options_die(&program, "%s", error);
    const bool shown = info.place || info.svg || info.png;
    if (!status && (info.machine || (shown && !info.cluster)))
        status = coll_topo_discover(&info.host, error, sizeof(error));
    if (status) {
        fprintf(stderr, "coll_info: %s\n", error);
        exit(1);
    }
    if (!info.cluster)
        info.topo = info.host;
}

/* What is about a topology other than this host's, or places ranks. */
static void show_topo(struct json *j, bool blank)
{
    if (!info.json && blank)
        printf("\n");
    if (info.cluster && info.json)
        cluster_json(&info, j);
    else if (info.cluster)
        cluster_text(&info);
    if (info.place && info.json) {
        place_json(&info, j);
    } else if (info.place) {
        printf("%s", info.cluster ? "\n" : "");
        place_text(&info);
    }
}

static void draw(enum draw_format format, const char *path)
{
    char error[512];
    struct facts f;
    facts_get(&f);
    const struct draw_request request = {
        .topo = info.topo,
        .title = info.cluster ? info.cluster : f.host,
        .nranks = (int)info.place,
    };
    if (path && !draw_file(&request, format, path, error, sizeof(error)))
        options_die(&program, "%s", error);
}

/* --explain has one operand, the bytes, with K, M or G. */
static void read_request(int noperands, char **argv)
{
    if (noperands != 1)
        options_die(&program, "--explain %s: wants a size, such as 1M, after "
                              "the options",
                    info.explain.collective);
    if (!info.cluster)
        options_die(&program, "--explain %s: wants --cluster SPEC",
                    info.explain.collective);
    static const char units[] = "KMG";
    char *end;
    const double number = strtod(argv[1], &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    const double bytes =
        number * (unit ? (double)(1ull << (10 * (unit - units + 1))) : 1);
    if (end == argv[1] || (unit ? end[1] : *end) || !(bytes >= 0)
        || bytes > 1e15)
        options_die(&program, "--explain: size \"%s\" is no number of bytes "
                              "such as 4096, 64K or 1M",
                    argv[1]);
    info.explain.bytes = (size_t)bytes;
}

static void explain(struct json *j)
{
    info.explain.cluster = info.cluster;
    info.explain.ranks_per_host = (int)info.ranks_per_host;
    info.explain.nranks =
        info.nranks ? (int)info.nranks
                    : coll_topo_count(info.topo, COLL_TOPO_HOST)
                          * (int)info.ranks_per_host;
    const char *wrong = explain_show(&info.explain, info.json ? j : NULL);
    if (wrong)
        options_die(&program, "--explain: %s", wrong);
}

int main(int argc, char **argv)
{
    struct json j = {.file = stdout};
    int noperands;
    options_parse(&program, argc, argv, &noperands, false);
    if (!info.explain.collective && (info.nranks || info.ranks_per_host))
        options_die(&program, "%s: only valid with --explain",
                    info.nranks ? "-n" : "--ranks-per-host");
    info.ranks_per_host = info.ranks_per_host ? info.ranks_per_host : 1;
    if (info.explain.collective)
        read_request(noperands, argv);
    else if (noperands)
        options_die(&program, "%s: takes no operand; see --help", argv[1]);
    const bool named = info.machine || info.settings || info.algorithms
                       || info.transports || info.build || info.clusters;
    const bool shown = info.cluster || info.place || info.svg || info.png;
    if (!named && !shown) {
        info.brief = true;
        info.machine = info.settings = info.algorithms = true;
        info.transports = info.build = info.clusters = true;
    }
    load();
    draw(DRAW_SVG, info.svg);
    draw(DRAW_PNG, info.png);
    if (info.json) {
        json_begin(&j, NULL, '{');
        json_text(&j, "format", "coll_info 1");
    }
    show(&j);
    if (info.explain.collective)
        explain(&j);
    else if (info.cluster || info.place)
        show_topo(&j, named);
    if (info.json)
        json_end(&j, '}');
    if (info.topo != info.host)
        coll_topo_free(info.topo);
    coll_topo_free(info.host);
    if (fflush(stdout) || ferror(stdout)) {
        perror("coll_info: standard output");
        return 1;
    }
    return 0;
}
