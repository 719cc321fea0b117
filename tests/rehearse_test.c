/* SPDX-License-Identifier: MIT */
/* What makes rehearsals fast changes no time: random cases both ways. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm/casts.h"
#include "comm/price.h"
#include "exec/rehearse.h"
#include "draw.h"
#include "plans.h"
#include "thorough.h"

enum { MAX_RANKS = 24, CASES = 1200 };

static double draw_cost(double most)
{
    return draw(3) ? most * (1 + draw(100)) / 100 : 0;
}

/* Ranks on hosts, hosts in groups that may share links; at times crowded. */
static void draw_layout(struct layout *l, int nranks)
{
    uint64_t host_of[MAX_RANKS];
    int group_of[MAX_RANKS], machine_of[MAX_RANKS];
    const int nhosts = 1 + draw(nranks), ngroups = 1 + draw(nhosts);
    for (int r = 0; r < nranks; r++) {
        host_of[r] = (uint64_t)(r % nhosts);
        machine_of[r] = r % nhosts % 2;
    }
    for (int h = 0; h < nhosts; h++)
        group_of[h] = h % ngroups;
    const struct layout_groups groups = {
        ngroups, group_of, {1e-5, 1e-9, draw_cost(2e-6)},
          draw_cost(1e-9)
    };
    const struct layout_costs costs = {
        .local = {5e-7, 1e-10, draw_cost(1e-6)},
        .remote = {5e-6, 5e-10, draw_cost(1e-6)},
        .gamma = draw_cost(1e-9),
    };
    cr_assert_eq(layout_create(l, nranks, host_of, NULL, &groups, &costs),
                 COLL_OK);
    if (draw(4) == 0)
        cr_assert_eq(layout_crowd(l,
                                  &(struct crowd){
                                      .nmachines = 1 + (nhosts > 1),
                                      .nprocessors = 1 + draw(3),
                                      .machine_of = machine_of,
                                      .machine = draw_cost(1e-9),
                                      .turn = draw_cost(1e-5),
                                  }),
                     COLL_OK);
}

static coll_status look_at_all(void *execs, int rank,
                               const struct transfer *over)
{
    (void)over;
    return exec_progress((struct exec *)execs + rank);
}

/* As rehearse(), but that each rank looks at all of its transfers each time. */
static coll_status rehearse_plainly(const struct rehearsal *c, double *seconds)
{
    struct cast cast;
    coll_status status = cast_make(&cast, c);
    if (status < 0)
        return status;
    struct exec *execs = calloc((size_t)c->nranks, sizeof(*execs));
    struct sim *sim = sim_create(c->nranks, &c->net);
    cr_assert(execs && sim);
    for (int r = 0; r < c->nranks; r++) {
        cr_assert_eq(exec_init(&execs[r], &cast.plans[r], NULL), COLL_OK);
        execs[r].meter = sim_rank(sim, r);
        exec_start(&execs[r], &(struct exec_call){.count = c->count,
                                                  .elem_bytes = c->elem_bytes});
    }
    status = sim_run(sim, look_at_all, execs, seconds);
    for (int r = 0; r < c->nranks; r++)
        exec_free(&execs[r]);
    free(execs);
    sim_free(sim);
    cast_free(&cast);
    return status;
}

Test(rehearse, to_hear_of_the_one_transfer_that_is_over_takes_as_long)
{
    unsigned compared = 0;
    draw_state = 11;
    const unsigned all = cases(CASES, CASES / 9);
    for (unsigned i = 0; i < all; i++) {
        const struct algo *algo = &algos[draw(nplanned)];
        const int nranks = 2 + draw(MAX_RANKS - 1);
        const struct plan_shape shape = {.nranks = nranks,
                                         .segments = 1 + draw(16)};
        const size_t bytes = even_parts(algo, nranks, (size_t)1 << draw(26));
        struct layout l;
        draw_layout(&l, nranks);
        const struct rehearsal c = {.plan = algo->plan,
                                    .nranks = nranks,
                                    .segments = shape.segments,
                                    .count = bytes,
                                    .elem_bytes = 1,
                                    .net = layout_net(&l, bytes)};
        double plain, fast;
        if (algo->fits(&shape) && rehearse_plainly(&c, &plain) == COLL_OK) {
            cr_assert_eq(rehearse(&c, &fast), COLL_OK);
            cr_assert_eq(fast, plain, "case %u, %s on %d ranks: %.17g, %.17g",
                         i, algo->full_name, nranks, fast, plain);
            compared++;
        }
        layout_free(&l);
    }
    cr_assert_gt(compared, all / 3);
}

/* More plans than are kept, in random order with random sizes. */
static unsigned compare_kept(unsigned seed)
{
    static struct casts casts; /* too large for a stack */
    const int nranks = 4 + draw(MAX_RANKS - 4);
    unsigned kept = 0;
    struct layout l;
    struct lineup u[NORDERS];
    draw_layout(&l, nranks);
    for (int o = 0; o < NORDERS; o++)
        cr_assert_eq(lineup_open(&u[o], &l, (enum layout_order)o), COLL_OK);
    for (int i = 0; i < 150; i++) {
        const struct lineup *at = &u[draw(NORDERS)];
        struct performance what = {.algo = &algos[draw(nplanned) / 3],
                                   .segments = 1 << draw(4),
                                   .bytes = (size_t)1 << draw(24)};
        double anew, again;
        if (!what.algo->fits(
                &(struct plan_shape){.nranks = nranks, .segments = 1})
            || lineup_rehearse(at, &what, &anew) != COLL_OK)
            continue;
        const unsigned before = casts.now;
        const size_t bytes = casts.bytes;
        cr_assert_eq(casts_get(&casts, at, &what, &what.cast), COLL_OK);
        kept += casts.now == before + 1 && casts.bytes == bytes;
        cr_assert_eq(lineup_rehearse(at, &what, &again), COLL_OK);
        cr_assert_eq(anew, again, "layout %u, case %d, %s: %.17g, %.17g", seed,
                     i, what.algo->full_name, anew, again);
    }
    casts_free(&casts);
    cr_assert_eq(casts.bytes, 0);
    for (int o = 0; o < NORDERS; o++)
        lineup_close(&u[o]);
    layout_free(&l);
    return kept;
}

Test(rehearse, plans_that_were_kept_take_as_long)
{
    unsigned kept = 0;
    draw_state = 12;
    for (unsigned i = 0; i < cases(40, 4); i++)
        kept += compare_kept(i);
    cr_assert_gt(kept, 100, "%u", kept);
}
