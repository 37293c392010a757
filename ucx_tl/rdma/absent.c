/*
 * The network of a build without UCX: there is none.
 */
#include "ucx_tl/net.h"
#include "ucx_tl/rdma/report.h"

static gpucoll_status open_net(const struct gpucoll_config *config, const struct gpucoll_log *log,
                               const struct gpucoll_net_place *place, struct gpucoll_net **net)
{
    (void)config;
    (void)place;
    (void)net;
    gpucoll_log(log, GPUCOLL_LOG_SETUP,
                "no network: gpucoll was built without UCX (configure --with-ucx); communicators of several "
                "hosts are left to the other components");
    return GPUCOLL_DECLINED;
}

const struct gpucoll_net_ops gpucoll_net_ucx = {.name = "ucx", .open = open_net};

bool gpucoll_net_report(const struct gpucoll_config *config, const struct gpucoll_log *log, FILE *file)
{
    (void)config;
    (void)log;
    fprintf(file, "  none: this build is without UCX (configure --with-ucx)\n");
    return true;
}
