/* What a program may not do, and what it does rarely: null pointers, wrong counts, calls before the
 * first init and after the last finalize, blocking calls in a handler, a handler that completes twice,
 * many threads, half of them with small stacks, a fork. Prints the status of each. The C library
 * crashes or hangs on some of it, so that only Peal's library runs this. */
#include <pmix_tool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE = PMIX_EXTERNAL_ERR_BASE - 1, THREADS = 64, VALUES = 50, SMALL_STACK = 64 << 10 };

static pmix_proc_t me;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;

static void say(const char *what, pmix_status_t status)
{
    printf("rank %u: %s: %d\n", me.rank, what, status);
    fflush(stdout);
}

static void end(void)
{
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(void)
{
    pthread_mutex_lock(&lock);
    while (!done) {
        pthread_cond_wait(&changed, &lock);
    }
    done = 0;
    pthread_mutex_unlock(&lock);
}

static void say_uninitialized(const char *when)
{
    printf("rank %u: %s: initialized %d, fence %d, get %d, commit %d, finalize %d\n", me.rank, when, PMIx_Initialized(),
           PMIx_Fence(NULL, 0, NULL, 0), PMIx_Get(&me, "test.key", NULL, 0, NULL), PMIx_Commit(), PMIx_Finalize(NULL, 0));
    fflush(stdout);
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t complete, void *object)
{
    (void) code, (void) source, (void) infos, (void) ninfos, (void) results, (void) nresults;
    pmix_value_t *value = NULL;
    say("fence in a handler", PMIx_Fence(NULL, 0, NULL, 0));
    say("get in a handler", PMIx_Get(&me, PMIX_LOCAL_RANK, NULL, 0, &value));
    say("finalize in a handler", PMIx_Finalize(NULL, 0));
    say("notify in a handler", PMIx_Notify_event(CODE - 1, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    say("deregister in a handler", PMIx_Deregister_event_handler(id, NULL, NULL));
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, object);
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, object);
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, NULL);
    end();
}

static void on_done(pmix_status_t status, void *object)
{
    (void) object;
    say("fence by callback", status);
    end();
}

static void say_bad_arguments(void)
{
    pmix_value_t value = { .type = PMIX_BOOL, .data.flag = true };
    say("put of no key", PMIx_Put(PMIX_GLOBAL, NULL, &value));
    say("put of no value", PMIx_Put(PMIX_GLOBAL, "test.key", NULL));
    say("put of no scope", PMIx_Put(77, "test.key", &value));
    say("get of nothing", PMIx_Get(NULL, NULL, NULL, 0, NULL));
    say("get without callback", PMIx_Get_nb(&me, "test.key", NULL, 0, NULL, NULL));
    say("fence without callback", PMIx_Fence_nb(NULL, 0, NULL, 0, NULL, NULL));
    say("fence of lost procs", PMIx_Fence(NULL, 5, NULL, 0));
    say("fence of lost infos", PMIx_Fence(NULL, 0, NULL, 5));
    say("no handler", PMIx_Register_event_handler(NULL, 0, NULL, 0, NULL, NULL, NULL));
    say("unknown handler", PMIx_Deregister_event_handler(4711, NULL, NULL));
    say("no range", PMIx_Notify_event(CODE, NULL, 200, NULL, 0, NULL, NULL));
    say("lookup of nothing", PMIx_Lookup(NULL, 0, NULL, 0));
    say("publish of nothing", PMIx_Publish(NULL, 0));
    say("spawn of nothing", PMIx_Spawn(NULL, 0, NULL, 0, NULL));
    say("connect of nobody", PMIx_Connect(NULL, 0, NULL, 0));
    say("peers without place", PMIx_Resolve_peers(NULL, NULL, NULL, NULL));
    say("nodes without place", PMIx_Resolve_nodes(NULL, NULL));
    say("query of nothing", PMIx_Query_info(NULL, 0, NULL, NULL));
    say("log of nothing", PMIx_Log(NULL, 0, NULL, 0));
    say("monitor of nothing", PMIx_Process_monitor(NULL, 0, NULL, 0, NULL, NULL));
    say("group of nobody", PMIx_Group_construct("none", NULL, 0, NULL, 0, NULL, NULL));
    say("join of nothing", PMIx_Group_join(NULL, NULL, PMIX_GROUP_ACCEPT, NULL, 0, NULL, NULL));
    say("credential without place", PMIx_Get_credential(NULL, 0, NULL));
    say("no credential", PMIx_Validate_credential(NULL, NULL, 0, NULL, NULL));
    say("unknown pull", PMIx_IOF_deregister(4711, NULL, 0, NULL, NULL));
    say("servers of a proc", PMIx_tool_disconnect(&me));
}

/* Puts, gets and raises. Returns null on success. */
static void *work(void *number)
{
    for (int i = 0; i < VALUES; i++) {
        char key[32];
        snprintf(key, sizeof key, "test.%zu.%d", (size_t) number, i);
        pmix_value_t value = { .type = PMIX_UINT32, .data.uint32 = (uint32_t) i }, *found = NULL;
        if (PMIX_SUCCESS != PMIx_Put(PMIX_GLOBAL, key, &value) || (0 == i % 10 && PMIX_SUCCESS != PMIx_Commit()) ||
            PMIX_SUCCESS != PMIx_Get(&me, key, NULL, 0, &found) || found->data.uint32 != (uint32_t) i ||
            PMIX_SUCCESS != PMIx_Notify_event(CODE - 2, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL)) {
            return &me;
        }
        free(found);
    }
    return NULL;
}

static void say_threads(void)
{
    pthread_t threads[THREADS];
    int failed = 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, SMALL_STACK);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], 0 == i % 2 ? NULL : &small, work, (void *) i);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed += NULL != result;
    }
    say("threads that failed", failed);
}

static void say_fork(void)
{
    int status = -1;
    pid_t child = fork();
    if (0 == child) {
        say_uninitialized("in a child");
        _exit(0);
    }
    waitpid(child, &status, 0);
    say("the child ends", status);
}

int main(void)
{
    pmix_status_t code = CODE;
    me.rank = (pmix_rank_t) atoi(getenv("PMIX_RANK"));
    say_uninitialized("before init");
    say("init", PMIx_Init(&me, NULL, 0));
    say("init again", PMIx_Init(NULL, NULL, 0));
    say("finalize once", PMIx_Finalize(NULL, 0));
    say_bad_arguments();
    say("register", PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) < 0);
    say("notify", PMIx_Notify_event(CODE, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    await();
    say("fence begins", PMIx_Fence_nb(NULL, 0, NULL, 0, on_done, NULL));
    await();
    say_threads();
    say_fork();
    say("fence", PMIx_Fence(NULL, 0, NULL, 0));
    say("finalize", PMIx_Finalize(NULL, 0));
    say_uninitialized("after finalize");
    say("init anew", PMIx_Init(&me, NULL, 0));
    say("fence", PMIx_Fence(NULL, 0, NULL, 0));
    say("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
