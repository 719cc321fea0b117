/* SPDX-License-Identifier: MIT */
/* How long a job takes to be ready, and what a rank then holds: for scale.py.
 *
 * Rank 0 prints one line of JSON with the largest of all ranks: seconds of
 * coll_comm_init(), of the first allreduce and of the best of some later ones,
 * and KiB of memory, resident and as this rank's share of what it shares, less
 * what the process had before.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "coll_start"
#include "small.h"

enum { INIT, FIRST, LATER, RESIDENT, SHARE, NFIGURES };

/* A line such as "Rss:  1234 kB" of this process's smaps_rollup; 0: the kernel
 * does not tell. */
static double memory_kib(const char *name)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, name, strlen(name)))
            kib = strtod(line + strlen(name), NULL);
    if (file)
        fclose(file);
    return kib;
}

int main(void)
{
    enum { LATER_TIMES = 20 };
    coll_comm *comm;
    double mine[NFIGURES], most[NFIGURES];
    float in[2] = {1, 1}, out[2];
    const double resident = memory_kib("Rss:"), share = memory_kib("Pss:");
    const double begun = now();
    check(coll_comm_init(&comm));
    const double ready = now();
    mine[INIT] = ready - begun;
    check(coll_allreduce(in, out, 2, COLL_F32, COLL_SUM, comm, NULL));
    mine[FIRST] = now() - ready;
    mine[LATER] = INFINITY;
    for (int i = 0; i < LATER_TIMES; i++) {
        const double before = now();
        check(coll_allreduce(in, out, 2, COLL_F32, COLL_SUM, comm, NULL));
        mine[LATER] = fmin(mine[LATER], now() - before);
    }
    const int n = coll_comm_count(comm);
    if (out[0] != (float)n || out[1] != (float)n) {
        fprintf(stderr, "coll_start: sums %g and %g are not %d\n",
                (double)out[0], (double)out[1], n);
        return 1;
    }
    mine[RESIDENT] = memory_kib("Rss:") - resident;
    mine[SHARE] = memory_kib("Pss:") - share;
    check(coll_allreduce(mine, most, NFIGURES, COLL_F64, COLL_MAX, comm, NULL));
    if (coll_comm_user_rank(comm) == 0)
        printf("{\"nranks\": %d, \"init_s\": %.6f, \"first_s\": %.6f, "
               "\"later_s\": %.9f, \"resident_kib\": %.0f, \"share_kib\": "
               "%.0f}\n",
               n, most[INIT], most[FIRST], most[LATER], most[RESIDENT],
               most[SHARE]);
    check(coll_comm_destroy(comm));
    return 0;
}
