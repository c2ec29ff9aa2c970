/* Forwarding of output and input by PMIx_IOF_pull and PMIx_IOF_push: rank 0 receives the output of
 * rank 1, and sends the input of rank 2. Run it with `--stdin 2`. */
#include <pmix_tool.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "need.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char out[64], err[64];
static bool ended, done;
static pmix_status_t done_status;

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                      pmix_info_t infos[], size_t ninfos)
{
    (void) id, (void) infos, (void) ninfos;
    pthread_mutex_lock(&lock);
    char *to = PMIX_FWD_STDERR_CHANNEL == channel ? err : out;
    if (1 == source->rank && NULL != payload && payload->size > 0) {
        strncat(to, payload->bytes, payload->size < 40 ? payload->size : 40);
    }
    ended = '\0' != out[0] && '\0' != err[0];
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_done(pmix_status_t status, void *object)
{
    (void) object;
    pthread_mutex_lock(&lock);
    done_status = status;
    done = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(bool *what)
{
    pthread_mutex_lock(&lock);
    while (!*what) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static pmix_status_t push(const char *text)
{
    pmix_proc_t reader;
    PMIX_LOAD_PROCID(&reader, me.nspace, 2);
    pmix_byte_object_t data = { .bytes = (char *) text, .size = strlen(text) };
    done = false;
    pmix_status_t status = PMIx_IOF_push(&reader, 1, &data, NULL, 0, on_done, NULL);
    if (PMIX_OPERATION_SUCCEEDED == status) {
        return PMIX_SUCCESS;
    }
    need("push", status);
    await(&done);
    return done_status;
}

int main(void)
{
    need("init", PMIx_Init(&me, NULL, 0));
    pmix_proc_t writer, nobody;
    PMIX_LOAD_PROCID(&writer, me.nspace, 1);
    PMIX_LOAD_PROCID(&nobody, "no-such-job", PMIX_RANK_WILDCARD);
    pmix_status_t id = PMIX_SUCCESS;
    if (0 == me.rank) {
        id = PMIx_IOF_pull(&writer, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, on_output, NULL, NULL);
        printf("rank 0: pulls %s\n", id >= 0 ? "it" : PMIx_Error_string(id));
        pmix_status_t refused = PMIx_IOF_pull(&nobody, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, NULL, NULL);
        printf("rank 0: pulls of nobody: %s\n", refused >= 0 ? "it" : PMIx_Error_string(refused));
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (1 == me.rank) {
        fputs("words of rank 1\n", stdout);
        fflush(stdout);
        fputs("errors of rank 1\n", stderr);
    }
    if (0 == me.rank) {
        await(&ended);
        printf("rank 0: got %srank 0: got %s", out, err);
        fflush(stdout);
        /* Without a callback, 4.2.2 sometimes never returns. */
        done = false;
        need("deregister", PMIx_IOF_deregister((size_t) id, NULL, 0, on_done, NULL));
        await(&done);
        printf("rank 0: deregisters %s\n", PMIx_Error_string(done_status));
        printf("rank 0: pushed %s\n", PMIx_Error_string(push("for rank 2\n")));
    }
    if (2 == me.rank) {
        char line[64] = "";
        if (NULL == fgets(line, sizeof line, stdin)) {
            strcpy(line, "nothing\n");
        }
        printf("rank 2: read %s", line);
    }
    fflush(stdout);
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
