/* SPDX-License-Identifier: MIT */
/* For the tests of selection: priced candidates, and what is chosen of them. */
#ifndef TESTS_SELECTS_H
#define TESTS_SELECTS_H

#include <criterion/criterion.h>

#include "base/log.h"
#include "comm/select.h"
#include "price_all.h"

static const struct layout_costs fast = {
    .local = {1e-6, 1e-10, 0},
    .remote = {2e-5, 1e-9,  0},
    .gamma = 1e-10,
};

static inline struct select_choice choice_of(struct select *s,
                                             enum coll_kind kind, size_t bytes)
{
    struct select_choice choice = {.algo = -1};
    select_best(s, kind, bytes, &choice);
    return choice;
}

/* by_hosts: ranks on a host, which share memory. */
static inline void price_hosts(struct select *s, int n, const uint64_t *hosts,
                               int by_hosts)
{
    struct layout layout;
    struct layout_costs costs = fast;
    costs.remote.overhead = 1e-6; /* a message for each rank is not for free */
    select_free(s);
    cr_assert_eq(layout_create(&layout, n, hosts, NULL, NULL, &costs), COLL_OK);
    layout.by_hosts = by_hosts;
    cr_assert_eq(price_all(&s->prices, &layout, 1e6, 1e9), COLL_OK, "%s",
                 fail_sentence());
    layout_free(&layout);
}

#endif
