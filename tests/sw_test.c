/* SPDX-License-Identifier: MIT */
/* The Sunway core group in software: what its calls do, what they refuse, and
 * what they count. Speaks TAP. */
#include "sw_checks.h"

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_product.h"
#include "kernels/sw/sw_transform.h"

static struct sw_machine *machine;

/* --- what is refused ---------------------------------------------------- */

static float memory[4096];

static void takes_all(struct sw_cpe *cpe, const void *argument)
{
    const size_t *more = argument;
    sw_ldm(cpe, SW_LDM_BYTES);
    if (*more)
        sw_ldm(cpe, *more);
}

static void transfers(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_stretch *s = argument;
    struct sw_reply reply = {0};
    sw_get(cpe, sw_ldm(cpe, 256), memory, *s, &reply);
    sw_wait(cpe, &reply, 1);
}

static void forgets_to_wait(struct sw_cpe *cpe, const void *argument)
{
    struct sw_reply reply = {0};
    (void)argument;
    sw_get(cpe, sw_ldm(cpe, 64), memory, (struct sw_stretch){64, 64, 0},
           &reply);
}

static void waits_for_two(struct sw_cpe *cpe, const void *argument)
{
    struct sw_reply reply = {0};
    (void)argument;
    sw_get(cpe, sw_ldm(cpe, 64), memory, (struct sw_stretch){64, 64, 0},
           &reply);
    sw_wait(cpe, &reply, 2);
}

static void hears_nothing(struct sw_cpe *cpe, const void *argument)
{
    (void)argument;
    if (sw_row(cpe) == 3 && sw_column(cpe) == 4)
        sw_column_receive(cpe);
}

static void is_not_heard(struct sw_cpe *cpe, const void *argument)
{
    (void)argument;
    if (sw_row(cpe) == 1 && sw_column(cpe) == 2)
        sw_row_send(cpe, 5,
                    (struct sw_vector){
                        {1, 2, 3, 4}
        });
}

static void tells_itself(struct sw_cpe *cpe, const void *argument)
{
    (void)argument;
    sw_row_send(cpe, sw_column(cpe), (struct sw_vector){{0}});
}

static void sixty_three_sync(struct sw_cpe *cpe, const void *argument)
{
    (void)argument;
    if (sw_row(cpe) + sw_column(cpe))
        sw_sync(cpe);
}

static void refuses(void (*kernel)(struct sw_cpe *, const void *),
                    const void *argument, size_t bytes, const char *words)
{
    const char *error = sw_spawn(machine, kernel, argument, bytes);
    require(error && strstr(error, words), "it says \"%s\", not \"%s\"",
            error ? error : "nothing", words);
}

static void a_65th_kilobyte_is_refused(void)
{
    static const size_t none = 0, one = 1, kilobyte = 1024;
    const char *error = sw_spawn(machine, takes_all, &none, sizeof(none));
    require(!error, "%s", error);
    refuses(takes_all, &one, sizeof(one),
            "CPE (0,0): 1 bytes of LDM, of which 0 of 65536");
    refuses(takes_all, &kilobyte, sizeof(kilobyte), "1024 bytes of LDM");
    require(sw_machine_counts(machine).ldm_bytes == SW_LDM_BYTES,
            "the most that was taken");
    error = sw_spawn(machine, takes_all, memory, SW_ARGUMENT_BYTES + 1);
    require(error && strstr(error, "too long"), "an argument");
}

static void wrong_transfers_are_refused(void)
{
    static const struct sw_stretch wrong[] = {
        {0,   0,   0},
        {64,  24,  0},
        {6,   6,   0},
        {64,  32,  2},
        {512, 512, 0},
    };
    static const struct sw_stretch right = {256, 32, 96};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        refuses(transfers, &wrong[i], sizeof(wrong[i]), "a transfer of");
    require(!sw_spawn(machine, transfers, &right, sizeof(right)),
            "it is right");
    refuses(forgets_to_wait, NULL, 0, "1 transfers that nobody waits for");
    refuses(waits_for_two, NULL, 0, "waits for 2 replies, and there are 1");
}

static void wrong_messages_are_refused(void)
{
    refuses(hears_nothing, NULL, 0,
            "CPE (3,4): waits for a message of its column");
    refuses(is_not_heard, NULL, 0, "CPE (1,5): 1 messages of its row");
    refuses(tells_itself, NULL, 0, "a message to place 0 of its own row");
    refuses(sixty_three_sync, NULL, 0, "waits for all others");
}

/* --- what is done ------------------------------------------------------- */

/* Early: before anybody waits. Then the numbers are not there. */
static void early_and_late(struct sw_cpe *cpe, const void *argument)
{
    const float *from = *(const float *const *)argument;
    struct sw_reply reply = {0};
    float *x = sw_ldm(cpe, 16), *y = sw_ldm(cpe, 16);
    float *to = memory + 8 * (sw_row(cpe) * SW_SIDE + sw_column(cpe));
    sw_get(cpe, x, from, (struct sw_stretch){16, 4, 4}, &reply);
    y[0] = x[0] == from[0] ? 1.0F : 2.0F;
    sw_wait(cpe, &reply, 1);
    y[1] = x[0];
    y[2] = x[1];
    y[3] = x[3];
    sw_put(cpe, y, to, (struct sw_stretch){16, 8, 4}, &reply);
    sw_wait(cpe, &reply, 2);
}

static void transfers_are_done_when_waited_for(void)
{
    static const float from[] = {11, 12, 13, 14, 15, 16, 17, 18};
    memset(memory, 0, sizeof(memory));
    sw_machine_clear(machine);
    const float *argument = from;
    const char *error =
        sw_spawn(machine, early_and_late, &argument, sizeof(argument));
    require(!error, "%s", error);
    for (int i = 0; i < SW_CPES; i++)
        equal(memory + 8 * i, (const float[]){2, 11, 0, 13, 17, 0, 0, 0}, 8,
              "what was put");
    const struct sw_counts c = sw_machine_counts(machine);
    require(c.get_bytes == 1024 && c.put_bytes == 1024 && c.transfers == 128
                && c.blocks == 64 * 6,
            "DMA: %zu, %zu bytes, %zu transfers, %zu blocks", c.get_bytes,
            c.put_bytes, c.transfers, c.blocks);
}

/* Numbers go round the row, then the column, then a broadcast of each. */
static void round_trip(struct sw_cpe *cpe, const void *argument)
{
    const int row = sw_row(cpe), column = sw_column(cpe);
    const double own = 8 * row + column;
    struct sw_vector v = {
        {own, own + 0.25, own + 0.5, own + 0.75}
    };
    struct sw_reply reply = {0};
    float *sum = sw_ldm(cpe, 4);
    (void)argument;
    sw_row_send(cpe, (column + 1) % SW_SIDE, v);
    v = sw_row_receive(cpe);
    sw_column_send(cpe, (row + 1) % SW_SIDE, v);
    v = sw_column_receive(cpe);
    const double from = 8 * ((row + 7) % SW_SIDE) + (column + 7) % SW_SIDE;
    *sum = v.lane[0] == from && v.lane[3] == from + 0.75 ? 0 : 1000;
    for (int i = 0; i < SW_SIDE; i++) {
        if (i == column)
            sw_row_broadcast(cpe, v);
        *sum += (float)(i == column ? v : sw_row_receive(cpe)).lane[1];
        sw_sync(cpe);
    }
    sw_put(cpe, sum, memory + 8 * row + column, (struct sw_stretch){4, 4, 0},
           &reply);
    sw_wait(cpe, &reply, 1);
}

static void messages_arrive(void)
{
    for (int depth = 1; depth <= SW_DEPTH; depth *= 8) {
        sw_machine_set_depth(machine, depth);
        sw_machine_clear(machine);
        const char *error = sw_spawn(machine, round_trip, NULL, 0);
        require(!error, "%s", error);
        for (int i = 0; i < SW_CPES; i++)
            require(memory[i] == (float)(64 * ((i / 8 + 7) % 8) + 28 + 2),
                    "CPE %d has %g", i, (double)memory[i]);
        const struct sw_counts c = sw_machine_counts(machine);
        require(c.row_messages == 128 && c.column_messages == 64,
                "%zu and %zu messages", c.row_messages, c.column_messages);
    }
    sw_machine_set_depth(machine, SW_DEPTH);
}

/* --- products and orders ------------------------------------------------ */

static void plain_product(const struct sw_product *p, float *c)
{
    for (int n = 0; n < p->n; n++)
        for (int m = 0; m < p->m; m++) {
            double sum = p->adds ? (double)c[n * p->m + m] : 0;
            for (int k = 0; k < p->k; k++)
                sum += (double)p->w[n * p->k + k] * (double)p->a[k * p->m + m];
            c[n * p->m + m] = (float)sum;
        }
}

static void one_product(int n, int k, int m, bool adds, uint64_t seed)
{
    const size_t nk = (size_t)(n * k), km = (size_t)(k * m),
                 nm = (size_t)(n * m);
    float *w = eighths(nk, seed), *a = eighths(km, seed + 1);
    float *c = eighths(nm, seed + 2), *wanted = eighths(nm, seed + 2);
    const struct sw_product p = {w, a, c, n, k, m, adds};
    plain_product(&p, wanted);
    sw_machine_clear(machine);
    const char *error = sw_product(machine, &p);
    require(!error, "%s", error);
    equal(c, wanted, nm, "a product");
    const struct sw_counts found = sw_machine_counts(machine);
    require(found.get_bytes == sw_product_get_bytes(&p)
                && found.put_bytes == sw_product_put_bytes(&p),
            "a product moves %zu and %zu bytes", found.get_bytes,
            found.put_bytes);
    free(w);
    free(a);
    free(c);
    free(wanted);
}

static void products_are_right(void)
{
    one_product(8, 8, 32, false, 1);
    one_product(264, 280, 544, true, 2);
    for (uint64_t seed = 10; seed < 20; seed++)
        one_product(8 * pick(seed, 0, 1, 12), 8 * pick(seed, 1, 1, 12),
                    32 * pick(seed, 2, 1, 6), pick(seed, 3, 0, 1), seed);
    sw_machine_set_depth(machine, 1);
    one_product(40, 16, 96, true, 3);
    sw_machine_set_depth(machine, SW_DEPTH);
}

/* One product on the mesh: the owner of step k, and nobody else, sends, and
 * so often as the tiles of 4 by 16 need it. */
static void a_block_passes_once_for_each_tile(void)
{
    static const struct sw_block blocks[] = {
        {16, 8, 8},
        {4,  1, 1},
        {16, 4, 3},
        {20, 6, 5},
        {64, 9, 2}
    };
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        const struct sw_block b = blocks[i];
        const int n = 8 * b.n, k = 8 * b.k, m = 8 * b.m;
        float *w = eighths((size_t)(n * k), i),
              *a = eighths((size_t)(k * m), i);
        float *c = unset((size_t)(n * m));
        sw_machine_clear(machine);
        const char *error =
            sw_product(machine, &(struct sw_product){w, a, c, n, k, m, false});
        require(!error, "%s", error);
        const struct sw_counts found = sw_machine_counts(machine);
        const size_t row = (size_t)(k * m / 4 * ((b.n + 3) / 4));
        const size_t column = (size_t)(n * k * ((b.m + 15) / 16));
        require(found.row_messages == row
                    && found.row_messages == sw_mesh_gemm_row_messages(b),
                "%zu row messages", found.row_messages);
        require(found.column_messages == column
                    && found.column_messages == sw_mesh_gemm_column_messages(b),
                "%zu column messages", found.column_messages);
        require(found.instructions == (size_t)n * (size_t)k * (size_t)m / 4,
                "%zu instructions", found.instructions);
        free(w);
        free(a);
        free(c);
    }
}

static void do_transpose(struct sw_transpose t)
{
    sw_machine_clear(machine);
    const char *error = sw_transpose(machine, &t);
    require(!error, "%s", error);
    const struct sw_counts c = sw_machine_counts(machine);
    const size_t bytes =
        sizeof(float) * (size_t)t.batches * (size_t)t.rows * (size_t)t.columns;
    require(c.get_bytes == bytes && c.put_bytes == bytes,
            "%zu and %zu bytes of %zu", c.get_bytes, c.put_bytes, bytes);
}

/* n images or outputs, c channels or inputs, p places or taps. */
static void orders_of(int n, int c, int p)
{
    const size_t all = (size_t)(n * c * p);
    float *x = eighths(all, all), *t = unset(all), *back = unset(all);
    do_transpose(sw_images_to_tile(x, t, n, c, p));
    for (int i = 0; i < n * c * p; i++)
        require(t[(i % p * c + i / p % c) * n + i / p / c] == x[i], "images");
    do_transpose(sw_images_from_tile(t, back, n, c, p));
    equal(back, x, all, "images, and back");
    do_transpose(sw_images_to_tile_backward(x, t, n, c, p));
    for (int i = 0; i < n * c * p; i++)
        require(t[(i % p * n + i / p / c) * c + i / p % c] == x[i],
                "images, backward");
    do_transpose(sw_weights_to_tile(x, t, n, c, p));
    for (int i = 0; i < n * c * p; i++)
        require(t[(i % p * n + i / p / c) * c + i / p % c] == x[i], "weights");
    do_transpose(sw_weights_from_tile(t, back, n, c, p));
    equal(back, x, all, "weights, and back");
    do_transpose(sw_weights_to_tile_backward(x, t, n, c, p));
    for (int i = 0; i < n * c * p; i++)
        require(t[((p - 1 - i % p) * c + i / p % c) * n + i / p / c] == x[i],
                "weights, backward");
    free(x);
    free(t);
    free(back);
}

static void other_orders_and_back(void)
{
    orders_of(1, 1, 1);
    orders_of(3, 5, 7);
    orders_of(70, 3, 130);
    orders_of(2, 129, 9);
    orders_of(65, 64, 4);
}

int main(void)
{
    static const struct check checks[] = {
        {"a 65th kilobyte is refused",         a_65th_kilobyte_is_refused },
        {"wrong transfers are refused",        wrong_transfers_are_refused},
        {"wrong messages are refused",         wrong_messages_are_refused },
        {"transfers are done when waited for",
         transfers_are_done_when_waited_for                               },
        {"messages arrive",                    messages_arrive            },
        {"products are right",                 products_are_right         },
        {"a block passes once for each tile",
         a_block_passes_once_for_each_tile                                },
        {"other orders of numbers, and back",  other_orders_and_back      },
    };
    return run_on_machine(checks, (int)(sizeof(checks) / sizeof(checks[0])),
                          &machine);
}
