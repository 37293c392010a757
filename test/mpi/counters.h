/* gpucoll's counters and what else it tells as MPI_T performance variables. */
#ifndef GPUCOLL_TEST_MPI_COUNTERS_H
#define GPUCOLL_TEST_MPI_COUNTERS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

enum { TEST_VALUES_MAX = 256 };

extern MPI_T_pvar_session test_counters_session;

/* What the latest opened variable is. */
extern struct test_opened {
    int values;
    char help[2000];
} test_opened;

/* After test_start. */
void test_counters_start(void);
void test_counters_stop(void);
/* A handle counts from when it was made. NULL, with a failure noted, if there is no such variable. */
MPI_T_pvar_handle test_variable_open(const char *name);
/* The same of a variable of one value. */
MPI_T_pvar_handle test_counter_open(const char *name);
/* What was counted since then. */
unsigned long long test_counter_read(MPI_T_pvar_handle handle);
/* The same; the handle is gone. */
unsigned long long test_counter_close(MPI_T_pvar_handle handle);

/* Of the array that was opened last, by its help: the index of an element, such as a collective's; 0, with a failure noted, if it has no
 * such element. */
int test_opened_index(const char *element);
/* The name of a value that an element may have, such as a plan's; false if it has none. */
bool test_opened_state(int value, char *text, size_t bytes);

#endif
