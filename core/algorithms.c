#include "core/algorithm.h"

/* What can be set, is tested and is shown by gpucoll_info follows from this table. */
#define ALGORITHMS(ROW)                                                                                      \
    ROW(allreduce_oneshot)                                                                                   \
    ROW(allreduce_twoshot_ll128)                                                                             \
    ROW(allreduce_twoshot)                                                                                   \
    ROW(allreduce_phased)                                                                                    \
    ROW(exchange_ll)                                                                                         \
    ROW(exchange_simple)                                                                                     \
    ROW(exchange_phased)                                                                                     \
    ROW(allreduce_copy)                                                                                      \
    ROW(exchange_copy)                                                                                       \
    ROW(bcast_copy)                                                                                          \
    ROW(bcast_direct)                                                                                        \
    ROW(exchange_direct)                                                                                     \
    ROW(reduce_direct)

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
    return row->coll == coll || (row->coll == GPUCOLL_ANY_EXCHANGE && coll != GPUCOLL_ALLREDUCE);
}
