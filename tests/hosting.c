/* SPDX-License-Identifier: MIT */
/* Programs that do what a library must not be disturbed by, nor disturb.
 *
 *   hosting handler          has a handler of SIGSEGV, before and after
 *   hosting fork             forks while it has a communicator; the child works
 *   hosting dlopen LIBRARY   loads libcoll, uses it and unloads it, twice
 *
 * Under collrun. It does not link libcoll, but loads it. Prints "ok" at rank 0.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/coll.h"

#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "hosting: line %d: %s\n", __LINE__, #condition);   \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static struct {
    void *handle;
    __typeof__(coll_comm_init) *init;
    __typeof__(coll_comm_destroy) *destroy;
    __typeof__(coll_comm_count) *count;
    __typeof__(coll_comm_user_rank) *rank;
    __typeof__(coll_allreduce) *allreduce;
} coll;

static void *symbol(const char *name)
{
    void *found = dlsym(coll.handle, name);
    EXPECT(found);
    return found;
}

static void load(const char *library)
{
    coll.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!coll.handle)
        fprintf(stderr, "hosting: %s\n", dlerror());
    EXPECT(coll.handle);
    *(void **)&coll.init = symbol("coll_comm_init");
    *(void **)&coll.destroy = symbol("coll_comm_destroy");
    *(void **)&coll.count = symbol("coll_comm_count");
    *(void **)&coll.rank = symbol("coll_comm_user_rank");
    *(void **)&coll.allreduce = symbol("coll_allreduce");
}

static int sum_up(coll_comm *comm)
{
    enum { COUNT = 100000 };
    static int x[COUNT];
    const int n = coll.count(comm), rank = coll.rank(comm);
    for (int count = 1; count <= COUNT; count *= 10) {
        for (int i = 0; i < count; i++)
            x[i] = rank + i;
        EXPECT(
            coll.allreduce(x, x, (size_t)count, COLL_I32, COLL_SUM, comm, NULL)
            == COLL_OK);
        for (int i = 0; i < count; i++)
            EXPECT(x[i] == n * i + n * (n - 1) / 2);
    }
    return rank;
}

static sigjmp_buf back;

static void handle(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

/* The program's own handler is called, while the library works and after. */
static void crash(void)
{
    if (sigsetjmp(back, 1) == 0) {
        raise(SIGSEGV); /* a store to nowhere would be a sanitizer's affair */
        EXPECT(!"the handler returns elsewhere");
    }
}

static int with_handler(void)
{
    struct sigaction mine = {.sa_handler = handle}, after;
    coll_comm *comm;
    EXPECT(sigaction(SIGSEGV, &mine, NULL) == 0);
    EXPECT(coll.init(&comm) == COLL_OK);
    crash();
    const int rank = sum_up(comm);
    crash();
    EXPECT(coll.destroy(comm) == COLL_OK);
    EXPECT(sigaction(SIGSEGV, NULL, &after) == 0);
    EXPECT(after.sa_handler == handle);
    crash();
    return rank;
}

static int with_children(void)
{
    coll_comm *comm;
    int status;
    EXPECT(coll.init(&comm) == COLL_OK);
    sum_up(comm);
    for (int i = 0; i < 3; i++) {
        const pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            void *memory = malloc(1 << 20); /* its libraries are whole */
            memset(memory, 1, 1 << 20);
            free(memory);
            exit(7);
        }
        sum_up(comm);
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    const int rank = sum_up(comm);
    EXPECT(coll.destroy(comm) == COLL_OK);
    return rank;
}

static int loaded_twice(const char *library)
{
    coll_comm *comm;
    int rank = 0;
    for (int i = 0; i < 2; i++) {
        if (i)
            load(library);
        EXPECT(coll.init(&comm) == COLL_OK);
        rank = sum_up(comm);
        EXPECT(coll.destroy(comm) == COLL_OK);
        EXPECT(dlclose(coll.handle) == 0);
        usleep(20000); /* for a thread that should be gone to show itself */
    }
    return rank;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    load(argv[2]);
    const int rank = !strcmp(argv[1], "handler") ? with_handler()
                     : !strcmp(argv[1], "fork")  ? with_children()
                                                 : loaded_twice(argv[2]);
    if (rank == 0)
        puts("ok");
    return 0;
}
