/* SPDX-License-Identifier: MIT */
/* coll_sim: the very plans of the library, in virtual time, at any number of
 * ranks on a cluster that is only described. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "comm/here.h"
#include "programs/sim.h"

static struct sim_job job = {
    .options = {.order = "all",
                .place = "block",
                .factor = 4,
                .max_messages = 2e7,
                .ranks_per_host = 1,
                .gamma_ns = -1},
};

/* clang-format off */
static const struct option_row options[] = {
    {.name = "cluster", .arg = "SPEC", .kind = OPTION_TEXT,
     .out = &job.options.cluster,
     .help = "the cluster: a name (coll_info --clusters), a text, a file or "
             "slurm:FILE; without it COLL_CLUSTER"},
    {.letter = 'n', .name = "nranks", .arg = "LIST", .kind = OPTION_TEXT,
     .out = &job.options.nranks,
     .help = "numbers of ranks: 1024, 64,256 or 1..1024 (1, 2, 4, ... 1024); "
             "default: all that the cluster has hosts for"},
    {.letter = 'b', .name = "min-bytes", .arg = "MIN", .kind = OPTION_BYTES,
     .out = &job.options.min_bytes, .min = 1, .max = 1e15,
     .help = "the shortest vector; default 1K"},
    {.letter = 'e', .name = "max-bytes", .arg = "MAX", .kind = OPTION_BYTES,
     .out = &job.options.max_bytes, .min = 1, .max = 1e15,
     .help = "the longest; default MIN if that is given, else 512M"},
    {.letter = 'f', .name = "factor", .arg = "FACTOR", .kind = OPTION_NUMBER,
     .out = &job.options.factor, .min = 1.01, .max = 1e6,
     .help = "from one length to the next; default 4"},
    {.name = "algo", .arg = "NAME[,NAME]", .kind = OPTION_TEXT,
     .out = &job.options.algo,
     .help = "algorithms, or all; ring@by_hosts is one in one order; default: "
             "only what the library would choose"},
    {.name = "order", .arg = "ORDER", .kind = OPTION_TEXT,
     .out = &job.options.order, .choices = "all|given|block|round_robin|by_hosts|hosts_dealt",
     .help = "in which a plan lines the ranks up; default all: those that the "
             "library considers"},
    {.name = "segments", .arg = "N", .kind = OPTION_INT,
     .out = &job.options.segments, .min = 1, .max = PLAN_SEGMENTS_MAX,
     .help = "pieces for algorithms that pipeline, and by hosts; default: as "
             "many as are best"},
    {.name = "ranks-per-host", .arg = "K", .kind = OPTION_INT,
     .out = &job.options.ranks_per_host, .min = 1, .max = 1 << 20,
     .help = "default 1"},
    {.name = "place", .arg = "HOW", .kind = OPTION_TEXT,
     .out = &job.options.place, .choices = "block|round_robin",
     .help = "which host a rank is on: K in a row, or dealt over the hosts"},
    {.name = "gamma", .arg = "NS", .kind = OPTION_NUMBER,
     .out = &job.options.gamma_ns, .min = 0, .max = 1e6,
     .help = "nanoseconds in which a rank reduces a byte; default 0.125"},
    {.name = "overhead", .arg = "US", .kind = OPTION_NUMBER,
     .out = &job.options.overhead_us, .min = 0, .max = 1e6,
     .help = "microseconds of a rank's time that a message takes at each end; "
             "default 0"},
    {.name = "max-messages", .arg = "N", .kind = OPTION_NUMBER,
     .out = &job.options.max_messages, .min = 1, .max = 1e10,
     .help = "do not simulate what sends more; default 2e7, which is less than "
             "a minute and 4 GiB"},
    {.name = "costs", .kind = OPTION_FLAG, .out = &job.options.costs,
     .help = "tell what each plan and each rehearsal takes of this computer, "
             "measured; what sends too much is only planned"},
    {.name = "threads", .arg = "N", .kind = OPTION_INT,
     .out = &job.options.threads, .min = 1, .max = 64,
     .help = "so many simulations at a time; default: one for each CPU"},
    {.name = "net", .arg = "NET", .kind = OPTION_TEXT, .out = &job.options.net,
     .choices = "alexnet|alexnet_ungrouped|alexnet_bn|alexnet_cifar|vgg16|"
                "vgg19|resnet18|resnet20|resnet50|googlenet|lenet|lenet5",
     .help = "train: whose gradients"},
    {.name = "bytes", .arg = "BYTES", .kind = OPTION_BYTES,
     .out = &job.options.gradient_bytes, .min = 1, .max = 1e13,
     .help = "train: so many bytes of gradients instead"},
    {.name = "strategy", .arg = "NAME", .kind = OPTION_TEXT,
     .out = &job.options.strategy, .choices = "sync|sync-easgd1|sync-easgd2|sync-easgd3|"
                "decentralized-easgd",
     .help = "train: gradients summed at every step (the default), or weights "
             "exchanged at every --tau-th"},
    {.name = "tau", .arg = "LIST", .kind = OPTION_TEXT, .out = &job.options.tau,
     .help = "train: steps from one exchange to the next; as many curves; "
             "default 1"},
    {.name = "step-ms", .arg = "MS", .kind = OPTION_NUMBER,
     .out = &job.options.step_ms, .min = 1e-6, .max = 1e9,
     .help = "train: what one rank computes in a step, without communication"},
    {.name = "batch", .arg = "N", .kind = OPTION_INT, .out = &job.options.batch,
     .min = 1, .max = 1 << 30,
     .help = "train: images of one rank in a step, to tell images/s"},
    {.name = "bucket", .arg = "BYTES", .kind = OPTION_BYTES,
     .out = &job.options.bucket, .min = 1, .max = 1e13,
     .help = "train: gradients are summed in pieces of so much; default 25M"},
    {.name = "overlap", .arg = "WHETHER", .kind = OPTION_TEXT,
     .out = &job.options.overlap, .choices = "on|off",
     .help = "train: communicate while computing; default: on where the "
             "strategy can"},
    {.name = "json", .arg = "FILE", .kind = OPTION_TEXT,
     .out = &job.options.json, .help = "write the results as JSON"},
    {.name = "csv", .arg = "FILE", .kind = OPTION_TEXT,
     .out = &job.options.csv, .help = "write the results as a table with commas"},
    {.name = "plot", .arg = "FILE.png", .kind = OPTION_TEXT,
     .out = &job.options.plot,
     .help = "draw time over bytes, or over ranks where there are several -n "
             "and one length; train: speed-up and efficiency over ranks"},
};
/* clang-format on */

static const struct program program = {
    .name = "coll_sim",
    .usage = "coll_sim COLLECTIVE --cluster SPEC [OPTION...]\n"
             "coll_sim train --cluster SPEC --net NET --step-ms MS [OPTION...]",
    .summary =
        "Simulates collectives with the library's own plans, at any number of\n"
        "ranks on a described cluster; or what they make of the training of a\n"
        "net. COLLECTIVE is allreduce, reduce, broadcast, reduce_scatter,\n"
        "allgather, gather, scatter, alltoall or barrier. All times are "
        "simulated.",
    .options = options,
    .noptions = sizeof(options) / sizeof(options[0]),
    .epilogue =
        "coll_sim allreduce --cluster taihulight -n 1024 --algo all --plot "
        "a.png\n"
        "coll_sim train --net resnet50 --cluster taihulight -n 1..1024 \\\n"
        "    --step-ms 5760 --plot scaling.png",
};

void sim_fail(const char *sentence)
{
    fprintf(stderr, "coll_sim: %s\n", sentence);
    exit(1);
}

static int ascending(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* A whole number from 1 to most, moving *at behind it; else 0. */
static long number_at(const char **at, int most)
{
    char *end;
    errno = 0;
    const long x = isdigit((unsigned char)**at) ? strtol(*at, &end, 10) : 0;
    if (x < 1 || x > most || errno)
        return 0;
    *at = end;
    return x;
}

int sim_parse_numbers(const struct program *p, const char *option,
                      const char *text, int most, int **numbers)
{
    enum { DOUBLINGS = 32 };
    int *list = NULL, n = 0;
    for (const char *at = text;; at++) {
        long from = number_at(&at, most), to = from;
        if (from && !strncmp(at, "..", 2)) {
            at += 2;
            to = number_at(&at, most);
        }
        if (!from || to < from || (*at && *at != ','))
            options_die(p,
                        "%s: found \"%s\", valid are whole numbers from 1 to "
                        "%d: 1024, 64,256 or 1..1024",
                        option, text, most);
        list = realloc(list, (size_t)(n + DOUBLINGS) * sizeof(*list));
        if (!list)
            sim_fail("no memory for a list");
        for (; from < to; from *= 2)
            list[n++] = (int)from;
        list[n++] = (int)to;
        if (!*at)
            break;
    }
    qsort(list, (size_t)n, sizeof(*list), ascending);
    int kept = 1;
    for (int i = 1; i < n; i++)
        if (list[i] != list[kept - 1])
            list[kept++] = list[i];
    *numbers = list;
    return kept;
}

void sim_open_file(const struct sim_job *j, struct whole_file *f,
                   const char *path)
{
    char error[1024];
    if (!whole_file_begin(f, path, error, sizeof(error)))
        options_die(j->program, "%s", error);
}

void sim_publish(const struct sim_job *j, struct whole_file *f, bool ok)
{
    char error[1024];
    if (!whole_file_end(f, ok, error, sizeof(error)))
        options_die(j->program, "%s", error);
}

static void load_cluster(void)
{
    char error[512];
    struct sim_options *o = &job.options;
    const bool given = o->cluster != NULL;
    if (!given)
        o->cluster = setting_text(SETTING_CLUSTER);
    if (!*o->cluster)
        options_die(&program, "--cluster: missing, valid is a name such as "
                              "taihulight (coll_info --clusters lists all), a "
                              "text or a file");
    const coll_status status = coll_topo_load(
        &job.topo, o->cluster, given ? "--cluster" : "COLL_CLUSTER", error,
        sizeof(error));
    if (status == COLL_ERR_MEMORY)
        sim_fail(error);
    if (status < 0)
        options_die(&program, "%s", error);
}

static void read_ranks(void)
{
    const struct sim_options *o = &job.options;
    const int hosts = world_hosts(job.topo);
    const long room = hosts * o->ranks_per_host;
    char all[24];
    snprintf(all, sizeof(all), "%ld", room < INT_MAX ? room : INT_MAX);
    job.nnranks = sim_parse_numbers(&program, "-n", o->nranks ? o->nranks : all,
                                    1 << 24, &job.nranks);
    const int most = job.nranks[job.nnranks - 1];
    if (most > room)
        options_die(&program,
                    "-n: found %d, valid is from 1 to %ld: --cluster describes "
                    "%d host%s, with %ld rank%s on each (--ranks-per-host)",
                    most, room, hosts, hosts == 1 ? "" : "s", o->ranks_per_host,
                    o->ranks_per_host == 1 ? "" : "s");
}

void sim_open_world(const struct sim_job *j, int i, struct world *w)
{
    const coll_status status = world_create(
        w, &(struct world_request){
               .topo = j->topo,
               .nranks = j->nranks[i],
               .ranks_per_host = (int)j->options.ranks_per_host,
               .deal = !strcmp(j->options.place, "round_robin"),
               .gamma = j->options.gamma_ns < 0 ? here_assumed.gamma
                                                : j->options.gamma_ns * 1e-9,
               .overhead = j->options.overhead_us * 1e-6,
           });
    if (status < 0)
        sim_fail(fail_sentence());
}

/* The operand: a collective, or NKINDS for train. */
static enum coll_kind read_mode(int noperands, char **argv)
{
    const char *names[NKINDS + 1];
    if (noperands == 0)
        options_die(&program,
                    "found no collective, valid is allreduce, reduce, "
                    "broadcast, reduce_scatter, allgather, gather, scatter, "
                    "alltoall, barrier or train");
    if (noperands > 1)
        options_die(&program, "%s: found one operand too many; see --help",
                    argv[2]);
    for (int k = 0; k <= NKINDS; k++) {
        names[k] = k < NKINDS ? kind_names[k] : "train";
        if (!strcmp(argv[1], names[k]))
            return (enum coll_kind)k;
    }
    const char *near = nearest_name(argv[1], names, NKINDS + 1);
    options_die(
        &program,
        "%s: no such collective, valid is allreduce, reduce, "
        "broadcast, reduce_scatter, allgather, gather, scatter, alltoall, "
        "barrier or train%s%s%s",
        argv[1], near ? "; did you mean " : "", near ? near : "",
        near ? "?" : "");
}

static void check_options(bool trains)
{
    struct sim_options *o = &job.options;
    const struct {
        const char *name;
        bool given;
    } only[] = {
        {"--net",       o->net                },
        {"--bytes",     o->gradient_bytes > 0 },
        {"--strategy",  o->strategy           },
        {"--step-ms",   o->step_ms > 0        },
        {"--batch",     o->batch > 0          },
        {"--tau",       o->tau                },
        {"--bucket",    o->bucket > 0         },
        {"--overlap",   o->overlap            },
        {"--min-bytes", trains && o->min_bytes},
        {"--max-bytes", trains && o->max_bytes},
        {"--costs",     trains && o->costs    },
    };
    enum { OF_TRAIN = 8, ALL = sizeof(only) / sizeof(only[0]) };
    for (int i = trains ? OF_TRAIN : 0; i < (trains ? ALL : OF_TRAIN); i++)
        if (only[i].given)
            options_die(&program, "%s: only valid %s", only[i].name,
                        trains ? "with a collective" : "with train");
    if (o->net && o->gradient_bytes)
        options_die(&program, "--bytes: found --net %s, valid is one of the two",
                    o->net);
    o->tau = o->tau ? o->tau : "1";
    o->bucket = o->bucket ? o->bucket : 25 << 20;
    const struct option_file files[] = {
        {"--json", o->json, FILE_WRITTEN},
        {"--csv",  o->csv,  FILE_WRITTEN},
        {"--plot", o->plot, FILE_WRITTEN},
    };
    options_check_files(&program, files, 3);
}

int main(int argc, char **argv)
{
    int noperands;
    coll_topo_limits here;
    job.program = &program;
    options_parse(&program, argc, argv, &noperands, false);
    const enum coll_kind kind = read_mode(noperands, argv);
    check_options(kind == NKINDS);
    load_cluster();
    read_ranks();
    coll_topo_limits_get(&here);
    job.limits = (struct trials_limits){
        .max_messages = job.options.max_messages,
        .threads = job.options.threads ? (int)job.options.threads : here.usable,
    };
    if (kind == NKINDS)
        sim_train(&job);
    else
        sim_collective(&job, kind);
    coll_topo_free(job.topo);
    free(job.nranks);
    if (fflush(stdout) || ferror(stdout)) {
        perror("coll_sim: standard output");
        return 1;
    }
    return 0;
}
