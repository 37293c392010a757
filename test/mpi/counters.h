/* gpucoll's counters and what else it tells as MPI_T performance variables. */
#ifndef GPUCOLL_TEST_MPI_COUNTERS_H
#define GPUCOLL_TEST_MPI_COUNTERS_H

#include <mpi.h>

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
/* What was counted since then; the handle is gone. */
unsigned long long test_counter_close(MPI_T_pvar_handle handle);

#endif
