/* Events of procs whose server dies. No server sends them: the library of each proc raises them for
 * that proc. Each proc prints that it is ready when all procs of the job are registered; then the
 * test kills the server. */
#include "heard.h"

enum { NEWS = PMIX_EXTERNAL_ERR_BASE - 1, HANDLERS = 3 };

/* The library names the server as source: a proc of another job. */
static char *show_source(pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos)
{
    (void) infos, (void) ninfos;
    char *text = malloc(32);
    snprintf(text, 32, "%d of %s", code, PMIX_CHECK_NSPACE(source->nspace, me.nspace) ? "this job" : "another job");
    return text;
}

static bool all_have_heard(size_t wanted) { return nheard >= wanted; }

int main(void)
{
    show = show_source;
    start_hearing();
    pmix_status_t codes[] = {PMIX_ERR_LOST_CONNECTION, NEWS};
    listen_to("single", PMIX_ERR_LOST_CONNECTION);
    listen_with("several", codes, 2, NULL, 0);
    listen_with("default", NULL, 0, NULL, 0);
    listen_to("other", NEWS);
    fence();
    say("ready");
    pthread_mutex_lock(&lock);
    if (!await(all_have_heard, HANDLERS)) {
        give_up("the loss of the server");
    }
    say_heard("the server is gone");
    pthread_mutex_unlock(&lock);
    /* Calls that stay in the process need no server. The others fail. */
    say("to itself: %s", PMIx_Error_string(notify(NEWS, PMIX_RANGE_PROC_LOCAL, NULL, 0)));
    say("to its job: %s", PMIx_Error_string(notify(NEWS, PMIX_RANGE_NAMESPACE, NULL, 0)));
    say("fence: %s", PMIx_Error_string(PMIx_Fence(NULL, 0, NULL, 0)));
    pthread_mutex_lock(&lock);
    if (!await(all_have_heard, HANDLERS)) {
        give_up("what it told itself");
    }
    say_heard("told itself");
    pthread_mutex_unlock(&lock);
    return finish_hearing();
}
