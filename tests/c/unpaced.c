/* A flood of events: rank 0 raises COUNT events without a pause, and never waits for an answer
 * before the last one. Every other proc checks that it receives all of them in order. Each prints its
 * peak memory.
 *
 *     unpaced 1000000
 *
 * Runs under `peal run -n 2 -- target/c/unpaced COUNT`. */
#include "need.h"
#include "peak.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define NEWS (PMIX_EXTERNAL_ERR_BASE - 1)
#define NUMBER "unpaced.number"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t answered, refused, heard, expected, out_of_order;

static void on_news(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *object)
{
    (void) id, (void) code, (void) source, (void) results, (void) nresults;
    uint32_t number = UINT32_MAX;
    for (size_t i = 0; i < ninfos; i++) {
        if (0 == strcmp(infos[i].key, NUMBER)) {
            number = infos[i].value.data.uint32;
        }
    }
    pthread_mutex_lock(&lock);
    if (number != expected) {
        out_of_order++;
    }
    expected = number + 1;
    heard++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, object);
}

static void on_answer(pmix_status_t status, void *object)
{
    pmix_info_t *info = object;
    PMIX_INFO_FREE(info, 1);
    pthread_mutex_lock(&lock);
    answered++;
    refused += PMIX_SUCCESS != status;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(const uint32_t *number, uint32_t wanted)
{
    pthread_mutex_lock(&lock);
    while (*number < wanted) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void raise_all(uint32_t count)
{
    for (uint32_t number = 0; number < count; number++) {
        /* The library reads the info until it calls back. */
        pmix_info_t *info;
        PMIX_INFO_CREATE(info, 1);
        PMIX_INFO_LOAD(info, NUMBER, &number, PMIX_UINT32);
        need("notify", PMIx_Notify_event(NEWS, &me, PMIX_RANGE_NAMESPACE, info, 1, on_answer, info));
    }
}

int main(int argc, char **argv)
{
    if (2 != argc) {
        fprintf(stderr, "usage: unpaced COUNT\n");
        return EXIT_FAILURE;
    }
    uint32_t count = strtoul(argv[1], NULL, 10);
    pmix_status_t code = NEWS;
    need("init", PMIx_Init(&me, NULL, 0));
    if (0 != me.rank) {
        pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_news, NULL, NULL);
        need("register", id < 0 ? id : PMIX_SUCCESS);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        raise_all(count);
        await(&answered, count);
        printf("rank %u: raised %u, %u refused\n", me.rank, answered, refused);
    } else {
        await(&heard, count);
        printf("rank %u: heard %u, %u out of order\n", me.rank, heard, out_of_order);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    printf("rank %u: took %ld KiB\n", me.rank, peak_of(getpid()));
    fflush(stdout);
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
