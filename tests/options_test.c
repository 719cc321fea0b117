/* SPDX-License-Identifier: MIT */
/* Kinds of options, ranges and spellings; tests/collrun_test.py has the rest,
 * as users see it. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/options.h"

enum { MAX_WORDS = 16 };

static struct {
    size_t bytes, some_bytes;
    long count;
    double rate;
    bool flag, other, lamp;
    const char *word;
    struct option_list list;
} got;

static const struct option_row rows[] = {
    {'b', "bytes", "SIZE", OPTION_BYTES, &got.bytes, 0, 0, NULL, "a size"},
    {0, "some", "SIZE", OPTION_BYTES, &got.some_bytes, 4, 4096, NULL, "size"},
    {'c', "count", "N", OPTION_INT, &got.count, -5, 5, NULL, "a number"},
    {0, "rate", "R", OPTION_NUMBER, &got.rate, 0, 1, NULL, "a fraction"},
    {'f', "flag", NULL, OPTION_FLAG, &got.flag, 0, 0, NULL, "a flag"},
    {'o', NULL, NULL, OPTION_FLAG, &got.other, 0, 0, NULL, "another"},
    {'l', "lamp", NULL, OPTION_SWITCH, &got.lamp, 0, 0, NULL, "a switch"},
    {'w', "word", "W", OPTION_TEXT, &got.word, 0, 0, "red|green", "a word"},
    {0, "list", "X", OPTION_LIST, &got.list, 0, 0, NULL, "many"},
};
static const struct program program = {
    .name = "test",
    .usage = "test [OPTION...] FILE",
    .summary = "Tests.",
    .options = rows,
    .noptions = sizeof(rows) / sizeof(rows[0]),
};

/* Parses a line of words; operands are left in words[1..]. */
static int parse(const char *line, char **words, bool stop_early)
{
    char *rest, *copy = strdup(line);
    int count = 1, noperands = 0;
    memset(&got, 0, sizeof(got));
    words[0] = copy;
    for (char *word = strtok_r(copy, " ", &rest); word && count < MAX_WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    options_parse(&program, count, words, &noperands, stop_early);
    return noperands;
}

/* The exit status of a process that parses the line. */
static int status_of(const char *line)
{
    char *words[MAX_WORDS + 1];
    int status = -1;
    const pid_t pid = fork();
    if (!pid) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        parse(line, words, false);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(options, sizes_have_units)
{
    static const struct {
        const char *line;
        size_t bytes;
    } cases[] = {{"-b 0", 0},
                 {"-b512", 512},
                 {"--bytes 4K", 4096},
                 {"--bytes=64m", (size_t)64 << 20},
                 {"-b 1.5G", (size_t)3 << 29},
                 {"-b 2T", (size_t)2 << 40}};
    char *words[MAX_WORDS + 1];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(parse(cases[i].line, words, false), 0);
        cr_assert_eq(got.bytes, cases[i].bytes, "%s", cases[i].line);
    }
}

Test(options, every_spelling_is_understood)
{
    char *words[MAX_WORDS + 1];
    cr_assert_eq(parse("x -foc -3 --rate=.5 y -wred --list a --list=b - -- -z",
                       words, false), 4);
    cr_assert(got.flag && got.other);
    cr_assert_eq(got.count, -3);
    cr_assert_float_eq(got.rate, 0.5, 0);
    cr_assert_str_eq(got.word, "red");
    cr_assert_eq(got.list.count, 2);
    cr_assert_str_eq(got.list.items[1], "b");
    static const char *const operands[] = {"x", "y", "-", "-z"};
    for (int i = 0; i < 4; i++)
        cr_assert_str_eq(words[1 + i], operands[i]);
    cr_assert_null(words[5]);
}

Test(options, a_switch_takes_0_or_1)
{
    static const struct {
        const char *line;
        int noperands;
        bool on;
    } cases[] = {
        {"-l",         0, true },
        {"-l 1",       0, true },
        {"-l 0",       0, false},
        {"-l0",        0, false},
        {"-fl 0 x",    1, false},
        {"-lf 0",      1, true },
        {"-l 2",       1, true },
        {"--lamp",     0, true },
        {"--lamp 0",   0, false},
        {"--lamp=0",   0, false},
        {"--lamp=1",   0, true },
        {"--lamp x 0", 2, true },
        {"-l -l 0",    0, false},
    };
    char *words[MAX_WORDS + 1];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(parse(cases[i].line, words, false), cases[i].noperands,
                     "%s", cases[i].line);
        cr_assert_eq(got.lamp, cases[i].on, "%s", cases[i].line);
    }
}

Test(options, the_first_operand_may_end_them)
{
    char *words[MAX_WORDS + 1];
    cr_assert_eq(parse("-f run -o --bytes", words, true), 3);
    cr_assert(got.flag && !got.other);
    cr_assert_str_eq(words[2], "-o");
}

Test(options, bad_input_ends_with_status_2)
{
    static const char *const lines[] = {
        "-b -1",        "-b 1.5",     "-b x",        "-b 4KB",
        "-b 99999999T", "-b nan",     "-b inf",      "--some 2",
        "--some 5K",    "-c 6",       "-c -6",       "-c 1x",
        "-c 99999999999999999999",    "--rate 1.1",  "--rate nan",
        "--rate",       "-w blue",    "--flag=1",    "-fx",
        "--flagg",      "--=",        "-w",          "--word=",
        "--lamp=2",     "--lamp=",    "-lx",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_assert_eq(status_of(lines[i]), 2, "%s", lines[i]);
    cr_assert_eq(status_of("-b 1 -c 5 --rate 1 --some 4K -w green a"), 0);
}

static const char *lamp_stands(const char *option)
{
    return strcmp(option, "lamp") ? NULL : "job.yaml:3:7";
}

static void prints(const char *message, const char *expected)
{
    const struct program p = {.name = "test", .place = lamp_stands};
    FILE *const file = tmpfile();
    char text[256] = "";
    const int kept = dup(2);
    fflush(stderr);
    dup2(fileno(file), 2);
    options_say(&p, message);
    dup2(kept, 2);
    close(kept);
    rewind(file);
    cr_assert(fgets(text, sizeof(text), file));
    cr_assert_str_eq(text, expected);
    fclose(file);
}

Test(options, what_a_file_gives_is_said_with_its_place)
{
    prints("--lamp: found 3", "test: job.yaml:3:7: lamp: found 3\n");
    prints("--lamp shade: torn", "test: job.yaml:3:7: lamp shade: torn\n");
    prints("--lam: found 3", "test: --lam: found 3\n");
    prints("--lamp", "test: --lamp\n");
    prints("lamp: found 3", "test: lamp: found 3\n");
}

Test(options, a_message_stays_one_line)
{
    prints("found \"a\nb\033[1m\"", "test: found \"a\\x0ab\\x1b[1m\"\n");
    prints("gr\303\274n", "test: gr\303\274n\n");
}
