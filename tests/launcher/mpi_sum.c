/* SPDX-License-Identifier: MIT */
/* mpi_sum - adds up 1 in all ranks and prints the sum. With "abort", rank 1 then aborts. With
 * "wait", all ranks block during their work. With "spawn", rank 0 starts another process and
 * receives its message. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void spawn(char *self)
{
    int number = 0;
    MPI_Comm other;

    MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other,
                   MPI_ERRCODES_IGNORE);
    MPI_Recv(&number, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
    printf("from the other: %d\n", number);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
}

static void answer(MPI_Comm parent)
{
    int number = 42;

    MPI_Send(&number, 1, MPI_INT, 0, 0, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    int one = 1, sum = 0, rank;
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        answer(parent);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "spawn") == 0) {
        spawn(argv[0]);
        return 0;
    }
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
