/*
 * Where kernels are threads (the host accelerator), waits in MPI give their core away, whatever mpirun has said (mpi_yield_when_idle): with as
 * many ranks as cores a sum of 1 MiB else takes ten times as long.
 */
#include "test/mpi/memory.h"
#include "test/mpi/sums.h"
#include "test/mpi/support.h"

enum { COUNT = 256 << 10 };

int main(int argc, char **argv)
{
    struct sum sum;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    if (test_begin("yields/waits_give_the_core_away")) {
        sum_open(&sum, 0, COUNT, TEST_DEVICE);
        sum_fill(&sum, 1);
        sum_post(&sum, MPI_COMM_WORLD);
        sum_wait(&sum);
        if (!test_memory_yields())
            test_fail("a wait keeps its core");
        sum_close(&sum);
        test_end();
    }
    return test_finish();
}
