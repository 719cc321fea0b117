/* SPDX-License-Identifier: MIT */
#include "sweep.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "determinism.h"
#include "group.h"
#include "limit.h"
#include "measure.h"
#include "overlap.h"

/* For the vectors that are measured, but not for those by which the ranks start
 * together and gather what they timed. NULL: whatever the library and COLL_ALGO
 * choose. */
static void force(const struct measure *m, const char *algorithm)
{
    const enum collective c = m->shape.collective;
    const size_t bytes = measure_bytes(m);
    char rules[160];
    if (!algorithm)
        return;
    if (c == ALLREDUCE)
        snprintf(rules, sizeof rules, "allreduce:%zu-%zu:%s", bytes, bytes + 1,
                 algorithm);
    else
        snprintf(rules, sizeof rules, "%s:%s", collective_model(c), algorithm);
    job_check(m->job, coll_comm_set_algorithm(m->job->comm, rules));
}

static void explain(const struct measure *m, struct bench_result *result)
{
    const struct bench_options *const o = &m->bench->options;
    const char *const model = collective_model(m->shape.collective);
    coll_choice choice;
    *result = (struct bench_result){0};
    result->algorithm = "auto";
    if (!model)
        return;
    job_check(m->job, coll_explain(m->job->comm, model, m->count, o->dtype,
                                   o->op, &choice));
    result->algorithm = choice.algorithm;
    result->predicted = choice.predicted_seconds;
}

/* One row; false if the algorithm cannot serve this job. */
static bool measure_row(struct measure *m, const char *algorithm,
                        struct determinism *determinism,
                        struct bench_result *result)
{
    force(m, algorithm);
    const bool fits = !algorithm || measure_fits(m);
    if (fits) {
        explain(m, result);
        measure_run(m, result);
        if (m->bench->options.overlap
            && collective_at_once(m->shape.collective))
            overlap_run(m, result);
        if (m->bench->options.group && collective_at_once(m->shape.collective))
            group_run(m, result);
        if (determinism && collective_reduces(m->shape.collective))
            determinism_run(determinism, m, result);
    }
    if (algorithm)
        job_check(m->job, coll_comm_set_algorithm(m->job->comm, NULL));
    return fits;
}

static struct bench_result *new_result(struct bench *bench)
{
    struct bench_result *const grown =
        realloc(bench->results, ((size_t)bench->nresults + 1) * sizeof *grown);
    if (!grown)
        job_no_memory(sizeof *grown);
    bench->results = grown;
    return &grown[bench->nresults];
}

/* What all sizes of a run share. */
struct sweep {
    struct bench *bench;
    struct measure measure;
    struct limit *limit;
    struct determinism *determinism;
    const struct baseline *base;
};

/* The size that *measure is at, with the wanted algorithms, which are few. */
static int sweep_size(struct sweep *s, const char *const *algorithms,
                      int nalgorithms)
{
    struct measure *const m = &s->measure;
    const struct limit_bound limit = limit_of(s->limit, m);
    int measured = 0;
    for (int a = 0; a < nalgorithms; a++) {
        struct bench_result *const r = new_result(s->bench);
        if (!measure_row(m, algorithms[a], s->determinism, r))
            continue;
        r->limit = limit.seconds;
        r->limit_by = limit.by;
        if (s->base)
            r->before = baseline_p50(s->base, s->bench, r);
        if (m->job->rank == 0)
            table_row(s->bench, m->job, r);
        s->bench->nresults++;
        measured++;
    }
    return measured;
}

/* NULL stands for the library's own choice. */
static int wanted_algorithms(const struct bench_options *o, enum collective c,
                             const char *out[COLLECTIVE_ALGORITHMS])
{
    const char *of[COLLECTIVE_ALGORITHMS];
    const int nof = collective_algorithms(c, of);
    char name[ALGORITHM_BYTES];
    int n = 0;
    if (o->algorithms && strcmp(o->algorithms, "all") == 0)
        return collective_algorithms(c, out);
    if (!o->algorithms)
        out[n++] = NULL;
    else
        for (const char *at = o->algorithms; collective_next_name(&at, name);) {
            if (strcmp(name, "auto") == 0 && n < COLLECTIVE_ALGORITHMS)
                out[n++] = NULL;
            for (int i = 0; i < nof && n < COLLECTIVE_ALGORITHMS; i++)
                if (strcmp(of[i], name) == 0)
                    out[n++] = of[i];
        }
    return n;
}

/* S in elements, rounded down so that it has whole parts, but at least one. */
static size_t count_for(const struct measure *m, double bytes)
{
    const size_t parts = collective_parts(m->shape.collective, m->job->nranks);
    const size_t count = (size_t)bytes / (m->inputs.elem_bytes * parts);
    return count < 1 ? 1 : count;
}

static void sweep_collective(struct sweep *s, enum collective c)
{
    const struct bench_options *const o = &s->bench->options;
    struct measure *const m = &s->measure;
    const bool tells = m->job->rank == 0, once = !collective_has_vectors(c);
    const char *algorithms[COLLECTIVE_ALGORITHMS];
    const bool pairs = c != PINGPONG || m->job->nranks > 1;
    const int nalgorithms = pairs ? wanted_algorithms(o, c, algorithms) : 0;
    size_t last = 0;
    measure_collective(m, c);
    if (tells)
        table_collective(s->bench, c);
    if (tells && !pairs)
        printf("# it takes two ranks\n");
    else if (tells && nalgorithms == 0)
        printf("# it has no algorithm of this name\n");
    for (double bytes = (double)o->min_bytes;
         bytes <= (double)o->max_bytes && nalgorithms > 0; bytes *= o->factor) {
        const size_t count = count_for(m, bytes);
        if (count == last)
            continue;
        last = count;
        measure_size(m, once ? 0 : count);
        if (sweep_size(s, algorithms, nalgorithms) == 0 && tells)
            printf("# %zu bytes: %s cannot serve %d ranks\n", measure_bytes(m),
                   o->algorithms, m->job->nranks);
        if (once)
            break;
    }
}

/* The longest vector of the run, in bytes. */
static size_t longest(const struct bench_options *o, int nranks)
{
    const size_t elem = coll_dtype_bytes(o->dtype);
    size_t most = o->max_bytes > elem ? o->max_bytes : elem;
    for (int c = 0; c < NCOLLECTIVES; c++) {
        const size_t least =
            collective_parts((enum collective)c, nranks) * elem;
        if (o->collectives[c] && least > most)
            most = least;
    }
    return most;
}

/* 32 bits, so that a double has it. */
static double hash_of(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* Or ranks would wait for each other in different measurements. */
static void check_agreement(const struct job *job,
                            const struct bench_options *o)
{
    const double of[] = {(double)o->min_bytes,
                         (double)o->max_bytes,
                         o->factor,
                         (double)o->iterations,
                         (double)o->warmup,
                         (double)o->root,
                         o->pause,
                         (double)o->dtype,
                         (double)o->op,
                         (double)o->group,
                         o->in_place,
                         o->cold,
                         o->check_every,
                         o->overlap,
                         hash_of(o->algorithms),
                         hash_of(o->memory),
                         hash_of(o->determinism)};
    enum { OTHERS = sizeof of / sizeof of[0], ALL = OTHERS + NCOLLECTIVES };
    double bounds[2 * ALL];
    for (int i = 0; i < ALL; i++) {
        bounds[i] = i < OTHERS ? of[i] : o->collectives[i - OTHERS];
        bounds[ALL + i] = -bounds[i];
    }
    job_max(job, bounds, 2 * ALL);
    for (int i = 0; i < ALL; i++)
        if (bounds[i] != -bounds[ALL + i])
            job_refuse(2, "ranks have different options; all need the same");
}

void sweep(struct bench *bench, const struct job *job,
           const struct baseline *base)
{
    const size_t most = longest(&bench->options, job->nranks);
    struct sweep s = {.bench = bench, .base = base};
    measure_create(&s.measure, job, bench, most);
    check_agreement(job, &bench->options); /* all have what they need */
    s.limit = limit_create(&s.measure, most, &bench->limits);
    s.determinism = determinism_create(job, &bench->options);
    if (job->rank == 0) {
        table_head(bench, job);
        if (base && baseline_nranks(base) != job->nranks)
            printf("# the baseline was measured on %d ranks\n",
                   baseline_nranks(base));
    }
    for (int c = 0; c < NCOLLECTIVES; c++)
        if (bench->options.collectives[c])
            sweep_collective(&s, (enum collective)c);
    determinism_free(s.determinism);
    limit_free(s.limit);
    measure_free(&s.measure);
}
