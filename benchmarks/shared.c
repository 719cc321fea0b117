/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE = 2 << 20, WORDS = CPU_SETSIZE / 64 };

enum { COLLAPSE = 25 }; /* MADV_COLLAPSE, Linux 6.1 */

/* How the others find the file of a host's first rank. */
enum { PID, FD, DEVICE, INODE, NNAME };

static void find_places(struct shared *s, const struct job *job)
{
    const int host = job->host_of[job->rank];
    s->rank_of = job_alloc((size_t)job->nranks * sizeof *s->rank_of);
    for (int r = 0; r < job->nranks; r++) {
        if (job->host_of[r] != host)
            continue;
        if (r == job->rank)
            s->me = s->n;
        s->rank_of[s->n++] = r;
    }
}

/* Whether the ranks of any host are more than the CPUs that they may use. */
static bool oversubscribed(const struct shared *s, const struct job *job)
{
    uint64_t mine[WORDS] = {0};
    uint64_t *const all = job_alloc((size_t)job->nranks * sizeof mine);
    cpu_set_t set;
    double more = 0;
    int ncpus = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                mine[cpu / 64] |= (uint64_t)1 << cpu % 64;
    job_gather(job, mine, WORDS, all);
    for (int w = 0; w < WORDS; w++) {
        uint64_t any = 0;
        for (int i = 0; i < s->n; i++)
            any |= all[s->rank_of[i] * WORDS + w];
        for (; any; any &= any - 1)
            ncpus++;
    }
    free(all);
    more = s->n > ncpus && ncpus > 0;
    job_max(job, &more, 1);
    return more > 0;
}

static size_t available_bytes(void)
{
    FILE *const file = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Rounded up to huge pages where vectors are that long. */
static size_t room_for(size_t bytes)
{
    const size_t unit = bytes >= HUGE ? HUGE : (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + unit - 1) / unit * unit;
}

/* From a boundary of huge pages on: between two calls nobody else maps. */
static void *map(int fd, size_t bytes)
{
    char *x = mmap(NULL, bytes + HUGE, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x == MAP_FAILED)
        return NULL;
    munmap(x, bytes + HUGE);
    x = mmap(x + HUGE - (uintptr_t)x % HUGE, bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED, fd, 0);
    return x == MAP_FAILED ? NULL : x;
}

/* Filled by whose vector it is: that places the pages. Where huge ones fit and
 * the system has them they replace each the first small one. */
static void take(char *x, size_t bytes)
{
    for (size_t i = 0; i < bytes && bytes >= HUGE; i += HUGE)
        x[i] = 0;
    if (bytes >= HUGE)
        madvise(x, bytes, COLLAPSE);
    memset(x, 0xff, bytes);
}

/* Huge pages if the system has some to spare, else what it gives. */
static int make_file(struct shared *s)
{
    static const unsigned flags[] = {MFD_CLOEXEC | MFD_HUGETLB, MFD_CLOEXEC};
    for (int i = 0; i < 2; i++) {
        const int fd = memfd_create("coll_bench", flags[i]);
        if (fd < 0)
            continue;
        if (ftruncate(fd, (off_t)s->map_bytes) == 0
            && (s->map = map(fd, s->map_bytes)))
            return fd;
        close(fd);
    }
    return -1;
}

static void name_file(int fd, uint64_t name[NNAME])
{
    struct stat is;
    if (fd < 0 || fstat(fd, &is) != 0)
        return;
    name[PID] = (uint64_t)getpid();
    name[FD] = (uint64_t)fd;
    name[DEVICE] = is.st_dev;
    name[INODE] = is.st_ino;
}

/* Another process may have this number in another container: then the file
 * behind it is another. */
static void open_file(struct shared *s, const uint64_t name[NNAME])
{
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu",
             (unsigned long long)name[PID], (unsigned long long)name[FD]);
    const int fd = name[PID] ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &is) == 0 && is.st_dev == name[DEVICE]
        && is.st_ino == name[INODE])
        s->map = map(fd, s->map_bytes);
    close(fd);
}

/* The first rank of each host makes a file, the others open it. */
static bool map_file(struct shared *s, const struct job *job)
{
    uint64_t mine[NNAME] = {0};
    uint64_t *const all = job_alloc((size_t)job->nranks * sizeof mine);
    const int fd = s->me == 0 ? make_file(s) : -1;
    name_file(fd, mine);
    job_gather(job, mine, NNAME, all);
    if (s->me > 0)
        open_file(s, all + s->rank_of[0] * NNAME);
    free(all);
    double failed = s->map == NULL;
    job_max(job, &failed, 1);
    if (fd >= 0)
        close(fd);
    return failed == 0;
}

bool shared_map(struct shared *s, const struct job *job, size_t vector_bytes,
                int vectors_per_rank)
{
    *s = (struct shared){.per_rank = vectors_per_rank};
    find_places(s, job);
    s->yields = oversubscribed(s, job);
    const size_t lines =
        room_for(HUGE + (size_t)s->n * 2 * sizeof(struct shared_line));
    const size_t n = (size_t)s->n * (size_t)vectors_per_rank;
    s->room = room_for(vector_bytes);
    double too_much =
        (double)s->room * (double)n > 0.8 * (double)available_bytes();
    job_max(job, &too_much, 1);
    s->map_bytes = lines + (too_much > 0 ? 0 : room_for(n * s->room + HUGE));
    if (!map_file(s, job)) {
        shared_unmap(s);
        return false;
    }
    madvise(s->map, s->map_bytes, MADV_HUGEPAGE);
    s->lines = s->map;
    if (too_much == 0)
        s->vectors = (char *)s->map + lines;
    for (int v = 0; s->vectors && v < vectors_per_rank; v++)
        take(shared_vector(s, s->me, v), s->room);
    job_barrier(job);
    return true;
}

void shared_unmap(struct shared *s)
{
    if (s->map)
        munmap(s->map, s->map_bytes);
    free(s->rank_of);
    *s = (struct shared){0};
}

int shared_place(const struct shared *s, int rank)
{
    for (int place = 0; place < s->n; place++)
        if (s->rank_of[place] == rank)
            return place;
    return 0;
}

char *shared_vector(const struct shared *s, int place, int v)
{
    return s->vectors
           + ((size_t)place * (size_t)s->per_rank + (size_t)v) * s->room;
}
