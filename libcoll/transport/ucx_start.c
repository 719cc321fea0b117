/* SPDX-License-Identifier: MIT */
#include "transport/ucx_start.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"

/* Which of UCX's transports to use; NULL leaves it to UCX. Those that let one
 * process write into another's memory behind its back (cma, xpmem, knem) are
 * left out: cancel() could not stop them. */
static const char *choose_tls(const struct transport_job *job)
{
    const char *chosen = setting_text(SETTING_UCX_TLS);
    int local = 0;
    for (int r = 0; r < job->nranks; r++)
        local += job->host_of[r] == job->host_of[job->rank];
    if (*chosen)
        return chosen;
    if (getenv("UCX_TLS"))
        return NULL;
    if (local == job->nranks) /* no network, so no open port */
        return "posix,sysv,self";
    if (local > 1 && !strcmp(setting_text(SETTING_TRANSPORT), "ucx"))
        return "^cma,xpmem,knem";
    return "^posix,sysv,cma,xpmem,knem";
}

/* Appends ",mlx5_0:1" for each port of each InfiniBand or RoCE device. */
static void add_rdma_ports(char *list, size_t bytes)
{
    glob_t found;
    if (glob("/sys/class/infiniband/*/ports/*", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char device[64], port[16];
            const size_t used = strlen(list);
            if (sscanf(found.gl_pathv[i],
                       "/sys/class/infiniband/%63[^/]/ports/%15s", device, port)
                == 2)
                snprintf(list + used, bytes - used, ",%s:%s", device, port);
        }
    globfree(&found);
}

static bool has_rdma(void)
{
    char ports[64] = "";
    add_rdma_ports(ports, sizeof(ports));
    return *ports;
}

static bool names_devices(void)
{
    return *setting_text(SETTING_UCX_NET_DEVICES) || getenv("UCX_NET_DEVICES");
}

bool transport_one_rail(void)
{
    return names_devices() || (!*setting_text(SETTING_INTERFACE) && has_rdma());
}

/* Of the interfaces that speak IP only the rails are known to lead to the
 * others. UCX would connect over any, and wait for minutes, in a system call,
 * where packets vanish. RDMA ports are all UCX's, who has rails of its own. */
static const char *choose_devices(const struct transport_rail *rail, char *list,
                                  size_t bytes)
{
    const char *chosen = setting_text(SETTING_UCX_NET_DEVICES);
    if (*chosen)
        return chosen;
    if (getenv("UCX_NET_DEVICES"))
        return NULL;
    chosen = setting_text(SETTING_INTERFACE);
    if (!rail)
        return *chosen ? chosen : NULL;
    snprintf(list, bytes, "%s", rail->interface);
    if (!*chosen)
        add_rdma_ports(list, bytes);
    return list;
}

static const double slow = 0.4e9; /* bytes per second */

static bool is_slow(const struct transport_rail *rail)
{
    return rail && rail->bytes_per_second > 0 && rail->bytes_per_second < slow;
}

/* UCX's rendezvous saves a copy, and asks the receiver first. Over slow TCP it
 * took twice the time of the wire: measured on 1 Gbit/s, where sending at once
 * takes 1.01 of it. Over fast TCP asking costs more than the copy up to half a
 * megabyte: an allreduce of 64 KiB between four hosts of one machine took 390
 * us with UCX's own threshold and 200 us with this, one of 4 MiB as long as
 * before. NULL: what UCX thinks, where cards can write to the peer's memory. */
static const char *choose_rendezvous(const struct transport_job *job,
                                     const struct transport_rail *rail)
{
    bool remote = false;
    for (int r = 0; r < job->nranks; r++)
        remote |= job->host_of[r] != job->host_of[job->rank];
    if (getenv("UCX_RNDV_THRESH") || !remote || has_rdma())
        return NULL;
    return is_slow(rail) ? "inf" : "512k";
}

/* Whether the kernel lets a socket have a buffer of so many bytes, which it
 * counts twice. */
static bool may_receive(int bytes)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int has = 0;
    socklen_t length = sizeof(has);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &has, &length);
    close(fd);
    return has >= 2 * bytes;
}

/* Left to itself TCP's window grows until the queue before a slow port is full,
 * where acknowledgements of the other direction wait as well: they came after
 * 40 ms on a way of 0.2, and 16 MiB between four hosts of 1 Gbit/s took 300 ms
 * instead of 235 (100 us of delay), as soon as one algorithm had filled the
 * queues. A connection that was idle begins with little, and before it doubles
 * that it waits for acknowledgements, behind all of a window of the other
 * direction: messages that crossed on a link of 250 Mbit/s took up to half as
 * long again with 1 MiB. So the window is short: what passes in the time for
 * which a rank may have to wait for a processor, or five times what is under
 * way on the fastest of slow links between two hosts, of which each may be as
 * far from where ranks meet as the farthest. NULL: what TCP thinks. */
static const char *choose_window(const struct transport_rail *rail, char *text,
                                 size_t bytes)
{
    enum { LEAST = 128 << 10, MOST = 1 << 20 };
    static const double wait_seconds = 2e-3;
    int window = MOST;
    if (!is_slow(rail) || getenv("UCX_TCP_RCVBUF"))
        return NULL;
    if (rail->round_trip > 0) {
        const double enough = fmax(wait_seconds * rail->bytes_per_second,
                                   5 * slow * 2 * rail->round_trip);
        window = (int)fmin(fmax(enough, LEAST), MOST);
    }
    snprintf(text, bytes, "%d", window);
    return may_receive(window) ? text : NULL;
}

/* UCX connects to one rank after another, each in a system call that waits for
 * a round trip. Where those take milliseconds it is to connect to all at once.
 * Elsewhere it is left alone: it warns of connections that busy machines reset.
 * NULL: what UCX thinks. */
static const char *choose_waiting(const struct transport_rail *rail)
{
    static const double far_seconds = 2e-3;
    return rail && rail->round_trip > far_seconds && !getenv("UCX_TCP_CONN_NB")
               ? "y"
               : NULL;
}

static ucs_status_t configure(const struct ucx_api *api, const char *tls,
                              const char *devices, const char *rendezvous,
                              const char *window, const char *at_once,
                              ucp_config_t **config)
{
    ucs_status_t status = api->ucp_config_read(NULL, NULL, config);
    if (status == UCS_OK && tls)
        status = api->ucp_config_modify(*config, "TLS", tls);
    if (status == UCS_OK && devices)
        status = api->ucp_config_modify(*config, "NET_DEVICES", devices);
    if (status == UCS_OK && rendezvous)
        status = api->ucp_config_modify(*config, "RNDV_THRESH", rendezvous);
    /* Older releases know it by the shorter name, newer ones by the longer;
     * without it all works as well. */
    if (status == UCS_OK && window) {
        api->ucp_config_modify(*config, "RCVBUF", window);
        api->ucp_config_modify(*config, "TCP_RCVBUF", window);
    }
    if (status == UCS_OK && at_once) {
        api->ucp_config_modify(*config, "CONN_NB", at_once);
        api->ucp_config_modify(*config, "TCP_CONN_NB", at_once);
    }
    return status;
}

coll_status ucx_start(const struct ucx_api *api,
                      const struct transport_job *job,
                      const struct transport_rail *rail, ucp_context_h *context,
                      ucp_worker_h *worker)
{
    char list[512], window[16];
    const char *tls = choose_tls(job);
    const char *devices = choose_devices(rail, list, sizeof(list));
    const ucp_params_t params = {
        .field_mask =
            UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)job->nranks,
    };
    const ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    ucp_config_t *config = NULL;
    ucs_status_t status =
        configure(api, tls, devices, choose_rendezvous(job, rail),
                  choose_window(rail, window, sizeof(window)),
                  choose_waiting(rail), &config);
    if (status == UCS_OK)
        status = api->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params,
                                       config, context);
    if (config)
        api->ucp_config_release(config);
    if (status == UCS_OK)
        status = api->ucp_worker_create(*context, &worker_params, worker);
    if (status == UCS_OK)
        return COLL_OK;
    return fail(COLL_ERR_UNSUPPORTED, "ucx",
                "UCX cannot start with transports \"%s\" and devices \"%s\": "
                "%s",
                tls ? tls : getenv("UCX_TLS"), devices ? devices : "all",
                api->ucs_status_string(status));
}
