/*
 * The communicators that the collectives are tested on, each with what the test must know of it independently
 * of MPI: who its members are, in order, and who neighbours whom.
 */
#ifndef GPUCOLL_TEST_MPI_COMMS_H
#define GPUCOLL_TEST_MPI_COMMS_H

#include <mpi.h>
#include <stdbool.h>

enum test_topology { TEST_NO_TOPOLOGY, TEST_CART, TEST_GRAPH, TEST_DIST_GRAPH };

struct test_comm {
    const char *name;
    MPI_Comm comm; /* MPI_COMM_NULL where this rank is no member */
    bool inter;
    int slot;   /* for test_agree: its place in the list */
    int colour; /* for test_agree: tells this communicator from others made by the same call */
    int rank;
    int size;        /* of the local group */
    int remote_size; /* of an intracommunicator: size */
    int *local;      /* world ranks */
    int *remote;
    int side; /* of an intercommunicator: 0 for the group that contains world rank 0, else 1 */
    enum test_topology topology;
    int dims[2];
};

enum { TEST_COMMS_MAX = 12 };

/* Collective over MPI_COMM_WORLD; the same list on every rank, its length returned. A failing MPI call is
 * noted. */
int test_comms_make(struct test_comm *list);
void test_comms_free(struct test_comm *list, int count);

/* A ring of MPI_COMM_WORLD's ranks, as a grid or a distributed graph; to be freed. */
MPI_Comm test_comm_ring(enum test_topology topology);

/* The neighbours of `rank` in the order MPI uses; -1 beyond the border of a grid. The arrays need 2 * size +
 * 4 places. */
void test_comm_sources(const struct test_comm *comm, int rank, int *count, int *sources);
void test_comm_targets(const struct test_comm *comm, int rank, int *count, int *targets);

#endif
