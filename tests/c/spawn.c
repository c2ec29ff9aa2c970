/* A PMIx program that spawns a job by its arguments, and prints the results. It can spawn itself.
 *
 *     spawn [tool] [DIRECTIVE]... [-- PROCS [DIRECTIVE]... PROGRAM [ARGUMENT]...]...
 *     spawn child [NAME | read | set=NAME | exit=N | die]...
 *
 * Directives before the first `--` are those of the job, the others those of an application. As
 * `child` it prints the data that a spawned proc has about itself.
 *
 * Directives: set=, add=, prepend= and append=NAME=VALUE, unset=NAME, wdir=DIR, tag, to=DIR,
 * notify, unknown (required and not supported), input (of rank 0, which is then pushed),
 * target=RANK or all (the same of others), bind=, map=, must-bind= and must-map=UNIT (the last two are
 * required), output (is forwarded), apart, together, log=job,
 * completion, procs or failures. An application also has cwd=DIR, env=NAME=VALUE and pset=NAME.
 *
 * Further arguments: times=N (number of spawns), until=PIPE (reads a line there before it ends),
 * die (aborts at the end). As a tool it finds its server by the rendezvous files. */
#include "say.h"

#include <errno.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <time.h>

/* Since release 5.0. */
#ifndef PMIX_SPAWN_CHILD_SEP
#define PMIX_SPAWN_CHILD_SEP "pmix.spchildsep"
#endif

/* Time limit of things that must happen. It passes only if something is broken. */
#define PATIENCE_SECONDS 20
#define MOST 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool registered, pushed, ended;
static int term_status = 1, exit_code = -1;

static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        miss("%s: %s (%d)", what, PMIx_Error_string(status), status);
        _exit(1);
    }
}

/* ---- the end of the job --------------------------------------------------- */

static void on_end(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                   pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) code, (void) source, (void) results, (void) nresults;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PMIX_JOB_TERM_STATUS)) {
            term_status = infos[i].value.data.status;
        } else if (PMIX_CHECK_KEY(&infos[i], PMIX_EXIT_CODE)) {
            exit_code = infos[i].value.data.integer;
        }
    }
    ended = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, chain);
}

static void on_registered(pmix_status_t status, size_t id, void *unused)
{
    (void) id, (void) unused;
    need("registration", status);
    pthread_mutex_lock(&lock);
    registered = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool comes(const bool *it)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&lock);
    while (!*it && ETIMEDOUT != pthread_cond_timedwait(&changed, &lock, &deadline)) {
    }
    bool came = *it;
    pthread_mutex_unlock(&lock);
    return came;
}

/* ---- directives ----------------------------------------------------------- */

static bool notified, pushes;
static int times = 1;
static const char *until;
static bool dies;

/* Returns the text after `name=` in an argument; NULL if it is another argument. */
static char *behind(char *word, const char *name)
{
    size_t length = strlen(name);
    return 0 == strncmp(word, name, length) && '=' == word[length] ? word + length + 1 : NULL;
}

static void load_envar(pmix_info_t *info, const char *key, char *assignment)
{
    char *value = strchr(assignment, '=');
    pmix_envar_t envar = {.envar = assignment, .separator = ':'};
    if (NULL != value) {
        *value = '\0';
        envar.value = value + 1;
    }
    PMIX_INFO_LOAD(info, key, &envar, PMIX_ENVAR);
}

/* Returns true if an argument is a directive, which is then loaded. */
static bool load(pmix_info_t *info, char *word)
{
    static const char *const envars[][2] = {{"set", PMIX_SET_ENVAR},
                                            {"add", PMIX_ADD_ENVAR},
                                            {"prepend", PMIX_PREPEND_ENVAR},
                                            {"append", PMIX_APPEND_ENVAR}};
    static const char *const texts[][2] = {
        {"unset", PMIX_UNSET_ENVAR}, {"wdir", PMIX_WDIR}, {"to", PMIX_OUTPUT_TO_DIRECTORY}, {"pset", PMIX_PSET_NAME},
        {"bind", PMIX_BINDTO}, {"map", PMIX_MAPBY}, {"must-bind", PMIX_BINDTO}, {"must-map", PMIX_MAPBY}};
    static const char *const flags[][2] = {{"tag", PMIX_TAG_OUTPUT},
                                           {"notify", PMIX_NOTIFY_COMPLETION},
                                           {"input", PMIX_FWD_STDIN},
                                           {"output", PMIX_FWD_STDOUT},
                                           {"apart", PMIX_SPAWN_CHILD_SEP},
                                           {"together", PMIX_SPAWN_CHILD_SEP},
                                           {"log=job", PMIX_LOG_JOB_EVENTS},
                                           {"log=completion", PMIX_LOG_COMPLETION},
                                           {"log=procs", PMIX_LOG_PROC_TERMINATION},
                                           {"log=failures", PMIX_LOG_PROC_ABNORMAL_TERMINATION},
                                           {"unknown", "test.unknown"}};
    for (size_t i = 0; i < sizeof envars / sizeof *envars; i++) {
        char *value = behind(word, envars[i][0]);
        if (NULL != value) {
            load_envar(info, envars[i][1], value);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *value = behind(word, texts[i][0]);
        if (NULL != value) {
            PMIX_INFO_LOAD(info, texts[i][1], value, PMIX_STRING);
            if (0 == strncmp(word, "must-", 5)) {
                PMIX_INFO_REQUIRED(info);
            }
            return true;
        }
    }
    if (NULL != behind(word, "target")) {
        const char *value = behind(word, "target");
        pmix_proc_t target;
        PMIX_LOAD_PROCID(&target, "", 0 == strcmp(value, "all") ? PMIX_RANK_WILDCARD : (pmix_rank_t) atoi(value));
        PMIX_INFO_LOAD(info, PMIX_STDIN_TGT, &target, PMIX_PROC);
        pushes = true;
        return true;
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (0 == strcmp(word, flags[i][0])) {
            bool yes = 0 != strcmp(word, "together");
            PMIX_INFO_LOAD(info, flags[i][1], &yes, PMIX_BOOL);
            if (0 == strcmp(word, "unknown")) {
                PMIX_INFO_REQUIRED(info);
            }
            notified = notified || 0 == strcmp(word, "notify");
            pushes = pushes || 0 == strcmp(word, "input");
            return true;
        }
    }
    return false;
}

/* Reads an application, up to the next `--` or the end. Returns the remaining arguments. */
static char **read_app(pmix_app_t *app, char **words)
{
    PMIX_APP_CONSTRUCT(app);
    app->maxprocs = atoi(*words++);
    app->info = calloc(MOST, sizeof *app->info);
    for (; NULL != *words && 0 != strcmp(*words, "--"); words++) {
        char *cwd = behind(*words, "cwd"), *variable = behind(*words, "env");
        if (NULL != app->cmd) {
            PMIX_ARGV_APPEND(errno, app->argv, *words);
        } else if (NULL != cwd) {
            app->cwd = strdup(cwd);
        } else if (NULL != variable) {
            PMIX_ARGV_APPEND(errno, app->env, variable);
        } else if (load(&app->info[app->ninfo], *words)) {
            app->ninfo++;
        } else {
            app->cmd = strdup(*words);
            PMIX_ARGV_APPEND(errno, app->argv, *words);
        }
    }
    /* The library reads the first info even if the number of infos is 0. */
    if (0 == app->ninfo) {
        free(app->info);
        app->info = NULL;
    }
    return words;
}

static void on_pushed(pmix_status_t status, void *unused)
{
    (void) unused;
    need("push", status);
    pthread_mutex_lock(&lock);
    pushed = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Returns true if an argument is not for the server. */
static bool is_own(char *word)
{
    char *count = behind(word, "times"), *pipe = behind(word, "until");
    times = NULL != count ? atoi(count) : times;
    until = NULL != pipe ? pipe : until;
    dies = dies || 0 == strcmp(word, "die");
    return NULL != count || NULL != pipe || 0 == strcmp(word, "die");
}

/* Pushes some bytes, or the end of the input, to all procs that read. The form without a callback
 * never returns in release 4.2.2. */
static void push(const char *nspace, char *bytes)
{
    pmix_proc_t all;
    pmix_byte_object_t data = {.bytes = bytes, .size = NULL != bytes ? strlen(bytes) : 0};
    bool yes = true;
    pmix_info_t complete;
    PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&complete, PMIX_IOF_COMPLETE, &yes, PMIX_BOOL);
    pushed = false;
    pmix_status_t status = PMIx_IOF_push(&all, 1, &data, &complete, NULL == bytes ? 1 : 0, on_pushed, NULL);
    if (PMIX_SUCCESS != status || !comes(&pushed)) {
        miss("push: %s (%d)", PMIx_Error_string(status), status);
    }
}

static void spawn(char **words)
{
    pmix_info_t infos[MOST];
    pmix_app_t apps[MOST];
    size_t ninfos = 0, napps = 0;
    char nspace[PMIX_MAX_NSLEN + 1] = {0};
    for (; NULL != *words && ninfos < MOST && 0 != strcmp(*words, "--"); words++) {
        if (!is_own(*words) && load(&infos[ninfos], *words)) {
            ninfos++;
        }
    }
    while (NULL != *words && napps < MOST) {
        words = read_app(&apps[napps++], words + 1);
    }
    if (notified) {
        pmix_status_t code = PMIX_EVENT_JOB_END;
        PMIx_Register_event_handler(&code, 1, NULL, 0, on_end, on_registered, NULL);
        if (!comes(&registered)) {
            need("registration", PMIX_ERR_TIMEOUT);
        }
    }
    pmix_status_t status = PMIX_SUCCESS;
    for (int n = 0; n < times; n++) {
        status = PMIx_Spawn(infos, ninfos, apps, napps, nspace);
        say("spawn: %s (%d)", PMIx_Error_string(status), status);
    }
    if (PMIX_SUCCESS != status) {
        return;
    }
    say("another job: %s", '\0' != nspace[0] && 0 != strcmp(nspace, me.nspace) ? "yes" : "no");
    if (pushes) {
        push(nspace, "hello\n");
        push(nspace, NULL);
    }
    if (notified) {
        if (comes(&ended)) {
            say("it ended: %s (%d), exit code %d", PMIx_Error_string(term_status), term_status, exit_code);
        } else {
            miss("that it has ended");
        }
    }
    if (NULL != until) {
        char line[64];
        FILE *pipe = fopen(until, "r");
        if (NULL == pipe || NULL == fgets(line, sizeof line, pipe)) {
            miss("a line on %s", until);
        }
    }
    if (dies) {
        abort();
    }
}

/* ---- the spawned program -------------------------------------------------- */

/* Prints the process sets of the user, and their members. */
static void say_sets(const char *name)
{
    pmix_query_t queries[2];
    pmix_info_t *found;
    size_t count;
    PMIX_QUERY_CONSTRUCT(&queries[0]);
    PMIX_QUERY_CONSTRUCT(&queries[1]);
    PMIX_ARGV_APPEND(errno, queries[0].keys, PMIX_QUERY_PSET_NAMES);
    PMIX_ARGV_APPEND(errno, queries[1].keys, PMIX_QUERY_PSET_MEMBERSHIP);
    PMIX_QUERY_QUALIFIERS_CREATE(&queries[1], 1);
    PMIX_INFO_LOAD(&queries[1].qualifiers[0], PMIX_PSET_NAME, name, PMIX_STRING);
    need("query", PMIx_Query_info(queries, 2, &found, &count));
    for (size_t i = 0; i < count; i++) {
        char *text = value_text(&found[i].value);
        say("child's %s: %s", PMIX_CHECK_KEY(&found[i], PMIX_QUERY_PSET_NAMES) ? "sets" : name, text);
        free(text);
    }
}

static void say_own(const char *name, pmix_rank_t rank, const char *key)
{
    pmix_proc_t whose;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&whose, me.nspace, rank);
    pmix_status_t status = PMIx_Get(&whose, key, NULL, 0, &value);
    if (PMIX_SUCCESS != status) {
        miss("child's %s: %s (%d)", name, PMIx_Error_string(status), status);
        return;
    }
    char *text = value_text(value);
    say("child's %s: %s", name, text);
    free(text);
    PMIX_VALUE_RELEASE(value);
}

static int child(char **words)
{
    int status = 0;
    char directory[1024] = {0}, line[64] = {0};
    say_own("job", PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    say_own("application", me.rank, PMIX_APPNUM);
    say_own("parent", me.rank, PMIX_PARENT_ID);
    say("child's directory: %s", NULL != getcwd(directory, sizeof directory) ? directory : "none");
    for (; NULL != *words; words++) {
        if (0 == strcmp(*words, "read")) {
            say("child reads: %s", NULL != fgets(line, sizeof line, stdin) ? strtok(line, "\n") : "nothing");
            say("child reads then: %s", NULL != fgets(line, sizeof line, stdin) ? line : "nothing");
        } else if (NULL != behind(*words, "set")) {
            say_sets(behind(*words, "set"));
        } else if (0 == strcmp(*words, "die")) {
            abort();
        } else if (NULL != behind(*words, "exit")) {
            status = atoi(behind(*words, "exit"));
        } else {
            const char *value = getenv(*words);
            say("child's %s: %s", *words, NULL != value ? value : "not set");
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    if (argc > 1 && 0 == strcmp(argv[1], "tool")) {
        need("init", PMIx_tool_init(&me, NULL, 0));
        spawn(argv + 2);
        say_status("finalize", PMIx_tool_finalize(), PMIX_SUCCESS);
        return failed ? 1 : 0;
    }
    need("init", PMIx_Init(&me, NULL, 0));
    if (argc > 1 && 0 == strcmp(argv[1], "child")) {
        status = child(argv + 2);
    } else {
        spawn(argv + 1);
    }
    say_status("finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    return failed ? 1 : status;
}
