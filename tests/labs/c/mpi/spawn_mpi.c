/* MPI procs that start others and add up their numbers with them. */
#include <mpi.h>
#include <stdio.h>

enum { CHILDREN = 4 };

int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Comm parent, children, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &children, MPI_ERRCODES_IGNORE);
        MPI_Intercomm_merge(children, 0, &all);
    } else {
        MPI_Intercomm_merge(parent, 1, &all);
    }
    int number = parent == MPI_COMM_NULL ? 1 : 100;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, all);
    if (parent == MPI_COMM_NULL) {
        printf("rank %d: parent of %d, sum %d\n", rank, size, sum);
    } else {
        printf("child %d: of %d, sum %d\n", rank, size, sum);
    }
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(parent == MPI_COMM_NULL ? &children : &parent);
    MPI_Finalize();
    return 0;
}
