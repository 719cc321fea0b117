/* SPDX-License-Identifier: MIT */
/* What every row of transports.def makes of what is wrong: messages that do not
 * match, settings, addresses that lie, nonsense in shared memory. */
#include <criterion/criterion.h>

#include "fabric.h"
#include "letters.h"
#include "node/segment.h"
#include "transport/ring.h"

/* The next message is delivered all the same: the wrong one is used up. */
static void wrong(struct fabric *f, uint32_t tag, size_t sent, size_t expected)
{
    struct letter *tx = letter_new(1, sent, 1),
                  *rx = letter_new(0, expected, 1);
    struct letter *both[2] = {tx, rx};
    rx->transfer.tag = 0xc0ffee ^ tag;
    f->ops->recv(f->ends[1], &rx->transfer);
    f->ops->send(f->ends[0], &tx->transfer);
    cr_assert(drive(f, both, 2), "%s: %zu sent, %zu expected: stuck",
              f->ops->name, sent, expected);
    cr_assert_eq(letter_status(rx), COLL_ERR_MISMATCH,
                 "%s: %zu sent, %zu expected: status %d", f->ops->name, sent,
                 expected, letter_status(rx));
    cr_assert_eq(rx->transfer.moved, sent, "%s: %zu", f->ops->name,
                 rx->transfer.moved);
    if (tag < 1u << 26)
        cr_assert_eq(rx->transfer.tag, tx->transfer.tag, "%s: %08x",
                     f->ops->name, rx->transfer.tag);
    letter_free(tx);
    letter_free(rx);
    exchange(f, 0, 1, 100, false);
}

static void mismatches(struct fabric *f)
{
    const size_t some[] = {8, 41, 5000, 300000};
    for (int i = 0; i < 4; i++) {
        wrong(f, 1, some[i], some[i]);
        wrong(f, 1u << 31, some[i], some[i]);
        for (int k = 0; k < 4; k++)
            if (k != i)
                wrong(f, 0, some[i], some[k]);
    }
}

Test(transports_wrong, another_tag_or_length_is_a_mismatch)
{
    everywhere(2, mismatches);
}

/* In pieces, the rest of what was wrong is the transport's until cancel(). */
static void wrong_piece(uint32_t tag, size_t sent, size_t expected)
{
    struct fabric f;
    cr_assert(fabric_open_lanes(&f, transport_find("ucx"), 1, 2, 3));
    struct letter *tx = letter_new(1, sent, 1),
                  *rx = letter_new(0, expected, 1);
    rx->transfer.tag = 0xc0ffee ^ tag;
    f.ops->recv(f.ends[1], &rx->transfer);
    f.ops->send(f.ends[0], &tx->transfer);
    cr_assert(drive(&f, &rx, 1), "%zu sent, %zu expected: stuck", sent,
              expected);
    cr_assert_eq(letter_status(rx), COLL_ERR_MISMATCH,
                 "%zu sent, %zu expected: status %d", sent, expected,
                 letter_status(rx));
    f.ops->cancel(f.ends[0]);
    f.ops->cancel(f.ends[1]);
    cr_assert_neq(letter_status(tx), COLL_IN_PROGRESS);
    letter_free(tx);
    letter_free(rx);
    fabric_close(&f);
}

Test(transports_wrong, another_tag_or_length_is_a_mismatch_in_pieces)
{
    /* Pieces of 65536 and 98304 bytes are as long as the whole of 32768. */
    const size_t some[] = {8, 32768, 65536, 98304, 131072, 300000};
    for (int i = 0; i < 6; i++) {
        wrong_piece(1, some[i], some[i]);
        for (int k = 0; k < 6; k++)
            if (k != i)
                wrong_piece(0, some[i], some[k]);
    }
}

Test(transports_wrong, what_cannot_be_opened_says_why)
{
    const uint64_t hosts[2] = {1, 1};
    const struct transport_job job = {
        .rank = 0, .nranks = 2, .host_of = hosts, .job = 1};
    struct transport *t = NULL;
    setenv("COLL_SHM_RING", "12", 1); /* settings are read at first use */
    cr_assert_eq(transport_find("sim")->open(&t, &job), COLL_ERR_UNSUPPORTED);
    cr_assert_eq(transport_find("shm")->open(&t, &job), COLL_ERR_INVALID);
    setenv("UCX_TLS", "nonesuch", 1);
    cr_assert_eq(transport_find("ucx")->open(&t, &job), COLL_ERR_UNSUPPORTED);
    cr_assert_null(t);
}

/* Addresses that lie, one field each: nobody is reached, nothing breaks. */
Test(transports_wrong, a_false_address_is_not_reached)
{
    for (int i = 0; i < ntransports; i++) {
        static struct transport_address all[2];
        struct fabric f;
        if (transports[i] == transport_find("sim")
            || !fabric_open(&f, transports[i], 2, 2))
            continue;
        fabric_close(&f);
        const bool ucx = !strcmp(transports[i]->name, "ucx");
        /* UCX's own bytes cannot be checked; our mark before them is. */
        for (size_t at = 0; at < (ucx ? 4 : 88); at += ucx ? 1 : 8) {
            bool reached[2] = {true, true};
            for (int r = 0; r < 2; r++) {
                cr_assert_eq(f.ops->open(&f.ends[r], &f.jobs[r]), COLL_OK);
                f.ops->address(f.ends[r], &all[r]);
            }
            /* Another process number sends it through /proc, as a rank that
             * is no thread of this one. */
            all[1].data[ucx ? at : 24] ^= 1;
            all[1].data[at] ^= !ucx;
            cr_assert_eq(f.ops->connect(f.ends[0], all, reached), COLL_OK);
            cr_assert_eq(reached[1], !ucx && at == 24, "%s, byte %zu",
                         f.ops->name, at);
            fabric_close(&f);
        }
    }
}

/* What rank 0 fills and rank 1 reads, as rank 0's own code would have it. */
static struct ring forge(struct fabric *f, struct segment_view *view)
{
    static struct transport_address address;
    struct segment_name name;
    cr_assert(fabric_open(f, transport_find("shm"), 2, 2));
    f->ops->address(f->ends[1], &address);
    memcpy(&name, address.data, sizeof(name));
    cr_assert_null(segment_attach(&name, 0, view));
    return ring_over(view->memory, view->bytes, f->jobs[0].job);
}

Test(transports_wrong, nonsense_in_shared_memory_is_an_error)
{
    const struct {
        uint64_t total;
        uint32_t here;
    } headers[] = {
        {100, 99        },
        {100, UINT32_MAX},
        {100, 0         },
        {0,   0         },
        {0,   100       }
    };
    struct fabric f;
    struct segment_view view;
    for (int i = 0; i < 5; i++) {
        struct ring ring = forge(&f, &view);
        struct ring_cell *cell = ring_cell(&ring);
        struct letter *rx = letter_recv(f.ends[1], 0, 100, 0);
        cell->total = headers[i].total;
        cell->tag = rx->transfer.tag;
        cell->here = headers[i].here;
        ring_filled(&ring);
        cr_assert(drive(&f, &rx, 1), "header %d", i);
        cr_assert_eq(letter_status(rx),
                     headers[i].total ? COLL_ERR_PEER : COLL_ERR_MISMATCH);
        letter_free(rx);
        rx = letter_recv(f.ends[1], 0, 100, 0);
        cr_assert_eq(letter_status(rx), COLL_ERR_PEER, "header %d", i);
        letter_free(rx);
        segment_detach(&view);
        fabric_close(&f);
    }
    struct ring ring = forge(&f, &view);
    atomic_store(ring.consumed, 1000000);
    struct letter *tx = letter_send(f.ends[0], 1, 1 << 20, 0);
    cr_assert(drive(&f, &tx, 1));
    cr_assert_eq(letter_status(tx), COLL_ERR_PEER);
    letter_free(tx);
    segment_detach(&view);
    fabric_close(&f);
}
