/* SPDX-License-Identifier: MIT */
/* Whether packets pass between hosts: a door that listens, and knocking at it.
 * The kernel answers a knock by itself, so nobody need accept it. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "bootstrap/tcp.h"

int bootstrap_open_door(const char *interface, struct bootstrap_door *door)
{
    struct id id = {.naddresses = 0};
    struct sockaddr_storage a;
    *door = (struct bootstrap_door){.port = 0};
    if (id_local_addresses(&id, interface) < 0 || !id.naddresses)
        return -1;
    const int fd =
        socket(id.addresses[0].family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = id_socket_address(&id, 0, &a);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&a, length) < 0 || listen(fd, 8) < 0
        || getsockname(fd, (struct sockaddr *)&a, &length) < 0) {
        close(fd);
        return -1;
    }
    door->at.family = (uint32_t)id.addresses[0].family;
    memcpy(door->at.bytes, id.addresses[0].bytes, sizeof(door->at.bytes));
    door->port = a.ss_family == AF_INET
                     ? ntohs(((struct sockaddr_in *)&a)->sin_port)
                     : ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return fd;
}

int bootstrap_knock(const struct bootstrap_door *door, double seconds)
{
    struct sockaddr_storage a;
    struct id id = {.port = (uint16_t)door->port, .naddresses = 1};
    id.addresses[0].family = (int)door->at.family;
    memcpy(id.addresses[0].bytes, door->at.bytes, sizeof(door->at.bytes));
    const socklen_t length = id_socket_address(&id, 0, &a);
    const int fd = tcp_call(&a, length, tcp_clock() + seconds);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

void bootstrap_close_door(int fd)
{
    if (fd >= 0)
        close(fd);
}
