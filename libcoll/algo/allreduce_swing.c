/* SPDX-License-Identifier: MIT */
/* Allreduce by halving and doubling with swinging partners.
 *
 *   time   that of allreduce_halving_doubling.c; on a ring or torus of ranks a
 *          third fewer hops than its near order
 *   when   medium and long vectors on rings and tori
 *   from   De Sensi et al., "Swing: short-cutting rings for higher bandwidth
 *          allreduce", NSDI 2024
 *
 * In round k an even rank's partner is rho(k) = 1, -1, 3, -5, 11 ... above it,
 * an odd one's as much below: the k-th sum of 1 - 2 + 4 - 8 ... The largest
 * exchange is at distance 1, the next at 1 and not 2, then at 3 and not 4.
 * Bine trees (De Sensi et al., SC 2025) carry the same distances over to other
 * collectives; for this one they are the same exchanges.
 *
 * The paper's blocks for a partner lie scattered over the vector. Here chunks
 * are numbered so that they are one run. Ranks that an even rank r can still
 * reach from round k on are r + 2^(k+1) i, and their partners of any of these
 * rounds: rho(k) and all later ones are alike modulo 2^(k+1). So the even rank
 * of a last pair, bit by bit, says which half of the window the pair keeps:
 *
 *   8 ranks, last pairs   0 3   2 5   4 7   6 1      rho = 1, -1, 3
 *   round 0 (bit 1)       lower upper lower upper
 *   round 1 (bit 2)       lower lower upper upper
 *   round 2               the even rank keeps the lower half
 */
#include "algo/algo.h"
#include "algo/parts.h"

static int partner_of(int pow2, int me, int rho)
{
    return (me % 2 ? me - rho : me + rho) & (pow2 - 1);
}

static void list_swing(struct halving *h, int pow2, int me)
{
    int last = 1; /* of the rhos */
    for (int bit = 2; bit < pow2; bit *= 2)
        last = 1 - 2 * last;
    const int even = me % 2 ? partner_of(pow2, me, last) : me;

    int rho = 1;
    for (int bit = 2; bit < pow2; bit *= 2) {
        halving_add(h, partner_of(pow2, me, rho), even & bit);
        rho = 1 - 2 * rho;
    }
    halving_add(h, partner_of(pow2, me, rho), me % 2);
}

void plan_allreduce_swing(struct plan *p, const struct plan_shape *s)
{
    plan_folded_halving(p, s, list_swing);
}
