/* SPDX-License-Identifier: MIT */
#include "programs/reap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The parent of a process, 0 if it is gone. /proc/PID/stat is "pid (name)
 * state parent ..."; the name may hold anything, hence the last ')'. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *end = strrchr(text, ')');
    int parent = 0;
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

void reap_signal(int signal)
{
    const pid_t self = getpid();
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        const long pid = strtol(entry->d_name, NULL, 10);
        if (pid > 1 && parent_of(entry->d_name) == self)
            kill((pid_t)pid, signal);
    }
    if (proc)
        closedir(proc);
}

void reap_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Collects dead children; false if there is no child any more. */
static int collect(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        continue;
    return pid == 0 || errno == EINTR;
}

void reap_all(void)
{
    /* A killed process is usually gone within a millisecond. */
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int tries = 0; tries < 5000 && collect(); tries++) {
        reap_signal(SIGKILL);
        nanosleep(&pause, NULL);
    }
}

int reap_guarded(int (*work)(void *), void *context)
{
    const pid_t guard = getpid();
    reap_adopt();
    const pid_t worker = fork();
    if (worker < 0)
        return 1;
    if (!worker) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        _exit(getppid() == guard ? work(context) : 1);
    }
    int status = 1;
    pid_t pid;
    do
        pid = waitpid(-1, &status, 0);
    while (pid != worker && (pid > 0 || errno == EINTR));
    reap_all();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
