/* A proc that is killed inside a call: the last rank makes the call and kills itself by SIGKILL when its
 * main thread sleeps there. The others print what they learn, and that the server still serves them.
 *
 *     peal run -n 2 --on-abort continue -- killed fence
 *
 * The calls are in the table at the end. Most of them wait for something that never comes; the others
 * wait for the server's answer alone. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#include "grouped.h"

static long main_thread;
/* Set when the call begins. */
static volatile bool calls;

/* Returns the state of the main thread: S while it sleeps. */
static char state_of_main(void)
{
    char name[64], state = '?';
    snprintf(name, sizeof name, "/proc/self/task/%ld/stat", main_thread);
    FILE *file = fopen(name, "r");
    if (NULL != file) {
        if (1 != fscanf(file, "%*d (%*[^)]) %c", &state)) {
            state = '?';
        }
        fclose(file);
    }
    return state;
}

static void *kill_in_call(void *unused)
{
    (void) unused;
    while (!calls || 'S' != state_of_main()) {
        sched_yield();
    }
    raise(SIGKILL);
    return NULL;
}

static pmix_proc_t first(void)
{
    pmix_proc_t first;
    PMIX_LOAD_PROCID(&first, me.nspace, 0);
    return first;
}

/* ---- the calls --------------------------------------------------------- */

static void in_init(void) { need("init", PMIx_Init(&me, NULL, 0)); }

static void in_fence(void) { PMIx_Fence(NULL, 0, NULL, 0); }

static void in_data_fence(void)
{
    bool yes = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    post(PMIX_GLOBAL);
    PMIx_Fence(NULL, 0, &info, 1);
}

static void in_get(void)
{
    pmix_proc_t proc = first();
    pmix_value_t *value;
    PMIx_Get(&proc, "test.never", NULL, 0, &value);
}

static void in_lookup(void)
{
    bool yes = true;
    pmix_info_t wait;
    pmix_pdata_t data;
    PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "test.never");
    PMIx_Lookup(&data, 1, &wait, 1);
}

static void in_publish(void)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, "test.published", "by a dead proc", PMIX_STRING);
    PMIx_Publish(&info, 1);
}

static void in_connect(void)
{
    pmix_proc_t all = all_of(me.nspace);
    PMIx_Connect(&all, 1, NULL, 0);
}

static void in_construct(void)
{
    pmix_proc_t all = all_of(me.nspace);
    pmix_info_t *results;
    size_t nresults;
    PMIx_Group_construct("never", &all, 1, NULL, 0, &results, &nresults);
}

static void in_destruct(void)
{
    pmix_info_t *results;
    size_t nresults;
    PMIx_Group_construct("own", &me, 1, NULL, 0, &results, &nresults);
    PMIx_Group_destruct("own", NULL, 0);
}

static void in_invite(void)
{
    pmix_proc_t procs[2] = {me, first()};
    pmix_info_t *results;
    size_t nresults;
    PMIx_Group_invite("never", procs, 2, NULL, 0, &results, &nresults);
}

static void in_spawn(void)
{
    pmix_app_t app;
    pmix_nspace_t nspace;
    /* Where the others go on, a job that was spawned goes on, too. This one ends by itself. */
    char *words[] = {"true", NULL};
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = "true";
    app.argv = words;
    app.maxprocs = 2;
    PMIx_Spawn(NULL, 0, &app, 1, nspace);
}

static void in_notify(void) { PMIx_Notify_event(-3500, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL); }

static void in_register(void)
{
    pmix_status_t code = -3500;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
}

static void in_log(void)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_LOG_JOB_RECORD, "a last line", PMIX_STRING);
    PMIx_Log(&info, 1, NULL, 0);
}

static void in_query(void)
{
    pmix_query_t query;
    pmix_info_t *results;
    size_t nresults;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    (void) status;
    PMIx_Query_info(&query, 1, &results, &nresults);
}

static void in_control(void)
{
    bool yes = true;
    pmix_info_t info, *results;
    size_t nresults;
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_PREEMPTIBLE, &yes, PMIX_BOOL);
    PMIx_Job_control(NULL, 0, &info, 1, &results, &nresults);
}

static void in_monitor(void)
{
    bool yes = true;
    uint32_t time = 1;
    pmix_info_t asked, directive, *results;
    size_t nresults;
    PMIX_INFO_LOAD(&asked, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directive, PMIX_MONITOR_HEARTBEAT_TIME, &time, PMIX_UINT32);
    PMIx_Process_monitor(&asked, PMIX_MONITOR_HEARTBEAT_ALERT, &directive, 1, &results, &nresults);
}

/* Nothing answers a proc that has aborted: the call returns when the server ends it. */
static void in_abort(void)
{
    pmix_proc_t own = me;
    PMIx_Abort(9, "killed while it aborts itself", &own, 1);
}

static void in_finalize(void) { PMIx_Finalize(NULL, 0); }

static const struct {
    const char *name;
    void (*make)(void);
} all_calls[] = {
    {"init", in_init},         {"fence", in_fence},         {"data-fence", in_data_fence}, {"get", in_get},
    {"lookup", in_lookup},     {"publish", in_publish},     {"connect", in_connect},       {"construct", in_construct},
    {"destruct", in_destruct}, {"invite", in_invite},       {"spawn", in_spawn},           {"notify", in_notify},
    {"register", in_register}, {"log", in_log},             {"query", in_query},           {"control", in_control},
    {"monitor", in_monitor},   {"abort", in_abort},         {"finalize", in_finalize},
};

/* ---- the procs --------------------------------------------------------- */

static void be_killed(const char *name, void (*make)(void))
{
    pthread_t killer;
    bool begins = 0 == strcmp(name, "init");
    main_thread = syscall(SYS_gettid);
    alarm(LIFETIME_SECONDS);
    if (!begins) {
        need("init", PMIx_Init(&me, NULL, 0));
        /* The first proc listens now. */
        need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    }
    pthread_create(&killer, NULL, kill_in_call, NULL);
    calls = true;
    make();
    /* The call has ended before the other thread saw it: it kills the process here. */
    for (;;) {
        pause();
    }
}

/* Prints how a call ended that the dead proc cannot take part in. */
static void go_on(const char *name)
{
    start();
    /* What starts procs says how they ended; a server that only serves them says that they did. */
    listen_to(PMIX_ERR_PROC_ABORTED_BY_SIG, NULL);
    listen_to(PMIX_ERR_PROC_TERM_WO_SYNC, NULL);
    if (0 != strcmp(name, "init")) {
        fence_of_job();
    }
    /* A proc that the server has finalized may end as it likes. */
    if (0 != strcmp(name, "finalize")) {
        pthread_mutex_lock(&lock);
        if (wait_until(has_more, NULL, PATIENCE_SECONDS)) {
            say("the other has died");
        } else {
            miss("the death of the other");
        }
        pthread_mutex_unlock(&lock);
    }
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    say_status("construct", PMIx_Group_construct("alone", &me, 1, NULL, 0, &results, &nresults), PMIX_SUCCESS);
    PMIX_INFO_FREE(results, nresults);
    destruct("alone", PMIX_SUCCESS);
    say_status("fence", PMIx_Fence(&me, 1, NULL, 0), PMIX_SUCCESS);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; 2 == argc && i < sizeof all_calls / sizeof all_calls[0]; i++) {
        if (0 == strcmp(argv[1], all_calls[i].name)) {
            if (0 != atoi(getenv("PMIX_RANK"))) {
                be_killed(argv[1], all_calls[i].make);
            }
            go_on(argv[1]);
            return finish();
        }
    }
    fprintf(stderr, "usage: %s CALL\n", argv[0]);
    return 2;
}
