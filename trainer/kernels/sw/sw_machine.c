/* SPDX-License-Identifier: MIT */
/* The core group in software. A CPE is a fibre; one that has to wait says for
 * what, and sw_spawn resumes it when that is there. If all wait, they do so
 * for ever, and that is an error like a 65th kilobyte.
 */
#include "kernels/sw/sw_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/sw/sw_cpe.h"

size_t sw_machine_bytes(void)
{
    return sizeof(struct sw_machine);
}

struct sw_machine *sw_machine_create(void *memory)
{
    struct sw_machine *m = memory;
    m->spawns = 0;
    for (int i = 0; i < SW_CPES; i++) {
        m->cpe[i].machine = m;
        m->cpe[i].row = i / SW_SIDE;
        m->cpe[i].column = i % SW_SIDE;
    }
    sw_machine_set_depth(m, SW_DEPTH);
    sw_machine_clear(m);
    return m;
}

void sw_machine_free(struct sw_machine *m)
{
    (void)m; /* nothing outside its memory */
}

void sw_machine_set_depth(struct sw_machine *m, int depth)
{
    m->depth = depth < 1 ? 1 : depth > SW_DEPTH ? SW_DEPTH : depth;
}

void sw_machine_clear(struct sw_machine *m)
{
    for (int i = 0; i < SW_CPES; i++)
        m->cpe[i].counts = (struct sw_counts){0};
    m->spawns = 0;
}

struct sw_counts sw_machine_counts(const struct sw_machine *m)
{
    struct sw_counts sum = {.spawns = m->spawns};
    for (int i = 0; i < SW_CPES; i++)
        sw_counts_add(&sum, &m->cpe[i].counts);
    return sum;
}

/* --- turns -------------------------------------------------------------- */

void sw_cpe_fail(struct sw_cpe *cpe, const char *form, ...)
{
    struct sw_machine *m = cpe->machine;
    va_list words;
    if (!m->error[0]) {
        const int head = snprintf(m->error, sizeof(m->error),
                                  "CPE (%d,%d): ", cpe->row, cpe->column);
        va_start(words, form);
        vsnprintf(m->error + head, sizeof(m->error) - (size_t)head, form,
                  words);
        va_end(words);
    }
    for (;;) {
        cpe->wait = FOREVER;
        sw_fibre_pause(&cpe->fibre);
    }
}

struct sw_cpe *sw_cpe_neighbour(struct sw_cpe *cpe, int mesh, int i)
{
    const int row = mesh == ROW ? cpe->row : i;
    const int column = mesh == ROW ? i : cpe->column;
    return &cpe->machine->cpe[row * SW_SIDE + column];
}

int sw_cpe_place(const struct sw_cpe *cpe, int mesh)
{
    return mesh == ROW ? cpe->column : cpe->row;
}

bool sw_cpe_has_room(struct sw_cpe *cpe, int mesh, int to)
{
    if (to >= 0)
        return sw_cpe_neighbour(cpe, mesh, to)->inbox[mesh].count
               < cpe->machine->depth;
    for (int i = 0; i < SW_SIDE; i++)
        if (i != sw_cpe_place(cpe, mesh) && !sw_cpe_has_room(cpe, mesh, i))
            return false;
    return true;
}

static bool may_go_on(struct sw_cpe *cpe)
{
    switch (cpe->wait) {
    case MESSAGE:
        return cpe->inbox[cpe->mesh].count > 0;
    case ROOM:
        return sw_cpe_has_room(cpe, cpe->mesh, cpe->to);
    case OTHERS:
        return cpe->machine->turn != cpe->turn;
    case FOREVER:
        return false;
    case NOTHING:
        break;
    }
    return true;
}

void sw_cpe_wait(struct sw_cpe *cpe, enum wait what, int mesh, int to)
{
    cpe->wait = what;
    cpe->mesh = mesh;
    cpe->to = to;
    if (!may_go_on(cpe))
        sw_fibre_pause(&cpe->fibre);
    cpe->wait = NOTHING;
}

static void run(void *argument)
{
    struct sw_cpe *cpe = argument;
    cpe->machine->kernel(cpe, cpe->argument);
    if (cpe->npending)
        sw_cpe_fail(cpe, "%d transfers that nobody waits for", cpe->npending);
    cpe->done = true;
    for (;;)
        sw_fibre_pause(&cpe->fibre);
}

static void stuck(struct sw_machine *m)
{
    static const char *const what[] = {
        "its turn", "a message", "room for a message", "all others", "nothing"};
    for (int i = 0; i < SW_CPES; i++)
        if (!m->cpe[i].done) {
            snprintf(m->error, sizeof(m->error),
                     "CPE (%d,%d): waits for %s%s, and nobody can go on",
                     m->cpe[i].row, m->cpe[i].column, what[m->cpe[i].wait],
                     m->cpe[i].wait == OTHERS ? ""
                     : m->cpe[i].mesh == ROW  ? " of its row"
                                              : " of its column");
            return;
        }
}

/* False if nobody could go on. */
static bool round_of_all(struct sw_machine *m)
{
    bool any = false;
    for (int i = 0; i < SW_CPES && !m->error[0]; i++)
        if (!m->cpe[i].done && may_go_on(&m->cpe[i])) {
            sw_fibre_resume(&m->cpe[i].fibre);
            any = true;
        }
    return any;
}

static void unread(struct sw_machine *m)
{
    for (int i = 0; i < SW_CPES && !m->error[0]; i++)
        for (int mesh = ROW; mesh < MESHES; mesh++)
            if (m->cpe[i].inbox[mesh].count)
                snprintf(m->error, sizeof(m->error),
                         "CPE (%d,%d): %d messages of its %s were not read",
                         m->cpe[i].row, m->cpe[i].column,
                         m->cpe[i].inbox[mesh].count,
                         mesh == ROW ? "row" : "column");
}

const char *sw_spawn(struct sw_machine *m,
                     void (*kernel)(struct sw_cpe *, const void *),
                     const void *argument, size_t bytes)
{
    if (bytes > SW_ARGUMENT_BYTES)
        return "an argument is too long";
    m->kernel = kernel;
    m->arrived = m->turn = 0;
    m->error[0] = '\0';
    m->spawns++;
    for (int i = 0; i < SW_CPES; i++) {
        struct sw_cpe *cpe = &m->cpe[i];
        cpe->wait = NOTHING;
        cpe->done = false;
        cpe->used = 0;
        cpe->npending = 0;
        for (int mesh = ROW; mesh < MESHES; mesh++)
            cpe->inbox[mesh].first = cpe->inbox[mesh].count = 0;
        memset(cpe->ldm, 0xff, sizeof(cpe->ldm)); /* NaN */
        if (bytes)
            memcpy(cpe->argument, argument, bytes);
        sw_fibre_start(&cpe->fibre, m->stack[i], run, cpe);
    }
    while (round_of_all(m))
        ;
    if (!m->error[0])
        stuck(m);
    unread(m);
    for (int i = 0; i < SW_CPES; i++)
        sw_fibre_end(&m->cpe[i].fibre);
    return m->error[0] ? m->error : NULL;
}
