/* SPDX-License-Identifier: MIT */
/* Groups of ranks on one host: made, and taken apart. */
#include "node/node.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "node/foreign.h"

/* What ranks tell each other. Travels. */
struct introduction {
    struct segment_name segment; /* of the first rank of a host; else zeros */
    struct heap_name heap;
    struct foreign_probe probe;
    struct node_place place;
    int32_t heap_ok;
};

/* ...and what they found. */
struct finding {
    uint8_t attached, reads_foreign, fences, crowded;
};

static size_t segment_size(int n)
{
    return sizeof(struct node_shared) + (size_t)n * sizeof(struct node_region);
}

static size_t piece_bytes(int n)
{
    enum { SECOND_CACHE = 1 << 20 };
    size_t piece = NODE_PIECE_MOST;
    while (piece > NODE_PIECE_LEAST && piece * (size_t)(n + 1) > SECOND_CACHE)
        piece /= 2;
    return piece;
}

/* A piece from each rank and one more, or a share of a block. */
static size_t scratch_bytes(int n)
{
    const size_t pieces = ((size_t)n + 1) * piece_bytes(n);
    return pieces > NODE_STAGE_BYTES ? pieces : NODE_STAGE_BYTES;
}

/* Of each peer, for collectives and as many for messages. */
static unsigned most_views(int n)
{
    enum { ALL = 16384, LEAST = 64, MOST = 4096 };
    const int most = ALL / n;
    return most < LEAST ? LEAST : most > MOST ? MOST : (unsigned)most;
}

static struct node *allocate(int n)
{
    struct node *node = calloc(1, sizeof(*node));
    if (!node)
        return NULL;
    node->n = n;
    node->rank_of = calloc((size_t)n, sizeof(*node->rank_of));
    node->near.place_of = calloc((size_t)n, sizeof(*node->near.place_of));
    node->near.position_of = calloc((size_t)n, sizeof(*node->near.position_of));
    node->peers = calloc((size_t)n, sizeof(*node->peers));
    node->ins = calloc((size_t)n, sizeof(*node->ins));
    node->outs = calloc((size_t)n, sizeof(*node->outs));
    node->src = calloc((size_t)n, sizeof(*node->src));
    node->dst = calloc((size_t)n + 1, sizeof(*node->dst));
    node->modes = calloc(2, sizeof(*node->modes));
    node->piece_bytes = piece_bytes(n);
    node->scratch = aligned_alloc(4096, scratch_bytes(n));
    node->announced.most = most_views(n);
    for (int i = 0; i < n && node->peers; i++)
        node->peers[i].large.most = node->peers[i].pulled.most = most_views(n);
    if (node->rank_of && node->near.place_of && node->near.position_of
        && node->peers && node->ins && node->outs && node->src && node->dst
        && node->scratch && node->modes)
        return node;
    node_free(node);
    return NULL;
}

char *node_view(struct node_peer *p, struct node_views *all, uint64_t block,
                uint64_t bytes, bool touch)
{
    if (p->same_process)
        return heap_address(block);
    const struct node_view *known = views_find(all, block);
    if (known)
        return known->memory;
    struct node_view view = {.block = block, .bytes = bytes};
    view.memory = heap_map(&p->heap, block, bytes, touch);
    if (view.memory && !views_add(all, view)) {
        munmap(view.memory, bytes);
        return NULL;
    }
    return view.memory;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    for (int i = 0; i < n->n && n->peers; i++) {
        views_clear(&n->peers[i].large);
        views_clear(&n->peers[i].pulled);
    }
    views_clear(&n->announced);
    node_levels_free(&n->levels);
    segment_detach(&n->view);
    segment_free(n->segment);
    free(n->near.place_of);
    free(n->near.position_of);
    free(n->rank_of);
    free(n->peers);
    free(n->ins);
    free(n->outs);
    free(n->src);
    free(n->dst);
    free(n->scratch);
    free(n->modes);
    free(n);
}

/* This host's ranks, in rank order. */
static coll_status enlist(struct node **node, const struct node_job *job)
{
    int n = 0;
    for (int r = 0; r < job->nranks; r++)
        n += job->host_of[r] == job->host_of[job->rank];
    if (n == 1)
        return COLL_OK;
    *node = allocate(n);
    if (!*node)
        return fail(COLL_ERR_MEMORY, "shm", "no memory for %d ranks", n);
    (*node)->tells = n < job->nranks;
    for (int r = 0, i = 0; r < job->nranks; r++)
        if (job->host_of[r] == job->host_of[job->rank]) {
            if (r == job->rank)
                (*node)->me = i;
            (*node)->rank_of[i++] = r;
        }
    return COLL_OK;
}

static void introduce(struct node *n, const struct node_job *job,
                      struct introduction *mine)
{
    memset(mine, 0, sizeof(*mine));
    mine->heap_ok = heap_open(&mine->heap) == COLL_OK;
    foreign_offer(&mine->probe,
                  strcmp(setting_text(SETTING_SINGLE_COPY), "off"));
    job->place(job->context, &mine->place, n->me, n->n);
    if (n->me == 0 && segment_size(n->n) > SEGMENT_MAX_AREA_BYTES)
        log_line(COLL_LOG_WARN, "shm", "%d ranks are too many for one segment",
                 n->n);
    else if (n->me == 0
             && segment_create(&n->segment, job->job, job->rank, 1,
                               segment_size(n->n))
                    == COLL_OK)
        mine->segment = segment_name(n->segment);
}

static bool attach(struct node *n, const struct introduction *all)
{
    const char *wrong = "rank 0 of this host could not make it";
    if (all[n->rank_of[0]].segment.area_bytes >= segment_size(n->n))
        wrong = segment_attach(&all[n->rank_of[0]].segment, 0, &n->view);
    if (wrong) {
        log_line(COLL_LOG_WARN, "shm",
                 "rank %d cannot share memory with the ranks of its host, so "
                 "messages take its place: %s",
                 n->rank_of[n->me], wrong);
        return false;
    }
    n->shared = n->view.memory;
    for (int i = 0; i < n->n; i++)
        n->peers[i].region = &n->shared->region[i];
    return true;
}

static void look_around(struct node *n, const struct introduction *all,
                        struct finding *mine)
{
    const char *wanted = setting_text(SETTING_SINGLE_COPY);
    const uint64_t process = all[n->rank_of[n->me]].heap.process;
    *mine = (struct finding){.attached = attach(n, all),
                             .reads_foreign = strcmp(wanted, "off") != 0,
                             .fences = node_bell_register()};
    for (int i = 0; i < n->n; i++) {
        const struct introduction *of = &all[n->rank_of[i]];
        n->peers[i].heap = of->heap;
        n->peers[i].pid = (int)of->probe.pid;
        n->peers[i].same_process = of->heap_ok && of->heap.process == process;
        mine->attached &= of->heap_ok;
        if (mine->reads_foreign)
            mine->reads_foreign = foreign_try(&of->probe);
    }
}

/* What holds on all ranks of the host. */
static bool conclude(struct node *n, const struct finding *all)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    bool attached = true, crowded = false;
    n->reads_foreign = n->fences = true;
    for (int i = 0; i < n->n; i++) {
        const struct finding *of = &all[n->rank_of[i]];
        attached &= of->attached;
        n->reads_foreign &= of->reads_foreign;
        n->fences &= of->fences;
        crowded |= of->crowded;
    }
    if (!n->reads_foreign && n->me == 0 && attached)
        log_line(COLL_LOG_WARN, "shm",
                 "ranks of this host may not read each other's memory "
                 "(process_vm_readv), so vectors that are not from "
                 "coll_mem_alloc() are copied twice: allow it, or use "
                 "coll_mem_alloc()");
    n->cache_bytes =
        (cache > 0 ? (size_t)cache : (size_t)32 << 20) / (2 * (size_t)n->n);
    /* One exchange instead of two pays for copying where exchanges are dear. */
    n->inline_bytes = crowded ? NODE_INLINE_BYTES : NODE_INLINE_BEST;
    return attached;
}

static coll_status group(struct node *n, const struct introduction *all)
{
    char text[512];
    struct node_place *places = calloc((size_t)n->n, sizeof(*places));
    if (!places)
        return fail(COLL_ERR_MEMORY, "shm", "no memory for %d ranks", n->n);
    for (int i = 0; i < n->n; i++)
        places[i] = all[n->rank_of[i]].place;
    coll_status status = node_levels_build(&n->levels, places, n->n);
    if (status == COLL_OK)
        status = near_group(n, places);
    free(places);
    if (status < 0)
        return fail(status, "shm", "no groups for %d ranks of one host", n->n);
    n->ngroups = node_levels_of(&n->levels, n->me, n->groups);
    n->top = n->ngroups == n->levels.nlevels;
    n->flat = n->levels.nlevels == 1;
    if (n->me == 0) {
        node_levels_print(&n->levels, text, sizeof(text));
        log_line(COLL_LOG_INFO, "shm", "small collectives: %s", text);
    }
    return COLL_OK;
}

static coll_status meet(struct node *n, const struct node_job *job, bool *ok)
{
    const size_t nranks = (size_t)job->nranks;
    struct introduction mine, *all = calloc(nranks, sizeof(*all));
    struct finding found = {0}, *findings = calloc(nranks, sizeof(*findings));
    coll_status status = COLL_ERR_MEMORY;
    if (!all || !findings) {
        fail(status, "shm", "no memory for %zu ranks", nranks);
    } else {
        memset(&mine, 0, sizeof(mine));
        if (n)
            introduce(n, job, &mine);
        status = job->allgather(job->context, &mine, all, sizeof(mine));
        if (status == COLL_OK && n)
            look_around(n, all, &found);
        found.crowded = job->crowded;
        if (status == COLL_OK)
            status =
                job->allgather(job->context, &found, findings, sizeof(found));
        if (status == COLL_OK && n)
            *ok = conclude(n, findings);
        if (status == COLL_OK && *ok)
            status = group(n, all);
    }
    free(all);
    free(findings);
    return status;
}

coll_status node_create(struct node **node, const struct node_job *job)
{
    struct node *n = NULL;
    bool ok = false;
    *node = NULL;
    coll_status status = enlist(&n, job);
    if (status == COLL_OK)
        status = meet(n, job, &ok);
    if (status == COLL_OK && ok)
        *node = n;
    else
        node_free(n);
    return status;
}

bool node_awaits(const struct node *n, int rank)
{
    return n->awaited >= 0 && n->rank_of[n->awaited] == rank;
}
