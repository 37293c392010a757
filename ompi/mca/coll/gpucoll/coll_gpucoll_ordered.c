#include "coll_gpucoll_ordered.h"
#include "coll_gpucoll_native.h"
#include "core/accel/accel.h"

/* Of each rank, gathered at a time: more brings little, and the ranks' pieces lie side by side in memory. */
static const size_t piece_bytes = (size_t)256 << 10;

bool gpucoll_ordered_takes(gpucoll_module *self, const char *slot, const ompi_op_t *op,
                           const ompi_datatype_t *dtype, ompi_communicator_t *comm)
{
    static atomic_bool said;
    const char *why = NULL;
    if (OMPI_COMM_IS_INTER(comm)) {
        why = "the communicator joins two groups";
    } else if (!gpucoll_native_reduction(self, op, dtype)) {
        why = "gpucoll does not know this operator on this datatype";
    }
    if (why != NULL && !atomic_exchange_explicit(&said, true, memory_order_relaxed)) {
        gpucoll_help(&mca_coll_gpucoll_component.log, "not-deterministic", slot, why);
    }
    return why == NULL && ompi_comm_size(comm) > 1;
}

/* A reduction of some bytes of every rank, piece by piece. */
struct fold {
    gpucoll_module *self;
    ompi_communicator_t *comm;
    int functor;
    size_t element_bytes;
    int root;         /* who gathers; -1: every rank */
    const char *mine; /* what this rank contributes */
    char *result;     /* where the reduction goes; NULL: this rank wants none */
    int ranks;        /* the ranks from 0 on that are reduced */
    char *parts;      /* a piece of every rank */
};

static int gather_piece(const struct fold *fold, const char *mine, size_t bytes)
{
    const mca_coll_base_comm_coll_t *next = &fold->self->next;
    const gpucoll_count count = (gpucoll_count)bytes;
    if (fold->root < 0) {
        return next->coll_allgather(mine, count, MPI_BYTE, fold->parts, count, MPI_BYTE, fold->comm,
                                    next->coll_allgather_module);
    }
    return next->coll_gather(mine, count, MPI_BYTE, fold->parts, count, MPI_BYTE, fold->root, fold->comm,
                             next->coll_gather_module);
}

/* In place the result overwrites what this rank contributes: only the bytes that have been gathered. */
static int fold_bytes(const struct fold *fold, size_t bytes)
{
    const size_t units = gpucoll_host_functor_size(fold->functor);
    const size_t most = piece_bytes / fold->element_bytes * fold->element_bytes;
    for (size_t at = 0; at < bytes; at += most) {
        const size_t piece = bytes - at < most ? bytes - at : most;
        int rc = gather_piece(fold, fold->mine + at, piece);
        if (rc != OMPI_SUCCESS) {
            return rc;
        }
        for (int i = 0; i < fold->ranks && fold->result != NULL; i++) {
            const char *part = fold->parts + (size_t)i * piece;
            if (i == 0) {
                memcpy(fold->result + at, part, piece);
            } else {
                gpucoll_host_reduce(fold->functor, fold->result + at, fold->result + at, part, piece / units);
            }
        }
    }
    return OMPI_SUCCESS;
}

static int begin(struct fold *fold, gpucoll_module *self, ompi_communicator_t *comm)
{
    *fold = (struct fold){
        .self = self,
        .comm = comm,
        .functor = gpucoll_functor(self->latest.op, self->latest.type),
        .element_bytes = gpucoll_type_size(self->latest.type),
        .root = -1,
        .ranks = ompi_comm_size(comm),
        .parts = malloc((size_t)ompi_comm_size(comm) * piece_bytes),
    };
    if (fold->parts == NULL) {
        gpucoll_help(&mca_coll_gpucoll_component.log, "staging-memory",
                     (size_t)ompi_comm_size(comm) * piece_bytes, "out of memory");
        return MPI_ERR_NO_MEM;
    }
    return OMPI_SUCCESS;
}

int gpucoll_ordered_allreduce(const void *sbuf, void *rbuf, size_t count, ompi_communicator_t *comm,
                              gpucoll_module *self)
{
    struct fold fold;
    int rc = begin(&fold, self, comm);
    if (rc == OMPI_SUCCESS) {
        fold.mine = sbuf == MPI_IN_PLACE ? rbuf : sbuf;
        fold.result = rbuf;
        rc = fold_bytes(&fold, count * fold.element_bytes);
        free(fold.parts);
    }
    return rc;
}

int gpucoll_ordered_reduce(const void *sbuf, void *rbuf, size_t count, int root, ompi_communicator_t *comm,
                           gpucoll_module *self)
{
    struct fold fold;
    int rc = begin(&fold, self, comm);
    if (rc == OMPI_SUCCESS) {
        fold.root = root;
        fold.mine = sbuf == MPI_IN_PLACE ? rbuf : sbuf;
        fold.result = ompi_comm_rank(comm) == root ? rbuf : NULL;
        rc = fold_bytes(&fold, count * fold.element_bytes);
        free(fold.parts);
    }
    return rc;
}

/* One reduction to each rank in turn. In place, a rank's result is kept apart until all it contributes has been read. */
static int scatter_parts(struct fold *fold, const void *sbuf, void *rbuf, const size_t *bytes)
{
    const int own = ompi_comm_rank(fold->comm);
    const bool in_place = sbuf == MPI_IN_PLACE;
    char *kept = in_place ? malloc(bytes[own] + 1) : NULL;
    if (in_place && kept == NULL) {
        gpucoll_help(&mca_coll_gpucoll_component.log, "staging-memory", bytes[own], "out of memory");
        return MPI_ERR_NO_MEM;
    }
    int rc = OMPI_SUCCESS;
    fold->mine = in_place ? rbuf : sbuf;
    for (int i = 0; i < ompi_comm_size(fold->comm) && rc == OMPI_SUCCESS; i++) {
        fold->root = i;
        fold->result = i == own ? (in_place ? kept : rbuf) : NULL;
        rc = fold_bytes(fold, bytes[i]);
        fold->mine += bytes[i];
    }
    if (in_place && rc == OMPI_SUCCESS) {
        memcpy(rbuf, kept, bytes[own]);
    }
    free(kept);
    return rc;
}

/* `counts` of each rank, or `count` of all. */
static int reduce_scatter(const void *sbuf, void *rbuf, const gpucoll_counts *counts, size_t count,
                          ompi_communicator_t *comm, gpucoll_module *self)
{
    struct fold fold;
    const int size = ompi_comm_size(comm);
    size_t *bytes = malloc((size_t)size * sizeof *bytes);
    int rc = bytes != NULL ? begin(&fold, self, comm) : MPI_ERR_NO_MEM;
    if (rc == OMPI_SUCCESS) {
        for (int i = 0; i < size; i++) {
            bytes[i] = (counts != NULL ? gpucoll_count_at(*counts, i) : count) * fold.element_bytes;
        }
        rc = scatter_parts(&fold, sbuf, rbuf, bytes);
        free(fold.parts);
    }
    free(bytes);
    return rc;
}

int gpucoll_ordered_reduce_scatter(const void *sbuf, void *rbuf, gpucoll_counts counts,
                                   ompi_communicator_t *comm, gpucoll_module *self)
{
    return reduce_scatter(sbuf, rbuf, &counts, 0, comm, self);
}

int gpucoll_ordered_reduce_scatter_block(const void *sbuf, void *rbuf, size_t count,
                                         ompi_communicator_t *comm, gpucoll_module *self)
{
    return reduce_scatter(sbuf, rbuf, NULL, count, comm, self);
}

int gpucoll_ordered_scan(const void *sbuf, void *rbuf, size_t count, bool exclusive,
                         ompi_communicator_t *comm, gpucoll_module *self)
{
    struct fold fold;
    int rc = begin(&fold, self, comm);
    if (rc == OMPI_SUCCESS) {
        fold.mine = sbuf == MPI_IN_PLACE ? rbuf : sbuf;
        fold.ranks = ompi_comm_rank(comm) + (exclusive ? 0 : 1);
        fold.result = fold.ranks > 0 ? rbuf : NULL;
        rc = fold_bytes(&fold, count * fold.element_bytes);
        free(fold.parts);
    }
    return rc;
}
