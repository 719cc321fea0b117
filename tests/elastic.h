/* SPDX-License-Identifier: MIT */
/* For ranks whose number changes: what shrink_test and grow_test have in common. */
#ifndef TESTS_ELASTIC_H
#define TESTS_ELASTIC_H

#include "coll/coll.h"

/* Settings: who does not come is not waited for long. */
extern const char *const short_joins[];

void pause_ms(int ms);

/* Once `marks` ranks are through with what comes before their mark. */
void die(int marks);

/* An allreduce of one number; -1 if it fails. */
int sum(coll_comm *, int mine);

/* 0 if comm has n ranks and a long allreduce is right, too; says what is not. */
int sums_right(coll_comm *, int n);

#endif
