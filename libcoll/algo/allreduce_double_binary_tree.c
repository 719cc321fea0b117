/* SPDX-License-Identifier: MIT */
/* Allreduce on two binary trees, each for one half of the vector.
 *
 *   time   2 log2 n rounds of alpha; at best 2 beta bytes for many segments,
 *          on ports that share their rate among messages
 *   when   long vectors on many ranks: a ring's latency grows with n
 *   order  a rank adds itself, its lower child, its upper child
 *   from   Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth
 *          broadcast, reduction and scan", Parallel Computing 35(12), 2009
 *
 * The first tree numbers its nodes in order, so that odd ranks are leaves; the
 * second is its mirror image (n even) or the first shifted by one (n odd), so
 * that a rank with children in one tree has none in the other (for odd n but one
 * rank) and every port can work at its full rate. Six ranks:
 *
 *        0                    5
 *          \                /
 *            4            1
 *          /   \        /   \
 *        2      5      0     3
 *       / \                 / \
 *      1   3               2   4
 *
 * All segments go up before the first comes down: between two ranks messages
 * then match in the order in which both post them.
 */
#include "algo/algo.h"

struct node {
    int parent, child[2]; /* ranks; -1: none */
};

/* The in-order tree of n nodes. */
static struct node in_order(int n, int me)
{
    struct node node = {
        -1, {-1, -1}
    };
    int bit = 1;
    while (bit < n && !(me & bit))
        bit *= 2;
    if (me != 0) {
        node.parent = (me ^ bit) | (2 * bit);
        if (node.parent >= n)
            node.parent = me ^ bit;
        if (bit > 1)
            node.child[0] = me - bit / 2;
    }
    for (int down = bit / 2; down >= 1; down /= 2)
        if (me + down < n) {
            node.child[1] = me + down;
            break;
        }
    return node;
}

static struct node tree_node(int tree, int n, int me)
{
    if (tree == 0)
        return in_order(n, me);
    const bool mirror = n % 2 == 0;
    struct node node = in_order(n, mirror ? n - 1 - me : (me + n - 1) % n);
    int *const ranks[] = {&node.parent, &node.child[0], &node.child[1]};
    for (int i = 0; i < 3; i++)
        if (*ranks[i] >= 0)
            *ranks[i] = mirror ? n - 1 - *ranks[i] : (*ranks[i] + 1) % n;
    return node;
}

static bool is_leaf(struct node node)
{
    return node.child[0] < 0 && node.child[1] < 0;
}

/* The partial sums of all segments, chunks [first, first + segments), to the
 * parent. Receives run one segment ahead of the sums. */
static void plan_up(struct plan *p, struct node node, int first, int segments)
{
    step_id got[2][2] = {
        {PLAN_START, PLAN_START},
        {PLAN_START, PLAN_START}
    };
    for (int s = -1; s < segments; s++) {
        const int now = s & 1, next = !now, c = first + s;
        for (int i = 0; i < 2 && s + 1 < segments; i++)
            if (node.child[i] >= 0)
                got[next][i] = plan_recv(p, node.child[i],
                                         TMP(c + 1, 2 * next + i), PLAN_START);
        if (s < 0)
            continue;
        struct place mine = IN(c);
        step_id ready = PLAN_START;
        for (int i = 0; i < 2; i++)
            if (node.child[i] >= 0) {
                ready = plan_reduce(p, OUT(c), mine, TMP(c, 2 * now + i),
                                    got[now][i]);
                mine = OUT(c);
            }
        if (node.parent >= 0)
            plan_send(p, node.parent, mine, ready);
    }
}

/* The sums of all segments from the parent to the children. A root's are done
 * by now: steps start in order. */
static void plan_down(struct plan *p, struct node node, int first, int segments)
{
    step_id got[PLAN_SEGMENTS_MAX];
    for (int s = 0; s < segments; s++)
        got[s] = node.parent < 0
                     ? PLAN_START
                     : plan_recv(p, node.parent, OUT(first + s), PLAN_START);
    for (int s = 0; s < segments; s++)
        for (int i = 0; i < 2; i++)
            if (node.child[i] >= 0)
                plan_send(p, node.child[i], OUT(first + s), got[s]);
}

void plan_allreduce_double_binary_tree(struct plan *p,
                                       const struct plan_shape *s)
{
    const int n = s->nranks, segments = s->segments;
    plan_init(p, 2 * segments, 4);
    if (n == 1) {
        plan_copy(p, OUT_RUN(0, 2 * segments), IN_RUN(0, 2 * segments),
                  PLAN_START);
        return;
    }

    const struct node node[2] = {tree_node(0, n, s->rank),
                                 tree_node(1, n, s->rank)};
    /* A leaf waits for nothing on the way up and is waited for by nothing on
     * the way down, so its steps go first. */
    const int leaf_first = is_leaf(node[0]) ? 0 : 1;
    for (int i = 0; i < 2; i++) {
        const int tree = i ^ leaf_first;
        plan_up(p, node[tree], tree * segments, segments);
    }

    for (int i = 0; i < 2; i++) {
        const int tree = i ^ leaf_first;
        plan_down(p, node[tree], tree * segments, segments);
    }
}
