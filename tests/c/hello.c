/* A first PMIx program: each proc puts a greeting for the others and reads that of its neighbor.
 * The first proc raises an event for the others.
 *
 * Runs as a job of any size under any PMIx server: `peal run -n 4 -- target/c/hello`. */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* First code that users may choose, less one: the base itself is not theirs. */
#define GOOD_NEWS (PMIX_EXTERNAL_ERR_BASE - 1)

static pmix_proc_t me;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t heard = PTHREAD_COND_INITIALIZER;
static int news;

/* Prints the failed call and exits: a proc can do nothing without its server. */
static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

static void on_news(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *object)
{
    (void) id, (void) code, (void) infos, (void) ninfos, (void) results, (void) nresults;
    printf("rank %u: heard good news from rank %u\n", me.rank, source->rank);
    fflush(stdout);
    pthread_mutex_lock(&lock);
    news = 1;
    pthread_cond_signal(&heard);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, object);
}

static uint32_t job_size(void)
{
    pmix_proc_t job;
    pmix_value_t *size;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    need("get the job's size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size));
    uint32_t procs = size->data.uint32;
    PMIX_VALUE_RELEASE(size);
    return procs;
}

static void exchange_greetings(uint32_t size)
{
    char text[64];
    snprintf(text, sizeof text, "hello from rank %u", me.rank);
    pmix_value_t greeting = { .type = PMIX_STRING, .data.string = text };
    need("put", PMIx_Put(PMIX_GLOBAL, "hello.greeting", &greeting));
    need("commit", PMIx_Commit());
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));

    pmix_proc_t neighbour;
    pmix_value_t *theirs;
    PMIX_LOAD_PROCID(&neighbour, me.nspace, (me.rank + 1) % size);
    need("get the neighbour's greeting", PMIx_Get(&neighbour, "hello.greeting", NULL, 0, &theirs));
    printf("rank %u of %u: my neighbour says \"%s\"\n", me.rank, size, theirs->data.string);
    fflush(stdout);
    PMIX_VALUE_RELEASE(theirs);
}

static void spread_the_news(void)
{
    if (0 == me.rank) {
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, "hello.news", "all are here", PMIX_STRING);
        need("notify", PMIx_Notify_event(GOOD_NEWS, &me, PMIX_RANGE_NAMESPACE, &info, 1, NULL, NULL));
        PMIX_INFO_DESTRUCT(&info);
    }
    pthread_mutex_lock(&lock);
    while (!news) {
        pthread_cond_wait(&heard, &lock);
    }
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    pmix_status_t code = GOOD_NEWS;
    need("init", PMIx_Init(&me, NULL, 0));
    pmix_status_t registered = PMIx_Register_event_handler(&code, 1, NULL, 0, on_news, NULL, NULL);
    need("register", registered < 0 ? registered : PMIX_SUCCESS);
    exchange_greetings(job_size());
    spread_the_news();
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
