/* SPDX-License-Identifier: MIT */
/* Output files that appear whole, and what is no file. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/options.h"
#include "programs/whole_file.h"
#include "scratch.h"

TestSuite(whole_file, .init = scratch_enter, .fini = scratch_leave);

static void write_whole(const char *path, const char *text)
{
    char error[512] = "";
    struct whole_file f;
    cr_assert(whole_file_begin(&f, path, error, sizeof(error)), "%s", error);
    fputs(text, f.stream);
    cr_assert(whole_file_end(&f, true, error, sizeof(error)), "%s", error);
}

static void expect_text(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    cr_assert(file, "%s: %s", path, strerror(errno));
    found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
    fclose(file);
    cr_expect_str_eq(found, text, "%s: %s", path, found);
}

static int files(void)
{
    DIR *here = opendir(".");
    int n = -2;
    while (readdir(here))
        n++;
    closedir(here);
    return n;
}

Test(whole_file, is_there_whole_or_not_at_all)
{
    char error[512];
    struct whole_file f;
    write_whole("a", "old");
    cr_assert(whole_file_begin(&f, "a", error, sizeof(error)));
    fputs("new", f.stream);
    fflush(f.stream);
    expect_text("a", "old");
    whole_file_drop(&f);
    expect_text("a", "old");
    cr_assert(whole_file_begin(&f, "a", error, sizeof(error)));
    errno = ENOSPC;
    cr_expect_not(whole_file_end(&f, false, error, sizeof(error)));
    cr_expect_str_eq(error, "a: cannot write: No space left on device");
    cr_expect_eq(files(), 1);
    write_whole("a", "new");
    expect_text("a", "new");
    cr_expect_eq(files(), 1);
}

Test(whole_file, who_is_killed_leaves_nothing)
{
    char error[512];
    struct whole_file f;
    if (!fork()) {
        if (whole_file_begin(&f, "a", error, sizeof(error)))
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    wait(&status);
    cr_assert(WIFSIGNALED(status));
    if (files() && open(".", O_TMPFILE | O_WRONLY, 0600) < 0)
        cr_skip_test("this file system has no files without a name");
    cr_expect_eq(files(), 0);
}

Test(whole_file, links_lead_to_what_is_replaced_and_modes_stay)
{
    struct stat it;
    cr_assert_eq(mkdir("far", 0700), 0);
    write_whole("far/a", "old");
    cr_assert_eq(chmod("far/a", 0640), 0);
    cr_assert_eq(symlink("far/a", "link"), 0);
    cr_expect(whole_file_same("link", "./far/../far/a"));
    cr_expect(whole_file_same("far/new", "./far/new"));
    cr_expect_not(whole_file_same("link", "far/b"));
    write_whole("link", "new");
    expect_text("far/a", "new");
    cr_assert_eq(lstat("link", &it), 0);
    cr_expect(S_ISLNK(it.st_mode));
    cr_assert_eq(stat("far/a", &it), 0);
    cr_expect_eq(it.st_mode & 0777, 0640u);
}

Test(whole_file, pipes_and_devices_are_written_in_place)
{
    char error[512];
    struct stat it;
    int status;
    cr_assert_eq(mkfifo("pipe", 0600), 0);
    cr_expect(whole_file_possible("pipe", error, sizeof(error))); /* at once */
    cr_expect_not(whole_file_same("pipe", "pipe"));
    if (!fork()) {
        write_whole("pipe", "through");
        _exit(0);
    }
    expect_text("pipe", "through");
    wait(&status);
    cr_assert_eq(stat("pipe", &it), 0);
    cr_expect(S_ISFIFO(it.st_mode));
    write_whole("/dev/null", "away");
    cr_assert_eq(stat("/dev/null", &it), 0);
    cr_expect(S_ISCHR(it.st_mode));
}

/* Both go on where the other has stopped. */
Test(whole_file, standard_output_is_shared)
{
    int status;
    if (!fork()) {
        cr_assert(freopen("out", "w", stdout));
        puts("before");
        fflush(stdout);
        write_whole("/dev/stdout", "between\n");
        FILE *log = whole_file_watched("out", false);
        fputs("log\n", log);
        fclose(log);
        puts("after");
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    expect_text("out", "before\nbetween\nlog\nafter\n");
}

Test(whole_file, names_that_cannot_be_are_refused_at_once)
{
    char error[512], longest[NAME_MAX + 2];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[NAME_MAX + 1] = '\0';
    const char *const bad[] = {"",   ".",     "none/", "none/a",
                               "..", longest, "a/b"};
    write_whole("a", "");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        *error = '\0';
        cr_expect_not(whole_file_possible(bad[i], error, sizeof(error)), "%s",
                      bad[i]);
        cr_expect(strstr(error, ": cannot write: "), "%s", error);
        cr_expect_not(whole_file_watchable(bad[i], error, sizeof(error)), "%s",
                      bad[i]);
    }
    longest[NAME_MAX] = '\0';
    write_whole(longest, "fits");
    expect_text(longest, "fits");
}

Test(whole_file, options_do_not_share_a_file)
{
    char error[512];
    write_whole("net", "");
    const struct option_file files[] = {
        {"--json", "a",     FILE_WRITTEN},
        {"--log",  "./b",   FILE_WATCHED},
        {"--net",  "net",   FILE_READ   },
        {"--plot", "./a",   FILE_WRITTEN},
        {"--csv",  "./net", FILE_WRITTEN},
    };
    cr_expect(options_files_fit(files, 3, error, sizeof(error)), "%s", error);
    cr_expect_not(options_files_fit(files, 4, error, sizeof(error)));
    cr_expect_str_eq(
        error, "--plot: found ./a, the file of --json, valid is another one");
    cr_expect_not(options_files_fit(files + 1, 4, error, sizeof(error)));
    cr_expect_str_eq(
        error, "--csv: found ./net, the file of --net, valid is another one");
    cr_expect_eq(access("b", F_OK), -1); /* nothing is made yet */
}
