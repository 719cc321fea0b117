/* SPDX-License-Identifier: MIT */
/* Transports between real processes: traffic, a rank that is killed, and what
 * a job leaves behind or does to its host process.
 *
 * Ranks are children that share one page, over which they exchange addresses.
 * A child that finds something wrong says so and exits with 1.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "letters.h"
#include "thorough.h"

enum { MAX_RANKS = 4 };

/* A close takes a fraction of this, also where many wait for the processor; to
 * wait until UCX holds a peer for dead takes more. */
static const double patience = 8;

struct meeting { /* in memory that all ranks share */
    struct transport_address all[MAX_RANKS];
    atomic_int arrived, victims;
};

struct rank {
    struct meeting *meeting;
    struct transport_job job;
    uint64_t hosts[MAX_RANKS];
    struct transport *t;
    double deadline;
};

#define EXPECT(what, condition)                                                \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "rank %d: %s\n", r->job.rank, what);               \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

static bool progress(struct rank *r)
{
    const bool moved = r->t->ops->progress(r->t);
    if (!moved)
        sched_yield();
    EXPECT("no end in sight", letter_clock() < r->deadline);
    return moved;
}

/* Everyone is here, and has been `times` times. */
static void meet(struct rank *r, int times)
{
    atomic_fetch_add(&r->meeting->arrived, 1);
    while (atomic_load(&r->meeting->arrived) < times * r->job.nranks)
        if (r->t)
            progress(r);
        else
            sched_yield();
}

static void join(struct rank *r, const struct transport_ops *ops, bool apart,
                 int me, int n)
{
    bool reached[MAX_RANKS];
    for (int q = 0; q < n; q++)
        r->hosts[q] = apart ? (uint64_t)q : 0;
    r->job = (struct transport_job){
        .rank = me, .nranks = n, .host_of = r->hosts, .job = 0xfeedbeef};
    r->deadline = letter_clock() + 120;
    EXPECT("open", ops->open(&r->t, &r->job) == COLL_OK);
    ops->address(r->t, &r->meeting->all[me]);
    meet(r, 1);
    EXPECT("connect", ops->connect(r->t, r->meeting->all, reached) == COLL_OK);
    for (int q = 0; q < n; q++)
        EXPECT("a rank is not reached", reached[q] || q == me);
    meet(r, 2);
}

/* Flushes, waits for all and closes. */
static void part(struct rank *r)
{
    while (r->t->ops->flush(r->t) == COLL_IN_PROGRESS)
        progress(r);
    meet(r, 3);
    const double start = letter_clock();
    r->t->ops->close(r->t);
    EXPECT("the close takes long", letter_clock() - start < patience);
}

static void await(struct rank *r, struct letter *l)
{
    while (letter_status(l) == COLL_IN_PROGRESS)
        progress(r);
    EXPECT("a letter is not good", letter_good(l));
    letter_free(l);
}

static size_t size_of(uint32_t k)
{
    uint32_t state = k * 2654435761u;
    return 1 + letter_draw(&state) % (1u << letter_draw(&state) % 15);
}

/* To the right and from the left, with a window of two. */
static void around(struct rank *r, int n, uint32_t rounds)
{
    const int right = (r->job.rank + 1) % n, left = (r->job.rank + n - 1) % n;
    struct letter *rx = letter_recv(r->t, left, size_of(0), 0), *before = NULL;
    for (uint32_t k = 0; k < rounds; k++) {
        struct letter *tx = letter_send(r->t, right, size_of(k), k);
        struct letter *next = letter_recv(r->t, left, size_of(k + 1), k + 1);
        await(r, rx);
        if (before)
            await(r, before);
        before = tx;
        rx = next;
    }
    await(r, letter_send(r->t, right, size_of(rounds), rounds));
    await(r, rx);
    await(r, before);
}

static void ring_traffic(struct rank *r)
{
    around(r, r->job.nranks, cases(10000, 3000) / (uint32_t)r->job.nranks);
    part(r);
}

/* The last rank dies in the midst of large messages from and to everyone. The
 * others go on among themselves, then give up what they had with it. */
static void murder(struct rank *r)
{
    const int n = r->job.nranks, victim = n - 1;
    struct letter *lost[2 * MAX_RANKS];
    int nlost = 0;
    for (int q = 0; q < n; q++) {
        if (q == r->job.rank || (r->job.rank != victim && q != victim))
            continue;
        lost[nlost++] = letter_send(r->t, q, 8 << 20, 1);
        lost[nlost++] = letter_recv(r->t, q, 8 << 20, 1);
    }
    for (int i = 0; i < 50 && r->job.rank == victim; i++)
        progress(r);
    if (r->job.rank == victim)
        raise(SIGKILL);
    around(r, n - 1, 1000);
    for (int q = 0; q < n - 1; q++) /* nobody leaves before all are through */
        if (q != r->job.rank) {
            struct letter *bye = letter_send(r->t, q, 8, 9);
            await(r, letter_recv(r->t, q, 8, 9));
            await(r, bye);
        }
    const double start = letter_clock();
    r->t->ops->cancel(r->t);
    for (int i = 0; i < nlost; i++) {
        EXPECT("cancel leaves a transfer",
               letter_status(lost[i]) != COLL_IN_PROGRESS);
        letter_free(lost[i]);
    }
    r->t->ops->close(r->t);
    EXPECT("cancel and close take long", letter_clock() - start < patience);
}

static struct meeting *new_meeting(void)
{
    void *m = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(m, MAP_FAILED);
    return m;
}

/* Of the last run; -1: none may. UCX 1.13 ends a process by an assertion of its
 * own, once in some hundreds, when a peer's socket breaks in a long message. */
static int aborted = -1;

/* Runs body as n processes; how many were killed by SIGKILL. pids may be
 * NULL. */
static int run(const char *name, bool apart, int n, void (*body)(struct rank *),
               pid_t *pids)
{
    struct rank r = {.meeting = new_meeting()};
    int killed = 0;
    setenv("UCX_NET_DEVICES", "lo", 0);
    for (int me = 0; me < n; me++) {
        const pid_t pid = fork();
        if (pid == 0) {
            join(&r, transport_find(name), apart, me, n);
            body(&r);
            _exit(0);
        }
        if (pids)
            pids[me] = pid;
    }
    for (int status; wait(&status) > 0;) {
        const bool kill = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        const bool abort =
            aborted >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        killed += kill;
        aborted += abort;
        cr_expect(kill || abort || status == 0,
                  "%s%s, %d ranks: wait status %x", name, apart ? " apart" : "",
                  n, (unsigned)status);
    }
    munmap(r.meeting, sizeof(*r.meeting));
    return killed;
}

Test(transport_processes, carry_traffic_in_a_ring)
{
    for (int n = 2; n <= MAX_RANKS; n++) {
        cr_expect_eq(run("shm", false, n, ring_traffic, NULL), 0);
        cr_expect_eq(run("ucx", false, n, ring_traffic, NULL), 0);
    }
    cr_expect_eq(run("ucx", true, 3, ring_traffic, NULL), 0);
}

static void survive_over_ucx(bool apart, int n)
{
    int killed = 0;
    aborted = 1;
    for (int tries = 0; aborted > 0 && tries < 3; tries++) {
        aborted = 0;
        killed = run("ucx", apart, n, murder, NULL);
    }
    cr_expect_eq(killed, 1);
    cr_expect_eq(aborted, 0, "%d ranks: UCX aborted again and again", n);
    aborted = -1;
}

Test(transport_processes, survive_one_that_is_killed)
{
    for (int n = 3; n <= MAX_RANKS; n++) {
        cr_expect_eq(run("shm", false, n, murder, NULL), 1);
        survive_over_ucx(false, n);
        survive_over_ucx(true, n);
    }
}

static void die_at_once(struct rank *r)
{
    around(r, r->job.nranks, 10);
    meet(r, 3);
    raise(SIGKILL);
}

/* Entries of /dev/shm that UCX or libcoll may have made. */
static int shm_files(void)
{
    int n = 0;
    DIR *dir = opendir("/dev/shm");
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += !strncmp(e->d_name, "ucx", 3) || !strncmp(e->d_name, "coll", 4);
    if (dir)
        closedir(dir);
    return n;
}

/* System V segments that one of these processes has made. */
static int sysv_segments(const pid_t *pids, int n)
{
    int found = 0;
    char line[512];
    FILE *file = fopen("/proc/sysvipc/shm", "r");
    while (file && fgets(line, sizeof(line), file)) {
        int creator = 0;
        if (sscanf(line, "%*d %*d %*o %*u %d", &creator) == 1)
            for (int i = 0; i < n; i++)
                found += creator == pids[i];
    }
    if (file)
        fclose(file);
    return found;
}

Test(transport_processes, leave_nothing_behind_when_killed)
{
    const char *names[] = {"shm", "ucx"};
    pid_t pids[MAX_RANKS];
    const int before = shm_files();
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(run(names[i], false, 3, die_at_once, pids), 3);
        cr_expect_eq(sysv_segments(pids, 3), 0, "%s", names[i]);
    }
    /* Other programs of the machine may have some for a moment. */
    const double deadline = letter_clock() + 3;
    while (shm_files() > before && letter_clock() < deadline)
        sched_yield();
    cr_expect_leq(shm_files(), before);
}

static int listeners(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        int listens = 0;
        socklen_t bytes = sizeof(listens);
        if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes))
            n += listens;
    }
    return n;
}

/* Whether each signal still has the action that the process began with. */
static bool signals_untouched(const struct sigaction before[32])
{
    for (int s = 1; s < 32; s++) {
        struct sigaction now;
        sigaction(s, NULL, &now);
        if (now.sa_handler != before[s].sa_handler
            || now.sa_flags != before[s].sa_flags)
            return false;
    }
    return true;
}

static bool loaded_ucx(void)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, "libucp") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static const char *guest; /* the transport that visits this process */
static int ports;         /* whether it may listen */

static void well_behaved(struct rank *r)
{
    around(r, r->job.nranks, 100);
    EXPECT("listens, or does not", (listeners() > 0) == (ports > 0));
    EXPECT("UCX is loaded, or not", loaded_ucx() == !strcmp(guest, "ucx"));
    EXPECT("UCX's settings stay in the environment",
           !getenv("UCX_MEM_EVENTS") && !getenv("UCX_HANDLE_ERRORS"));
    part(r);
}

/* From before open() to after close(), in each rank. */
static void visit(const char *name, bool apart, int output)
{
    struct rank all = {.meeting = new_meeting()}, *r = &all;
    struct sigaction before[32];
    setenv("UCX_NET_DEVICES", "lo", 0);
    unsetenv("UCX_MEM_EVENTS");
    unsetenv("UCX_HANDLE_ERRORS");
    guest = name;
    ports = apart;
    for (int me = 0; me < 2; me++)
        if (fork() == 0) {
            dup2(output, STDOUT_FILENO);
            dup2(output, STDERR_FILENO);
            for (int s = 1; s < 32; s++)
                sigaction(s, NULL, &before[s]);
            join(r, transport_find(name), apart, me, 2);
            well_behaved(r);
            EXPECT("signal handlers have changed", signals_untouched(before));
            EXPECT("a listener is left", listeners() == 0);
            fflush(stdout);
            _exit(0);
        }
    for (int status; wait(&status) > 0;)
        cr_expect_eq(status, 0, "%s%s: wait status %x", name,
                     apart ? " apart" : "", (unsigned)status);
    munmap(r->meeting, sizeof(*r->meeting));
}

Test(transport_processes, are_polite_guests)
{
    struct stat st;
    char said[1024] = "";
    const int output = memfd_create("output", 0);
    visit("shm", false, output);
    visit("ucx", false, output);
    visit("ucx", true, output);
    cr_assert_eq(fstat(output, &st), 0);
    if (pread(output, said, sizeof(said) - 1, 0) >= 0)
        cr_expect_eq(st.st_size, 0, "said: %s", said);
}
