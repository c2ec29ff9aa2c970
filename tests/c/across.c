/* A PMIx program whose procs form a group with those of another job, at the same server or another
 * one. They print what each can know of the others. The output does not depend on the number of the
 * group.
 *
 *     across OTHER [RANK]
 *
 * OTHER is the namespace of the other job. Rank RANK of the job whose name is first dies in the
 * group. */
#include "grouped.h"

#include <signal.h>

#define WORDS 424242

/* Raises an event for the group by its name. The source does not receive it. */
static void call_members(void)
{
    pmix_proc_t members = all_of("across");
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_CUSTOM_RANGE, &members, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[1], PMIX_GROUP_ID, "across", PMIX_STRING);
    need("notify", PMIx_Notify_event(WORDS, &me, PMIX_RANGE_CUSTOM, infos, 2, NULL, NULL));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s OTHER [RANK]\n", argv[0]);
        return 2;
    }
    const char *other = argv[1];
    start();
    bool is_first = strcmp(me.nspace, other) < 0;
    pmix_proc_t jobs[2] = {all_of(is_first ? other : me.nspace), all_of(is_first ? me.nspace : other)};
    listen_to(WORDS, NULL);
    listen_to(PMIX_GROUP_MEMBER_FAILED, NULL);
    post(PMIX_REMOTE);
    size_t number = numbered("across", jobs, 2);
    say_value_of(other, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, SIZE_MAX);
    for (pmix_rank_t rank = 0; rank < job_size; rank++) {
        say_value_of(other, rank, POSTED, SIZE_MAX);
        say_value_of(other, rank, PMIX_GROUP_LOCAL_CID, number);
        say_value_of(other, rank, NOTE, number);
    }
    fence_of_group("across");
    if (is_first && 0 == me.rank) {
        call_members();
    } else {
        say_next_event("an event for the members");
    }
    fence_of_group("across");
    if (argc > 2) {
        if (is_first && me.rank == (pmix_rank_t) atoi(argv[2])) {
            raise(SIGKILL);
        }
        say_next_event("that a member has died");
        fence_of_group("across");
    }
    destruct("across", PMIX_SUCCESS);
    return finish();
}
