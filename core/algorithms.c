#include "core/algorithm.h"
#include "ucx_tl/tl.h"

static const struct gpucoll_algorithm *const rows[] = {
    &gpucoll_allreduce_oneshot,
    &gpucoll_allreduce_twoshot_ll128,
    &gpucoll_allreduce_twoshot,
    &gpucoll_allreduce_phased,
    &gpucoll_exchange_ll,
    &gpucoll_exchange_simple,
    &gpucoll_exchange_phased,
    &gpucoll_allreduce_copy,
    &gpucoll_exchange_copy,
    &gpucoll_bcast_copy,
    &gpucoll_reduce_copy,
    &gpucoll_reduce_scatter_copy,
    &gpucoll_reduce_scatter_block_copy,
    &gpucoll_exchange_pipes,
    &gpucoll_allreduce_cpu,
    &gpucoll_exchange_cpu,
};

const struct gpucoll_algorithm *gpucoll_algorithm_row(int index)
{
    return index >= 0 && index < (int)(sizeof rows / sizeof rows[0]) ? rows[index] : NULL;
}

bool gpucoll_algorithm_runs(const struct gpucoll_algorithm *row, enum gpucoll_coll coll)
{
    return row->coll == coll || (row->coll == GPUCOLL_ANY_EXCHANGE && coll != GPUCOLL_ALLREDUCE);
}

const char *gpucoll_algorithm_unusable(const struct gpucoll_algorithm *row,
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
    return row->unusable(input);
}
