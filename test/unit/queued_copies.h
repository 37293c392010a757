/*
 * What a context has given to the queues of its first GPU. (In C: its structure is no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_QUEUED_COPIES_H
#define GPUCOLL_TEST_UNIT_QUEUED_COPIES_H

#include <stdint.h>

struct gpucoll_context;

/* So far, to the queue of batches, and to the others for the memory of GPUs, its own included: how often, however many copies at a time. */
uint64_t test_queued_batches(struct gpucoll_context *context);
uint64_t test_queued_copies(struct gpucoll_context *context);
uint64_t test_queued(struct gpucoll_context *context); /* of both */

#endif
