/* SPDX-License-Identifier: MIT */
#include "dist/shard.h"

#include <stdlib.h>

enum { LINE = 16 }; /* floats of a cache line, which no two ranks share */

coll_status shard_open(struct shard *s, coll_comm *comm, size_t count)
{
    const size_t n = (size_t)coll_comm_count(comm),
                 me = (size_t)coll_comm_user_rank(comm);
    const size_t part = ((count + n - 1) / n + LINE - 1) / LINE * LINE;
    *s = (struct shard){.comm = comm, .counts = calloc(n, sizeof(size_t))};
    if (!s->counts)
        return COLL_ERR_MEMORY;
    for (size_t r = 0, at = 0; r < n; r++) {
        s->counts[r] = count - at < part ? count - at : part;
        if (r == me) {
            s->first = at;
            s->count = s->counts[r];
        }
        at += s->counts[r];
    }
    return COLL_OK;
}

void shard_close(struct shard *s)
{
    free(s->counts);
    *s = (struct shard){0};
}

coll_status shard_sum(const struct shard *s, float *x)
{
    return coll_reduce_scatter_v(x, x + s->first, s->counts, COLL_F32, COLL_SUM,
                                 s->comm, NULL);
}

coll_status shard_gather(const struct shard *s, float *x)
{
    return coll_allgather_v(x + s->first, x, s->counts, NULL, COLL_F32, s->comm,
                            NULL);
}

coll_status shard_collect(const struct shard *s, const float *part,
                          float *whole)
{
    return coll_gather_v(part, s->count, whole, s->counts, NULL, COLL_F32, 0,
                         s->comm, NULL);
}
