#include "test/mpi/counters.h"

#include <string.h>

#include "test/mpi/support.h"

static MPI_T_pvar_session session;

void test_counters_start(void)
{
    int provided;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
}

void test_counters_stop(void)
{
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

MPI_T_pvar_handle test_counter_open(const char *wanted)
{
    MPI_T_pvar_handle handle = NULL;
    int variables = 0;

    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables && handle == NULL; i++) {
        char name[200], help[2000];
        int name_length = sizeof name, help_length = sizeof help, verbosity, class, bind, readonly,
            continuous, atomic;
        int values = 0;
        MPI_Datatype type;
        MPI_T_enum enumeration;
        if (MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &enumeration, help,
                                &help_length, &bind, &readonly, &continuous, &atomic) != MPI_SUCCESS ||
            strcmp(name, wanted) != 0)
            continue;
        if (MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &values) != MPI_SUCCESS || values != 1)
            test_fail("%s gives no handle", wanted);
    }
    if (handle == NULL)
        test_fail("there is no performance variable %s", wanted);
    return handle;
}

unsigned long long test_counter_close(MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    if (handle == NULL)
        return 0;
    if (MPI_T_pvar_read(session, handle, &value) != MPI_SUCCESS)
        test_fail("a counter cannot be read");
    MPI_T_pvar_handle_free(session, &handle);
    return value;
}
