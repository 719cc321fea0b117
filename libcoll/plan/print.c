/* SPDX-License-Identifier: MIT */
/* A plan as text: for logs, golden tests and people.
 *
 *     4 chunks, 1 slot
 *       0  recv from 1  TMP[1] slot 0
 *       1  send to 3  IN[2]
 *       2  reduce  OUT[1] = IN[1] + TMP[1] slot 0  after 0
 */
#include <stdarg.h>
#include <stdio.h>

#include "plan/plan.h"

struct text {
    char *at;
    size_t bytes, length; /* length: what all of it would need */
};

__attribute__((__format__(__printf__, 2, 3))) static void
add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t used = t->length < t->bytes ? t->length : t->bytes;
    const int n =
        vsnprintf(t->at ? t->at + used : NULL, t->bytes - used, format, args);
    va_end(args);
    t->length += n > 0 ? (size_t)n : 0;
}

static void add_operand(struct text *t, const struct step *s, int buf)
{
    static const char *const names[] = {"IN", "OUT", "TMP", "SUM"};
    if (s->nchunks == 1)
        add(t, "%s[%d]", names[buf], s->chunk);
    else
        add(t, "%s[%d..%d]", names[buf], s->chunk, s->chunk + s->nchunks - 1);
    if (buf == PLAN_TMP)
        add(t, " slot %d", s->slot);
}

static void add_step(struct text *t, const struct step *s)
{
    switch ((enum plan_kind)s->kind) {
    case PLAN_SEND:
        add(t, "send to %d  ", s->peer);
        add_operand(t, s, s->a);
        break;
    case PLAN_RECV:
        add(t, "recv from %d  ", s->peer);
        add_operand(t, s, s->dst);
        break;
    case PLAN_REDUCE:
        add(t, "reduce  ");
        add_operand(t, s, s->dst);
        add(t, " = ");
        add_operand(t, s, s->a);
        add(t, " + ");
        add_operand(t, s, s->b);
        break;
    case PLAN_COMBINE:
        add(t, "combine  ");
        add_operand(t, s, s->dst);
        add(t, " = %d from TMP slot %d, of which number %d is ", s->nsrc,
            s->slot, s->peer);
        add_operand(t, s, s->a);
        break;
    case PLAN_COPY:
        add(t, "copy  ");
        add_operand(t, s, s->dst);
        add(t, " = ");
        add_operand(t, s, s->a);
        break;
    case PLAN_JOIN:
        add(t, "join");
        break;
    }
    for (int i = 0, seen = 0; i < 2; i++)
        if (s->after[i] != PLAN_START)
            add(t, "%s%d", seen++ ? ", " : "  after ", s->after[i]);
}

size_t plan_print(const struct plan *p, char *text, size_t bytes)
{
    struct text t = {text, bytes, 0};
    add(&t, "%d chunk%s, %d slot%s\n", p->nchunks, p->nchunks == 1 ? "" : "s",
        p->nslots, p->nslots == 1 ? "" : "s");
    for (int i = 0; i < p->nsteps; i++) {
        add(&t, "%3d  ", i);
        add_step(&t, &p->steps[i]);
        add(&t, "\n");
    }
    return t.length;
}
