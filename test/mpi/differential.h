/*
 * The differential test: a sequence of windows of collective calls, everything of which is drawn from a seed and the number of the
 * call. So a run can start at any window, and every rank can draw what the others do.
 */
#ifndef GPUCOLL_TEST_MPI_DIFFERENTIAL_H
#define GPUCOLL_TEST_MPI_DIFFERENTIAL_H

#include "test/mpi/collective.h"

enum { WINDOW_MAX = 8 };

struct window {
    uint64_t number; /* of its first call */
    int length;      /* calls, some of which this rank may have no part in */
    int count;       /* of those in which it has */
    struct test_call calls[WINDOW_MAX];
    int index[WINDOW_MAX]; /* the call's place among the `length` */
};

/* How many calls the window that begins with this number has. */
int window_length(uint64_t number);
/* Draws the calls, and makes their buffers. */
void window_open(struct window *window, uint64_t number, const struct test_comm *comms, int comm_count);
void window_close(struct window *window);

#endif
