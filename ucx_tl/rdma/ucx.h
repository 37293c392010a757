/*
 * The functions of UCX that gpucoll calls, found at run time: nothing is linked, so one build serves machines with and without UCX, and
 * a process that stays on one host never loads it. As UCX is loaded it sets signal handlers and patches functions of the C library. Where
 * gpucoll is the one that loads it, it does neither, unless the user asks for it by UCX's own variables.
 */
#ifndef GPUCOLL_RDMA_UCX_H
#define GPUCOLL_RDMA_UCX_H

#include <stdbool.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>
#include "core/base/log.h"

#define GPUCOLL_UCX_FUNCTIONS(F)                                                                             \
    F(ucp_config_read)                                                                                       \
    F(ucp_config_modify)                                                                                     \
    F(ucp_config_release)                                                                                    \
    F(ucp_init_version)                                                                                      \
    F(ucp_cleanup)                                                                                           \
    F(ucp_context_query)                                                                                     \
    F(ucp_mem_map)                                                                                           \
    F(ucp_mem_unmap)                                                                                         \
    F(ucp_worker_create)                                                                                     \
    F(ucp_worker_destroy)                                                                                    \
    F(ucp_worker_get_address)                                                                                \
    F(ucp_worker_release_address)                                                                            \
    F(ucp_worker_progress)                                                                                   \
    F(ucp_worker_flush_nbx)                                                                                  \
    F(ucp_ep_create)                                                                                         \
    F(ucp_ep_close_nbx)                                                                                      \
    F(ucp_ep_flush_nbx)                                                                                      \
    F(ucp_tag_send_nbx)                                                                                      \
    F(ucp_tag_recv_nbx)                                                                                      \
    F(ucp_tag_probe_nb)                                                                                      \
    F(ucp_tag_msg_recv_nbx)                                                                                  \
    F(ucp_request_cancel)                                                                                    \
    F(ucp_request_free)                                                                                      \
    F(ucp_request_check_status)                                                                              \
    F(ucp_get_version)                                                                                       \
    F(ucp_get_version_string)                                                                                \
    F(uct_query_components)                                                                                  \
    F(uct_release_component_list)                                                                            \
    F(uct_component_query)                                                                                   \
    F(uct_md_config_read)                                                                                    \
    F(uct_md_open)                                                                                           \
    F(uct_md_close)                                                                                          \
    F(uct_md_query)                                                                                          \
    F(uct_md_query_tl_resources)                                                                             \
    F(uct_release_tl_resource_list)                                                                          \
    F(uct_config_release)                                                                                    \
    F(ucs_status_string)

#define GPUCOLL_UCX_FIELD(name) __typeof__(name) *name;
struct gpucoll_ucx {
    GPUCOLL_UCX_FUNCTIONS(GPUCOLL_UCX_FIELD)
    bool
        alone; /* nobody else in this process had loaded UCX: what it does to the process is gpucoll's doing */
};
#undef GPUCOLL_UCX_FIELD

/* The process's UCX, loaded by the first call and never unloaded: others may use it too. NULL if there is none, said at log level
 * SETUP, or if it is too old, which is a warning. */
const struct gpucoll_ucx *gpucoll_ucx(const struct gpucoll_log *log);

static inline bool gpucoll_ucx_since(const struct gpucoll_ucx *ucx, unsigned major, unsigned minor)
{
    unsigned is_major, is_minor, release;
    ucx->ucp_get_version(&is_major, &is_minor, &release);
    return is_major > major || (is_major == major && is_minor >= minor);
}

#endif
