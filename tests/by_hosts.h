/* SPDX-License-Identifier: MIT */
/* What hosts.h has for tests that do not see the library's inside. */
#ifndef TESTS_BY_HOSTS_H
#define TESTS_BY_HOSTS_H

/* "0011": the host of each rank; NULL, at first: all are on one. */
extern const char *hosts;

/* Rules: all by hosts; the second, also what needs neighbours on them. */
#define BY_HOSTS                                                               \
    "@by_hosts;reduce:@by_hosts;broadcast:@by_hosts;barrier:@by_hosts"
#define PARTS_BY_HOSTS ";reduce_scatter:@by_hosts;allgather:@by_hosts"

#endif
