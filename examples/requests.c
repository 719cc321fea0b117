/* SPDX-License-Identifier: MIT */
/* Several sums are under way while the program computes; each is used as soon
 * as it is there.
 *
 *   cc requests.c $(pkg-config --cflags --libs coll) -o requests
 *   COLL_PROGRESS=thread collrun -n 4 ./requests
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

enum { LAYERS = 8, COUNT = 100000 };

static float gradient[LAYERS][COUNT];

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "requests: %s\n", coll_last_error(NULL));
    exit(1);
}

static void compute(int layer, int rank)
{
    for (int i = 0; i < COUNT; i++)
        gradient[layer][i] = (float)(rank + layer);
}

int main(void)
{
    coll_comm *comm;
    coll_request *request[LAYERS];
    int layer, wrong = 0;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);

    for (layer = LAYERS - 1; layer >= 0; layer--) {
        compute(layer, rank);
        check(coll_allreduce(gradient[layer], gradient[layer], COUNT, COLL_F32,
                             COLL_SUM, comm, &request[layer]));
    }
    for (int i = 0; i < LAYERS; i++) {
        check(coll_wait_any(LAYERS, request, &layer));
        const int sum = n * (n - 1) / 2 + n * layer;
        wrong += gradient[layer][COUNT - 1] != (float)sum;
    }
    printf("rank %d of %d: %d of %d sums are right\n", rank, n, LAYERS - wrong,
           LAYERS);
    check(coll_comm_destroy(comm));
    return wrong != 0;
}
