/* SPDX-License-Identifier: MIT */
/* A crew's threads, alone, so that the thread sanitizer sees all they do. */
#include <sched.h>
#include <time.h>

#include "checks.h"
#include "crew.h"
#include "random.h"
#include "thorough.h"

enum { MOST = 8 };

/* Each part reads what all wrote in the call before, without atomics. */
struct field {
    long now[MOST], before[MOST];
};

static void step(void *context, int i, int n)
{
    struct field *f = context;
    long sum = 1;
    for (int k = 0; k < n; k++)
        sum += f->before[k];
    f->now[i] = sum % 1000003;
}

static void carry(void *context, int i, int n)
{
    struct field *f = context;
    (void)n;
    f->before[i] = f->now[i];
}

static void every_part_runs_once_and_in_order(void)
{
    const unsigned calls = cases(2000, 100);
    for (int n = 1; n <= MOST; n++) {
        struct crew *c = crew_create(n, NULL);
        struct field f = {{0}, {0}};
        long wanted = 0;
        require(c != NULL && crew_size(c) == n, "no crew");
        for (unsigned k = 0; k < calls; k++) {
            crew_run(c, step, &f);
            crew_run(c, carry, &f);
            wanted = (1 + n * wanted) % 1000003;
            for (int i = 0; i < n; i++)
                require(f.before[i] == wanted, "a part saw something else");
        }
        crew_free(c);
    }
}

/* Some parts come late, others at once: nobody may go on before all have come.
 */
static void step_late(void *context, int i, int n)
{
    struct field *f = context;
    const uint64_t chance = random_u64(9, (uint64_t)(f->now[i] * MOST + i));
    const struct timespec pause = {0, (long)(chance % 200000)};
    if (chance % 3 == 0)
        nanosleep(&pause, NULL);
    step(context, i, n);
}

static void late_parts_are_waited_for(void)
{
    const unsigned calls = cases(500, 60);
    for (int n = 2; n <= 4; n++) {
        struct crew *c = crew_create(n, NULL);
        struct field f = {{0}, {0}};
        long wanted = 0;
        require(c != NULL, "no crew");
        for (unsigned k = 0; k < calls; k++) {
            crew_run(c, step_late, &f);
            crew_run(c, carry, &f);
            wanted = (1 + n * wanted) % 1000003;
            for (int i = 0; i < n; i++)
                require(f.before[i] == wanted, "a part did not wait");
        }
        crew_free(c);
    }
}

static void count(void *context, int i, int n)
{
    int *calls = context;
    require(i == 0 && n == 1, "not one part");
    ++*calls;
}

static void nobody_is_a_crew_of_one(void)
{
    int calls = 0;
    require(crew_size(NULL) == 1, "not one");
    crew_run(NULL, count, &calls);
    require(calls == 1, "not called once");
    crew_free(NULL);
}

static void crews_come_and_go(void)
{
    for (int k = 0; k < 50; k++)
        crew_free(crew_create(1 + k % MOST, NULL));
}

static void where(void *context, int i, int n)
{
    int *cpus = context;
    (void)n;
    cpus[i] = sched_getcpu();
}

/* The last check: it leaves this thread bound. */
static void bound_threads_run_where_they_should(void)
{
    int wanted[2], found[2], n = 0;
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && n < 2; cpu--)
        if (CPU_ISSET((size_t)cpu, &set))
            wanted[n++] = cpu;
    if (n < 2)
        return;
    for (int k = 0; k < 100; k++) {
        const int cpus[2] = {wanted[k % 2], wanted[1 - k % 2]};
        crew_bind(cpus[0]);
        struct crew *c = crew_create(2, cpus);
        require(c != NULL, "no crew");
        crew_run(c, where, found);
        require(found[0] == cpus[0] && found[1] == cpus[1],
                "a thread is elsewhere");
        crew_free(c);
    }
}

int main(void)
{
    static const struct check checks[] = {
        {"every part runs once and in order",
         every_part_runs_once_and_in_order                               },
        {"late parts are waited for",           late_parts_are_waited_for},
        {"nobody is a crew of one",             nobody_is_a_crew_of_one  },
        {"crews come and go",                   crews_come_and_go        },
        {"bound threads run where they should",
         bound_threads_run_where_they_should                             },
    };
    return run_checks(checks, sizeof(checks) / sizeof(checks[0]));
}
