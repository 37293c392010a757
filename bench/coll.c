#include "bench/coll.h"

#include <string.h>

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define PERSISTENT(Name) MPI_##Name##_init
#else
#include <mpi-ext.h>
#define PERSISTENT(Name) MPIX_##Name##_init
#endif

/* The three forms of one call; `a` is the arguments. */
#define DEFINE_FORMS(name, Name, ...)                                                                        \
    static void call_##name(const struct bench_args *a)                                                      \
    {                                                                                                        \
        MPI_##Name(__VA_ARGS__);                                                                             \
    }                                                                                                        \
    static void start_##name(const struct bench_args *a, MPI_Request *request)                               \
    {                                                                                                        \
        MPI_I##name(__VA_ARGS__, request);                                                                   \
    }                                                                                                        \
    static void init_##name(const struct bench_args *a, MPI_Request *request)                                \
    {                                                                                                        \
        PERSISTENT(Name)(__VA_ARGS__, MPI_INFO_NULL, request);                                               \
    }

DEFINE_FORMS(allreduce, Allreduce, a->send, a->recv, a->count, a->type, a->op, a->comm)
DEFINE_FORMS(reduce, Reduce, a->send, a->recv, a->count, a->type, a->op, BENCH_ROOT, a->comm)
DEFINE_FORMS(bcast, Bcast, a->recv, a->count, a->type, BENCH_ROOT, a->comm)
DEFINE_FORMS(allgather, Allgather, a->send, a->count, a->type, a->recv, a->count, a->type, a->comm)
DEFINE_FORMS(reduce_scatter, Reduce_scatter, a->send, a->recv, a->counts, a->type, a->op, a->comm)
DEFINE_FORMS(reduce_scatter_block, Reduce_scatter_block, a->send, a->recv, a->count, a->type, a->op, a->comm)
DEFINE_FORMS(alltoall, Alltoall, a->send, a->count, a->type, a->recv, a->count, a->type, a->comm)
DEFINE_FORMS(gather, Gather, a->send, a->count, a->type, a->recv, a->count, a->type, BENCH_ROOT, a->comm)
DEFINE_FORMS(scatter, Scatter, a->send, a->count, a->type, a->recv, a->count, a->type, BENCH_ROOT, a->comm)
DEFINE_FORMS(barrier, Barrier, a->comm)

#define ROW(name, flow, has_data)                                                                            \
    {                                                                                                        \
#name, flow, has_data, call_##name, start_##name, init_##name                                        \
    }
static const struct bench_coll rows[] = {
    ROW(allreduce, BENCH_REDUCES, true),
    ROW(reduce, BENCH_REDUCES | BENCH_TO_ROOT, true),
    ROW(bcast, BENCH_FROM_ROOT | BENCH_ONE_BUFFER, true),
    ROW(allgather, BENCH_GATHERS, true),
    ROW(reduce_scatter, BENCH_REDUCES | BENCH_SCATTERS, true),
    ROW(reduce_scatter_block, BENCH_REDUCES | BENCH_SCATTERS, true),
    ROW(alltoall, BENCH_GATHERS | BENCH_SCATTERS, true),
    ROW(gather, BENCH_GATHERS | BENCH_TO_ROOT, true),
    ROW(scatter, BENCH_SCATTERS | BENCH_FROM_ROOT, true),
    ROW(barrier, 0, false),
};

const struct bench_coll *bench_coll_row(int index)
{
    return index >= 0 && index < (int)(sizeof(rows) / sizeof(rows[0])) ? &rows[index] : NULL;
}

const struct bench_coll *bench_coll_find(const char *name)
{
    const struct bench_coll *row;
    for (int i = 0; (row = bench_coll_row(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

bool bench_coll_sends(const struct bench_coll *coll, int rank)
{
    return coll->has_data && (rank == BENCH_ROOT || !bench_coll_has(coll, BENCH_FROM_ROOT));
}

bool bench_coll_receives(const struct bench_coll *coll, int rank)
{
    return coll->has_data && (rank == BENCH_ROOT || !bench_coll_has(coll, BENCH_TO_ROOT));
}

bool bench_coll_can_be_in_place(const struct bench_coll *coll)
{
    return coll->has_data && !bench_coll_has(coll, BENCH_ONE_BUFFER);
}

bool bench_coll_is_in_place(const struct bench_coll *coll, int rank)
{
    bool rooted = bench_coll_has(coll, BENCH_TO_ROOT | BENCH_FROM_ROOT);
    return bench_coll_can_be_in_place(coll) && (rank == BENCH_ROOT || !rooted);
}

size_t bench_coll_send_extent(const struct bench_coll *coll, size_t vector, int ranks)
{
    bool block = bench_coll_has(coll, BENCH_GATHERS) && !bench_coll_has(coll, BENCH_SCATTERS);
    return block ? vector / (size_t)ranks : vector;
}

size_t bench_coll_recv_extent(const struct bench_coll *coll, size_t vector, int ranks)
{
    bool block = bench_coll_has(coll, BENCH_SCATTERS) && !bench_coll_has(coll, BENCH_GATHERS);
    return block ? vector / (size_t)ranks : vector;
}

double bench_coll_busbw_factor(const struct bench_coll *coll, int ranks)
{
    if (bench_coll_has(coll, BENCH_GATHERS | BENCH_SCATTERS))
        return (double)(ranks - 1) / ranks;
    if (bench_coll_has(coll, BENCH_TO_ROOT | BENCH_FROM_ROOT))
        return 1.0;
    return coll->has_data ? 2.0 * (ranks - 1) / ranks : 0.0;
}

const char *bench_form_name(enum bench_form form)
{
    static const char *const names[] = {"blocking", "nonblocking", "persistent"};
    return names[form];
}
