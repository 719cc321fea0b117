/* SPDX-License-Identifier: MIT */
#include "dist/server.h"

#include <stdlib.h>

#include "clock.h"

size_t server_memory(const struct server *s)
{
    const size_t workers = (size_t)s->links->nworkers;
    return (2 * workers * s->state.count + 1) * sizeof(float);
}

coll_status server_open(struct server *s, long tau)
{
    const size_t workers = (size_t)s->links->nworkers;
    if (tickets_open(&s->tickets, s->links->nworkers, tau))
        return COLL_ERR_MEMORY;
    s->slots = calloc(workers, sizeof(*s->slots));
    s->coming = calloc(workers, sizeof(*s->coming));
    s->queue = calloc(workers, sizeof(*s->queue));
    s->memory = malloc(server_memory(s));
    if (!s->slots || !s->coming || !s->queue || !s->memory) {
        server_close(s);
        return COLL_ERR_MEMORY;
    }
    for (size_t i = 0; i < workers; i++) {
        s->slots[i].in = s->memory + 2 * i * s->state.count;
        s->slots[i].out = s->slots[i].in + s->state.count;
    }
    return COLL_OK;
}

void server_close(struct server *s)
{
    tickets_close(&s->tickets);
    free(s->slots);
    free(s->coming);
    free(s->queue);
    free(s->memory);
    s->slots = NULL;
    s->coming = NULL;
    s->queue = NULL;
    s->memory = NULL;
}

coll_status server_listen(struct server *s, int worker)
{
    struct server_slot *slot = &s->slots[worker];
    const struct link link = links_to_worker(s->links, worker);
    return coll_recv(slot->in, s->state.count, COLL_F32, link.peer,
                     COLL_ANY_TAG, link.comm, &slot->message,
                     &s->coming[worker]);
}

static bool is_told(const struct server *s)
{
    return s->stop && *s->stop;
}

/* The reply before has been received, or the worker would not ask again. */
static coll_status reply(struct server *s, int worker)
{
    struct server_slot *slot = &s->slots[worker];
    const struct link link = links_to_worker(s->links, worker);
    const long tag =
        links_server(s->links) ? is_told(s) : tickets_take(&s->tickets);
    const coll_status status = coll_wait(&slot->going);
    return status ? status
                  : coll_send(slot->out, s->state.count, COLL_F32, link.peer,
                              (int)tag, link.comm, &slot->going);
}

coll_status server_answer(struct server *s, int worker)
{
    struct server_slot *slot = &s->slots[worker];
    const enum link_call call = slot->call =
        (enum link_call)(slot->message.tag & ~LINK_STOP);
    const bool pulls = call == LINK_EXCHANGE || call == LINK_PULL,
               pushes = call == LINK_EXCHANGE || call == LINK_PUSH;
    coll_status status = COLL_OK;
    if (slot->message.tag & LINK_STOP || is_told(s))
        tickets_stop(&s->tickets);
    if (call == LINK_LEAVE) {
        slot->left = true;
        return coll_wait(&slot->going);
    }
    slot->bytes += (uint64_t)(pulls + pushes) * s->state.count * sizeof(float);
    /* The threads of SERVER_AT_ONCE are not that of the breakdown. */
    struct breakdown *time = s->order == SERVER_AT_ONCE ? NULL : s->time;
    const enum part before = breakdown_enter(time, PART_CENTRE);
    const double began = clock_now();
    s->rule(&s->state, pushes ? slot->in : NULL, pulls ? slot->out : NULL);
    slot->seconds += clock_now() - began;
    breakdown_enter(time, before);
    if (pushes)
        tickets_changed(&s->tickets, worker);
    if (pulls) {
        tickets_read(&s->tickets, worker);
        status = reply(s, worker);
    }
    return status ? status : server_listen(s, worker);
}

uint64_t server_bytes(const struct server *s)
{
    uint64_t bytes = 0;
    for (int i = 0; i < s->links->nworkers; i++)
        bytes += s->slots[i].bytes;
    return bytes;
}

/* Moves those whose messages have come to the queue, at least one. */
static coll_status queue_up(struct server *s)
{
    const int n = s->links->nworkers;
    coll_status status = COLL_OK;
    for (int i = 0; status == COLL_OK && i >= 0;) {
        status = s->queued ? coll_test_any(n, s->coming, &i)
                           : coll_wait_any(n, s->coming, &i);
        if (status == COLL_OK && i >= 0)
            s->queue[(s->first + s->queued++) % n] = i;
    }
    return status == COLL_IN_PROGRESS ? COLL_OK : status;
}

static coll_status next_that_came(struct server *s, int *worker)
{
    const coll_status status = queue_up(s);
    if (status)
        return status;
    *worker = s->queue[s->first];
    s->first = (s->first + 1) % s->links->nworkers;
    s->queued--;
    return COLL_OK;
}

/* The turn is over when the worker has sent what it has to. */
static coll_status next_in_turn(struct server *s, int *worker)
{
    const struct server_slot *slot = &s->slots[s->turn];
    if (slot->left || slot->call != LINK_PULL)
        do
            s->turn = (s->turn + 1) % s->links->nworkers;
        while (s->slots[s->turn].left);
    *worker = s->turn;
    return coll_wait(&s->coming[s->turn]);
}

static coll_status run_one_by_one(struct server *s)
{
    coll_status status = COLL_OK;
    for (int i = 0; !status && i < s->links->nworkers; i++)
        status = server_listen(s, i);
    for (int left = 0; !status && left < s->links->nworkers;) {
        int worker = 0;
        status = s->order == SERVER_IN_TURN ? next_in_turn(s, &worker)
                                            : next_that_came(s, &worker);
        if (!status)
            status = server_answer(s, worker);
        left += !status && s->slots[worker].left;
    }
    return status;
}

/* They change the centre at once: the mean of them. */
static double seconds_of_threads(const struct server *s)
{
    double seconds = 0;
    for (int i = 0; i < s->links->nworkers; i++)
        seconds += s->slots[i].seconds / s->links->nworkers;
    return seconds;
}

coll_status server_run(struct server *s, long n, long *done)
{
    const enum part before = breakdown_enter(s->time, PART_OUTSIDE);
    tickets_start(&s->tickets, n);
    s->turn = s->links->nworkers - 1;
    for (int i = 0; i < s->links->nworkers; i++) {
        s->slots[i].left = false;
        s->slots[i].seconds = 0;
        s->slots[i].call = LINK_LEAVE;
    }
    const coll_status status =
        s->order == SERVER_AT_ONCE ? server_run_at_once(s) : run_one_by_one(s);
    *done = s->tickets.next;
    if (s->order == SERVER_AT_ONCE)
        breakdown_charge(s->time, PART_CENTRE, seconds_of_threads(s));
    breakdown_enter(s->time, before);
    return status;
}
