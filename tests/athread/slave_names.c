/* SPDX-License-Identifier: MIT */
/* The CPEs' functions by the names that Sunway's compiler gives them, and the
 * only ones that the library of the CPEs' half shows. */
#include "kernels/sw/sw_kernels.h"

#define SHOWN __attribute__((visibility("default")))
#define SW_KERNEL(name)                                                        \
    SHOWN void slave_##name(struct sw_cpe *, const void *argument);            \
    SHOWN void slave_##name(struct sw_cpe *cpe, const void *argument)          \
    {                                                                          \
        name(cpe, argument);                                                   \
    }
#include "kernels/sw/sw_kernels.def"
#undef SW_KERNEL

void sw_athread_run(void *task);
SHOWN void slave_sw_athread_run(void *task);

SHOWN void slave_sw_athread_run(void *task)
{
    sw_athread_run(task);
}
