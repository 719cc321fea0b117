/* SPDX-License-Identifier: MIT */
/* A small job, for hosts with odd networks.
 *
 *   zoo_job [FILE]
 *
 * joins as its environment says, or by an id: rank 0 makes it and writes FILE,
 * the others read it, as programs do that have another way to tell each other.
 * Sums vectors of several lengths, says "right", and ends with 0; or tells what
 * libcoll says and ends with 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coll/coll.h"

enum { LONGEST = 2 << 20, PATIENCE_MS = 5000 };

static int rank, nranks;

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, coll_last_error(NULL));
    exit(1);
}

static int from_environment(const char *name)
{
    const char *const text = getenv(name);
    return text ? atoi(text) : 0;
}

static void write_id(const char *path, const coll_unique_id *id)
{
    char temporary[4096];
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    FILE *const file = fopen(temporary, "w");
    if (!file || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) != 0
        || rename(temporary, path) != 0) {
        perror(path);
        exit(1);
    }
}

static void read_id(const char *path, coll_unique_id *id)
{
    FILE *file = NULL;
    for (int ms = 0; !file && ms < PATIENCE_MS; ms += 10) {
        file = fopen(path, "r");
        if (!file)
            usleep(10000);
    }
    if (!file || fread(id, sizeof(*id), 1, file) != 1) {
        fprintf(stderr, "rank %d: rank 0 made no id\n", rank);
        exit(1);
    }
    fclose(file);
}

static coll_comm *join_by_id(const char *path)
{
    coll_unique_id id;
    coll_comm *comm;
    if (rank == 0) {
        check(coll_get_unique_id(&id));
        write_id(path, &id);
    } else {
        read_id(path, &id);
    }
    check(coll_comm_init_rank(&comm, nranks, id, rank));
    return comm;
}

static void sum(coll_comm *comm, int32_t *send, int32_t *recv, size_t count)
{
    for (size_t i = 0; i < count; i++)
        send[i] = rank + (int32_t)i;
    check(coll_allreduce(send, recv, count, COLL_I32, COLL_SUM, comm, NULL));
    for (size_t i = 0; i < count; i++)
        if (recv[i] != nranks * (nranks - 1) / 2 + nranks * (int32_t)i) {
            fprintf(stderr, "rank %d: sum %zu of %zu is wrong\n", rank, i,
                    count);
            exit(1);
        }
}

int main(int argc, char **argv)
{
    coll_comm *comm;
    rank = from_environment("COLL_RANK");
    nranks = from_environment("COLL_NRANKS");
    if (argc > 1)
        comm = join_by_id(argv[1]);
    else
        check(coll_comm_init(&comm));
    int32_t *const send = malloc(LONGEST * sizeof(*send));
    int32_t *const recv = malloc(LONGEST * sizeof(*recv));
    if (!send || !recv)
        return 1;
    for (size_t count = 1; count <= LONGEST; count *= 8)
        sum(comm, send, recv, count);
    sum(comm, send, recv, LONGEST);
    check(coll_comm_destroy(comm));
    free(send);
    free(recv);
    puts("right");
    return 0;
}
