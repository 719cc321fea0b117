/* SPDX-License-Identifier: MIT */
/* The list of COLL_INTERFACE, which interfaces a host offers, and knocking at
 * doors. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"

/* Of 127.0.0.0/8 and ::1. */
static bool is_loopback(const struct id *id, int i)
{
    static const unsigned char one[16] = {[15] = 1};
    const unsigned char *b = id->addresses[i].bytes;
    return id->addresses[i].family == AF_INET ? b[0] == 127
                                              : !memcmp(b, one, sizeof(one));
}

Test(interfaces, a_list_takes_just_what_it_names)
{
    static const char *const lists[] = {"lo", "lo,lo"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct id id = {.naddresses = 0};
        cr_assert_eq(id_local_addresses(&id, lists[i]), COLL_OK, "%s: %s",
                     lists[i], fail_sentence());
        cr_assert_geq(id.naddresses, 1, "%s", lists[i]);
        for (int k = 0; k < id.naddresses; k++)
            cr_expect(is_loopback(&id, k), "%s: %s", lists[i],
                      id_print(&id, k).text);
    }
    cr_expect_eq(bootstrap_check_interface("lo"), COLL_OK);
    cr_expect_eq(bootstrap_check_interface(""), COLL_OK);
}

/* The sentence names what is wrong, and what would be right. */
Test(interfaces, a_list_with_a_wrong_name_is_refused)
{
    static const struct {
        const char *list, *says, *offers;
    } bad[] = {
        {"nosuch",    "COLL_INTERFACE=nosuch: no such", "lo"       },
        {"lo,nosuch", "COLL_INTERFACE=nosuch: no such", "lo"       },
        {"nosuch,lo", "COLL_INTERFACE=nosuch: no such", "lo"       },
        {"l",         "COLL_INTERFACE=l: no such",      "lo"       },
        {"lo,lol",    "COLL_INTERFACE=lol: no such",    "lo"       },
        {"lo,",       "COLL_INTERFACE=lo,: a name",     "eth0,eth1"},
        {",lo",       "COLL_INTERFACE=,lo: a name",     "eth0,eth1"},
        {"lo,,lo",    "COLL_INTERFACE=lo,,lo: a name",  "eth0,eth1"},
        {",",         "COLL_INTERFACE=,: a name",       "eth0,eth1"},
        {"lo, lo",    "COLL_INTERFACE= lo: no such",    "lo"       },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(bootstrap_check_interface(bad[i].list), COLL_ERR_INVALID,
                     "\"%s\"", bad[i].list);
        cr_expect(strstr(fail_sentence(), bad[i].says)
                      && strstr(fail_sentence(), bad[i].offers),
                  "\"%s\": %s", bad[i].list, fail_sentence());
    }
}

/* Each once, none that leads nowhere else. */
Test(interfaces, what_is_offered_leads_to_other_hosts)
{
    enum { MOST = 64 };
    struct bootstrap_interface list[MOST];
    const int n = bootstrap_interfaces(list, MOST);
    for (int i = 0; i < n; i++) {
        cr_expect_str_neq(list[i].name, "lo");
        cr_expect(list[i].at.family == AF_INET || list[i].at.family == AF_INET6,
                  "%s", list[i].name);
        cr_expect_eq(bootstrap_check_interface(list[i].name), COLL_OK, "%s",
                     fail_sentence());
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(list[i].name, list[k].name);
    }
    cr_expect_eq(bootstrap_interfaces(list, 0), 0);
    cr_expect_eq(bootstrap_interfaces(list, 1), n > 0);
}

/* So many descriptors. */
static void leave(int n)
{
    const struct rlimit limit = {.rlim_cur = 256, .rlim_max = 256};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int last = 0;
    for (int fd = dup(0); fd >= 0; fd = dup(0))
        last = fd;
    for (; n > 0; n--)
        close(last--);
}

/* A host knocks at its own door. */
static int knock(bool far, struct bootstrap_knock *k, int descriptors)
{
    struct bootstrap_door door;
    const int fd = bootstrap_open_door("lo", &door);
    cr_assert_geq(fd, 0);
    *k = (struct bootstrap_knock){.next = door, .far = far};
    if (far)
        k->visited[k->nvisited++] = door;
    if (descriptors)
        leave(descriptors);
    const int error = bootstrap_knock(fd, k, 3);
    bootstrap_close_door(fd);
    return error;
}

Test(doors, a_knock_finds_rate_and_round_trip, .timeout = 60)
{
    struct bootstrap_knock k;
    cr_assert_eq(knock(true, &k, 0), 0);
    cr_expect_gt(k.bytes_per_second, 0);
    cr_expect_gt(k.round_trip[0], 0);
}

/* The guest stays at the door. */
Test(doors, a_knock_ends_where_descriptors_run_out, .timeout = 60)
{
    struct bootstrap_knock k;
    cr_assert_eq(knock(false, &k, 1), 0);
    cr_expect_eq(k.bytes_per_second, 0);
}

/* One part suffices, and comes before visits. */
Test(doors, with_one_descriptor_the_next_host_is_reached, .timeout = 60)
{
    struct bootstrap_knock k;
    cr_assert_eq(knock(true, &k, 1), 0);
    cr_expect_eq(k.round_trip[0], 0);
}
