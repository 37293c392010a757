/* What MPI allows and few programs do: what the two files of this test share. */
#ifndef GPUCOLL_TEST_MPI_CORNERS_H
#define GPUCOLL_TEST_MPI_CORNERS_H

#include "test/mpi/side.h"
#include "test/mpi/support.h"

enum { MOST_RANKS = 16 };

/* With `--native` device memory; else what `--memory` says. */
enum test_memory corners_kind(uint64_t key);

/* With `--native`: were there `calls` since they were last counted, all of them native? */
void corners_count_calls(void);
void corners_check_calls(unsigned long long calls);

/* The side is to hold, or holds, in this block what `from` has made for `to`. */
void corners_expect(struct test_side *side, const struct test_block *block, uint64_t key, int from, int to);

/* Datatypes on a communicator of one rank, one address for both buffers, absolute addresses. */
void corners_addresses(void);

#endif
