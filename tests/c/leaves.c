/* Rank 0 exits with status 0 without finalizing. The others wait longer than the event about it
 * takes, and then print their last line. */
#include "need.h"
#include <unistd.h>

int main(int argc, char *argv[])
{
    need("init", PMIx_Init(&me, NULL, 0));
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (me.rank == 0) {
        _exit(0);
    }
    usleep(argc > 1 ? 1000 * (useconds_t) atoi(argv[1]) : 0);
    printf("rank %u: last line\n", me.rank);
    fflush(stdout);
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
