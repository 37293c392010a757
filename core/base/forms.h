/*
 * How the component runs each form of each collective: the source of docs/collectives.md. The component does not
 * compile if it does otherwise (ompi/mca/coll/gpucoll/coll_gpucoll_forms.h).
 */
#ifndef GPUCOLL_BASE_FORMS_H
#define GPUCOLL_BASE_FORMS_H

enum gpucoll_runs {
    GPUCOLL_RUNS_NONE,   /* MPI has no such form */
    GPUCOLL_RUNS_STAGED, /* device buffers are copied to host memory for the next component */
    GPUCOLL_RUNS_NATIVE  /* runs on the engine, else is staged */
};

/* X(collective, blocking, nonblocking, persistent) */
#define GPUCOLL_COLLECTIVE_FORMS(X)                                                                          \
    X(allreduce, NATIVE, NATIVE, NATIVE)                                                                     \
    X(allgather, NATIVE, NATIVE, NATIVE)                                                                     \
    X(allgatherv, NATIVE, NATIVE, NATIVE)                                                                    \
    X(alltoall, NATIVE, NATIVE, NATIVE)                                                                      \
    X(alltoallv, NATIVE, NATIVE, NATIVE)                                                                     \
    X(alltoallw, NATIVE, NATIVE, NATIVE)                                                                     \
    X(bcast, NATIVE, NATIVE, NATIVE)                                                                         \
    X(exscan, NATIVE, NATIVE, NATIVE)                                                                        \
    X(gather, NATIVE, NATIVE, NATIVE)                                                                        \
    X(gatherv, NATIVE, NATIVE, NATIVE)                                                                       \
    X(reduce, NATIVE, NATIVE, NATIVE)                                                                        \
    X(reduce_scatter, NATIVE, NATIVE, NATIVE)                                                                \
    X(reduce_scatter_block, NATIVE, NATIVE, NATIVE)                                                          \
    X(scan, NATIVE, NATIVE, NATIVE)                                                                          \
    X(scatter, NATIVE, NATIVE, NATIVE)                                                                       \
    X(scatterv, NATIVE, NATIVE, NATIVE)                                                                      \
    X(barrier, NATIVE, NATIVE, NATIVE)                                                                       \
    X(reduce_local, NATIVE, NONE, NONE)                                                                      \
    X(neighbor_allgather, NATIVE, NATIVE, NATIVE)                                                            \
    X(neighbor_allgatherv, NATIVE, NATIVE, NATIVE)                                                           \
    X(neighbor_alltoall, NATIVE, NATIVE, NATIVE)                                                             \
    X(neighbor_alltoallv, NATIVE, NATIVE, NATIVE)                                                            \
    X(neighbor_alltoallw, NATIVE, NATIVE, NATIVE)

#endif
