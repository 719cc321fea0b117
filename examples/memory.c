/* SPDX-License-Identifier: MIT */
/* Vectors that the other ranks of a host reach without a copy: in memory of the
 * library's, and in memory of the program's own.
 *
 *   cc memory.c $(pkg-config --cflags --libs coll) -o memory
 *   collrun -n 4 ./memory
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coll/coll.h"

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "memory: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    enum { COUNT = 1 << 20, BYTES = COUNT * sizeof(float) }; /* whole pages */
    coll_comm *comm;
    void *memory, *handle;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);

    check(coll_mem_alloc(&memory, BYTES));
    float *in = memory, *out = aligned_alloc((size_t)getpagesize(), BYTES);
    check(coll_comm_register(comm, out, BYTES, &handle));
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)rank;
    check(coll_allreduce(in, out, COUNT, COLL_F32, COLL_MAX, comm, NULL));
    check(coll_comm_deregister(comm, handle)); /* before it is freed */

    const float most = out[COUNT - 1];
    printf("rank %d of %d: the largest is %g\n", rank, n, most);
    free(out);
    check(coll_comm_destroy(comm));
    check(coll_mem_free(memory)); /* it serves any communicator */
    return most != (float)(n - 1);
}
