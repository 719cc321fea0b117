/* SPDX-License-Identifier: MIT */
/* A reduction of the program's own: linear functions, composed in the order of
 * the ranks. It does not commute.
 *
 *   cc reduction.c $(pkg-config --cflags --libs coll) -o reduction
 *   collrun -n 4 ./reduction
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

/* An element of two numbers travels as one of 64 bits. */
struct line {
    int32_t slope, offset; /* x becomes slope * x + offset */
};

static void compose(void *out, const void *a, const void *b, size_t count,
                    coll_dtype dtype, void *context)
{
    const struct line *first = a, *second = b;
    struct line *both = out;
    (void)dtype, (void)context;
    for (size_t i = 0; i < count; i++)
        both[i] = (struct line){
            second[i].slope * first[i].slope,
            second[i].slope * first[i].offset + second[i].offset,
        };
}

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "reduction: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    coll_comm *comm;
    coll_op op;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    struct line mine = {2, rank}, all, wanted = {1, 0};

    check(coll_red_op_create(&op, compose, NULL, 0, comm));
    check(coll_allreduce(&mine, &all, 1, COLL_I64, op, comm, NULL));
    for (int r = 0; r < n; r++)
        wanted = (struct line){2 * wanted.slope, 2 * wanted.offset + r};
    printf("rank %d of %d: x becomes %d x + %d\n", rank, n, (int)all.slope,
           (int)all.offset);

    check(coll_red_op_destroy(op, comm));
    check(coll_comm_destroy(comm));
    return all.slope != wanted.slope || all.offset != wanted.offset;
}
