/* Requests that a host environment answers, and the status of each. Rank 0 makes them; the other
 * ranks exchange values on their node meanwhile, for which they need no host environment.
 *
 *     requests [SECONDS]
 *
 * SECONDS is the time limit of requests that wait for other procs (1). */
#include <stdint.h>
#include <string.h>

#include "need.h"

static uint32_t limit = 1;

static void say(const char *what, pmix_status_t status)
{
    printf("rank %u: %s: %d\n", me.rank, what, status);
    fflush(stdout);
}

static void load_limit(pmix_info_t *info)
{
    PMIX_INFO_LOAD(info, PMIX_TIMEOUT, &limit, PMIX_UINT32);
}

static void publish(void)
{
    pmix_info_t info;
    char *keys[] = {"test.port", NULL};
    PMIX_INFO_LOAD(&info, "test.port", "here", PMIX_STRING);
    say("publish", PMIx_Publish(&info, 1));
    say("unpublish", PMIx_Unpublish(keys, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
}

static void lookup(void)
{
    pmix_pdata_t data;
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "test.port");
    say("lookup", PMIx_Lookup(&data, 1, NULL, 0));
    PMIX_PDATA_DESTRUCT(&data);
}

static void spawn(void)
{
    pmix_app_t app;
    pmix_nspace_t nspace;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("/bin/true");
    app.maxprocs = 1;
    say("spawn", PMIx_Spawn(NULL, 0, &app, 1, nspace));
    PMIX_APP_DESTRUCT(&app);
}

static void query(void)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t nfound = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, "test.question");
    need("key", status);
    say("query", PMIx_Query_info(&query, 1, &found, &nfound));
    PMIX_QUERY_DESTRUCT(&query);
}

static void allocate(void)
{
    pmix_info_t wanted, *found = NULL;
    size_t nfound = 0;
    uint64_t nodes = 1;
    PMIX_INFO_LOAD(&wanted, PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
    say("allocation", PMIx_Allocation_request(PMIX_ALLOC_NEW, &wanted, 1, &found, &nfound));
    PMIX_INFO_DESTRUCT(&wanted);
}

static void get_from_elsewhere(pmix_rank_t rank)
{
    pmix_proc_t other;
    pmix_info_t info;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&other, me.nspace, rank);
    load_limit(&info);
    say("get", PMIx_Get(&other, "test.value", &info, 1, &value));
}

static void fence_with(pmix_rank_t rank)
{
    pmix_proc_t both[2];
    pmix_info_t info;
    both[0] = me;
    PMIX_LOAD_PROCID(&both[1], me.nspace, rank);
    load_limit(&info);
    say("fence", PMIx_Fence(both, 2, &info, 1));
    say("connect", PMIx_Connect(both, 2, &info, 1));
}

/* Values of procs of this node come without the host environment. */
static void exchange(pmix_rank_t peer)
{
    pmix_proc_t other;
    pmix_value_t value, *found = NULL;
    PMIX_LOAD_PROCID(&other, me.nspace, peer);
    PMIX_VALUE_LOAD(&value, "kept", PMIX_STRING);
    need("put", PMIx_Put(PMIX_GLOBAL, "test.value", &value));
    need("commit", PMIx_Commit());
    PMIX_VALUE_DESTRUCT(&value);
    say("get from the node", PMIx_Get(&other, "test.value", NULL, 0, &found));
    if (NULL != found) {
        PMIX_VALUE_RELEASE(found);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        limit = (uint32_t) atoi(argv[1]);
    }
    need("init", PMIx_Init(&me, NULL, 0));
    exchange(1 - me.rank);
    if (0 == me.rank) {
        publish();
        lookup();
        spawn();
        query();
        allocate();
        get_from_elsewhere(2);
        fence_with(2);
    }
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
