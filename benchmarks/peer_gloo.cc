// SPDX-License-Identifier: MIT
// Gloo over TCP, measured as peer.h says.
//
//   peer_gloo RANK NRANKS FOLDER ALGORITHM COLLECTIVE MIN MAX FACTOR
//
// FOLDER is empty, and where the ranks find each other. ALGORITHM is of
// allreduce: ring, bcube or halving_doubling. If there is a CPU for each rank,
// rank r calls from the r-th; Gloo's own thread may run anywhere.
//
// Gloo's reduce_scatter and halving_doubling only work in place: the result is
// where the input was.
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gloo/allgather.h"
#include "gloo/allreduce.h"
#include "gloo/allreduce_halving_doubling.h"
#include "gloo/alltoall.h"
#include "gloo/barrier.h"
#include "gloo/broadcast.h"
#include "gloo/gather.h"
#include "gloo/math.h"
#include "gloo/reduce.h"
#include "gloo/reduce_scatter.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/scatter.h"
#include "gloo/transport/tcp/device.h"
#include "peer.h"

namespace
{

struct Gloo {
    std::shared_ptr<gloo::Context> context;
    std::string algorithm;
    // Algorithms that are set up for a vector, by its length.
    std::map<size_t, std::unique_ptr<gloo::Algorithm>> prepared;
};

void add(void *c, const void *a, const void *b, size_t n)
{
    gloo::sum<float>(c, a, b, n);
}

template <typename T>
void allreduce(const Gloo &g, T *send, T *recv, size_t count,
               void (*op)(void *, const void *, const void *, size_t))
{
    using Options = gloo::AllreduceOptions;
    Options options(g.context);
    options.setAlgorithm(g.algorithm == "bcube" ? Options::Algorithm::BCUBE
                                                : Options::Algorithm::RING);
    options.setInput(send, count);
    options.setOutput(recv, count);
    options.setReduceFunction(op);
    gloo::allreduce(options);
}

void reduce(const Gloo &g, float *send, float *recv, size_t count)
{
    gloo::ReduceOptions options(g.context);
    options.setInput(send, count);
    options.setOutput(recv, count);
    options.setRoot(0);
    options.setReduceFunction(add);
    gloo::reduce(options);
}

void broadcast(const Gloo &g, float *send, float *recv, size_t count)
{
    gloo::BroadcastOptions options(g.context);
    if (g.context->rank == 0)
        options.setInput(send, count);
    options.setOutput(recv, count);
    options.setRoot(0);
    gloo::broadcast(options);
}

void allgather(const Gloo &g, float *send, float *recv, size_t count)
{
    gloo::AllgatherOptions options(g.context);
    options.setInput(send, count);
    options.setOutput(recv, count * g.context->size);
    gloo::allgather(options);
}

void gather(const Gloo &g, float *send, float *recv, size_t count)
{
    gloo::GatherOptions options(g.context);
    options.setInput(send, count);
    if (g.context->rank == 0)
        options.setOutput(recv, count * g.context->size);
    options.setRoot(0);
    gloo::gather(options);
}

void scatter(const Gloo &g, float *send, float *recv, size_t count)
{
    gloo::ScatterOptions options(g.context);
    std::vector<float *> parts;
    for (int r = 0; r < g.context->size; r++)
        parts.push_back(send + (size_t)r * count);
    if (g.context->rank == 0)
        options.setInputs(parts, count);
    options.setOutput(recv, count);
    options.setRoot(0);
    gloo::scatter(options);
}

void alltoall(const Gloo &g, float *send, float *recv, size_t count)
{
    gloo::AlltoallOptions options(g.context);
    options.setInput(send, count * g.context->size);
    options.setOutput(recv, count * g.context->size);
    gloo::alltoall(options);
}

void halving_doubling(Gloo &g, float *vector, size_t count)
{
    auto &algorithm = g.prepared[count];
    if (!algorithm)
        algorithm.reset(new gloo::AllreduceHalvingDoubling<float>(
            g.context, {vector}, (int)count));
    algorithm->run();
}

void reduce_scatter(Gloo &g, float *vector, size_t count)
{
    const int n = g.context->size;
    auto &algorithm = g.prepared[count];
    if (!algorithm)
        algorithm.reset(new gloo::ReduceScatterHalvingDoubling<float>(
            g.context, {vector}, (int)count * n,
            std::vector<int>((size_t)n, (int)count)));
    algorithm->run();
}

float *call(void *context, const peer_call *c)
{
    Gloo &g = *static_cast<Gloo *>(context);
    float *const send = c->send, *const recv = c->recv;
    const size_t count = c->count;
    switch (c->shape.collective) {
    case REDUCE:
        reduce(g, send, recv, count);
        return recv;
    case BROADCAST:
        broadcast(g, send, recv, count);
        return recv;
    case REDUCE_SCATTER:
        reduce_scatter(g, send, count);
        return send;
    case ALLGATHER:
        allgather(g, send, recv, count);
        return recv;
    case GATHER:
        gather(g, send, recv, count);
        return recv;
    case SCATTER:
        scatter(g, send, recv, count);
        return recv;
    case ALLTOALL:
        alltoall(g, send, recv, count);
        return recv;
    case BARRIER: {
        gloo::BarrierOptions options(g.context);
        gloo::barrier(options);
        return recv;
    }
    default:
        if (g.algorithm == "halving_doubling") {
            halving_doubling(g, send, count);
            return send;
        }
        allreduce(g, send, recv, count, add);
        return recv;
    }
}

void together(void *context)
{
    unsigned char mine = 0, all = 0;
    allreduce(*static_cast<Gloo *>(context), &mine, &all, 1,
              gloo::max<unsigned char>);
}

void largest(void *context, double *x, size_t count)
{
    std::vector<double> mine(x, x + count);
    allreduce(*static_cast<Gloo *>(context), mine.data(), x, count,
              gloo::max<double>);
}

void bind(int rank, int nranks)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0
        || CPU_COUNT(&allowed) < nranks)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0, i = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && i++ == rank)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

int measure(int argc, char **argv)
{
    const int rank = std::atoi(argv[1]), nranks = std::atoi(argv[2]);
    gloo::transport::tcp::attr where;
    where.iface = "lo";
    where.ai_family = AF_INET;
    auto device = gloo::transport::tcp::CreateDevice(where);
    bind(rank, nranks);
    gloo::rendezvous::FileStore store(argv[3]);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, nranks);
    context->setTimeout(std::chrono::seconds(60));
    context->connectFullMesh(store, device);
    Gloo g = {context, argv[4], {}};
    const peer peer = {rank, nranks, &g, call, together, largest};
    argv[4] = argv[0];
    const int status = peer_run(&peer, argc - 4, argv + 4);
    together(&g); // nobody leaves while others still listen
    return status;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 9 && argc != 10) {
        std::fprintf(stderr, "usage: peer_gloo RANK NRANKS FOLDER ALGORITHM "
                             "COLLECTIVE MIN MAX FACTOR [PAUSE]\n");
        return 2;
    }
    try {
        return measure(argc, argv);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "peer_gloo: %s\n", e.what());
        return 1;
    }
}
