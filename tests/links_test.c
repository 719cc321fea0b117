/* SPDX-License-Identifier: MIT */
/* What jobs measured of their links, and what is made of several of them. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "comm/links.h"

static struct links links_with(double alpha, double rate)
{
    return (struct links){
        .inside = {.alpha = alpha,     .overhead = 2e-6, .beta = 1 / rate},
        .across = {.alpha = 2 * alpha, .overhead = 3e-6, .beta = 4 / rate},
        .local = {.alpha = 1e-6,      .overhead = 0,    .beta = 1e-10   },
        .shared = 2 / rate,
        .turn = 5e-6,
        .machine = 0,
    };
}

Test(links, the_middle_is_of_each_figure)
{
    struct links_history h = {.n = 0};
    const struct links one = links_with(10e-6, 1e9),
                       two = links_with(30e-6, 3e9),
                       three = links_with(20e-6, 9e9);
    links_add(&h, &one);
    struct links middle = links_middle(&h);
    cr_assert_eq(memcmp(&middle, &one, sizeof(one)), 0);
    links_add(&h, &two);
    cr_assert_eq(links_middle(&h).inside.alpha, 30e-6);
    cr_assert_eq(links_middle(&h).inside.beta, 1 / 1e9);
    links_add(&h, &three);
    middle = links_middle(&h);
    cr_assert_eq(middle.inside.alpha, 20e-6);
    cr_assert_eq(middle.across.alpha, 40e-6);
    cr_assert_eq(middle.inside.beta, 1 / 3e9);
    cr_assert_eq(middle.shared, 2 / 3e9);
    cr_assert_eq(middle.machine, 0);
}

/* Not half of what some found and others did not. */
Test(links, the_middle_is_what_some_job_measured)
{
    struct links_history h = {.n = 0};
    for (int n = 1; n <= LINKS_KEPT; n++) {
        struct links l = links_with(n * 1e-6, 1e9);
        l.shared = n % 2 ? 0 : n;
        links_add(&h, &l);
        const double shared = links_middle(&h).shared;
        cr_expect_eq(shared, floor(shared), "%g", shared);
    }
}

/* What a job counts with, by what it measured, once or twice. */
Test(links, what_is_unlike_earlier_jobs_is_measured_again)
{
    struct links_history h = {.n = 0};
    const struct links fast = links_with(10e-6, 1e9),
                       slow = links_with(10e-6, 1e8),
                       other = links_with(10e-6, 1e7);
    for (int i = 1; i <= 4; i++) {
        const struct links l = links_with(i * 1e-6, 1e9);
        links_add(&h, &l);
    }
    struct links now = fast;
    cr_assert_eq(links_settle(&now, &h, NULL, true), LINKS_SETTLED);
    cr_assert_eq(now.inside.alpha, 3e-6);
    now = slow;
    cr_assert_eq(links_settle(&now, &h, NULL, true), LINKS_ONCE_MORE);
    cr_assert_eq(memcmp(&now, &slow, sizeof(now)), 0);
    cr_assert_eq(links_settle(&now, &h, &slow, true), LINKS_CHANGED);
    cr_assert_eq(memcmp(&now, &slow, sizeof(now)), 0);
    cr_assert_eq(links_settle(&now, &h, &other, true), LINKS_UNCERTAIN);
    cr_assert_eq(memcmp(&now, &slow, sizeof(now)), 0);
    /* Where that cannot be: three jobs are trusted, fewer are not. */
    struct links_history two = h;
    two.n = 2;
    cr_assert_eq(links_settle(&now, &two, NULL, false), LINKS_UNCERTAIN);
    cr_assert_eq(links_settle(&now, &h, NULL, false), LINKS_SETTLED);
    cr_assert_eq(now.inside.beta, 1e-9);
    now = fast;
    cr_assert_eq(links_settle(&now, &h, &slow, true), LINKS_SETTLED);
    cr_assert_eq(now.inside.alpha, 3e-6);

    links_add(&h, &slow);
    links_keep_alike(&h, &slow);
    cr_assert_eq(h.n, 1);
    cr_assert_eq(memcmp(&h.job[0], &slow, sizeof(slow)), 0);
}

Test(links, the_latest_ones_are_kept)
{
    struct links_history h = {.n = 0};
    for (int i = 1; i <= 2 * LINKS_KEPT; i++) {
        const struct links l = links_with(i * 1e-6, 1e9);
        links_add(&h, &l);
        cr_assert_eq(h.n, i < LINKS_KEPT ? i : LINKS_KEPT);
        for (int k = 0; k < h.n; k++)
            cr_assert_float_eq(h.job[k].inside.alpha, (i - k) * 1e-6, 1e-12);
    }
}

/* Ranks that take turns make short ways seem longer, but not by so much. */
Test(links, other_rates_and_other_delays_are_other_links)
{
    static const struct {
        double alpha, rate;
        bool alike;
    } rows[] = {
        {10e-6, 1e9,    true },
        {10e-6, 0.55e9, true },
        {10e-6, 1.9e9,  true },
        {10e-6, 0.45e9, false},
        {10e-6, 2.1e9,  false},
        {1e-6,  1e9,    true },
        {90e-6, 1e9,    true },
        {1e-3,  1e9,    false},
    };
    const struct links a = links_with(10e-6, 1e9);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct links b = links_with(rows[i].alpha, rows[i].rate);
        cr_expect_eq(links_alike(&a, &b), rows[i].alike, "%zu", i);
        cr_expect_eq(links_alike(&b, &a), rows[i].alike, "%zu", i);
    }
    const struct links far = links_with(5e-3, 1e9),
                       half = links_with(2.5e-3, 1e9);
    cr_expect(links_alike(&far, &half));
    struct links other = a;
    other.across.beta *= 3;
    cr_expect_not(links_alike(&a, &other));
    other = a;
    other.shared *= 3;
    cr_expect_not(links_alike(&a, &other));
    other.shared = 0;
    cr_expect(links_alike(&a, &other));
}

static void print(const struct links *l, char *text, size_t bytes)
{
    FILE *file = fmemopen(text, bytes, "w");
    const struct links_line line = {.hosts = 0x123456789abcdef0, .links = *l};
    links_print(&line, file);
    fclose(file);
}

Test(links, a_line_says_what_was_measured)
{
    char line[512];
    struct links_line read;
    const struct links l = links_with(12.34e-6, 1.25e9);
    print(&l, line, sizeof(line));
    cr_assert_str_eq(line,
                     "links 123456789abcdef0 inside 12.34 us 2 us 1.25 GB/s "
                     "across 24.68 us 3 us 0.3125 GB/s in_host 1 us 0 us 10 "
                     "GB/s shared 0.625 GB/s turn 5 us machine 0 GB/s\n");
    cr_assert(links_begin(line));
    cr_assert(links_parse(line, &read));
    cr_assert_eq(read.hosts, 0x123456789abcdef0);
    const double *x = (const double *)&l, *y = (const double *)&read.links;
    for (size_t i = 0; i < sizeof(l) / sizeof(double); i++)
        cr_assert(fabs(x[i] - y[i]) <= 1e-3 * x[i], "%zu: %g, %g", i, x[i],
                  y[i]);
}

/* Each word and number of a line, in turn, made another one. */
Test(links, a_line_that_is_not_one_is_refused)
{
    static const char *const wrong[] = {"x", "nan", "-1", "inf", "1e300", ""};
    char line[512], damaged[1024];
    struct links_line read;
    const struct links l = links_with(10e-6, 1e9);
    print(&l, line, sizeof(line));
    for (char *at = line; at; at = strchr(at + 1, ' '))
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            const char *word = at == line ? at : at + 1;
            const size_t end = strcspn(word, " \n");
            snprintf(damaged, sizeof(damaged), "%.*s%s%s", (int)(word - line),
                     line, wrong[i], word + end);
            cr_expect_not(links_parse(damaged, &read), "%s", damaged);
        }
    snprintf(damaged, sizeof(damaged), "%.*s 1\n", (int)strlen(line) - 1, line);
    cr_expect_not(links_parse(damaged, &read), "%s", damaged);
    for (size_t n = 0; n + 1 < strlen(line); n++) {
        snprintf(damaged, sizeof(damaged), "%.*s", (int)n, line);
        cr_expect_not(links_parse(damaged, &read), "%s", damaged);
    }
    cr_expect_not(links_parse(
        "links 123456789abcdef0 inside 1 us 1 us 0 GB/s across 1 us 1 us 1 "
        "GB/s in_host 1 us 1 us 1 GB/s shared 0 GB/s turn "
        "0 us machine 0 GB/s",
        &read));
    cr_expect_not(links_begin("allreduce 8 ring given 1 us 3\n"));
}
