/*
 * Calls MPI_Allreduce on host memory `calls` times and no more: test/mpi/passcost.sh counts the instructions
 * of runs with different numbers of calls, with gpucoll and without. No cases, no report, no CUDA.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long calls = argc > 1 ? atol(argv[1]) : 1;
    double mine[4] = {1, 2, 3, 4};
    double sum[4];

    MPI_Init(&argc, &argv);
    for (long i = 0; i < calls; i++)
        MPI_Allreduce(mine, sum, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum[3] == 4 ? 0 : 1;
}
