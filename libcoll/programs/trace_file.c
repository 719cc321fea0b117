/* SPDX-License-Identifier: MIT */
/* Nothing in a file is trusted: it may be cut off, foreign or made up. */
#include "programs/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/called.h"
#include "comm/here.h"

enum { MOST_HEADER = 1 << 20, MOST_RECORDS = 1 << 18, MOST_RANKS = 1 << 24 };

/* What comes from a file goes to a terminal. */
static void make_printable(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* What is wrong with the header of a file of n bytes; NULL: nothing. */
static const char *check_header(const struct record_header *h, size_t n)
{
    static char text[160];
    if (memcmp(h->magic, RECORD_MAGIC, sizeof(h->magic)))
        return "no flight record of libcoll";
    if (h->version != RECORD_VERSION) {
        snprintf(text, sizeof(text),
                 "a flight record of version %u, valid is %d", h->version,
                 RECORD_VERSION);
        return text;
    }
    if (h->record_bytes != sizeof(struct record) || h->nrecords < 1
        || h->nrecords > MOST_RECORDS || h->header_bytes < sizeof(*h)
        || h->header_bytes > MOST_HEADER)
        return "its header is damaged: sizes";
    const size_t whole =
        h->header_bytes + (size_t)h->nrecords * h->record_bytes;
    if (n != whole) {
        snprintf(text, sizeof(text), "cut off: %zu bytes, whole are %zu", n,
                 whole);
        return n < whole ? text : "its header is damaged: the file is longer";
    }
    if (h->nranks < 1 || h->nranks > MOST_RANKS || h->rank < 0
        || h->rank >= h->nranks || h->pid < 1)
        return "its header is damaged: rank or process";
    return NULL;
}

/* The length of a tick between two moments; 0: they are none. */
static double tick_between(const struct record_moment *first,
                           const struct record_moment *last)
{
    const double ticks = (double)last->ticks - (double)first->ticks;
    const double ns = (double)last->monotonic_ns - (double)first->monotonic_ns;
    return ticks > 0 && ns > 0 && ns / ticks > 1e-3 && ns / ticks < 1e6
               ? ns / ticks
               : 0;
}

/* On the machine that wrote it, and that has not been started anew, now is the
 * best second moment. */
static double find_tick(const struct record_header *h)
{
    const bool counts = h->clock != RECORD_NANOSECONDS;
    if (h->machine && h->machine == here_machine()) {
        const struct record_moment now = record_moment_now(counts);
        const double ns = tick_between(&h->first, &now);
        if (ns > 0)
            return ns;
    }
    return tick_between(&h->first, &h->last);
}

/* One table after another; what has no end is no name. */
static bool read_names(struct trace_file *f, const unsigned char *bytes,
                       size_t n)
{
    f->names = malloc(n + 1);
    if (!f->names)
        return false;
    memcpy(f->names, bytes, n);
    f->names[n] = '\0';
    char *at = f->names, *const end = at + n;
    for (int t = 0; t < RECORD_NTABLES; t++) {
        f->table[t] = malloc((n + 1) * sizeof(char *));
        if (!f->table[t])
            return false;
        for (; at < end && *at; at += strlen(at) + 1) {
            make_printable(at, strlen(at) + 1);
            f->table[t][f->entries[t]++] = at;
        }
        at += at < end;
    }
    return true;
}

static int by_sequence(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static bool read_records(struct trace_file *f, const unsigned char *bytes,
                         const unsigned char *later)
{
    const size_t size = sizeof(struct record), room = f->header.nrecords;
    f->records = malloc(room * size);
    if (!f->records)
        return false;
    for (size_t i = 0; i < room; i++) {
        struct record *r = &f->records[f->n], again;
        memcpy(r, bytes + i * size, size);
        memcpy(&again, later + i * size, size);
        f->n += r->sequence && r->sequence == again.sequence
                && (r->sequence - 1) % room == i;
    }
    qsort(f->records, f->n, size, by_sequence);
    /* Killed before it could look at the clock. */
    uint64_t before = f->header.first.ticks;
    for (size_t i = 0; i < f->n; i++) {
        struct record *r = &f->records[i];
        if (!r->begun)
            r->begun = before;
        before = r->ended ? r->ended : r->begun;
    }
    return true;
}

bool trace_file_parse(struct trace_file *f, const char *path,
                      const unsigned char *bytes, const unsigned char *later,
                      size_t n, char error[TRACE_ERROR])
{
    *f = (struct trace_file){.path = strdup(path)};
    const char *wrong = NULL;
    struct record_header *h = &f->header;
    if (n >= sizeof(*h))
        memcpy(h, bytes, sizeof(*h));
    wrong = n < sizeof(*h) ? "too short for a flight record of libcoll"
                           : check_header(h, n);
    if (!wrong) {
        make_printable(h->host, sizeof(h->host));
        make_printable(h->sentence, sizeof(h->sentence));
        f->ns_per_tick = find_tick(h);
        if (f->ns_per_tick <= 0)
            wrong = "its header is damaged: the clock";
        else if (!f->path
                 || !read_names(f, bytes + sizeof(*h),
                                h->header_bytes - sizeof(*h))
                 || !read_records(f, bytes + h->header_bytes,
                                  later + h->header_bytes))
            wrong = "no memory for it";
    }
    if (wrong)
        snprintf(error, TRACE_ERROR, "%s: %s", path, wrong);
    return !wrong;
}

/* Reads up to `room` bytes; -1 with errno. */
static ssize_t look(int fd, unsigned char *bytes, size_t room)
{
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < room; n += (size_t)got) {
        got = pread(fd, bytes + n, room - n, (off_t)n);
        if (got < 0)
            return -1;
    }
    return (ssize_t)n;
}

static bool read_open(struct trace_file *f, const char *path, int fd,
                      char error[TRACE_ERROR])
{
    struct stat about;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const size_t most = MOST_HEADER + MOST_RECORDS * sizeof(struct record);
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)
        || (size_t)about.st_size > most) {
        snprintf(error, TRACE_ERROR, "%s: no flight record of libcoll", path);
        return false;
    }
    const size_t room = (size_t)about.st_size + 1;
    unsigned char *bytes = malloc(2 * room);
    const ssize_t n = bytes ? look(fd, bytes, room) : -1;
    const ssize_t again = n >= 0 ? look(fd, bytes + room, room) : -1;
    bool ok = n >= 0 && n == again;
    if (ok)
        ok = trace_file_parse(f, path, bytes, bytes + room, (size_t)n, error);
    else
        snprintf(error, TRACE_ERROR, "%s: cannot be read: %s", path,
                 n < 0 || again < 0 ? strerror(errno) : "its length changes");
    f->written = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    free(bytes);
    return ok;
}

bool trace_file_read(struct trace_file *f, const char *path,
                     char error[TRACE_ERROR])
{
    *f = (struct trace_file){.path = NULL};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        snprintf(error, TRACE_ERROR, "%s: cannot be opened: %s", path,
                 strerror(errno));
        return false;
    }
    const bool ok = read_open(f, path, fd, error);
    close(fd);
    return ok;
}

void trace_file_free(struct trace_file *f)
{
    for (int t = 0; t < RECORD_NTABLES; t++)
        free(f->table[t]);
    free(f->names);
    free(f->records);
    free(f->path);
}

const char *trace_name(const struct trace_file *f, enum record_table table,
                       int entry)
{
    return entry >= 0 && entry < f->entries[table] ? f->table[table][entry]
                                                   : NULL;
}

/* The kind of this build that has the name; NKINDS: none. */
static enum coll_kind kind_of(const char *name)
{
    int k = 0;
    while (k < NKINDS && strcmp(name, kind_names[k]))
        k++;
    return (enum coll_kind)k;
}

const char *trace_call(const struct trace_file *f, const struct record *r,
                       char text[TRACE_CALL])
{
    const char *kind = trace_name(f, RECORD_KINDS, r->kind);
    const char *dtype_name = trace_name(f, RECORD_DTYPES, r->dtype);
    const char *op_name = trace_name(f, RECORD_OPS, r->op);
    coll_dtype dtype = COLL_U8;
    coll_op op = COLL_SUM;
    const char *before =
        r->flags & RECORD_MEETING ? "the library's barrier before " : "";
    int at = snprintf(text, TRACE_CALL, "%s", before);
    if (r->flags & RECORD_UNEVEN) {
        snprintf(text + at, TRACE_CALL - (size_t)at,
                 "%.48s_v of %llu %.16s%s%.48s", kind ? kind : "unknown",
                 (unsigned long long)r->count, dtype_name ? dtype_name : "?",
                 kind && kind_reduces(kind_of(kind)) ? ", " : "",
                 kind && kind_reduces(kind_of(kind)) && op_name ? op_name : "");
        return text;
    }
    if (kind && kind_of(kind) < NKINDS && dtype_name
        && coll_dtype_find(dtype_name, &dtype) && op_name
        && coll_op_find(op_name, &op)) {
        char call[CALLED_TEXT];
        struct called called;
        called_set(&called, kind_of(kind), dtype, op, r->root,
                   (size_t)r->count);
        snprintf(text + at, TRACE_CALL - (size_t)at, "%s",
                 called_text(&called, call));
        return text;
    }
    if (kind)
        at += snprintf(text + at, TRACE_CALL - (size_t)at, "%.48s", kind);
    else
        at += snprintf(text + at, TRACE_CALL - (size_t)at, "kind %d", r->kind);
    snprintf(text + at, TRACE_CALL - (size_t)at,
             " of %llu, dtype %d, op %d, root %d", (unsigned long long)r->count,
             r->dtype, (int)r->op, (int)r->root);
    return text;
}

const char *trace_way(const struct trace_file *f, const struct record *r,
                      char text[TRACE_CALL])
{
    const char *algo = trace_name(f, RECORD_ALGOS, r->algo);
    const char *order = trace_name(f, RECORD_ORDERS, r->order);
    int at = snprintf(text, TRACE_CALL, "%.48s", algo ? algo : "unknown");
    if (r->order && order)
        at += snprintf(text + at, TRACE_CALL - (size_t)at, "@%.24s", order);
    if (r->segments > 1)
        snprintf(text + at, TRACE_CALL - (size_t)at, " in %u segments",
                 r->segments);
    return text;
}

double trace_time(const struct trace_file *f, uint64_t ticks)
{
    const struct record_moment *from = &f->header.first;
    return (double)from->monotonic_ns
           + ((double)ticks - (double)from->ticks) * f->ns_per_tick;
}
