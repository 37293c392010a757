#include "core/algorithm.h"

static const struct gpucoll_algorithm *const rows[] = {
    &gpucoll_allreduce_oneshot,
    &gpucoll_allreduce_twoshot_ll128,
    &gpucoll_allreduce_twoshot,
    &gpucoll_allreduce_phased,
};

const struct gpucoll_algorithm *gpucoll_algorithm_row(int index)
{
    return index >= 0 && index < (int)(sizeof rows / sizeof rows[0]) ? rows[index] : NULL;
}
