/* SPDX-License-Identifier: MIT */
/* What comes first of an agenda: random things put there, moved and dropped,
 * against a list that is searched every time. */
#include <criterion/criterion.h>

#include "transport/agenda.h"
#include "draw.h"

enum { THINGS = 200 };

struct entry {
    bool there;
    double at;
    long turn;
};

static int first_of(const struct entry *all)
{
    int first = -1;
    for (int i = 0; i < THINGS; i++)
        if (all[i].there
            && (first < 0 || all[i].at < all[first].at
                || (all[i].at == all[first].at
                    && all[i].turn < all[first].turn)))
            first = i;
    return first;
}

/* Mostly in order within its row, sometimes before what stands there; often of
 * one instant with others. */
static double draw_time(double now, int row)
{
    return now + (draw(8) ? row : draw(2 * AGENDA_ROWS));
}

static void check(unsigned seed)
{
    struct agenda a = {.nheap = 0};
    struct entry all[THINGS] = {{.there = false}};
    long turns = 0;
    double now = 0;
    draw_state = seed;
    for (int step = 0; step < 2000; step++) {
        const int what = draw(THINGS), row = draw(AGENDA_ROWS);
        const int first = first_of(all);
        const struct agenda_item *found = agenda_first(&a);
        cr_assert_eq(found ? found->what : -1, first, "seed %u, step %d", seed,
                     step);
        if (first >= 0 && draw(2)) {
            cr_assert_eq(found->at, all[first].at);
            now = found->at;
            agenda_drop(&a, first);
            all[first].there = false;
        } else if (draw(8) == 0) {
            agenda_drop(&a, what);
            all[what].there = false;
        } else {
            const double at = draw_time(now, row);
            cr_assert(agenda_put(&a, (struct agenda_item){
                                         .at = at,
                                         .what = what,
                                         .row = (uint16_t)row,
                                     }));
            const long turn = all[what].there ? all[what].turn : turns++;
            all[what] = (struct entry){true, at, turn};
        }
    }
    agenda_free(&a);
}

Test(agenda, random_things_come_in_order)
{
    for (unsigned seed = 1; seed <= 300; seed++)
        check(seed);
}
