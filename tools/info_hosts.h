/*
 * What a call of several hosts is made of, for --select and --explain.
 */
#ifndef GPUCOLL_INFO_HOSTS_H
#define GPUCOLL_INFO_HOSTS_H

#include "tools/gpucoll_info.h"
#include "tools/info_query.h"

/* Prints what is chosen for a call among the ranks of one host. */
typedef bool info_select_fn(const struct info *info, struct query *query);

/* Of a query whose ranks are on several hosts: what is chosen for the calls on each host, and between hosts. False: an error, which has been
 * said. */
bool info_select_hosts(const struct info *info, const struct query *query, info_select_fn *select);

#endif
