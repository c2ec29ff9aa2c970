/* Calls beyond the modex under a launcher. The first argument says which:
 *
 *   event RANGE RANKS FILE   rank 0 raises an event; RANKS, as `1,3`, `all` or `none`, are expected to receive it. With
 *                            `ended` the launcher is expected to end the job
 *   late RANGE RANKS FILE    the same, with registrations after the event
 *   events NUMBER       rank 0 raises this number of events
 *   replaced NUMBER FILE     rank 0 raises events, creates FILE, waits for FILE.go, and raises events again
 *   log, group, control, publish, query
 *   lines NUMBER        rank 0 logs this number of lines to syslog
 *   spawn NUMBER        rank 0 spawns this number of procs
 *   lost                the last rank kills itself
 *   exit                the last rank ends without PMIx_Finalize
 *   abort [RANK]        this rank, or rank 0, calls PMIx_Abort with status 7
 *   wait FILE           each rank creates FILE.RANK and waits to be ended, or for FILE.go
 *   listen FILE         each rank creates FILE.RANK, and FILE.RANK.heard at its first event, and waits to be ended
 *   barrier FILE held|passed    rank 0 enters a fence without data before the others; do they hold it?
 *   hang                the others never come to a fence of rank 0
 *   libraries           which files of libpmix do this rank and the parent, the launcher's server, have loaded?
 *
 * Every wait has a bound, and each rank that gets that far says so. FILE is a path that all nodes share. */
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "../../c/say.h"

#define CODE (PMIX_EXTERNAL_ERR_BASE - 7)

/* Time within which something expected must happen, in seconds. */
#define PATIENCE 20

/* Time for which the others hold back a fence that is expected to wait for them, in milliseconds. */
#define HELD_BACK 300

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int heard;
static pmix_status_t first_heard;

static pmix_proc_t all, last;
static uint32_t size;

static void handle(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                   size_t ninfo, pmix_info_t *results, size_t nresults,
                   pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    pthread_mutex_lock(&lock);
    if (0 == heard++) {
        first_heard = status;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    }
}

static void say_result(const char *what, pmix_status_t status)
{
    say("%s %s", what, PMIx_Error_string(status));
}

/* Registers the handler, for one code or for all events. */
static void listen_to(pmix_status_t *code)
{
    pmix_status_t rc = PMIx_Register_event_handler(code, NULL == code ? 0 : 1, NULL, 0, handle, NULL, NULL);
    if (rc < 0) {
        say_result("register", rc);
    }
}

/* Waits until the handler has been called. */
static void wait_to_hear(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    pthread_mutex_lock(&lock);
    while (0 == heard && 0 == pthread_cond_timedwait(&changed, &lock, &until)) {
    }
    pthread_mutex_unlock(&lock);
}

static int times_heard(void)
{
    pthread_mutex_lock(&lock);
    int times = heard;
    pthread_mutex_unlock(&lock);
    return times;
}

/* Waits for all ranks, also where a fence without data does not. Its data are the host names. */
static void barrier(void)
{
    static int number;
    char key[32], host[64];
    gethostname(host, sizeof host);
    pmix_value_t value;
    pmix_info_t collect;
    bool yes = true;
    snprintf(key, sizeof key, "labs.barrier.%d", number++);
    PMIX_VALUE_LOAD(&value, host, PMIX_STRING);
    PMIx_Put(PMIX_GLOBAL, key, &value);
    PMIX_VALUE_DESTRUCT(&value);
    PMIx_Commit();
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Fence(&all, 1, &collect, 1);
    if (PMIX_SUCCESS != rc) {
        say_result("barrier", rc);
    }
}

static bool exists(const char *file)
{
    struct stat found;
    return 0 == stat(file, &found);
}

/* Waits for a file. */
static void wait_for_file(const char *file, long milliseconds)
{
    struct timespec step = {0, 2000000};
    for (long waited = 0; waited < milliseconds && !exists(file); waited += 2) {
        nanosleep(&step, NULL);
    }
}

static void create(const char *file)
{
    FILE *created = fopen(file, "w");
    if (NULL != created) {
        fclose(created);
    }
}

/* True if a rank is in a list such as `1,3`, `all` or `none`. */
static bool is_in(const char *ranks, uint32_t rank)
{
    if (0 == strcmp(ranks, "all")) {
        return true;
    }
    for (const char *at = ranks; NULL != at && *at >= '0' && *at <= '9';) {
        if (strtoul(at, NULL, 10) == rank) {
            return true;
        }
        at = strchr(at, ',');
        at = NULL == at ? NULL : at + 1;
    }
    return false;
}

static pmix_data_range_t range_of(const char *name)
{
    static const struct {
        const char *name;
        pmix_data_range_t range;
    } ranges[] = {
        {"local", PMIX_RANGE_LOCAL}, {"namespace", PMIX_RANGE_NAMESPACE}, {"session", PMIX_RANGE_SESSION},
        {"global", PMIX_RANGE_GLOBAL}, {"custom", PMIX_RANGE_CUSTOM},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (0 == strcmp(name, ranges[i].name)) {
            return ranges[i].range;
        }
    }
    fprintf(stderr, "%s is no range\n", name);
    exit(2);
}

/* Waits to be ended by the launcher. */
static void wait_for_the_end(void)
{
    struct timespec time = {PATIENCE, 0};
    nanosleep(&time, NULL);
    say("not ended");
}

static void event(const char *range_name, const char *ranks, const char *file, bool is_late)
{
    char received[4096];
    pmix_status_t code = CODE;
    pmix_data_range_t range = range_of(range_name);
    if (!is_late) {
        listen_to(&code);
    }
    barrier();
    if (0 == me.rank) {
        pmix_info_t target;
        PMIX_INFO_LOAD(&target, PMIX_EVENT_CUSTOM_RANGE, &last, PMIX_PROC);
        say_result("notify", PMIx_Notify_event(CODE, &me, range, &target, PMIX_RANGE_CUSTOM == range, NULL, NULL));
        PMIX_INFO_DESTRUCT(&target);
    }
    if (is_late) {
        barrier();
        listen_to(&code);
    }
    if (0 == strcmp(ranks, "ended")) {
        wait_for_the_end();
    }
    if (is_in(ranks, me.rank)) {
        wait_to_hear();
        snprintf(received, sizeof received, "%s.%u", file, me.rank);
        create(received);
    }
    /* Not by a fence: after an event that has left the node, each fence under mpirun of Open MPI 4.1 hangs. */
    for (uint32_t rank = 0; rank < size; rank++) {
        if (is_in(ranks, rank)) {
            snprintf(received, sizeof received, "%s.%u", file, rank);
            wait_for_file(received, PATIENCE * 1000L);
        }
    }
    say("heard %d", times_heard());
}

static void keep_status(pmix_status_t status, void *data)
{
    pthread_mutex_lock(&lock);
    *(pmix_status_t *) data = status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Raises events one after the other, and says what the server makes of the last one. */
static void raise_events(const char *number)
{
    pmix_status_t answer = PMIX_SUCCESS;
    for (long left = strtol(number, NULL, 10); left > 0; left--) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PATIENCE;
        answer = PMIX_ERR_TIMEOUT;
        pmix_status_t rc = PMIx_Notify_event(CODE, &me, PMIX_RANGE_NAMESPACE, NULL, 0, keep_status, &answer);
        pthread_mutex_lock(&lock);
        while (PMIX_SUCCESS == rc && PMIX_ERR_TIMEOUT == answer &&
               0 == pthread_cond_timedwait(&changed, &lock, &until)) {
        }
        pthread_mutex_unlock(&lock);
    }
    say_result("notify", answer);
}

/* The rules of the site are replaced between the two numbers of events. */
static void replaced(const char *number, const char *file)
{
    char go[4096];
    snprintf(go, sizeof go, "%s.go", file);
    if (0 == me.rank) {
        raise_events(number);
        create(file);
        wait_for_file(go, PATIENCE * 1000L);
        raise_events(number);
    }
}

static void log_texts(void)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "line of the probe\n", PMIX_STRING);
    say_result("log to stderr", PMIx_Log(&info, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_LOG_SYSLOG, "line of the probe", PMIX_STRING);
    say_result("log to syslog", PMIx_Log(&info, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
}

static void log_lines(const char *number)
{
    char text[4096] = "";
    for (long left = strtol(number, NULL, 10); left > 0 && strlen(text) + 16 < sizeof text; left--) {
        strcat(text, "line\n");
    }
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_LOG_SYSLOG, text, PMIX_STRING);
    say_result("log", PMIx_Log(&info, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
}

static void spawn(const char *number)
{
    pmix_app_t app;
    pmix_nspace_t spawned;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("/bin/true");
    app.maxprocs = (int) strtol(number, NULL, 10);
    say_result("spawn", PMIx_Spawn(NULL, 0, &app, 1, spawned));
    PMIX_APP_DESTRUCT(&app);
}

static void group(void)
{
    pmix_info_t info, *results = NULL;
    size_t nresults = 0;
    bool yes = true;
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    say_result("construct", PMIx_Group_construct("labs", &all, 1, &info, 1, &results, &nresults));
}

static void control(void)
{
    pmix_info_t info;
    /* It changes nothing for a process that is not stopped. */
    int32_t number = SIGCONT;
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT32);
    say_result("control", PMIx_Job_control(&last, 1, &info, 1, NULL, NULL));
}

static void publish(void)
{
    if (0 == me.rank) {
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, "labs.published", "text", PMIX_STRING);
        say_result("publish", PMIx_Publish(&info, 1));
        PMIX_INFO_DESTRUCT(&info);
    }
    barrier();
    if (last.rank == me.rank) {
        pmix_pdata_t data;
        PMIX_PDATA_CONSTRUCT(&data);
        PMIX_LOAD_KEY(data.key, "labs.published");
        say_result("lookup", PMIx_Lookup(&data, 1, NULL, 0));
        PMIX_PDATA_DESTRUCT(&data);
    }
}

static void query(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_status_t rc;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(rc, query.keys, PMIX_QUERY_NAMESPACES);
    if (PMIX_SUCCESS == rc) {
        rc = PMIx_Query_info(&query, 1, &results, &nresults);
    }
    say_result("query", rc);
}

static void end_of_last_rank(bool is_killed)
{
    listen_to(NULL);
    barrier();
    if (last.rank == me.rank) {
        if (is_killed) {
            raise(SIGKILL);
        }
        _exit(0);
    }
    wait_to_hear();
    say("heard %s", 0 == times_heard() ? "nothing" : PMIx_Error_string(first_heard));
}

/* True if this rank and rank 0 are on one node. */
static bool is_beside_rank_0(void)
{
    char host[64];
    pmix_proc_t first = all;
    pmix_value_t *value;
    first.rank = 0;
    gethostname(host, sizeof host);
    barrier();
    if (PMIX_SUCCESS != PMIx_Get(&first, "labs.barrier.0", NULL, 0, &value)) {
        miss("the host of rank 0");
        return false;
    }
    bool is_beside = 0 == strcmp(host, value->data.string);
    PMIX_VALUE_RELEASE(value);
    return is_beside;
}

/* The node of rank 0 enters a fence while the others stay outside, and rank 0 says by a file that it has left. The others
 * enter when they see the file, or after some time. With `passed` that time is long, since the file is expected. */
static void held_in_fence(const char *file, const char *expected)
{
    char left[4096];
    bool is_beside = is_beside_rank_0();
    long milliseconds = 0 == strcmp(expected, "passed") ? PATIENCE * 1000L : HELD_BACK;
    for (int round = 0; round < 3; round++) {
        snprintf(left, sizeof left, "%s.%d", file, round);
        if (!is_beside) {
            wait_for_file(left, milliseconds);
        }
        bool has_left = exists(left);
        pmix_status_t rc = PMIx_Fence(&all, 1, NULL, 0);
        if (0 == me.rank) {
            create(left);
        } else if (!is_beside) {
            say("fence %s, rank 0 was %s", PMIx_Error_string(rc), has_left ? "not held" : "held");
        }
        barrier();
    }
}

/* The launcher, or its server, is killed meanwhile. */
static void wait_for_go(const char *file)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%u", file, me.rank);
    create(name);
    snprintf(name, sizeof name, "%s.go", file);
    wait_for_file(name, PATIENCE * 1000L);
    if (!exists(name)) {
        say("not ended");
    }
}

/* A proc is killed meanwhile. */
static void listen_until_the_end(const char *file)
{
    char name[4096];
    listen_to(NULL);
    snprintf(name, sizeof name, "%s.%u", file, me.rank);
    create(name);
    wait_to_hear();
    if (0 != times_heard()) {
        snprintf(name, sizeof name, "%s.%u.heard", file, me.rank);
        create(name);
    }
    wait_for_the_end();
}

static void hang(void)
{
    barrier();
    if (0 == me.rank) {
        say_result("fence", PMIx_Fence(&all, 1, NULL, 0));
    } else {
        wait_for_the_end();
    }
}

/* Returns the path of libpmix that a process has loaded, in a buffer of the next call. */
static const char *library_of(const char *maps)
{
    static char line[4096];
    FILE *in = fopen(maps, "r");
    while (NULL != in && NULL != fgets(line, sizeof line, in)) {
        char *path = strchr(line, '/');
        char *name = NULL == path ? NULL : strrchr(path, '/');
        if (NULL != name && 0 == strncmp(name, "/libpmix.so", 11)) {
            fclose(in);
            path[strcspn(path, "\n")] = '\0';
            return path;
        }
    }
    return "none";
}

static void libraries(void)
{
    char parent[64];
    snprintf(parent, sizeof parent, "/proc/%d/maps", (int) getppid());
    say("own %s", library_of("/proc/self/maps"));
    say("parent's %s", library_of(parent));
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : "namespace", *second = argc > 3 ? argv[3] : "none";
    const char *third = argc > 4 ? argv[4] : "probe";
    pmix_value_t *value;
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    if (PMIX_SUCCESS != rc) {
        fprintf(stderr, "init: %s\n", PMIx_Error_string(rc));
        return 1;
    }
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    rc = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
    if (PMIX_SUCCESS != rc) {
        say_result("job size", rc);
        return 1;
    }
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    PMIX_LOAD_PROCID(&last, me.nspace, size - 1);

    bool is_first = 0 == me.rank;
    if (0 == strcmp(verb, "event")) event(first, second, third, false);
    else if (0 == strcmp(verb, "late")) event(first, second, third, true);
    else if (0 == strcmp(verb, "replaced")) replaced(first, second);
    else if (0 == strcmp(verb, "wait")) wait_for_go(first);
    else if (0 == strcmp(verb, "listen")) listen_until_the_end(first);
    else if (0 == strcmp(verb, "events")) { if (is_first) raise_events(first); }
    else if (0 == strcmp(verb, "lines")) { if (is_first) log_lines(first); }
    else if (0 == strcmp(verb, "spawn")) { if (is_first) spawn(first); }
    else if (0 == strcmp(verb, "group")) group();
    else if (0 == strcmp(verb, "publish")) publish();
    else if (0 == strcmp(verb, "lost")) end_of_last_rank(true);
    else if (0 == strcmp(verb, "exit")) end_of_last_rank(false);
    else if (0 == strcmp(verb, "barrier")) held_in_fence(first, second);
    else if (0 == strcmp(verb, "hang")) hang();
    else if (0 == strcmp(verb, "libraries")) libraries();
    else if (0 == strcmp(verb, "log")) { if (is_first) log_texts(); }
    else if (0 == strcmp(verb, "control")) { if (is_first) control(); }
    else if (0 == strcmp(verb, "query")) { if (is_first) query(); }
    else if (0 == strcmp(verb, "abort")) {
        barrier();
        if (me.rank == (argc > 2 ? strtoul(first, NULL, 10) : 0)) {
            say_result("abort", PMIx_Abort(7, "labs", NULL, 0));
        }
        wait_for_the_end();
    } else {
        fprintf(stderr, "%s: the first argument names a probe, see the source\n", argv[0]);
        return 2;
    }
    /* After the death of a rank a fence would wait for it, and see `event`. */
    static const char *const unfenced[] = {"lost", "exit", "event", "late"};
    bool is_fenced = true;
    for (size_t i = 0; i < sizeof unfenced / sizeof *unfenced; i++) {
        is_fenced = is_fenced && 0 != strcmp(verb, unfenced[i]);
    }
    if (is_fenced) {
        barrier();
    }
    say_result("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
