/* Sums over all ranks of an MPI job, of one number and of a vector that takes several messages. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 100000 };

int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

    int *mine = malloc(LENGTH * sizeof *mine), *sums = malloc(LENGTH * sizeof *sums), wrong = 0;
    for (int i = 0; i < LENGTH; i++) mine[i] = rank + i;
    MPI_Allreduce(mine, sums, LENGTH, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < LENGTH; i++) wrong += sums[i] != sum + size * i;
    printf("rank %d: sum %d, %d of the vector wrong\n", rank, sum, wrong);
    free(mine);
    free(sums);
    MPI_Finalize();
    return wrong != 0;
}
