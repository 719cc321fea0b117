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
        h->header_bytes + 2 * (size_t)h->nrecords * h->record_bytes;
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

static int by_number(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Whether a record was whole at both looks; last: the last number. */
static bool is_whole(const struct record *one, const struct record *other,
                     uint64_t last, size_t i, size_t room)
{
    return one->number && one->number == other->number
           && one->number % room == i && last - one->number < room - 1;
}

/* A ring of so many; *n of them are whole. */
static struct record *read_ring(const unsigned char *bytes,
                                const unsigned char *later, size_t room,
                                size_t *n)
{
    const size_t size = sizeof(struct record);
    uint64_t last = 0;
    struct record *records = malloc(room * size);
    if (!records)
        return NULL;
    for (size_t i = 0; i < room; i++) {
        struct record r;
        memcpy(&r, later + i * size, size);
        if (r.number > last && r.number % room == i)
            last = r.number;
    }
    for (size_t i = 0; i < room; i++) {
        struct record *r = &records[*n], again;
        memcpy(r, bytes + i * size, size);
        memcpy(&again, later + i * size, size);
        *n += is_whole(r, &again, last, i, room);
    }
    qsort(records, *n, size, by_number);
    return records;
}

static bool read_records(struct trace_file *f, const unsigned char *bytes,
                         const unsigned char *later)
{
    const size_t room = f->header.nrecords;
    const size_t ring = room * sizeof(struct record);
    f->records = read_ring(bytes, later, room, &f->n);
    f->messages = read_ring(bytes + ring, later + ring, room, &f->nmessages);
    return f->records && f->messages;
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

/* Its maker locks it, then gives it its size, and the magic word last. */
static bool is_unmade(const unsigned char *bytes, size_t n, bool grows,
                      bool locked)
{
    static const unsigned char none[sizeof(((struct record_header *)0)->magic)];
    return n == 0
           || (locked
               && (grows
                   || (n >= sizeof(none)
                       && memcmp(bytes, none, sizeof(none)) == 0)));
}

static bool read_open(struct trace_file *f, const char *path, int fd,
                      char error[TRACE_ERROR])
{
    struct stat about;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const size_t most = MOST_HEADER + 2 * MOST_RECORDS * sizeof(struct record);
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
    f->writer = f->written && lock.l_pid > 0 ? (long)lock.l_pid : 0;
    /* Who ends in order removes it and then lets go. */
    f->passing = fstat(fd, &about) != 0 || about.st_nlink == 0
                 || (!ok && n >= 0
                     && is_unmade(bytes, (size_t)n, n != again, f->written));
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
    free(f->messages);
    free(f->path);
}

const char *trace_name(const struct trace_file *f, enum record_table table,
                       int entry)
{
    return entry >= 0 && entry < f->entries[table] ? f->table[table][entry]
                                                   : NULL;
}

/* The kind of this build that has the name; CALLED_END: none. */
static int kind_of(const char *name)
{
    int k = 0;
    while (k < CALLED_END && strcmp(name, called_name(k)))
        k++;
    return k;
}

/* In this build's numbers, which may be others than those of the file's; false:
 * it has none. Operators of a communicator's own have no names. */
static bool translate(const struct trace_file *f, const struct record *r,
                      struct called *called)
{
    const uint64_t what = r->called.what;
    const char *kind = trace_name(f, RECORD_KINDS, called_kind(what));
    const char *dtype_name = trace_name(f, RECORD_DTYPES, called_dtype(what));
    const char *op_name = trace_name(f, RECORD_OPS, called_op(what));
    coll_dtype dtype = COLL_U8;
    coll_op op = (coll_op)called_op(what);
    if (!kind || kind_of(kind) == CALLED_END || !dtype_name
        || !coll_dtype_find(dtype_name, &dtype)
        || (op_name && !coll_op_find(op_name, &op)))
        return false;
    const size_t count = (size_t)r->called.count;
    if (what & CALLED_UNEVEN && kind_of(kind) < NKINDS)
        called_set_uneven(called, (enum coll_kind)kind_of(kind), dtype, op,
                          called_root(what), count);
    else
        called_set(called, kind_of(kind), dtype, op, (int)called_root(what),
                   count);
    return true;
}

const char *trace_kind(const struct trace_file *f, const struct record *r)
{
    const char *kind = trace_name(f, RECORD_KINDS, called_kind(r->called.what));
    return kind ? kind : "unknown";
}

int trace_message(const struct trace_file *f, const struct record *r)
{
    const int kind = kind_of(trace_kind(f, r));
    return kind == CALLED_SEND || kind == CALLED_RECV ? kind : CALLED_END;
}

static const char *some(char text[32], const char *what, int32_t x)
{
    if (x < 0)
        snprintf(text, 32, "any %s", what);
    else
        snprintf(text, 32, "%s %d", what, (int)x);
    return text;
}

/* What a receive over has taken is exact. */
static void describe_message(const struct trace_file *f, const struct record *r,
                             char text[TRACE_CALL])
{
    char rank[32], tag[32];
    const char *dtype =
        trace_name(f, RECORD_DTYPES, called_dtype(r->called.what));
    const bool receives = trace_message(f, r) == CALLED_RECV;
    snprintf(text, TRACE_CALL, "%s of %s%llu %.16s %s %s with %s",
             receives ? "receive" : "send",
             receives && !(r->ended && r->status == COLL_OK) ? "at most " : "",
             (unsigned long long)r->called.count, dtype ? dtype : "?",
             receives ? "from" : "to",
             some(rank, "rank", (int32_t)called_root(r->called.what)),
             some(tag, "tag", (int32_t)r->tag));
}

const char *trace_call(const struct trace_file *f, const struct record *r,
                       char text[TRACE_CALL])
{
    char call[CALLED_TEXT];
    struct called called;
    const uint64_t what = r->called.what;
    const int at = snprintf(
        text, TRACE_CALL, "%s",
        r->flags & RECORD_MEETING ? "the library's barrier before " : "");
    if (trace_message(f, r) != CALLED_END)
        describe_message(f, r, text);
    else if (translate(f, r, &called))
        snprintf(text + at, TRACE_CALL - (size_t)at, "%s",
                 called_text(&called, call));
    else
        snprintf(text + at, TRACE_CALL - (size_t)at,
                 "%.48s (kind %d) of %llu, dtype %d, op %d, root %u",
                 trace_kind(f, r), called_kind(what),
                 (unsigned long long)r->called.count, called_dtype(what),
                 called_op(what), called_root(what));
    return text;
}

const char *trace_way(const struct trace_file *f, const struct record *r,
                      char text[TRACE_CALL])
{
    const int number = (int)(r->how >> 24), variant = r->how >> 16 & 15;
    const char *algo = trace_name(f, RECORD_ALGOS, number);
    const char *order = trace_name(f, RECORD_ORDERS, r->how >> 20 & 15);
    int at = snprintf(text, TRACE_CALL, "%.48s",
                      algo                       ? algo
                      : number == RECORD_NO_ALGO ? "none"
                                                 : "unknown");
    if (r->how >> 20 & 15 && order)
        at += snprintf(text + at, TRACE_CALL - (size_t)at, "@%.24s", order);
    if (variant)
        snprintf(text + at, TRACE_CALL - (size_t)at, " in %u segments",
                 1u << variant);
    return text;
}

double trace_time(const struct trace_file *f, uint64_t ticks)
{
    const struct record_moment *from = &f->header.first;
    return (double)from->monotonic_ns
           + ((double)ticks - (double)from->ticks) * f->ns_per_tick;
}
