/* 64 threads of each proc that call their server at once, and children that the process forks meanwhile.
 * Prints how many calls of each kind failed, and how many children did not end as they should.
 *
 *     peal run -n 2 -- threads
 *
 * The C library is no program's to call from a forked child, so that only Peal's library runs this. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "say.h"

enum { CODE = PMIX_EXTERNAL_ERR_BASE - 1, THREADS = 64, TIMES = 8, CHILDREN = 30, CHILD_SECONDS = 20 };

/* Calls of a thread. All reach the server but the first. */
enum call { PUT, COMMIT, GET, PUBLISH, LOOKUP, UNPUBLISH, REGISTER, NOTIFY, DEREGISTER, CONTROL, CONSTRUCT, DESTRUCT, QUERY, CALLS };

static const char *const names[CALLS] = {"put",      "commit", "get",        "publish", "lookup",    "unpublish", "register",
                                         "notify",   "deregister", "job control", "construct", "destruct", "query"};
static atomic_int failures[CALLS];
static atomic_int begun;
static uint32_t neighbor;

static void count(enum call call, bool is_good) { failures[call] += is_good ? 0 : 1; }

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) code, (void) source, (void) infos, (void) ninfos, (void) results, (void) nresults;
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, chain);
}

static void exchange(const char *key)
{
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 7}, *found = NULL;
    pmix_proc_t other;
    PMIX_LOAD_PROCID(&other, me.nspace, neighbor);
    count(PUT, PMIX_SUCCESS == PMIx_Put(PMIX_GLOBAL, key, &value));
    count(COMMIT, PMIX_SUCCESS == PMIx_Commit());
    count(GET, PMIX_SUCCESS == PMIx_Get(&other, "test.ready", NULL, 0, &found));
    if (NULL != found) {
        PMIX_VALUE_RELEASE(found);
    }
}

static void publish(const char *key)
{
    pmix_info_t info;
    pmix_pdata_t data;
    char *keys[] = {(char *) key, NULL};
    PMIX_INFO_LOAD(&info, key, "published", PMIX_STRING);
    count(PUBLISH, PMIX_SUCCESS == PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, key);
    count(LOOKUP, PMIX_SUCCESS == PMIx_Lookup(&data, 1, NULL, 0) && PMIX_STRING == data.value.type &&
                      0 == strcmp("published", data.value.data.string));
    PMIX_PDATA_DESTRUCT(&data);
    count(UNPUBLISH, PMIX_SUCCESS == PMIx_Unpublish(keys, NULL, 0));
}

static void raise_event(int number)
{
    pmix_status_t code = CODE - number;
    pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    count(REGISTER, id >= 0);
    count(NOTIFY, PMIX_SUCCESS == PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL));
    count(DEREGISTER, PMIX_SUCCESS == PMIx_Deregister_event_handler((size_t) id, NULL, NULL));
}

static void control_and_query(void)
{
    bool yes = true;
    pmix_info_t info, *results = NULL;
    pmix_query_t query;
    size_t nresults = 0;
    pmix_status_t status;
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_PREEMPTIBLE, &yes, PMIX_BOOL);
    count(CONTROL, PMIX_SUCCESS == PMIx_Job_control(NULL, 0, &info, 1, &results, &nresults));
    PMIX_INFO_FREE(results, nresults);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    results = NULL;
    nresults = 0;
    status = PMIx_Query_info(&query, 1, &results, &nresults);
    count(QUERY, PMIX_SUCCESS == status && 1 == nresults);
    PMIX_INFO_FREE(results, nresults);
    PMIX_QUERY_DESTRUCT(&query);
}

static void group(const char *name)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    count(CONSTRUCT, PMIX_SUCCESS == PMIx_Group_construct(name, &me, 1, NULL, 0, &results, &nresults));
    PMIX_INFO_FREE(results, nresults);
    count(DESTRUCT, PMIX_SUCCESS == PMIx_Group_destruct(name, NULL, 0));
}

static void *work(void *argument)
{
    size_t number = (size_t) argument;
    begun++;
    while (begun < THREADS) {
        sched_yield();
    }
    for (int i = 0; i < TIMES; i++) {
        char name[64];
        snprintf(name, sizeof name, "test.%u.%zu.%d", me.rank, number, i);
        exchange(name);
        publish(name);
        raise_event((int) number);
        control_and_query();
        group(name);
    }
    return NULL;
}

/* In a child: the library is the parent's alone. Each way of ending must end. */
static void __attribute__((noreturn)) be_child(int number)
{
    pmix_value_t *value = NULL;
    pmix_status_t code = CODE;
    alarm(CHILD_SECONDS);
    bool is_good = 0 == PMIx_Initialized() && PMIX_ERR_INIT == PMIx_Fence(NULL, 0, NULL, 0) &&
                   PMIX_ERR_INIT == PMIx_Get(&me, "test.ready", NULL, 0, &value) && PMIX_ERR_INIT == PMIx_Commit() &&
                   PMIX_ERR_INIT == PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) &&
                   PMIX_ERR_INIT == PMIx_Finalize(NULL, 0);
    if (!is_good) {
        _exit(1);
    }
    if (0 == number % 3) {
        execlp("true", "true", (char *) NULL);
        _exit(127);
    }
    if (1 == number % 3) {
        exit(0);
    }
    _exit(0);
}

static void say_children(void)
{
    int failed_children = 0;
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        pid_t child = fork();
        if (0 == child) {
            be_child(i);
        }
        waitpid(child, &status, 0);
        failed_children += 0 == status ? 0 : 1;
    }
    say("%d of %d children failed", failed_children, CHILDREN);
}

int main(void)
{
    pthread_t threads[THREADS];
    pmix_value_t ready = {.type = PMIX_BOOL, .data.flag = true};
    say_status("init", PMIx_Init(&me, NULL, 0), PMIX_SUCCESS);
    neighbor = me.rank ^ 1;
    say_status("put", PMIx_Put(PMIX_GLOBAL, "test.ready", &ready), PMIX_SUCCESS);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, (void *) i);
    }
    say_children();
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int call = 0; call < CALLS; call++) {
        say("%s: %d of %d failed", names[call], failures[call], THREADS * TIMES);
    }
    say_status("fence", PMIx_Fence(NULL, 0, NULL, 0), PMIX_SUCCESS);
    say_status("finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
