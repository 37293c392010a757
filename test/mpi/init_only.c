/*
 * Calls nothing of MPI between MPI_Init and MPI_Finalize (test/mpi/init_only.sh).
 */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
