#include "test/mpi/form.h"

const char *test_form_name(enum test_form form)
{
    static const char *const names[] = {"blocking", "nonblocking", "persistent"};
    return names[form];
}

bool test_form_exists(enum test_form form)
{
#ifdef TEST_PERSISTENT
    (void)form;
    return true;
#else
    return form != TEST_PERSISTENT_FORM;
#endif
}

void test_complete(enum test_form form, int starts, MPI_Request *request)
{
    if (form == TEST_NONBLOCKING)
        test_ok(MPI_Wait(request, MPI_STATUS_IGNORE), "MPI_Wait");
    if (form != TEST_PERSISTENT_FORM)
        return;
    for (int i = 0; i < starts; i++) {
        test_ok(MPI_Start(request), "MPI_Start");
        test_ok(MPI_Wait(request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    test_ok(MPI_Request_free(request), "MPI_Request_free");
}
