#include "core/exchange.h"
#include "core/plan/algorithm.h"
#include "ucx_tl/tl.h"

/* What can be set, is tested and is shown by gpucoll_info follows from this table. */
#define ALGORITHMS(ROW)                                                                                      \
    ROW(allreduce_oneshot)                                                                                   \
    ROW(allreduce_oneshot_ll128)                                                                             \
    ROW(allreduce_twoshot_ll128)                                                                             \
    ROW(allreduce_twoshot)                                                                                   \
    ROW(allreduce_phased)                                                                                    \
    ROW(reduce_twoshot_ll128)                                                                                \
    ROW(exchange_ll)                                                                                         \
    ROW(exchange_ll128)                                                                                      \
    ROW(exchange_simple)                                                                                     \
    ROW(exchange_phased)                                                                                     \
    ROW(ring_ll)                                                                                             \
    ROW(ring_ll128)                                                                                          \
    ROW(ring_simple)                                                                                         \
    ROW(chain_ll)                                                                                            \
    ROW(chain_ll128)                                                                                         \
    ROW(chain_simple)                                                                                        \
    ROW(tree_ll)                                                                                             \
    ROW(tree_ll128)                                                                                          \
    ROW(tree_simple)                                                                                         \
    ROW(allreduce_direct)                                                                                    \
    ROW(allreduce_bulk)                                                                                      \
    ROW(allreduce_copy)                                                                                      \
    ROW(exchange_copy)                                                                                       \
    ROW(bcast_copy)                                                                                          \
    ROW(bcast_direct)                                                                                        \
    ROW(bcast_bulk)                                                                                          \
    ROW(exchange_direct)                                                                                     \
    ROW(reduce_direct)                                                                                       \
    ROW(reduce_bulk)                                                                                         \
    ROW(reduce_scatter_bulk)                                                                                 \
    ROW(reduce_scatter_block_bulk)                                                                           \
    ROW(reduce_copy)                                                                                         \
    ROW(reduce_pair)                                                                                         \
    ROW(reduce_scatter_copy)                                                                                 \
    ROW(reduce_scatter_block_copy)                                                                           \
    ROW(exchange_pipes)                                                                                      \
    ROW(reduce_cpu)                                                                                          \
    ROW(reduce_pipes)

#define DECLARATION(name) extern const struct gpucoll_algorithm gpucoll_##name;
ALGORITHMS(DECLARATION)

#define ADDRESS(name) &gpucoll_##name,
static const struct gpucoll_algorithm *const rows[] = {ALGORITHMS(ADDRESS)};

const struct gpucoll_algorithm *gpucoll_algorithm_row(int index)
{
    return index >= 0 && index < (int)(sizeof rows / sizeof rows[0]) ? rows[index] : NULL;
}

int gpucoll_algorithm_index(const struct gpucoll_algorithm *row)
{
    int index = 0;
    while (rows[index] != row) {
        index++;
    }
    return index;
}

bool gpucoll_algorithm_runs(const struct gpucoll_algorithm *row, enum gpucoll_coll coll)
{
    switch (row->coll) {
    case GPUCOLL_ANY_EXCHANGE:
        return gpucoll_is_exchange(coll);
    case GPUCOLL_ANY_MOVE:
        return !gpucoll_coll_reduces(coll);
    case GPUCOLL_ANY_REDUCTION:
        return gpucoll_coll_reduces(coll);
    case GPUCOLL_ANY_RING:
        return coll == GPUCOLL_ALLREDUCE || coll == GPUCOLL_ALLGATHER || coll == GPUCOLL_ALLGATHERV ||
               coll == GPUCOLL_BCAST || coll == GPUCOLL_REDUCE || coll == GPUCOLL_REDUCE_SCATTER ||
               coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
    case GPUCOLL_ANY_SCAN:
        return gpucoll_coll_is_scan(coll);
    default:
        return row->coll == (int)coll;
    }
}

const char *gpucoll_algorithm_colls(const struct gpucoll_algorithm *row)
{
    switch (row->coll) {
    case GPUCOLL_ANY_EXCHANGE:
        return "all but allreduce";
    case GPUCOLL_ANY_MOVE:
        return "all that only move";
    case GPUCOLL_ANY_REDUCTION:
        return "all that reduce";
    case GPUCOLL_ANY_RING:
        return "allreduce, allgather(v), bcast, reduce, reduce_scatter(_block)";
    case GPUCOLL_ANY_SCAN:
        return "scan, exscan";
    default:
        return gpucoll_coll_name((enum gpucoll_coll)row->coll);
    }
}

const char *gpucoll_algorithm_lacks(const struct gpucoll_algorithm *row,
                                    const struct gpucoll_plan_input *input)
{
    const unsigned needs = row->needs != 0 ? row->needs : GPUCOLL_TL_STORES;
    const unsigned lacks = needs & ~(input->ways != 0 ? input->ways : GPUCOLL_TL_STORES);
    if (lacks & GPUCOLL_TL_STORES) {
        return "not all GPUs can store into each other's memory (transport p2p)";
    }
    if (lacks & GPUCOLL_TL_SUMS) {
        return "the ranks do not use the transport cpu_reduce";
    }
    if (lacks != 0) {
        return "the ranks do not use the transport shm or cpu_reduce";
    }
    return NULL;
}
