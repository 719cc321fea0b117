/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "stragglers.h"

Test(stragglers, the_slowest_and_by_how_much)
{
    struct stragglers s;
    double late;
    cr_assert_eq(stragglers_open(&s, 3), 0);
    cr_expect_eq(stragglers_step(&s, (double[]){1, 4, 2}, &late), 1);
    cr_expect_float_eq(late, 2.5, 1e-12);
    cr_expect_eq(stragglers_step(&s, (double[]){3, 3, 3}, &late), 0);
    cr_expect_float_eq(late, 0, 1e-12);
    cr_expect_eq(stragglers_step(&s, (double[]){0, 0, 5}, &late), 2);
    cr_expect_float_eq(late, 5, 1e-12);
    cr_expect_eq(s.nsteps, 3);
    stragglers_close(&s);
}

/* What is printed and logged of `steps` steps; the caller frees both. */
static void report(const struct stragglers *s, char **text, char **json)
{
    size_t bytes;
    FILE *to = open_memstream(text, &bytes);
    stragglers_print(s, to);
    fclose(to);
    to = open_memstream(json, &bytes);
    stragglers_write(s, to);
    fclose(to);
}

/* Rank 2 is the slowest in every fourth step besides what chance makes of it.
 */
static void run(struct stragglers *s, int nranks, long steps, int often)
{
    double worked[8], late;
    cr_assert_eq(stragglers_open(s, nranks), 0);
    for (long i = 0; i < steps; i++) {
        for (int r = 0; r < nranks; r++)
            worked[r] = 1 + 0.1 * random_unit(3, (uint64_t)(i * 8 + r));
        if (often && i % often == 0)
            worked[2] += 1;
        stragglers_step(s, worked, &late);
    }
}

Test(stragglers, only_more_often_than_chance_is_named)
{
    struct stragglers s;
    char *text, *json;
    for (int often = 0; often <= 4; often += 4)
        for (int n = 3; n <= 8; n++) {
            run(&s, n, 1000, often);
            for (int r = 0; r < n; r++)
                cr_expect_eq(stragglers_often(&s, r), often && r == 2,
                             "rank %d of %d", r, n);
            report(&s, &text, &json);
            cr_expect_eq(strstr(text, "rank 2 was the slowest in ") != NULL,
                         often > 0, "%s", text);
            cr_expect_eq(strstr(text, "no rank") != NULL, !often, "%s", text);
            cr_expect_eq(!strcmp(json, "[]"), !often, "%s", json);
            cr_expect_eq(!strncmp(json, "[{\"rank\": 2, \"share\": 0.", 23),
                         often > 0, "%s", json);
            free(text);
            free(json);
            stragglers_close(&s);
        }
}

/* Of many ranks each is the slowest in few steps, and none is to blame. */
Test(stragglers, chance_is_not_blamed_where_ranks_are_many)
{
    enum { RANKS = 64, JOBS = 300 };
    const long lengths[] = {1, 3, 10, 100};
    for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
        int blamed = 0;
        for (uint64_t job = 0; job < JOBS; job++) {
            struct stragglers s;
            double worked[RANKS], late;
            bool any = false;
            cr_assert_eq(stragglers_open(&s, RANKS), 0);
            for (long i = 0; i < lengths[k]; i++) {
                for (int r = 0; r < RANKS; r++)
                    worked[r] = random_unit(job, (uint64_t)(i * RANKS + r));
                stragglers_step(&s, worked, &late);
            }
            for (int r = 0; r < RANKS; r++)
                any |= stragglers_often(&s, r);
            blamed += any;
            stragglers_close(&s);
        }
        cr_expect_leq(blamed, JOBS / 50, "%ld steps: %d of %d jobs", lengths[k],
                      blamed, JOBS);
    }
}

Test(stragglers, one_of_many_is_named_soon)
{
    struct stragglers s;
    double worked[64] = {[5] = 1}, late;
    cr_assert_eq(stragglers_open(&s, 64), 0);
    for (int i = 0; i < 3; i++)
        stragglers_step(&s, worked, &late);
    cr_expect(stragglers_often(&s, 5));
    cr_expect_not(stragglers_often(&s, 0));
    stragglers_close(&s);
}

Test(stragglers, one_rank_has_none)
{
    struct stragglers s;
    char *text, *json;
    cr_assert_eq(stragglers_open(&s, 1), 0);
    report(&s, &text, &json);
    cr_expect_str_eq(text, "");
    cr_expect_str_eq(json, "[]");
    free(text);
    free(json);
    stragglers_close(&s);
}
