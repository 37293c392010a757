/*
 * --select and --explain for ranks on several hosts: what such a call is made of.
 */
#include "tools/info_hosts.h"

#include <stdio.h>
#include <string.h>
#include "core/cluster.h"
#include "core/rail.h"

/* Of a collective, along a rail: one rank of each host. */
static bool find_rail(enum gpucoll_coll coll, enum gpucoll_rail_coll *rail)
{
    switch (coll) {
    case GPUCOLL_ALLREDUCE:
        *rail = GPUCOLL_RAIL_ALLREDUCE;
        return true;
    case GPUCOLL_REDUCE:
        *rail = GPUCOLL_RAIL_REDUCE;
        return true;
    case GPUCOLL_BCAST:
        *rail = GPUCOLL_RAIL_BCAST;
        return true;
    case GPUCOLL_ALLGATHER:
    case GPUCOLL_ALLGATHERV:
        *rail = GPUCOLL_RAIL_ALLGATHER;
        return true;
    case GPUCOLL_REDUCE_SCATTER:
    case GPUCOLL_REDUCE_SCATTER_BLOCK:
        *rail = GPUCOLL_RAIL_REDUCE_SCATTER;
        return true;
    default:
        return false;
    }
}

/* Does the message go in parts, one a rail? Else each rail has a block for each host. */
static bool goes_in_parts(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLREDUCE || coll == GPUCOLL_REDUCE || coll == GPUCOLL_BCAST;
}

static void explain_rail(const struct info *info, const struct query *query, enum gpucoll_rail_coll coll,
                         uint64_t part)
{
    static const char *const names[] = {"doubling", "ring", "tree"};
    const uint32_t hosts = (uint32_t)query->hosts;
    const uint64_t bytes = goes_in_parts(query->input.coll) ? part : part * hosts;
    const enum gpucoll_rail_algorithm forced = gpucoll_rail_named(info->config.rail_algorithm);
    const enum gpucoll_rail_algorithm chosen =
        forced != GPUCOLL_RAIL_AUTO && gpucoll_rail_cost(coll, forced, hosts, bytes) > 0
            ? forced
            : gpucoll_rail_choose(coll, hosts, bytes);
    printf("  between the hosts, %llu bytes along each of %u rails, as by a network card of 100 Gbit/s:\n",
           (unsigned long long)bytes, query->input.nranks);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const enum gpucoll_rail_algorithm algorithm = gpucoll_rail_named(names[i]);
        const uint64_t cost = gpucoll_rail_cost(coll, algorithm, hosts, bytes);
        if (cost > 0) {
            printf("  %c %-8s        %10.1f us\n", algorithm == chosen ? '*' : ' ', names[i],
                   (double)cost / 1e3);
        }
    }
    if (forced != GPUCOLL_RAIL_AUTO) {
        printf("  (set: coll_gpucoll_rail_algorithm=%s)\n", info->config.rail_algorithm);
    }
}

/* What is set for the collective itself is of calls within a host. */
static void say_what_is_set(const struct info *info, enum gpucoll_coll coll, const enum gpucoll_coll *local)
{
    const char *forced = info->config.algorithm[coll];
    if (strcmp(forced, "auto") != 0 && local[0] != coll && local[1] != coll) {
        printf(
            "  (coll_gpucoll_%s_algorithm=%s is of calls within one host: here those of %s and %s count)\n",
            gpucoll_coll_name(coll), forced, gpucoll_coll_name(local[0]), gpucoll_coll_name(local[1]));
    }
}

bool info_select_hosts(const struct info *info, const struct query *query, info_select_fn *select)
{
    const enum gpucoll_coll coll = query->input.coll;
    const uint64_t bytes = query->input.bytes;
    const uint64_t part =
        goes_in_parts(coll) ? (bytes + query->input.nranks - 1) / query->input.nranks : bytes;
    enum gpucoll_rail_coll rail;
    enum gpucoll_coll local[2];
    bool fine = true;
    if (!gpucoll_cluster_local(coll, local)) {
        printf("  along a chain of all ranks, host by host: nothing is chosen within a host\n");
        return true;
    }
    say_what_is_set(info, coll, local);
    for (int side = 0; side < (local[0] == local[1] ? 1 : 2) && fine; side++) {
        struct query stage = *query;
        stage.input.coll = local[side];
        stage.input.functor = gpucoll_coll_reduces(local[side]) ? gpucoll_functor(query->op, query->type) : 0;
        stage.input.bytes = part;
        printf("  %s what goes between the hosts: %s\n",
               local[0] == local[1] ? "before and after"
               : side == 0          ? "before"
                                    : "after",
               gpucoll_coll_name(local[side]));
        fine = select(info, &stage);
    }
    if (bytes > 0 && find_rail(coll, &rail)) {
        explain_rail(info, query, rail, part);
    } else if (bytes > 0) {
        printf("  between the hosts from rank to rank\n");
    }
    return fine;
}
