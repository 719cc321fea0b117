/* SPDX-License-Identifier: MIT */
/* The claims of op_test.c without Criterion, in TAP, for a CPU that is only
 * emulated: tests/neon_cross.sh. */
#include <stdio.h>

#include "op/op.h"
#include "op_checks.h"

static const struct {
    const char *claim;
    bool (*holds)(void);
} checks[] = {
    {"every kernel equals scalar",              kernels_equal_scalar          },
    {"scalar equals a fold in wider types",     scalar_equals_oracle          },
    {"pairs equal wider arithmetic",            pairs_equal_oracle            },
    {"copies reach every destination",          copies_reach_every_destination},
    {"an average divides",                      finish_equals_oracle          },
    {"every narrow code survives a round trip", codes_survive_a_round_trip    },
    {"midpoints round to even",                 midpoints_round_to_even       },
};

int main(void)
{
    const int nchecks = sizeof checks / sizeof checks[0];
    int failed = 0;
    printf("1..%d\n", nchecks);
    printf("# fastest kernels: %s\n", op_isas[0].name);
    for (int i = 0; i < nchecks; i++) {
        const bool ok = checks[i].holds();
        failed += !ok;
        printf("%s %d - %s\n", ok ? "ok" : "not ok", i + 1, checks[i].claim);
    }
    return failed > 0;
}
