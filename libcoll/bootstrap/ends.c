/* SPDX-License-Identifier: MIT */
/* Addresses of a link's ends, and the interfaces that have them. */
#include "bootstrap/ends.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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

void bootstrap_interface_of(const struct bootstrap_end *end, char *name,
                            size_t bytes)
{
    struct ifaddrs *all;
    name[0] = '\0';
    if (end->family == AF_UNSPEC || getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next) {
        struct sockaddr_storage a = {0};
        struct bootstrap_end other;
        if (!i->ifa_addr || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        memcpy(&a, i->ifa_addr,
               i->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : sizeof(struct sockaddr_in));
        fill_end(&other, &a);
        if (other.family == end->family
            && !memcmp(other.bytes, end->bytes, sizeof(end->bytes)))
            /* An alias such as eth0:1 is an address, no interface. */
            snprintf(name, bytes, "%.*s", (int)strcspn(i->ifa_name, ":"),
                     i->ifa_name);
    }
    freeifaddrs(all);
}
