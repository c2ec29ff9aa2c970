/* Locations of procs: peers by node, nodes by job, and refreshed data of the job.
 *
 *     resolve [OTHER]
 *
 * OTHER is the namespace of another job; the default is the own one. */
#include "grouped.h"

static void say_peers(const char *what, const char *node, const char *nspace, pmix_status_t expected)
{
    pmix_proc_t *procs = NULL;
    size_t nprocs = 0;
    say_status(what, PMIx_Resolve_peers(node, nspace, &procs, &nprocs), expected);
    for (size_t i = 0; i < nprocs; i++) {
        bool own = PMIX_CHECK_NSPACE(procs[i].nspace, me.nspace);
        say("%s:%u is there", own ? "own" : "other", procs[i].rank);
    }
    PMIX_PROC_FREE(procs, nprocs);
}

static void say_nodes(const char *what, const char *nspace)
{
    char *nodes = NULL;
    say_status(what, PMIx_Resolve_nodes(nspace, &nodes), PMIX_SUCCESS);
    say("nodes: %s", NULL == nodes ? "none" : nodes);
    free(nodes);
}

int main(int argc, char **argv)
{
    start();
    const char *other = argc > 1 ? argv[1] : me.nspace;
    pmix_value_t *host;
    need("host name", PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &host));
    say_peers("peers", host->data.string, me.nspace, PMIX_SUCCESS);
    say_peers("peers of another job", host->data.string, other, PMIX_SUCCESS);
    say_nodes("nodes", me.nspace);
    PMIX_VALUE_RELEASE(host);

    pmix_info_t anew;
    bool yes = true;
    PMIX_INFO_LOAD(&anew, PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
    pmix_proc_t job = all_of(me.nspace);
    pmix_value_t *size;
    say_status("job size anew", PMIx_Get(&job, PMIX_JOB_SIZE, &anew, 1, &size), PMIX_SUCCESS);
    say("job size: %u", size->data.uint32);
    PMIX_VALUE_RELEASE(size);
    return finish();
}
