/* SPDX-License-Identifier: MIT */
#include "node/segment.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "node/pages.h"

static const uint64_t magic = 0x31676573206c6c63; /* "cll seg1" */

struct segment {
    struct segment_name name; /* the header page starts with a copy */
    char *base;
    size_t bytes;
    int users; /* under the registry's lock */
    struct segment *next;
};

/* The segments of this process: what one thread creates another may use, and
 * either may leave first. */
static struct {
    pthread_mutex_t lock;
    struct segment *first;
    uint64_t process;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool random_number(uint64_t *number)
{
    return getrandom(number, sizeof(*number), 0) == sizeof(*number);
}

static coll_status make_file(struct segment *s)
{
    const coll_status status = memfd_make(&s->name.file, s->bytes, 0);
    if (status < 0)
        return status;
    void *base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      (int)s->name.file.fd, 0);
    if (base == MAP_FAILED)
        return fail(COLL_ERR_SYSTEM, "shm",
                    "cannot map %zu bytes of shared memory: %s", s->bytes,
                    strerror(errno));
    s->base = base;
    memcpy(base, &s->name, sizeof(s->name));
    return COLL_OK;
}

static void destroy(struct segment *s)
{
    if (s->base)
        munmap(s->base, s->bytes);
    if (s->name.file.fd >= 0)
        close((int)s->name.file.fd);
    free(s);
}

/* A child of fork() has its parent's segments, but they are not its own. */
static void forget(void)
{
    pthread_mutex_init(&registry.lock, NULL);
    registry.first = NULL;
    registry.process = 0;
}

static coll_status enter(struct segment *s)
{
    static bool watched;
    coll_status status = COLL_ERR_SYSTEM;
    pthread_mutex_lock(&registry.lock);
    if (!watched)
        watched = pthread_atfork(NULL, NULL, forget) == 0;
    if ((registry.process || random_number(&registry.process))
        && random_number(&s->name.nonce)) {
        s->name.process = registry.process;
        s->users = 1;
        s->next = registry.first;
        status = make_file(s);
        if (status == COLL_OK)
            registry.first = s;
    } else {
        fail(status, "shm", "getrandom: %s", strerror(errno));
    }
    pthread_mutex_unlock(&registry.lock);
    return status;
}

coll_status segment_create(struct segment **segment, uint64_t job, int rank,
                           size_t nareas, size_t area_bytes)
{
    const size_t page = page_bytes();
    struct segment *s = calloc(1, sizeof(*s));
    if (!s)
        return fail(COLL_ERR_MEMORY, "shm", "no memory for a segment");
    area_bytes = (area_bytes + page - 1) / page * page;
    assert(nareas <= SEGMENT_MAX_AREAS && area_bytes <= SEGMENT_MAX_AREA_BYTES);
    s->bytes = page + nareas * area_bytes;
    s->name = (struct segment_name){
        .magic = magic,
        .job = job,
        .file = {.fd = -1},
        .rank = (uint64_t)rank,
        .nareas = nareas,
        .area_bytes = area_bytes,
    };
    const coll_status status = enter(s);
    if (status < 0) {
        destroy(s);
        return status;
    }
    *segment = s;
    return COLL_OK;
}

struct segment_name segment_name(const struct segment *s)
{
    return s->name;
}

void *segment_area(const struct segment *s, size_t i)
{
    return s->base + page_bytes() + i * s->name.area_bytes;
}

static void leave(struct segment *s)
{
    pthread_mutex_lock(&registry.lock);
    const bool last = --s->users == 0;
    for (struct segment **at = &registry.first; last && *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&registry.lock);
    if (last)
        destroy(s);
}

void segment_free(struct segment *s)
{
    if (s)
        leave(s);
}

/* Segments of this process, by their nonce. A child of fork() has its
 * parent's registry, but not its process number. */
static struct segment *find_own(const struct segment_name *name)
{
    struct segment *s = NULL;
    pthread_mutex_lock(&registry.lock);
    if (name->process == registry.process && name->file.pid == getpid())
        for (s = registry.first; s && s->name.nonce != name->nonce;)
            s = s->next;
    if (s)
        s->users++;
    pthread_mutex_unlock(&registry.lock);
    return s;
}

static const char *map_area(int fd, const struct segment_name *name, size_t i,
                            struct segment_view *view)
{
    const size_t page = page_bytes();
    struct stat st;
    struct segment_name inside;
    if (fstat(fd, &st) < 0)
        return "its descriptor is another file than it said";
    if ((uint64_t)st.st_size != page + name->nareas * name->area_bytes)
        return "its memory has another size than it said";
    if (pread(fd, &inside, sizeof(inside), 0) != sizeof(inside)
        || inside.magic != magic || inside.job != name->job
        || inside.nonce != name->nonce || inside.rank != name->rank)
        return "its memory is that of another job or rank";
    void *memory = mmap(NULL, name->area_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, (off_t)(page + i * name->area_bytes));
    if (memory == MAP_FAILED)
        return "its memory cannot be mapped";
    *view = (struct segment_view){memory, name->area_bytes, NULL};
    return NULL;
}

const char *segment_attach(const struct segment_name *name, size_t i,
                           struct segment_view *view)
{
    if (name->magic != magic || name->nareas > SEGMENT_MAX_AREAS
        || i >= name->nareas || name->area_bytes > SEGMENT_MAX_AREA_BYTES
        || name->area_bytes == 0 || name->area_bytes % page_bytes())
        return "its address makes no sense";
    struct segment *own = find_own(name);
    if (own) {
        if (own->name.nareas != name->nareas
            || own->name.area_bytes != name->area_bytes) {
            leave(own);
            return "its address makes no sense";
        }
        *view = (struct segment_view){segment_area(own, i),
                                      own->name.area_bytes, own};
        return NULL;
    }
    int fd;
    const char *unopened = memfd_open(&name->file, &fd);
    if (unopened)
        return unopened;
    const char *wrong = map_area(fd, name, i, view);
    close(fd);
    return wrong;
}

void segment_detach(struct segment_view *view)
{
    if (view->shared)
        leave(view->shared);
    else if (view->memory)
        munmap(view->memory, view->bytes);
    *view = (struct segment_view){NULL, 0, NULL};
}
