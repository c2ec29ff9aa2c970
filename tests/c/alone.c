/* A singleton: it connects to the system's server if there is one, and prints the results of its
 * calls. */
#include <stdio.h>
#include <stdlib.h>

#include <pmix.h>

static void say(const char *what, pmix_status_t status)
{
    printf("%s: %d\n", what, status);
    fflush(stdout);
}

int main(void)
{
    pmix_proc_t me, job;
    pmix_value_t value, *found = NULL;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    say("PMIx_Init", status);
    if (status != PMIX_SUCCESS) {
        return EXIT_FAILURE;
    }
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found);
    say("PMIx_Get", status);
    if (status == PMIX_SUCCESS) {
        printf("procs: %u\n", found->data.uint32);
        PMIX_VALUE_RELEASE(found);
    }
    PMIX_VALUE_LOAD(&value, "here", PMIX_STRING);
    say("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "alone.word", &value));
    PMIX_VALUE_DESTRUCT(&value);
    say("PMIx_Commit", PMIx_Commit());
    say("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    say("PMIx_Notify_event", PMIx_Notify_event(-3601, &me, PMIX_RANGE_SESSION, NULL, 0, NULL, NULL));
    say("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
