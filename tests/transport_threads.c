/* SPDX-License-Identifier: MIT */
/* Transports between the threads of one process: everyone to everyone, each
 * closing when it is done. Prints TAP.
 *
 * A program of its own, since Criterion cannot start under the thread
 * sanitizer, which is who should see this.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "letters.h"
#include "thorough.h"

enum { MAX_RANKS = 4 };

struct job {
    const struct transport_ops *ops;
    int n;
    uint32_t rounds;
    pthread_barrier_t together;
    struct transport_address all[MAX_RANKS];
    atomic_int wrong;
};

struct rank {
    struct job *job;
    int me;
};

static const uint64_t hosts[MAX_RANKS] = {1, 1, 1, 1};

static size_t size_of(uint32_t k)
{
    uint32_t state = k * 2654435761u;
    return 1 + letter_draw(&state) % (1u << letter_draw(&state) % 15);
}

static bool await(struct transport *t, struct letter *l)
{
    const double deadline = letter_clock() + 60;
    while (letter_status(l) == COLL_IN_PROGRESS)
        if (!t->ops->progress(t)) {
            if (letter_clock() > deadline)
                return false;
            sched_yield();
        }
    const bool good = letter_good(l);
    letter_free(l);
    return good;
}

static bool rounds(struct transport *t, const struct job *j, int me)
{
    struct letter *all[2 * MAX_RANKS];
    for (uint32_t k = 0; k < j->rounds; k++) {
        int count = 0;
        for (int q = 0; q < j->n; q++)
            if (q != me) {
                all[count++] = letter_recv(t, q, size_of(k), k);
                all[count++] = letter_send(t, q, size_of(k), k);
            }
        while (count)
            if (!await(t, all[--count]))
                return false;
    }
    while (t->ops->flush(t) == COLL_IN_PROGRESS)
        sched_yield();
    return true;
}

/* From even to odd ranks only: a ring that fills is all that tells the writer
 * when to go on. */
static bool one_way(struct transport *t, const struct job *j, int me)
{
    bool good = true;
    for (uint32_t k = 0; k < 20 && good; k++) {
        if (me % 2)
            good = await(t, letter_recv(t, me - 1, 300000, k));
        else if (me + 1 < j->n)
            good = await(t, letter_send(t, me + 1, 300000, k));
    }
    return good;
}

static void *be_rank(void *argument)
{
    const struct rank *r = argument;
    struct job *j = r->job;
    const struct transport_job job = {
        .rank = r->me, .nranks = j->n, .host_of = hosts, .job = 77};
    bool reached[MAX_RANKS];
    struct transport *t;
    if (j->ops->open(&t, &job) < 0) {
        j->wrong++;
        pthread_barrier_wait(&j->together);
        return NULL;
    }
    j->ops->address(t, &j->all[r->me]);
    pthread_barrier_wait(&j->together);
    if (j->wrong == 0) {
        j->wrong += j->ops->connect(t, j->all, reached) != COLL_OK;
        j->wrong += !one_way(t, j, r->me) || !rounds(t, j, r->me);
    }
    j->ops->close(t);
    return NULL;
}

static bool run(const char *name, int n, uint32_t messages)
{
    static struct job j;
    struct rank ranks[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    j = (struct job){.ops = transport_find(name), .n = n};
    j.rounds = messages / (uint32_t)(n * (n - 1));
    pthread_barrier_init(&j.together, NULL, (unsigned)n);
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){&j, r};
        pthread_create(&threads[r], NULL, be_rank, &ranks[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&j.together);
    return j.wrong == 0;
}

int main(void)
{
    static const struct {
        const char *name;
        int n;
        uint32_t messages;
    } jobs[] = {
        {"shm", 2, 100000},
        {"shm", 3, 100000},
        {"shm", 4, 100000},
        {"ucx", 2, 5000  },
        {"ucx", 4, 5000  }
    };
    enum { NJOBS = sizeof(jobs) / sizeof(jobs[0]) };
    int failed = 0;
    printf("1..%d\n", NJOBS);
    for (int i = 0; i < NJOBS; i++) {
        const uint32_t messages = cases(jobs[i].messages, jobs[i].messages / 5);
        const bool ok = run(jobs[i].name, jobs[i].n, messages);
        printf("%s %d - %s carries %u messages among %d threads\n",
               ok ? "ok" : "not ok", i + 1, jobs[i].name, messages, jobs[i].n);
        failed += !ok;
    }
    return failed > 0;
}
