/*
 * The stacks of all threads of this process, to be read when a rank hangs: no debugger is needed, which machines with GPUs often lack.
 */
#ifndef GPUCOLL_TEST_MPI_STACKS_H
#define GPUCOLL_TEST_MPI_STACKS_H

/* Before any thread may hang. */
void test_stacks_start(void);
/* Writes them to the standard output. May be called in a signal's handler; waits for a thread that does not answer, so its caller sees to
 * it that the process ends. */
void test_stacks_print(void);

#endif
