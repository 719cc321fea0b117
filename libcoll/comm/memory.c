/* SPDX-License-Identifier: MIT */
/* The public calls for node-shared memory. */
#include "base/log.h"
#include "comm/comm.h"
#include "node/heap.h"

/* What the system denies here leaves all communicators as they were. */
static coll_status as_memory(coll_status status)
{
    return status == COLL_ERR_SYSTEM ? COLL_ERR_MEMORY : status;
}

coll_status coll_mem_alloc(void **memory, size_t bytes)
{
    if (!memory || !bytes)
        return fail(COLL_ERR_INVALID, "comm", "coll_mem_alloc: %s",
                    memory ? "0 bytes" : "memory is NULL");
    return as_memory(heap_alloc(memory, bytes));
}

coll_status coll_mem_free(void *memory)
{
    return memory ? heap_free(memory) : COLL_OK;
}

coll_status coll_comm_register(coll_comm *comm, void *buf, size_t bytes,
                               void **handle)
{
    if (!comm || !handle)
        return fail(COLL_ERR_INVALID, "comm", "coll_comm_register: %s is NULL",
                    comm ? "handle" : "the communicator");
    const coll_status status = as_memory(heap_adopt(buf, bytes));
    if (status == COLL_OK)
        *handle = buf;
    return status;
}

coll_status coll_comm_deregister(coll_comm *comm, void *handle)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_deregister: the communicator is NULL");
    return heap_disown(handle);
}
