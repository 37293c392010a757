/*
 * --select and --explain for ranks on several hosts: what such a call is made of.
 */
#include "tools/info_hosts.h"

#include <stdio.h>
#include <string.h>
#include "core/cluster/cluster.h"
#include "core/rail/rail.h"
#include "ucx_tl/tl.h"

/* Of a collective, along a rail. */
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
    case GPUCOLL_SCAN:
        *rail = GPUCOLL_RAIL_SCAN;
        return true;
    case GPUCOLL_EXSCAN:
        *rail = GPUCOLL_RAIL_EXSCAN;
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

/* A rail and what goes along it. */
struct rail {
    enum gpucoll_rail_coll coll;
    uint32_t size;
    uint64_t bytes;
    enum gpucoll_rail_algorithm forced; /* AUTO: none is */
};

static void explain_rail(const struct info *info, const struct rail *rail)
{
    static const char *const names[] = {"doubling", "ring", "tree"};
    const bool can = gpucoll_rail_cost(rail->coll, rail->forced, rail->size, rail->bytes) > 0;
    const enum gpucoll_rail_algorithm chosen = rail->forced != GPUCOLL_RAIL_AUTO && can
                                                   ? rail->forced
                                                   : gpucoll_rail_choose(rail->coll, rail->size, rail->bytes);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const enum gpucoll_rail_algorithm algorithm = gpucoll_rail_named(names[i]);
        const uint64_t cost = gpucoll_rail_cost(rail->coll, algorithm, rail->size, rail->bytes);
        if (cost > 0) {
            printf("  %c %-8s        %10.1f us\n", algorithm == chosen ? '*' : ' ', names[i],
                   (double)cost / 1e3);
        }
    }
    if (strcmp(info->config.rail_algorithm, "auto") != 0) {
        printf("  (set: coll_gpucoll_rail_algorithm=%s)\n", info->config.rail_algorithm);
    }
}

/* Between the hosts, after calls of the ranks of a host: a rail has one rank of each host, and a part of the message or a block for each host. */
static void explain_stage(const struct info *info, const struct query *query, enum gpucoll_rail_coll coll,
                          uint64_t part)
{
    const uint32_t hosts = (uint32_t)query->hosts;
    const struct rail rail = {
        .coll = coll,
        .size = hosts,
        .bytes = goes_in_parts(query->input.coll) ? part : part * hosts,
        .forced = gpucoll_rail_named(info->config.rail_algorithm),
    };
    printf("  between the hosts, %llu bytes along each of %u rails, as by a network card of 100 Gbit/s:\n",
           (unsigned long long)rail.bytes, query->input.nranks);
    explain_rail(info, &rail);
}

/* Along the rail of all ranks, of few bytes, or of scans, which are in the order of ranks. */
static void explain_all(const struct info *info, const struct query *query, const char *why)
{
    const enum gpucoll_coll coll = query->input.coll;
    const bool chain = gpucoll_coll_is_scan(coll) && info->config.deterministic;
    struct rail rail = {
        .size = query->nranks,
        .bytes = query->input.bytes,
        .forced = chain ? GPUCOLL_RAIL_RING : gpucoll_rail_named(info->config.rail_algorithm),
    };
    (void)find_rail(coll, &rail.coll);
    printf("  along a rail of all ranks, %s, without calls within a host%s\n", why,
           rail.bytes > 0 ? ", as by a network card of 100 Gbit/s:" : "");
    if (rail.bytes > 0) {
        explain_rail(info, &rail);
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

/* Up to which size calls go so, if there is one: of those that are asked without a size. */
static uint64_t most_bytes(const struct info *info, const struct query *query, enum gpucoll_cluster_way way)
{
    uint64_t most = 0;
    for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes *= 2) {
        most = gpucoll_cluster_foresee(&info->config, query->input.coll, bytes, (uint32_t)query->hosts,
                                       query->nranks) == way
                   ? bytes
                   : most;
    }
    return most;
}

/* What of them is not as what follows. */
static void print_small(const struct info *info, const struct query *query)
{
    const uint64_t carried = most_bytes(info, query, GPUCOLL_CLUSTER_CARRIED);
    const uint64_t flat = most_bytes(info, query, GPUCOLL_CLUSTER_FLAT);
    if (carried > 0) {
        printf("  up to %llu bytes along with what the hosts tell each other (coll_gpucoll_carry)\n",
               (unsigned long long)carried);
    }
    if (flat > 0) {
        printf(
            "  up to %llu bytes along a rail of all ranks, without calls within a host (coll_gpucoll_flat)\n",
            (unsigned long long)flat);
    }
}

static bool explain_stages(const struct info *info, const struct query *query, info_select_fn *select)
{
    const enum gpucoll_coll coll = query->input.coll;
    const uint64_t bytes = query->input.bytes;
    const uint64_t part =
        goes_in_parts(coll) ? (bytes + query->input.nranks - 1) / query->input.nranks : bytes;
    enum gpucoll_rail_coll rail;
    enum gpucoll_coll local[2];
    bool fine = true;
    if (!gpucoll_cluster_local(coll, local)) {
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
        explain_stage(info, query, rail, part);
    } else if (bytes > 0) {
        printf("  between the hosts from rank to rank\n");
    }
    return fine;
}

bool info_select_hosts(const struct info *info, const struct query *query, info_select_fn *select)
{
    const enum gpucoll_coll coll = query->input.coll;
    const uint64_t bytes = query->input.bytes;
    if (!gpucoll_tl_spans(info->config.transports)) {
        printf("  nothing goes between hosts (coll_gpucoll_transports=%s, without " GPUCOLL_TL_RDMA
               "): it is left to the next component\n",
               info->config.transports);
        return true;
    }
    if (bytes == 0) {
        print_small(info, query);
    }
    switch (gpucoll_cluster_foresee(&info->config, coll, bytes, (uint32_t)query->hosts, query->nranks)) {
    case GPUCOLL_CLUSTER_CARRIED:
        printf("  along with what the hosts tell each other before any call, by no kernel and no message of "
               "its own (coll_gpucoll_carry)\n");
        return true;
    case GPUCOLL_CLUSTER_FLAT:
        explain_all(info, query, "of few bytes (coll_gpucoll_flat)");
        return true;
    case GPUCOLL_CLUSTER_ORDERED:
        if (gpucoll_coll_is_scan(coll)) {
            explain_all(info, query, "in their order");
        } else {
            printf("  in the order of the ranks (coll_gpucoll_deterministic): up and down a chain of all of "
                   "them, without calls within a host\n");
        }
        return true;
    case GPUCOLL_CLUSTER_STAGES:
        break;
    }
    return explain_stages(info, query, select);
}
