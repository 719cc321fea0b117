/* SPDX-License-Identifier: MIT */
/* Settings, the log, the rules of COLL_ALGO and the choice of an algorithm.
 * Each test is a process of its own, so each may set its environment. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"

static char logged[4096];

static void keep(coll_log_level level, const char *subject, const char *line,
                 void *context)
{
    (void)level, (void)context;
    snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged),
             "%s: %s\n", subject, line);
}

Test(settings, come_from_environment_then_file_then_default)
{
    char path[] = "/tmp/coll-settings-XXXXXX";
    const int fd = mkstemp(path);
    const char text[] = "# a comment\nCOLL_OP_SECONDS = 5 # and another\n"
                        "COLL_TRANSPORT = ucx\nCOLL_NONSENSE = 1\nrubbish\n";
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    setenv("COLL_CONFIG", path, 1);
    setenv("COLL_TRANSPORT", "shm", 1);
    setenv("COLL_TRANSPROT", "shm", 1);
    coll_log_set_hook(keep, NULL);
    cr_assert_str_eq(setting_text(SETTING_TRANSPORT), "shm");
    cr_assert_str_eq(setting_get(SETTING_TRANSPORT).source, "environment");
    cr_assert_str_eq(setting_text(SETTING_OP_SECONDS), "5");
    cr_assert_str_eq(setting_get(SETTING_OP_SECONDS).source, path);
    cr_assert_str_eq(setting_get(SETTING_JOIN_SECONDS).source, "default");
    cr_assert(strstr(logged, "COLL_NONSENSE"), "%s", logged);
    cr_assert(strstr(logged, ":5: \"rubbish\" is not NAME = value"), "%s",
              logged);
    cr_assert(strstr(logged, "did you mean COLL_TRANSPORT?"), "%s", logged);
    unlink(path);
}

Test(settings, bad_numbers_name_the_setting_and_the_range)
{
    double x;
    size_t bytes;
    setenv("COLL_OP_SECONDS", "soon", 1);
    setenv("COLL_SHM_RING", "64K", 1);
    setenv("COLL_JOIN_SECONDS", "-1", 1);
    cr_assert_eq(setting_number(SETTING_OP_SECONDS, 0, 9, &x),
                 COLL_ERR_INVALID);
    cr_assert(strstr(fail_sentence(), "COLL_OP_SECONDS=soon"));
    cr_assert_eq(setting_number(SETTING_JOIN_SECONDS, 0, 9, &x),
                 COLL_ERR_INVALID);
    cr_assert_eq(setting_bytes(SETTING_SHM_RING, 0, 1 << 20, &bytes), COLL_OK);
    cr_assert_eq(bytes, (size_t)65536);
    cr_assert_eq(setting_bytes(SETTING_SHM_RING, 0, 1000, &bytes),
                 COLL_ERR_INVALID);
}

Test(settings, log_levels_by_subject)
{
    setenv("COLL_LOG", "warn,select:debug", 1);
    coll_log_set_hook(keep, NULL);
    log_line(COLL_LOG_DEBUG, "select", "one");
    log_line(COLL_LOG_DEBUG, "shm", "two");
    log_line(COLL_LOG_WARN, "shm", "three");
    cr_assert_str_eq(logged, "select: one\nshm: three\n");
}

Test(settings, unknown_subjects_are_warned_about)
{
    setenv("COLL_LOG", "selct:debug,walrus:info", 1);
    coll_log_set_hook(keep, NULL);
    log_line(COLL_LOG_DEBUG, "select", "one");
    cr_assert(strstr(logged,
                     "COLL_LOG: no line is about \"selct\", did you mean "
                     "select?\n"),
              "%s", logged);
    cr_assert(
        strstr(logged, "no line is about \"walrus\"; valid are bootstrap, "),
        "%s", logged);
}

Test(settings, nearest_names)
{
    const char *const names[] = {"ring", "binomial_tree", "halving_doubling"};
    cr_assert_str_eq(nearest_name("rnig", names, 3), "ring");
    cr_assert_str_eq(nearest_name("halving_doublin", names, 3),
                     "halving_doubling");
    cr_assert_str_eq(nearest_name("bino", names, 3), "binomial_tree");
    cr_assert_null(nearest_name("xyzzy", names, 3));
    cr_assert_null(nearest_name("", names, 3));
}
