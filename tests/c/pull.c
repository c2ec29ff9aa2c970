/* A tool that pulls the standard output of a job's procs, and prints the given number of pieces as
 * they come.
 *
 *     pull NSPACE PIECES [BYTES]
 *
 * BYTES limits the earlier output of each proc. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pmix_tool.h>

/* Time limit of things that must happen. It passes only if something is broken. */
#define PATIENCE_SECONDS 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int left;

static void need(const char *what, pmix_status_t status)
{
    if (status < 0) {
        printf("%s: %s\n", what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *data,
                      pmix_info_t infos[], size_t ninfos)
{
    (void) id, (void) channel, (void) infos, (void) ninfos;
    pthread_mutex_lock(&lock);
    if (NULL == data || 0 == data->size) {
        printf("rank %u: the end\n", source->rank);
    } else {
        printf("rank %u: %.*s", source->rank, (int) data->size, data->bytes);
    }
    fflush(stdout);
    left--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    pmix_proc_t me, all;
    pmix_info_t most;
    struct timespec deadline;
    uint32_t bytes = argc > 3 ? (uint32_t) atoi(argv[3]) : 0;
    if (argc < 3) {
        return EXIT_FAILURE;
    }
    left = atoi(argv[2]);
    PMIX_LOAD_PROCID(&all, argv[1], PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&most, PMIX_IOF_CACHE_SIZE, &bytes, PMIX_UINT32);
    need("init", PMIx_tool_init(&me, NULL, 0));
    need("pull", PMIx_IOF_pull(&all, 1, argc > 3 ? &most : NULL, argc > 3 ? 1 : 0, PMIX_FWD_STDOUT_CHANNEL, on_output, NULL, NULL));
    puts("pulls");
    fflush(stdout);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&lock);
    while (left > 0 && ETIMEDOUT != pthread_cond_timedwait(&changed, &lock, &deadline)) {
    }
    if (left > 0) {
        printf("missing: %d pieces\n", left);
    }
    pthread_mutex_unlock(&lock);
    need("finalize", PMIx_tool_finalize());
    return EXIT_SUCCESS;
}
