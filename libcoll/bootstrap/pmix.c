/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bootstrap/pmix.h"

bool pmix_here(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

#ifdef HAVE_PMIX
#include <dlfcn.h>
#include <pmix.h>

/* The library's functions, by their names without PMIx_. */
struct library {
    __typeof__(PMIx_Init) *Init;
    __typeof__(PMIx_Finalize) *Finalize;
    __typeof__(PMIx_Put) *Put;
    __typeof__(PMIx_Commit) *Commit;
    __typeof__(PMIx_Fence) *Fence;
    __typeof__(PMIx_Get) *Get;
    __typeof__(PMIx_Error_string) *Error_string;
};

static bool load(struct library *l)
{
    /* Never closed: it may have threads. Its plug-ins look for its names. */
    void *so = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    const struct {
        const char *name;
        void *at;
    } names[] = {
        {"PMIx_Init",         &l->Init        },
        {"PMIx_Finalize",     &l->Finalize    },
        {"PMIx_Put",          &l->Put         },
        {"PMIx_Commit",       &l->Commit      },
        {"PMIx_Fence",        &l->Fence       },
        {"PMIx_Get",          &l->Get         },
        {"PMIx_Error_string", &l->Error_string},
    };
    for (size_t i = 0; so && i < sizeof(names) / sizeof(names[0]); i++) {
        void *found = dlsym(so, names[i].name);
        if (!found)
            return false;
        memcpy(names[i].at, &found, sizeof(found));
    }
    return so;
}

static coll_status refuse(const struct library *l, const char *what,
                          pmix_status_t status)
{
    return fail(COLL_ERR_SYSTEM, "bootstrap", "PMIx: %s: %s", what,
                l->Error_string(status));
}

static void everybody(const pmix_proc_t *me, pmix_proc_t *all)
{
    *all = *me;
    all->rank = PMIX_RANK_WILDCARD;
}

static coll_status count(const struct library *l, const pmix_proc_t *me,
                         int *nranks)
{
    pmix_proc_t all;
    pmix_value_t *size = NULL;
    everybody(me, &all);
    const pmix_status_t status = l->Get(&all, PMIX_JOB_SIZE, NULL, 0, &size);
    if (status != PMIX_SUCCESS)
        return refuse(l, "the number of processes", status);
    *nranks = (int)size->data.uint32;
    free(size);
    return COLL_OK;
}

static coll_status put(const struct library *l, const char *key,
                       const coll_unique_id *id)
{
    char text[2 * sizeof(id->bytes) + 1];
    for (size_t i = 0; i < sizeof(id->bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text};
    pmix_status_t status = l->Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = l->Commit();
    return status == PMIX_SUCCESS ? COLL_OK : refuse(l, "put", status);
}

static coll_status fence(const struct library *l, const pmix_proc_t *me)
{
    pmix_proc_t all;
    pmix_info_t collect = {
        .key = PMIX_COLLECT_DATA,
        .value = {.type = PMIX_BOOL, .data.flag = true}
    };
    everybody(me, &all);
    const pmix_status_t status = l->Fence(&all, 1, &collect, 1);
    return status == PMIX_SUCCESS ? COLL_OK : refuse(l, "fence", status);
}

static coll_status get(const struct library *l, const pmix_proc_t *me,
                       const char *key, coll_unique_id *id)
{
    pmix_proc_t root = *me;
    pmix_value_t *value = NULL;
    bool whole = true;
    root.rank = 0;
    const pmix_status_t status = l->Get(&root, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return refuse(l, "get", status);
    const char *text = value->type == PMIX_STRING ? value->data.string : "";
    for (size_t i = 0; whole && i < sizeof(id->bytes); i++)
        whole = sscanf(text + 2 * i, "%2hhx", &id->bytes[i]) == 1;
    if (value->type == PMIX_STRING)
        free(value->data.string);
    free(value);
    return whole ? COLL_OK
                 : fail(COLL_ERR_SYSTEM, "bootstrap",
                        "PMIx: rank 0's id is not whole");
}

/* Rank 0 comes to the fence even without an id, as the others wait there. */
static coll_status bring(const struct library *l, const pmix_proc_t *me,
                         coll_status (*make)(coll_unique_id *),
                         coll_unique_id *id)
{
    static unsigned calls;
    char key[32];
    coll_status status = COLL_OK;
    snprintf(key, sizeof(key), "libcoll.%u", calls++);
    if (me->rank == 0)
        status = make(id);
    if (me->rank == 0 && status == COLL_OK)
        status = put(l, key, id);
    const coll_status met = fence(l, me);
    if (status == COLL_OK)
        status = met;
    return status == COLL_OK && me->rank ? get(l, me, key, id) : status;
}

coll_status pmix_meet(int *rank, int *nranks,
                      coll_status (*make)(coll_unique_id *), coll_unique_id *id)
{
    struct library l;
    pmix_proc_t me;
    if (!load(&l))
        return fail(COLL_ERR_UNSUPPORTED, "bootstrap",
                    "PMIx: cannot load libpmix.so.2 (Debian: libpmix2)");
    const pmix_status_t begun = l.Init(&me, NULL, 0);
    if (begun != PMIX_SUCCESS)
        return refuse(&l, "init", begun);
    *rank = (int)me.rank;
    coll_status status = count(&l, &me, nranks);
    if (status == COLL_OK && *nranks > 1)
        status = bring(&l, &me, make, id);
    l.Finalize(NULL, 0); /* a process that ends without it has failed */
    return status;
}
#else
coll_status pmix_meet(int *rank, int *nranks,
                      coll_status (*make)(coll_unique_id *), coll_unique_id *id)
{
    (void)rank, (void)nranks, (void)make, (void)id;
    return fail(COLL_ERR_UNSUPPORTED, "bootstrap",
                "libcoll was built without PMIx (Debian: libpmix-dev)");
}
#endif
