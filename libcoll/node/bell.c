/* SPDX-License-Identifier: MIT */
/* Sleeping until a peer writes something.
 *
 * Who publishes looks afterwards whether anybody sleeps, and that look may be
 * older than its own store, as processors delay stores. Instead of a fence at
 * each publication, the sleeper makes all processors of the job execute one
 * (membarrier) between saying that it sleeps and looking a last time: then
 * either it sees the store, or the other sees that it sleeps. Where membarrier
 * is denied, sleeps are so short that a lost bell costs little.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "node/node.h"

/* Commands of <linux/membarrier.h>, which old systems lack. */
enum { GLOBAL_EXPEDITED = 1 << 1, REGISTER_GLOBAL_EXPEDITED = 1 << 2 };

static const long long_sleep_ns = 20000000, short_sleep_ns = 500000;

bool node_bell_register(void)
{
    return syscall(SYS_membarrier, REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void node_sleep(struct node *n, long at_most_ns, bool (*ready)(void *context),
                void *context)
{
    struct node_bell *bell = &n->peers[n->me].region->bell;
    const long limit_ns = n->fences ? long_sleep_ns : short_sleep_ns;
    const struct timespec limit = {
        .tv_nsec = at_most_ns && at_most_ns < limit_ns ? at_most_ns : limit_ns};
    const uint32_t rings = atomic_load(&bell->rings);
    atomic_store(&bell->asleep, 1);
    atomic_fetch_add(&n->shared->sleepers, 1);
    if (n->fences)
        syscall(SYS_membarrier, GLOBAL_EXPEDITED, 0, 0);
    if (!ready(context))
        syscall(SYS_futex, &bell->rings, FUTEX_WAIT, rings, &limit, NULL, 0);
    atomic_fetch_sub(&n->shared->sleepers, 1);
    atomic_store(&bell->asleep, 0);
}

static void ring(struct node *n, int place)
{
    struct node_bell *bell = &n->peers[place].region->bell;
    if (!atomic_load_explicit(&bell->asleep, memory_order_relaxed))
        return;
    atomic_fetch_add(&bell->rings, 1);
    syscall(SYS_futex, &bell->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void node_ring_sleepers(struct node *n, int place)
{
    if (place >= 0) {
        ring(n, place);
        return;
    }
    for (int i = 0; i < n->n; i++)
        if (i != n->me)
            ring(n, i);
}
