/* SPDX-License-Identifier: MIT */
/* Which hosts of a description a job's hosts are, and what follows for its
 * groups. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "comm/described.h"

static const struct layout_costs costs = {
    .local = {1e-6, 1e-10, 0},
    .remote = {2e-5, 1e-9,  0},
    .gamma = 1e-10,
};

enum { HOSTS = 4 };

static coll_topo *slurm(void)
{
    char error[256];
    coll_topo *topo;
    cr_assert_eq(coll_topo_parse_slurm(&topo,
                                       "SwitchName=s0 Nodes=n[0-9]\n"
                                       "SwitchName=s1 Nodes=n[600-609]\n"
                                       "SwitchName=s2 Nodes=n[700-709]\n"
                                       "SwitchName=t0 Switches=s[0-1]\n"
                                       "SwitchName=t1 Switches=s2\n"
                                       "SwitchName=top Switches=t[0-1]\n",
                                       NULL, "t", error, sizeof(error)),
                 COLL_OK, "%s", error);
    return topo;
}

/* The groups of the two levels of switches. */
static void expect_groups(const coll_topo *topo, const char *const *names,
                          const int outer[], const int inner[])
{
    int host_at[HOSTS];
    struct layout l;
    cr_assert_eq(described_find(topo, HOSTS, names, host_at), COLL_OK, "%s",
                 fail_sentence());
    cr_assert_eq(layout_create_on(&l, HOSTS, NULL,
                                  (struct layout_cluster){topo, host_at}, NULL,
                                  &costs),
                 COLL_OK, "%s", fail_sentence());
    cr_assert_geq(l.net.nlevels, 2);
    for (int i = 0; i < HOSTS; i++) {
        cr_expect_eq(l.net.level[0].group_of[i], outer[i], "%s in group %d",
                     names[i], l.net.level[0].group_of[i]);
        cr_expect_eq(l.net.level[1].group_of[i], inner[i], "%s in group %d",
                     names[i], l.net.level[1].group_of[i]);
    }
    layout_free(&l);
}

Test(described, hosts_are_found_by_their_names)
{
    static const char *const spread[] = {"n5", "n600", "n700", "n701"};
    static const char *const mixed[] = {"n701.site.example", "n60", "n9",
                                        "n700"};
    static const char *const shuffled[] = {"n701.site.example", "n609", "n700",
                                           "n9"};
    int host_at[HOSTS];
    coll_topo *topo = slurm();
    expect_groups(topo, spread, (const int[]){0, 0, 1, 1},
                  (const int[]){0, 1, 2, 2});
    expect_groups(topo, shuffled, (const int[]){0, 1, 0, 1},
                  (const int[]){0, 1, 0, 2});
    cr_assert_eq(described_find(topo, HOSTS, mixed, host_at), COLL_ERR_INVALID);
    cr_expect(strstr(fail_sentence(), "host n60,")
                  && strstr(fail_sentence(), "30 others such as n0"),
              "%s", fail_sentence());
    coll_topo_free(topo);
}

Test(described, no_two_hosts_are_one)
{
    static const char *const names[] = {"n1", "n2", "n3", "n2.site"};
    int host_at[HOSTS];
    coll_topo *topo = slurm();
    cr_assert_eq(described_find(topo, HOSTS, names, host_at), COLL_ERR_INVALID);
    cr_expect(strstr(fail_sentence(), "two of the job's are called n2"), "%s",
              fail_sentence());
    cr_expect_eq(described_find(topo, 1, &names[3], host_at), COLL_OK);
    coll_topo_free(topo);
}

Test(described, without_names_hosts_are_in_order)
{
    static const char *const names[] = {"b", "a", "b", "c"};
    char error[256];
    coll_topo *topo;
    struct layout l;
    int host_at[HOSTS];
    cr_assert_eq(
        coll_topo_load(&topo, "rack:2 node:3", "spec", error, sizeof(error)),
        COLL_OK, "%s", error);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(described_find(i ? topo : NULL, HOSTS, names, host_at),
                     COLL_OK);
        for (int h = 0; h < HOSTS; h++)
            cr_expect_eq(host_at[h], h);
    }
    /* What another rank sent is not trusted. */
    for (int i = 0; i < 2; i++) {
        host_at[2] = i ? 6 : -1;
        cr_expect_eq(layout_create_on(&l, HOSTS, NULL,
                                      (struct layout_cluster){topo, host_at},
                                      NULL, &costs),
                     COLL_ERR_INVALID);
    }
    coll_topo_free(topo);
}
