// SPDX-License-Identifier: MIT
// What MPI_Allreduce of float sums takes on SMPI, without any data.
//
//   smpirun -no-privatize -wrapper 'env LD_PRELOAD=.../allreduce_smpi'
//           --cfg=smpi/gather:mvapich2_two_level ... allreduce_smpi BYTES...
//
// Prints for each size and rank the bytes and the virtual seconds from the
// moment that all ranks begin to that when this one has finished.
//
// A thousand vectors of 64 MiB, and as many temporary ones, would not fit in
// memory. SMPI neither allocates, copies nor adds where it replays a trace, but
// its own start of a replay fails above some 100 ranks (3.32: "free(): invalid
// pointer"). So ranks start as usual, let SMPI find out who shares a host, and
// from then on SMPI is told that it replays: as this file is preloaded, its
// replaying() is the one that SMPI calls.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <sys/mman.h>

static bool without_data; // of all ranks, which are one process

namespace simgrid::smpi
{
class ActorExt
{
  public:
    bool replaying() const;
};
bool ActorExt::replaying() const
{
    return without_data;
}
} // namespace simgrid::smpi

// Addresses only: nobody touches what is there.
static void *nothing(size_t bytes)
{
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static double measure(size_t bytes, double at)
{
    void *const in = nothing(bytes), *const out = nothing(bytes);
    sg_actor_sleep_until(at); // all at once, which no barrier gives
    MPI_Allreduce(in, out, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    munmap(in, bytes);
    munmap(out, bytes);
    return simgrid_get_clock() - at;
}

// Some selectors do so in their first collective, this algorithm always.
static void find_hosts()
{
    int nranks, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<int> ranks(nranks);
    MPI_Gather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    find_hosts();
    measure(sizeof(float), 1000);
    sg_actor_sleep_until(2000);
    without_data = true;
    for (int i = 1; i < argc; i++) {
        const size_t bytes = strtoull(argv[i], nullptr, 10);
        std::printf("%zu %.12g\n", bytes, measure(bytes, 1000 * (i + 2)));
    }
    MPI_Finalize();
    return 0;
}
