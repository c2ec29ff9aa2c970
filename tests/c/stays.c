/* A proc that stays until its server is gone, and prints how it learned of it.
 *
 * It prints "ready" once it has registered for the loss of its connection, and "lost: CODE" at that
 * event. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <pmix.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t heard = PTHREAD_COND_INITIALIZER;
static pmix_status_t told = PMIX_SUCCESS;

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    pthread_mutex_lock(&lock);
    told = status;
    pthread_cond_signal(&heard);
    pthread_mutex_unlock(&lock);
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    }
}

static void need(const char *what, pmix_status_t status)
{
    if (status < PMIX_SUCCESS) {
        printf("%s: %s\n", what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    pmix_proc_t me;
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    need("PMIx_Init", PMIx_Init(&me, NULL, 0));
    need("PMIx_Register_event_handler", PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL));
    printf("ready\n");
    fflush(stdout);
    pthread_mutex_lock(&lock);
    while (told == PMIX_SUCCESS) {
        pthread_cond_wait(&heard, &lock);
    }
    pthread_mutex_unlock(&lock);
    printf("lost: %d\n", told);
    return EXIT_SUCCESS;
}
