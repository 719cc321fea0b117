/* SPDX-License-Identifier: MIT */
#include "fabric.h"

#include <criterion/criterion.h>

void fabric_close(struct fabric *f)
{
    for (int r = 0; r < f->n; r++)
        if (f->ends[r])
            f->ends[r]->ops->close(f->ends[r]);
    sim_free(f->sim);
}

bool fabric_connect(struct fabric *f)
{
    static struct transport_address all[MAX_ENDS];
    bool complete = true;
    for (int r = 0; r < f->n; r++)
        f->ops->address(f->ends[r], &all[r]);
    for (int r = 0; r < f->n; r++) {
        bool reached[MAX_ENDS] = {false};
        cr_assert_eq(f->ops->connect(f->ends[r], all, reached), COLL_OK);
        for (int q = 0; q < f->n; q++)
            complete &= reached[q] || q == r;
    }
    return complete;
}

bool fabric_open_lanes(struct fabric *f, const struct transport_ops *ops,
                       int per_host, int n, int lanes)
{
    const struct sim_net net = {
        .link = {1e-6, 1e-9, 0}
    };
    setenv("UCX_NET_DEVICES", "lo", 0);
    *f = (struct fabric){
        .ops = ops, .per_host = per_host, .n = n, .lanes = lanes};
    if (!strcmp(ops->name, "sim"))
        f->sim = sim_create(n, &net);
    for (int r = 0; r < n; r++) {
        f->hosts[r] = 100 + (uint64_t)(r / per_host);
        f->jobs[r] = (struct transport_job){
            .rank = r,
            .nranks = n,
            .host_of = f->hosts,
            .lanes = lanes,
            .job = 0x123456789abcdef,
            .sim = f->sim,
        };
    }
    for (int r = 0; r < n; r++)
        cr_assert_eq(ops->open(&f->ends[r], &f->jobs[r]), COLL_OK, "%s rank %d",
                     ops->name, r);
    if (fabric_connect(f))
        return true;
    fabric_close(f);
    return false;
}

bool fabric_open(struct fabric *f, const struct transport_ops *ops,
                 int per_host, int n)
{
    return fabric_open_lanes(f, ops, per_host, n, 1);
}

bool fabric_progress(struct fabric *f)
{
    bool moved = false;
    for (int r = 0; r < f->n; r++)
        if (f->ends[r])
            moved |= f->ops->progress(f->ends[r]);
    return moved;
}

bool drive(struct fabric *f, struct letter *const *letters, size_t n)
{
    const double deadline = letter_clock() + 120;
    for (size_t i = 0; i < n;) {
        if (letter_status(letters[i]) != COLL_IN_PROGRESS)
            i++;
        else if (!fabric_progress(f) && letter_clock() > deadline)
            return false;
    }
    return true;
}

void deliver(struct fabric *f, struct letter **letters, size_t n)
{
    cr_assert(drive(f, letters, n), "%s, %d a host, %d ranks: stuck",
              f->ops->name, f->per_host, f->n);
    for (size_t i = 0; i < n; i++) {
        cr_assert(letter_good(letters[i]),
                  "%s, %d a host, %d ranks: letter %zu, %zu bytes, status %d",
                  f->ops->name, f->per_host, f->n, i,
                  letters[i]->transfer.bytes, letter_status(letters[i]));
        letter_free(letters[i]);
    }
}

void everywhere(int n, void (*claim)(struct fabric *))
{
    static const int per_host[] = {MAX_ENDS, 2, 1};
    int ran = 0;
    for (int i = 0; i < ntransports; i++)
        for (int k = 0; k < 3; k++) {
            struct fabric f;
            if (!fabric_open(&f, transports[i], per_host[k], n))
                continue;
            claim(&f);
            fabric_close(&f);
            ran++;
        }
    cr_assert_geq(ran, 1 + 3 + 3, "shm serves one host, the others all");
}

void over_lanes(int n, void (*claim)(struct fabric *))
{
    for (int lanes = 2; lanes <= TRANSPORT_LANES_MAX; lanes += 3) {
        struct fabric f;
        cr_assert(fabric_open_lanes(&f, transport_find("ucx"), 1, n, lanes));
        claim(&f);
        fabric_close(&f);
    }
}

void exchange(struct fabric *f, int from, int to, size_t bytes, bool late)
{
    struct letter *both[2];
    const uint64_t seed = bytes + (uint64_t)from;
    if (!late)
        both[1] = letter_recv(f->ends[to], from, bytes, seed);
    both[0] = letter_send(f->ends[from], to, bytes, seed);
    if (late) {
        fabric_progress(f);
        both[1] = letter_recv(f->ends[to], from, bytes, seed);
    }
    deliver(f, both, 2);
}
