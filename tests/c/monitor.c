/* A PMIx program that requests to be monitored, and prints the events about it.
 *
 * Runs as a job of any size under any PMIx server: `peal run -n 2 -- target/c/monitor once`. Rank 0
 * is monitored, and all procs receive the events.
 *
 * - once: two monitors of heartbeats that never come, with different tolerances.
 * - cancel: the same, but the first is cancelled before.
 * - again: a heartbeat after the alert.
 * - file PATH: a file that grows for a while.
 * - look PATH: an existing file, which the proc may or may not monitor.
 * - mistakes: invalid requests.
 * - types: directives of other types than the Standard's.
 * - usage: its own resource usage: once, at a rate and by query. */
#include "need.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Keys of later releases. */
#define MONITOR_PROC_RESOURCE_USAGE "pmix.monitor.presuse"
#define MONITOR_RESOURCE_RATE "pmix.monitor.resrate"
#define MONITOR_TARGET_PROCS "pmix.monitor.tgtproc"
#define MONITOR_RESUSAGE_UPDATE -114
#define PROC_RESOURCE_USAGE "pmix.proc.res"
#define QUERY_PROC_RESOURCE_USAGE "pmix.qry.pres"
#define PROC_RSS "pmix.proc.rss"

/* Code of the program's own. */
#define OWN_ALERT (PMIX_EXTERNAL_ERR_BASE - 7)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t heard = PTHREAD_COND_INITIALIZER;
static int alerts, updates;

static void say(const char *what, pmix_status_t status)
{
    printf("rank %u: %s: %s (%d)\n", me.rank, what, PMIx_Error_string(status), status);
    fflush(stdout);
}

static bool has_memory(const pmix_value_t *usage)
{
    if (PMIX_DATA_ARRAY != usage->type || PMIX_INFO != usage->data.darray->type) {
        return false;
    }
    pmix_info_t *infos = usage->data.darray->array;
    for (size_t i = 0; i < usage->data.darray->size; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PROC_RSS)) {
            return PMIX_FLOAT == infos[i].value.type && infos[i].value.data.fval > 0.5;
        }
    }
    return false;
}

static void on_alert(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *object)
{
    (void) id, (void) results, (void) nresults;
    const char *name = "nothing", *file = "";
    bool usage = false;
    pmix_rank_t silent = PMIX_RANK_UNDEF;
    for (size_t i = 0; i < ninfos; i++) {
        const pmix_value_t *value = &infos[i].value;
        if (PMIX_CHECK_KEY(&infos[i], PMIX_MONITOR_ID)) {
            name = value->data.string;
        } else if (PMIX_CHECK_KEY(&infos[i], PMIX_MONITOR_FILE)) {
            file = ", a file";
        } else if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROC)) {
            silent = value->data.proc->rank;
        } else if (PMIX_CHECK_KEY(&infos[i], PROC_RESOURCE_USAGE)) {
            usage = has_memory(value);
        }
    }
    pthread_mutex_lock(&lock);
    if (MONITOR_RESUSAGE_UPDATE == code) {
        updates += usage;
    } else {
        printf("rank %u: alert %d of %s%s, rank %u is silent\n", me.rank, code, name, file, silent);
        if (source->rank != silent || 0 != strcmp(source->nspace, me.nspace)) {
            printf("rank %u: the source of that is %s:%u\n", me.rank, source->nspace, source->rank);
        }
        fflush(stdout);
        alerts++;
    }
    pthread_cond_broadcast(&heard);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, object);
}

static void await(const int *number, int enough)
{
    pthread_mutex_lock(&lock);
    while (*number < enough) {
        pthread_cond_wait(&heard, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* Sends a request, and prints the server's answer. */
static void monitor(const char *what, pmix_info_t *asked, pmix_status_t error, pmix_info_t *directives, size_t number)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    say(what, PMIx_Process_monitor(asked, error, directives, number, &results, &nresults));
    PMIX_INFO_FREE(results, nresults);
}

static void heartbeats(const char *id, uint32_t drops, pmix_status_t error)
{
    bool yes = true;
    uint32_t time = 1;
    pmix_info_t asked, directives[3];
    PMIX_INFO_LOAD(&asked, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_ID, id, PMIX_STRING);
    PMIX_INFO_LOAD(&directives[1], PMIX_MONITOR_HEARTBEAT_TIME, &time, PMIX_UINT32);
    PMIX_INFO_LOAD(&directives[2], PMIX_MONITOR_HEARTBEAT_DROPS, &drops, PMIX_UINT32);
    monitor(id, &asked, error, directives, 3);
}

static void cancel(const char *what, const char *id)
{
    pmix_info_t asked;
    PMIX_INFO_LOAD(&asked, PMIX_MONITOR_CANCEL, id, PMIX_STRING);
    monitor(what, &asked, PMIX_SUCCESS, NULL, 0);
}

static void once(bool cancelled)
{
    if (0 == me.rank) {
        heartbeats("hasty", 0, OWN_ALERT);
        heartbeats("patient", 2, PMIX_MONITOR_HEARTBEAT_ALERT);
        heartbeats("patient", 2, PMIX_MONITOR_HEARTBEAT_ALERT);
        if (cancelled) {
            cancel("cancel hasty", "hasty");
            cancel("cancel hasty again", "hasty");
        }
    }
    await(&alerts, cancelled ? 1 : 2);
    if (0 == me.rank) {
        cancel("cancel all", NULL);
    }
}

static void again(void)
{
    if (0 == me.rank) {
        heartbeats("pulse", 0, PMIX_MONITOR_HEARTBEAT_ALERT);
    }
    await(&alerts, 1);
    if (0 == me.rank) {
        PMIx_Heartbeat();
    }
    await(&alerts, 2);
}

static void grow(const char *path)
{
    FILE *file = fopen(path, "a");
    fputs("more\n", file);
    fclose(file);
}

static void watch_file(const char *path, bool only_ask)
{
    if (0 == me.rank) {
        bool yes = true;
        uint32_t time = 1;
        pmix_info_t asked, directives[3];
        PMIX_INFO_LOAD(&asked, PMIX_MONITOR_FILE, path, PMIX_STRING);
        PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_ID, "log", PMIX_STRING);
        PMIX_INFO_LOAD(&directives[1], PMIX_MONITOR_FILE_SIZE, &yes, PMIX_BOOL);
        PMIX_INFO_LOAD(&directives[2], PMIX_MONITOR_FILE_CHECK_TIME, &time, PMIX_UINT32);
        if (only_ask) {
            monitor("a file", &asked, PMIX_MONITOR_FILE_ALERT, directives, 3);
            return;
        }
        unlink(path);
        monitor("a file that is not there", &asked, PMIX_MONITOR_FILE_ALERT, directives, 3);
        grow(path);
        monitor("a file", &asked, PMIX_MONITOR_FILE_ALERT, directives, 3);
    }
    await(&alerts, 1);
    if (0 == me.rank) {
        grow(path);
    }
    await(&alerts, 2);
}

static void mistakes(void)
{
    if (0 != me.rank) {
        return;
    }
    bool yes = true;
    uint32_t time = 1, none = 0;
    pmix_info_t asked, directives[2];
    PMIX_INFO_LOAD(&asked, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_HEARTBEAT_TIME, &none, PMIX_UINT32);
    monitor("no time", &asked, PMIX_SUCCESS, NULL, 0);
    monitor("time zero", &asked, PMIX_SUCCESS, directives, 1);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_HEARTBEAT_TIME, &time, PMIX_UINT32);
    PMIX_INFO_LOAD(&directives[1], PMIX_MONITOR_FILE_SIZE, &yes, PMIX_BOOL);
    monitor("a size of heartbeats", &asked, PMIX_SUCCESS, directives, 2);
    PMIX_INFO_LOAD(&asked, "site.gauge", &yes, PMIX_BOOL);
    monitor("a gauge", &asked, PMIX_SUCCESS, NULL, 0);
    cancel("cancel nothing", "nothing");
}

static void types(void)
{
    if (0 != me.rank) {
        return;
    }
    bool yes = true;
    int time = 60, before = -1;
    uint64_t large = 1ull << 40;
    pmix_info_t asked, directives[2];
    PMIX_INFO_LOAD(&asked, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_HEARTBEAT_TIME, &time, PMIX_INT);
    PMIX_INFO_LOAD(&directives[1], PMIX_MONITOR_HEARTBEAT_DROPS, &yes, PMIX_BOOL);
    monitor("int and bool", &asked, PMIX_SUCCESS, directives, 2);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_HEARTBEAT_TIME, &before, PMIX_INT);
    monitor("negative", &asked, PMIX_SUCCESS, directives, 1);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_HEARTBEAT_TIME, &large, PMIX_UINT64);
    monitor("too large", &asked, PMIX_SUCCESS, directives, 1);
}

static void usage(void)
{
    if (0 != me.rank) {
        return;
    }
    pmix_info_t asked, directives[2], *results = NULL;
    size_t nresults = 0;
    uint32_t rate = 1;
    pmix_data_array_t *targets;
    PMIX_INFO_CONSTRUCT(&asked);
    PMIX_LOAD_KEY(asked.key, MONITOR_PROC_RESOURCE_USAGE);
    PMIX_INFO_CONSTRUCT(&directives[0]);
    PMIX_LOAD_KEY(directives[0].key, MONITOR_TARGET_PROCS);
    PMIX_DATA_ARRAY_CREATE(targets, 1, PMIX_PROC);
    memcpy(targets->array, &me, sizeof me);
    directives[0].value.type = PMIX_DATA_ARRAY;
    directives[0].value.data.darray = targets;
    PMIX_INFO_LOAD(&directives[1], MONITOR_RESOURCE_RATE, &rate, PMIX_UINT32);
    say("usage", PMIx_Process_monitor(&asked, PMIX_SUCCESS, directives, 1, &results, &nresults));
    printf("rank 0: it %s\n", 1 == nresults && has_memory(&results[0].value) ? "has memory" : "tells nothing");
    PMIX_INFO_FREE(results, nresults);
    monitor("usage at a rate", &asked, PMIX_SUCCESS, directives, 2);
    await(&updates, 2);
    cancel("cancel all", NULL);

    pmix_query_t query;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(nresults, query.keys, QUERY_PROC_RESOURCE_USAGE);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_PROCID, &me, PMIX_PROC);
    say("query", PMIx_Query_info(&query, 1, &results, &nresults));
    printf("rank 0: it %s\n", 1 == nresults && has_memory(&results[0].value) ? "has memory" : "tells nothing");
    fflush(stdout);
}

static volatile int registered;

static void on_registered(pmix_status_t status, size_t id, void *object)
{
    (void) id, (void) object;
    need("register", status);
    registered = 1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ACTION [PATH]\n", argv[0]);
        return 2;
    }
    need("init", PMIx_Init(&me, NULL, 0));
    pmix_status_t codes[] = {PMIX_MONITOR_HEARTBEAT_ALERT, PMIX_MONITOR_FILE_ALERT, MONITOR_RESUSAGE_UPDATE, OWN_ALERT};
    PMIx_Register_event_handler(codes, 4, NULL, 0, on_alert, on_registered, NULL);
    while (!registered) {
        usleep(10);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == strcmp(argv[1], "once") || 0 == strcmp(argv[1], "cancel")) {
        once(0 == strcmp(argv[1], "cancel"));
    } else if (0 == strcmp(argv[1], "again")) {
        again();
    } else if ((0 == strcmp(argv[1], "file") || 0 == strcmp(argv[1], "look")) && argc > 2) {
        watch_file(argv[2], 0 == strcmp(argv[1], "look"));
    } else if (0 == strcmp(argv[1], "mistakes")) {
        mistakes();
    } else if (0 == strcmp(argv[1], "types")) {
        types();
    } else if (0 == strcmp(argv[1], "usage")) {
        usage();
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
