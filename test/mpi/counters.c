#include "test/mpi/counters.h"

#include <stdio.h>
#include <string.h>

#include "test/mpi/support.h"

MPI_T_pvar_session test_counters_session;
struct test_opened test_opened;

/* Open MPI 4.1 and 5.0 take the level that is asked for here for that of MPI itself, whose point-to-point calls then share their requests:
 * a lower one than MPI_Init_thread has given is not safe for threads any more. */
void test_counters_start(void)
{
    int provided;
    MPI_T_init_thread(test.thread_level, &provided);
    MPI_T_pvar_session_create(&test_counters_session);
}

void test_counters_stop(void)
{
    MPI_T_pvar_session_free(&test_counters_session);
    MPI_T_finalize();
}

MPI_T_pvar_handle test_variable_open(const char *wanted)
{
    MPI_T_pvar_handle handle = NULL;
    int variables = 0;

    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables && handle == NULL; i++) {
        char name[200];
        int name_length = sizeof name, help_length = sizeof test_opened.help, verbosity, class, bind,
            readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum enumeration;
        if (MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &enumeration,
                                test_opened.help, &help_length, &bind, &readonly, &continuous,
                                &atomic) != MPI_SUCCESS ||
            strcmp(name, wanted) != 0)
            continue;
        if (MPI_T_pvar_handle_alloc(test_counters_session, i, NULL, &handle, &test_opened.values) !=
                MPI_SUCCESS ||
            test_opened.values > TEST_VALUES_MAX)
            test_fail("%s gives no handle", wanted);
    }
    if (handle == NULL)
        test_fail("there is no performance variable %s", wanted);
    return handle;
}

MPI_T_pvar_handle test_counter_open(const char *wanted)
{
    MPI_T_pvar_handle handle = test_variable_open(wanted);

    if (handle != NULL && test_opened.values != 1)
        test_fail("%s has %d values", wanted, test_opened.values);
    return handle;
}

unsigned long long test_counter_read(MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    if (handle != NULL && MPI_T_pvar_read(test_counters_session, handle, &value) != MPI_SUCCESS)
        test_fail("a counter cannot be read");
    return value;
}

unsigned long long test_counter_close(MPI_T_pvar_handle handle)
{
    const unsigned long long value = test_counter_read(handle);

    if (handle != NULL)
        MPI_T_pvar_handle_free(test_counters_session, &handle);
    return value;
}

int test_opened_index(const char *element)
{
    char pattern[100];
    const char *list = strchr(test_opened.help, ':');

    for (int i = 0; i < test_opened.values && list != NULL; i++) {
        snprintf(pattern, sizeof pattern, " %d %s", i, element);
        const char *found = strstr(list, pattern);
        if (found != NULL && (found[strlen(pattern)] == ',' || found[strlen(pattern)] == ';' ||
                              found[strlen(pattern)] == '\0'))
            return i;
    }
    test_fail("there is no %s in: %s", element, test_opened.help);
    return 0;
}

bool test_opened_state(int value, char *text, size_t bytes)
{
    char pattern[20];
    const char *list = strstr(test_opened.help, "; values:");
    const char *found;

    snprintf(pattern, sizeof pattern, " %d ", value);
    found = list != NULL ? strstr(list, pattern) : NULL;
    if (found == NULL)
        return false;
    found += strlen(pattern);
    snprintf(text, bytes, "%.*s", (int)strcspn(found, ","), found);
    return true;
}
