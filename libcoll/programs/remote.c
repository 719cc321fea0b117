/* SPDX-License-Identifier: MIT */
#include "programs/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/agent.h"
#include "programs/launch.h"
#include "programs/reap.h"

enum { MAX_WORDS = 64 };

bool remote_is_local(const char *host)
{
    return !strcmp(host, "localhost");
}

void remote_address(const char *host, bool only_host, char *text, size_t size)
{
    const char *at = strrchr(host, '@');
    char own[256] = "";
    if (at)
        host = at + 1;
    if (remote_is_local(host) && only_host)
        host = "127.0.0.1";
    else if (remote_is_local(host) && !gethostname(own, sizeof(own) - 1))
        host = own;
    snprintf(text, size, strchr(host, ':') ? "[%s]" : "%s", host);
}

static int serve(void *context)
{
    const int *fds = context;
    return agent_serve(fds[0], fds[1]);
}

/* Closes all but stdin, stdout, stderr and the two: other agents' links must
 * not stay open here, or their agents would not see them close. */
static void close_others(const int fds[2])
{
    const unsigned low = (unsigned)(fds[0] < fds[1] ? fds[0] : fds[1]);
    const unsigned high = (unsigned)(fds[0] < fds[1] ? fds[1] : fds[0]);
    if (low > 3)
        close_range(3, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0U, 0);
}

static void replace(int fd, const char *path)
{
    const int other = open(path, O_RDWR);
    if (other >= 0 && other != fd) {
        dup2(other, fd);
        close(other);
    }
}

__attribute__((noreturn)) static void become_local(int in, int out)
{
    int fds[2] = {in, out};
    replace(STDIN_FILENO, "/dev/null");
    close_others(fds);
    _exit(reap_guarded(serve, fds));
}

/* 'path' as one word of the remote shell. */
static void quote(const char *path, char *text, size_t size)
{
    size_t used = 0;
    text[used++] = '\'';
    for (; *path && used + 6 < size; path++) {
        if (*path == '\'')
            used += (size_t)snprintf(text + used, size - used, "'\\''");
        else
            text[used++] = *path;
    }
    text[used++] = '\'';
    text[used] = '\0';
}

__attribute__((noreturn)) static void
become_rsh(const struct remote *remote, const char *host, int in, int out)
{
    char *words[MAX_WORDS + 4], *rest, quoted[4096 + 8];
    int count = 0;
    for (char *word = strtok_r(strdup(remote->rsh), " ", &rest);
         word && count < MAX_WORDS; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    quote(remote->collrun, quoted, sizeof(quoted));
    words[count++] = (char *)host;
    words[count++] = quoted;
    words[count++] = "--agent";
    words[count] = NULL;
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    launch_reset_signals();
    execvp(words[0], words);
    fprintf(stderr, "collrun: --rsh: cannot run \"%s\": %s\n", words[0],
            strerror(errno));
    _exit(127);
}

pid_t remote_start(const struct remote *remote, const char *host,
                   struct link *link)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC))
        return -1;
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return -1;
    }
    const pid_t pid = fork();
    if (!pid) {
        setpgid(0, 0); /* Ctrl-C is for collrun, which tells the agents */
        if (remote_is_local(host))
            become_local(to[0], from[1]);
        become_rsh(remote, host, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    if (pid < 0) {
        close(to[1]);
        close(from[0]);
        return -1;
    }
    setpgid(pid, pid);
    link_open(link, from[0], to[1]);
    return pid;
}

int remote_wait(pid_t pid, int ms)
{
    int status = 0;
    struct pollfd fd = {pidfd_open(pid, 0), POLLIN, 0};
    if (fd.fd < 0 || poll(&fd, 1, ms) != 1)
        kill(pid, SIGKILL);
    if (fd.fd >= 0)
        close(fd.fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

int remote_serve_stdio(void)
{
    int fds[2] = {fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                  fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
    sigset_t all;
    if (fds[0] < 0 || fds[1] < 0)
        return 1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    replace(STDIN_FILENO, "/dev/null");
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close_others(fds);
    return reap_guarded(serve, fds);
}
