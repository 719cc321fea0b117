/* SPDX-License-Identifier: MIT */
#include "dist/group.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 0 where the system cannot say. */
static int node_here(void)
{
    unsigned node = 0;
    syscall(SYS_getcpu, NULL, &node, NULL);
    return (int)node;
}

coll_status group_near(coll_comm *job, coll_comm **group)
{
    coll_comm *host = NULL;
    coll_status status = coll_comm_split(job, COLL_SPLIT_HOST, 0, &host, NULL);
    if (!status)
        status = coll_comm_split(host, node_here(), 0, group, NULL);
    group_leave(host, job);
    return status;
}

void group_leave(coll_comm *group, coll_comm *job)
{
    if (group && coll_comm_get_async_error(job))
        coll_comm_abort_because(group, coll_last_error(job));
    coll_comm_destroy(group);
}
