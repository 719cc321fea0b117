/* SPDX-License-Identifier: MIT */
#include "node/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "node/memory_left.h"
#include "node/pages.h"

enum { PLAIN = 0, HUGE = 1 }; /* files */

/* Of more the pages stay with the caller where they are dear. */
enum { FEW_BYTES = 4 << 20 };
/* Places above are in neither of the heap's files: what others reach in another
 * way, or not at all. */
static const uint64_t in_no_file = 1ull << 63;

enum key { MEMORY, NUMBER }; /* of struct block: memory, at */

struct block {
    char *memory;
    size_t bytes; /* whole pages */
    uint64_t at;  /* as in struct heap_spot */
    bool adopted; /* the address belongs to the caller's mapping, */
    bool left;    /* and the pages, too */
};

static struct {
    pthread_mutex_t lock;
    struct heap_name name;
    uint64_t end[HEAP_FILES]; /* where the next block goes */
    struct block **sorted[2]; /* n each, in ascending order of a key */
    size_t n, room;
    _Atomic uint64_t change; /* counts blocks that came or went */
} heap = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .name.files = {{.fd = -1}, {.fd = -1}}
};

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* A child of fork() has its parent's blocks, but peers would look for them in
 * the child's descriptors: it starts with an empty heap. */
static void forget(void)
{
    pthread_mutex_init(&heap.lock, NULL);
    heap.name.process = 0;
    heap.n = 0;
    for (int f = 0; f < HEAP_FILES; f++)
        if (heap.name.files[f].fd >= 0) {
            close((int)heap.name.files[f].fd);
            heap.name.files[f].fd = -1;
        }
}

/* Huge pages that the administrator set aside, if any are free. */
static bool huge_pages_free(void)
{
    unsigned long n = 0;
    FILE *file =
        fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
    if (file) {
        if (fscanf(file, "%lu", &n) != 1)
            n = 0;
        fclose(file);
    }
    return n > 0;
}

static coll_status open_locked(void)
{
    static bool watched;
    if (heap.name.process)
        return COLL_OK;
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return fail(COLL_ERR_SYSTEM, "shm", "getrandom: %s", strerror(errno));
    const coll_status status = memfd_make(&heap.name.files[PLAIN], 0, 0);
    if (status < 0)
        return status;
    if (!huge_pages_free()
        || memfd_make(&heap.name.files[HUGE], 0, MFD_HUGETLB) < 0)
        heap.name.files[HUGE] = (struct memfd_name){.fd = -1};
    if (!watched)
        watched = pthread_atfork(NULL, NULL, forget) == 0;
    heap.end[PLAIN] = heap.end[HUGE] = 0;
    heap.name.process = number | 1;
    return COLL_OK;
}

coll_status heap_open(struct heap_name *name)
{
    pthread_mutex_lock(&heap.lock);
    const coll_status status = open_locked();
    *name = heap.name;
    pthread_mutex_unlock(&heap.lock);
    return status;
}

/* Blocks from this length on are compared with what there is. */
enum { COMPARED = 16 << 20 };

/* Puts a range of a file, which is as long, at `address`, with all its pages,
 * so that a lack of memory is an error here and not a signal later. */
static coll_status map_pages(const struct memfd_name *file, uint64_t at,
                             char *address, size_t bytes)
{
    const bool spare = file == &heap.name.files[HUGE]; /* set aside for this */
    const uint64_t left = spare || bytes < COMPARED ? UINT64_MAX : memory_left();
    if (bytes > left)
        return fail(COLL_ERR_MEMORY, "shm",
                    "no memory for %zu bytes of shared memory: %" PRIu64
                    " are left",
                    bytes, left);
    if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             (int)file->fd, (off_t)at)
        == MAP_FAILED)
        return fail(COLL_ERR_MEMORY, "shm", "cannot map %zu bytes: %s", bytes,
                    strerror(errno));
    if (pages_give(address, bytes))
        return COLL_OK;
    return fail(COLL_ERR_MEMORY, "shm",
                "no memory for %zu bytes of shared memory: %s", bytes,
                strerror(errno));
}

/* A new range of one of the files. */
static coll_status place(struct block *b, int f, char *address)
{
    const struct memfd_name *file = &heap.name.files[f];
    uint64_t at = heap.end[f];
    if (b->bytes >= HUGE_PAGE)
        at += ((uintptr_t)address - at) % HUGE_PAGE;
    const coll_status status = memfd_grow(file, at + b->bytes);
    if (status < 0)
        return status;
    heap.end[f] = at + b->bytes;
    b->memory = address;
    b->at = at | (uint64_t)f;
    return map_pages(file, at, address, b->bytes);
}

static void punch(const struct block *b)
{
    const int f = (int)(b->at & 1);
    fallocate((int)heap.name.files[f].fd,
              FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(b->at & ~1ull), (off_t)b->bytes);
}

/* A block of new memory from one of the files. */
static coll_status allocate(struct block *b, int f, size_t bytes)
{
    b->bytes = round_up(bytes, f == HUGE ? HUGE_PAGE : page_bytes());
    char *address = b->bytes < bytes ? NULL : pages_reserve(b->bytes, 0);
    if (!address)
        return fail(COLL_ERR_MEMORY, "shm",
                    "no address space for %zu bytes of shared memory", bytes);
    const coll_status status = place(b, f, address);
    if (status < 0) {
        if (b->memory)
            punch(b);
        b->memory = NULL;
        munmap(address, b->bytes);
    }
    return status;
}

static uint64_t key_of(const struct block *b, enum key key)
{
    return key == MEMORY ? (uintptr_t)b->memory : b->at;
}

/* How many blocks have this key or a lower one. */
static size_t up_to(enum key key, uint64_t value)
{
    size_t first = 0, end = heap.n;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (key_of(heap.sorted[key][middle], key) <= value)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* That with the highest key which is no higher, or NULL. */
static struct block *at_or_before(enum key key, uint64_t value)
{
    const size_t n = up_to(key, value);
    return n ? heap.sorted[key][n - 1] : NULL;
}

/* Before insert(), which then cannot fail. */
static coll_status make_room(void)
{
    const size_t room = heap.room ? 2 * heap.room : 16;
    if (heap.n < heap.room)
        return COLL_OK;
    for (int k = 0; k < 2; k++) {
        struct block **longer =
            realloc(heap.sorted[k], room * sizeof(struct block *));
        if (!longer)
            return fail(COLL_ERR_MEMORY, "shm", "no memory for %zu blocks",
                        room);
        heap.sorted[k] = longer;
    }
    heap.room = room;
    return COLL_OK;
}

static void insert(struct block *b)
{
    atomic_fetch_add(&heap.change, 1);
    for (int k = 0; k < 2; k++) {
        struct block **const list = heap.sorted[k];
        const size_t i = up_to((enum key)k, key_of(b, (enum key)k));
        memmove(&list[i + 1], &list[i], (heap.n - i) * sizeof(struct block *));
        list[i] = b;
    }
    heap.n++;
}

coll_status heap_alloc(void **memory, size_t bytes)
{
    struct block *b = bytes <= SIZE_MAX / 2 ? calloc(1, sizeof(*b)) : NULL;
    if (!b)
        return fail(COLL_ERR_MEMORY, "shm",
                    "no memory for a block of %zu bytes", bytes);
    pthread_mutex_lock(&heap.lock);
    coll_status status = open_locked();
    if (status == COLL_OK)
        status = make_room();
    if (status == COLL_OK
        && (bytes < HUGE_PAGE || heap.name.files[HUGE].fd < 0
            || allocate(b, HUGE, bytes) < 0))
        status = allocate(b, PLAIN, bytes);
    if (status == COLL_OK)
        insert(b);
    pthread_mutex_unlock(&heap.lock);
    if (status < 0)
        free(b);
    else
        *memory = b->memory;
    return status;
}

/* Takes a block off the heap; insert() can put it back. */
static struct block *take(const void *memory, bool adopted)
{
    struct block *b = at_or_before(MEMORY, (uintptr_t)memory);
    if (!b || b->memory != memory || b->adopted != adopted)
        return NULL;
    atomic_fetch_add(&heap.change, 1);
    for (int k = 0; k < 2; k++) {
        struct block **const list = heap.sorted[k];
        const size_t end = up_to((enum key)k, key_of(b, (enum key)k));
        memmove(&list[end - 1], &list[end],
                (heap.n - end) * sizeof(struct block *));
    }
    heap.n--;
    return b;
}

coll_status heap_free(void *memory)
{
    pthread_mutex_lock(&heap.lock);
    struct block *b = take(memory, false);
    if (b) {
        punch(b);
        munmap(b->memory, b->bytes);
    }
    pthread_mutex_unlock(&heap.lock);
    free(b);
    return b ? COLL_OK
             : fail(COLL_ERR_INVALID, "shm",
                    "coll_mem_free: %p is not from coll_mem_alloc(), or was "
                    "freed before",
                    memory);
}

/* What lies at `copy` comes to `memory`, in one step that no access can fall
 * into. */
static coll_status put(char *copy, char *memory, size_t bytes)
{
    return mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory)
                   != MAP_FAILED
               ? COLL_OK
               : fail(COLL_ERR_MEMORY, "shm", "mremap: %s", strerror(errno));
}

/* Its pages are in neither of the heap's files. */
static void stay(struct block *b, char *memory)
{
    b->memory = memory;
    b->at = in_no_file | (uintptr_t)memory;
}

static coll_status leave(struct block *b, char *memory, struct heap_gift *g)
{
    (void)g;
    b->left = true;
    stay(b, memory);
    return COLL_OK;
}

/* All of a new file. */
static coll_status map_gift(const struct block *b, char *address,
                            struct heap_gift *g)
{
    g->at = b->bytes < HUGE_PAGE ? 0 : (uintptr_t)address % HUGE_PAGE;
    const coll_status status = memfd_make(&g->file, g->at + b->bytes, 0);
    return status < 0 ? status : map_pages(&g->file, g->at, address, b->bytes);
}

/* The pages move to a copy of themselves, in the heap's file or, to be a gift,
 * in a new one: first the contents, then the mapping. */
static coll_status swap_in(struct block *b, char *memory, struct heap_gift *g)
{
    char *copy = pages_reserve(b->bytes, (uintptr_t)memory % HUGE_PAGE);
    if (!copy)
        return fail(COLL_ERR_MEMORY, "shm", "no address space for %zu bytes",
                    b->bytes);
    coll_status status = g ? map_gift(b, copy, g) : place(b, PLAIN, copy);
    if (status == COLL_OK) {
        memcpy(copy, memory, b->bytes);
        status = put(copy, memory, b->bytes);
    }
    if (status < 0) {
        if (b->memory)
            punch(b);
        munmap(copy, b->bytes);
    } else if (g) {
        stay(b, memory);
    } else {
        b->memory = memory;
    }
    return status;
}

static void *map_file(const struct memfd_name *, uint64_t at, uint64_t bytes,
                      bool touch);

static coll_status receive(struct block *b, char *memory, struct heap_gift *g)
{
    char *given = map_file(&g->file, g->at, b->bytes, true);
    if (!given)
        return fail(COLL_ERR_MEMORY, "shm",
                    "cannot map %zu bytes of another process", b->bytes);
    const coll_status status = put(given, memory, b->bytes);
    if (status < 0)
        munmap(given, b->bytes);
    stay(b, memory);
    return status;
}

static coll_status check_locked(const char *memory, size_t bytes)
{
    const size_t page = page_bytes();
    if (!memory || !bytes || (uintptr_t)memory % page || bytes % page)
        return fail(COLL_ERR_INVALID, "shm",
                    "%zu bytes at %p, to be shared, are not whole pages of "
                    "%zu bytes",
                    bytes, (const void *)memory, page);
    for (size_t i = 0; i < heap.n; i++) {
        const struct block *b = heap.sorted[MEMORY][i];
        if (b->memory < memory + bytes && memory < b->memory + b->bytes)
            return fail(COLL_ERR_INVALID, "shm",
                        "%zu bytes at %p, to be shared, overlap memory that is "
                        "so already or from coll_mem_alloc()",
                        bytes, (const void *)memory);
    }
    return COLL_OK;
}

coll_status heap_check(const void *memory, size_t bytes)
{
    pthread_mutex_lock(&heap.lock);
    const coll_status status = check_locked(memory, bytes);
    pthread_mutex_unlock(&heap.lock);
    return status;
}

/* A block of the caller's memory; swap() sees to its pages. */
static coll_status adopt(char *memory, size_t bytes,
                         coll_status (*swap)(struct block *, char *memory,
                                             struct heap_gift *),
                         struct heap_gift *g)
{
    struct block *b = calloc(1, sizeof(*b));
    if (!b)
        return fail(COLL_ERR_MEMORY, "shm", "no memory for a block");
    b->bytes = bytes;
    b->adopted = true;
    pthread_mutex_lock(&heap.lock);
    coll_status status = open_locked();
    if (status == COLL_OK)
        status = make_room();
    if (status == COLL_OK)
        status = check_locked(memory, bytes);
    if (status == COLL_OK)
        status = swap(b, memory, g);
    if (status == COLL_OK)
        insert(b);
    pthread_mutex_unlock(&heap.lock);
    if (status < 0)
        free(b);
    return status;
}

coll_status heap_adopt(void *memory, size_t bytes)
{
    const bool stays = bytes > FEW_BYTES && pages_are_dear();
    return adopt(memory, bytes, stays ? leave : swap_in, NULL);
}

coll_status heap_give(void *memory, size_t bytes, struct heap_gift *g)
{
    g->file.fd = -1;
    if (bytes > FEW_BYTES && pages_are_dear())
        return fail(COLL_ERR_UNSUPPORTED, "shm",
                    "pages of long shared memory cost more here than copies");
    return adopt(memory, bytes, swap_in, g);
}

coll_status heap_receive(void *memory, size_t bytes, struct heap_gift *g)
{
    return adopt(memory, bytes, receive, g);
}

/* The pages become the process's own again. */
static coll_status swap_out(const struct block *b)
{
    char *copy = pages_reserve(b->bytes, (uintptr_t)b->memory % HUGE_PAGE);
    if (!copy
        || mmap(copy, b->bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
               == MAP_FAILED) {
        const coll_status status =
            fail(COLL_ERR_MEMORY, "shm", "no memory for %zu bytes: %s",
                 b->bytes, strerror(errno));
        if (copy)
            munmap(copy, b->bytes);
        return status;
    }
    (void)madvise(copy, b->bytes, MADV_HUGEPAGE); /* a wish */
    memcpy(copy, b->memory, b->bytes);
    const coll_status status = put(copy, b->memory, b->bytes);
    if (status < 0)
        munmap(copy, b->bytes);
    else if (!(b->at & in_no_file))
        punch(b);
    return status;
}

coll_status heap_disown(void *memory)
{
    pthread_mutex_lock(&heap.lock);
    struct block *b = take(memory, true);
    coll_status status =
        !b        ? fail(COLL_ERR_INVALID, "shm",
                         "coll_comm_deregister: %p is no handle of "
                                "coll_comm_register() or coll_comm_share(), or "
                                "was given back before",
                         memory)
        : b->left ? COLL_OK
                  : swap_out(b);
    if (b && status < 0)
        insert(b);
    else
        free(b);
    pthread_mutex_unlock(&heap.lock);
    return status;
}

struct heap_spot heap_find(const void *p, size_t bytes)
{
    struct heap_spot spot = {0};
    const char *x = p;
    pthread_mutex_lock(&heap.lock);
    const struct block *b = at_or_before(MEMORY, (uintptr_t)x);
    const size_t offset = b ? (size_t)(x - b->memory) : 0;
    if (b && !(b->at & in_no_file) && offset < b->bytes
        && bytes <= b->bytes - offset)
        spot = (struct heap_spot){b->at, b->bytes, offset};
    pthread_mutex_unlock(&heap.lock);
    return spot;
}

struct heap_spot heap_find_again(struct heap_memo *m, const void *p,
                                 size_t bytes)
{
    const uint64_t change = atomic_load(&heap.change);
    if (m->p != p || m->bytes != bytes || m->change != change)
        *m = (struct heap_memo){p, bytes, change, heap_find(p, bytes)};
    return m->spot;
}

void *heap_address(uint64_t block)
{
    pthread_mutex_lock(&heap.lock);
    const struct block *b = at_or_before(NUMBER, block);
    void *const memory = b && b->at == block ? b->memory : NULL;
    pthread_mutex_unlock(&heap.lock);
    return memory;
}

/* MAP_FAILED: it cannot be. */
static void *map_block(int fd, off_t at, uint64_t bytes, bool touch)
{
    char *address = pages_reserve(bytes, (uint64_t)at % HUGE_PAGE);
    if (!address)
        return MAP_FAILED;
    void *memory =
        mmap(address, bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | (touch ? MAP_POPULATE : 0), fd, at);
    if (memory == MAP_FAILED)
        munmap(address, bytes);
    return memory;
}

/* NULL, with a warning: it cannot be. */
static void *map_file(const struct memfd_name *file, uint64_t at,
                      uint64_t bytes, bool touch)
{
    int fd;
    const char *wrong = memfd_open(file, &fd);
    if (wrong) {
        log_line(COLL_LOG_WARN, "shm", "cannot map memory of pid %lld: %s",
                 (long long)file->pid, wrong);
        return NULL;
    }
    struct stat st;
    void *memory = MAP_FAILED;
    if (fstat(fd, &st) == 0 && at <= (uint64_t)st.st_size
        && bytes <= (uint64_t)st.st_size - at)
        memory = map_block(fd, (off_t)at, bytes, touch);
    if (memory == MAP_FAILED)
        log_line(COLL_LOG_WARN, "shm", "cannot map %llu bytes of pid %lld: %s",
                 (unsigned long long)bytes, (long long)file->pid,
                 strerror(errno));
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

void *heap_map(const struct heap_name *of, uint64_t block, uint64_t bytes,
               bool touch)
{
    return map_file(&of->files[block & 1], block & ~1ull, bytes, touch);
}
