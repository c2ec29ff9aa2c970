/* A token that goes around all ranks of an MPI job several times. Each rank adds its number. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 10 };

int main(int argc, char **argv)
{
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_INT, right, round, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_INT, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += rank;
            MPI_Send(&token, 1, MPI_INT, right, round, MPI_COMM_WORLD);
        }
    }
    if (rank == 0) {
        printf("rank 0: ring of %d, token %d\n", size, token);
    }
    MPI_Finalize();
    return 0;
}
