/* SPDX-License-Identifier: MIT */
/* collrun: starts the ranks of a job, here or over ssh, and ends them.
 *
 *   collrun.c   the command line, and starting again after a failure
 *   hosts       which rank runs where
 *   job         one run: the loop over agents, signals, stdin and deadlines
 *   describe    what an agent is told to run
 *   link        frames between collrun and the agent of a host
 *   remote      starting an agent, through ssh or as a child
 *   agent       the ranks of one host: started, watched, killed
 *   launch, bind, reap    one rank; its core; nothing left behind
 *   output, report        what the user sees
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "programs/job.h"
#include "programs/options.h"

static struct {
    long nranks, restart;
    double timeout;
    const char *hosts, *hostfile, *bind, *rsh, *collrun;
    struct option_list env;
    bool label, keep_going, no_bind, verbose, agent;
} given = {.bind = "core", .rsh = "ssh -o BatchMode=yes"};

/* clang-format off */
static const struct option_row rows[] = {
    {'n', "ranks", "N", OPTION_INT, &given.nranks, 1, MAX_RANKS, NULL,
     "how many ranks to start; with hosts, by default as many as they have "
     "room for"},
    {'H', "hosts", "LIST", OPTION_TEXT, &given.hosts, 0, 0, NULL,
     "hosts to run on over ssh, with their numbers of ranks: a:2,b:2"},
    {0, "hostfile", "FILE", OPTION_TEXT, &given.hostfile, 0, 0, NULL,
     "the same from a file, one host a line: a:2, or a slots=2"},
    {0, "restart", "N", OPTION_INT, &given.restart, 0, 1000000, NULL,
     "start the whole job again when it fails, up to N times"},
    {0, "timeout", "SECONDS", OPTION_NUMBER, &given.timeout, 0.1, 86400, NULL,
     "how long starting may take (default 60)"},
    {'l', "label", NULL, OPTION_FLAG, &given.label, 0, 0, NULL,
     "begin every line of output with [rank]"},
    {'k', "keep-going", NULL, OPTION_FLAG, &given.keep_going, 0, 0, NULL,
     "let the other ranks run on when one fails"},
    {0, "bind", "HOW", OPTION_TEXT, &given.bind, 0, 0, "core|none",
     "bind each rank to a core of its own if there are enough (the default), "
     "or leave all to the scheduler"},
    {0, "no-bind", NULL, OPTION_FLAG, &given.no_bind, 0, 0, NULL,
     "same as --bind none"},
    {0, "env", "NAME=VALUE", OPTION_LIST, &given.env, 0, 0, NULL,
     "set a variable for all ranks; NAME alone passes its present value on; "
     "may be repeated"},
    {0, "rsh", "COMMAND", OPTION_TEXT, &given.rsh, 0, 0, NULL,
     "run on other hosts with COMMAND HOST ... (default: ssh -o "
     "BatchMode=yes)"},
    {0, "collrun", "PATH", OPTION_TEXT, &given.collrun, 0, 0, NULL,
     "where collrun is on other hosts (default: the path it has here)"},
    {'v', "verbose", NULL, OPTION_FLAG, &given.verbose, 0, 0, NULL,
     "say where each rank runs and what it is bound to"},
    {0, "agent", NULL, OPTION_FLAG, &given.agent, 0, 0, NULL,
     "serve one host of a job on stdin and stdout; collrun itself starts this"},
};
/* clang-format on */

static const struct program program = {
    .name = "collrun",
    .usage = "collrun -n N [OPTION...] PROGRAM [ARGUMENT...]\n"
             "collrun --hosts A:2,B:2 [OPTION...] PROGRAM [ARGUMENT...]",
    .summary = "Starts PROGRAM as the ranks of one job, here or over ssh.",
    .options = rows,
    .noptions = sizeof(rows) / sizeof(rows[0]),
    .epilogue =
        "When a rank fails, the others get SIGTERM soon and SIGKILL 2 s later. "
        "The exit\nstatus is that of the rank that failed first, not of those "
        "that "
        "failed because\nof it, or 128 plus its signal; 1 if a host cannot be "
        "reached; 2 for a wrong\ncommand line or a program that cannot be run. "
        "SIGINT, SIGTERM, SIGHUP, SIGUSR1\nand SIGUSR2 are passed on to all "
        "ranks; a second SIGINT, SIGTERM or SIGHUP kills\nthem. stdin goes to "
        "rank 0.",
};

/* pipes and links must not get the numbers of stdin, stdout or stderr. */
static void open_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO && !fcntl(fd, F_SETFD, 0));
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Signals to pass on arrive through a descriptor. One that is ignored, as
 * under nohup, stays so. */
static int catch_signals(void)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        struct sigaction action;
        if (!sigaction(wanted[i], NULL, &action)
            && action.sa_handler != SIG_IGN)
            sigaddset(&set, wanted[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static struct hosts find_hosts(void)
{
    const int nranks = (int)given.nranks;
    if (given.hosts && given.hostfile)
        options_die(&program, "--hostfile: found together with --hosts, valid "
                              "is one of them");
    if (given.hosts)
        return hosts_from_list(&program, given.hosts, nranks);
    if (given.hostfile)
        return hosts_from_file(&program, given.hostfile, nranks);
    if (!nranks)
        options_die(&program, "-n: found nothing, valid is a number of ranks "
                              "such as -n 2, or --hosts or --hostfile");
    if (nranks > MAX_LOCAL_RANKS)
        options_die(&program, "-n: found %d, valid on one host is 1 to %d",
                    nranks, MAX_LOCAL_RANKS);
    return hosts_local(nranks);
}

/* --env NAME takes the value that NAME has now. */
static void complete_env(void)
{
    for (int i = 0; i < given.env.count; i++) {
        const char *item = given.env.items[i], *equals = strchr(item, '=');
        char *whole;
        if (equals && equals != item)
            continue;
        const char *value = equals ? NULL : getenv(item);
        if (!value)
            options_die(&program,
                        "--env: found \"%s\", valid is NAME=VALUE, or the name "
                        "of a variable that is set",
                        item);
        if (asprintf(&whole, "%s=%s", item, value) < 0)
            abort();
        given.env.items[i] = whole;
    }
}

/* Longer ones do not fit a frame, nor into Linux's execve(). */
static void check_lengths(char *const *argv)
{
    for (; *argv; argv++)
        if (strlen(*argv) >= LINK_PAYLOAD_MAX)
            options_die(&program,
                        "an argument of %zu bytes, valid are less "
                        "than %d",
                        strlen(*argv), LINK_PAYLOAD_MAX);
    for (int i = 0; i < given.env.count; i++)
        if (strlen(given.env.items[i]) >= LINK_PAYLOAD_MAX)
            options_die(&program,
                        "--env: found %zu bytes, valid are less than "
                        "%d",
                        strlen(given.env.items[i]), LINK_PAYLOAD_MAX);
}

/* Where this program lies; on other hosts it is expected there as well. */
static const char *own_path(void)
{
    static char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    return length > 0 ? path : "collrun";
}

int main(int argc, char **argv)
{
    int nwords;
    open_standard_files();
    options_parse(&program, argc, argv, &nwords, true);
    if (given.agent)
        return remote_serve_stdio();
    if (!nwords)
        options_die(&program,
                    "found no program to run, valid is %s -n 2 "
                    "PROGRAM",
                    program.name);
    if (!given.rsh[strspn(given.rsh, " ")])
        options_die(&program, "--rsh: found \"%s\", valid is a command",
                    given.rsh);
    complete_env();
    check_lengths(argv + 1);
    struct job_options options = {
        .name = program.name,
        .hosts = find_hosts(),
        .remote = {given.rsh, given.collrun ? given.collrun : own_path()},
        .argv = argv + 1,
        .timeout = given.timeout,
        .label = given.label,
        .keep_going = given.keep_going,
        .bind = !given.no_bind && !strcmp(given.bind, "core"),
        .verbose = given.verbose,
        .signals = catch_signals(),
        .env = given.env,
    };
    struct job_end end = job_run(&options);
    for (long again = 1; end.retry && again <= given.restart; again++) {
        fprintf(stderr, "%s: starting the job again (%ld of %ld)\n",
                program.name, again, given.restart);
        end = job_run(&options);
    }
    hosts_free(&options.hosts);
    return end.status;
}
