/* Distances from the processors of this process to the devices of the machine, by the blocking call
 * and by the other one. Prints a line for each device. */
#include "need.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;

static void say(const char *call, pmix_status_t status, const pmix_device_distance_t *distances, size_t count)
{
    printf("%s: %d, %zu devices\n", call, status, count);
    for (size_t i = 0; i < count; i++) {
        printf("%s: %s %s from %u to %u\n", call, distances[i].osname, distances[i].uuid, distances[i].mindist,
               distances[i].maxdist);
    }
    fflush(stdout);
}

static void on_distances(pmix_status_t status, pmix_device_distance_t *distances, size_t count, void *call,
                         pmix_release_cbfunc_t release, void *released)
{
    say(call, status, distances, count);
    if (NULL != release) {
        release(released);
    }
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    pmix_device_distance_t *distances = NULL;
    size_t count = 0;
    need("init", PMIx_Init(&me, NULL, 0));
    pmix_status_t status = PMIx_Compute_distances(NULL, NULL, NULL, 0, &distances, &count);
    say("blocking", status, distances, count);
    if (NULL != distances) {
        PMIX_DEVICE_DIST_FREE(distances, count);
    }
    need("distances", PMIx_Compute_distances_nb(NULL, NULL, NULL, 0, on_distances, "callback"));
    pthread_mutex_lock(&lock);
    while (!done) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
