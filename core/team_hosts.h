/*
 * On which host each rank of a new team is, as the team sees it: a host is a set of ranks that map each other's memory, and few enough for a
 * kernel. What goes between hosts goes by the network (core/cluster/cluster.h).
 */
#ifndef GPUCOLL_TEAM_HOSTS_H
#define GPUCOLL_TEAM_HOSTS_H

#include "core/team.h"

/* Why a machine counts as several hosts, that is not pretended to be. */
enum gpucoll_divided {
    GPUCOLL_NOT_DIVIDED,
    GPUCOLL_DIVIDED_APART, /* its ranks are in several PID namespaces (containers), where no process can open another one's memory */
    GPUCOLL_DIVIDED_CROWDED /* there are more than GPUCOLL_MAX_LOCAL: then each host is a contiguous part of them */
};

/* Room to count a host's ranks in. */
struct gpucoll_team_host {
    uint32_t lowest; /* rank */
    uint32_t ranks;
    uint32_t seen;  /* of them, while the host is divided */
    uint32_t parts; /* that these are in */
    uint32_t part;  /* number of the latest of these */
};

/*
 * Fills `host_of`, by rank, and returns how many hosts there are, numbered by their lowest rank; 0: something would have to go between hosts, and nothing
 * may, which is said at log level SETUP. `process`: of each rank; `hosts`: room for as many as there are ranks. Without memory of its own
 * and from what is equal on all ranks, so that all get the same.
 *
 * Ranks of one machine are on several hosts for a reason that `*divided` gives, and if coll_gpucoll_hosts or coll_gpucoll_transports pretend it.
 */
uint32_t gpucoll_team_find_hosts(const struct gpucoll_team *team, const struct gpucoll_process_id *process,
                                 struct gpucoll_team_host *hosts, uint32_t *host_of,
                                 enum gpucoll_divided *divided);

#endif
