/* Sums of integers over all ranks of a communicator that has the same ranks as the world: what nonblocking calls are made of. */
#ifndef GPUCOLL_TEST_MPI_SUMS_H
#define GPUCOLL_TEST_MPI_SUMS_H

#include <mpi.h>

#include "test/mpi/memory.h"

struct sum {
    struct test_buffer send;
    struct test_buffer recv;
    uint64_t key; /* of the values */
    int count;
    MPI_Request request;
};

/* Makes the buffers, and fills them. */
void sum_open(struct sum *sum, uint64_t key, int count, enum test_memory kind);
void sum_close(struct sum *sum);
/* Other values to send, and no result. */
void sum_fill(struct sum *sum, uint64_t key);

/* Starts an MPI_Iallreduce; and waits for it, then checks the result. */
void sum_post(struct sum *sum, MPI_Comm comm);
void sum_wait(struct sum *sum);

bool sum_is_right(const struct sum *sum);
/* Fails the test if it is not, or if something was written beside it. */
void sum_check(const struct sum *sum, const char *what);

#endif
