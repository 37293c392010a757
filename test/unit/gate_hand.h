/*
 * Gates whose kernels are played by hand: the test writes into their status what they would. And a count of the kernels that are launched. (In C:
 * the engine's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_GATE_HAND_H
#define GPUCOLL_TEST_UNIT_GATE_HAND_H

#include <stdbool.h>
#include <stdint.h>
#include "core/gpucoll.h"
#include "kernels/kernel_abi.h"

/* The ranks of a team, each with the gates of a process of its own, and at most one call at a time. */
struct test_gates;
/* Without a keeper nothing happens but by the test's calls. */
struct test_gates *test_gates_open(uint32_t ranks, bool kept, const struct gpucoll_log *log);
void test_gates_close(struct test_gates *gates); /* whatever is under way is dropped */

/* The rank launches its kernel of that call, or has nothing to do in it. */
void test_gate_begin(struct test_gates *gates, uint32_t rank, uint64_t call);
void test_gate_pass_by(struct test_gates *gates, uint32_t rank, uint64_t call);
/* The functions of the engine. */
gpucoll_status test_gate_test(struct test_gates *gates, uint32_t rank);
void test_gate_drop(struct test_gates *gates, uint32_t rank);

/* What the rank's kernel and its host tell each other, and with which value of its latest launch. */
struct gpucoll_kernel_status *test_gate_kernel(struct test_gates *gates, uint32_t rank);
uint32_t test_gate_launch(const struct test_gates *gates, uint32_t rank);
/* How often it was launched again; from now on that fails. */
unsigned test_gate_launched_again(const struct test_gates *gates, uint32_t rank);
void test_gate_cannot_launch(struct test_gates *gates, uint32_t rank);
/* Ranks that are counted in, in the team's call; of another call on the same place of the ring: 0. */
uint32_t test_gate_counted(const struct test_gates *gates, uint64_t call);

/* Launches by the calling thread, once those of the context are counted. */
struct test_launches {
    unsigned without_gate;
    unsigned with_gate;
    unsigned again;
    unsigned ctas_without_gate; /* of the latest */
    unsigned ctas_with_gate;
};
void test_count_launches(struct gpucoll_context *context);
struct test_launches test_launches(void);

#endif
