/*
 * gpucoll's component of Open MPI's coll framework. It stands above the other components: on every
 * communicator it saves their functions and installs its own in the same slots. A call on host memory goes on
 * to them at once; a call on device memory runs on gpucoll's engine where that can do it, else on host copies
 * by the saved functions.
 */
#ifndef COLL_GPUCOLL_H
#define COLL_GPUCOLL_H

#include "coll_gpucoll_compat.h"
#include <pthread.h>
#include <stdatomic.h>
#include "coll_gpucoll_sequence.h"
#include "core/gpucoll.h"

/* Applies X(name) to every collective that has buffers: blocking is `name`, nonblocking `i##name`, persistent
 * `name##_init`. A barrier has none. */
#define GPUCOLL_COLLECTIVES(X)                                                                               \
    X(allgather)                                                                                             \
    X(allgatherv)                                                                                            \
    X(allreduce)                                                                                             \
    X(alltoall)                                                                                              \
    X(alltoallv)                                                                                             \
    X(alltoallw)                                                                                             \
    X(bcast)                                                                                                 \
    X(exscan)                                                                                                \
    X(gather)                                                                                                \
    X(gatherv)                                                                                               \
    X(reduce)                                                                                                \
    X(reduce_scatter)                                                                                        \
    X(reduce_scatter_block)                                                                                  \
    X(scan)                                                                                                  \
    X(scatter)                                                                                               \
    X(scatterv)                                                                                              \
    X(neighbor_allgather)                                                                                    \
    X(neighbor_allgatherv)                                                                                   \
    X(neighbor_alltoall)                                                                                     \
    X(neighbor_alltoallv)                                                                                    \
    X(neighbor_alltoallw)

/* Applies X(slot) to every function that a communicator has of ours. */
#define GPUCOLL_THREE_FORMS(name) GPUCOLL_SLOT(name) GPUCOLL_SLOT(i##name) GPUCOLL_SLOT(name##_init)
#define GPUCOLL_SLOTS                                                                                        \
    GPUCOLL_COLLECTIVES(GPUCOLL_THREE_FORMS)                                                                 \
    GPUCOLL_THREE_FORMS(barrier) GPUCOLL_SLOT(reduce_local)

/* Each is declared with the type that Open MPI gives its slot: a signature that differs does not compile. */
#define GPUCOLL_SLOT(name) __typeof__(*((mca_coll_base_module_t *)0)->coll_##name) gpucoll_##name;
GPUCOLL_SLOTS
#undef GPUCOLL_SLOT

/* What happened so far in this process; readable as MPI_T performance variables. */
struct gpucoll_counters {
    _Atomic unsigned long long native;
    _Atomic unsigned long long native_bytes;
    _Atomic unsigned long long declined; /* asked the engine, which had all ranks go another way */
    _Atomic unsigned long long staged;
    _Atomic unsigned long long staged_bytes; /* copied, both ways */
    _Atomic unsigned long long passed;
};

struct gpucoll_component {
    mca_coll_base_component_t super;
    struct gpucoll_config registered; /* storage of the MCA parameters; strings are Open MPI's */
    struct gpucoll_config config;     /* as checked in init_query; strings are our own */
    struct gpucoll_log log;
    struct gpucoll_context *context; /* made in init_query */
    struct gpucoll_accel *accel;     /* the context's; NULL without an accelerator */
    struct gpucoll_counters counters;
    struct gpucoll_setups setups;
    struct gpucoll_stats stats; /* of both the engine's calls and those that go to the next component */
    uint32_t rank;              /* in MPI_COMM_WORLD */
    uint32_t ranks;
};

extern struct gpucoll_component mca_coll_gpucoll_component;

/* The latest reduction on a communicator, in gpucoll's terms: looked up once for a run of equal ones.
 * Pointers suffice, since predefined operators and types are never freed, and others are never native. */
struct gpucoll_looked_up {
    const ompi_op_t *ompi_op;
    const ompi_datatype_t *ompi_type;
    bool native;
    enum gpucoll_op op;
    enum gpucoll_type type;
};

struct gpucoll_module {
    mca_coll_base_module_t super;
    mca_coll_base_comm_coll_t next; /* what stood in the slots before; modules retained */
    ompi_communicator_t *comm;
    bool possible;   /* could calls run natively at all? The same on every rank, and at all times */
    bool wants_team; /* has something come that makes a team? The same on every rank, at each call */
    struct gpucoll_sequence calls;
    struct gpucoll_looked_up latest;
    struct gpucoll_edges *edges; /* of its topology (coll_gpucoll_edges.h); NULL: not asked for so far */
    bool tags_known;   /* what the next component gives a call (coll_gpucoll_tag.h) */
    bool above_han;    /* the next component's slots are to be its own while it runs (coll_gpucoll_han.h), */
    uint32_t han_runs; /* which it does so many times, one in the other */
    struct gpucoll_outer *order; /* nonblocking calls whose way is not known yet (coll_gpucoll_later.h) */
    struct gpucoll_outer **order_end;
    unsigned long long later_calls;      /* how many came */
    bool turning;                        /* its first is being handed over */
    struct gpucoll_sequence *connecting; /* those that wait for their team, the one whose turn it is first */
    struct gpucoll_meeting *meeting;     /* of that one */
    struct gpucoll_module *next_connecting;
    enum gpucoll_reason
        declined; /* why the ranks declined the call that is now on its way to the next component */
};
typedef struct gpucoll_module gpucoll_module;
OBJ_CLASS_DECLARATION(gpucoll_module);

mca_coll_base_module_t *gpucoll_module_query(ompi_communicator_t *comm, int *priority);

/* False: this process certainly has no device memory. */
static inline bool gpucoll_device_active(void)
{
    struct gpucoll_accel *accel = mca_coll_gpucoll_component.accel;
    return accel != NULL && accel->ops->active(accel);
}

/* Threads that race lose at most a count, and no call pays for a locked instruction. */
static inline void gpucoll_tally(_Atomic unsigned long long *counter, unsigned long long more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* The MPI error code for a status that is not GPUCOLL_OK. */
static inline int gpucoll_mpi_error(gpucoll_status status)
{
    switch (status) {
    case GPUCOLL_ERR_NO_MEMORY:
        return MPI_ERR_NO_MEM;
    case GPUCOLL_ERR_PEER:
        return gpucoll_peer_error();
    default:
        return MPI_ERR_OTHER;
    }
}

/* Of a call that has failed: why, if collectives on the communicator cannot be completed any more. */
static inline int gpucoll_call_error(ompi_communicator_t *comm, gpucoll_status status)
{
    const int error = gpucoll_comm_error(comm);
    return error != MPI_SUCCESS ? error : gpucoll_mpi_error(status);
}

/* How many ranks a rank of `comm` exchanges with: itself included, or on an intercommunicator the other
 * group. */
static inline int gpucoll_peers(ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

/* What a rank is in a rooted collective. */
enum gpucoll_role {
    GPUCOLL_ROOT,      /* holds the one side; on an intracommunicator it is on the other side as well */
    GPUCOLL_LEAF,      /* is on the other side */
    GPUCOLL_BYSTANDER, /* passed MPI_PROC_NULL on an intercommunicator */
};

static inline enum gpucoll_role gpucoll_role(ompi_communicator_t *comm, int root)
{
    if (OMPI_COMM_IS_INTER(comm)) {
        return root == MPI_ROOT ? GPUCOLL_ROOT : root == MPI_PROC_NULL ? GPUCOLL_BYSTANDER : GPUCOLL_LEAF;
    }
    return ompi_comm_rank(comm) == root ? GPUCOLL_ROOT : GPUCOLL_LEAF;
}

#endif
