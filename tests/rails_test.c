/* SPDX-License-Identifier: MIT */
/* Which networks become rails, and what each carries. */
#include <criterion/criterion.h>

#include "comm/rails.h"

enum { MOST = 4 };

struct row {
    const char *why;
    double rates[6];
    int n;
    bool named;
    int nused, used[MOST], share[MOST];
};

static const struct row rows[] = {
    {"one", {25e6}, 1, false, 1, {0}, {64}},
    {"equals share alike, as they were", {25e6, 25e6}, 2, false, 2, {0, 1},
     {64, 64}},
    {"about equals are equals", {20e6, 29e6}, 2, false, 2, {0, 1}, {64, 64}},
    {"a quarter carries a fifth", {100e6, 25e6}, 2, false, 2, {0, 1}, {64, 16}},
    {"the faster one comes first", {25e6, 100e6}, 2, false, 2, {1, 0},
     {64, 16}},
    {"what is far slower is left out", {100e6, 12e6}, 2, false, 1, {0}, {64}},
    {"also that by which the ranks met", {12e6, 1e9}, 2, false, 1, {1}, {64}},
    {"but not if it was named", {100e6, 5e6}, 2, true, 2, {0, 1}, {64, 3}},
    {"names keep their order", {25e6, 100e6}, 2, true, 2, {0, 1}, {16, 64}},
    {"names of unknown rates share alike", {0, 1e9}, 2, true, 2, {0, 1},
     {64, 64}},
    {"of an unknown rate is only the first", {0, 1e9}, 2, false, 1, {0}, {64}},
    {"an unknown second is left out", {1e9, 0, 1e9}, 3, false, 2, {0, 2},
     {64, 64}},
    {"no more than the most", {5, 5, 5, 5, 5, 5}, 6, false, 4, {0, 1, 2, 3},
     {64, 64, 64, 64}},
    {"of more than the most the fastest", {1, 1, 1, 1, 5, 1}, 6, false, 4,
     {4, 0, 1, 2}, {64, 13, 13, 13}},
    {"a name far slower still carries some", {1e9, 1}, 2, true, 2, {0, 1},
     {64, 1}},
};

Test(rails, rates_decide_what_is_used_and_how_much)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        int used[MOST] = {0}, share[MOST] = {0};
        cr_expect_eq(rails_choose(row->rates, row->n, row->named, MOST, used,
                                  share),
                     row->nused, "%s", row->why);
        cr_expect_arr_eq(used, row->used, sizeof(used), "%s", row->why);
        cr_expect_arr_eq(share, row->share, sizeof(share), "%s", row->why);
    }
}
