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

enum { MAX_ROUNDS = 31 };

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

/* The chunks that a rank works on, halved round by round. */
struct window {
    int first, count, partner;
};

static struct place run(uint8_t buf, int first, int count)
{
    return (struct place){buf, first, count, 0};
}

static step_id halve_and_double(struct plan *p, struct fold f, int me, bool far,
                                struct place mine, step_id ready)
{
    struct window before[MAX_ROUNDS], w = {0, f.pow2, 0};
    int rounds = 0;

    for (int k = 1; k < f.pow2; k *= 2) {
        const int mask = far ? f.pow2 / (2 * k) : k;
        const int half = w.count / 2, upper = (me & mask) != 0;
        const int keep = w.first + upper * half;
        const int give = w.first + !upper * half;
        w.partner = old_rank(f, me ^ mask);
        before[rounds++] = w;
        const step_id got =
            plan_recv(p, w.partner, TMP_RUN(keep, half, 0), PLAN_START);
        plan_send(p, w.partner, run(mine.buf, give, half), ready);
        ready = plan_reduce(p, OUT_RUN(keep, half), run(mine.buf, keep, half),
                            TMP_RUN(keep, half, 0), got);
        mine.buf = PLAN_OUT;
        w.first = keep;
        w.count = half;
    }

    /* What comes back for chunks given away has this rank's share in it, so
     * the partner has read them: no need to wait for that send. */
    while (rounds-- > 0) {
        const struct window b = before[rounds];
        const int missing = w.first == b.first ? b.first + w.count : b.first;
        const step_id got =
            plan_recv(p, b.partner, OUT_RUN(missing, w.count), PLAN_START);
        plan_send(p, b.partner, OUT_RUN(w.first, w.count), ready);
        ready = plan_join(p, ready, got);
        w = b;
    }
    return ready;
}

void plan_halving_then_doubling(struct plan *p, const struct plan_shape *s,
                                bool far)
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
        ready = plan_reduce(p, OUT_RUN(0, all), IN_RUN(0, all),
                            TMP_RUN(0, all, 0), got);
    }
    ready = halve_and_double(p, f, new_rank(f, me), far,
                             folded ? OUT(0) : IN(0), ready);
    if (folded)
        plan_send(p, me - 1, OUT_RUN(0, all), ready);
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
