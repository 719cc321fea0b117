/* SPDX-License-Identifier: MIT */
/* What a user may write where a cluster is wanted: a description, a file with
 * one, slurm:FILE, or the name of a cluster from clusters/. */
#include "machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "programs/options.h"

enum { MAX_FILE_BYTES = 1 << 20 };

char *topo_read_file(const char *path, const char *where, coll_status *status,
                     char *error, size_t error_bytes)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        *status =
            topo_fail(COLL_ERR_SYSTEM, error, error_bytes,
                      "%s: cannot read %s: %s", where, path, strerror(errno));
        return NULL;
    }
    char *text = malloc(MAX_FILE_BYTES + 1);
    const size_t length = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
    const bool broken = ferror(file) != 0;
    fclose(file);
    *status = COLL_OK;
    if (!text)
        *status = topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                            "no memory to read %s", path);
    else if (broken || length > MAX_FILE_BYTES)
        *status = topo_fail(broken ? COLL_ERR_SYSTEM : COLL_ERR_INVALID, error,
                            error_bytes, "%s: %s", path,
                            broken ? "cannot be read" : "is longer than 1 MiB");
    else if (memchr(text, '\0', length))
        *status = topo_fail(COLL_ERR_INVALID, error, error_bytes,
                            "%s: is not text", path);
    if (*status) {
        free(text);
        return NULL;
    }
    text[length] = '\0';
    return text;
}

static coll_status load_file(coll_topo **topo, const char *path,
                             const char *where, char *error, size_t error_bytes)
{
    coll_status status;
    char *text = topo_read_file(path, where, &status, error, error_bytes);
    if (text)
        status = coll_topo_parse(topo, text, path, error, error_bytes);
    free(text);
    return status;
}

static coll_status load_slurm(coll_topo **topo, const char *path,
                              const char *where, char *error,
                              size_t error_bytes)
{
    coll_status status;
    char *text = topo_read_file(path, where, &status, error, error_bytes);
    if (text)
        status =
            coll_topo_parse_slurm(topo, text, NULL, path, error, error_bytes);
    free(text);
    return status;
}

/* A word that is no file and no cluster. */
static coll_status unknown(const char *spec, const char *where, char *error,
                           size_t error_bytes)
{
    enum { MOST = 64 };
    const char *names[MOST];
    char list[1024] = "";
    int n = 0;
    for (coll_topo_cluster c; n < MOST && coll_topo_cluster_get(n, &c); n++) {
        names[n] = c.name;
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                 n ? ", " : "", c.name);
    }
    const char *near = nearest_name(spec, names, n);
    return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                     "%s: \"%s\" is no file and no cluster%s%s%s; valid are "
                     "%s, a path, and a description such as node:4 core:8",
                     where, spec, near ? ", did you mean " : "",
                     near ? near : "", near ? "?" : "", list);
}

static bool find_cluster(const char *name, coll_topo_cluster *cluster)
{
    for (int i = 0; coll_topo_cluster_get(i, cluster); i++)
        if (!strcmp(cluster->name, name))
            return true;
    return false;
}

coll_status coll_topo_load(coll_topo **topo, const char *spec,
                           const char *where, char *error, size_t error_bytes)
{
    struct stat is;
    coll_topo_cluster known;
    if (!topo || !spec || !where)
        return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                         "coll_topo_load: topo, spec or where is NULL");
    const bool exists = !stat(spec, &is);
    if (exists && !S_ISDIR(is.st_mode))
        return load_file(topo, spec, where, error, error_bytes);
    if (!strncmp(spec, "slurm:", 6))
        return load_slurm(topo, spec + 6, where, error, error_bytes);
    if (!*spec || strpbrk(spec, ":{"))
        return coll_topo_parse(topo, spec, where, error, error_bytes);
    if (find_cluster(spec, &known))
        return coll_topo_parse(topo, known.text, known.name, error,
                               error_bytes);
    return exists || strpbrk(spec, "/.")
               ? load_file(topo, spec, where, error, error_bytes)
               : unknown(spec, where, error, error_bytes);
}
