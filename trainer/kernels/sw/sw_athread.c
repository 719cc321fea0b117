/* SPDX-License-Identifier: MIT */
/* sw_port.h and sw_machine.h on a real SW26010, by Sunway's athread library.
 *
 * It is compiled twice, as the kernels are: with the compiler for the host core,
 * and with -DSW_SLAVE and that for the CPEs, which puts "slave_" before names.
 * NOBODY HAS RUN IT ON A SUNWAY: no such machine was at hand. tests/athread
 * declares what it uses of the library, and tests/sw_athread_test.c runs it
 * with a stand-in made of threads.
 */
#include "kernels/sw/sw_kernels.h"

/* What the host hands to all CPEs. */
struct task {
    void (*kernel)(struct sw_cpe *, const void *); /* the CPEs' own */
    const void *argument;
    size_t bytes;
};

void sw_athread_run(void *task); /* on a CPE */

#if defined(SW_SLAVE)
/* --- on the CPEs -------------------------------------------------------- */

#include <simd.h>
#include <slave.h>

enum { BROADCAST = 8, ALL = 0xffff };

struct sw_cpe {
    int row, column;
    size_t used;
};

/* In the LDM, where all that is local to a thread is, and the stack. */
__thread_local _Alignas(32) unsigned char ldm[SW_LDM_FOR_DATA];
__thread_local _Alignas(32) unsigned char argument[SW_ARGUMENT_BYTES];

/* A register as the compiler has it. */
union both {
    doublev4 hardware;
    struct sw_vector vector;
};

int sw_row(const struct sw_cpe *cpe)
{
    return cpe->row;
}

int sw_column(const struct sw_cpe *cpe)
{
    return cpe->column;
}

/* Kernels that are tested never ask for too much. One that does writes to
 * NULL, at which a CPE stops. */
void *sw_ldm(struct sw_cpe *cpe, size_t bytes)
{
    void *at = ldm + cpe->used;
    cpe->used +=
        (bytes + sizeof(doublev4) - 1) / sizeof(doublev4) * sizeof(doublev4);
    return cpe->used > sizeof(ldm) ? NULL : at;
}

/* The library takes a block of 0 for one that is all. */
static int block_of(struct sw_stretch s)
{
    return s.block == s.bytes ? 0 : (int)s.block;
}

static int step_of(struct sw_stretch s)
{
    return s.block == s.bytes ? 0 : (int)s.step;
}

void sw_get(struct sw_cpe *cpe, void *to, const void *memory,
            struct sw_stretch s, struct sw_reply *reply)
{
    (void)cpe;
    athread_get(PE_MODE, (void *)memory, to, (int)s.bytes, (void *)&reply->done,
                0, step_of(s), block_of(s));
}

void sw_put(struct sw_cpe *cpe, const void *from, void *memory,
            struct sw_stretch s, struct sw_reply *reply)
{
    (void)cpe;
    athread_put(PE_MODE, (void *)from, memory, (int)s.bytes,
                (void *)&reply->done, step_of(s), block_of(s));
}

void sw_wait(struct sw_cpe *cpe, struct sw_reply *reply, int done)
{
    (void)cpe;
    while (reply->done < done)
        ;
}

void sw_row_send(struct sw_cpe *cpe, int column, struct sw_vector v)
{
    const union both b = {.vector = v};
    (void)cpe;
    simd_putr(b.hardware, column);
}

void sw_column_send(struct sw_cpe *cpe, int row, struct sw_vector v)
{
    const union both b = {.vector = v};
    (void)cpe;
    simd_putc(b.hardware, row);
}

void sw_row_broadcast(struct sw_cpe *cpe, struct sw_vector v)
{
    sw_row_send(cpe, BROADCAST, v);
}

void sw_column_broadcast(struct sw_cpe *cpe, struct sw_vector v)
{
    sw_column_send(cpe, BROADCAST, v);
}

struct sw_vector sw_row_receive(struct sw_cpe *cpe)
{
    union both b = {.vector = {{0}}};
    (void)cpe;
    b.hardware = simd_getr(b.hardware);
    return b.vector;
}

struct sw_vector sw_column_receive(struct sw_cpe *cpe)
{
    union both b = {.vector = {{0}}};
    (void)cpe;
    b.hardware = simd_getc(b.hardware);
    return b.vector;
}

void sw_sync(struct sw_cpe *cpe)
{
    (void)cpe;
    athread_syn(ARRAY_SCOPE, ALL);
}

void sw_count(struct sw_cpe *cpe, size_t instructions)
{
    (void)cpe;
    (void)instructions;
}

/* For the linker: functions that start kernels are compiled here too. */
const char *sw_spawn(struct sw_machine *m,
                     void (*kernel)(struct sw_cpe *, const void *),
                     const void *from, size_t bytes)
{
    (void)m;
    (void)kernel;
    (void)from;
    (void)bytes;
    return "only the host core starts kernels";
}

/* Transfers are of multiples of 4 bytes, and so are arguments with pointers. */
static void fetch(void *to, const void *from, size_t bytes)
{
    struct sw_reply reply = {0};
    const struct sw_stretch whole = {bytes, bytes, 0};
    sw_get(NULL, to, from, whole, &reply);
    sw_wait(NULL, &reply, 1);
}

void sw_athread_run(void *from)
{
    const int id = athread_get_id(-1);
    struct sw_cpe cpe = {id / SW_SIDE, id % SW_SIDE, 0};
    struct task task;
    fetch(&task, from, sizeof(task));
    if (task.bytes)
        fetch(argument, task.argument, task.bytes);
    task.kernel(&cpe, argument);
}

#else
/* --- on the host core --------------------------------------------------- */

#include <athread.h>
#include <stdlib.h>

#include "kernels/sw/sw_machine.h"

struct sw_machine {
    size_t spawns;
};

extern void SLAVE_FUN(sw_athread_run)(void *);
#define SW_KERNEL(name)                                                        \
    extern void SLAVE_FUN(name)(struct sw_cpe *, const void *);
#include "kernels/sw/sw_kernels.def"
#undef SW_KERNEL

/* A kernel as the host names it, and as the CPEs do. */
static const struct {
    void (*host)(struct sw_cpe *, const void *);
    void (*slave)(struct sw_cpe *, const void *);
} kernels[] = {
#define SW_KERNEL(name) {name, SLAVE_FUN(name)},
#include "kernels/sw/sw_kernels.def"
#undef SW_KERNEL
};

size_t sw_machine_bytes(void)
{
    return sizeof(struct sw_machine);
}

/* One core group a process, as Sunway's launcher places them. */
struct sw_machine *sw_machine_create(void *memory)
{
    struct sw_machine *m = memory;
    m->spawns = 0;
    athread_init();
    return m;
}

void sw_machine_free(struct sw_machine *m)
{
    (void)m;
    athread_halt();
}

void sw_machine_set_depth(struct sw_machine *m, int depth)
{
    (void)m;
    (void)depth; /* the hardware has its own */
}

/* The hardware counts neither bytes nor messages for us. */
struct sw_counts sw_machine_counts(const struct sw_machine *m)
{
    return (struct sw_counts){.spawns = m->spawns};
}

void sw_machine_clear(struct sw_machine *m)
{
    m->spawns = 0;
}

const char *sw_spawn(struct sw_machine *m,
                     void (*kernel)(struct sw_cpe *, const void *),
                     const void *argument, size_t bytes)
{
    struct task task = {NULL, argument, bytes};
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        if (kernels[i].host == kernel)
            task.kernel = kernels[i].slave;
    if (!task.kernel)
        return "a kernel that is not in sw_kernels.def";
    if (bytes > SW_ARGUMENT_BYTES)
        return "an argument is too long";
    m->spawns++;
    if (athread_spawn(sw_athread_run, &task))
        return "athread_spawn failed";
    return athread_join() ? "athread_join failed" : NULL;
}

/* --- what the host's copy of kernels calls, which never runs ------------- */

int sw_row(const struct sw_cpe *cpe)
{
    (void)cpe;
    abort();
}

int sw_column(const struct sw_cpe *cpe)
{
    return sw_row(cpe);
}

void sw_sync(struct sw_cpe *cpe)
{
    sw_row(cpe);
}

void *sw_ldm(struct sw_cpe *cpe, size_t bytes)
{
    (void)bytes;
    sw_row(cpe);
    return NULL;
}

void sw_get(struct sw_cpe *cpe, void *to, const void *memory,
            struct sw_stretch s, struct sw_reply *reply)
{
    (void)to;
    (void)memory;
    (void)s;
    (void)reply;
    sw_row(cpe);
}

void sw_put(struct sw_cpe *cpe, const void *from, void *memory,
            struct sw_stretch s, struct sw_reply *reply)
{
    sw_get(cpe, memory, from, s, reply);
}

void sw_wait(struct sw_cpe *cpe, struct sw_reply *reply, int done)
{
    (void)reply;
    (void)done;
    sw_row(cpe);
}

void sw_row_send(struct sw_cpe *cpe, int column, struct sw_vector v)
{
    (void)column;
    (void)v;
    sw_row(cpe);
}

void sw_column_send(struct sw_cpe *cpe, int row, struct sw_vector v)
{
    sw_row_send(cpe, row, v);
}

void sw_row_broadcast(struct sw_cpe *cpe, struct sw_vector v)
{
    sw_row_send(cpe, 0, v);
}

void sw_column_broadcast(struct sw_cpe *cpe, struct sw_vector v)
{
    sw_row_send(cpe, 0, v);
}

struct sw_vector sw_row_receive(struct sw_cpe *cpe)
{
    sw_row(cpe);
    return (struct sw_vector){{0}};
}

struct sw_vector sw_column_receive(struct sw_cpe *cpe)
{
    return sw_row_receive(cpe);
}

void sw_count(struct sw_cpe *cpe, size_t instructions)
{
    (void)instructions;
    sw_row(cpe);
}

#endif
