/* A PMIx program of two procs: rank 0 raises events before any handler exists. Then rank 1
 * registers and prints the events that it receives.
 *
 *     late namespace 2000 2000     events about the job
 *     late session 2000 512        events of the environment, of which the newest are kept
 *
 * Runs under `peal run -n 2 -- target/c/late ...`. Rank 1 waits for the number of events in the
 * last argument before rank 0 raises a last one. With the name of a pipe after it, rank 1
 * connects only when all but that one have been raised. Rank 1 also prints the peak memory of
 * their server. */
#include "need.h"
#include "peak.h"

#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEWS (PMIX_EXTERNAL_ERR_BASE - 1)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static uint32_t open_calls, heard, first, last, out_of_order;
static uint64_t missed;

static void on_news(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *object)
{
    (void) id, (void) code, (void) source, (void) results, (void) nresults;
    uint32_t number = UINT32_MAX;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ninfos; i++) {
        if (0 == strcmp(infos[i].key, "late.number")) {
            number = infos[i].value.data.uint32;
        } else if (0 == strcmp(infos[i].key, "peal.events.missed")) {
            missed = infos[i].value.data.uint64;
        }
    }
    if (0 == heard) {
        first = number;
    } else if (number != last + 1) {
        out_of_order++;
    }
    last = number;
    heard++;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, object);
}

static void on_taken(pmix_status_t status, void *object)
{
    pmix_info_t *info = object;
    need("notify", status);
    PMIX_INFO_FREE(info, 1);
    pthread_mutex_lock(&lock);
    open_calls--;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

/* Keeps few calls open: the library searches all of them for each answer. */
static void raise_one(uint32_t number, pmix_data_range_t range)
{
    pmix_info_t *info;
    pthread_mutex_lock(&lock);
    while (open_calls >= 64) {
        pthread_cond_wait(&told, &lock);
    }
    open_calls++;
    pthread_mutex_unlock(&lock);
    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(info, "late.number", &number, PMIX_UINT32);
    need("notify", PMIx_Notify_event(NEWS, &me, range, info, 1, on_taken, info));
}

static void everything_is_taken(void)
{
    pthread_mutex_lock(&lock);
    while (open_calls > 0) {
        pthread_cond_wait(&told, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void await(uint32_t wanted)
{
    pthread_mutex_lock(&lock);
    while (heard < wanted) {
        pthread_cond_wait(&told, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void everybody_is_here(void)
{
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

/* Waits until rank 0 opens the other end, which it does after it has raised its events. */
static void meet(const char *pipe, const char *mode)
{
    FILE *end = fopen(pipe, mode);
    if (NULL == end) {
        perror(pipe);
        exit(EXIT_FAILURE);
    }
    fclose(end);
}

int main(int argc, char **argv)
{
    if (4 != argc && 5 != argc) {
        fprintf(stderr, "usage: late namespace|session COUNT EXPECTED [PIPE]\n");
        return EXIT_FAILURE;
    }
    const char *pipe = argv[4], *rank = getenv("PMIX_RANK");
    if (NULL != pipe && NULL != rank && 0 == strcmp(rank, "1")) {
        meet(pipe, "r");
    }
    pmix_data_range_t range = 0 == strcmp(argv[1], "session") ? PMIX_RANGE_SESSION : PMIX_RANGE_NAMESPACE;
    uint32_t count = strtoul(argv[2], NULL, 10), expected = strtoul(argv[3], NULL, 10);
    need("init", PMIx_Init(&me, NULL, 0));
    if (0 == me.rank) {
        for (uint32_t number = 0; number < count; number++) {
            raise_one(number, range);
        }
        everything_is_taken();
        if (NULL != pipe) {
            meet(pipe, "w");
        }
    }
    everybody_is_here();
    if (1 == me.rank) {
        pmix_status_t code = NEWS, id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_news, NULL, NULL);
        if (id < 0) {
            need("register", id);
        }
        await(expected);
    }
    everybody_is_here();
    if (0 == me.rank) {
        raise_one(count, range);
        everything_is_taken();
    } else {
        await(expected + 1);
        printf("heard %u, from %u to %u, %u out of order, %llu missed\n", heard, first, last, out_of_order,
               (unsigned long long) missed);
        printf("the server took %ld KiB\n", peak_of(getppid()));
        fflush(stdout);
    }
    everybody_is_here();
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
