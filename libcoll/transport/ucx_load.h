/* SPDX-License-Identifier: MIT */
/* UCX's library, loaded when first asked for and never linked.
 *
 * So a program that does not use UCX never runs its constructors, and a
 * machine without it can use the other transports. While it loads, it sees an
 * environment in which what would change the host process is off: signal
 * handlers, hooks of malloc and mmap, output, a thread for its file system.
 * Variables that the user has set win.
 */
#ifndef TRANSPORT_UCX_LOAD_H
#define TRANSPORT_UCX_LOAD_H

#include <ucp/api/ucp.h>

#include "coll/types.h"

#define UCX_FUNCTIONS(X)                                                       \
    X(ucp_config_modify)                                                       \
    X(ucp_config_read)                                                         \
    X(ucp_config_release)                                                      \
    X(ucp_cleanup)                                                             \
    X(ucp_ep_close_nbx)                                                        \
    X(ucp_ep_create)                                                           \
    X(ucp_init_version)                                                        \
    X(ucp_request_cancel)                                                      \
    X(ucp_request_check_status)                                                \
    X(ucp_request_free)                                                        \
    X(ucp_tag_recv_nbx)                                                        \
    X(ucp_tag_send_nbx)                                                        \
    X(ucp_worker_arm)                                                          \
    X(ucp_worker_create)                                                       \
    X(ucp_worker_destroy)                                                      \
    X(ucp_worker_flush_nbx)                                                    \
    X(ucp_worker_get_address)                                                  \
    X(ucp_worker_get_efd)                                                      \
    X(ucp_worker_progress)                                                     \
    X(ucp_worker_release_address)                                              \
    X(ucs_status_string)

/* __typeof__ keeps each pointer's type that of UCX's header. */
#define UCX_POINTER(name) __typeof__(&name) name;
struct ucx_api {
    UCX_FUNCTIONS(UCX_POINTER)
};
#undef UCX_POINTER

/* Thread-safe; static storage. UNSUPPORTED if the library is missing. */
coll_status ucx_load(const struct ucx_api **);

#endif
