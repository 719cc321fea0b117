/* SPDX-License-Identifier: MIT */
/* From ranks that met to ranks that can exchange messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"
#include "comm/comm.h"

coll_status comm_exchange(coll_comm *c, const struct rank_info *mine)
{
    const size_t n = (size_t)c->nranks;
    c->ranks = calloc(n, sizeof(*c->ranks));
    c->host_of = calloc(n, sizeof(*c->host_of));
    if (!c->ranks || !c->host_of)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %zu ranks", n);
    c->ranks[0] = *mine;
    if (c->bootstrap) {
        const coll_status status =
            bootstrap_allgather(c->bootstrap, mine, c->ranks, sizeof(*mine));
        if (status < 0)
            return status;
    }
    for (size_t r = 0; r < n; r++) {
        const struct rank_info *info = &c->ranks[r];
        c->ranks[r].hostname[sizeof(info->hostname) - 1] = '\0';
        if (info->version != mine->version)
            return fail(COLL_ERR_MISMATCH, "comm",
                        "rank %zu (host %s) has libcoll %u, rank %d has %u", r,
                        info->hostname, info->version, c->rank, mine->version);
        if (info->settings != mine->settings)
            return fail(COLL_ERR_MISMATCH, "comm",
                        "rank %zu (host %s) has another COLL_ALGO (or "
                        "coll_config.algorithm), COLL_TRANSPORT, COLL_CLUSTER, "
                        "COLL_CALIBRATE, COLL_ADAPT, COLL_UCX_LANES or "
                        "COLL_DETERMINISM (coll_config.determinism) than rank "
                        "%d: they must be equal",
                        r, info->hostname, c->rank);
        c->host_of[r] = info->host;
        size_t first = 0;
        while (c->host_of[first] != info->host)
            first++;
        c->nhosts += first == r;
        c->local_ranks += info->host == mine->host;
    }
    return COLL_OK;
}

/* Which pairs of ranks some transport serves; equal on all ranks. */
struct matrix {
    size_t n, row_bytes;
    unsigned char *bits; /* [n][row_bytes] */
};

static bool matrix_get(const struct matrix *m, size_t i, size_t j)
{
    return m->bits[i * m->row_bytes + j / 8] >> j % 8 & 1;
}

/* Adds what `other` reaches in both directions; false: a pair is left. */
static bool matrix_add(struct matrix *m, const struct matrix *other)
{
    bool complete = true;
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = 0; j < m->n; j++) {
            if (i != j && matrix_get(other, i, j) && matrix_get(other, j, i))
                m->bits[i * m->row_bytes + j / 8] |=
                    (unsigned char)(1u << j % 8);
            complete &= i == j || matrix_get(m, i, j);
        }
    return complete;
}

static coll_status matrix_create(struct matrix *m, size_t n)
{
    *m = (struct matrix){.n = n, .row_bytes = (n + 7) / 8};
    m->bits = calloc(n, m->row_bytes);
    return m->bits
               ? COLL_OK
               : fail(COLL_ERR_MEMORY, "comm", "no memory for %zu ranks", n);
}

/* This rank's end, or NULL with address.bytes 0 if it cannot take part. */
static struct transport *open_one(coll_comm *c, const struct transport_ops *ops,
                                  struct transport_address *address)
{
    struct transport *t = NULL;
    memset(address, 0, sizeof(*address));
    const coll_status status = ops->open(&t, &c->job);
    if (status < 0) {
        log_line(COLL_LOG_WARN, ops->name, "rank %d goes on without %s: %s",
                 c->rank, ops->name, fail_sentence());
        return NULL;
    }
    ops->address(t, address);
    c->open[c->nopen++] = t;
    return t;
}

/* Opens one transport on all ranks and notes in *reached whom each reaches. */
static coll_status offer(coll_comm *c, const struct transport_ops *ops,
                         struct matrix *reached)
{
    const size_t n = (size_t)c->nranks;
    struct transport_address mine, *all = calloc(n, sizeof(*all));
    bool *flags = calloc(n, sizeof(*flags));
    unsigned char *row = calloc(1, reached->row_bytes);
    coll_status status = COLL_ERR_MEMORY;
    if (!all || !flags || !row) {
        fail(status, "comm", "no memory for %zu addresses", n);
        goto out;
    }
    struct transport *t = open_one(c, ops, &mine);
    status = bootstrap_allgather(c->bootstrap, &mine, all, sizeof(mine));
    for (size_t r = 0; r < n && status == COLL_OK; r++)
        if (all[r].bytes > TRANSPORT_ADDRESS_MAX)
            status = fail(COLL_ERR_PEER, "comm",
                          "rank %zu sent a malformed %s address", r, ops->name);
    if (status == COLL_OK && t)
        status = ops->connect(t, all, flags);
    if (status < 0)
        goto out;
    for (size_t r = 0; r < n; r++)
        if (flags[r])
            row[r / 8] |= (unsigned char)(1u << r % 8);
    status = bootstrap_allgather(c->bootstrap, row, reached->bits,
                                 reached->row_bytes);
    for (size_t r = 0; r < n && status == COLL_OK && t; r++)
        if (!c->to[r] && r != (size_t)c->rank
            && matrix_get(reached, (size_t)c->rank, r)
            && matrix_get(reached, r, (size_t)c->rank)) {
            c->to[r] = t;
            c->remote |= ops != transport_find("shm");
        }
out:
    free(all);
    free(flags);
    free(row);
    return status;
}

static coll_status unconnected(const coll_comm *c, const struct matrix *served)
{
    for (size_t i = 0; i < served->n; i++)
        for (size_t j = 0; j < i; j++)
            if (!matrix_get(served, i, j))
                return fail(COLL_ERR_UNSUPPORTED, "comm",
                            "ranks %zu (host %s) and %zu (host %s) have no "
                            "transport in common with COLL_TRANSPORT=%s; "
                            "COLL_LOG=info says why",
                            j, c->ranks[j].hostname, i, c->ranks[i].hostname,
                            setting_text(SETTING_TRANSPORT));
    return COLL_OK;
}

static coll_status check_transport_setting(const char *wanted)
{
    const char *names[MAX_TRANSPORTS + 1] = {"auto"};
    int n = 1;
    bool known = !strcmp(wanted, "auto");
    for (int i = 0; i < ntransports; i++)
        if (!transports[i]->simulated) {
            known |= !strcmp(wanted, transports[i]->name);
            names[n++] = transports[i]->name;
        }
    const char *near = nearest_name(wanted, names, n);
    if (known)
        return COLL_OK;
    return fail(COLL_ERR_INVALID, "comm",
                "COLL_TRANSPORT=%s is not auto, shm or ucx%s%s%s", wanted,
                near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "");
}

/* What the user has named, or all but what could join no two ranks: there they
 * would only tell one another that each is alone. */
static bool is_offered(const coll_comm *c, const struct transport_ops *ops,
                       const char *wanted)
{
    if (ops->simulated)
        return false;
    if (strcmp(wanted, "auto"))
        return !strcmp(wanted, ops->name);
    return c->nhosts < c->nranks || ops != transport_find("shm");
}

coll_status comm_connect(coll_comm *c)
{
    const char *wanted = setting_text(SETTING_TRANSPORT);
    struct matrix served = {0}, reached = {0};
    bool complete = c->nranks == 1;
    coll_status status = check_transport_setting(wanted);
    c->to = calloc((size_t)c->nranks, sizeof(struct transport *));
    if (status == COLL_OK && !c->to)
        status =
            fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", c->nranks);
    if (status == COLL_OK)
        status = matrix_create(&served, (size_t)c->nranks);
    if (status == COLL_OK)
        status = matrix_create(&reached, (size_t)c->nranks);
    for (int i = 0; i < ntransports && status == COLL_OK && !complete; i++) {
        if (!is_offered(c, transports[i], wanted))
            continue;
        status = offer(c, transports[i], &reached);
        complete = status == COLL_OK && matrix_add(&served, &reached);
    }
    if (status == COLL_OK && !complete)
        status = unconnected(c, &served);
    free(served.bits);
    free(reached.bits);
    return status;
}
