/* SPDX-License-Identifier: MIT */
#include "programs/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "programs/bind.h"
#include "programs/hosts.h"
#include "programs/launch.h"
#include "programs/link.h"
#include "programs/reap.h"

enum {
    LINE_ROOM = 64 * 1024,     /* longer lines are passed in pieces */
    QUEUE_ENOUGH = 256 * 1024, /* ranks wait while more output is queued */
    MAX_STRINGS = 64 * 1024,   /* arguments, or variables */
    DRAIN_MAX = 1024 * 1024,   /* read from an ended rank before we say so */
    LEFTOVERS_TERM_MS = 200,   /* what a rank left behind may end by itself, */
    LEFTOVERS_KILL_MS = 2000,  /* is then asked to, and then killed */
};

/* One of a rank's outputs, cut into lines. */
struct stream {
    int fd;
    enum frame_type type;
    size_t used;
    char *line; /* LINE_ROOM bytes */
};

struct local_rank {
    uint32_t rank;
    pid_t pid;
    bool exited;
    struct stream out, err;
};

struct strings {
    char **items; /* NULL behind the last */
    int count;
};

struct agent {
    struct link link;
    int signals;
    struct strings argv, env;
    char *cwd;
    uint32_t flags;
    struct local_rank *ranks;
    int nranks, nrunning;
    bool started;
    int told; /* the file of COLL_TOLD, see base/told.h; -1: none */

    /* stdin for the one rank that gets it; one frame at a time. */
    int input_fd;
    uint32_t input_rank;
    char *input;
    size_t input_from, input_to;

    double leftovers_since; /* seconds; 0: ranks still run */
    bool leftovers_asked;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool add_string(struct strings *strings, const struct frame *frame)
{
    if (strings->count == MAX_STRINGS
        || memchr(frame->data, '\0', frame->bytes))
        return false;
    char **items =
        realloc(strings->items, ((size_t)strings->count + 2) * sizeof(*items));
    char *copy = strndup(frame->data, frame->bytes);
    if (!items || !copy)
        abort();
    items[strings->count++] = copy;
    items[strings->count] = NULL;
    strings->items = items;
    return true;
}

static bool add_rank(struct agent *a, uint32_t rank)
{
    if (rank >= MAX_RANKS || a->nranks == MAX_LOCAL_RANKS)
        return false;
    a->ranks = realloc(a->ranks, ((size_t)a->nranks + 1) * sizeof(*a->ranks));
    if (!a->ranks)
        abort();
    a->ranks[a->nranks++] = (struct local_rank){
        .rank = rank,
        .exited = true,
        .out = {.fd = -1, .type = FRAME_OUT},
        .err = {.fd = -1, .type = FRAME_ERR},
    };
    return true;
}

/* A TCP port if it is free now on every address, else 0; of 0: any. */
static uint32_t try_port(uint32_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    port = 0;
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, length)
        && !getsockname(fd, (struct sockaddr *)&address, &length))
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* The first port that the system gives to who asks for any. */
static uint32_t first_given(void)
{
    unsigned first = 0;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (file) {
        if (fscanf(file, "%u", &first) != 1)
            first = 0;
        fclose(file);
    }
    return first;
}

/* A free one below those; 0 if there is none at all. Nothing keeps it free
 * until rank 0 binds it, so it is one by chance that no connection gets
 * meanwhile. */
static uint32_t free_port(void)
{
    enum { LEAST = 16384, TRIES = 64 };
    const uint32_t end = first_given();
    for (int i = 0; i < TRIES && end > LEAST; i++) {
        uint32_t any, port;
        if (getrandom(&any, sizeof(any), 0) == sizeof(any)
            && (port = try_port(LEAST + any % (end - LEAST))))
            return port;
    }
    return try_port(0);
}

/* Sends the first `bytes` of what is read, keeps the rest. */
static void send_line(struct agent *a, const struct local_rank *r,
                      struct stream *s, size_t bytes)
{
    if (!bytes)
        return;
    link_send(&a->link, s->type, r->rank, s->line, bytes);
    s->used -= bytes;
    memmove(s->line, s->line + bytes, s->used);
}

/* Reads once; false if there is nothing more now, or for ever. */
static bool read_stream(struct agent *a, const struct local_rank *r,
                        struct stream *s)
{
    const ssize_t got = read(s->fd, s->line + s->used, LINE_ROOM - s->used);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (got <= 0) {
        send_line(a, r, s, s->used);
        close(s->fd);
        s->fd = -1;
        free(s->line);
        s->line = NULL;
        return false;
    }
    s->used += (size_t)got;
    const char *newline = memrchr(s->line, '\n', s->used);
    if (newline)
        send_line(a, r, s, (size_t)(newline + 1 - s->line));
    else if (s->used == LINE_ROOM)
        send_line(a, r, s, s->used);
    return true;
}

static void drain(struct agent *a, const struct local_rank *r, struct stream *s)
{
    const size_t limit = link_pending(&a->link) + DRAIN_MAX;
    while (s->fd >= 0 && link_pending(&a->link) < limit && read_stream(a, r, s))
        continue;
}

static void open_stream(struct stream *s, int fd)
{
    s->fd = fd;
    s->line = fd >= 0 ? malloc(LINE_ROOM) : NULL;
    if (fd >= 0 && !s->line)
        abort();
}

/* Each rank gets its number; the other variables are the same for all. */
static bool start_rank(struct agent *a, struct local_rank *r,
                       const cpu_set_t *cpus)
{
    char number[40], error[1024] = "", about[1200];
    struct process process;
    struct frame frame = {.data = number};
    frame.bytes =
        (uint32_t)snprintf(number, sizeof(number), "COLL_RANK=%u", r->rank);
    if (!add_string(&a->env, &frame))
        return false;
    const struct launch what = {
        .argv = a->argv.items,
        .env = a->env.items,
        .cwd = a->cwd ? a->cwd : "/",
        .cpus = cpus,
        .wants_input = r->rank == 0,
        .direct_out = a->flags & AGENT_DIRECT_OUT,
        .direct_err = a->flags & AGENT_DIRECT_ERR,
    };
    const bool started = launch(&what, &process, error, sizeof(error));
    free(a->env.items[--a->env.count]);
    a->env.items[a->env.count] = NULL;
    if (!started) {
        link_send_text(&a->link, FRAME_FAILED, r->rank, error);
        return false;
    }
    r->pid = process.pid;
    r->exited = false;
    a->nrunning++;
    open_stream(&r->out, process.out);
    open_stream(&r->err, process.err);
    if (process.in >= 0) {
        a->input_fd = process.in;
        a->input_rank = r->rank;
    }
    link_put32(about, (uint32_t)process.pid);
    const size_t length = bind_describe(cpus, about + 4, sizeof(about) - 4);
    link_send(&a->link, FRAME_STARTED, r->rank, about, 4 + length);
    return true;
}

/* Has no name, so it ends with the agent. */
static bool add_told(struct agent *a)
{
    char text[80];
    struct frame frame = {.data = text};
    a->told = memfd_create("told", MFD_CLOEXEC);
    frame.bytes = (uint32_t)snprintf(
        text, sizeof(text), "COLL_TOLD=/proc/%d/fd/%d", (int)getpid(), a->told);
    return a->told < 0 || add_string(&a->env, &frame);
}

static bool was_told(const struct agent *a, const struct local_rank *r)
{
    char byte = 0;
    return a->told >= 0 && pread(a->told, &byte, 1, (off_t)r->rank) == 1
           && byte;
}

static bool start_ranks(struct agent *a)
{
    char why[256] = "";
    cpu_set_t *cpus = NULL;
    bool good = add_told(a);
    if (a->flags & AGENT_BIND)
        cpus = bind_choose(a->nranks, why, sizeof(why));
    if (*why)
        link_send_text(&a->link, FRAME_NOTE, 0, why);
    a->started = true;
    for (int i = 0; good && i < a->nranks; i++)
        good = start_rank(a, &a->ranks[i], cpus ? &cpus[i] : NULL);
    free(cpus);
    return good;
}

static void signal_ranks(const struct agent *a, int signal)
{
    for (int i = 0; i < a->nranks; i++)
        if (!a->ranks[i].exited)
            kill(-a->ranks[i].pid, signal);
}

static bool take_input(struct agent *a, const struct frame *frame)
{
    if (!a->started || a->input_from < a->input_to)
        return false;
    if (a->input_fd < 0 || frame->number != a->input_rank)
        return true; /* the rank has ended or closed its stdin meanwhile */
    if (!frame->bytes) {
        close(a->input_fd);
        a->input_fd = -1;
        return true;
    }
    if (!a->input && !(a->input = malloc(LINK_PAYLOAD_MAX)))
        abort();
    memcpy(a->input, frame->data, frame->bytes);
    a->input_from = 0;
    a->input_to = frame->bytes;
    return true;
}

static void pass_input(struct agent *a)
{
    const ssize_t wrote = write(a->input_fd, a->input + a->input_from,
                                a->input_to - a->input_from);
    if (wrote < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (wrote < 0) { /* nobody reads: never ask for more */
        close(a->input_fd);
        a->input_fd = -1;
        a->input_to = a->input_from;
        return;
    }
    a->input_from += (size_t)wrote;
    if (a->input_from == a->input_to)
        link_send(&a->link, FRAME_TAKEN, a->input_rank, NULL, 0);
}

/* What the ranks are to be; only before they start. */
static bool describe(struct agent *a, const struct frame *frame)
{
    if (a->started)
        return false;
    switch (frame->type) {
    case FRAME_ARG:
        return add_string(&a->argv, frame);
    case FRAME_ENV:
        return memchr(frame->data, '=', frame->bytes)
               && add_string(&a->env, frame);
    case FRAME_RANK:
        return add_rank(a, frame->number);
    case FRAME_FLAGS:
        a->flags = frame->number;
        return true;
    case FRAME_CWD:
        free(a->cwd);
        a->cwd = strndup(frame->data, frame->bytes);
        return a->cwd;
    default:
        return a->argv.count && a->nranks && start_ranks(a); /* FRAME_START */
    }
}

/* False: a frame that collrun does not send, or ranks that do not start. */
static bool obey(struct agent *a, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_PORT:
        link_send(&a->link, FRAME_PORT, free_port(), NULL, 0);
        return true;
    case FRAME_CWD:
    case FRAME_ARG:
    case FRAME_ENV:
    case FRAME_RANK:
    case FRAME_FLAGS:
    case FRAME_START:
        return describe(a, frame);
    case FRAME_INPUT:
        return take_input(a, frame);
    case FRAME_SIGNAL:
        if (frame->number < 1 || frame->number >= (uint32_t)SIGRTMIN)
            return false;
        signal_ranks(a, (int)frame->number);
        return true;
    default:
        return false;
    }
}

static bool obey_all(struct agent *a)
{
    struct frame frame;
    int got;
    if (!link_receive(&a->link))
        return false;
    while ((got = link_next(&a->link, &frame)) > 0)
        if (!obey(a, &frame))
            return false;
    return got == 0;
}

static void report_exit(struct agent *a, pid_t pid, int status)
{
    for (int i = 0; i < a->nranks; i++) {
        struct local_rank *r = &a->ranks[i];
        char payload[5];
        if (r->exited || r->pid != pid)
            continue;
        drain(a, r, &r->out);
        drain(a, r, &r->err);
        r->exited = true;
        a->nrunning--;
        link_put32(payload, (uint32_t)status);
        payload[4] = was_told(a, r);
        link_send(&a->link, FRAME_EXITED, r->rank, payload, sizeof(payload));
        return;
    }
}

/* Collects dead children; false if there is none left, dead or alive. */
static bool collect(struct agent *a)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        report_exit(a, pid, status);
    return pid == 0;
}

/* Once the ranks have ended, their orphans get a moment, then a hint, then the
 * axe. False when none is left. */
static bool tend_leftovers(struct agent *a)
{
    const bool some = collect(a);
    if (!a->leftovers_since)
        a->leftovers_since = now();
    const double ms = 1e3 * (now() - a->leftovers_since);
    if (some && ms > LEFTOVERS_KILL_MS) {
        reap_all();
        return false;
    }
    if (some && ms > LEFTOVERS_TERM_MS && !a->leftovers_asked) {
        a->leftovers_asked = true;
        reap_signal(SIGTERM);
    }
    return some;
}

/* Everything that can wake the agent; streams are last, two for each rank. */
enum { POLL_LINK_IN, POLL_LINK_OUT, POLL_SIGNALS, POLL_INPUT, POLL_STREAMS };

static void prepare(const struct agent *a, struct pollfd *fds)
{
    const bool room = link_pending(&a->link) < QUEUE_ENOUGH;
    const bool input = a->input_fd >= 0 && a->input_from < a->input_to;
    fds[POLL_LINK_IN] = (struct pollfd){a->link.in, POLLIN, 0};
    fds[POLL_LINK_OUT] =
        (struct pollfd){link_pending(&a->link) ? a->link.out : -1, POLLOUT, 0};
    fds[POLL_SIGNALS] = (struct pollfd){a->signals, POLLIN, 0};
    fds[POLL_INPUT] = (struct pollfd){input ? a->input_fd : -1, POLLOUT, 0};
    for (int i = 0; i < a->nranks; i++) {
        struct pollfd *pair = fds + POLL_STREAMS + 2 * i;
        const struct local_rank *r = &a->ranks[i];
        pair[0] = (struct pollfd){room ? r->out.fd : -1, POLLIN, 0};
        pair[1] = (struct pollfd){room ? r->err.fd : -1, POLLIN, 0};
    }
}

/* False: the link is closed, or we are told to end. */
static bool serve_signals(struct agent *a)
{
    struct signalfd_siginfo info;
    while (read(a->signals, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            return false;
    collect(a);
    return true;
}

static bool react(struct agent *a, const struct pollfd *fds, int nstreams)
{
    if (fds[POLL_INPUT].revents)
        pass_input(a);
    for (int i = 0; i < nstreams; i++) {
        struct local_rank *r = &a->ranks[i / 2];
        struct stream *s = i % 2 ? &r->err : &r->out;
        if (fds[POLL_STREAMS + i].revents && s->fd >= 0)
            read_stream(a, r, s);
    }
    if (fds[POLL_SIGNALS].revents && !serve_signals(a))
        return false;
    return !fds[POLL_LINK_IN].revents || obey_all(a);
}

/* The last words: output that is still in the pipes, then all that is queued.
 */
static void finish(struct agent *a)
{
    for (int i = 0; i < a->nranks; i++) {
        struct local_rank *r = &a->ranks[i];
        drain(a, r, &r->out);
        drain(a, r, &r->err);
        send_line(a, r, &r->out, r->out.used);
        send_line(a, r, &r->err, r->err.used);
    }
    struct pollfd out = {a->link.out, POLLOUT, 0};
    while (link_pending(&a->link) && poll(&out, 1, -1) >= 0
           && link_flush(&a->link))
        continue;
}

/* True if the ranks ended by themselves. */
static bool run(struct agent *a)
{
    struct pollfd *fds = NULL;
    bool going = true, some = true;
    while (going && some) {
        const int nstreams = 2 * a->nranks;
        fds = realloc(fds, (size_t)(POLL_STREAMS + nstreams) * sizeof(*fds));
        if (!fds)
            abort();
        prepare(a, fds);
        const bool ended = a->started && !a->nrunning;
        const int got =
            poll(fds, (nfds_t)(POLL_STREAMS + nstreams), ended ? 20 : -1);
        if (got > 0)
            going = react(a, fds, nstreams);
        if (a->started && !a->nrunning)
            some = tend_leftovers(a);
        going = link_flush(&a->link) && going;
    }
    free(fds);
    return going;
}

static void release(struct agent *a)
{
    for (int i = 0; i < a->nranks; i++) {
        free(a->ranks[i].out.line);
        free(a->ranks[i].err.line);
    }
    for (int i = 0; i < a->argv.count; i++)
        free(a->argv.items[i]);
    for (int i = 0; i < a->env.count; i++)
        free(a->env.items[i]);
    free(a->argv.items);
    free(a->env.items);
    free(a->ranks);
    free(a->cwd);
    free(a->input);
    if (a->told >= 0)
        close(a->told);
    link_close(&a->link);
}

int agent_serve(int in, int out)
{
    struct agent agent = {.input_fd = -1, .told = -1};
    sigset_t set;
    reap_adopt();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    agent.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    link_open(&agent.link, in, out);
    link_send_text(&agent.link, FRAME_HELLO, 0, "libcoll " COLL_BUILD_VERSION);
    const bool good =
        agent.signals >= 0 && link_flush(&agent.link) && run(&agent);
    if (!good) {
        signal_ranks(&agent, SIGKILL);
        reap_all();
        link_flush(&agent.link);
    } else {
        finish(&agent);
    }
    release(&agent);
    return good ? 0 : 1;
}
