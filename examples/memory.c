/* SPDX-License-Identifier: MIT */
/* Vectors that the other ranks of a host reach without a copy: in memory of the
 * library's, and in memory of the program's own; and a table that they have in
 * common.
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

/* Each makes a part of it, and all of it is there once. */
static float share_table(coll_comm *comm, float *table, int count)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    void *handle;
    check(coll_comm_share(comm, table, (size_t)count * sizeof(float), &handle));
    for (int i = rank; i < count; i += n)
        table[i] = (float)i / 2;
    check(coll_barrier(comm, NULL)); /* who writes meets who reads */
    const float last = table[count - 1];
    check(coll_comm_deregister(comm, handle));
    return last;
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
    coll_comm *host; /* of ranks that share memory */
    check(coll_comm_split(comm, COLL_SPLIT_HOST, 0, &host, NULL));
    const float last = share_table(host, out, COUNT);
    check(coll_comm_destroy(host));
    free(out);
    check(coll_comm_destroy(comm));
    check(coll_mem_free(memory)); /* it serves any communicator */
    return most != (float)(n - 1) || last != (float)(COUNT - 1) / 2;
}
