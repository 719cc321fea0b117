/* SPDX-License-Identifier: MIT */
#include "net/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "data/reader.h"

enum { VERSION = 4, OLDEST = 3, BYTE_ORDER_MARK = 0x01020304 };

struct header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t text_bytes, state_bytes, nparams, noptim, nkept, file_bytes;
    uint32_t nranks, crc;
};

struct checkpoint_rank {
    uint64_t count;
    uint32_t crc, zero;
};

static_assert(sizeof(struct header) == 72, "the format says so");
static_assert(sizeof(struct checkpoint_state) == 14 * 8 + 192, "no holes");

static const char magic[8] = {'C', 'O', 'L', 'L', 'C', 'K', 'P', 'T'};

/* crc32() takes at most 4 GiB at once. */
static uint32_t add_crc(uint32_t crc, const void *from, size_t bytes)
{
    const unsigned char *at = from;
    while (bytes) {
        const size_t part = bytes < 1u << 30 ? bytes : 1u << 30;
        crc = (uint32_t)crc32(crc, at, (uInt)part);
        at += part;
        bytes -= part;
    }
    return crc;
}

static void put(struct checkpoint_file *f, const void *from, size_t bytes)
{
    f->crc = add_crc(f->crc, from, bytes);
    if (bytes)
        fwrite(from, 1, bytes, f->file.stream);
}

int checkpoint_begin(struct checkpoint_file *f, const char *path,
                     const struct checkpoint *c, const uint64_t *counts,
                     char *error, size_t error_bytes)
{
    struct header h = {
        .version = VERSION,
        .byte_order = BYTE_ORDER_MARK,
        .text_bytes = strlen(c->text),
        .state_bytes = sizeof(c->state),
        .nparams = c->nparams,
        .noptim = c->noptim,
        .nkept = c->nkept,
        .nranks = c->nranks,
    };
    memcpy(h.magic, magic, sizeof(magic));
    *f = (struct checkpoint_file){.nranks = c->nranks};
    f->ranks = calloc((size_t)c->nranks + 1, sizeof(*f->ranks));
    if (!f->ranks) {
        snprintf(error, error_bytes, "%s: no memory for its table", path);
        return -1;
    }
    uint64_t floats = h.nparams + h.noptim + h.nkept;
    for (uint32_t i = 0; i < c->nranks; i++)
        floats += f->ranks[i].count = counts[i];
    h.file_bytes = sizeof(h) + h.text_bytes + h.state_bytes
                   + floats * sizeof(float) + h.nranks * sizeof(*f->ranks);
    if (!whole_file_begin(&f->file, path, error, error_bytes)) {
        free(f->ranks);
        return -1;
    }
    put(f, &h, sizeof(h));
    put(f, c->text, h.text_bytes);
    put(f, &c->state, sizeof(c->state));
    put(f, c->params, c->nparams * sizeof(float));
    put(f, c->optim, c->noptim * sizeof(float));
    put(f, c->kept, c->nkept * sizeof(float));
    return 0;
}

void checkpoint_add(struct checkpoint_file *f, int rank, const float *x,
                    size_t count)
{
    uint32_t *crc = &f->ranks[rank].crc;
    *crc = add_crc(*crc, x, count * sizeof(float));
    if (count)
        fwrite(x, sizeof(float), count, f->file.stream);
}

int checkpoint_commit(struct checkpoint_file *f, char *error,
                      size_t error_bytes)
{
    put(f, f->ranks, f->nranks * sizeof(*f->ranks));
    free(f->ranks);
    FILE *to = f->file.stream;
    const bool good = !fseek(to, offsetof(struct header, crc), SEEK_SET)
                      && fwrite(&f->crc, sizeof(f->crc), 1, to) == 1;
    return whole_file_end(&f->file, good, error, error_bytes) ? 0 : -1;
}

void checkpoint_drop(struct checkpoint_file *f)
{
    free(f->ranks);
    whole_file_drop(&f->file);
}

/* Of sizes that are at most a file's. */
static uint64_t main_bytes(const struct header *h)
{
    return sizeof(*h) + h->text_bytes + h->state_bytes
           + (h->nparams + h->noptim + h->nkept) * sizeof(float);
}

static uint64_t table_bytes(const struct header *h)
{
    return h->nranks * sizeof(struct checkpoint_rank);
}

static int check_header(const struct reader *r, const struct header *h,
                        uint64_t file_bytes)
{
    if (memcmp(h->magic, magic, sizeof(magic)))
        return reader_refuse(r, "byte 0: no checkpoint, valid ones start with "
                                "\"COLLCKPT\"");
    if (h->byte_order != BYTE_ORDER_MARK)
        return reader_refuse(
            r,
            "byte 12: byte order 0x%08x, valid on this machine is "
            "0x%08x",
            h->byte_order, BYTE_ORDER_MARK);
    if (h->version < OLDEST || h->version > VERSION)
        return reader_refuse(r, "byte 8: version %u, valid are %d and %d",
                             h->version, OLDEST, VERSION);
    if (h->file_bytes != file_bytes)
        return reader_refuse(
            r,
            "byte 56: the file is %llu bytes long, valid is %llu "
            "as its header says",
            (unsigned long long)file_bytes, (unsigned long long)h->file_bytes);
    const uint64_t most = file_bytes - sizeof(*h);
    if (h->text_bytes > most || h->nparams > most / sizeof(float)
        || h->noptim > most / sizeof(float) || h->nkept > most / sizeof(float)
        || h->state_bytes != sizeof(struct checkpoint_state)
        || (h->nranks ? main_bytes(h) + table_bytes(h) > file_bytes
                      : main_bytes(h) != file_bytes))
        return reader_refuse(
            r,
            "byte 16: the sizes %llu, %llu, %llu, %llu, %llu do not "
            "make up the file, valid is a text, %zu, and 4 bytes a "
            "number",
            (unsigned long long)h->text_bytes,
            (unsigned long long)h->state_bytes, (unsigned long long)h->nparams,
            (unsigned long long)h->noptim, (unsigned long long)h->nkept,
            sizeof(struct checkpoint_state));
    if (h->nranks && h->version == OLDEST)
        return reader_refuse(r, "byte 64: found %u, valid is 0", h->nranks);
    return 0;
}

/* What a rank reads besides what all do. */
struct wanted {
    struct checkpoint_rank *table, row;
    uint64_t at; /* of its floats; 0: it has none */
};

static int ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static int check_state(const struct reader *r, const struct checkpoint *c,
                       size_t offset)
{
    const struct checkpoint_state *s = &c->state;
    const uint64_t most = UINT64_C(1) << 53;
    if (!ends(s->schedule, sizeof(s->schedule))
        || !ends(s->optimiser, sizeof(s->optimiser))
        || !ends(s->strategy, sizeof(s->strategy))
        || !ends(s->data, sizeof(s->data)))
        return reader_refuse(r, "byte %zu: a name without an end", offset);
    if (s->step > most || s->epoch > most || s->every > most || s->warmup > most
        || s->total > most || s->nranks < 1 || s->nranks > INT32_MAX
        || s->global_batch < 1 || s->global_batch > INT32_MAX || s->images < 1
        || s->images > UINT32_MAX)
        return reader_refuse(
            r,
            "byte %zu: a count of the training state is out of "
            "range",
            offset);
    if (!isfinite(s->lr) || !isfinite(s->gamma) || !isfinite(s->momentum)
        || !isfinite(s->weight_decay) || !isfinite(s->average))
        return reader_refuse(r,
                             "byte %zu: a setting of the optimiser is not a "
                             "number",
                             offset);
    return 0;
}

static int cannot_read(const struct reader *r, FILE *file)
{
    return reader_refuse(r, "cannot read: %s",
                         ferror(file) ? strerror(errno) : "it became shorter");
}

/* The table at the end of the file, whose floats must make up the rest; where
 * those of `rank` are, if there is one. */
static int read_table(const struct reader *r, FILE *file,
                      const struct header *h, int rank, struct wanted *wanted)
{
    const uint64_t at = h->file_bytes - table_bytes(h);
    uint64_t floats_at = main_bytes(h);
    *wanted = (struct wanted){.table = malloc(table_bytes(h) + 1)};
    if (!wanted->table)
        return reader_refuse(r, "no memory for its table");
    if (fseeko(file, (off_t)at, SEEK_SET)
        || fread(wanted->table, sizeof(*wanted->table), h->nranks, file)
               != h->nranks)
        return cannot_read(r, file);
    for (uint32_t i = 0; i < h->nranks; i++) {
        const struct checkpoint_rank *row = &wanted->table[i];
        if (row->count > (at - floats_at) / sizeof(float) || row->zero)
            break;
        if (rank >= 0 && i == (uint32_t)rank) {
            wanted->at = floats_at;
            wanted->row = *row;
        }
        floats_at += row->count * sizeof(float);
    }
    if (floats_at != at)
        return reader_refuse(r,
                             "byte %llu: the numbers of floats of %u ranks do "
                             "not make up the file",
                             (unsigned long long)at, h->nranks);
    return 0;
}

/* Splits one block: floats first because they want alignment. The file is read
 * in its own order all the same. */
static int take_block(const struct reader *r, const struct header *h,
                      const struct wanted *wanted, struct checkpoint *c)
{
    const size_t floats = h->nparams + h->noptim + h->nkept + wanted->row.count;
    char *block = malloc(floats * sizeof(float) + h->text_bytes + 1);
    if (!block)
        return reader_refuse(r, "no memory for its %llu bytes",
                             (unsigned long long)h->file_bytes);
    c->block = block;
    c->nparams = h->nparams;
    c->noptim = h->noptim;
    c->nkept = h->nkept;
    c->nranks = h->nranks;
    c->nown = wanted->row.count;
    c->params = (float *)(void *)block;
    c->optim = c->params + c->nparams;
    c->kept = c->optim + c->noptim;
    c->own = wanted->at ? c->kept + c->nkept : NULL;
    c->text = (char *)(c->params + floats);
    c->text[h->text_bytes] = '\0';
    return 0;
}

static int read_main(const struct reader *r, FILE *file, struct header *h,
                     const struct wanted *wanted, struct checkpoint *c)
{
    const size_t floats = h->nparams + h->noptim + h->nkept;
    if (fseeko(file, sizeof(*h), SEEK_SET)
        || fread(c->text, 1, h->text_bytes, file) != h->text_bytes
        || fread(&c->state, sizeof(c->state), 1, file) != 1
        || fread(c->params, sizeof(float), floats, file) != floats)
        return cannot_read(r, file);
    c->crc = h->crc;
    h->crc = 0;
    uint32_t crc = add_crc(0, h, sizeof(*h));
    crc = add_crc(crc, c->text, h->text_bytes);
    crc = add_crc(crc, &c->state, sizeof(c->state));
    crc = add_crc(crc, c->params, floats * sizeof(float));
    crc = add_crc(crc, wanted->table, table_bytes(h));
    if (crc != c->crc)
        return reader_refuse(
            r,
            "byte 68: CRC 0x%08x, valid is 0x%08x: the content "
            "is damaged",
            c->crc, crc);
    if (strlen(c->text) != h->text_bytes)
        return reader_refuse(
            r,
            "byte %zu: found a zero byte, valid is the text of a "
            "net",
            sizeof(*h) + strlen(c->text));
    return check_state(r, c, sizeof(*h) + h->text_bytes);
}

static int read_own(const struct reader *r, FILE *file,
                    const struct wanted *wanted, const struct checkpoint *c)
{
    if (!c->own)
        return 0;
    if (fseeko(file, (off_t)wanted->at, SEEK_SET)
        || fread(c->own, sizeof(float), c->nown, file) != c->nown)
        return cannot_read(r, file);
    const uint32_t crc = add_crc(0, c->own, c->nown * sizeof(float));
    if (crc != wanted->row.crc)
        return reader_refuse(r,
                             "byte %llu: floats of a rank with CRC 0x%08x, "
                             "valid is 0x%08x: they are damaged",
                             (unsigned long long)wanted->at, crc,
                             wanted->row.crc);
    return 0;
}

static int read_parts(const struct reader *r, FILE *file, struct header *h,
                      int rank, struct checkpoint *c)
{
    struct wanted wanted;
    const int failed =
        read_table(r, file, h, rank, &wanted) || take_block(r, h, &wanted, c)
        || read_main(r, file, h, &wanted, c) || read_own(r, file, &wanted, c);
    free(wanted.table);
    return failed;
}

int checkpoint_read(struct checkpoint *c, const char *path, int rank,
                    char *error, size_t error_bytes)
{
    const struct reader r = {
        .path = path, .error = error, .error_bytes = error_bytes};
    struct header h;
    struct stat status;
    int failed = -1;
    *c = (struct checkpoint){0};
    FILE *file = fopen(path, "rbe");
    if (!file || fstat(fileno(file), &status))
        reader_refuse(&r, "cannot read: %s", strerror(errno));
    else if (!S_ISREG(status.st_mode))
        reader_refuse(&r, "found %s, valid is a checkpoint file",
                      S_ISDIR(status.st_mode) ? "a folder" : "a special file");
    else if (fread(&h, sizeof(h), 1, file) != 1)
        reader_refuse(&r,
                      "byte 0: %llu bytes long, valid is at least the header's "
                      "%zu",
                      (unsigned long long)status.st_size, sizeof(h));
    else
        failed = check_header(&r, &h, (uint64_t)status.st_size)
                 || read_parts(&r, file, &h, rank, c);
    if (file)
        fclose(file);
    if (failed)
        checkpoint_free(c);
    return failed ? -1 : 0;
}

void checkpoint_free(struct checkpoint *c)
{
    free(c->block);
    *c = (struct checkpoint){0};
}
