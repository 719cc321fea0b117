/* SPDX-License-Identifier: MIT */
/* What several planners share: runs that wrap round, and recursive halving and
 * doubling for both step orders and any rank count.
 *
 * The largest power of two p <= n takes part under new ranks. Of the first
 * 2 (n - p) ranks the even ones hand their vector to the next rank and get the
 * result from it at the end (Thakur, Rabenseifner and Gropp, 2005).
 *
 * New rank 1 of 4, largest exchange far (near): chunks kept after each round
 *
 *   round 0   partner 3 (0)   keeps 0 1 (2 3), sends 2 3 (0 1)
 *   round 1   partner 0 (3)   keeps 1   (2),   sends 0   (3)
 *
 * and the rounds run backwards, sending what was kept, for the allgather.
 */
#include "algo/parts.h"

struct fold {
    int pow2, rem; /* n = pow2 + rem */
};

static int new_rank(struct fold f, int rank)
{
    return rank < 2 * f.rem ? rank / 2 : rank - f.rem;
}

static int old_rank(struct fold f, int rank)
{
    return rank < f.rem ? 2 * rank + 1 : rank + f.rem;
}

static struct place run(enum plan_buf buf, struct window w)
{
    return (struct place){(uint8_t)buf, w.first, w.count, 0};
}

struct halving halving_of(int nchunks)
{
    struct halving h = {0};
    h.window[0].count = nchunks;
    return h;
}

void halving_add(struct halving *h, int partner, bool upper)
{
    const struct window w = h->window[h->rounds];
    const int half = w.count / 2;
    h->partner[h->rounds++] = partner;
    h->window[h->rounds] = (struct window){w.first + upper * half, half};
}

/* What is kept by the partner of round k. */
static struct window other_half(const struct halving *h, int k)
{
    const struct window whole = h->window[k], kept = h->window[k + 1];
    const bool lower = kept.first == whole.first;
    return (struct window){whole.first + lower * kept.count, kept.count};
}

step_id plan_halvings(struct plan *p, const struct halving *h,
                      enum plan_buf from, step_id ready)
{
    for (int k = 0; k < h->rounds; k++) {
        const struct window keep = h->window[k + 1], give = other_half(h, k);
        const struct place heard = TMP_RUN(keep.first, keep.count, 0);
        const step_id got = plan_recv(p, h->partner[k], heard, PLAN_START);
        plan_send(p, h->partner[k], run(from, give), ready);
        const struct place mine = run(from, keep);
        const bool upper = keep.first != h->window[k].first;
        ready = plan_reduce(p, run(PLAN_OUT, keep), upper ? heard : mine,
                            upper ? mine : heard, got);
        from = PLAN_OUT;
    }
    return ready;
}

/* What comes back for chunks given away has this rank's share in it, so the
 * partner has read them: no need to wait for that send. */
step_id plan_doublings(struct plan *p, const struct halving *h, step_id ready)
{
    for (int k = h->rounds - 1; k >= 0; k--) {
        const step_id got = plan_recv(
            p, h->partner[k], run(PLAN_OUT, other_half(h, k)), PLAN_START);
        plan_send(p, h->partner[k], run(PLAN_OUT, h->window[k + 1]), ready);
        ready = plan_join(p, ready, got);
    }
    return ready;
}

void plan_folded_halving(struct plan *p, const struct plan_shape *s,
                         void (*list)(struct halving *, int pow2, int me))
{
    const int n = s->nranks, me = s->rank;
    struct fold f = {.pow2 = 1};
    while (2 * f.pow2 <= n)
        f.pow2 *= 2;
    f.rem = n - f.pow2;
    const int all = f.pow2;
    const bool folded = me < 2 * f.rem;

    plan_init(p, all, folded ? all : all / 2);
    if (n == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    if (folded && me % 2 == 0) {
        plan_send(p, me + 1, IN_RUN(0, all), PLAN_START);
        plan_recv(p, me + 1, OUT_RUN(0, all), PLAN_START);
        return;
    }

    step_id ready = PLAN_START;
    if (folded) {
        const step_id got =
            plan_recv(p, me - 1, TMP_RUN(0, all, 0), PLAN_START);
        ready = plan_reduce(p, OUT_RUN(0, all), TMP_RUN(0, all, 0),
                            IN_RUN(0, all), got);
    }
    struct halving h = halving_of(all);
    list(&h, f.pow2, new_rank(f, me));
    for (int k = 0; k < h.rounds; k++)
        h.partner[k] = old_rank(f, h.partner[k]);
    ready = plan_halvings(p, &h, folded ? PLAN_OUT : PLAN_IN, ready);
    ready = plan_doublings(p, &h, ready);
    if (folded)
        plan_send(p, me - 1, OUT_RUN(0, all), ready);
}

static void list_far(struct halving *h, int pow2, int me)
{
    for (int bit = pow2 / 2; bit > 0; bit /= 2)
        halving_add(h, me ^ bit, me & bit);
}

static void list_near(struct halving *h, int pow2, int me)
{
    for (int bit = 1; bit < pow2; bit *= 2)
        halving_add(h, me ^ bit, me & bit);
}

void plan_halving_then_doubling(struct plan *p, const struct plan_shape *s,
                                bool far)
{
    plan_folded_halving(p, s, far ? list_far : list_near);
}

struct pieces plan_pieces(struct place run, int n)
{
    run.chunk %= n;
    struct pieces all = {
        {run, run},
        1
    };
    const int before = n - run.chunk;
    if (run.nchunks > before) {
        all.piece[0].nchunks = before;
        all.piece[1].chunk = 0;
        all.piece[1].nchunks = run.nchunks - before;
        all.piece[1].slot = run.slot + before;
        all.n = 2;
    }
    return all;
}
