/*
 * Interruptions: a timer stops the calling thread at random moments for random times, wherever it is, while the other threads of the
 * process go on. So they overtake it also where that is all but impossible on an idle machine.
 */
#ifndef GPUCOLL_TEST_MPI_INTERRUPT_H
#define GPUCOLL_TEST_MPI_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/* Of the calling thread, until test_interrupt_stop. False if the system has no timers for threads. */
bool test_interrupt_start(uint64_t seed);
void test_interrupt_stop(void);

#endif
