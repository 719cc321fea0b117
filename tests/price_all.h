/* SPDX-License-Identifier: MIT */
/* Prices of all candidates, for tests that say only how far a rehearsal may go.
 */
#ifndef TESTS_PRICE_ALL_H
#define TESTS_PRICE_ALL_H

#include "comm/price.h"

static inline coll_status price_all(struct prices *prices,
                                    const struct layout *l, double max_messages,
                                    double max_seconds)
{
    const struct price_limits limits = {.messages = max_messages,
                                        .seconds = max_seconds};
    return price_within(prices, l, &limits);
}

#endif
