/* SPDX-License-Identifier: MIT */
/* Collectives by hosts: every result, against an oracle. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"
#include "thorough.h"

struct call {
    enum coll_kind kind;
    size_t count;
    coll_dtype dtype;
    coll_op op;
    int root;
    bool in_place, shared;
};

static int value(int r, size_t i)
{
    return (int)((i * 7 + (size_t)r * 3) % 5) + 1;
}

static int wanted(const struct call *c, int n, size_t i)
{
    int x = value(0, i);
    if (c->kind == BROADCAST)
        return value(c->root, i);
    for (int r = 1; r < n; r++) {
        const int v = value(r, i);
        x = c->op == COLL_MAX    ? (v > x ? v : x)
            : c->op == COLL_BXOR ? x ^ v
                                 : x + v;
    }
    return c->op == COLL_AVG ? x / n : x;
}

static void put(coll_dtype dtype, void *x, size_t i, int v)
{
    if (dtype == COLL_F32)
        ((float *)x)[i] = (float)v;
    else if (dtype == COLL_F64)
        ((double *)x)[i] = v;
    else if (dtype == COLL_I32)
        ((int32_t *)x)[i] = v;
    else if (dtype == COLL_U8)
        ((uint8_t *)x)[i] = (uint8_t)v;
    else /* bf16: the upper half of an f32 */
        ((uint16_t *)x)[i] = (uint16_t)((union {
                                            float f;
                                            uint32_t bits;
                                        }){.f = (float)v}
                                            .bits
                                        >> 16);
}

static void *take(const struct call *c, size_t bytes)
{
    void *x = NULL;
    if (!c->shared)
        return malloc(bytes);
    return coll_mem_alloc(&x, bytes) == COLL_OK ? x : NULL;
}

static void give(const struct call *c, void *x)
{
    if (c->shared)
        coll_mem_free(x);
    else
        free(x);
}

static coll_status call(const struct call *c, const void *in, void *out,
                        coll_comm *comm)
{
    switch (c->kind) {
    case REDUCE:
        return coll_reduce(in, out, c->count, c->dtype, c->op, c->root, comm,
                           NULL);
    case BROADCAST:
        return coll_broadcast(in, out, c->count, c->dtype, c->root, comm, NULL);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(in, out, c->count, c->dtype, c->op, comm,
                                   NULL);
    case ALLGATHER:
        return coll_allgather(in, out, c->count, c->dtype, comm, NULL);
    case BARRIER:
        return coll_barrier(comm, NULL);
    default:
        return coll_allreduce(in, out, c->count, c->dtype, c->op, comm, NULL);
    }
}

static int segments;     /* 0: as priced */
static bool dealt;       /* over racks */
static bool by_messages; /* inside of hosts too, as it is without node/ */
static int was_cut;      /* so many calls, into several segments */

static bool has_parts(enum coll_kind kind)
{
    return kind == REDUCE_SCATTER || kind == ALLGATHER;
}

/* How the call is to go, where nothing is tried. */
static struct select_choice choice_of(const struct call *c, coll_comm *comm)
{
    struct select_choice choice = {.algo = 0};
    const size_t parts = has_parts(c->kind) ? (size_t)coll_comm_count(comm) : 1;
    select_best(
        &comm->select, c->kind,
        c->kind == BARRIER ? 1 : c->count * parts * coll_dtype_bytes(c->dtype),
        &choice);
    return choice;
}

/* The call, and whether it went by hosts, in order and cut as it should. */
static int call_watched(const struct call *c, const void *in, void *out,
                        coll_comm *comm)
{
    struct staged *s = &comm->staged;
    const struct select_choice how = choice_of(c, comm);
    const bool cuts =
        !by_messages && segments && c->count > 4000
        && hosts_segments(&algos[how.algo], comm->hosts.n, segments) > 1;
    s->nsegments = 0;
    s->parts = false;
    EXPECT(call(c, in, out, comm) == COLL_OK, "%s, count %zu",
           kind_names[c->kind], c->count);
    EXPECT((s->nsegments > 0) == !by_messages, "%s went otherwise",
           kind_names[c->kind]);
    EXPECT(s->parts == (has_parts(c->kind) && !by_messages),
           "%s went otherwise", kind_names[c->kind]);
    EXPECT(layout_by_hosts(how.order) == !by_messages, "%s %s",
           kind_names[c->kind], layout_order_names[how.order]);
    EXPECT(!dealt || c->kind != ALLREDUCE || how.order == ORDER_HOSTS_DEALT,
           "not dealt but %s", layout_order_names[how.order]);
    EXPECT(!cuts || s->nsegments > 1, "%s by %s in one piece",
           kind_names[c->kind], algos[how.algo].name);
    was_cut += cuts;
    return 0;
}

static int check(const struct call *c, coll_comm *comm)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const size_t elem = coll_dtype_bytes(c->dtype), bytes = c->count * elem;
    char *in = take(c, bytes + elem), *right = malloc(bytes + elem);
    char *out = c->in_place ? in : take(c, bytes + elem);
    const bool gets = c->kind != REDUCE || rank == c->root;
    memset(out, 0x55, bytes + elem);
    memset(in, 0x55, bytes + elem);
    for (size_t i = 0; i < c->count; i++) {
        put(c->dtype, in, i, value(rank, i));
        put(c->dtype, right, i, wanted(c, n, i));
    }
    if (call_watched(c, c->kind == BROADCAST && rank != c->root ? NULL : in,
                     gets ? out : NULL, comm))
        return 1;
    EXPECT(!gets || !memcmp(out, right, bytes),
           "%s of %zu %s, %s, root %d, rank %d%s%s", kind_names[c->kind],
           c->count, coll_dtype_name(c->dtype), coll_op_name(c->op), c->root,
           rank, c->in_place ? ", in place" : "", c->shared ? ", shared" : "");
    EXPECT(in[bytes] == 0x55 && out[bytes] == 0x55, "written past the end");
    for (size_t i = 0; i < c->count && !c->in_place; i++)
        put(c->dtype, right, i, value(rank, i));
    EXPECT(c->in_place || !memcmp(in, right, bytes), "input written");
    give(c, in);
    if (!c->in_place)
        give(c, out);
    free(right);
    return 0;
}

/* The same for vectors with a part for each rank. */
static int check_parts(coll_comm *comm, const struct call *c)
{
    const size_t rank = (size_t)coll_comm_user_rank(comm);
    const size_t n = (size_t)coll_comm_count(comm), m = c->count;
    const size_t elem = coll_dtype_bytes(c->dtype);
    const bool scatters = c->kind == REDUCE_SCATTER;
    const size_t ins = scatters ? n * m : m, outs = scatters ? m : n * m;
    char *memory[2] = {take(c, (n * m + 1) * elem), NULL};
    char *in = memory[0], *out = memory[0], *right = malloc((n * m + 1) * elem);
    if (!c->in_place)
        out = memory[1] = take(c, (n * m + 1) * elem);
    else if (scatters)
        out += rank * m * elem;
    else
        in += rank * m * elem;
    memset(memory[0], 0x55, (n * m + 1) * elem);
    for (size_t i = 0; i < ins; i++)
        put(c->dtype, in, i, value((int)rank, i));
    for (size_t i = 0; i < outs; i++)
        put(c->dtype, right, i,
            scatters ? wanted(c, (int)n, rank * m + i)
                     : value((int)(i / m), i % m));
    if (call_watched(c, in, out, comm))
        return 1;
    EXPECT(!memcmp(out, right, outs * elem), "%s of %zu %s, %s, rank %zu%s%s",
           kind_names[c->kind], m, coll_dtype_name(c->dtype),
           coll_op_name(c->op), rank, c->in_place ? ", in place" : "",
           c->shared ? ", shared" : "");
    for (size_t i = 0; i < ins && !c->in_place; i++)
        put(c->dtype, right, i, value((int)rank, i));
    EXPECT(c->in_place || !memcmp(in, right, ins * elem), "input written");
    EXPECT(memory[0][n * m * elem] == 0x55, "written past the end");
    for (int i = 0; i < 2 && memory[i]; i++)
        give(c, memory[i]);
    free(right);
    return 0;
}

/* In place or not, in shared memory or not. The fast suite takes one call in
 * two of these four ways: both or neither, or one of the two. */
static int every_way(coll_comm *comm, struct call c, int turn)
{
    for (int way = 0; way < 4; way++) {
        c.in_place = way & 1;
        c.shared = way & 2;
        if (!thorough() && (c.in_place != c.shared) != turn % 2)
            continue;
        if (c.kind == REDUCE_SCATTER || c.kind == ALLGATHER
                ? check_parts(comm, &c)
                : check(&c, comm))
            return 1;
    }
    return 0;
}

/* Averages of whole numbers, as those of others are rounded. */
static int every_call(coll_comm *comm, int rank, int n)
{
    const size_t counts[] = {0, 1, 7, (size_t)n, 4101, 50021};
    static const enum coll_kind kinds[] = {ALLREDUCE, REDUCE, BROADCAST,
                                           REDUCE_SCATTER, ALLGATHER};
    const int nkinds = layout_even(&comm->layout) ? 5 : 3;
    static const coll_dtype dtypes[] = {COLL_F32, COLL_F64, COLL_I32, COLL_U8,
                                        COLL_BF16};
    static const coll_op ops[] = {COLL_SUM, COLL_MAX, COLL_AVG, COLL_BXOR};
    (void)rank;
    EXPECT(comm->layout.by_hosts, "not offered");
    EXPECT(coll_comm_set_algorithm(comm, by_messages ? BY_MESSAGES
                                         : dealt && nkinds == 5
                                             ? HOSTS_DEALT PARTS_BY_HOSTS
                                         : dealt       ? HOSTS_DEALT
                                         : nkinds == 5 ? BY_HOSTS PARTS_BY_HOSTS
                                                       : BY_HOSTS)
               == COLL_OK,
           "rules");
    if (segments)
        cut_into(comm, segments);
    unsigned turn = 0;
    for (int k = 0; k < nkinds; k++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 2; j++, turn++) {
                const coll_dtype d = dtypes[turn % 5];
                const coll_op op =
                    d == COLL_I32 ? ops[turn % 4] : ops[turn % 2];
                const struct call c = {.kind = kinds[k],
                                       .count =
                                           k < 3 ? counts[i] : counts[i] / 4,
                                       .dtype = d,
                                       .op = op,
                                       .root = (int)(turn % (unsigned)n)};
                if (every_way(comm, c, i + j + k))
                    return 1;
            }
    if (every_way(comm,
                  (struct call){.kind = ALLREDUCE,
                                .count = cases(1000003, 66667),
                                .dtype = COLL_F32},
                  0))
        return 1;
    EXPECT(!segments || was_cut, "nothing was cut");
    return check(&(struct call){.kind = BARRIER}, comm);
}

static const char *const layouts[] = {"0011",   "0101",     "011222", "001",
                                      "001122", "00001111", "021120"};

Test(hosts, every_collective_is_right, .timeout = 600)
{
    for (unsigned i = 0; i < cases(sizeof(layouts) / sizeof(layouts[0]), 1);
         i++)
        cr_assert_eq(run_on(layouts[i], still, every_call), 0, "hosts %s",
                     layouts[i]);
}

/* Also where segments are shorter than the model would have them. */
Test(hosts, every_collective_is_right_in_segments, .timeout = 600)
{
    static const struct {
        const char *hosts;
        int segments;
    } some[] = {
        {"0011",   16},
        {"001",    2 },
        {"021120", 4 },
    };
    for (unsigned i = 0; i < cases(sizeof(some) / sizeof(some[0]), 1); i++) {
        segments = some[i].segments;
        cr_assert_eq(run_on(some[i].hosts, still, every_call), 0,
                     "hosts %s, %d segments", some[i].hosts, segments);
    }
}

/* --- at random ------------------------------------------------------------ */

static uint32_t drawn; /* the same on all ranks */

static unsigned draw(unsigned below)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 17;
    drawn ^= drawn << 5;
    return drawn % below;
}

/* Averages of whole numbers only, as others are rounded. */
static int any_calls(coll_comm *comm, int rank, int n)
{
    static const enum coll_kind kinds[] = {REDUCE_SCATTER, ALLGATHER, ALLREDUCE,
                                           REDUCE, BROADCAST};
    static const coll_dtype dtypes[] = {COLL_F32, COLL_F64, COLL_I32, COLL_U8};
    static const coll_op ops[] = {COLL_SUM, COLL_MAX, COLL_AVG};
    const bool even = layout_even(&comm->layout);
    (void)rank;
    EXPECT(
        coll_comm_set_algorithm(comm, even ? BY_HOSTS PARTS_BY_HOSTS : BY_HOSTS)
            == COLL_OK,
        "rules");
    for (int i = 0; i < 100; i++) {
        const unsigned type = draw(4);
        const struct call c = {
            .kind = kinds[even ? draw(5) : 2 + draw(3)],
            .count = draw(1u << (1 + draw(15))),
            .dtype = dtypes[type],
            .op = ops[draw(type < 2 ? 2 : 3)],
            .root = (int)draw((unsigned)n),
            .in_place = draw(2),
            .shared = draw(2),
        };
        segments = 1 << draw(5);
        cut_into(comm, segments);
        if (has_parts(c.kind) ? check_parts(comm, &c) : check(&c, comm))
            return 1;
    }
    return 0;
}

/* 4 to 6 ranks on 2 or 3 hosts, which have two each or any number. */
static void draw_hosts(char *host_of, bool even)
{
    const unsigned nhosts = 2 + draw(2);
    const unsigned n = even ? nhosts * 2 : 4 + draw(3);
    for (unsigned r = 0; r < n; r++)
        host_of[r] =
            (char)('0' + (even || r < nhosts ? r % nhosts : draw(nhosts)));
    host_of[n] = '\0';
    for (unsigned r = n; r-- > 1;) {
        const unsigned other = draw(r + 1);
        const char was = host_of[r];
        host_of[r] = host_of[other];
        host_of[other] = was;
    }
}

Test(hosts, any_calls_on_any_hosts_are_right, .timeout = 110)
{
    static const char *const staged[] = {"COLL_CALIBRATE=off", "COLL_ADAPT=off",
                                         "COLL_SINGLE_COPY=off", NULL};
    for (unsigned i = 0; i < cases(40, 1); i++) {
        char host_of[8];
        drawn = 0x9e3779b9u * (i + 1);
        draw_hosts(host_of, i % 3);
        cr_assert_eq(run_on(host_of, i % 2 ? staged : still, any_calls), 0,
                     "hosts %s, draw %u", host_of, i);
    }
}

/* The stages go by segments, and each runs the same plan. */
static int one_plan(coll_comm *comm, int rank, int n)
{
    const struct call c = {
        .kind = ALLREDUCE, .count = 50021, .dtype = COLL_F32};
    (void)rank, (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "direct@by_hosts") == COLL_OK, "rule");
    for (segments = 1; segments <= 4; segments *= 2) {
        cut_into(comm, segments);
        if (check(&c, comm))
            return 1;
        EXPECT(comm->staged.nsegments == segments, "%d segments",
               comm->staged.nsegments);
    }
    const struct prepared *plans = comm->prepared[choice_of(&c, comm).algo];
    EXPECT(plans && !plans->next, "not one plan");
    return 0;
}

Test(hosts, one_plan_serves_any_number_of_segments)
{
    cr_assert_eq(run_on("0011", still, one_plan), 0);
}

/* Groups of hosts, of whose tree the plans know. */
Test(hosts, every_collective_is_right_in_racks, .timeout = 600)
{
    static const char *const settings[] = {
        "COLL_CLUSTER=rack:2 (50us 1GB/s) node:2 (5us 1GB/s)",
        "COLL_CALIBRATE=off", "COLL_ADAPT=off", NULL};
    if (thorough())
        cr_assert_eq(run_on("00112233", settings, every_call), 0);
    cr_assert_eq(run_on("03120312", settings, every_call), 0);
    dealt = true;
    cr_assert_eq(run_on("0312031", settings, every_call), 0);
    dealt = false;
}

Test(hosts, so_is_it_by_messages_alone, .timeout = 600)
{
    by_messages = true;
    cr_assert_eq(run_on("0011", still, every_call), 0);
    cr_assert_eq(run_on("01220", still, every_call), 0);
    by_messages = false;
}

/* Without the right to read other processes all goes through the segment. */
Test(hosts, every_collective_is_right_through_the_segment, .timeout = 600)
{
    static const char *const settings[] = {
        "COLL_CALIBRATE=off", "COLL_ADAPT=off", "COLL_SINGLE_COPY=off", NULL};
    cr_assert_eq(run_on("0011", settings, every_call), 0);
    if (thorough())
        cr_assert_eq(run_on("000111", settings, every_call), 0);
    segments = 4;
    cr_assert_eq(run_on("0110", settings, every_call), 0);
}

/* The ranks of each host, in their order; by messages alone each has its own.
 */
static int splits_by_host(coll_comm *comm, int rank, int n)
{
    coll_comm *mine;
    int members = 0, before = 0, sum = rank;
    for (const char *h = hosts; *h; h++) {
        members += *h == hosts[rank];
        before += *h == hosts[rank] && h < hosts + rank;
    }
    if (by_messages) {
        members = 1;
        before = 0;
    }
    EXPECT(!coll_comm_split(comm, COLL_SPLIT_HOST, 0, &mine, NULL), "split");
    EXPECT(coll_comm_count(mine) == members, "%d", coll_comm_count(mine));
    EXPECT(coll_comm_user_rank(mine) == before, "rank");
    EXPECT(!coll_allreduce(&sum, &sum, 1, COLL_I32, COLL_MAX, mine, NULL),
           "max");
    EXPECT(members == 1 || hosts[sum] == hosts[rank], "another host");
    EXPECT(!coll_comm_destroy(mine), "destroy");
    /* No color of another rank's is a host's. */
    EXPECT(!coll_comm_split(comm, rank == n - 1 ? 0 : COLL_SPLIT_HOST, 0, &mine,
                            NULL),
           "split");
    EXPECT(rank < n - 1 || coll_comm_count(mine) == 1, "%d",
           coll_comm_count(mine));
    EXPECT(!coll_comm_destroy(mine), "destroy");
    return 0;
}

/* "0123" in racks of two: of a part the hosts are where they were in all. */
static int splits_over_racks(coll_comm *comm, int rank, int n)
{
    static const struct {
        int color[4], key[4];
        double alpha; /* between the first of a group and the second */
    } some[] = {
        {{0, 1, 0, 1}, {0, 0, 0, 0}, 50e-6}, /* by parity */
        {{0, 1, 1, 0}, {9, 9, 1, 1}, 50e-6},
        {{1, 1, 0, 0}, {3, 2, 1, 0}, 5e-6 }, /* by racks, turned round */
        {{0, 0, 0, 0}, {0, 2, 1, 3}, 50e-6}, /* all, dealt */
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        coll_comm *part, *first = NULL;
        int sum = 1;
        EXPECT(!coll_comm_split(comm, some[i].color[rank], some[i].key[rank],
                                &part, NULL),
               "split %zu", i);
        /* And of the part the first two. */
        const int mine = coll_comm_user_rank(part);
        EXPECT(!coll_comm_split(part, mine < 2 ? 0 : COLL_SPLIT_NOCOLOR, 0,
                                &first, NULL),
               "split %zu again", i);
        EXPECT(!coll_allreduce(&sum, &sum, 1, COLL_I32, COLL_SUM, part, NULL)
                   && sum == coll_comm_count(part) && sum <= n,
               "sum %d", sum);
        for (int k = 0; k < 2; k++) {
            const coll_comm *c = k ? first : part;
            if (!c)
                continue;
            const double alpha = sim_link_of(&c->layout.net, 0, 1)->alpha;
            EXPECT(fabs(alpha - some[i].alpha) < 1e-9, "split %zu: %g us", i,
                   1e6 * alpha);
        }
        EXPECT(!first || !coll_comm_destroy(first), "destroy");
        EXPECT(!coll_comm_destroy(part), "destroy");
    }
    return 0;
}

/* As "0123", of which Slurm says who is on which switch. */
static int stands_by_name(coll_comm *comm, int rank, int n)
{
    static const int rack_of[] = {0, 1, 1, 0};
    const struct sim_net *net = &comm->layout.net;
    (void)rank;
    EXPECT(net->nlevels == 2 && n == 4, "%d levels", net->nlevels);
    for (int r = 0; r < 4; r++)
        EXPECT(net->level[0].group_of[r] == rack_of[r], "host n%d in rack %d",
               r, net->level[0].group_of[r]);
    return 0;
}

Test(hosts, are_where_their_names_are_described)
{
    char path[] = "/tmp/coll_hosts_test_XXXXXX", cluster[64];
    const int file = mkstemp(path);
    const char *const settings[] = {cluster, "COLL_CALIBRATE=off", NULL};
    snprintf(cluster, sizeof(cluster), "COLL_CLUSTER=slurm:%s", path);
    cr_assert_gt(dprintf(file, "SwitchName=a Nodes=m[0-9],n3,n0\n"
                               "SwitchName=b Nodes=n[1-2],n[4-9]\n"
                               "SwitchName=c Switches=a,b\n"),
                 0);
    const int failed = run_on("0123", settings, stands_by_name);
    close(file);
    unlink(path);
    cr_assert_eq(failed, 0);
}

Test(hosts, are_where_they_were_after_a_split)
{
    static const char *const settings[] = {
        "COLL_CLUSTER=rack:2 (50us 1GB/s) node:2 (5us 1GB/s)",
        "COLL_CALIBRATE=off", NULL};
    cr_assert_eq(run_on("0123", settings, splits_over_racks), 0);
}

Test(hosts, split_into_communicators)
{
    static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx",
                                           "COLL_CALIBRATE=off", NULL};
    cr_assert_eq(run_on("01101", quick, splits_by_host), 0);
    cr_assert_eq(run_on("000", quick, splits_by_host), 0);
    by_messages = true;
    cr_assert_eq(run_on("000", over_ucx, splits_by_host), 0);
    by_messages = false;
}
