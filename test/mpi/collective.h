/*
 * A call of a collective as data: what each rank passes, and what must then stand in its buffers. Made by a
 * table of collectives (collectives.c); planned here for those that move data and for those that reduce;
 * issued in any form.
 */
#ifndef GPUCOLL_TEST_MPI_COLLECTIVE_H
#define GPUCOLL_TEST_MPI_COLLECTIVE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "test/mpi/comms.h"
#include "test/mpi/form.h"
#include "test/mpi/side.h"
#include "test/mpi/values.h"

enum test_coll {
    TEST_BCAST,
    TEST_GATHER,
    TEST_GATHERV,
    TEST_SCATTER,
    TEST_SCATTERV,
    TEST_ALLGATHER,
    TEST_ALLGATHERV,
    TEST_ALLTOALL,
    TEST_ALLTOALLV,
    TEST_ALLTOALLW,
    TEST_NEIGHBOR_ALLGATHER,
    TEST_NEIGHBOR_ALLGATHERV,
    TEST_NEIGHBOR_ALLTOALL,
    TEST_NEIGHBOR_ALLTOALLV,
    TEST_NEIGHBOR_ALLTOALLW,
    TEST_REDUCE,
    TEST_ALLREDUCE,
    TEST_REDUCE_SCATTER,
    TEST_REDUCE_SCATTER_BLOCK,
    TEST_SCAN,
    TEST_EXSCAN,
    TEST_BARRIER,
    TEST_REDUCE_LOCAL,
    TEST_COLLS
};

enum { TEST_SIMPLE, TEST_V, TEST_W }; /* how counts, places and types are given */

struct test_collective {
    enum test_coll coll;
    const char *name;
    bool rooted;
    bool reduces;
    bool neighbors;
    bool has_no_data;
    bool
        is_local; /* each rank calls it by itself, and its communicator only says who draws the same; blocking only */
    bool may_be_in_place;
    bool may_be_inter;
    bool root_sends;     /* only the root sends; else every rank does */
    bool root_receives;  /* only the root receives */
    bool sends_to_each;  /* one block for each peer */
    bool gets_from_each; /* one block from each peer */
    int variant;
};

extern const struct test_collective test_collectives[]; /* collective_table.c */
extern const int test_collective_count;

/* What MPI is told of one side. */
struct test_args {
    struct test_side side;
    struct test_block *blocks;
    int *peers; /* world rank of each block's other end, -1 for nobody */
    int n;
    int count; /* TEST_SIMPLE */
    MPI_Datatype type;
    int *counts; /* TEST_V and TEST_W, and reduce_scatter */
    int *places;
    MPI_Aint *byte_places;
    MPI_Datatype *types;
};

struct test_call {
    const struct test_collective *row;
    enum test_form form;
    const struct test_comm *comm;
    uint64_t key; /* the same on all ranks of all groups */
    int root;     /* as MPI is told */
    int root_world;
    bool is_root;
    bool is_leaf; /* on the other side; the root of an intracommunicator is a leaf as well */
    bool in_place;
    bool alone;                /* no other call is under way */
    bool plain; /* integers one behind the other, from a boundary on; of a reduction, sums of floats */
    bool varied;               /* predefined types often, any operator, results that round, more counts */
    bool on_device;            /* the buffers of all ranks */
    enum test_memory kinds[2]; /* of what is sent, and of what is received */
    enum test_family family;
    int count;       /* in common */
    int fixed_count; /* not 0: decides `count` and those of v variants */
    struct test_args send;
    struct test_args recv;
    MPI_Op op;
    MPI_Request request;
    struct {
        const struct test_type *type; /* NULL: a user's operator */
        enum test_op op;
        enum test_user_op user_op;
        struct test_layout plain;
        const struct test_layout *layout;
        int total; /* elements that each rank contributes */
        int mine;  /* elements of this rank's result, from `first` on */
        int first;
        bool rounds; /* the result depends on the order of the operations: checked within bounds */
    } reduction;
    char text[320]; /* names it in messages */
};

/* From 0 to 512, small ones often. */
int test_varied_count(uint64_t key);
/* May the collective be called on this communicator? */
bool test_collective_fits(const struct test_collective *row, const struct test_comm *comm);
/* Sets the call's root fields. `turn` counts through the ranks that can be root: of an intercommunicator those of
 * one group, then of the other. */
void test_choose_root(struct test_call *call, int turn);

/* Decides arguments and makes the buffers. Row, form, comm, key, root fields, in_place and kinds are set. */
void test_move_plan(struct test_call *call);
void test_reduce_plan(struct test_call *call);
/* The buffer of a side whose blocks are known. */
void test_call_open_side(const struct test_call *call, struct test_args *args, bool sending, uint64_t key);
/* Fills the buffers anew for a round. Afterwards the sides expect what must be there after the call. */
void test_move_fill(struct test_call *call, int round);
void test_reduce_fill(struct test_call *call, int round);
/* Is a result that rounds within its bounds? Others were compared already. */
bool test_reduce_near(const struct test_call *call, int round);

/* All of that: a call whose root, counts, types, place and memory follow from the seed, the communicator's slot and `turn`. */
void test_call_open(struct test_call *call, const struct test_collective *row, enum test_form form,
                    const struct test_comm *comm, int turn, int fixed_count, bool alone, bool plain);
void test_call_fill(struct test_call *call, int round);
/* Notes what is wrong after the call. */
bool test_call_check(struct test_call *call);
/* Does nothing keep gpucoll from running it natively? Then all ranks say so. */
bool test_call_is_native(const struct test_call *call);
/* Frees what either plan made. */
void test_call_close(struct test_call *call);

/* Blocking: the call. Nonblocking: starts it. Persistent: makes the request, which is to be started. */
int test_issue(struct test_call *call);

#endif
