/* The calls of the C library's tools (pps, pattrs, plookup, pevent, pquery, pctrl, palloc), made by
 * one tool that uses the public interface alone.
 *
 *     PMIX_SYSTEM_TMPDIR=DIR target/c/tool_calls [--pid N | --namespace NAME | --uri URI |
 *                                                 --system-server | --system-server-first]
 *
 * It finds its server as these tools do. Its output does not depend on the names of the server. The
 * job of the server is named on standard error. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix_tool.h>

#define CUSTOM (-3100)

static pmix_proc_t me;
static volatile int heard, asked;

static void need(const char *what, pmix_status_t status)
{
    printf("%s: %s\n", what, PMIx_Error_string(status));
    if (PMIX_SUCCESS != status) {
        exit(EXIT_FAILURE);
    }
}

/* Names of servers and jobs differ from run to run. */
static const char *shown(const char *nspace)
{
    if (PMIX_CHECK_NSPACE(nspace, me.nspace)) {
        return "my namespace";
    }
    return NULL != strchr(nspace, '@') ? "namespace of a job" : nspace;
}

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t complete, void *data)
{
    (void) id, (void) status, (void) info, (void) ninfo, (void) results, (void) nresults;
    /* Events of earlier tools are kept for this one, and the C library hears its own event twice. */
    if (!heard && PMIX_CHECK_PROCID(source, &me)) {
        heard = 1;
    }
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void print_functions(const char *names)
{
    printf("functions of the host: fence %s, publish %s, spawn %s\n", strstr(names, "PMIx_Fence") ? "yes" : "no",
           strstr(names, "PMIx_Publish") ? "yes" : "no", strstr(names, "PMIx_Spawn") ? "yes" : "no");
}

static void print_attributes(const pmix_data_array_t *functions)
{
    const pmix_info_t *function = functions->array;
    for (size_t n = 0; n < functions->size; n++) {
        const pmix_data_array_t *attributes = function[n].value.data.darray;
        const pmix_regattr_t *attribute = attributes->array;
        for (size_t m = 0; m < attributes->size; m++) {
            printf("attribute of %s: %s, %s, type %u\n", function[n].key, attribute[m].name, attribute[m].string,
                   attribute[m].type);
        }
    }
}

static void print_procs(const pmix_data_array_t *procs)
{
    const pmix_proc_info_t *proc = procs->array;
    for (size_t n = 0; n < procs->size; n++) {
        printf("proc %u: %s, state %d, status %d\n", proc[n].proc.rank,
               NULL == proc[n].executable_name ? "no name" : proc[n].executable_name, proc[n].state, proc[n].exit_code);
    }
}

static char job[PMIX_MAX_NSLEN + 1];

static void answered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *data, pmix_release_cbfunc_t release,
                     void *release_data)
{
    printf("%s: %s\n", (const char *) data, PMIx_Error_string(status));
    /* The C library passes no infos with an error. */
    for (size_t n = 0; PMIX_SUCCESS == status && n < ninfo; n++) {
        const pmix_value_t *value = &info[n].value;
        if (PMIX_CHECK_KEY(&info[n], PMIX_HOST_FUNCTIONS)) {
            print_functions(value->data.string);
        } else if (PMIX_CHECK_KEY(&info[n], PMIX_QUERY_NAMESPACES)) {
            snprintf(job, sizeof job, "%s", value->data.string);
            printf("namespaces: %s\n", shown(job));
        } else if (PMIX_DATA_ARRAY == value->type && PMIX_PROC_INFO == value->data.darray->type) {
            print_procs(value->data.darray);
        } else if (PMIX_DATA_ARRAY == value->type && PMIX_INFO == value->data.darray->type) {
            print_attributes(value->data.darray);
        } else if (PMIX_STRING == value->type) {
            printf("%s: %zu characters\n", info[n].key, strlen(value->data.string));
        } else {
            printf("%s: type %u\n", info[n].key, value->type);
        }
    }
    if (NULL != release) {
        release(release_data);
    }
    asked = 1;
}

/* Sends a query with one qualifier at most, and waits for its answer as the tools do. */
static void ask(const char *what, const char *key, const char *qualifier, const char *value)
{
    pmix_query_t query;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    if (NULL != qualifier) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], qualifier, value, NULL == value ? PMIX_BOOL : PMIX_STRING);
    }
    asked = 0;
    status = PMIx_Query_info_nb(&query, 1, answered, (void *) what);
    if (PMIX_SUCCESS != status) {
        printf("%s: %s\n", what, PMIx_Error_string(status));
    }
    while (PMIX_SUCCESS == status && !asked) {
        usleep(1000);
    }
    PMIX_QUERY_DESTRUCT(&query);
}

static size_t way(int argc, char **argv, pmix_info_t *info)
{
    if (argc < 2) {
        return 0;
    }
    if (0 == strcmp(argv[1], "--system-server")) {
        PMIX_INFO_LOAD(info, PMIX_CONNECT_TO_SYSTEM, NULL, PMIX_BOOL);
    } else if (0 == strcmp(argv[1], "--system-server-first")) {
        PMIX_INFO_LOAD(info, PMIX_CONNECT_SYSTEM_FIRST, NULL, PMIX_BOOL);
    } else if (argc > 2 && 0 == strcmp(argv[1], "--pid")) {
        pid_t pid = atoi(argv[2]);
        PMIX_INFO_LOAD(info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    } else if (argc > 2 && 0 == strcmp(argv[1], "--namespace")) {
        PMIX_INFO_LOAD(info, PMIX_SERVER_NSPACE, argv[2], PMIX_STRING);
    } else if (argc > 2 && 0 == strcmp(argv[1], "--uri")) {
        PMIX_INFO_LOAD(info, PMIX_SERVER_URI, argv[2], PMIX_STRING);
    } else {
        printf("unknown: %s\n", argv[1]);
        exit(2);
    }
    return 1;
}

int main(int argc, char **argv)
{
    pmix_info_t directive, info[2];
    pmix_pdata_t found;
    pmix_status_t code = CUSTOM, status;
    pmix_data_range_t range = PMIX_RANGE_SESSION;
    uint64_t nodes = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    size_t ndirectives = way(argc, argv, &directive);
    need("init", PMIx_tool_init(&me, ndirectives > 0 ? &directive : NULL, ndirectives));
    status = PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL);
    printf("register: %s\n", status < 0 ? PMIx_Error_string(status) : "a handler");

    /* pps and pquery */
    ask("namespaces", PMIX_QUERY_NAMESPACES, NULL, NULL);
    ask("proc table", PMIX_QUERY_PROC_TABLE, PMIX_NSPACE, job);
    ask("local proc table", PMIX_QUERY_LOCAL_PROC_TABLE, PMIX_NSPACE, job);
    ask("nobody", PMIX_QUERY_PROC_TABLE, PMIX_NSPACE, "nobody");

    fprintf(stderr, "of job %s\n", job);

    /* pattrs */
    ask("functions", PMIX_QUERY_ATTRIBUTE_SUPPORT, PMIX_HOST_FUNCTIONS, NULL);
    ask("attributes", PMIX_QUERY_ATTRIBUTE_SUPPORT, PMIX_HOST_ATTRIBUTES, "PMIx_Publish,PMIx_Fence");

    /* plookup */
    PMIX_INFO_LOAD(&info[0], "tool.calls", "here", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    printf("publish: %s\n", PMIx_Error_string(PMIx_Publish(info, 2)));
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "tool.calls");
    status = PMIx_Lookup(&found, 1, &info[1], 1);
    printf("lookup: %s, %s of %s\n", PMIx_Error_string(status),
           PMIX_SUCCESS == status ? found.value.data.string : "nothing", shown(found.proc.nspace));
    PMIX_PDATA_DESTRUCT(&found);
    char *keys[] = {"tool.calls", NULL};
    printf("unpublish: %s\n", PMIx_Error_string(PMIx_Unpublish(keys, &info[1], 1)));

    /* pevent */
    printf("notify: %s\n", PMIx_Error_string(PMIx_Notify_event(CUSTOM, &me, range, NULL, 0, NULL, NULL)));
    while (!heard) {
        usleep(1000);
    }
    printf("heard it\n");

    /* pctrl and palloc */
    pmix_info_t request, *results = NULL;
    size_t nresults = 0;
    int number = SIGCONT;
    PMIX_INFO_LOAD(&request, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT);
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, job, PMIX_RANK_WILDCARD);
    status = PMIx_Job_control(&all, 1, &request, 1, &results, &nresults);
    printf("signal: %s\n", PMIx_Error_string(status));
    PMIX_INFO_LOAD(&request, PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
    status = PMIx_Allocation_request(PMIX_ALLOC_NEW, &request, 1, &results, &nresults);
    printf("allocate: %s\n", PMIx_Error_string(status));

    need("finalize", PMIx_tool_finalize());
    return EXIT_SUCCESS;
}
