/* SPDX-License-Identifier: MIT */
#include "programs/job.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "programs/describe.h"
#include "programs/output.h"
#include "programs/report.h"

enum {
    DEFAULT_START_SECONDS = 60,
    OUTPUT_ENOUGH = 1024 * 1024, /* agents wait while more is queued */
    AGENT_END_MS = 1000,         /* how long an agent may outlive its link */
};

/* A failed job gets SIGTERM, this much later SIGKILL, and is then left to its
 * agents, which kill what they have when their links close. */
static const double kill_after_seconds = 2, drop_after_seconds = 4;
static const double over_after_seconds = 5; /* of the first failure */

/* So long one that has failed first may take to end after those it has told,
 * and those it tells after it: ended at once, rank 0 would take the news that
 * it passes on with it. */
static const double first_after_seconds = 2, told_after_seconds = .25;

/* The end of a host as collrun sees it. */
struct host_agent {
    pid_t pid; /* 0: collected */
    struct link link;
    bool greeted;
};

struct job {
    const struct job_options *options;
    struct host_agent *agents;
    struct rank_result *ranks;
    struct output out, err;
    int nopen, ngreeted, nends;
    bool described; /* the agents know what to run */
    bool ending, input_wanted;
    uint64_t sent;      /* signals, as bits */
    int interrupted_by; /* first signal that asked collrun itself to end */
    int passed_on;      /* the last that did not */
    int fatal;          /* exit status if the job could not be started */
    double greet_by, end_at, kill_at, drop_at;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void say(struct job *j,
                                                      const char *format, ...)
{
    char line[1536];
    va_list args;
    const int used = snprintf(line, sizeof(line), "%s: ", j->options->name);
    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
    va_end(args);
    output_note(&j->err, line);
}

static const char *host_name(const struct job *j, int host)
{
    return j->options->hosts.names[host];
}

/* Ending. */

static void send_signal(struct job *j, int signal)
{
    j->sent |= (uint64_t)1 << signal;
    for (int i = 0; i < j->options->hosts.count; i++)
        link_send(&j->agents[i].link, FRAME_SIGNAL, (uint32_t)signal, NULL, 0);
}

static void close_agent(struct job *j, int host)
{
    if (j->agents[host].link.in >= 0) {
        link_close(&j->agents[host].link);
        j->nopen--;
    }
}

static void drop_all(struct job *j)
{
    for (int i = 0; i < j->options->hosts.count; i++)
        close_agent(j, i);
}

static void end_job(struct job *j)
{
    if (j->ending)
        return;
    j->ending = true;
    j->end_at = INFINITY;
    send_signal(j, SIGTERM);
    j->kill_at = now() + kill_after_seconds;
    j->drop_at = fmin(j->drop_at, now() + drop_after_seconds);
}

static void kill_job(struct job *j)
{
    j->ending = true;
    j->end_at = j->kill_at = INFINITY;
    send_signal(j, SIGKILL);
    j->drop_at =
        fmin(j->drop_at, now() + drop_after_seconds - kill_after_seconds);
}

/* The job cannot be started: nothing to be gentle with. */
static void give_up(struct job *j, int status)
{
    if (!j->fatal)
        j->fatal = status;
    j->ending = true;
    drop_all(j);
}

static void interrupt(struct job *j, int signal)
{
    if (signal == SIGUSR1 || signal == SIGUSR2) {
        j->passed_on = signal;
        send_signal(j, signal);
    } else if (!j->described) {
        j->interrupted_by = signal;
        give_up(j, 128 + signal);
    } else if (j->interrupted_by) {
        kill_job(j);
    } else {
        j->interrupted_by = signal;
        send_signal(j, signal);
    }
}

/* Starting. */

static void start_agents(struct job *j)
{
    const struct hosts *hosts = &j->options->hosts;
    for (int i = 0; i < hosts->count && !j->fatal; i++) {
        struct host_agent *a = &j->agents[i];
        a->pid = remote_start(&j->options->remote, hosts->names[i], &a->link);
        if (a->pid < 0) {
            say(j, "host %s: cannot start its agent: %s", hosts->names[i],
                strerror(errno));
            a->pid = 0;
            a->link.in = -1;
            give_up(j, 1);
        } else {
            j->nopen++;
        }
    }
}

/* All agents are there, and rank 0's host has a free port. */
static void describe_all(struct job *j, uint32_t port)
{
    const struct hosts *hosts = &j->options->hosts;
    char address[300], root[320], key[33];
    if (!port || port > 65535 || !describe_make_key(key)) {
        say(j, "host %s: found no free TCP port, or no random numbers",
            hosts->names[hosts->host_of[0]]);
        give_up(j, 1);
        return;
    }
    remote_address(hosts->names[hosts->host_of[0]], hosts->count == 1, address,
                   sizeof(address));
    snprintf(root, sizeof(root), "%s:%u", address, port);
    if (j->options->verbose)
        say(j, "ranks: %d, hosts: %d, rank 0 listens on %s", hosts->nranks,
            hosts->count, root);
    j->described = true;
    j->greet_by = INFINITY;
    for (int i = 0; i < hosts->count; i++)
        describe_job(&j->agents[i].link, j->options, i, root, key);
}

/* What agents send. Each returns false for a frame that makes no sense. */

static bool greet(struct job *j, int host, const struct frame *frame)
{
    static const char expected[] = "libcoll " COLL_BUILD_VERSION;
    const struct hosts *hosts = &j->options->hosts;
    if (j->agents[host].greeted)
        return false;
    if (frame->bytes != sizeof(expected) - 1
        || memcmp(frame->data, expected, frame->bytes)) {
        say(j,
            "host %s: its collrun is of %.*s, this one of %s; name the "
            "right one with --collrun PATH",
            host_name(j, host), (int)(frame->bytes < 40 ? frame->bytes : 40),
            frame->data, expected);
        give_up(j, 1);
        return true;
    }
    j->agents[host].greeted = true;
    if (++j->ngreeted == hosts->count)
        link_send(&j->agents[hosts->host_of[0]].link, FRAME_PORT, 0, NULL, 0);
    return true;
}

static bool note_start(struct job *j, int r, const struct frame *frame)
{
    struct rank_result *rank = &j->ranks[r];
    if (rank->state != RANK_WAITING || frame->bytes < 4)
        return false;
    rank->state = RANK_RUNNING;
    rank->pid = (pid_t)link_get32(frame->data);
    if (r == 0)
        j->input_wanted = true;
    if (j->options->verbose)
        say(j, "rank %d on %s: pid %d, %.*s", r,
            host_name(j, j->options->hosts.host_of[r]), (int)rank->pid,
            (int)frame->bytes - 4, frame->data + 4);
    return true;
}

/* A rank that handled our signal usually says so by 128 + signal. */
static bool ended_by(uint64_t sent, int status)
{
    const int code = WEXITSTATUS(status);
    const int signal = WIFSIGNALED(status)        ? WTERMSIG(status)
                       : code > 128 && code < 192 ? code - 128
                                                  : 0;
    return signal && (sent >> signal & 1);
}

static bool note_exit(struct job *j, int r, const struct frame *frame)
{
    struct rank_result *rank = &j->ranks[r];
    if (rank->state != RANK_RUNNING || frame->bytes != 5)
        return false;
    const int status = (int)link_get32(frame->data);
    if (!WIFEXITED(status) && !WIFSIGNALED(status))
        return false;
    rank->state = RANK_EXITED;
    rank->status = status;
    rank->order = ++j->nends;
    rank->ended_by_us = ended_by(j->sent, status);
    rank->told = frame->data[4];
    if (r == 0)
        j->input_wanted = false;
    if (status && !j->options->keep_going && !j->ending) {
        j->end_at = fmin(
            j->end_at,
            now() + (rank->told ? first_after_seconds : told_after_seconds));
        j->drop_at = fmin(j->drop_at, now() + over_after_seconds);
    }
    return true;
}

static void note_failure(struct job *j, int r, const struct frame *frame)
{
    if (!j->fatal)
        say(j, "host %s: rank %d: %.*s",
            host_name(j, j->options->hosts.host_of[r]), r, (int)frame->bytes,
            frame->data);
    give_up(j, 2);
}

static bool rank_frame(struct job *j, int host, const struct frame *frame)
{
    const struct hosts *hosts = &j->options->hosts;
    const int r = (int)frame->number;
    if (frame->number >= (uint32_t)hosts->nranks || hosts->host_of[r] != host
        || !j->described)
        return false;
    switch (frame->type) {
    case FRAME_STARTED:
        return note_start(j, r, frame);
    case FRAME_OUT:
        output_add(&j->out, r, frame->data, frame->bytes);
        return true;
    case FRAME_ERR:
        output_add(&j->err, r, frame->data, frame->bytes);
        return true;
    case FRAME_TAKEN:
        j->input_wanted = r == 0 && j->ranks[0].state == RANK_RUNNING;
        return r == 0;
    case FRAME_EXITED:
        return note_exit(j, r, frame);
    case FRAME_FAILED:
        note_failure(j, r, frame);
        return true;
    default:
        return false;
    }
}

static bool handle(struct job *j, int host, const struct frame *frame)
{
    if (frame->type == FRAME_HELLO)
        return greet(j, host, frame);
    if (!j->agents[host].greeted)
        return false;
    if (frame->type == FRAME_PORT) {
        if (host != j->options->hosts.host_of[0] || j->described)
            return false;
        describe_all(j, frame->number);
        return true;
    }
    if (frame->type == FRAME_NOTE) {
        if (j->options->verbose)
            say(j, "host %s: %.*s", host_name(j, host), (int)frame->bytes,
                frame->data);
        return true;
    }
    return rank_frame(j, host, frame);
}

/* "ssh exited with status 255" */
static void describe_end(const struct job *j, int host, int status, char *text,
                         size_t size)
{
    const char *rsh = j->options->remote.rsh;
    const int word = (int)strcspn(rsh, " ");
    const bool local = remote_is_local(host_name(j, host));
    if (WIFSIGNALED(status))
        snprintf(text, size, "%.*s was killed by signal %d", local ? 9 : word,
                 local ? "the agent" : rsh, WTERMSIG(status));
    else
        snprintf(text, size, "%.*s exited with status %d", local ? 9 : word,
                 local ? "the agent" : rsh, WEXITSTATUS(status));
}

/* The agent's link is closed: all well if its ranks have ended. */
static void note_agent_end(struct job *j, int host)
{
    struct host_agent *a = &j->agents[host];
    const struct hosts *hosts = &j->options->hosts;
    const bool greeted = a->greeted;
    char how[256];
    int nlost = 0;
    close_agent(j, host);
    describe_end(j, host, remote_wait(a->pid, AGENT_END_MS), how, sizeof(how));
    a->pid = 0;
    for (int r = 0; r < hosts->nranks; r++) {
        struct rank_result *rank = &j->ranks[r];
        if (hosts->host_of[r] != host || rank->state == RANK_EXITED)
            continue;
        rank->state = RANK_LOST;
        rank->order = ++j->nends;
        nlost++;
    }
    if (!greeted) {
        say(j, "host %s: cannot be reached, or has no %s (see --collrun): %s",
            host_name(j, host), j->options->remote.collrun, how);
        give_up(j, 1);
    } else if (nlost && !j->fatal) {
        say(j, "host %s: lost with %d ranks: %s", host_name(j, host), nlost,
            how);
        if (!j->options->keep_going)
            end_job(j);
    }
}

/* Bytes that are no frame: most often a login script that prints. */
static void note_nonsense(struct job *j, int host)
{
    const struct link *link = &j->agents[host].link;
    char start[33] = "";
    const size_t from = j->agents[host].greeted ? link->received_from : 0;
    for (size_t i = 0; i < 32 && from + i < link->received_to; i++) {
        const char c = link->received[from + i];
        start[i] = c >= ' ' && c <= '~' ? c : '.';
    }
    say(j,
        "host %s: found \"%s\" where its agent should speak; does its login "
        "shell print text?",
        host_name(j, host), start);
    if (j->agents[host].greeted)
        note_agent_end(j, host);
    else
        give_up(j, 1);
}

static void receive(struct job *j, int host)
{
    struct link *link = &j->agents[host].link;
    struct frame frame;
    int got = 0;
    if (!link_receive(link)) {
        note_agent_end(j, host);
        return;
    }
    while (link->in >= 0 && (got = link_next(link, &frame)) > 0)
        if (!handle(j, host, &frame))
            got = -1;
    if (link->in >= 0 && got < 0)
        note_nonsense(j, host);
}

/* The loop. */

static void read_signals(struct job *j)
{
    struct signalfd_siginfo info;
    while (read(j->options->signals, &info, sizeof(info)) == sizeof(info))
        interrupt(j, (int)info.ssi_signo);
}

/* stdin goes to rank 0, a frame at a time. An error, such as that of a
 * background job that must not read the terminal, counts as its end. */
static void read_input(struct job *j)
{
    char data[64 * 1024];
    const ssize_t got = read(STDIN_FILENO, data, sizeof(data));
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    j->input_wanted = false;
    link_send(&j->agents[j->options->hosts.host_of[0]].link, FRAME_INPUT, 0,
              data, got > 0 ? (size_t)got : 0);
}

static void check_deadlines(struct job *j)
{
    const double t = now();
    if (t >= j->greet_by) {
        for (int i = 0; i < j->options->hosts.count; i++)
            if (!j->agents[i].greeted)
                say(j,
                    "host %s: its agent did not answer in time (--timeout "
                    "sets how long to wait)",
                    host_name(j, i));
        give_up(j, 1);
    }
    if (t >= j->end_at)
        end_job(j);
    if (t >= j->kill_at)
        kill_job(j);
    if (t >= j->drop_at)
        drop_all(j);
}

static int milliseconds_left(const struct job *j)
{
    const double next =
        fmin(fmin(j->greet_by, j->end_at), fmin(j->kill_at, j->drop_at));
    const double ms = ceil(1e3 * (next - now()));
    return isinf(next) ? -1 : ms < 0 ? 0 : (int)fmin(ms, 1e6);
}

static int pollable(const struct output *o)
{
    return output_pending(o) ? o->fd : -1;
}

enum { POLL_SIGNALS, POLL_STDIN, POLL_STDOUT, POLL_STDERR, POLL_AGENTS };

static void prepare(const struct job *j, struct pollfd *fds)
{
    const bool room = output_pending(&j->out) < OUTPUT_ENOUGH
                      && output_pending(&j->err) < OUTPUT_ENOUGH;
    fds[POLL_SIGNALS] = (struct pollfd){j->options->signals, POLLIN, 0};
    fds[POLL_STDIN] =
        (struct pollfd){j->input_wanted ? STDIN_FILENO : -1, POLLIN, 0};
    fds[POLL_STDOUT] = (struct pollfd){pollable(&j->out), POLLOUT, 0};
    fds[POLL_STDERR] = (struct pollfd){pollable(&j->err), POLLOUT, 0};
    for (int i = 0; i < j->options->hosts.count; i++) {
        struct pollfd *pair = fds + POLL_AGENTS + 2 * i;
        const struct link *link = &j->agents[i].link;
        pair[0] = (struct pollfd){room ? link->in : -1, POLLIN, 0};
        pair[1] =
            (struct pollfd){link_pending(link) ? link->out : -1, POLLOUT, 0};
    }
}

static void flush_outputs(struct job *j, const struct pollfd *fds)
{
    const bool broken = j->out.broken;
    if (fds[POLL_STDOUT].revents)
        output_flush(&j->out);
    if (fds[POLL_STDERR].revents)
        output_flush(&j->err);
    if (j->out.broken && !broken) { /* as if the ranks had written there */
        send_signal(j, SIGPIPE);
        end_job(j);
    }
}

static void loop(struct job *j)
{
    const int nhosts = j->options->hosts.count;
    const nfds_t nfds = POLL_AGENTS + 2 * (nfds_t)nhosts;
    struct pollfd *fds = calloc(nfds, sizeof(*fds));
    if (!fds)
        abort();
    while (j->nopen || output_pending(&j->out) || output_pending(&j->err)) {
        for (int i = 0; i < nhosts; i++)
            link_flush(&j->agents[i].link);
        prepare(j, fds);
        const int got = poll(fds, nfds, j->nopen ? milliseconds_left(j) : -1);
        if (got > 0 && fds[POLL_SIGNALS].revents) {
            read_signals(j);
            if (!j->nopen) /* only the reader of our output keeps us */
                break;
        }
        if (got > 0)
            flush_outputs(j, fds);
        if (got > 0 && fds[POLL_STDIN].revents && j->input_wanted)
            read_input(j);
        for (int i = 0; got > 0 && i < nhosts; i++)
            if (fds[POLL_AGENTS + 2 * i].revents && j->agents[i].link.in >= 0)
                receive(j, i);
        if (j->nopen)
            check_deadlines(j);
    }
    free(fds);
}

/* Agents whose links we closed kill their ranks now. */
static void collect_agents(struct job *j)
{
    const double until = now() + 1e-3 * AGENT_END_MS;
    for (int i = 0; i < j->options->hosts.count; i++) {
        const double left = fmax(0, until - now());
        if (j->agents[i].pid > 0)
            remote_wait(j->agents[i].pid, (int)(1e3 * left));
    }
}

static void mark_unended(struct job *j)
{
    for (int r = 0; r < j->options->hosts.nranks; r++) {
        struct rank_result *rank = &j->ranks[r];
        if (rank->state == RANK_WAITING || rank->state == RANK_RUNNING) {
            rank->state = RANK_LOST;
            rank->order = ++j->nends;
            rank->ended_by_us = true;
        }
    }
}

static struct job_end conclude(struct job *j)
{
    const struct hosts *hosts = &j->options->hosts;
    if (j->fatal)
        return (struct job_end){.status = j->fatal};
    if (j->out.broken && j->out.cause == EPIPE)
        return (struct job_end){.status = 128 + SIGPIPE};
    if (j->out.broken) {
        fprintf(stderr, "%s: cannot write to standard output: %s\n",
                j->options->name, strerror(j->out.cause));
        return (struct job_end){.status = 1};
    }
    const int status = report_status(j->ranks, hosts->nranks);
    if (j->err.owner >= 0 && status)
        fputc('\n', stderr);
    report(j->options->name, hosts, j->ranks, j->interrupted_by, j->passed_on);
    return (struct job_end){.status = status,
                            .retry = status && !j->interrupted_by};
}

struct job_end job_run(const struct job_options *options)
{
    const struct hosts *hosts = &options->hosts;
    const double start =
        options->timeout > 0 ? options->timeout : DEFAULT_START_SECONDS;
    struct job job = {
        .options = options,
        .agents = calloc((size_t)hosts->count, sizeof(*job.agents)),
        .ranks = calloc((size_t)hosts->nranks, sizeof(*job.ranks)),
        .out = {.fd = STDOUT_FILENO, .label = options->label, .owner = -1},
        .err = {.fd = STDERR_FILENO, .label = options->label, .owner = -1},
        .greet_by = now() + start,
        .end_at = INFINITY,
        .kill_at = INFINITY,
        .drop_at = INFINITY,
    };
    if (!job.agents || !job.ranks)
        abort();
    for (int i = 0; i < hosts->count; i++)
        job.agents[i].link = (struct link){.in = -1, .out = -1};
    start_agents(&job);
    loop(&job);
    collect_agents(&job);
    mark_unended(&job);
    const struct job_end end = conclude(&job);
    free(job.agents);
    free(job.ranks);
    free(job.out.queue);
    free(job.err.queue);
    return end;
}
