/* SPDX-License-Identifier: MIT */
/* Slurm's lists of names: n[0-3,7],gpu12. */
#ifndef TOPO_HOSTLIST_H
#define TOPO_HOSTLIST_H

#include "parse.h"

enum { MAX_HOST_NAMES = 1 << 16 };

/* A name, and where the expression that it comes from stands in the text. */
struct host_name {
    char *text;
    const char *place;
};

struct hostlist {
    struct host_name *names;
    int count, capacity;
};

/* Appends what the expression at p->at stands for, up to a blank or the end:
 * names of letters, digits, '.', '_' and '-', with any number of brackets, each
 * a list of numbers and ranges; numbers are as wide as the first of their
 * range. The last bracket counts fastest. */
bool hostlist_parse(struct parser *p, struct hostlist *list);

/* The names in alphabetical order with their places in the list; equal ones in
 * that of the list. The caller frees; NULL: no memory. */
struct host_entry {
    const char *text;
    int index;
};
struct host_entry *hostlist_sort(const struct hostlist *list);

/* The index of the name; -1: it is not there. */
int hostlist_find(const struct host_entry sorted[], int count,
                  const char *name);

/* Texts may be NULL, as they may be taken out of the list. */
void hostlist_free(struct hostlist *list);

#endif
