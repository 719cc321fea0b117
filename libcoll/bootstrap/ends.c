/* SPDX-License-Identifier: MIT */
/* Addresses of a link's ends, and the interfaces that have them. */
#include "bootstrap/ends.h"

#include <ifaddrs.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "bootstrap/id.h"

/* As they travel: 16 bytes, the first 4 of which are an IPv4 address's. */
static void fill_end(struct bootstrap_end *end,
                     const struct sockaddr_storage *a)
{
    *end = (struct bootstrap_end){.family = a->ss_family};
    if (a->ss_family == AF_INET)
        memcpy(end->bytes, &((const struct sockaddr_in *)a)->sin_addr, 4);
    else if (a->ss_family == AF_INET6)
        memcpy(end->bytes, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
}

static void fill_from(struct bootstrap_end *end, const struct sockaddr *from)
{
    struct sockaddr_storage a = {0};
    memcpy(&a, from,
           from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                       : sizeof(struct sockaddr_in));
    fill_end(end, &a);
}

void ends_of_socket(int fd, struct bootstrap_end *mine,
                    struct bootstrap_end *other)
{
    struct sockaddr_storage a = {0};
    socklen_t length = sizeof(a);
    *mine = *other = (struct bootstrap_end){.family = AF_UNSPEC};
    if (getsockname(fd, (struct sockaddr *)&a, &length) == 0)
        fill_end(mine, &a);
    length = sizeof(a);
    if (getpeername(fd, (struct sockaddr *)&a, &length) == 0)
        fill_end(other, &a);
}

double ends_round_trip(int fd)
{
    struct tcp_info info = {.tcpi_min_rtt = 0}; /* older kernels fill in less */
    socklen_t length = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0
        || info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return 1e-6 * info.tcpi_min_rtt;
}

void bootstrap_interface_of(const struct bootstrap_end *end, char *name,
                            size_t bytes)
{
    struct ifaddrs *all;
    name[0] = '\0';
    if (end->family == AF_UNSPEC || getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next) {
        struct bootstrap_end other;
        if (!i->ifa_addr || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        fill_from(&other, i->ifa_addr);
        if (other.family == end->family
            && !memcmp(other.bytes, end->bytes, sizeof(end->bytes)))
            /* An alias such as eth0:1 is an address, no interface. */
            snprintf(name, bytes, "%.*s", (int)strcspn(i->ifa_name, ":"),
                     i->ifa_name);
    }
    freeifaddrs(all);
}

/* FNV-1a over an address's network: family, mask, masked bytes. */
static uint64_t network_of(const struct bootstrap_end *at,
                           const struct bootstrap_end *mask)
{
    uint64_t h = (0xcbf29ce484222325u ^ at->family) * 0x100000001b3u;
    for (size_t i = 0; i < sizeof(at->bytes); i++) {
        h = (h ^ mask->bytes[i]) * 0x100000001b3u;
        h = (h ^ (at->bytes[i] & mask->bytes[i])) * 0x100000001b3u;
    }
    return h;
}

/* Whether it is a further address of one that is listed. */
static bool is_known(const struct bootstrap_interface *list, int n,
                     const struct ifaddrs *i)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(list[k].name, i->ifa_name))
            return true;
    return false;
}

int bootstrap_interfaces(struct bootstrap_interface *list, int most)
{
    const unsigned wanted = IFF_UP | IFF_RUNNING;
    const unsigned unfit = IFF_LOOPBACK | IFF_POINTOPOINT;
    struct ifaddrs *all;
    int n = 0;
    if (getifaddrs(&all) < 0)
        return 0;
    for (const struct ifaddrs *i = all; i && n < most; i = i->ifa_next) {
        struct id id = {.naddresses = 0};
        struct bootstrap_end mask;
        if (!i->ifa_addr || !i->ifa_netmask || (i->ifa_flags & unfit)
            || (i->ifa_flags & wanted) != wanted || strchr(i->ifa_name, ':')
            || strlen(i->ifa_name) >= sizeof(list->name) || is_known(list, n, i)
            || !id_add_address(&id, i->ifa_addr))
            continue;
        snprintf(list[n].name, sizeof(list->name), "%s", i->ifa_name);
        fill_from(&list[n].at, i->ifa_addr);
        fill_from(&mask, i->ifa_netmask);
        list[n].network = network_of(&list[n].at, &mask);
        n++;
    }
    freeifaddrs(all);
    return n;
}
