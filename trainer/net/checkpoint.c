/* SPDX-License-Identifier: MIT */
#include "net/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "data/reader.h"
#include "file.h"

enum { VERSION = 3, BYTE_ORDER_MARK = 0x01020304 };

struct header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t text_bytes, state_bytes, nparams, noptim, nkept, file_bytes;
    uint32_t zero, crc;
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

int checkpoint_write(const char *path, const struct checkpoint *c, char *error,
                     size_t error_bytes)
{
    struct header h = {
        .version = VERSION,
        .byte_order = BYTE_ORDER_MARK,
        .text_bytes = strlen(c->text),
        .state_bytes = sizeof(c->state),
        .nparams = c->nparams,
        .noptim = c->noptim,
        .nkept = c->nkept,
    };
    const struct part {
        const void *from;
        size_t bytes;
    } parts[] = {
        {&h,        sizeof(h)                 },
        {c->text,   h.text_bytes              },
        {&c->state, sizeof(c->state)          },
        {c->params, c->nparams * sizeof(float)},
        {c->optim,  c->noptim * sizeof(float) },
        {c->kept,   c->nkept * sizeof(float)  },
    };
    const size_t nparts = sizeof(parts) / sizeof(parts[0]);
    struct new_file f;
    uint32_t crc = 0;
    memcpy(h.magic, magic, sizeof(magic));
    for (size_t i = 0; i < nparts; i++)
        h.file_bytes += parts[i].bytes;
    for (size_t i = 0; i < nparts; i++)
        crc = add_crc(crc, parts[i].from, parts[i].bytes);
    h.crc = crc;
    if (file_begin(&f, path, error, error_bytes))
        return -1;
    for (size_t i = 0; i < nparts; i++)
        if (parts[i].bytes)
            fwrite(parts[i].from, 1, parts[i].bytes, f.stream);
    return file_commit(&f, error, error_bytes);
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
    if (h->version != VERSION)
        return reader_refuse(r, "byte 8: version %u, valid is %d", h->version,
                             VERSION);
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
        || h->text_bytes + h->state_bytes
                   + (h->nparams + h->noptim + h->nkept) * sizeof(float)
               != most)
        return reader_refuse(
            r,
            "byte 16: the sizes %llu, %llu, %llu, %llu, %llu do not "
            "make up the file, valid is a text, %zu, and 4 bytes a "
            "number",
            (unsigned long long)h->text_bytes,
            (unsigned long long)h->state_bytes, (unsigned long long)h->nparams,
            (unsigned long long)h->noptim, (unsigned long long)h->nkept,
            sizeof(struct checkpoint_state));
    if (h->zero)
        return reader_refuse(r, "byte 64: found %u, valid is 0", h->zero);
    return 0;
}

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

/* Splits one block: parameters first because floats want alignment. The file
 * is read in its own order all the same. */
static int read_parts(const struct reader *r, FILE *file, struct header *h,
                      struct checkpoint *c)
{
    const size_t floats = h->nparams + h->noptim + h->nkept;
    char *block = malloc(floats * sizeof(float) + h->text_bytes + 1);
    if (!block)
        return reader_refuse(r, "no memory for its %llu bytes",
                             (unsigned long long)h->file_bytes);
    c->own = block;
    c->nparams = h->nparams;
    c->noptim = h->noptim;
    c->params = (float *)(void *)block;
    c->optim = c->params + c->nparams;
    c->nkept = h->nkept;
    c->kept = c->optim + c->noptim;
    c->text = (char *)(c->kept + c->nkept);
    c->text[h->text_bytes] = '\0';
    if (fread(c->text, 1, h->text_bytes, file) != h->text_bytes
        || fread(&c->state, sizeof(c->state), 1, file) != 1
        || fread(c->params, sizeof(float), floats, file) != floats)
        return reader_refuse(r, "cannot read: %s",
                             ferror(file) ? strerror(errno)
                                          : "it became shorter");
    c->crc = h->crc;
    h->crc = 0;
    uint32_t crc = add_crc(0, h, sizeof(*h));
    crc = add_crc(crc, c->text, h->text_bytes);
    crc = add_crc(crc, &c->state, sizeof(c->state));
    crc = add_crc(crc, c->params, floats * sizeof(float));
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

int checkpoint_read(struct checkpoint *c, const char *path, char *error,
                    size_t error_bytes)
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
                 || read_parts(&r, file, &h, c);
    if (file)
        fclose(file);
    if (failed)
        checkpoint_free(c);
    return failed ? -1 : 0;
}

void checkpoint_free(struct checkpoint *c)
{
    free(c->own);
    *c = (struct checkpoint){0};
}
