/* A tool that finds its server by rendezvous files, and queries the jobs there.
 *
 *     PMIX_SYSTEM_TMPDIR=DIR target/c/tool [NAME]
 *
 * With a name it sends its own, else the server assigns one. It prints the results, a line for each
 * item. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix_tool.h>

static void need(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        printf("%s: %s\n", what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

/* Sends one query, about one job or about all. */
static pmix_status_t ask(const char *key, const char *nspace, pmix_info_t **found, size_t *count)
{
    pmix_query_t query;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    if (nspace != NULL) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    }
    status = PMIx_Query_info(&query, 1, found, count);
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

static void print_procs(const pmix_data_array_t *procs)
{
    const pmix_proc_info_t *proc = procs->array;
    for (size_t n = 0; n < procs->size; n++) {
        printf("proc %u: %s on this host, %s, state %d\n", proc[n].proc.rank, proc[n].executable_name,
               proc[n].pid > 0 ? "with a process" : "without a process", proc[n].state);
    }
}

static void print_jobs(const pmix_data_array_t *jobs)
{
    const pmix_info_t *job = jobs->array;
    for (size_t n = 0; n < jobs->size; n++) {
        const pmix_info_t *info = job[n].value.data.darray->array;
        for (size_t m = 0; m < job[n].value.data.darray->size; m++) {
            if (PMIX_CHECK_KEY(&info[m], PMIX_CMD_LINE)) {
                printf("a job runs: %s\n", info[m].value.data.string);
            }
        }
    }
}

int main(int argc, char **argv)
{
    pmix_proc_t me, job;
    pmix_info_t directives[2], *found = NULL;
    pmix_rank_t rank = 0;
    pmix_value_t *value = NULL;
    size_t count = 0;
    char nspace[PMIX_MAX_NSLEN + 1];

    if (argc > 1) {
        PMIX_INFO_LOAD(&directives[0], PMIX_TOOL_NSPACE, argv[1], PMIX_STRING);
        PMIX_INFO_LOAD(&directives[1], PMIX_TOOL_RANK, &rank, PMIX_PROC_RANK);
    }
    need("init", PMIx_tool_init(&me, directives, argc > 1 ? 2 : 0));
    printf("I am %s\n", argc > 1 ? me.nspace : strstr(me.nspace, "-tool-") != NULL ? "a tool with a given name" : me.nspace);

    need("namespaces", ask(PMIX_QUERY_NAMESPACES, NULL, &found, &count));
    snprintf(nspace, sizeof nspace, "%s", found[0].value.data.string);
    printf("namespaces: %s\n", strchr(nspace, ',') == NULL && strstr(nspace, "@1") != NULL ? "one job" : nspace);
    PMIX_INFO_FREE(found, count);

    need("namespace info", ask(PMIX_QUERY_NAMESPACE_INFO, NULL, &found, &count));
    print_jobs(found[0].value.data.darray);
    PMIX_INFO_FREE(found, count);

    need("proc table", ask(PMIX_QUERY_PROC_TABLE, nspace, &found, &count));
    print_procs(found[0].value.data.darray);
    PMIX_INFO_FREE(found, count);

    printf("a proc table of nobody: %s\n", PMIx_Error_string(ask(PMIX_QUERY_PROC_TABLE, "nobody", &found, &count)));
    printf("what nobody knows: %s\n", PMIx_Error_string(ask("test.unknown", NULL, &found, &count)));

    PMIX_LOAD_PROCID(&job, nspace, PMIX_RANK_WILDCARD);
    need("get", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value));
    printf("its size: %u\n", value->data.uint32);
    PMIX_VALUE_RELEASE(value);

    need("finalize", PMIx_tool_finalize());
    return EXIT_SUCCESS;
}
