// SPDX-License-Identifier: MIT
#include "comms.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;

struct comms {
    std::vector<sg::CommPtr> flying;
    std::vector<void *> what;
    std::unordered_map<long, sg::Mailbox *> boxes; // by pair of ranks
};

static sg::Mailbox *box(comms *c, int from, int to)
{
    sg::Mailbox *&known = c->boxes[((long)from << 32) | to];
    if (!known)
        known = sg::Mailbox::by_name(std::to_string(from) + ">"
                                     + std::to_string(to));
    return known;
}

static void fly(comms *c, sg::CommPtr comm, void *what)
{
    c->flying.push_back(std::move(comm));
    c->what.push_back(what);
}

extern "C" comms *comms_create()
{
    return new comms;
}

extern "C" void comms_free(comms *c)
{
    delete c;
}

extern "C" void comms_put(comms *c, int from, int to, size_t bytes, void *what)
{
    static char something; // a payload of no address is refused
    fly(c, box(c, from, to)->put_async(&something, bytes), what);
}

extern "C" void comms_get(comms *c, int from, int to, void *what)
{
    static char *nowhere;
    fly(c, box(c, from, to)->get_async(&nowhere), what);
}

extern "C" void *comms_wait(comms *c, double until)
{
    const double left =
        until < 0 ? -1 : std::max(until - sg::Engine::get_clock(), 0.0);
    if (c->flying.empty()) {
        sg::this_actor::sleep_for(left);
        return nullptr;
    }
    const ssize_t i = sg::Comm::wait_any_for(c->flying, left);
    if (i < 0)
        return nullptr;
    void *what = c->what[i];
    c->flying.erase(c->flying.begin() + i);
    c->what.erase(c->what.begin() + i);
    return what;
}
