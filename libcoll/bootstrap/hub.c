/* SPDX-License-Identifier: MIT */
#include "bootstrap/hub.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"

enum { MAX_STRANGERS = 64 };
static const double stranger_seconds = 2; /* to give a right hello */
static const double crowded_seconds = .1; /* the same, if others wait */
static const double linger_seconds = 2;   /* to take the last frames */
static const double late_seconds = 10;    /* to tell late ranks of a failure */

struct conn {
    enum {
        CONN_FREE,
        CONN_STRANGER,
        CONN_MEMBER,
        CONN_HELD,    /* left, but the hub's process must not end yet */
        CONN_CLOSING, /* takes the last frames; what it says is ignored */
        CONN_DROP,
    } state;
    int rank;
    double opened, deadline;
    struct frame_reader reader;
    struct outbox out;
};

/* One rank. */
struct seat {
    enum { SEAT_AWAITED, SEAT_PRESENT, SEAT_LEFT } state;
    bool resident; /* in the hub's own process */
    bool given;    /* its part of the round under way */
    char *about;   /* NULL: not told yet */
};

struct hub {
    unsigned char key[FRAME_KEY];
    uint64_t process;

    enum { HUB_JOINING, HUB_RUNNING, HUB_ENDED } phase;
    double idle_deadline, join_deadline, join_seconds;
    double late_deadline; /* after a failure */
    double last_tick;     /* what is past by then needs no other */
    bool finished;

    struct seat *seats;
    int nranks, npresent, nleft;
    int first_rank; /* who said how many ranks there are */

    struct conn *conns;
    int nconns, nstrangers;
    unsigned long dropped;

    struct frame_bytes *round; /* the allgather under way, or NULL */
    size_t round_bytes;        /* of each rank */
    int ngiven, first_given;
    unsigned nrounds;
    double round_deadline, round_seconds;

    coll_status failure;
    struct frame_bytes *failure_frame;
};

struct hub *hub_create(const unsigned char key[FRAME_KEY], uint64_t process,
                       double join_seconds, double now)
{
    struct hub *h = calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    memcpy(h->key, key, FRAME_KEY);
    h->process = process;
    h->idle_deadline = now + join_seconds;
    h->join_deadline = h->round_deadline = INFINITY;
    return h;
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    for (int c = 0; c < h->nconns; c++) {
        frame_reader_clear(&h->conns[c].reader);
        outbox_clear(&h->conns[c].out);
    }
    for (int r = 0; h->seats && r < h->nranks; r++)
        free(h->seats[r].about);
    frame_release(h->round);
    frame_release(h->failure_frame);
    free(h->conns);
    free(h->seats);
    free(h);
}

/* --- names ---------------------------------------------------------------- */

struct name {
    char text[FRAME_ABOUT_MAX + 32];
};

/* "rank 2 (host a, pid 12)" */
static struct name name(const struct hub *h, int rank)
{
    struct name n;
    const char *about = h->seats[rank].about;
    if (about && *about)
        snprintf(n.text, sizeof(n.text), "rank %d (%s)", rank, about);
    else
        snprintf(n.text, sizeof(n.text), "rank %d", rank);
    return n;
}

static bool not_present(const struct seat *s)
{
    return s->state != SEAT_PRESENT;
}

static bool not_given(const struct seat *s)
{
    return !s->given;
}

/* "ranks 1, 4-9 and 30 more of 64": the ranks that lack something. */
static struct name names(const struct hub *h, bool (*lacks)(const struct seat *))
{
    enum { MAX_RUNS = 8 };
    struct name n;
    char list[MAX_RUNS * 16] = "";
    size_t length = 0;
    int nruns = 0, count = 0, more = 0;

    for (int a = 0, b; a < h->nranks; a = b + 1) {
        for (b = a; b < h->nranks && lacks(&h->seats[b]); b++)
            ;
        if (b == a)
            continue;
        count += b - a;
        if (++nruns > MAX_RUNS)
            more += b - a;
        else if (b - a == 1)
            length += (size_t)snprintf(list + length, sizeof(list) - length,
                                       "%s%d", nruns > 1 ? ", " : "", a);
        else
            length += (size_t)snprintf(list + length, sizeof(list) - length,
                                       "%s%d-%d", nruns > 1 ? ", " : "", a,
                                       b - 1);
    }
    const char *s = count == 1 ? "" : "s";
    if (more)
        snprintf(n.text, sizeof(n.text), "rank%s %s and %d more of %d", s, list,
                 more, h->nranks);
    else
        snprintf(n.text, sizeof(n.text), "rank%s %s of %d", s, list, h->nranks);
    return n;
}

/* --- connections ---------------------------------------------------------- */

static void leave_strangers(struct hub *h, struct conn *k)
{
    if (k->state == CONN_STRANGER)
        h->nstrangers--;
}

/* Quietly, and for good: nothing that is queued will be sent. */
static void drop(struct hub *h, struct conn *k)
{
    leave_strangers(h, k);
    k->state = CONN_DROP;
}

static void drop_stranger(struct hub *h, struct conn *k)
{
    h->dropped++;
    drop(h, k);
}

/* Once the queue is sent. */
static void finish(struct hub *h, struct conn *k, double now)
{
    leave_strangers(h, k);
    k->state = CONN_CLOSING;
    k->deadline = now + linger_seconds;
}

static void end(struct hub *h)
{
    h->phase = HUB_ENDED;
    h->join_deadline = h->round_deadline = h->idle_deadline = INFINITY;
}

/* The job has failed: everybody present is told why. */
__attribute__((__format__(__printf__, 5, 6))) static void
fail_job(struct hub *h, coll_status status, int culprit, double now,
         const char *format, ...)
{
    char why[FRAME_TEXT_MAX + 1];
    va_list args;
    if (h->phase == HUB_ENDED)
        return;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);

    /* Without memory for the frame the links end without a word, which the
     * ranks take for a failure too. */
    h->failure = status;
    h->failure_frame = frame_make_status(FRAME_FAILED, culprit, status, why);
    h->late_deadline = now;
    if (h->phase == HUB_JOINING && now < h->join_deadline)
        h->late_deadline = now + late_seconds;
    end(h);
    for (int c = 0; c < h->nconns; c++) {
        struct conn *k = &h->conns[c];
        if (k->state == CONN_MEMBER)
            outbox_add(&k->out, h->failure_frame);
        if (k->state == CONN_MEMBER || k->state == CONN_HELD)
            finish(h, k, now);
    }
}

static void out_of_memory(struct hub *h, double now)
{
    fail_job(h, COLL_ERR_MEMORY, FRAME_NOBODY, now,
             "the hub has no memory left");
}

/* --- joining -------------------------------------------------------------- */

__attribute__((__format__(__printf__, 4, 5))) static void
refuse(struct hub *h, struct conn *k, double now, const char *format, ...)
{
    char why[FRAME_TEXT_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    outbox_give(&k->out, frame_make_status(FRAME_REFUSED, FRAME_NOBODY,
                                           COLL_ERR_INVALID, why));
    finish(h, k, now);
}

/* Takes the same time wherever the two differ. */
static bool same_key(const unsigned char *a, const unsigned char *b)
{
    unsigned char differ = 0;
    for (int i = 0; i < FRAME_KEY; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

/* Whether rank and nranks make sense; if not, has refused. */
static bool check_place(struct hub *h, struct conn *k, int rank,
                        uint32_t nranks, double now)
{
    if (nranks < 1 || nranks > FRAME_RANKS_MAX)
        refuse(h, k, now, "%u ranks: a job has 1 to %d", (unsigned)nranks,
               FRAME_RANKS_MAX);
    else if (h->seats && (int)nranks != h->nranks)
        refuse(h, k, now,
               "rank %d was told that the job has %u ranks, but %s that it has "
               "%d",
               rank, (unsigned)nranks, name(h, h->first_rank).text, h->nranks);
    else if (rank < 0 || rank >= (int)nranks)
        refuse(h, k, now, "rank %d: the ranks of this job are 0 to %u", rank,
               (unsigned)nranks - 1);
    else if (h->seats && h->seats[rank].state == SEAT_PRESENT)
        refuse(h, k, now, "rank %d has already joined: it is %s", rank,
               name(h, rank).text);
    else
        return true;
    return false;
}

static void welcome(struct hub *h, double now)
{
    struct frame_bytes *frame = frame_make(FRAME_WELCOME, FRAME_NOBODY, 8);
    if (!frame) {
        out_of_memory(h, now);
        return;
    }
    frame_put64(frame->data + FRAME_HEADER, h->process);
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_MEMBER)
            outbox_add(&h->conns[c].out, frame);
    frame_release(frame);
    h->phase = HUB_RUNNING;
    h->join_deadline = INFINITY;
}

static void seat(struct hub *h, struct conn *k, int rank,
                 const struct frame_hello *hello, double now)
{
    const double left = ((double)hello->join_ms - hello->waited_ms) / 1e3;
    leave_strangers(h, k);
    k->state = CONN_MEMBER;
    k->rank = rank;
    h->seats[rank].state = SEAT_PRESENT;
    h->seats[rank].resident = hello->process == h->process;
    h->idle_deadline = INFINITY;
    if (now + left < h->join_deadline) {
        h->join_deadline = now + left;
        h->join_seconds = hello->join_ms / 1e3;
    }
    outbox_give(&k->out, frame_make(FRAME_HEARD, FRAME_NOBODY, 0));
    if (++h->npresent == h->nranks)
        welcome(h, now);
}

/* A rank that comes after the failure learns of it. */
static void seat_late(struct hub *h, struct conn *k, int rank, double now)
{
    if (!h->failure_frame || h->seats[rank].state == SEAT_LEFT) {
        drop(h, k);
        return;
    }
    h->seats[rank].state = SEAT_LEFT;
    if (++h->npresent == h->nranks)
        h->late_deadline = now;
    outbox_add(&k->out, h->failure_frame);
    finish(h, k, now);
}

static void hear_stranger(struct hub *h, struct conn *k,
                          const struct frame *frame, double now)
{
    struct frame_hello hello;
    if (frame->type != FRAME_HELLO) {
        drop_stranger(h, k);
        return;
    }
    frame_get_hello(frame, &hello);
    if (!same_key(hello.key, h->key)) {
        drop_stranger(h, k);
        return;
    }
    if (!check_place(h, k, frame->rank, hello.nranks, now))
        return;
    if (!h->seats) {
        h->seats = calloc(hello.nranks, sizeof(*h->seats));
        if (!h->seats) {
            refuse(h, k, now, "the hub has no memory for %u ranks",
                   (unsigned)hello.nranks);
            return;
        }
        h->nranks = (int)hello.nranks;
        h->first_rank = frame->rank;
    }
    if (h->phase == HUB_ENDED)
        seat_late(h, k, frame->rank, now);
    else if (h->seats[frame->rank].state == SEAT_LEFT)
        drop(h, k); /* it looks for its next job; that hub is not there yet */
    else
        seat(h, k, frame->rank, &hello, now);
}

/* --- what ranks say ------------------------------------------------------- */

static void not_protocol(struct hub *h, struct conn *k, double now)
{
    const int rank = k->rank;
    drop(h, k);
    fail_job(h, COLL_ERR_PEER, rank, now,
             "%s sent bytes that are not the bootstrap's protocol",
             name(h, rank).text);
}

static void hear_about(struct hub *h, int rank, const struct frame *frame)
{
    char about[FRAME_ABOUT_MAX + 1];
    frame_get_text(frame, 0, about, sizeof(about));
    free(h->seats[rank].about);
    h->seats[rank].about = strdup(about); /* NULL: it has no name */
}

static void finish_round(struct hub *h, double now)
{
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_MEMBER
            && !outbox_add(&h->conns[c].out, h->round)) {
            out_of_memory(h, now);
            return;
        }
    for (int r = 0; r < h->nranks; r++)
        h->seats[r].given = false;
    frame_release(h->round);
    h->round = NULL;
    h->round_deadline = INFINITY;
    h->nrounds++;
}

/* A rank that has left, but would be needed for the round; -1: none. */
static int gone(const struct hub *h)
{
    for (int r = 0; h->nleft && r < h->nranks; r++)
        if (h->seats[r].state == SEAT_LEFT && !h->seats[r].given)
            return r;
    return -1;
}

static void fail_round(struct hub *h, int left, double now)
{
    fail_job(h, COLL_ERR_PEER, left, now,
             "%s has left the job, so allgather %u of the bootstrap cannot "
             "finish",
             name(h, left).text, h->nrounds);
}

/* Whether a part of so many bytes fits the round; if not, the job failed. */
static bool check_part(struct hub *h, int rank, size_t bytes, double now)
{
    if (gone(h) >= 0)
        fail_round(h, gone(h), now);
    else if (bytes > (size_t)FRAME_GATHER_MAX / (size_t)h->nranks)
        fail_job(h, COLL_ERR_INVALID, rank, now,
                 "%s gave %zu bytes to allgather %u of the bootstrap; %d ranks "
                 "may give %zu each",
                 name(h, rank).text, bytes, h->nrounds, h->nranks,
                 (size_t)FRAME_GATHER_MAX / (size_t)h->nranks);
    else if (h->round && bytes != h->round_bytes)
        fail_job(h, COLL_ERR_MISMATCH, rank, now,
                 "%s gave %zu bytes to allgather %u of the bootstrap, but %s "
                 "gave %zu",
                 name(h, rank).text, bytes, h->nrounds,
                 name(h, h->first_given).text, h->round_bytes);
    else
        return true;
    return false;
}

static void hear_part(struct hub *h, struct conn *k, const struct frame *frame,
                      double now)
{
    struct seat *s = &h->seats[k->rank];
    const size_t bytes = frame->bytes - 4;
    const double wait = frame_get32(frame->body) / 1e3;
    if (h->phase != HUB_RUNNING || s->given) {
        not_protocol(h, k, now);
        return;
    }
    if (!check_part(h, k->rank, bytes, now))
        return;
    if (!h->round) {
        h->round = frame_make(FRAME_GATHERED, FRAME_NOBODY,
                              bytes * (size_t)h->nranks);
        h->round_bytes = bytes;
        h->first_given = k->rank;
        h->ngiven = 0;
        if (!h->round) {
            out_of_memory(h, now);
            return;
        }
    }
    if (bytes)
        memcpy(h->round->data + FRAME_HEADER + bytes * (size_t)k->rank,
               frame->body + 4, bytes);
    s->given = true;
    if (wait > 0 && now + wait < h->round_deadline) {
        h->round_deadline = now + wait;
        h->round_seconds = wait;
    }
    if (++h->ngiven == h->nranks)
        finish_round(h, now);
}

static void hear_abort(struct hub *h, struct conn *k, const struct frame *frame,
                       double now)
{
    char why[FRAME_TEXT_MAX + 1];
    const int rank = k->rank;
    /* Unsigned first: a peer's number may be anything. */
    const uint32_t code = -frame_get32(frame->body);
    const bool known = code >= 1 && code <= (uint32_t)-COLL_ERR_MISMATCH;
    const coll_status status =
        known ? (coll_status)-(int)code : COLL_ERR_ABORTED;
    frame_get_text(frame, 4, why, sizeof(why));
    finish(h, k, now);
    fail_job(h, status, rank, now, "%s %s: %s", name(h, rank).text,
             status == COLL_ERR_ABORTED ? "aborted" : "gave up", why);
}

/* The last rank of the hub's process to leave is kept waiting for the others,
 * as they would take the end of that process for a failure. */
static bool must_wait(const struct hub *h, int rank)
{
    if (!h->seats[rank].resident)
        return false;
    for (int r = 0; r < h->nranks; r++)
        if (h->seats[r].resident && h->seats[r].state == SEAT_PRESENT)
            return false;
    return h->nleft < h->nranks;
}

static void hear_leave(struct hub *h, struct conn *k, double now)
{
    const int rank = k->rank;
    if (h->phase != HUB_RUNNING) {
        drop(h, k);
        fail_job(h, COLL_ERR_PEER, rank, now,
                 "%s left before all ranks had joined", name(h, rank).text);
        return;
    }
    h->seats[rank].state = SEAT_LEFT;
    h->nleft++;
    if (must_wait(h, rank))
        k->state = CONN_HELD;
    else
        finish(h, k, now);
    if (h->round && !h->seats[rank].given)
        fail_round(h, rank, now);
    if (h->nleft < h->nranks)
        return;
    end(h);
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_HELD)
            finish(h, &h->conns[c], now);
}

static void hear_member(struct hub *h, struct conn *k,
                        const struct frame *frame, double now)
{
    if (frame->rank != k->rank)
        not_protocol(h, k, now);
    else if (frame->type == FRAME_ABOUT)
        hear_about(h, k->rank, frame);
    else if (frame->type == FRAME_GATHER)
        hear_part(h, k, frame, now);
    else if (frame->type == FRAME_ABORT)
        hear_abort(h, k, frame, now);
    else if (frame->type == FRAME_LEAVE)
        hear_leave(h, k, now);
    else
        not_protocol(h, k, now);
}

/* --- events --------------------------------------------------------------- */

bool hub_accepts(struct hub *h, double now)
{
    struct conn *oldest = NULL;
    if (h->nstrangers < MAX_STRANGERS)
        return true;
    for (int c = 0; c < h->nconns; c++) {
        struct conn *k = &h->conns[c];
        if (k->state == CONN_STRANGER
            && (!oldest || k->opened < oldest->opened))
            oldest = k;
    }
    if (now < oldest->opened + crowded_seconds)
        return false;
    drop_stranger(h, oldest);
    return true;
}

void hub_opened(struct hub *h, int conn, double now)
{
    if (conn >= h->nconns) {
        const int room = 2 * conn + 16;
        struct conn *conns = realloc(h->conns, (size_t)room * sizeof(*conns));
        if (!conns) /* hub_wish() of an unknown connection is DROP */
            return;
        memset(conns + h->nconns, 0,
               (size_t)(room - h->nconns) * sizeof(*conns));
        h->conns = conns;
        h->nconns = room;
    }
    h->conns[conn] = (struct conn){
        .state = CONN_STRANGER,
        .opened = now,
        .deadline = now + stranger_seconds,
    };
    h->nstrangers++;
}

void hub_received(struct hub *h, int conn, const void *bytes, size_t n,
                  double now)
{
    const unsigned char *at = bytes;
    while (n && conn < h->nconns) {
        struct conn *k = &h->conns[conn];
        struct frame frame;
        const bool stranger = k->state == CONN_STRANGER;
        if (!stranger && k->state != CONN_MEMBER)
            return;
        switch (frame_read(&k->reader,
                           stranger ? FRAME_STRANGER_MAX
                                    : FRAME_HEADER + 4 + FRAME_GATHER_MAX,
                           &at, &n, &frame)) {
        case FRAME_PARTIAL:
            return;
        case FRAME_COMPLETE:
            if (stranger)
                hear_stranger(h, k, &frame, now);
            else
                hear_member(h, k, &frame, now);
            break;
        case FRAME_BAD:
            if (stranger)
                drop_stranger(h, k);
            else
                not_protocol(h, k, now);
            break;
        case FRAME_MEMORY:
            drop(h, k);
            out_of_memory(h, now);
            break;
        }
    }
}

void hub_sent(struct hub *h, int conn, size_t bytes)
{
    outbox_sent(&h->conns[conn].out, bytes);
}

void hub_closed(struct hub *h, int conn, const char *why, double now)
{
    if (conn >= h->nconns)
        return;
    struct conn *k = &h->conns[conn];
    const bool died = k->state == CONN_MEMBER;
    const int rank = k->rank;
    if (k->state == CONN_STRANGER)
        drop_stranger(h, k);
    frame_reader_clear(&k->reader);
    outbox_clear(&k->out);
    k->state = CONN_FREE;
    if (died)
        fail_job(h, COLL_ERR_PEER, rank, now, "%s went away without a word%s: %s",
                 name(h, rank).text,
                 h->phase == HUB_JOINING ? " while others were still joining"
                                         : "",
                 why);
}

void hub_tick(struct hub *h, double now)
{
    bool busy = false;
    h->last_tick = now;
    if (now >= h->idle_deadline)
        end(h);
    if (now >= h->join_deadline)
        fail_job(h, COLL_ERR_PEER, FRAME_NOBODY, now,
                 "%s did not join within %g s", names(h, not_present).text,
                 h->join_seconds);
    if (now >= h->round_deadline)
        fail_job(h, COLL_ERR_TIMEOUT, FRAME_NOBODY, now,
                 "%s did not come to allgather %u of the bootstrap within %g s",
                 names(h, not_given).text, h->nrounds, h->round_seconds);
    for (int c = 0; c < h->nconns; c++) {
        struct conn *k = &h->conns[c];
        if (k->state == CONN_STRANGER && now >= k->deadline)
            drop_stranger(h, k);
        else if (k->state == CONN_CLOSING && now >= k->deadline)
            drop(h, k);
        busy |= k->state != CONN_FREE && k->state != CONN_STRANGER;
    }
    h->finished = h->phase == HUB_ENDED && !busy && now >= h->late_deadline;
}

/* --- questions ------------------------------------------------------------ */

enum link_wish hub_wish(const struct hub *h, int conn)
{
    if (conn >= h->nconns || h->conns[conn].state == CONN_DROP)
        return LINK_DROP;
    return h->conns[conn].state == CONN_CLOSING ? LINK_FINISH : LINK_KEEP;
}

size_t hub_output(const struct hub *h, int conn, const unsigned char **bytes)
{
    return conn < h->nconns ? outbox_peek(&h->conns[conn].out, bytes) : 0;
}

double hub_deadline(const struct hub *h)
{
    double deadline = fmin(h->idle_deadline,
                           fmin(h->join_deadline, h->round_deadline));
    if (h->phase == HUB_ENDED)
        deadline = h->late_deadline > h->last_tick ? h->late_deadline
                                                   : INFINITY;
    for (int c = 0; c < h->nconns; c++) {
        const struct conn *k = &h->conns[c];
        if (k->state == CONN_STRANGER && h->nstrangers == MAX_STRANGERS)
            deadline = fmin(deadline, k->opened + crowded_seconds);
        if (k->state == CONN_STRANGER || k->state == CONN_CLOSING)
            deadline = fmin(deadline, k->deadline);
    }
    return deadline;
}

bool hub_listens(const struct hub *h)
{
    return h->phase != HUB_ENDED || h->late_deadline > 0;
}

bool hub_finished(const struct hub *h)
{
    return h->finished;
}

unsigned long hub_strangers(const struct hub *h)
{
    return h->dropped;
}
