/*
 * What fails on demand: the mapping of an allocation by peers, kernels, a rank's calls, and memory. (In C: the engine's own structures are
 * no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_FAILING_H
#define GPUCOLL_TEST_UNIT_FAILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/gpucoll.h"

/* From now on the process of this context cannot map the allocation that test_unmappable has named. */
void test_heed_unmappable(struct gpucoll_context *context);
void test_unmappable(const void *place); /* NULL: none */

/* From now on it is counted in the calling thread how often this context asks whose memory an address is, and waits for what a GPU does; the counts so
 * far. */
void test_count_classified(struct gpucoll_context *context);
unsigned test_classified(void);
unsigned test_synchronized(void);

/* From now on the kernels that the process of this context launches do nothing, and are taken to be done. */
void test_launch_nothing(struct gpucoll_context *context);

/* From now on the device of this context fails: launches do, or, `later`, the kernels that were launched. */
void test_fail_device(struct gpucoll_context *context, bool later);
/* Takes that back. */
void test_mend_device(struct gpucoll_context *context);

/* From now on no GPU can store into the memory of another one, as far as this context is told. */
void test_no_peer_access(struct gpucoll_context *context);

/* From now on the accelerator of this context can tell the id of the device in use, one that begins with `name`, without binding to it. */
void test_device_in_use(struct gpucoll_context *context, unsigned char name);

/* The others see that this rank of the team has given up its latest call for another rank. */
void test_tell_given_up(struct gpucoll_team *team, uint32_t missing);

/* Does this context keep teams of several hosts that were freed? */
bool test_keeps_teams(const struct gpucoll_context *context);

/* As though the process of this context had made so many teams of several hosts that the ids of the first come again. */
void test_net_ids_again(struct gpucoll_context *context);

/* In the calling thread calloc has no memory of so many bytes or more; 0: it has, whatever was said before. The program is linked with --wrap=calloc. */
void test_no_memory_from(size_t bytes);
/* In the calling thread calloc has memory so many times more, and once none. */
void test_no_memory_once_after(unsigned times);
/* How often there was none, since either. */
unsigned test_memory_refused(void);

/* In the calling thread a signal interrupts fallocate so many times. (Wrapped likewise.) */
void test_interrupt_reserving(unsigned times);

#endif
