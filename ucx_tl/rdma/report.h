/*
 * What gpucoll_info says of the network.
 */
#ifndef GPUCOLL_RDMA_REPORT_H
#define GPUCOLL_RDMA_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include "core/base/config.h"
#include "core/base/log.h"

/* UCX's version, the devices and which are chosen, the kinds of memory that UCX takes. False after an error that has been shown. */
bool gpucoll_net_report(const struct gpucoll_config *config, const struct gpucoll_log *log, FILE *file);

#endif
