/* SPDX-License-Identifier: MIT */
/* Inside the core group in software: what a CPE has, for sw_machine.c, which
 * gives turns, and sw_calls.c, which does what kernels ask for. */
#ifndef TRAINER_KERNELS_SW_SW_CPE_H
#define TRAINER_KERNELS_SW_SW_CPE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/sw/sw_fibre.h"
#include "kernels/sw/sw_machine.h"

enum { ROW, COLUMN, MESHES };
enum { PENDING = 64, ERROR_BYTES = 200, REGISTER_BYTES = 32 };

enum wait { NOTHING, MESSAGE, ROOM, OTHERS, FOREVER };

struct inbox {
    struct sw_vector message[SW_DEPTH];
    int first, count;
};

struct transfer {
    unsigned char *ldm, *memory;
    struct sw_stretch stretch;
    struct sw_reply *reply;
    bool put;
};

struct sw_cpe {
    struct sw_machine *machine;
    int row, column;
    enum wait wait;
    int mesh, to;  /* of what it waits for; to < 0: all others */
    unsigned turn; /* of sw_sync, that it waits for */
    bool done;
    size_t used; /* bytes of the LDM */
    struct inbox inbox[MESHES];
    struct transfer pending[PENDING];
    int npending;
    struct sw_counts counts;
    struct sw_fibre fibre;
    _Alignas(64) unsigned char argument[SW_ARGUMENT_BYTES];
    _Alignas(64) unsigned char ldm[SW_LDM_BYTES];
};

struct sw_machine {
    struct sw_cpe cpe[SW_CPES];
    unsigned char stack[SW_CPES][SW_STACK_BYTES];
    void (*kernel)(struct sw_cpe *, const void *);
    int depth;
    unsigned arrived, turn; /* at sw_sync, and how often all were */
    size_t spawns;
    char error[ERROR_BYTES];
};

/* An error: the first one counts. The CPE does not go on. */
__attribute__((format(printf, 2, 3), noreturn)) void
sw_cpe_fail(struct sw_cpe *, const char *form, ...);

/* Others have their turns until that is there. */
void sw_cpe_wait(struct sw_cpe *, enum wait what, int mesh, int to);

/* Place `i` of its row or column, and its own one there. */
struct sw_cpe *sw_cpe_neighbour(struct sw_cpe *, int mesh, int i);
int sw_cpe_place(const struct sw_cpe *, int mesh);

/* Room at whom it sends to; to < 0: at all others. */
bool sw_cpe_has_room(struct sw_cpe *, int mesh, int to);

#endif
