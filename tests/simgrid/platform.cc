// SPDX-License-Identifier: MIT
// The network of COLL_CLUSTER as a SimGrid platform, which replay and smpirun
// load: rank r is host "host-r".
//
// Each group is a star of what is in it, around a router. A host's port, and
// the shared link of a group, are a link for each direction. Half of what the
// latency of a level is above that of the next stands at either end;
// SIMGRID_LATENCY=0 leaves latencies out.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

#include "network.h"

namespace sg = simgrid::s4u;
using ranks = std::vector<int>;

// What joins one member of a star to its middle; latency for one end.
static std::vector<sg::LinkInRoute>
join(sg::NetZone *star, const std::string &name, double rate, double latency)
{
    if (rate > 0)
        return {
            {star->create_split_duplex_link(name, rate)
                 ->set_latency(latency)
                 ->seal(),
             sg::LinkInRoute::Direction::UP}
        };
    if (latency <= 0)
        return {};
    return {sg::LinkInRoute(
        star->create_link(name, 1e18)
            ->set_latency(latency)
            ->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)
            ->seal())};
}

static void add_host(const network &net, sg::NetZone *star, int rank)
{
    const std::string number = std::to_string(rank);
    sg::Host *host = star->create_host("host-" + number, 1e9)->seal();
    star->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                    join(star, "port-" + number, net.port,
                         net.level[net.nlevels - 1].alpha / 2),
                    true);
}

// Puts the members of one group into its star; those of a level outside of the
// hosts' are stars themselves.
static void fill(const network &net, sg::NetZone *star, int level,
                 const ranks &members)
{
    const network_level &at = net.level[level];
    if (level == net.nlevels - 1) {
        for (int rank : members)
            add_host(net, star, rank);
        return;
    }
    std::vector<ranks> inside(at.ngroups);
    for (int rank : members)
        inside[at.group_of[rank]].push_back(rank);
    for (int g = 0; g < at.ngroups; g++) {
        if (inside[g].empty())
            continue;
        const std::string name =
            std::to_string(level) + "-" + std::to_string(g);
        sg::NetZone *zone = sg::create_star_zone("group-" + name);
        zone->set_parent(star);
        auto *router = zone->create_router("router-" + name);
        fill(net, zone, level + 1, inside[g]);
        zone->seal();
        star->add_route(zone->get_netpoint(), nullptr, router, nullptr,
                        join(star, "link-" + name, at.shared,
                             (at.alpha - net.level[level + 1].alpha) / 2),
                        true);
    }
}

extern "C" void load_platform(const sg::Engine &)
{
    network net;
    const char *cluster = std::getenv("COLL_CLUSTER");
    const char *wrong = network_open(&net, cluster ? cluster : "", 0);
    if (wrong) {
        std::fprintf(stderr, "platform: %s\n", wrong);
        std::exit(2);
    }
    const char *latency = std::getenv("SIMGRID_LATENCY");
    if (latency && !std::strcmp(latency, "0"))
        for (auto &level : net.level)
            level.alpha = 0;
    ranks all(net.nranks);
    std::iota(all.begin(), all.end(), 0);
    sg::NetZone *root = sg::create_star_zone("network");
    fill(net, root, 0, all);
    root->seal();
    network_close(&net);
}
