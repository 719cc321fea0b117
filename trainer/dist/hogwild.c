/* SPDX-License-Identifier: MIT */
/* Hogwild (Niu, Recht, Re, Wright, 2011): a server has a thread for each
 * worker, and they change the centre without a lock. */
#include <pthread.h>
#include <stdlib.h>

#include "dist/server.h"

struct service {
    struct server *server;
    int worker;
    coll_status status;
    pthread_t thread;
};

static void *serve(void *context)
{
    struct service *v = context;
    struct server *s = v->server;
    v->status = server_listen(s, v->worker);
    while (!v->status && !s->slots[v->worker].left) {
        v->status = coll_wait(&s->coming[v->worker]);
        if (!v->status)
            v->status = server_answer(s, v->worker);
    }
    if (v->status) /* the other threads wait for workers that go on */
        links_abort(s->links);
    return NULL;
}

coll_status server_run_at_once(struct server *s)
{
    const int n = s->links->nworkers;
    struct service *all = calloc((size_t)n, sizeof(*all));
    coll_status status = all ? COLL_OK : COLL_ERR_MEMORY;
    int started = 0;
    while (!status && started < n) {
        struct service *v = &all[started];
        *v = (struct service){.server = s, .worker = started};
        if (pthread_create(&v->thread, NULL, serve, v))
            status = COLL_ERR_SYSTEM;
        else
            started++;
    }
    if (status)
        links_abort(s->links);
    for (int i = 0; i < started; i++) {
        pthread_join(all[i].thread, NULL);
        if (!status)
            status = all[i].status;
    }
    free(all);
    if (status)
        links_failed(s->links);
    return status;
}
