/*
 * Where kernels are threads (the host accelerator), waits in MPI give their core away, whatever mpirun has said (mpi_yield_when_idle): with as
 * many ranks as cores a sum of 1 MiB else takes ten times as long.
 */
#include <dlfcn.h>

#include "test/mpi/sums.h"
#include "test/mpi/support.h"

enum { COUNT = 256 << 10 };

/* Open MPI's own function, of a library that its MPI brings along: sets the switch and returns how it was. */
static bool yields(void)
{
    bool (*set)(bool) = (bool (*)(bool))dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle");
    if (set == NULL) {
        test_fail("Open MPI has no opal_progress_set_yield_when_idle");
        return false;
    }
    const bool before = set(true);
    set(before);
    return before;
}

int main(int argc, char **argv)
{
    struct sum sum;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    if (test_begin("yields/waits_give_the_core_away")) {
        sum_open(&sum, 0, COUNT, TEST_DEVICE);
        sum_fill(&sum, 1);
        sum_post(&sum, MPI_COMM_WORLD);
        sum_wait(&sum);
        if (!yields())
            test_fail("a wait keeps its core");
        sum_close(&sum);
        test_end();
    }
    return test_finish();
}
