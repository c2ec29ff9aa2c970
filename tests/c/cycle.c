/* Initializes, waits for the others in a fence and finalizes, as many times as its first argument
 * says. The rank in the optional second argument exits instead of the last repetition. The others
 * then print the result of their last fence. */
#include "need.h"

int main(int argc, char *argv[])
{
    if (argc < 2) {
        fprintf(stderr, "usage: cycle TIMES [RANK]\n");
        return EXIT_FAILURE;
    }
    int times = atoi(argv[1]), leaver = argc > 2 ? atoi(argv[2]) : -1;
    for (int i = 1; i <= times; i++) {
        need("init", PMIx_Init(&me, NULL, 0));
        pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
        if (leaver < 0 || i < times) {
            need("fence", status);
        } else {
            printf("rank %u: last fence: %s\n", me.rank, PMIx_Error_string(status));
        }
        need("finalize", PMIx_Finalize(NULL, 0));
        if ((int) me.rank == leaver && i == times - 1) {
            return EXIT_SUCCESS;
        }
    }
    printf("rank %u: done\n", me.rank);
    return EXIT_SUCCESS;
}
