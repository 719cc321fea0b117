/* SPDX-License-Identifier: MIT */
/* For the tests of machines. */
#ifndef TESTS_TOPO_H
#define TESTS_TOPO_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "coll/topo.h"

static inline coll_topo *parse(const char *text)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    const coll_status status =
        coll_topo_parse(&topo, text, "test", error, sizeof(error));
    cr_assert_eq(status, COLL_OK, "%s: %s", text, error);
    return topo;
}

static inline char *notation(const coll_topo *topo)
{
    const size_t length = coll_topo_print_notation(topo, NULL, 0);
    char *text = malloc(length + 1);
    cr_assert_eq(coll_topo_print_notation(topo, text, length + 1), length);
    cr_assert_eq(strlen(text), length);
    return text;
}

static inline void check_round_trip(const coll_topo *topo)
{
    char *text = notation(topo);
    coll_topo *again = parse(text);
    cr_assert(coll_topo_equal(topo, again), "%s", text);
    char *second = notation(again);
    cr_assert_str_eq(text, second);
    free(second);
    free(text);
    coll_topo_free(again);
}

static inline int count(const coll_topo *topo, coll_topo_kind kind)
{
    return coll_topo_count(topo, kind);
}

#endif
