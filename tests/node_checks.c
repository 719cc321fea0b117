/* SPDX-License-Identifier: MIT */
/* What the ranks of one host can see of themselves, for tests/node_test.py.
 *
 *   node_checks CHECK [NUMBER]      under collrun; prints "ok ..." at rank 0
 *
 * Each check says what is wrong on stderr and ends with status 1. */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"
#include "expect_ranks.h"

static int rank, nranks;
static coll_comm *comm;

static void *shared(size_t bytes)
{
    void *x;
    EXPECT(coll_mem_alloc(&x, bytes) == COLL_OK, "%zu bytes", bytes);
    return x;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec)
           + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* While rank 0 sleeps for a second, the others may use 2 % of a processor. */
static void sleeper(long number)
{
    float x[4] = {0};
    (void)number;
    for (int i = 0; i < 10; i++)
        EXPECT(coll_barrier(comm, NULL) == COLL_OK, "warm-up");
    const double before = cpu_seconds();
    if (rank == 0)
        sleep(1);
    EXPECT(coll_allreduce(x, x, 4, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK,
           "allreduce");
    const double share = cpu_seconds() - before;
    EXPECT(rank == 0 || share < 0.02, "%.4f of a processor", share);
}

/* On vectors of the heap an allreduce of S bytes reads S and writes S. */
static void bytes(long count)
{
    const size_t size = (size_t)count * sizeof(float);
    float *in = shared(size), *out = shared(size);
    coll_statistics before, after;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20; i++) { /* modes that move more are tried too */
        EXPECT(coll_stats(comm, &before) == COLL_OK, "before");
        EXPECT(coll_allreduce(in, i % 2 ? in : out, (size_t)count, COLL_F32,
                              COLL_SUM, comm, NULL)
                   == COLL_OK,
               "allreduce");
        EXPECT(coll_stats(comm, &after) == COLL_OK, "after");
        const uint64_t moved = after.bytes_read - before.bytes_read
                               + after.bytes_written - before.bytes_written;
        EXPECT(after.operations == before.operations + 1, "operations");
        least = moved < least ? moved : least;
        /* In place there is no other way than by slices. */
        EXPECT(i % 2 == 0 || moved == 2 * size, "%llu bytes for %zu",
               (unsigned long long)moved, size);
    }
    EXPECT(least == 2 * size, "%llu bytes", (unsigned long long)least);
    EXPECT(coll_mem_free(in) == COLL_OK && coll_mem_free(out) == COLL_OK,
           "free");
}

static float of_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* bf16: half a unit in the last place of the exact sum, and what an f32 sum
 * of a few terms loses, which is far less. */
static void bf16_of(size_t n)
{
    uint16_t *in = shared(2 * n), *out = shared(2 * n);
    double *exact = calloc(n, sizeof(*exact));
    EXPECT(exact, "memory");
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < nranks; r++) {
            const uint32_t h =
                ((uint32_t)i * 2654435761u) ^ ((uint32_t)r * 40503u * 65537u);
            const uint16_t x =
                (uint16_t)(0x3f00 + (h >> 20 & 0xff) + (h >> 31 ? 0x8000 : 0));
            if (r == rank)
                in[i] = x;
            exact[i] += of_bf16(x);
        }
    for (int turn = 0; turn < 12; turn++) {
        EXPECT(coll_allreduce(in, out, n, COLL_BF16, COLL_SUM, comm, NULL)
                   == COLL_OK,
               "allreduce");
        for (size_t i = 0; i < n; i++) {
            const double unit =
                exact[i] == 0 ? 0 : ldexp(1, ilogb(exact[i]) - 7);
            const double error = fabs(of_bf16(out[i]) - exact[i]);
            EXPECT(error <= unit * 0.5001 + 1e-6, "element %zu: %g for %g", i,
                   (double)of_bf16(out[i]), exact[i]);
        }
    }
    EXPECT(coll_mem_free(in) == COLL_OK && coll_mem_free(out) == COLL_OK,
           "free");
    free(exact);
}

/* The lengths go three different ways. */
static void bf16(long number)
{
    (void)number;
    bf16_of(3001);
    bf16_of(301);
    bf16_of(20);
}

/* A vector of the caller's own, shared while it is registered; a long one stays
 * private where shared pages are dear. */
enum { FEW_BYTES = 4 << 20 };

static bool are_shared(const void *x)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    char shared = '?', line[512];
    EXPECT(maps, "/proc/self/maps");
    while (fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx %*3s%c", &from, &to, &shared) == 3
            && from <= (unsigned long)x && (unsigned long)x < to)
            break;
    fclose(maps);
    return shared == 's';
}

static void registered(long count)
{
    const size_t size = ((size_t)count * 4 + 65535) / 65536 * 65536;
    float *x = aligned_alloc(65536, size);
    void *handle;
    EXPECT(x, "memory");
    EXPECT(coll_comm_register(comm, (char *)x + 4, size, &handle)
               == COLL_ERR_INVALID,
           "not on a page");
    for (int turn = 0; turn < 3; turn++) {
        for (long i = 0; i < count; i++)
            x[i] = (float)((i + rank + turn) % 97);
        EXPECT(coll_comm_register(comm, x, size, &handle) == COLL_OK, "turn");
        EXPECT(coll_comm_register(comm, x, size, &handle) == COLL_ERR_INVALID,
               "twice");
        coll_statistics before, after;
        coll_stats(comm, &before);
        EXPECT(
            coll_allreduce(x, x, (size_t)count, COLL_F32, COLL_SUM, comm, NULL)
                == COLL_OK,
            "allreduce");
        coll_stats(comm, &after);
        const size_t read = after.bytes_read - before.bytes_read,
                     vector = (size_t)count * 4;
        const bool here = are_shared(x);
        EXPECT(here || size > FEW_BYTES, "%zu bytes left private", size);
        EXPECT(nranks == 1 || (here && read == vector)
                   || (size > FEW_BYTES && read > vector),
               "%zu bytes read of %zu", read, vector);
        handle = x;
        EXPECT(coll_comm_deregister(comm, handle) == COLL_OK, "back");
        EXPECT(coll_comm_deregister(comm, handle) == COLL_ERR_INVALID, "twice");
        for (long i = 0; i < count; i++) {
            float sum = 0;
            for (int r = 0; r < nranks; r++)
                sum += (float)((i + r + turn) % 97);
            EXPECT(x[i] == sum, "element %ld: %g for %g", i, (double)x[i],
                   (double)sum);
        }
    }
    free(x);
}

/* One call on vectors of n parts; what it read, and what all ranks did. */
static void move(int kind, int root, bool in_place, int *x, int *y,
                 size_t count, uint64_t *mine, uint64_t *all)
{
    const size_t m = (size_t)nranks, r = (size_t)rank, part = r * count;
    const bool gather = kind == 0, scatter = kind == 1;
    coll_statistics before, after;
    coll_status status;
    for (size_t i = 0; i < m * count; i++) {
        y[i] = -1;
        x[i] = (int)(r * m * count + i);
    }
    EXPECT(coll_stats(comm, &before) == COLL_OK, "before");
    if (gather)
        status = coll_gather(in_place ? x + part : x,
                             rank != root ? NULL
                             : in_place   ? x
                                          : y,
                             count, COLL_I32, root, comm, NULL);
    else if (scatter)
        status = coll_scatter(rank == root ? x : NULL, in_place ? x + part : y,
                              count, COLL_I32, root, comm, NULL);
    else
        status =
            coll_alltoall(x, in_place ? x : y, count, COLL_I32, comm, NULL);
    EXPECT(status == COLL_OK, "kind %d", kind);
    EXPECT(coll_stats(comm, &after) == COLL_OK, "after");
    *mine = after.bytes_read - before.bytes_read;
    EXPECT(coll_allreduce(mine, all, 1, COLL_U64, COLL_SUM, comm, NULL)
               == COLL_OK,
           "sum");
    const int *out = in_place ? x + (scatter ? part : 0) : y;
    for (size_t i = 0; i < (scatter ? 1 : m) * count; i++) {
        const size_t from = scatter ? (size_t)root : i / count;
        const size_t at = gather ? (in_place ? from * count : 0) : part;
        if (gather && rank != root)
            break;
        EXPECT((size_t)out[i] == from * m * count + at + i % count,
               "kind %d, root %d, count %zu, element %zu: %d", kind, root,
               count, i, out[i]);
    }
}

/* Gather, scatter and alltoall in memory that all can reach: each byte is read
 * once, by ranks that have as much to do, in place too. Registered or not. */
static void parts(long registers)
{
    enum { COUNT = 60000, LINES = 4096 };
    const size_t m = (size_t)nranks, page = 65536;
    const size_t size = (m * COUNT * sizeof(int) + page - 1) / page * page;
    int *x = registers ? aligned_alloc(page, size) : shared(size);
    int *y = registers ? aligned_alloc(page, size) : shared(size);
    void *handle[2];
    EXPECT(x && y, "memory");
    if (registers)
        EXPECT(coll_comm_register(comm, x, size, &handle[0]) == COLL_OK
                   && coll_comm_register(comm, y, size, &handle[1]) == COLL_OK,
               "register");
    for (int k = 0; k < 12 * nranks; k++) {
        const int kind = k % 3, root = k / 12;
        const bool in_place = k / 3 % 2;
        const size_t part = COUNT * sizeof(int);
        const size_t moved = m - in_place; /* parts, for or of one rank */
        uint64_t mine, all;
        move(kind, root, in_place, x, y, COUNT, &mine, &all);
        EXPECT(all == (kind == 2 ? m : 1) * moved * part,
               "kind %d in place %d: %llu bytes", kind, in_place,
               (unsigned long long)all);
        /* The root may also read all that it gathers. */
        EXPECT(kind == 0 || mine <= all / m + LINES,
               "kind %d in place %d: %llu bytes of %llu", kind, in_place,
               (unsigned long long)mine, (unsigned long long)all);
        for (size_t count = 0; count < 40; count += 1 + count / 4)
            move(kind, root, in_place, x, y, count, &mine, &all);
    }
    if (registers) {
        EXPECT(coll_comm_deregister(comm, handle[0]) == COLL_OK
                   && coll_comm_deregister(comm, handle[1]) == COLL_OK,
               "deregister");
        free(x);
        free(y);
    } else {
        EXPECT(coll_mem_free(x) == COLL_OK && coll_mem_free(y) == COLL_OK,
               "free");
    }
}

/* Many blocks come and go; what peers had mapped must not be found again. */
static void blocks(long turns)
{
    for (long t = 0; t < turns; t++) {
        const size_t count = 1 + (size_t)(t * 7919 % 40000);
        int *x = shared(count * 4), *y = shared(count * 4);
        for (size_t i = 0; i < count; i++)
            x[i] = (int)(i + (size_t)t) + rank;
        EXPECT(coll_allreduce(x, y, count, COLL_I32, COLL_SUM, comm, NULL)
                   == COLL_OK,
               "turn %ld", t);
        for (size_t i = 0; i < count; i++)
            EXPECT(y[i]
                       == nranks * (int)(i + (size_t)t)
                              + nranks * (nranks - 1) / 2,
                   "turn %ld, element %zu", t, i);
        EXPECT(coll_mem_free(t % 2 ? x : y) == COLL_OK, "free");
        EXPECT(coll_mem_free(t % 2 ? y : x) == COLL_OK, "free");
        EXPECT(t || coll_mem_free(x) == COLL_ERR_INVALID, "freed twice");
    }
}

/* More blocks in use than peers keep mapped, one of them time and again. */
static void many(long turns)
{
    enum { BLOCKS = 24, COUNT = 8192 };
    int *x[BLOCKS];
    for (int b = 0; b < BLOCKS; b++)
        x[b] = shared(COUNT * 4);
    for (long t = 0; t < turns; t++) {
        int *in = x[t % 3 ? 0 : t * 7 % BLOCKS];
        int *out = x[1 + (t * 5 + t / 16) % (BLOCKS - 1)];
        for (int i = 0; i < COUNT; i++)
            in[i] = i + (int)t + rank;
        EXPECT(coll_allreduce(in, out, COUNT, COLL_I32, COLL_SUM, comm, NULL)
                   == COLL_OK,
               "turn %ld", t);
        for (int i = 0; i < COUNT; i++)
            EXPECT(out[i] == nranks * (i + (int)t) + nranks * (nranks - 1) / 2,
                   "turn %ld, element %d", t, i);
    }
    for (int b = 0; b < BLOCKS; b++)
        EXPECT(coll_mem_free(x[b]) == COLL_OK, "free");
}

static long descriptors(void)
{
    long n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* Lines of /proc/self/maps: mappings, whatever their size. */
static long mappings(void)
{
    long n = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; file && (c = fgetc(file)) != EOF;)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

/* The address sanitizer keeps what was freed. */
static long resident(void)
{
    long pages = 0;
#if defined(__SANITIZE_ADDRESS__)
    return 0;
#endif
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* One life of a communicator after another. Here main()'s own is not used, as
 * each has to have its own id: handed on through main()'s. */
static void cycles(long turns)
{
    long fds = 0, maps = 0, size = 0;
    int *x = shared(65536), *y = shared(65536);
    for (long t = 0; t < turns; t++) {
        coll_unique_id id = {{0}};
        coll_comm *c;
        if (rank == 0)
            EXPECT(coll_get_unique_id(&id) == COLL_OK, "turn %ld", t);
        EXPECT(coll_broadcast(&id, &id, sizeof(id), COLL_U8, 0, comm, NULL)
                   == COLL_OK,
               "turn %ld", t);
        EXPECT(coll_comm_init_rank(&c, nranks, id, rank) == COLL_OK, "turn %ld",
               t);
        x[0] = x[10000] = rank;
        EXPECT(coll_allreduce(x, y, 1, COLL_I32, COLL_SUM, c, NULL) == COLL_OK,
               "turn %ld", t);
        EXPECT(coll_allreduce(x, y, 16384, COLL_I32, COLL_SUM, c, NULL)
                   == COLL_OK,
               "turn %ld", t);
        EXPECT(y[10000] == nranks * (nranks - 1) / 2, "turn %ld", t);
        EXPECT(coll_comm_destroy(c) == COLL_OK, "turn %ld", t);
        if (t == turns / 10) {
            fds = descriptors();
            maps = mappings();
            size = resident();
        }
    }
    /* A hub may end after its ranks. */
    for (int i = 0;
         i < 10000 && (descriptors() > fds || mappings() > maps + 16); i++)
        usleep(1000);
    EXPECT(descriptors() <= fds, "%ld descriptors, were %ld", descriptors(),
           fds);
    /* A thread that is still there has a stack and a heap, a sanitizer its own.
     */
    EXPECT(mappings() <= maps + 16, "%ld mappings, were %ld", mappings(), maps);
    EXPECT(resident() <= size + 1024, "%ld kB resident, were %ld", resident(),
           size);
    coll_mem_free(x);
    coll_mem_free(y);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long number);
        long number;
    } checks[] = {
        {"sleeper",    sleeper,    0    },
        {"bytes",      bytes,      96000},
        {"bf16",       bf16,       0    },
        {"registered", registered, 48000},
        {"parts",      parts,      0    },
        {"blocks",     blocks,     60   },
        {"cycles",     cycles,     100  },
        {"many",       many,       300  },
    };
    const char *name = argc > 1 ? argv[1] : "";
    EXPECT(coll_comm_init(&comm) == COLL_OK, "init");
    rank = coll_comm_user_rank(comm);
    nranks = coll_comm_count(comm);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (!strcmp(name, checks[i].name)) {
            checks[i].run(argc > 2 ? atol(argv[2]) : checks[i].number);
            const coll_status status = coll_comm_destroy(comm);
            comm = NULL; /* EXPECT asks it for its sentence */
            EXPECT(status == COLL_OK, "destroy");
            if (rank == 0)
                printf("ok %s\n", name);
            return 0;
        }
    fprintf(stderr, "node_checks: no check \"%s\"\n", name);
    return 2;
}
