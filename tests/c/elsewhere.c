/* Requests about procs of the same job on other nodes, and the status of each. Rank 0 makes them; the other
 * procs of its node wait until it has finished.
 *
 *     elsewhere RANK NODE_SIZE
 *
 * RANK is on another node; the node of rank 0 has the ranks below NODE_SIZE. With the number of all procs in
 * the place of NODE_SIZE, all procs wait. */
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "need.h"

/* Keys of later releases. */
#define MONITOR_PROC_RESOURCE_USAGE "pmix.monitor.presuse"
#define MONITOR_TARGET_PROCS "pmix.monitor.tgtproc"
#define QUERY_PROC_RESOURCE_USAGE "pmix.qry.pres"

/* Prints a status and the keys of the results. */
static void say(const char *what, pmix_status_t status, pmix_info_t *results, size_t nresults)
{
    printf("%s: %d", what, status);
    for (size_t i = 0; i < nresults; i++) {
        printf(" %s", results[i].key);
    }
    puts("");
    fflush(stdout);
    if (NULL != results) {
        PMIX_INFO_FREE(results, nresults);
    }
}

static void control(const char *what, const pmix_proc_t *target, pmix_info_t *directive)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_status_t status = PMIx_Job_control(target, 1, directive, 1, &results, &nresults);
    say(what, status, results, nresults);
}

static void control_all(const pmix_proc_t *one, const pmix_proc_t *all)
{
    int number = SIGCONT;
    pmix_info_t directive;
    PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT);
    control("signal to one", one, &directive);
    control("signal to all", all, &directive);
    PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_CHECKPOINT, "test", PMIX_STRING);
    control("checkpoint of one", one, &directive);
    PMIX_INFO_DESTRUCT(&directive);
}

static void query(const char *what, const char *key, pmix_proc_t *about)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    need("key", status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 2);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, about->nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&query.qualifiers[1], PMIX_RANK, &about->rank, PMIX_PROC_RANK);
    status = PMIx_Query_info(&query, 1, &results, &nresults);
    if (1 == nresults && PMIX_DATA_ARRAY == results[0].value.type
        && PMIX_PROC_INFO == results[0].value.data.darray->type) {
        pmix_data_array_t *procs = results[0].value.data.darray;
        size_t running = 0;
        for (size_t i = 0; i < procs->size; i++) {
            running += ((pmix_proc_info_t *) procs->array)[i].pid > 0;
        }
        printf("%s: %zu procs, %zu with their process\n", what, procs->size, running);
    }
    say(what, status, results, nresults);
    PMIX_QUERY_DESTRUCT(&query);
}

static void monitor(const char *what, pmix_proc_t *target)
{
    pmix_data_array_t procs = {.type = PMIX_PROC, .size = 1, .array = target};
    pmix_info_t usage, directive, *results = NULL;
    size_t nresults = 0;
    PMIX_INFO_CONSTRUCT(&usage);
    PMIX_LOAD_KEY(usage.key, MONITOR_PROC_RESOURCE_USAGE);
    PMIX_INFO_CONSTRUCT(&directive);
    PMIX_LOAD_KEY(directive.key, MONITOR_TARGET_PROCS);
    directive.value.type = PMIX_DATA_ARRAY;
    directive.value.data.darray = &procs;
    say(what, PMIx_Process_monitor(&usage, PMIX_SUCCESS, &directive, 1, &results, &nresults), results, nresults);
}

int main(int argc, char **argv)
{
    pmix_proc_t one, all, *node;
    if (argc < 3) {
        return EXIT_FAILURE;
    }
    need("init", PMIx_Init(&me, NULL, 0));
    size_t size = (size_t) atoi(argv[2]);
    PMIX_PROC_CREATE(node, size);
    for (size_t rank = 0; rank < size; rank++) {
        PMIX_LOAD_PROCID(&node[rank], me.nspace, (pmix_rank_t) rank);
    }
    /* The node's procs are all connected. */
    need("fence", PMIx_Fence(node, size, NULL, 0));
    if (0 == me.rank) {
        PMIX_LOAD_PROCID(&one, me.nspace, (pmix_rank_t) atoi(argv[1]));
        PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
        control_all(&one, &all);
        query("usage of one", QUERY_PROC_RESOURCE_USAGE, &one);
        query("table of all", PMIX_QUERY_PROC_TABLE, &all);
        query("table of the node", PMIX_QUERY_LOCAL_PROC_TABLE, &all);
        monitor("monitor of one", &one);
        monitor("monitor of all", &all);
    }
    need("fence", PMIx_Fence(node, size, NULL, 0));
    PMIX_PROC_FREE(node, size);
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
