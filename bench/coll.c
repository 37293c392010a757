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
DEFINE_FORMS(scan, Scan, a->send, a->recv, a->count, a->type, a->op, a->comm)
DEFINE_FORMS(exscan, Exscan, a->send, a->recv, a->count, a->type, a->op, a->comm)
DEFINE_FORMS(allgatherv, Allgatherv, a->send, a->count, a->type, a->recv, a->counts, a->displs, a->type,
             a->comm)
DEFINE_FORMS(gatherv, Gatherv, a->send, a->count, a->type, a->recv, a->counts, a->displs, a->type, BENCH_ROOT,
             a->comm)
DEFINE_FORMS(scatterv, Scatterv, a->send, a->counts, a->displs, a->type, a->recv, a->count, a->type,
             BENCH_ROOT, a->comm)
DEFINE_FORMS(alltoallv, Alltoallv, a->send, a->counts, a->displs, a->type, a->recv, a->counts, a->displs,
             a->type, a->comm)
DEFINE_FORMS(alltoallw, Alltoallw, a->send, a->counts, a->byte_displs, a->types, a->recv, a->counts,
             a->byte_displs, a->types, a->comm)
DEFINE_FORMS(neighbor_allgather, Neighbor_allgather, a->send, a->count, a->type, a->recv, a->count, a->type,
             a->comm)
DEFINE_FORMS(neighbor_allgatherv, Neighbor_allgatherv, a->send, a->count, a->type, a->recv, a->counts,
             a->displs, a->type, a->comm)
DEFINE_FORMS(neighbor_alltoall, Neighbor_alltoall, a->send, a->count, a->type, a->recv, a->count, a->type,
             a->comm)
DEFINE_FORMS(neighbor_alltoallv, Neighbor_alltoallv, a->send, a->counts, a->displs, a->type, a->recv,
             a->counts, a->displs, a->type, a->comm)
DEFINE_FORMS(neighbor_alltoallw, Neighbor_alltoallw, a->send, a->counts, a->address_displs, a->types, a->recv,
             a->counts, a->address_displs, a->types, a->comm)

static void call_reduce_local(const struct bench_args *a)
{
    MPI_Reduce_local(a->send, a->recv, a->count, a->type, a->op);
}

#define ROW_OF(name, mpi, flow, has_data, further)                                                           \
    {                                                                                                        \
        name, flow, has_data, further, call_##mpi, start_##mpi, init_##mpi                                   \
    }
#define ROW(name, flow, has_data) ROW_OF(#name, name, flow, has_data, false)
#define FURTHER(name, flow) ROW_OF(#name, name, flow, true, true)
/* A v form: with equal counts, and with counts that differ. */
#define V_FORMS(name, flow)                                                                                  \
    FURTHER(name, flow), ROW_OF(#name "_uneven", name, (flow) | BENCH_UNEVEN, true, true)
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
    FURTHER(scan, BENCH_REDUCES | BENCH_SCANS),
    FURTHER(exscan, BENCH_REDUCES | BENCH_SCANS | BENCH_BEFORE),
    {"reduce_local", BENCH_REDUCES | BENCH_LOCAL, true, true, call_reduce_local, NULL, NULL},
    V_FORMS(allgatherv, BENCH_GATHERS),
    V_FORMS(gatherv, BENCH_GATHERS | BENCH_TO_ROOT),
    V_FORMS(scatterv, BENCH_SCATTERS | BENCH_FROM_ROOT),
    V_FORMS(alltoallv, BENCH_GATHERS | BENCH_SCATTERS),
    V_FORMS(alltoallw, BENCH_GATHERS | BENCH_SCATTERS),
    FURTHER(neighbor_allgather, BENCH_GATHERS | BENCH_NEIGHBORS),
    FURTHER(neighbor_allgatherv, BENCH_GATHERS | BENCH_NEIGHBORS),
    FURTHER(neighbor_alltoall, BENCH_GATHERS | BENCH_SCATTERS | BENCH_NEIGHBORS),
    FURTHER(neighbor_alltoallv, BENCH_GATHERS | BENCH_SCATTERS | BENCH_NEIGHBORS),
    FURTHER(neighbor_alltoallw, BENCH_GATHERS | BENCH_SCATTERS | BENCH_NEIGHBORS),
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

int bench_coll_blocks(const struct bench_coll *coll, int ranks)
{
    return bench_coll_has(coll, BENCH_NEIGHBORS) ? 2 : ranks;
}

/* Of neighbours block 0 is that of the one below, block 1 of the one above. */
int bench_coll_peer(const struct bench_coll *coll, int ranks, int rank, int index)
{
    if (!bench_coll_has(coll, BENCH_NEIGHBORS))
        return index;
    return (rank + (index == 0 ? ranks - 1 : 1)) % ranks;
}

int bench_coll_opposite(const struct bench_coll *coll, int index)
{
    return bench_coll_has(coll, BENCH_NEIGHBORS) ? 1 - index : index;
}

bool bench_coll_sends(const struct bench_coll *coll, int rank)
{
    return coll->has_data && (rank == BENCH_ROOT || !bench_coll_has(coll, BENCH_FROM_ROOT));
}

bool bench_coll_receives(const struct bench_coll *coll, int rank)
{
    /* What MPI_Exscan leaves on rank 0 is undefined. */
    if (bench_coll_has(coll, BENCH_BEFORE) && rank == 0)
        return false;
    return coll->has_data && (rank == BENCH_ROOT || !bench_coll_has(coll, BENCH_TO_ROOT));
}

bool bench_coll_has_form(const struct bench_coll *coll, enum bench_form form, int ranks)
{
    /* In a ring of one rank or two all-to-alls of Open MPI up to 5.0 are not right (docs/design-calls.md, "Neighborhood collectives"). */
    const bool wrong =
        bench_coll_has(coll, BENCH_NEIGHBORS) && bench_coll_has(coll, BENCH_SCATTERS) && ranks <= 2;
    return form == BENCH_BLOCKING || (coll->start && !wrong);
}

bool bench_coll_can_be_in_place(const struct bench_coll *coll)
{
    return coll->has_data && !bench_coll_has(coll, BENCH_ONE_BUFFER | BENCH_LOCAL | BENCH_NEIGHBORS);
}

bool bench_coll_is_in_place(const struct bench_coll *coll, int rank)
{
    bool rooted = bench_coll_has(coll, BENCH_TO_ROOT | BENCH_FROM_ROOT);
    return bench_coll_can_be_in_place(coll) && (rank == BENCH_ROOT || !rooted);
}

/* The first `count` of uneven blocks, which grow by equal steps from 1/n of `block` to (2n - 1)/n: all n together are n blocks. */
static size_t uneven_sum(size_t block, int ranks, int count)
{
    return block * (size_t)count * (size_t)count / (size_t)ranks;
}

size_t bench_coll_offset(const struct bench_coll *coll, size_t block, int ranks, int holder, int index)
{
    size_t sum = 0;
    if (!bench_coll_has(coll, BENCH_UNEVEN))
        return (size_t)index * block;
    if (!bench_coll_is_alltoall(coll))
        return uneven_sum(block, ranks, index);
    /* Ranks s and r exchange block (s + r) mod n: as MPI_IN_PLACE wants it, what goes to and fro is equal, and all hold a vector. */
    for (int i = 0; i < index; i++) {
        int length = (holder + i) % ranks;
        sum += uneven_sum(block, ranks, length + 1) - uneven_sum(block, ranks, length);
    }
    return sum;
}

double bench_coll_busbw_factor(const struct bench_coll *coll, int ranks)
{
    if (bench_coll_has(coll, BENCH_LOCAL))
        return 0.0;
    if (bench_coll_has(coll, BENCH_NEIGHBORS))
        return 1.0;
    if (bench_coll_has(coll, BENCH_GATHERS | BENCH_SCATTERS))
        return (double)(ranks - 1) / ranks;
    if (bench_coll_has(coll, BENCH_TO_ROOT | BENCH_FROM_ROOT | BENCH_SCANS))
        return 1.0;
    return coll->has_data ? 2.0 * (ranks - 1) / ranks : 0.0;
}

const char *bench_form_name(enum bench_form form)
{
    static const char *const names[] = {"blocking", "nonblocking", "persistent"};
    return names[form];
}
