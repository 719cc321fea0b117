/* SPDX-License-Identifier: MIT */
/* COLL_ALGO: which algorithms may serve which sizes.
 *
 *   [collective:]item[;item...]   item = [from-to:][^]name[,name]
 *                                 name = algorithm[@order] or @order
 *
 * Sizes are in bytes with K, M, G; an open end is left out ("4k-"), a ^
 * forbids. Several rules for one size must all allow an algorithm. An order is
 * one of layout_order_names[]; without, all are meant. "@by_hosts" alone means
 * every order by hosts, but "ring@by_hosts" one candidate.
 */
#ifndef COMM_RULES_H
#define COMM_RULES_H

#include "algo/algo.h"
#include "comm/layout.h"

enum { MAX_RULES = 32 };

struct rule {
    enum coll_kind kind;
    size_t min_bytes, max_bytes; /* [min, max) */
    bool may[NLINEUPS][NALGOS];  /* [o][i]: algos[i] in order o */
};

struct rules {
    struct rule rule[MAX_RULES];
    int n;
};

/* Replaces the rules by those of the text; unchanged on failure. source is
 * named in the sentence of an error. */
coll_status rules_parse(struct rules *, const char *text, const char *source);

/* Whether all sizes in [from, to) have the same rules. */
bool rules_alike(const struct rules *, enum coll_kind, size_t from, size_t to);

/* Whether algos[i] may serve in this order; ways of node/ have the one given.
 */
bool rules_allow(const struct rules *, int i, enum layout_order, size_t bytes);

#endif
