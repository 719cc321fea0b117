/* SPDX-License-Identifier: MIT */
#include "transport/ucx_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

extern char **environ;

/* Read by UCX's constructors; later is too late for most of them. Errors come
 * back to us as status codes, so nothing need be printed. */
static const char *const quiet[] = {
    "UCX_HANDLE_ERRORS=none",     "UCX_MEM_EVENTS=n",    "UCX_MEMTYPE_CACHE=n",
    "UCX_WARN_UNUSED_ENV_VARS=n", "UCX_LOG_LEVEL=fatal", "UCX_VFS_ENABLE=n",
    "UCX_DEBUG_SIGNO=0", /* else SIGHUP would stop the process */
};
enum { NQUIET = sizeof(quiet) / sizeof(quiet[0]) };

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define UCX_ROW(name) {#name, offsetof(struct ucx_api, name)},
    UCX_FUNCTIONS(UCX_ROW)
#undef UCX_ROW
};
enum { NFUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx_api api;
static bool loaded;

static bool is_set(const char *assignment)
{
    const size_t name = strcspn(assignment, "=") + 1;
    for (char **e = environ; e && *e; e++)
        if (!strncmp(*e, assignment, name))
            return true;
    return false;
}

/* The environment and, where the user says nothing, the rows of quiet[]. */
static char **quiet_environment(void)
{
    size_t n = 0;
    while (environ && environ[n])
        n++;
    char **extended = malloc((n + NQUIET + 1) * sizeof(*extended));
    if (!extended)
        return NULL;
    for (size_t i = 0; i < n; i++)
        extended[i] = environ[i];
    for (int i = 0; i < NQUIET; i++)
        if (!is_set(quiet[i]))
            extended[n++] = (char *)quiet[i];
    extended[n] = NULL;
    return extended;
}

/* The extended array is never freed: another thread may be reading it, and
 * constructors may keep what getenv() returns. */
static void *load_quietly(void)
{
    static char **extended;
    if (!extended)
        extended = quiet_environment();
    if (!extended)
        return NULL;
    char **const saved = environ;
    environ = extended;
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    environ = saved;
    return library;
}

static coll_status load(void)
{
    void *library = load_quietly();
    if (!library) {
        const char *why = dlerror();
        return fail(COLL_ERR_UNSUPPORTED, "ucx",
                    "UCX is not installed (Debian package libucx0): %s",
                    why ? why : "no memory");
    }
    for (int i = 0; i < NFUNCTIONS; i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found)
            return fail(COLL_ERR_UNSUPPORTED, "ucx",
                        "the installed UCX has no %s; version 1.12 or newer "
                        "is needed (Debian package libucx0)",
                        functions[i].name);
        /* ISO C has no cast from an object's address to a function's. */
        memcpy((char *)&api + functions[i].offset, &found, sizeof(found));
    }
    loaded = true;
    return COLL_OK;
}

coll_status ucx_load(const struct ucx_api **out)
{
    pthread_mutex_lock(&lock);
    const coll_status status = loaded ? COLL_OK : load();
    pthread_mutex_unlock(&lock);
    if (status == COLL_OK)
        *out = &api;
    return status;
}
