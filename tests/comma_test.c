/* SPDX-License-Identifier: MIT */
/* What is read and written by programs has a point in it, also where the
 * program has set a locale in which people write a comma. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "coll/topo.h"
#include "comma.h"
#include "ranks.h"

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    (void)tests;
    comma_make();
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    (void)stats;
    comma_remove();
}

static void want_comma(void)
{
    char text[8];
    if (!comma_locale())
        cr_skip("no locale with a comma here, and no localedef");
    snprintf(text, sizeof(text), "%.1f", 1.5);
    cr_assert_str_eq(text, "1,5");
}

Test(comma, settings_are_read)
{
    double seconds;
    size_t bytes;
    want_comma();
    setenv("COLL_OP_SECONDS", "0.5", 1);
    setenv("COLL_SHM_RING", "1.5K", 1);
    cr_assert_eq(setting_number(SETTING_OP_SECONDS, 0, 9, &seconds), COLL_OK,
                 "%s", fail_sentence());
    cr_assert_eq(seconds, 0.5);
    cr_assert_eq(setting_bytes(SETTING_SHM_RING, 0, 9999, &bytes), COLL_OK);
    cr_assert_eq(bytes, (size_t)1536);
}

Test(comma, clusters_are_read_and_written)
{
    static const char spec[] = "rack:2 (1.5us 2.5GB/s) host:2 package:1";
    char error[512], text[256];
    coll_topo *topo;
    coll_topo_link link;
    want_comma();
    cr_assert_eq(coll_topo_parse(&topo, spec, "test", error, sizeof(error)),
                 COLL_OK, "%s", error);
    cr_assert_eq(coll_topo_link_between(topo, 0, 3, &link), COLL_OK);
    cr_assert_eq(link.latency_seconds, 1.5e-6);
    coll_topo_print_notation(topo, text, sizeof(text));
    cr_assert(strstr(text, "(1.5us 2.5GB/s)"), "%s", text);
    coll_topo_free(topo);
}

static size_t length;

static int learns(coll_comm *comm, int rank, int n)
{
    static float x[1024];
    (void)rank, (void)n;
    if (!comma_locale())
        return 0;
    for (int i = 0; i < 300; i++)
        if (coll_allreduce(x, x, length, COLL_F32, COLL_SUM, comm, NULL))
            return 1;
    return 0;
}

/* The one file of the folder, which goes away. */
static void take_file(const char *folder, char *text, size_t size)
{
    char path[600] = "";
    DIR *d = opendir(folder);
    cr_assert(d);
    for (struct dirent *e; (e = readdir(d));)
        if (*e->d_name != '.')
            snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
    closedir(d);
    FILE *file = fopen(path, "re");
    cr_assert(file, "%s: %s", folder, path);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    rmdir(folder);
}

Test(comma, what_is_learned_is_written_and_read)
{
    char folder[] = "/tmp/comma_store.XXXXXX", store[64], text[8192];
    want_comma();
    cr_assert(mkdtemp(folder));
    snprintf(store, sizeof(store), "COLL_STORE=%s", folder);
    const char *const settings[] = {"COLL_TRANSPORT=ucx", store, NULL};
    for (length = 16; length <= 1024; length *= 64)
        cr_assert_eq(run_ranks(3, settings, learns), 0);
    take_file(folder, text, sizeof(text));
    /* The second job wrote what it had read. */
    cr_assert(strstr(text, "allreduce 64 "), "%s", text);
    cr_assert(strstr(text, "allreduce 4096 "), "%s", text);
    cr_assert(strchr(text, '.') && !strchr(text, ','), "%s", text);
}
