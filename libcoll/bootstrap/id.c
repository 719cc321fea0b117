/* SPDX-License-Identifier: MIT */
#include "bootstrap/id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bootstrap/bootstrap.h"

/* magic 4, version 1, addresses 1, port 2, key 16, then 17 for each address:
 * family (4 or 6) and 16 bytes; the last byte of all has the bits `named` and
 * `listens`. */
static const unsigned char magic[5] = {'c', 'o', 'l', 'l', 1};
enum {
    FLAGS_AT = 127,
    COUNT_AT = 5,
    PORT_AT = 6,
    KEY_AT = 8,
    ADDRESSES_AT = 24,
    EACH = 17
};

coll_unique_id id_pack(const struct id *id)
{
    coll_unique_id packed = {{0}};
    unsigned char *b = packed.bytes;
    memcpy(b, magic, sizeof(magic));
    b[FLAGS_AT] = (unsigned char)(id->named | id->listens << 1);
    b[COUNT_AT] = (unsigned char)id->naddresses;
    b[PORT_AT] = (unsigned char)(id->port >> 8);
    b[PORT_AT + 1] = (unsigned char)id->port;
    memcpy(b + KEY_AT, id->key, FRAME_KEY);
    for (int i = 0; i < id->naddresses; i++) {
        unsigned char *a = b + ADDRESSES_AT + EACH * i;
        a[0] = id->addresses[i].family == AF_INET ? 4 : 6;
        memcpy(a + 1, id->addresses[i].bytes, 16);
    }
    return packed;
}

bool id_unpack(const coll_unique_id *packed, struct id *id)
{
    const unsigned char *b = packed->bytes;
    *id = (struct id){
        .port = (uint16_t)(b[PORT_AT] << 8 | b[PORT_AT + 1]),
        .named = b[FLAGS_AT] & 1,
        .listens = b[FLAGS_AT] >> 1 & 1,
        .naddresses = b[COUNT_AT],
    };
    if (memcmp(b, magic, sizeof(magic)) || id->naddresses < 1
        || id->naddresses > ID_ADDRESSES)
        return false;
    memcpy(id->key, b + KEY_AT, FRAME_KEY);
    for (int i = 0; i < id->naddresses; i++) {
        const unsigned char *a = b + ADDRESSES_AT + EACH * i;
        if (a[0] != 4 && a[0] != 6)
            return false;
        id->addresses[i].family = a[0] == 4 ? AF_INET : AF_INET6;
        memcpy(id->addresses[i].bytes, a + 1, 16);
    }
    return true;
}

bool id_is_own_name(const struct id *id)
{
    for (int i = 0; i < id->naddresses; i++) {
        const unsigned char *b = id->addresses[i].bytes;
        if (id->addresses[i].family == AF_INET
                ? b[0] != 127
                : !IN6_IS_ADDR_LOOPBACK(
                    (const struct in6_addr *)(const void *)b))
            return false;
    }
    return id->named;
}

socklen_t id_socket_address(const struct id *id, int i,
                            struct sockaddr_storage *storage)
{
    memset(storage, 0, sizeof(*storage));
    if (id->addresses[i].family == AF_INET) {
        struct sockaddr_in *a = (struct sockaddr_in *)storage;
        a->sin_family = AF_INET;
        a->sin_port = htons(id->port);
        memcpy(&a->sin_addr, id->addresses[i].bytes, 4);
        return sizeof(*a);
    }
    struct sockaddr_in6 *a = (struct sockaddr_in6 *)storage;
    a->sin6_family = AF_INET6;
    a->sin6_port = htons(id->port);
    memcpy(&a->sin6_addr, id->addresses[i].bytes, 16);
    return sizeof(*a);
}

struct id_text id_print(const struct id *id, int i)
{
    char address[INET6_ADDRSTRLEN] = "?";
    struct id_text t;
    inet_ntop(id->addresses[i].family, id->addresses[i].bytes, address,
              sizeof(address));
    snprintf(t.text, sizeof(t.text),
             id->addresses[i].family == AF_INET ? "%s:%u" : "[%s]:%u", address,
             id->port);
    return t;
}

bool id_add_address(struct id *id, const struct sockaddr *a)
{
    if (id->naddresses == ID_ADDRESSES)
        return false;
    unsigned char *bytes = id->addresses[id->naddresses].bytes;
    memset(bytes, 0, 16);
    if (a->sa_family == AF_INET) {
        memcpy(bytes, &((const struct sockaddr_in *)a)->sin_addr, 4);
    } else if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
        if (IN6_IS_ADDR_LINKLOCAL(&a6->sin6_addr))
            return false; /* it would need the other side's interface */
        memcpy(bytes, &a6->sin6_addr, 16);
    } else {
        return false;
    }
    id->addresses[id->naddresses++].family = a->sa_family;
    return true;
}

/* Whether a list has that name, or, "", is of all. */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; *at; at += *at == ',') {
        const size_t word = strcspn(at, ",");
        if (word == length && !strncmp(at, name, length))
            return true;
        at += word;
    }
    return !*list;
}

static bool has_address(const struct ifaddrs *all, const char *name)
{
    struct id id = {.naddresses = 0};
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && (i->ifa_flags & IFF_UP) && !strcmp(name, i->ifa_name)
            && id_add_address(&id, i->ifa_addr))
            return true;
    return false;
}

/* Copies the first name of a list that has no address; false: all have. */
static bool find_missing(const char *list, const struct ifaddrs *all,
                         char *name, size_t bytes)
{
    while (*list) {
        const size_t length = strcspn(list, ",");
        const size_t copied = length < bytes ? length : bytes - 1;
        memcpy(name, list, copied);
        name[copied] = '\0';
        if (!has_address(all, name))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static coll_status no_interface(const struct ifaddrs *all, const char *wanted)
{
    char list[256] = "";
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (!strstr(list, i->ifa_name))
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                     *list ? ", " : "", i->ifa_name);
    return fail(COLL_ERR_INVALID, "bootstrap",
                "COLL_INTERFACE=%s: no such interface is up with an address; "
                "this host has %s",
                wanted, *list ? list : "none");
}

/* "eth0,", ",eth0", "eth0,,eth1" */
static bool has_empty_name(const char *list)
{
    const size_t length = strlen(list);
    return length
           && (*list == ',' || list[length - 1] == ',' || strstr(list, ",,"));
}

coll_status id_local_addresses(struct id *id, const char *interfaces)
{
    struct ifaddrs *all;
    if (has_empty_name(interfaces))
        return fail(COLL_ERR_INVALID, "bootstrap",
                    "COLL_INTERFACE=%s: a name is empty; valid is a list such "
                    "as eth0,eth1",
                    interfaces);
    if (getifaddrs(&all) < 0)
        return fail(COLL_ERR_SYSTEM, "bootstrap",
                    "cannot list the network interfaces: %s", strerror(errno));
    id->naddresses = 0;
    /* What others can reach first; the loopback last, so that a job on this
     * host also starts without a network. */
    for (int loopback = 0; loopback < 2; loopback++) {
        if (loopback && !*interfaces && id->naddresses == ID_ADDRESSES)
            id->naddresses--;
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
            if (i->ifa_addr && (i->ifa_flags & IFF_UP)
                && !(i->ifa_flags & IFF_LOOPBACK) == !loopback
                && is_listed(interfaces, i->ifa_name))
                id_add_address(id, i->ifa_addr);
    }
    coll_status status = COLL_OK;
    char name[32];
    if (find_missing(interfaces, all, name, sizeof(name)))
        status = no_interface(all, name);
    else if (!id->naddresses)
        status = fail(COLL_ERR_SYSTEM, "bootstrap",
                      "no network interface is up, not even the loopback");
    freeifaddrs(all);
    return status;
}

/* 128 bits from text, so that jobs with different texts do not meet by
 * accident. No protection against who knows the text. */
static void derive_key(unsigned char *key, const char *a, const char *b)
{
    for (unsigned half = 0; half < 2; half++) {
        uint64_t h = UINT64_C(0xcbf29ce484222325) + half;
        for (const char *at = a; *at; at++)
            h = (h ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        h = (h ^ 0x100) * UINT64_C(0x100000001b3);
        for (const char *at = b; *at; at++)
            h = (h ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        h = (h ^ h >> 29) * UINT64_C(0x9e3779b97f4a7c15);
        frame_put64(key + 8 * half, h ^ h >> 32);
    }
}

static coll_status bad_root(const char *root, const char *why)
{
    return fail(
        COLL_ERR_INVALID, "bootstrap",
        "the job's root \"%s\": %s; valid is HOST:PORT or [ADDRESS]:PORT", root,
        why);
}

/* Splits "host:port" and "[v6]:port"; NULL, or what is wrong. */
static const char *split(const char *root, char *host, size_t room,
                         uint16_t *port)
{
    const bool bracket = *root == '[';
    const char *begin = root + bracket;
    const char *end = bracket ? strchr(root, ']') : strrchr(root, ':');
    const char *colon = bracket && end ? end + 1 : end;
    if (!end || end == begin || *colon != ':')
        return "no port";
    if (!bracket && memchr(begin, ':', (size_t)(end - begin)))
        return "an IPv6 address needs brackets";
    if ((size_t)(end - begin) >= room)
        return "the name is too long";
    char *rest;
    const long number = strtol(colon + 1, &rest, 10);
    if (rest == colon + 1 || *rest || number < 1 || number > 65535)
        return "the port is no number from 1 to 65535";
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = (uint16_t)number;
    return NULL;
}

coll_status bootstrap_id_from_root(const char *root, const char *key,
                                   coll_unique_id *packed)
{
    struct id id = {.naddresses = 0};
    struct addrinfo *all,
        hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char host[256];
    const char *wrong = split(root, host, sizeof(host), &id.port);
    if (wrong)
        return bad_root(root, wrong);
    int error = getaddrinfo(host, NULL, &hints, &all);
    if (error) { /* without a network only the loopback is there */
        hints.ai_flags = 0;
        error = getaddrinfo(host, NULL, &hints, &all);
    }
    if (error)
        return bad_root(root, gai_strerror(error));
    for (const struct addrinfo *a = all; a; a = a->ai_next)
        id_add_address(&id, a->ai_addr);
    freeaddrinfo(all);
    if (!id.naddresses)
        return bad_root(root, "the host has no usable address");
    struct in6_addr literal; /* room for both kinds */
    id.named = strcmp(host, "localhost") && !inet_pton(AF_INET, host, &literal)
               && !inet_pton(AF_INET6, host, &literal);
    derive_key(id.key, root, key);
    *packed = id_pack(&id);
    return COLL_OK;
}

coll_status bootstrap_check_interface(const char *names)
{
    struct id id = {.naddresses = 0};
    return *names ? id_local_addresses(&id, names) : COLL_OK;
}

coll_unique_id bootstrap_id_salted(const coll_unique_id *packed, uint64_t salt)
{
    struct id id;
    if (!id_unpack(packed, &id))
        return *packed;
    for (size_t i = 0; i < sizeof(id.key); i++) {
        /* the next number of splitmix64 (Steele, Lea and Flood 2014) */
        uint64_t x = salt += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        id.key[i] ^= (unsigned char)(x ^ x >> 31);
    }
    return id_pack(&id);
}
