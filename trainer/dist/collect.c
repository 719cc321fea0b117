/* SPDX-License-Identifier: MIT */
#include "dist/collect.h"

#include <stdlib.h>

enum { PART = 1 << 18, TAG = 0 }; /* floats of a message: 1 MiB */

size_t floats_count(const struct floats *f)
{
    size_t count = 0;
    for (int i = 0; i < f->n; i++)
        count += f->spans[i].count;
    return count;
}

coll_status collect_counts(coll_comm *comm, const struct floats *mine,
                           uint64_t *counts)
{
    const uint64_t count = floats_count(mine);
    return coll_gather(&count, counts, 1, COLL_U64, 0, comm, NULL);
}

static coll_status send_all(coll_comm *comm, const struct floats *f)
{
    for (int i = 0; i < f->n; i++) {
        const struct span s = f->spans[i];
        for (size_t at = 0; at < s.count; at += PART) {
            const size_t n = s.count - at < PART ? s.count - at : PART;
            const coll_status status =
                coll_send(s.x + at, n, COLL_F32, 0, TAG, comm, NULL);
            if (status)
                return status;
        }
    }
    return COLL_OK;
}

coll_status collect(coll_comm *comm, const struct floats *mine,
                    const uint64_t *counts, take_fn *take, void *context)
{
    if (coll_comm_user_rank(comm))
        return send_all(comm, mine);
    coll_status status = COLL_OK;
    float *part = malloc(PART * sizeof(*part));
    if (!part)
        return COLL_ERR_MEMORY;
    for (int i = 0; i < mine->n; i++)
        take(context, 0, mine->spans[i].x, mine->spans[i].count);
    for (int rank = 1; !status && rank < coll_comm_count(comm); rank++)
        for (uint64_t at = 0; !status && at < counts[rank];) {
            coll_message m = {0};
            status = coll_recv(part, PART, COLL_F32, rank, TAG, comm, &m, NULL);
            if (!status)
                take(context, rank, part, m.count);
            at += m.count;
        }
    free(part);
    return status;
}
