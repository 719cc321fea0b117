/* SPDX-License-Identifier: MIT */
/* Settings, the log, the rules of COLL_ALGO and the choice of an algorithm.
 * Each test is a process of its own, so each may set its environment. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"
#include "comm/select.h"

static char logged[4096];

static void keep(coll_log_level level, const char *subject, const char *line,
                 void *context)
{
    (void)level, (void)context;
    snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged),
             "%s: %s\n", subject, line);
}

Test(settings, come_from_environment_then_file_then_default)
{
    char path[] = "/tmp/coll-settings-XXXXXX";
    const int fd = mkstemp(path);
    const char text[] = "# a comment\nCOLL_OP_SECONDS = 5 # and another\n"
                        "COLL_TRANSPORT = ucx\nCOLL_NONSENSE = 1\nrubbish\n";
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    setenv("COLL_CONFIG", path, 1);
    setenv("COLL_TRANSPORT", "shm", 1);
    setenv("COLL_TRANSPROT", "shm", 1);
    coll_log_set_hook(keep, NULL);
    cr_assert_str_eq(setting_text(SETTING_TRANSPORT), "shm");
    cr_assert_str_eq(setting_get(SETTING_TRANSPORT).source, "environment");
    cr_assert_str_eq(setting_text(SETTING_OP_SECONDS), "5");
    cr_assert_str_eq(setting_get(SETTING_OP_SECONDS).source, path);
    cr_assert_str_eq(setting_get(SETTING_JOIN_SECONDS).source, "default");
    cr_assert(strstr(logged, "COLL_NONSENSE"), "%s", logged);
    cr_assert(strstr(logged, ":5: \"rubbish\" is not NAME = value"), "%s",
              logged);
    cr_assert(strstr(logged, "did you mean COLL_TRANSPORT?"), "%s", logged);
    unlink(path);
}

Test(settings, bad_numbers_name_the_setting_and_the_range)
{
    double x;
    size_t bytes;
    setenv("COLL_OP_SECONDS", "soon", 1);
    setenv("COLL_SHM_RING", "64K", 1);
    setenv("COLL_JOIN_SECONDS", "-1", 1);
    cr_assert_eq(setting_number(SETTING_OP_SECONDS, 0, 9, &x),
                 COLL_ERR_INVALID);
    cr_assert(strstr(fail_sentence(), "COLL_OP_SECONDS=soon"));
    cr_assert_eq(setting_number(SETTING_JOIN_SECONDS, 0, 9, &x),
                 COLL_ERR_INVALID);
    cr_assert_eq(setting_bytes(SETTING_SHM_RING, 0, 1 << 20, &bytes), COLL_OK);
    cr_assert_eq(bytes, (size_t)65536);
    cr_assert_eq(setting_bytes(SETTING_SHM_RING, 0, 1000, &bytes),
                 COLL_ERR_INVALID);
}

Test(settings, log_levels_by_subject)
{
    setenv("COLL_LOG", "warn,select:debug", 1);
    coll_log_set_hook(keep, NULL);
    log_line(COLL_LOG_DEBUG, "select", "one");
    log_line(COLL_LOG_DEBUG, "shm", "two");
    log_line(COLL_LOG_WARN, "shm", "three");
    cr_assert_str_eq(logged, "select: one\nshm: three\n");
}

Test(settings, nearest_names)
{
    const char *const names[] = {"ring", "binomial_tree", "halving_doubling"};
    cr_assert_str_eq(nearest_name("rnig", names, 3), "ring");
    cr_assert_str_eq(nearest_name("halving_doublin", names, 3),
                     "halving_doubling");
    cr_assert_null(nearest_name("xyzzy", names, 3));
    cr_assert_null(nearest_name("", names, 3));
}

static const char *chosen(const struct select *s, int nranks, size_t bytes)
{
    struct select_choice choice;
    return select_algorithm(s, ALLREDUCE, nranks, bytes, &choice) == COLL_OK
               ? algos[choice.algo].name
               : "none";
}

Test(select, rules_force_and_forbid_by_size)
{
    struct select s = {0};
    cr_assert_eq(
        select_parse(&s, "allreduce:0-4k:binomial_tree;4k-:^ring", "COLL_ALGO"),
        COLL_OK);
    cr_assert_str_eq(chosen(&s, 4, 4095), "binomial_tree");
    cr_assert_str_neq(chosen(&s, 4, 4096), "binomial_tree");
    cr_assert_eq(select_parse(&s, "ring", "COLL_ALGO"), COLL_OK);
    cr_assert_str_eq(chosen(&s, 4, 8), "ring");
    cr_assert_eq(
        select_parse(&s, "ALLREDUCE:1M-:allreduce_ring,binomial_tree", "x"),
        COLL_OK);
    cr_assert_eq(select_parse(&s, "ring;^ring", "x"), COLL_OK);
    cr_assert_str_eq(chosen(&s, 4, 8), "none");
    cr_assert_eq(select_parse(&s, "", "x"), COLL_OK);
    cr_assert_eq(s.nrules, 0);
}

Test(select, bad_rules_are_refused_with_the_valid_names)
{
    const char *const bad[] = {"rign",      "allreduce:",
                               "scan:ring", "4k-1k:ring",
                               "0-4k:",     "ring,",
                               "^",         "allreduce:;",
                               "ring:4k-",  "allreduce:broadcast:chain"};
    struct select s = {.nrules = 1};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(select_parse(&s, bad[i], "COLL_ALGO"), COLL_ERR_INVALID,
                     "%s", bad[i]);
        cr_assert(strstr(fail_sentence(), "double_binary_tree"), "%s: %s",
                  bad[i], fail_sentence());
        cr_assert_eq(s.nrules, 1);
    }
}

Test(select, each_collective_has_rules_of_its_own)
{
    struct select s = {0};
    struct select_choice choice;
    cr_assert_eq(select_parse(&s,
                              "broadcast:chain;64k-:^chain;reduce:chain;"
                              "reduce_scatter:ring;allgather:bruck;barrier:"
                              "dissemination;allreduce:ring",
                              "x"),
                 COLL_OK, "%s", fail_sentence());
    cr_assert_eq(s.nrules, 7);
    const struct {
        enum coll_kind kind;
        const char *name;
    } want[] = {
        {REDUCE,         "reduce_chain"         },
        {REDUCE_SCATTER, "reduce_scatter_ring"  },
        {ALLGATHER,      "allgather_bruck"      },
        {BARRIER,        "barrier_dissemination"},
        {ALLREDUCE,      "allreduce_ring"       },
        {BROADCAST,      "broadcast_chain"      },
    };
    for (int i = 0; i < NKINDS; i++) {
        cr_assert_eq(select_algorithm(&s, want[i].kind, 5, 100, &choice), 0);
        cr_assert_str_eq(algos[choice.algo].full_name, want[i].name);
    }
    cr_assert_eq(select_algorithm(&s, BROADCAST, 5, 1 << 20, &choice),
                 COLL_ERR_UNSUPPORTED);
    cr_assert_eq(select_parse(&s, "broadcast:ring", "x"), COLL_ERR_INVALID);
    cr_assert(strstr(fail_sentence(), "for broadcast")
                  && strstr(fail_sentence(), "scatter_allgather"),
              "%s", fail_sentence());
}

/* Every kind is priced, and by its own algorithms' costs. */
Test(select, long_vectors_take_what_sends_least)
{
    const struct select_model model = {
        .local_alpha = 1e-6, .local_beta = 1e-10, .gamma = 1e-10};
    const uint64_t hosts[64] = {0};
    struct select s = {0};
    struct select_choice few, many;
    for (int n = 4; n <= 64; n *= 4) {
        cr_assert_eq(select_price(&s, n, hosts, &model), COLL_OK);
        for (enum coll_kind kind = ALLREDUCE; kind < BARRIER; kind++) {
            cr_assert_eq(select_algorithm(&s, kind, n, 64, &few), 0);
            cr_assert_eq(select_algorithm(&s, kind, n, 64 << 20, &many), 0);
            cr_assert_gt(few.predicted, 0);
            /* No more than two vectors through a port, and their sums. */
            cr_assert_lt(many.predicted, 3.5e-10 * (64 << 20), "%s, %d ranks",
                         kind_names[kind], n);
        }
        cr_assert_eq(select_algorithm(&s, REDUCE, n, 64, &few), 0);
        cr_assert_str_eq(algos[few.algo].full_name, "reduce_binomial_tree");
        cr_assert_eq(select_algorithm(&s, BROADCAST, n, 64, &few), 0);
        cr_assert_str_eq(algos[few.algo].full_name, "broadcast_binomial_tree");
    }
}

/* Slow messages favour few rounds, long vectors favour few bytes. */
Test(select, the_price_decides_by_size_and_hosts)
{
    const struct select_model model = {.local_alpha = 1e-6,
                                       .local_beta = 1e-10,
                                       .remote_alpha = 2e-5,
                                       .remote_beta = 1e-9,
                                       .gamma = 1e-10};
    uint64_t hosts[16];
    for (int r = 0; r < 16; r++)
        hosts[r] = (uint64_t)r;
    struct select s = {0};
    cr_assert_eq(select_price(&s, 16, hosts, &model), COLL_OK);
    cr_assert_str_eq(chosen(&s, 16, 8), "recursive_doubling");
    cr_assert_str_neq(chosen(&s, 16, 64 << 20), "recursive_doubling");
    cr_assert_str_neq(chosen(&s, 16, 64 << 20), "binomial_tree");

    /* Four ranks on each of four hosts, numbered host by host: the half of the
     * vector must stay inside; dealt round robin it is the other order. */
    struct select_choice near, far;
    for (int deal = 0; deal < 2; deal++) {
        for (int r = 0; r < 16; r++)
            hosts[r] = (uint64_t)(deal ? r % 4 : r / 4);
        cr_assert_eq(select_price(&s, 16, hosts, &model), COLL_OK);
        cr_assert_eq(select_parse(&s, "halving_doubling", "x"), COLL_OK);
        cr_assert_eq(select_algorithm(&s, ALLREDUCE, 16, 16 << 20, &far), 0);
        cr_assert_eq(select_parse(&s, "halving_doubling_near", "x"), COLL_OK);
        cr_assert_eq(select_algorithm(&s, ALLREDUCE, 16, 16 << 20, &near), 0);
        if (deal)
            cr_assert_lt(far.predicted, near.predicted);
        else
            cr_assert_lt(near.predicted, far.predicted);
    }
}
