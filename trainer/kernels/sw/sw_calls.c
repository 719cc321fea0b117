/* SPDX-License-Identifier: MIT */
/* What kernels ask of the core group in software. A transfer happens when it
 * is waited for and not before: a kernel that reads early reads what was
 * there, and one that writes early sends that. */
#include <stdint.h>
#include <string.h>

#include "kernels/sw/sw_cpe.h"

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
    sw_cpe_wait(cpe, OTHERS, ROW, 0);
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
        sw_cpe_fail(cpe, "%zu bytes of LDM, of which %zu of %d are left", bytes,
                    left, SW_LDM_BYTES);
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
        sw_cpe_fail(cpe, "a transfer of %zu bytes in blocks of %zu, %zu apart",
                    s.bytes, s.block, s.step);
    if (ldm % 4 || (uintptr_t)t.memory % 4)
        sw_cpe_fail(cpe, "a transfer from or to no multiple of 4");
    if (ldm < low || ldm - low > cpe->used || s.bytes > cpe->used - (ldm - low))
        sw_cpe_fail(cpe,
                    "a transfer of %zu bytes outside what was taken of the LDM",
                    s.bytes);
    if (cpe->npending == PENDING)
        sw_cpe_fail(cpe, "more than %d transfers under way", PENDING);
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
        sw_cpe_fail(cpe, "waits for %d replies, and there are %d", done,
                    reply->done);
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
    if (to >= SW_SIDE || to == sw_cpe_place(cpe, mesh))
        sw_cpe_fail(cpe, "a message to place %d of its own %s", to,
                    mesh == ROW ? "row" : "column");
    if (!sw_cpe_has_room(cpe, mesh, to))
        sw_cpe_wait(cpe, ROOM, mesh, to);
    for (int i = 0; i < SW_SIDE; i++)
        if (to >= 0 ? i == to : i != sw_cpe_place(cpe, mesh))
            drop_in(sw_cpe_neighbour(cpe, mesh, i), mesh, v);
    if (mesh == ROW)
        cpe->counts.row_messages++;
    else
        cpe->counts.column_messages++;
}

static struct sw_vector receive(struct sw_cpe *cpe, int mesh)
{
    struct inbox *in = &cpe->inbox[mesh];
    if (!in->count)
        sw_cpe_wait(cpe, MESSAGE, mesh, 0);
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
