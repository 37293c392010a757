/*
 * The forms of a collective: blocking, nonblocking, persistent.
 */
#ifndef GPUCOLL_TEST_MPI_FORM_H
#define GPUCOLL_TEST_MPI_FORM_H

#include <mpi.h>
#include <stdbool.h>

#include "test/mpi/support.h"

enum test_form { TEST_BLOCKING, TEST_NONBLOCKING, TEST_PERSISTENT_FORM, TEST_FORMS };

const char *test_form_name(enum test_form form);
/* Open MPI may have been built without persistent collectives. */
bool test_form_exists(enum test_form form);

/* What makes a persistent request, by the collective's name; without persistent collectives, an error. */
#ifdef TEST_PERSISTENT
#define TEST_INIT(Name) TEST_PERSISTENT(Name)
#else
#define TEST_INIT(Name) test_no_init
#define test_no_init(...) MPI_ERR_OTHER
#endif

/* Issues a collective in a form; what MPI returns. */
#define TEST_ISSUE(form, request, Name, IName, ...)                                                          \
    ((form) == TEST_BLOCKING      ? MPI_##Name(__VA_ARGS__)                                                  \
     : (form) == TEST_NONBLOCKING ? MPI_##IName(__VA_ARGS__, request)                                        \
                                  : TEST_INIT(Name)(__VA_ARGS__, MPI_INFO_NULL, request))

/* Issues it and completes it; a persistent one is started `starts` times. */
#define TEST_RUN(form, starts, Name, IName, ...)                                                             \
    do {                                                                                                     \
        MPI_Request issued = MPI_REQUEST_NULL;                                                               \
        if (test_ok(TEST_ISSUE(form, &issued, Name, IName, __VA_ARGS__), "MPI_" #Name))                      \
            test_complete(form, starts, &issued);                                                            \
    } while (0)
void test_complete(enum test_form form, int starts, MPI_Request *request);

#endif
