/* SPDX-License-Identifier: MIT */
/* The core group in software. A CPE is a fibre; one that has to wait says for
 * what, and sw_spawn resumes it when that is there. If all wait, they do so
 * for ever, and that is an error like a 65th kilobyte.
 *
 * A transfer happens when it is waited for and not before: a kernel that
 * reads early reads what was there, and one that writes early sends that.
 */
#include "kernels/sw/sw_machine.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/sw/sw_fibre.h"

enum { ROW, COLUMN, MESHES };
enum { PENDING = 64, ERROR_BYTES = 200, REGISTER_BYTES = 32 };

enum wait { NOTHING, MESSAGE, ROOM, OTHERS, FOREVER };

struct inbox {
    struct sw_vector message[SW_DEPTH];
    int first, count;
};

struct transfer {
    unsigned char *ldm, *memory;
    struct sw_stretch stretch;
    struct sw_reply *reply;
    bool put;
};

struct sw_cpe {
    struct sw_machine *machine;
    int row, column;
    enum wait wait;
    int mesh, to;  /* of what it waits for; to < 0: all others */
    unsigned turn; /* of sw_sync, that it waits for */
    bool done;
    size_t used; /* bytes of the LDM */
    struct inbox inbox[MESHES];
    struct transfer pending[PENDING];
    int npending;
    struct sw_counts counts;
    struct sw_fibre fibre;
    _Alignas(64) unsigned char argument[SW_ARGUMENT_BYTES];
    _Alignas(64) unsigned char ldm[SW_LDM_BYTES];
};

struct sw_machine {
    struct sw_cpe cpe[SW_CPES];
    unsigned char stack[SW_CPES][SW_STACK_BYTES];
    void (*kernel)(struct sw_cpe *, const void *);
    int depth;
    unsigned arrived, turn; /* at sw_sync, and how often all were */
    size_t spawns;
    char error[ERROR_BYTES];
};

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
    for (int i = 0; i < SW_CPES; i++) {
        const struct sw_counts *one = &m->cpe[i].counts;
        sum.get_bytes += one->get_bytes;
        sum.put_bytes += one->put_bytes;
        sum.transfers += one->transfers;
        sum.blocks += one->blocks;
        sum.row_messages += one->row_messages;
        sum.column_messages += one->column_messages;
        sum.instructions += one->instructions;
        sum.covering += one->covering;
        if (one->ldm_bytes > sum.ldm_bytes)
            sum.ldm_bytes = one->ldm_bytes;
    }
    return sum;
}

/* --- turns -------------------------------------------------------------- */

/* The first error counts. The CPE does not go on. */
__attribute__((format(printf, 2, 3), noreturn)) static void
fail(struct sw_cpe *cpe, const char *form, ...)
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

static struct sw_cpe *neighbour(struct sw_cpe *cpe, int mesh, int i)
{
    const int row = mesh == ROW ? cpe->row : i;
    const int column = mesh == ROW ? i : cpe->column;
    return &cpe->machine->cpe[row * SW_SIDE + column];
}

static int place(const struct sw_cpe *cpe, int mesh)
{
    return mesh == ROW ? cpe->column : cpe->row;
}

/* Room at whom it sends to. */
static bool has_room(struct sw_cpe *cpe, int mesh, int to)
{
    if (to >= 0)
        return neighbour(cpe, mesh, to)->inbox[mesh].count
               < cpe->machine->depth;
    for (int i = 0; i < SW_SIDE; i++)
        if (i != place(cpe, mesh) && !has_room(cpe, mesh, i))
            return false;
    return true;
}

static bool may_go_on(struct sw_cpe *cpe)
{
    switch (cpe->wait) {
    case MESSAGE:
        return cpe->inbox[cpe->mesh].count > 0;
    case ROOM:
        return has_room(cpe, cpe->mesh, cpe->to);
    case OTHERS:
        return cpe->machine->turn != cpe->turn;
    case FOREVER:
        return false;
    case NOTHING:
        break;
    }
    return true;
}

static void wait_for(struct sw_cpe *cpe, enum wait what, int mesh, int to)
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
        fail(cpe, "%d transfers that nobody waits for", cpe->npending);
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

int sw_row(const struct sw_cpe *cpe)
{
    return cpe->row;
}

int sw_column(const struct sw_cpe *cpe)
{
    return cpe->column;
}

void sw_sync(struct sw_cpe *cpe)
{
    struct sw_machine *m = cpe->machine;
    cpe->turn = m->turn;
    if (++m->arrived == SW_CPES) {
        m->arrived = 0;
        m->turn++;
    }
    wait_for(cpe, OTHERS, ROW, 0);
}

void sw_count(struct sw_cpe *cpe, size_t instructions)
{
    cpe->counts.instructions += instructions;
    if (cpe->npending)
        cpe->counts.covering += instructions;
}

/* --- scratch-pad and DMA ------------------------------------------------ */

void *sw_ldm(struct sw_cpe *cpe, size_t bytes)
{
    const size_t left = SW_LDM_BYTES - cpe->used;
    if (bytes > left)
        fail(cpe, "%zu bytes of LDM, of which %zu of %d are left", bytes, left,
             SW_LDM_BYTES);
    void *at = cpe->ldm + cpe->used;
    bytes = (bytes + REGISTER_BYTES - 1) / REGISTER_BYTES * REGISTER_BYTES;
    cpe->used += bytes;
    if (cpe->used > cpe->counts.ldm_bytes)
        cpe->counts.ldm_bytes = cpe->used;
    return at;
}

static void start(struct sw_cpe *cpe, struct transfer t)
{
    const struct sw_stretch s = t.stretch;
    const uintptr_t ldm = (uintptr_t)t.ldm, low = (uintptr_t)cpe->ldm;
    if (!s.bytes || !s.block || s.bytes % s.block || s.block % 4 || s.step % 4)
        fail(cpe, "a transfer of %zu bytes in blocks of %zu, %zu apart",
             s.bytes, s.block, s.step);
    if (ldm % 4 || (uintptr_t)t.memory % 4)
        fail(cpe, "a transfer from or to no multiple of 4");
    if (ldm < low || ldm - low > cpe->used || s.bytes > cpe->used - (ldm - low))
        fail(cpe, "a transfer of %zu bytes outside what was taken of the LDM",
             s.bytes);
    if (cpe->npending == PENDING)
        fail(cpe, "more than %d transfers under way", PENDING);
    cpe->pending[cpe->npending++] = t;
    *(t.put ? &cpe->counts.put_bytes : &cpe->counts.get_bytes) += s.bytes;
    cpe->counts.transfers++;
    cpe->counts.blocks += s.bytes / s.block;
}

static void carry_out(const struct transfer *t)
{
    const struct sw_stretch s = t->stretch;
    for (size_t at = 0, i = 0; at < s.bytes; at += s.block, i++) {
        unsigned char *memory = t->memory + i * (s.block + s.step);
        if (t->put)
            memcpy(memory, t->ldm + at, s.block);
        else
            memcpy(t->ldm + at, memory, s.block);
    }
    t->reply->done++;
}

void sw_get(struct sw_cpe *cpe, void *ldm, const void *memory,
            struct sw_stretch stretch, struct sw_reply *reply)
{
    start(cpe, (struct transfer){ldm, (unsigned char *)(uintptr_t)memory,
                                 stretch, reply, false});
}

void sw_put(struct sw_cpe *cpe, const void *ldm, void *memory,
            struct sw_stretch stretch, struct sw_reply *reply)
{
    start(cpe, (struct transfer){(unsigned char *)(uintptr_t)ldm, memory,
                                 stretch, reply, true});
}

void sw_wait(struct sw_cpe *cpe, struct sw_reply *reply, int done)
{
    int left = 0;
    for (int i = 0; i < cpe->npending; i++)
        if (cpe->pending[i].reply == reply && reply->done < done)
            carry_out(&cpe->pending[i]);
        else
            cpe->pending[left++] = cpe->pending[i];
    cpe->npending = left;
    if (reply->done != done)
        fail(cpe, "waits for %d replies, and there are %d", done, reply->done);
}

/* --- register messages -------------------------------------------------- */

static void drop_in(struct sw_cpe *to, int mesh, const struct sw_vector *v)
{
    struct inbox *in = &to->inbox[mesh];
    in->message[(in->first + in->count) % SW_DEPTH] = *v;
    in->count++;
}

static void send(struct sw_cpe *cpe, int mesh, int to,
                 const struct sw_vector *v)
{
    if (to >= SW_SIDE || to == place(cpe, mesh))
        fail(cpe, "a message to place %d of its own %s", to,
             mesh == ROW ? "row" : "column");
    if (!has_room(cpe, mesh, to))
        wait_for(cpe, ROOM, mesh, to);
    for (int i = 0; i < SW_SIDE; i++)
        if (to >= 0 ? i == to : i != place(cpe, mesh))
            drop_in(neighbour(cpe, mesh, i), mesh, v);
    if (mesh == ROW)
        cpe->counts.row_messages++;
    else
        cpe->counts.column_messages++;
}

static struct sw_vector receive(struct sw_cpe *cpe, int mesh)
{
    struct inbox *in = &cpe->inbox[mesh];
    if (!in->count)
        wait_for(cpe, MESSAGE, mesh, 0);
    const struct sw_vector v = in->message[in->first];
    in->first = (in->first + 1) % SW_DEPTH;
    in->count--;
    return v;
}

void sw_row_broadcast(struct sw_cpe *cpe, struct sw_vector v)
{
    send(cpe, ROW, -1, &v);
}

void sw_column_broadcast(struct sw_cpe *cpe, struct sw_vector v)
{
    send(cpe, COLUMN, -1, &v);
}

void sw_row_send(struct sw_cpe *cpe, int column, struct sw_vector v)
{
    send(cpe, ROW, column < 0 ? SW_SIDE : column, &v);
}

void sw_column_send(struct sw_cpe *cpe, int row, struct sw_vector v)
{
    send(cpe, COLUMN, row < 0 ? SW_SIDE : row, &v);
}

struct sw_vector sw_row_receive(struct sw_cpe *cpe)
{
    return receive(cpe, ROW);
}

struct sw_vector sw_column_receive(struct sw_cpe *cpe)
{
    return receive(cpe, COLUMN);
}
