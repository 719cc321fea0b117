/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_fibre.h"

#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *);
void __tsan_switch_to_fiber(void *, unsigned flags);
#endif
#if defined(__SANITIZE_ADDRESS__)
void __asan_unpoison_memory_region(const volatile void *, size_t);
#endif

/* makecontext hands over integers only: the two halves of the address. */
static void enter(unsigned high, unsigned low)
{
    struct sw_fibre *f =
        (struct sw_fibre *)((uintptr_t)high << 16 << 16 | (uintptr_t)low);
    f->run(f->argument);
}

void sw_fibre_start(struct sw_fibre *f, unsigned char *stack,
                    void (*run)(void *), void *argument)
{
    const uintptr_t self = (uintptr_t)f;
    f->run = run;
    f->argument = argument;
    f->stack = stack;
    getcontext(&f->here);
    f->here.uc_stack.ss_sp = stack;
    f->here.uc_stack.ss_size = SW_STACK_BYTES;
    f->here.uc_link = NULL;
    makecontext(&f->here, (void (*)(void))enter, 2,
                (unsigned)(self >> 16 >> 16), (unsigned)self);
#if defined(__SANITIZE_ADDRESS__)
    /* What an earlier function marked there, which never returned. */
    __asan_unpoison_memory_region(stack, SW_STACK_BYTES);
#endif
#if defined(__SANITIZE_THREAD__)
    f->sanitizer = __tsan_create_fiber(0);
#endif
}

void sw_fibre_resume(struct sw_fibre *f)
{
#if defined(__SANITIZE_THREAD__)
    f->sanitizer_caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->sanitizer, 0);
#endif
    swapcontext(&f->caller, &f->here);
}

void sw_fibre_pause(struct sw_fibre *f)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(f->sanitizer_caller, 0);
#endif
    swapcontext(&f->here, &f->caller);
}

void sw_fibre_end(struct sw_fibre *f)
{
    (void)f;
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(f->sanitizer);
#endif
}
