/* SPDX-License-Identifier: MIT */
/* coll_sim COLLECTIVE: which trials there are, and what became of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "programs/sim.h"

enum { MAX_NAMED = 64 };

struct sweep {
    const struct sim_job *job;
    enum coll_kind kind;
    bool all;                            /* --algo all */
    const struct algo *named[MAX_NAMED]; /* else these; none: what is chosen */
    int orders[MAX_NAMED]; /* of each; NLINEUPS: as --order says */
    int nnamed;
    size_t *sizes;
    int nsizes;
    struct trial *trials;
    int ntrials, capacity;
};

/* --- what is asked for ------------------------------------------------------
 */

void sim_unknown_algo(const struct sim_job *job, enum coll_kind kind,
                      const char *name)
{
    const char *names[64];
    char list[1024] = "all";
    int n = 0;
    for (int a = 0; a < nplanned; a++) {
        const size_t length = strlen(list);
        if (algos[a].kind != kind)
            continue;
        names[n++] = algos[a].name;
        snprintf(list + length, sizeof(list) - length, ", %s", algos[a].name);
    }
    const struct algo *native = algo_find(kind, name);
    const char *near = native ? NULL : nearest_name(name, names, n);
    options_die(
        job->program, "--algo: found \"%s\"%s, valid for %s is %s%s%s%s", name,
        native ? ", which has no plan to simulate" : "", kind_names[kind], list,
        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Takes "@by_hosts" off a name; NLINEUPS: there is none. */
static int read_order(const struct sweep *s, char *name)
{
    char *at = strchr(name, '@');
    if (!at)
        return NLINEUPS;
    *at = '\0';
    for (int o = 0; o < NLINEUPS; o++)
        if (!strcmp(at + 1, layout_order_names[o]))
            return o;
    const char *near = nearest_name(at + 1, layout_order_names, NLINEUPS);
    options_die(s->job->program,
                "--algo: found the order \"%s\", valid are given, block, "
                "round_robin, by_hosts and hosts_dealt%s%s%s",
                at + 1, near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "");
}

static void read_algos(struct sweep *s)
{
    const char *text = s->job->options.algo;
    char *copy = text ? strdup(text) : NULL, *rest;
    s->all = text && !strcmp(text, "all");
    if (!copy || s->all) {
        free(copy);
        return;
    }
    for (char *name = strtok_r(copy, ",", &rest); name;
         name = strtok_r(NULL, ",", &rest)) {
        if (s->nnamed == MAX_NAMED)
            options_die(s->job->program,
                        "--algo: found %d names or more, valid are at most %d",
                        MAX_NAMED + 1, MAX_NAMED);
        s->orders[s->nnamed] = read_order(s, name);
        const struct algo *algo = algo_find(s->kind, name);
        if (!algo || algo->way != BY_PLAN)
            sim_unknown_algo(s->job, s->kind, name);
        s->named[s->nnamed++] = algo;
    }
    if (s->nnamed == 0)
        sim_unknown_algo(s->job, s->kind, text);
    free(copy);
}

static void read_sizes(struct sweep *s)
{
    const struct sim_options *o = &s->job->options;
    const size_t min = o->min_bytes ? o->min_bytes : 1024;
    const size_t max = o->max_bytes   ? o->max_bytes
                       : o->min_bytes ? o->min_bytes
                                      : (size_t)512 << 20;
    if (min > max)
        options_die(s->job->program,
                    "-b: found %zu, valid is at most %zu, which -e says", min,
                    max);
    const int room = 2 + (int)(log((double)max / (double)min) / log(o->factor));
    s->sizes = malloc((size_t)room * sizeof(*s->sizes));
    if (!s->sizes)
        sim_fail("no memory for a list");
    for (double b = (double)min; b <= (double)max * (1 + 1e-9); b *= o->factor)
        if (!s->nsizes || s->sizes[s->nsizes - 1] < (size_t)(b + 0.5))
            s->sizes[s->nsizes++] = (size_t)(b + 0.5);
    if (s->kind == BARRIER) { /* of whatever */
        s->sizes[0] = 1;
        s->nsizes = 1;
    }
}

/* Whether --algo and --order say so; *given: one of them names the order. */
static bool is_named(const struct sweep *s, const struct algo *algo,
                     enum layout_order order, bool *given)
{
    const char *asked = s->job->options.order;
    const bool any = !strcmp(asked, "all");
    const bool alike = any || !strcmp(asked, layout_order_names[order]);
    bool named = s->all && alike;
    *given = !any;
    for (int i = 0; i < s->nnamed; i++)
        if (s->named[i] == algo
            && (s->orders[i] == NLINEUPS ? alike
                                         : s->orders[i] == (int)order)) {
            named = true;
            *given |= s->orders[i] != NLINEUPS;
        }
    return named;
}

/* A part is at the rank's own place only as the ranks are given. What combines
 * in one pass is for those who ask for it. */
static bool wants(const struct sweep *s, const struct world *w,
                  const struct algo *algo, enum layout_order order)
{
    bool given;
    if (algo->kind != s->kind || !is_named(s, algo, order, &given)
        || (s->all && algo_in_order(algo)))
        return false;
    if (!given || layout_by_hosts(order))
        return choices_considers(w, algo, order);
    return (!kind_has_parts(algo->kind) || order == ORDER_GIVEN)
           && algo->fits(
               &(struct plan_shape){.nranks = w->nranks, .segments = 1});
}

/* --- trials -----------------------------------------------------------------
 */

static void add(struct sweep *s, const struct trial *t)
{
    if (s->ntrials == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 64;
        s->trials =
            realloc(s->trials, (size_t)s->capacity * sizeof(*s->trials));
        if (!s->trials)
            sim_fail("no memory for the results");
    }
    s->trials[s->ntrials++] = *t;
}

/* What a world is to be tried with at one size; where the library's choice is
 * among it, with the library's segments, and with as many as are best. */
static void add_size(struct sweep *s, const struct world *w,
                     const struct trial *chosen, size_t bytes)
{
    const int segments = (int)s->job->options.segments;
    for (int order = 0; order < NLINEUPS; order++)
        for (int a = 0; a < nplanned; a++) {
            if (!wants(s, w, &algos[a], (enum layout_order)order))
                continue;
            struct trial t = {
                .world = w,
                .algo = &algos[a],
                .order = (enum layout_order)order,
                .bytes = bytes,
                .segments = segments,
            };
            const bool is =
                chosen && t.algo == chosen->algo && t.order == chosen->order;
            t.chosen = is
                       && (!segments || segments == chosen->segments
                           || !trial_pipelines(&t));
            if (t.chosen)
                t.segments = chosen->segments;
            add(s, &t);
            if (!t.chosen || segments || !trial_pipelines(&t))
                continue;
            t.chosen = false;
            t.segments = 0;
            add(s, &t);
        }
}

/* Where the library's choice has to be tried out, and all was. */
static void mark_fastest(struct sweep *s, int from)
{
    const struct sim_options *o = &s->job->options;
    if (!s->all || strcmp(o->order, "all") || o->segments) {
        fprintf(stderr,
                "coll_sim: what the library would choose on %d ranks is only "
                "known with --algo all, or without --algo\n",
                s->trials[from].world->nranks);
        return;
    }
    for (int i = from, best; i < s->ntrials; i = best) {
        const size_t bytes = s->trials[i].bytes;
        int fastest = -1;
        for (best = i; best < s->ntrials && s->trials[best].bytes == bytes;
             best++)
            if (s->trials[best].state == TRIAL_DONE
                && (fastest < 0
                    || s->trials[best].seconds < s->trials[fastest].seconds))
                fastest = best;
        if (fastest >= 0)
            s->trials[fastest].chosen = true;
    }
}

static void try_asked(struct sweep *s, const struct world *w,
                      struct choices *choices)
{
    const int from = s->ntrials;
    for (int i = 0; i < s->nsizes; i++) {
        struct trial chosen;
        const bool known = choices_get(choices, s->kind, s->sizes[i], &chosen);
        add_size(s, w, known ? &chosen : NULL, s->sizes[i]);
    }
    trials_run(s->trials + from, s->ntrials - from, &s->job->limits);
    if (!choices->priced && s->ntrials > from && !s->job->options.costs)
        mark_fastest(s, from);
}

static void try_chosen(struct sweep *s, const struct world *w,
                       struct choices *choices)
{
    struct trial *fastest = calloc((size_t)s->nsizes, sizeof(*fastest));
    if (!fastest
        || choices_run(choices, s->kind, s->sizes, s->nsizes, &s->job->limits,
                       fastest)
               < 0)
        sim_fail(fastest ? fail_sentence() : "no memory for the results");
    for (int i = 0; i < s->nsizes; i++) {
        fastest[i].world = w;
        if (fastest[i].algo)
            add(s, &fastest[i]);
    }
    free(fastest);
}

/* --- results ----------------------------------------------------------------
 */

/* One line for each candidate that is too large at some size. */
static void tell_left_out(const struct sweep *s)
{
    for (int i = 0; i < s->ntrials; i++) {
        const struct trial *t = &s->trials[i];
        int sizes = 0;
        double most = 0;
        for (int k = 0; k < s->ntrials; k++) {
            const struct trial *u = &s->trials[k];
            if (u->state != TRIAL_LARGE || u->world != t->world
                || u->algo != t->algo || u->order != t->order)
                continue;
            if (k < i)
                break; /* told before */
            most = fmax(most, u->messages);
            sizes++;
        }
        if (sizes && t->state == TRIAL_LARGE)
            fprintf(stderr,
                    "coll_sim: %s (%s) left out at %d of %d lengths on %d "
                    "ranks: it sends about %.2g messages, --max-messages is "
                    "%.2g\n",
                    t->algo->name, layout_order_names[t->order], sizes,
                    s->nsizes, t->world->nranks, most,
                    s->job->limits.max_messages);
    }
}

static int in_order(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    if (x->world->nranks != y->world->nranks)
        return x->world->nranks < y->world->nranks ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return strcmp(x->algo->name, y->algo->name);
}

/* Whether the library's segments proved the best, so that both are one. */
static bool is_twin(const struct trial *chosen, const struct trial *t)
{
    return chosen->chosen && !t->chosen && chosen->world == t->world
           && chosen->algo == t->algo && chosen->order == t->order
           && chosen->bytes == t->bytes && chosen->segments == t->segments;
}

static bool wants_hosts(const struct sweep *s)
{
    bool wants = false;
    for (int o = ORDER_HOSTS; o < NLINEUPS; o++) {
        wants |= !strcmp(s->job->options.order, layout_order_names[o]);
        for (int i = 0; i < s->nnamed; i++)
            wants |= s->orders[i] == o;
    }
    return wants;
}

static void keep_done(struct sweep *s)
{
    int kept = 0;
    for (int i = 0; i < s->ntrials; i++) {
        if (s->trials[i].state == TRIAL_FAILED)
            sim_fail(s->trials[i].error);
        const bool wanted =
            s->trials[i].state == TRIAL_DONE
            || (s->job->options.costs && s->trials[i].state == TRIAL_LARGE);
        if (wanted && !(kept && is_twin(&s->trials[kept - 1], &s->trials[i])))
            s->trials[kept++] = s->trials[i];
    }
    if (kept == 0 && s->ntrials == 0 && wants_hosts(s))
        options_die(s->job->program,
                    "by_hosts, hosts_dealt: found --ranks-per-host %ld, valid "
                    "are several hosts with several ranks each; "
                    "for reduce_scatter and allgather as many ranks on each; "
                    "for hosts_dealt groups of hosts; gather, scatter and "
                    "alltoall have neither",
                    s->job->options.ranks_per_host);
    if (kept == 0 && s->ntrials == 0)
        options_die(s->job->program,
                    "--algo: found \"%s\", which serves no such ranks in the "
                    "order %s",
                    s->job->options.algo, s->job->options.order);
    if (kept == 0)
        options_die(s->job->program,
                    "--max-messages: found %g, which leaves nothing to "
                    "simulate",
                    s->job->limits.max_messages);
    s->ntrials = kept;
    qsort(s->trials, (size_t)kept, sizeof(*s->trials), in_order);
}

void sim_collective(struct sim_job *job, enum coll_kind kind)
{
    struct sweep s = {.job = job, .kind = kind};
    read_algos(&s);
    read_sizes(&s);
    if (job->options.costs && !s.all && !s.nnamed)
        options_die(job->program,
                    "--costs: found no --algo, valid is --algo all or names");
    if (job->options.plot && job->nnranks > 1 && s.nsizes > 1)
        options_die(job->program,
                    "--plot: found %d lengths and %d numbers of ranks, valid "
                    "is one of either (-b alone, or one -n)",
                    s.nsizes, job->nnranks);
    struct world *worlds = calloc((size_t)job->nnranks, sizeof(*worlds));
    struct sim_pricing *pricing =
        calloc((size_t)job->nnranks, sizeof(*pricing));
    if (!worlds || !pricing)
        sim_fail("no memory for the results");
    for (int i = 0; i < job->nnranks; i++) {
        struct choices choices;
        sim_open_world(job, i, &worlds[i]);
        if (job->options.costs)
            choices = (struct choices){.world = &worlds[i]};
        else if (choices_open(&choices, &worlds[i], ANY_ORDER) < 0)
            sim_fail(fail_sentence());
        if (s.all || s.nnamed)
            try_asked(&s, &worlds[i], &choices);
        else
            try_chosen(&s, &worlds[i], &choices);
        pricing[i] = (struct sim_pricing){choices.select.prices.rehearsals,
                                          choices.seconds};
        choices_close(&choices);
    }
    if (!job->options.costs)
        tell_left_out(&s);
    keep_done(&s);
    const struct sim_results results = {job, kind, s.trials, s.ntrials,
                                        pricing};
    if (job->options.costs)
        sim_print_costs(&results);
    else
        sim_print_table(&results);
    if (job->options.json)
        sim_write_json(&results);
    if (job->options.csv)
        sim_write_csv(&results);
    if (job->options.plot && job->options.costs)
        sim_plot_costs(&results);
    else if (job->options.plot)
        sim_write_plot(&results);
    for (int i = 0; i < job->nnranks; i++)
        world_free(&worlds[i]);
    free(worlds);
    free(pricing);
    free(s.sizes);
    free(s.trials);
}
