/* A proc of a job under any server: a direct modex and a full modex with the next rank, which may be on another
 * node. */
#include "../../c/say.h"

static void must(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        say_status(what, status, PMIX_SUCCESS);
        exit(1);
    }
}

int main(void)
{
    pmix_proc_t all, next;
    pmix_value_t *value, put;
    pmix_info_t collect;
    char host[64];
    bool yes = true;

    must("init", PMIx_Init(&me, NULL, 0));
    gethostname(host, sizeof host);
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    must("job size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
    uint32_t size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    PMIX_LOAD_PROCID(&next, me.nspace, (me.rank + 1) % size);

    /* A fence without data, then one value from the one server that has it. */
    PMIX_VALUE_LOAD(&put, host, PMIX_STRING);
    must("put", PMIx_Put(PMIX_GLOBAL, "labs.requested", &put));
    must("commit", PMIx_Commit());
    must("fence", PMIx_Fence(&all, 1, NULL, 0));
    must("get of one value", PMIx_Get(&next, "labs.requested", NULL, 0, &value));
    PMIX_VALUE_RELEASE(value);

    /* The data of all procs to all procs. */
    must("put", PMIx_Put(PMIX_GLOBAL, "labs.collected", &put));
    must("commit", PMIx_Commit());
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must("fence with data", PMIx_Fence(&all, 1, &collect, 1));
    must("get", PMIx_Get(&next, "labs.collected", NULL, 0, &value));
    say("of %u on %s, rank %u on %s", size, host, next.rank, value->data.string);
    PMIX_VALUE_RELEASE(value);
    PMIX_VALUE_DESTRUCT(&put);

    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
