/* mpi_sum - adds up 1 in all ranks and prints the sum; then, with "abort", rank 1 aborts, and with
 * "wait" all stay in the middle of their work. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int one = 1, sum = 0, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d sum %d\n", rank, sum);
    fflush(stdout);
    if (argc > 1) {
        if (rank == 1 && strcmp(argv[1], "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, 9);
        sleep(1000);
    }
    MPI_Finalize();
    return 0;
}
