#include "core/algorithm.h"

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
};

const struct gpucoll_algorithm *gpucoll_algorithm_row(int index)
{
    return index >= 0 && index < (int)(sizeof rows / sizeof rows[0]) ? rows[index] : NULL;
}

bool gpucoll_algorithm_runs(const struct gpucoll_algorithm *row, enum gpucoll_coll coll)
{
    return row->coll == coll || (row->coll == GPUCOLL_ANY_EXCHANGE && coll != GPUCOLL_ALLREDUCE);
}
