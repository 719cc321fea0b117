/* SPDX-License-Identifier: MIT */
/* Any MPI, measured as peer.h says. */
#include <mpi.h>

#include "peer.h"

static float *call(void *context, enum peer_collective c, float *send,
                   float *recv, size_t count)
{
    const MPI_Comm comm = *(MPI_Comm *)context;
    const int n = (int)count;
    int rank;
    switch (c) {
    case PEER_REDUCE:
        MPI_Reduce(send, recv, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    case PEER_BROADCAST: /* knows one vector only */
        MPI_Comm_rank(comm, &rank);
        MPI_Bcast(rank == 0 ? send : recv, n, MPI_FLOAT, 0, comm);
        return rank == 0 ? send : recv;
    case PEER_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case PEER_ALLGATHER:
        MPI_Allgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
        break;
    case PEER_GATHER:
        MPI_Gather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, 0, comm);
        break;
    case PEER_SCATTER:
        MPI_Scatter(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, 0, comm);
        break;
    case PEER_ALLTOALL:
        MPI_Alltoall(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
        break;
    case PEER_BARRIER:
        MPI_Barrier(comm);
        break;
    default:
        MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
    }
    return recv;
}

static void together(void *context)
{
    unsigned char mine = 0, all;
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_CHAR, MPI_MAX,
                  *(MPI_Comm *)context);
}

static void largest(void *context, double *x, size_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_DOUBLE, MPI_MAX,
                  *(MPI_Comm *)context);
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    struct peer peer = {
        .context = &comm,
        .call = call,
        .together = together,
        .largest = largest,
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &peer.rank);
    MPI_Comm_size(comm, &peer.nranks);
    const int status = peer_run(&peer, argc, argv);
    MPI_Finalize();
    return status;
}
