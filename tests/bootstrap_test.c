/* SPDX-License-Identifier: MIT */
/* The bootstrap's two state machines over a simulated network with virtual
 * time, thousands of seeded schedules. Real sockets bootstrap_sockets_test.c has.
 *
 * A schedule delivers bytes in pieces of any size and any order between
 * connections, lets strangers talk nonsense, ranks come late, die at any
 * point, or never come. Whatever happens: each rank that lives either does all
 * its rounds right or learns of a failure that names who is to blame.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/hub.h"
#include "bootstrap/member.h"

enum { MAX_RANKS = 9, MAX_CONNS = 24, ROUNDS = 3, NOBODY = -1 };
static const double join_seconds = 5;

struct pipe { /* bytes on their way, one direction */
    unsigned char data[65536];
    size_t have;
};

struct world {
    unsigned random;
    double now;
    struct hub *hub;
    int n;
    struct {
        struct member member;
        bool called, dead, linked;
        int round, conn;
        double calls_at;
    } ranks[MAX_RANKS];
    struct {
        bool open, ended; /* ended: the far side closed, bytes may be left */
        int rank;         /* NOBODY: a stranger */
        struct pipe up, down;
    } conns[MAX_CONNS];
    int victim; /* who dies or never comes, or NOBODY */
    bool never_comes;
};

static unsigned draw(struct world *w, unsigned below)
{
    w->random = w->random * 1664525u + 1013904223u;
    return (w->random >> 8) % below;
}

static const unsigned char key[FRAME_KEY] = "sixteen letters";

static void put(struct pipe *p, const void *bytes, size_t n)
{
    cr_assert_leq(p->have + n, sizeof(p->data));
    memcpy(p->data + p->have, bytes, n);
    p->have += n;
}

static size_t take_some(struct world *w, struct pipe *p, unsigned char *bytes)
{
    const size_t n = p->have ? 1 + draw(w, (unsigned)p->have) : 0;
    memcpy(bytes, p->data, n);
    p->have -= n;
    memmove(p->data, p->data + n, p->have);
    return n;
}

static int open_conn(struct world *w, int rank)
{
    for (int c = 0; c < MAX_CONNS; c++)
        if (!w->conns[c].open) {
            w->conns[c].open = true;
            w->conns[c].ended = false;
            w->conns[c].rank = rank;
            w->conns[c].up.have = w->conns[c].down.have = 0;
            hub_opened(w->hub, c, w->now);
            return c;
        }
    return NOBODY;
}

static void call(struct world *w, int r)
{
    const struct frame_hello hello = {
        .nranks = (uint32_t)w->n,
        .join_ms = (uint32_t)(join_seconds * 1e3),
        .process = (uint64_t)r + 10,
    };
    struct frame_hello mine = hello;
    char about[32];
    memcpy(mine.key, key, FRAME_KEY);
    snprintf(about, sizeof(about), "host h%d", r);
    cr_assert(member_call(&w->ranks[r].member, r, &mine, about));
    w->ranks[r].conn = open_conn(w, r);
    w->ranks[r].called = w->ranks[r].linked = true;
}

static void die(struct world *w, int r)
{
    w->ranks[r].dead = true;
    if (w->ranks[r].linked)
        w->conns[w->ranks[r].conn].ended = true;
    w->ranks[r].linked = false;
}

/* What a rank does with its round's result, and then. */
static void step_rank(struct world *w, int r)
{
    struct member *m = &w->ranks[r].member;
    int32_t mine[2] = {r, w->ranks[r].round}, all[MAX_RANKS][2];
    if (m->phase != MEMBER_RUNNING)
        return;
    if (m->gathered) {
        member_take(m, all);
        for (int q = 0; q < w->n; q++)
            cr_assert(all[q][0] == q && all[q][1] == w->ranks[r].round);
        w->ranks[r].round++;
    } else if (!m->gathering && w->ranks[r].round == ROUNDS) {
        member_leave(m);
    } else if (!m->gathering) {
        mine[1] = w->ranks[r].round;
        cr_assert(member_gather(m, mine, sizeof(mine), join_seconds));
    }
}

static void move_out(struct world *w, int r)
{
    const unsigned char *bytes;
    size_t n;
    while (w->ranks[r].linked
           && (n = member_output(&w->ranks[r].member, &bytes)) > 0) {
        put(&w->conns[w->ranks[r].conn].up, bytes, n);
        member_sent(&w->ranks[r].member, n);
    }
}

static void close_conn(struct world *w, int c, const char *why)
{
    const int r = w->conns[c].rank;
    w->conns[c].open = false;
    hub_closed(w->hub, c, why, w->now);
    if (r != NOBODY && w->ranks[r].linked && w->ranks[r].conn == c) {
        w->ranks[r].linked = false;
        member_closed(&w->ranks[r].member, "it ended");
    }
}

/* One turn of one connection, both directions, at the hub's wish. */
static void turn(struct world *w, int c)
{
    unsigned char bytes[65536];
    const unsigned char *out;
    const int r = w->conns[c].rank;
    size_t n = take_some(w, &w->conns[c].up, bytes);
    if (n)
        hub_received(w->hub, c, bytes, n, w->now);
    while (hub_wish(w->hub, c) != LINK_DROP
           && (n = hub_output(w->hub, c, &out)) > 0) {
        put(&w->conns[c].down, out, n);
        hub_sent(w->hub, c, n);
    }
    n = take_some(w, &w->conns[c].down, bytes);
    if (n && r != NOBODY && w->ranks[r].linked)
        member_received(&w->ranks[r].member, bytes, n);
    if (hub_wish(w->hub, c) == LINK_DROP)
        close_conn(w, c, "dropped");
    else if (w->conns[c].ended && !w->conns[c].up.have)
        close_conn(w, c, "its link ended");
    else if (hub_wish(w->hub, c) == LINK_FINISH && !w->conns[c].down.have
             && !w->conns[c].up.have)
        close_conn(w, c, "finished");
}

static void stranger(struct world *w)
{
    static const char *const talk[] = {"GET / HTTP/1.1\r\n\r\n", "", "colB",
                                       "\x16\x03\x01\x02", "SSH-2.0-x\r\n"};
    const int c = open_conn(w, NOBODY);
    if (c < 0)
        return;
    const char *words = talk[draw(w, 5)];
    put(&w->conns[c].up, words, strlen(words));
    for (unsigned i = draw(w, 300); i > 0; i--) {
        const unsigned char byte = (unsigned char)draw(w, 256);
        put(&w->conns[c].up, &byte, 1);
    }
    w->conns[c].ended = draw(w, 2);
}

static bool over(const struct world *w)
{
    for (int r = 0; r < w->n; r++) {
        const enum member_phase phase = w->ranks[r].member.phase;
        if (!w->ranks[r].dead && phase != MEMBER_FAILED && phase != MEMBER_LEFT
            && !(w->never_comes && r == w->victim))
            return false;
    }
    return true;
}

static void step_world(struct world *w, unsigned step, unsigned death)
{
    w->now += 1e-4 * draw(w, 20);
    for (int r = 0; r < w->n; r++) {
        if (w->ranks[r].dead || (w->never_comes && r == w->victim))
            continue;
        if (!w->ranks[r].called && w->now >= w->ranks[r].calls_at)
            call(w, r);
        if (draw(w, 3))
            step_rank(w, r);
        move_out(w, r);
    }
    if (step == death && w->victim != NOBODY && !w->never_comes)
        die(w, w->victim);
    if (!draw(w, 40))
        stranger(w);
    for (int k = 0; k < MAX_CONNS; k++) {
        const int c = (int)draw(w, MAX_CONNS);
        if (w->conns[c].open)
            turn(w, c);
    }
    hub_tick(w->hub, w->now);
}

static void judge(const struct world *w, unsigned seed)
{
    char name[16];
    snprintf(name, sizeof(name), "rank %d", w->victim);
    for (int r = 0; r < w->n; r++) {
        const struct member *m = &w->ranks[r].member;
        if (w->ranks[r].dead || (w->never_comes && r == w->victim))
            continue;
        if (w->victim == NOBODY)
            cr_assert_eq(m->phase, MEMBER_LEFT, "seed %u, rank %d: %s", seed, r,
                         m->sentence);
        if (m->phase == MEMBER_LEFT)
            cr_assert_eq(w->ranks[r].round, ROUNDS);
        else
            cr_assert(strstr(m->sentence, name), "seed %u, rank %d: \"%s\"",
                      seed, r, m->sentence);
    }
}

static void live(unsigned seed)
{
    static struct world w;
    memset(&w, 0, sizeof(w));
    w.random = seed;
    w.n = 1 + (int)draw(&w, MAX_RANKS);
    w.victim = w.n > 1 && draw(&w, 2) ? (int)draw(&w, (unsigned)w.n) : NOBODY;
    w.never_comes = w.victim != NOBODY && !draw(&w, 4);
    w.hub = hub_create(key, 1, join_seconds, 0);
    for (int r = 0; r < w.n; r++)
        w.ranks[r].calls_at = 1e-3 * draw(&w, 100);
    const unsigned death = draw(&w, 400);
    for (unsigned step = 0; w.now < 3 * join_seconds; step++) {
        if (over(&w) && step > death)
            break;
        step_world(&w, step, death);
        if (w.never_comes && step > 1000)
            w.now += .1; /* nothing more will happen before the deadline */
    }
    cr_assert(over(&w), "seed %u: somebody waits for ever", seed);
    judge(&w, seed);
    for (int r = 0; r < w.n; r++)
        member_clear(&w.ranks[r].member);
    hub_free(w.hub);
}

Test(bootstrap, every_schedule_ends_well_or_names_who_is_to_blame,
     .timeout = 60)
{
    for (unsigned seed = 1; seed <= 3000; seed++)
        live(seed);
}

/* --- calls that differ -----------------------------------------------------
 */

enum { CALLS = 300 };

/* What the ranks of a world call: one calls something else, from then on no
 * tags are alike. */
struct calls {
    unsigned differs; /* number of that call */
    int odd, slow;    /* ranks */
    unsigned made[MAX_RANKS];
};

/* As calls_tell() does. */
static void answer(struct world *w, const struct calls *calls, int r)
{
    struct member *m = &w->ranks[r].member;
    const unsigned made = calls->made[r];
    const unsigned last = m->asked_upto && m->upto < made ? m->upto : made;
    const unsigned n = last < BOOTSTRAP_CALLS_MAX ? last : BOOTSTRAP_CALLS_MAX;
    struct frame_bytes *frame =
        frame_make(FRAME_CALLS, r, (size_t)n * FRAME_CALL_BYTES);
    for (unsigned i = 0; i < n; i++) {
        unsigned char *to = frame->data + FRAME_HEADER + i * FRAME_CALL_BYTES;
        const unsigned number = last - n + 1 + i;
        const bool other = r == calls->odd && number >= calls->differs;
        memset(to, 0, FRAME_CALL_BYTES);
        frame_put32(to, number);
        frame_put32(to + 4, other ? number + 1000 : number);
        snprintf((char *)to + 8, FRAME_CALL_BYTES - 8, "a%u%s", number,
                 other && number == calls->differs ? "x" : "y");
    }
    member_answer(m, frame);
}

/* Ranks go on at any pace while they are asked; now and then one doubts. */
static void step_calls(struct world *w, struct calls *calls)
{
    w->now += 1e-5;
    for (int r = 0; r < w->n; r++) {
        struct member *m = &w->ranks[r].member;
        const unsigned pause = r == calls->slow ? 40 : 4;
        const unsigned more = draw(w, pause) ? 0 : draw(w, 120);
        if (m->phase == MEMBER_RUNNING)
            calls->made[r] =
                calls->made[r] + more < CALLS ? calls->made[r] + more : CALLS;
        if (m->phase == MEMBER_RUNNING && !draw(w, 20))
            member_inquire(m);
        if (m->asked)
            answer(w, calls, r);
        move_out(w, r);
    }
    for (int c = 0; c < MAX_CONNS; c++)
        if (w->conns[c].open)
            turn(w, c);
    hub_tick(w->hub, w->now);
}

static void differ(unsigned seed)
{
    static struct world w;
    struct calls calls = {0};
    char one[80], other[80];
    memset(&w, 0, sizeof(w));
    w.random = seed;
    w.victim = NOBODY;
    w.n = 2 + (int)draw(&w, MAX_RANKS - 1);
    w.hub = hub_create(key, 1, join_seconds, 0);
    calls.odd = (int)draw(&w, (unsigned)w.n);
    calls.slow = (int)draw(&w, (unsigned)w.n);
    calls.differs = 1 + draw(&w, CALLS);
    for (int r = 0; r < w.n; r++)
        call(&w, r);
    for (int step = 0; !over(&w) && step < 100000; step++)
        step_calls(&w, &calls);
    snprintf(one, sizeof(one), " called a%uy", calls.differs);
    snprintf(other, sizeof(other), "rank %d called a%ux", calls.odd,
             calls.differs);
    for (int r = 0; r < w.n; r++) {
        const struct member *m = &w.ranks[r].member;
        cr_assert(m->phase == MEMBER_FAILED && m->status == COLL_ERR_MISMATCH
                      && strstr(m->sentence, one) && strstr(m->sentence, other)
                      && !strstr(m->sentence, "at the latest"),
                  "seed %u, rank %d of %d: \"%s\", not \"%s\"", seed, r, w.n,
                  m->sentence, other);
        member_clear(&w.ranks[r].member);
    }
    hub_free(w.hub);
}

/* However far behind or ahead of those two some rank is. */
Test(bootstrap, the_first_call_that_differs_is_found, .timeout = 60)
{
    for (unsigned seed = 1; seed <= 2000; seed++)
        differ(seed);
}

Test(bootstrap, frames_survive_nonsense)
{
    unsigned random = 7;
    for (int k = 0; k < 100000; k++) {
        unsigned char bytes[400];
        struct frame_reader reader = {0};
        struct frame frame;
        struct frame_bytes *good =
            frame_make_status(FRAME_FAILED, 3, COLL_ERR_PEER, "some words");
        size_t n = good->bytes;
        memcpy(bytes, good->data, n);
        frame_release(good);
        for (int flips = 0; flips < 1 + k % 3; flips++) {
            random = random * 1664525u + 1013904223u;
            bytes[(random >> 8) % n] ^= (unsigned char)(1u << (random >> 29));
        }
        const unsigned char *at = bytes;
        if (frame_read(&reader, 256, &at, &n, &frame) == FRAME_COMPLETE)
            cr_assert_leq(frame.bytes, (size_t)256);
        frame_reader_clear(&reader);
    }
}

Test(bootstrap, strangers_are_sent_away_after_a_while)
{
    struct hub *h = hub_create(key, 1, 60, 0);
    hub_opened(h, 0, 0);
    hub_tick(h, 1);
    cr_assert_eq(hub_wish(h, 0), LINK_KEEP);
    cr_assert_leq(hub_deadline(h), 2.0);
    hub_tick(h, 2.1);
    cr_assert_eq(hub_wish(h, 0), LINK_DROP);
    hub_closed(h, 0, "dropped", 2.1);
    cr_assert_eq(hub_strangers(h), 1ul);
    hub_free(h);
}
