/* The OpenSHMEM program of the tests: ranks put to their right neighbour, get from it, and add to
 * one number of rank 0.
 *
 *     oshrun -n 4 target/c/shmem
 */
#include <shmem.h>
#include <stdio.h>

static long from_left, own;

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), all = shmem_n_pes(), right = (me + 1) % all;
    printf("rank %d: hello of %d\n", me, all);

    own = 100 + me;
    shmem_barrier_all();
    shmem_long_p(&from_left, me, right);
    shmem_barrier_all();
    printf("rank %d: put by %ld\n", me, from_left);
    printf("rank %d: got %ld\n", me, shmem_long_g(&own, right));

    long *sum = shmem_calloc(1, sizeof *sum);
    shmem_barrier_all();
    shmem_long_atomic_add(sum, me + 1, 0);
    shmem_barrier_all();
    printf("rank %d: sum %ld\n", me, shmem_long_g(sum, 0));
    fflush(stdout);
    shmem_barrier_all();
    shmem_free(sum);
    shmem_finalize();
    return 0;
}
