/* A PMIx program whose procs connect with those of another job, print what each can know of the
 * others, and disconnect.
 *
 *     connect OTHER [RANK]
 *
 * OTHER is the namespace of the other job. Rank RANK of the job whose name is first dies
 * connected. */
#include "grouped.h"

#include <signal.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s OTHER [RANK]\n", argv[0]);
        return 2;
    }
    const char *other = argv[1];
    start();
    bool is_first = strcmp(me.nspace, other) < 0;
    pmix_proc_t jobs[2] = {all_of(other), all_of(me.nspace)};
    listen_to(PMIX_ERR_PROC_TERM_WO_SYNC, NULL);
    post(PMIX_GLOBAL);
    need("commit", PMIx_Commit());
    say_status("connect", PMIx_Connect(jobs, 2, NULL, 0), PMIX_SUCCESS);
    say_value_of(other, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, SIZE_MAX);
    for (pmix_rank_t rank = 0; rank < job_size; rank++) {
        say_value_of(other, rank, PMIX_LOCAL_RANK, SIZE_MAX);
        say_value_of(other, rank, POSTED, SIZE_MAX);
    }
    say_status("fence", PMIx_Fence(jobs, 2, NULL, 0), PMIX_SUCCESS);
    if (argc > 2) {
        if (is_first && me.rank == (pmix_rank_t) atoi(argv[2])) {
            raise(SIGKILL);
        }
        if (!is_first) {
            say_next_event("that a proc of the other job has died");
        }
    }
    say_status("disconnect", PMIx_Disconnect(jobs, 2, NULL, 0), PMIX_SUCCESS);
    return finish();
}
