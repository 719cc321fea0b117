/* SPDX-License-Identifier: MIT */
#include "programs/describe.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static void send_env(struct link *link, const char *name, const char *value)
{
    char text[512];
    snprintf(text, sizeof(text), "%s=%s", name, value);
    link_send_text(link, FRAME_ENV, 0, text);
}

/* Over ssh, settings come along; a local agent inherits the environment. */
static void send_settings(struct link *link)
{
    extern char **environ;
    for (char **e = environ; *e; e++)
        if (!strncmp(*e, "COLL_", 5) || !strncmp(*e, "UCX_", 4))
            link_send_text(link, FRAME_ENV, 0, *e);
}

void describe_job(struct link *link, const struct job_options *o, int host,
                  const char *root, const char *key)
{
    const bool local = remote_is_local(o->hosts.names[host]);
    char number[32], cwd[4096];
    uint32_t flags = o->bind ? AGENT_BIND : 0;
    if (local && !o->label && isatty(STDOUT_FILENO))
        flags |= AGENT_DIRECT_OUT;
    if (local && !o->label && isatty(STDERR_FILENO))
        flags |= AGENT_DIRECT_ERR;
    link_send(link, FRAME_FLAGS, flags, NULL, 0);
    if (!local)
        send_settings(link);
    for (int i = 0; i < o->env.count; i++)
        link_send_text(link, FRAME_ENV, 0, o->env.items[i]);
    snprintf(number, sizeof(number), "%d", o->hosts.nranks);
    send_env(link, "COLL_NRANKS", number);
    send_env(link, "COLL_ROOT", root);
    send_env(link, "COLL_JOB_KEY", key);
    snprintf(number, sizeof(number), "%.15g", o->timeout);
    if (o->timeout > 0)
        send_env(link, "COLL_JOIN_SECONDS", number);
    link_send_text(link, FRAME_CWD, 0, getcwd(cwd, sizeof(cwd)) ? cwd : "/");
    for (char *const *arg = o->argv; *arg; arg++)
        link_send_text(link, FRAME_ARG, 0, *arg);
    for (int r = 0; r < o->hosts.nranks; r++)
        if (o->hosts.host_of[r] == host)
            link_send(link, FRAME_RANK, (uint32_t)r, NULL, 0);
    link_send(link, FRAME_START, 0, NULL, 0);
}

bool describe_make_key(char key[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    for (int i = 0; i < 16; i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}
