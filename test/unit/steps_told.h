/*
 * Ranks of one team that are nothing but their boards, for tests of what they tell each other of a call in steps (core/pipeline.h).
 */
#ifndef GPUCOLL_TEST_UNIT_STEPS_TOLD_H
#define GPUCOLL_TEST_UNIT_STEPS_TOLD_H

#include <stdint.h>

struct steps_told;

struct steps_told *steps_told_open(uint32_t ranks); /* to be freed by steps_told_close */
void steps_told_close(struct steps_told *ranks);

/* From now on it is about the call of this number. */
void steps_told_begin(struct steps_told *ranks, uint64_t call);
/* The rank has sent so many steps. */
void steps_told_tell(struct steps_told *ranks, uint32_t rank, uint32_t sent);
/* How far apart all had sent so many, as this rank finds. */
uint64_t steps_told_apart_ns(const struct steps_told *ranks, uint32_t rank, uint32_t sent);

#endif
