/* SPDX-License-Identifier: MIT */
#include "comm/agree.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "comm/calls.h"

enum { CALL_TEXT = 32 };

static const char *text_of(const char *call, char text[CALL_TEXT])
{
    snprintf(text, CALL_TEXT, "coll_comm_%s()", call);
    return text;
}

coll_status agree_begin(coll_comm *c, const char *call, int called)
{
    char text[CALL_TEXT];
    coll_status status = comm_check(c);
    if (status == COLL_OK)
        status = comm_drain(c);
    if (status < 0)
        return fail(status, "comm", "%s", c->sentence);
    calls_sign(c, called);
    status = comm_meet_alike(c, text_of(call, text));
    if (status < 0)
        agree_end(c, status);
    return status;
}

coll_status agree(coll_comm *c, const char *call, coll_status status,
                  void *mine, void *all, size_t bytes)
{
    struct verdict *own = mine;
    own->status = status;
    if (status < 0)
        snprintf(own->reason, sizeof(own->reason), "%s", fail_sentence());
    if (c->bootstrap) {
        char text[CALL_TEXT];
        status = comm_meet(c, mine, all, bytes, text_of(call, text));
        if (status < 0)
            return fail(status, "comm", "%s", coll_last_error(c));
    } else {
        memcpy(all, mine, bytes);
    }
    for (int r = 0; r < c->nranks; r++) {
        struct verdict *v = (void *)((char *)all + (size_t)r * bytes);
        v->reason[sizeof(v->reason) - 1] = '\0';
        if (v->status < 0)
            return fail((coll_status)v->status, "comm",
                        "coll_comm_%s: rank %d: %s", call, r, v->reason);
    }
    return COLL_OK;
}

void agree_end(coll_comm *c, coll_status status)
{
    if (record_runs(&c->recorder))
        record_end(&c->recorder, status);
}
