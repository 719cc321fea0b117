/* SPDX-License-Identifier: MIT */
/* Any MPI, measured as peer.h says. */
#include <mpi.h>

#include "peer.h"

static void sendrecv(const struct peer_call *c, MPI_Comm comm)
{
    const int n = (int)c->count, next = (c->shape.rank + 1) % c->shape.nranks;
    MPI_Sendrecv(c->send, n, MPI_FLOAT, next, 0, c->recv, n, MPI_FLOAT,
                 shape_source(&c->shape), 0, comm, MPI_STATUS_IGNORE);
}

static void pingpong(const struct peer_call *c, MPI_Comm comm)
{
    const int n = (int)c->count, peer = shape_source(&c->shape);
    if (peer < 0)
        return;
    if (c->shape.rank == 0)
        MPI_Send(c->send, n, MPI_FLOAT, peer, 0, comm);
    MPI_Recv(c->recv, n, MPI_FLOAT, peer, 0, comm, MPI_STATUS_IGNORE);
    if (c->shape.rank > 0)
        MPI_Send(c->send, n, MPI_FLOAT, peer, 0, comm);
}

static void call_v(const struct peer_call *c, MPI_Comm comm)
{
    const int *const lengths = c->lengths, *const begins = c->begins;
    const int mine = lengths[c->shape.rank];
    switch (c->shape.collective) {
    case REDUCE_SCATTER_V:
        MPI_Reduce_scatter(c->send, c->recv, lengths, MPI_FLOAT, MPI_SUM, comm);
        break;
    case ALLGATHER_V:
        MPI_Allgatherv(c->send, mine, MPI_FLOAT, c->recv, lengths, begins,
                       MPI_FLOAT, comm);
        break;
    case GATHER_V:
        MPI_Gatherv(c->send, mine, MPI_FLOAT, c->recv, lengths, begins,
                    MPI_FLOAT, 0, comm);
        break;
    case SCATTER_V:
        MPI_Scatterv(c->send, lengths, begins, MPI_FLOAT, c->recv, mine,
                     MPI_FLOAT, 0, comm);
        break;
    default:
        MPI_Alltoallv(c->send, lengths, begins, MPI_FLOAT, c->recv, lengths,
                      begins, MPI_FLOAT, comm);
    }
}

static float *call(void *context, const struct peer_call *c)
{
    const MPI_Comm comm = *(MPI_Comm *)context;
    const enum collective kind = c->shape.collective;
    const int n = (int)c->count;
    float *const send = c->send, *const recv = c->recv;
    if (kind != collective_even(kind)) {
        call_v(c, comm);
        return recv;
    }
    switch (kind) {
    case REDUCE:
        MPI_Reduce(send, recv, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    case BROADCAST: { /* knows one vector only */
        float *const vector = c->shape.rank == 0 ? send : recv;
        MPI_Bcast(vector, n, MPI_FLOAT, 0, comm);
        return vector;
    }
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case ALLGATHER:
        MPI_Allgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
        break;
    case GATHER:
        MPI_Gather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, 0, comm);
        break;
    case SCATTER:
        MPI_Scatter(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, 0, comm);
        break;
    case ALLTOALL:
        MPI_Alltoall(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
        break;
    case SENDRECV:
        sendrecv(c, comm);
        break;
    case PINGPONG:
        pingpong(c, comm);
        break;
    case BARRIER:
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
