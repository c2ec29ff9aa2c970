/* A PMIx program that is checkpointed. Its procs declare their checkpoint methods; rank 0 requests
 * a checkpoint and follows its progress.
 *
 * Runs as a job of any size under Peal: `peal run -n 3 -- target/c/checkpoint both`.
 *
 * - both: odd ranks are notified by a signal, even ones by an event; all make their checkpoint.
 * - older: the same. The time limit is under the key that also names a signal, as a number that is
 *   no signal.
 * - example: the example of the RFC. All are notified by SIGUSR2, regardless of their methods.
 * - late: rank 1 never reports completion.
 * - failed: rank 1 reports failure.
 * - nobody: no proc declares a method.
 * - preempt: all are preempted. They make their checkpoints and are killed.
 * - stays FILE: all create FILE.RANK, and make the checkpoints that others request, until they are killed.
 * - cancel: rank 1 never reports anything, and rank 0 cancels the request. */
#include "need.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Peal's event for the end of a request. */
#define JOB_CONTROL_ENDED (-1000104)
#define CHECKPOINT_NOW (PMIX_EXTERNAL_ERR_BASE - 500)
#define NAME "mycheckpoint.1"

static bool is_preemptible;
static sigset_t told;
static volatile bool asked_to, is_over;
static volatile pmix_status_t outcome;

static void on_checkpoint(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                          pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) code, (void) source, (void) results, (void) nresults;
    for (size_t at = 0; at < ninfo; at++) {
        /* The server names the checkpoint of a preemption. */
        if (PMIX_CHECK_KEY(&info[at], PMIX_JOB_CTRL_CHECKPOINT)) {
            asked_to = asked_to || is_preemptible || 0 == strcmp(NAME, info[at].value.data.string);
        }
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void on_end(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) code, (void) source, (void) results, (void) nresults;
    for (size_t at = 0; at < ninfo; at++) {
        if (PMIX_CHECK_KEY(&info[at], "peal.jctrl.status")) {
            outcome = info[at].value.data.status;
        }
    }
    is_over = true;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void hear(pmix_status_t code, pmix_notification_fn_t handler)
{
    pmix_status_t codes[] = { code };
    pmix_status_t status = PMIx_Register_event_handler(codes, 1, NULL, 0, handler, NULL, NULL);
    if (status < 0) {
        need("register", status);
    }
}

/* Declares the checkpoint method of this proc: the key, and the signal or event; and that it can be preempted, if that is so. */
static void declare(void)
{
    bool by_signal = me.rank % 2;
    int number = SIGUSR2;
    pmix_status_t code = CHECKPOINT_NOW;
    pmix_data_array_t methods;
    pmix_info_t directives[2];
    PMIX_DATA_ARRAY_CONSTRUCT(&methods, 1, PMIX_INFO);
    pmix_info_t *method = methods.array;
    if (by_signal) {
        PMIX_INFO_LOAD(method, PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, &number, PMIX_INT);
    } else {
        PMIX_INFO_LOAD(method, PMIX_JOB_CTRL_CHECKPOINT_EVENT, &code, PMIX_STATUS);
        hear(CHECKPOINT_NOW, on_checkpoint);
    }
    PMIX_INFO_LOAD(&directives[0], PMIX_JOB_CTRL_CHECKPOINT_METHOD, &methods, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&directives[1], PMIX_JOB_CTRL_PREEMPTIBLE, &is_preemptible, PMIX_BOOL);
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    need("declare", PMIx_Job_control(NULL, 0, directives, is_preemptible ? 2 : 1, &results, &nresults));
    PMIX_INFO_DESTRUCT(&directives[0]);
    PMIX_INFO_DESTRUCT(&directives[1]);
    PMIX_DATA_ARRAY_DESTRUCT(&methods);
}

static void made_it(bool well)
{
    pmix_info_t info;
    pmix_status_t status = well ? PMIX_SUCCESS : PMIX_ERROR;
    PMIX_INFO_LOAD(&info, "peal.jctrl.status", &status, PMIX_STATUS);
    need("tell", PMIx_Notify_event(PMIX_JCTRL_CHECKPOINT_COMPLETE, &me, PMIX_RANGE_RM, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    printf("rank %u: made its checkpoint %s\n", me.rank, well ? "well" : "badly");
    fflush(stdout);
}

static pmix_status_t ask(pmix_info_t *directives, size_t n)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_status_t status = PMIx_Job_control(NULL, 0, directives, n, &results, &nresults);
    PMIX_INFO_FREE(results, nresults);
    return status;
}

static const char *word(pmix_info_t *infos, size_t n, const char *key)
{
    for (size_t at = 0; at < n; at++) {
        if (PMIX_CHECK_KEY(&infos[at], key) && PMIX_STRING == infos[at].value.type) {
            return infos[at].value.data.string;
        }
    }
    return "nothing";
}

/* Prints the server's record of the request. */
static void tell_state(void)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t nfound = 0;
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_status_t added;
    PMIX_ARGV_APPEND(added, query.keys, PMIX_JOB_CTRL_ID);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_JOB_CTRL_ID, "ck", PMIX_STRING);
    need("ask", added);
    need("query", PMIx_Query_info(&query, 1, &found, &nfound));
    pmix_data_array_t *requests = found[0].value.data.darray;
    pmix_info_t *request = requests->array;
    pmix_data_array_t *infos = request->value.data.darray;
    printf("rank 0: %s, %s\n", word(infos->array, infos->size, "peal.jctrl.action"),
           word(infos->array, infos->size, "peal.jctrl.state"));
    PMIX_INFO_FREE(found, nfound);
    PMIX_QUERY_DESTRUCT(&query);
}

static void wait_for_request(bool by_signal)
{
    if (by_signal) {
        int number;
        sigwait(&told, &number);
    } else {
        while (!asked_to) {
            usleep(1000);
        }
    }
}

/* Makes all checkpoints that are requested. */
static void stay(const char *file)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s.%u", file, me.rank);
    FILE *created = fopen(name, "w");
    need("create", NULL == created ? PMIX_ERROR : PMIX_SUCCESS);
    fclose(created);
    for (;;) {
        wait_for_request(me.rank % 2);
        asked_to = false;
        made_it(true);
    }
}

static void request(const char *what)
{
    pmix_info_t directives[3];
    int number = 0 == strcmp(what, "late") ? 1 : 30;
    const char *key = PMIX_TIMEOUT;
    if (0 == strcmp(what, "older")) {
        key = PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT;
        number = 90;
    } else if (0 == strcmp(what, "example")) {
        key = PMIX_JOB_CTRL_CHECKPOINT_SIGNAL;
        number = SIGUSR2;
    }
    if (is_preemptible) {
        uint32_t grace = 60;
        PMIX_INFO_LOAD(&directives[0], "peal.jctrl.preempt", "kill", PMIX_STRING);
        PMIX_INFO_LOAD(&directives[2], "peal.jctrl.grace", &grace, PMIX_UINT32);
    } else {
        PMIX_INFO_LOAD(&directives[0], PMIX_JOB_CTRL_CHECKPOINT, NAME, PMIX_STRING);
        PMIX_INFO_LOAD(&directives[2], key, &number, PMIX_INT);
    }
    PMIX_INFO_LOAD(&directives[1], PMIX_JOB_CTRL_ID, "ck", PMIX_STRING);
    pmix_status_t status = ask(directives, 3);
    printf("rank 0: checkpoint: %s (%d)\n", PMIx_Error_string(status), status);
    if (PMIX_SUCCESS != status) {
        is_over = true;
        asked_to = true;
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "both";
    bool stays = 0 == strcmp(what, "stays") && argc > 2;
    is_preemptible = stays || 0 == strcmp(what, "preempt");
    /* Before the library starts its threads, which inherit the signal mask. */
    sigemptyset(&told);
    sigaddset(&told, SIGUSR2);
    sigprocmask(SIG_BLOCK, &told, NULL);
    need("init", PMIx_Init(&me, NULL, 0));
    bool is_silent = 1 == me.rank && (0 == strcmp(what, "late") || 0 == strcmp(what, "cancel"));
    if (0 == me.rank) {
        hear(JOB_CONTROL_ENDED, on_end);
    }
    if (0 != strcmp(what, "nobody")) {
        declare();
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (stays) {
        stay(argv[2]);
    }
    if (0 == me.rank) {
        request(what);
    }
    if (0 != strcmp(what, "nobody")) {
        wait_for_request(me.rank % 2 || 0 == strcmp(what, "example"));
        if (!is_silent) {
            made_it(!(1 == me.rank && 0 == strcmp(what, "failed")));
        }
    }
    if (0 == me.rank && 0 == strcmp(what, "cancel")) {
        pmix_info_t directive;
        PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_CANCEL, "ck", PMIX_STRING);
        pmix_status_t status = ask(&directive, 1);
        printf("rank 0: cancel: %s (%d)\n", PMIx_Error_string(status), status);
    }
    while (0 == me.rank && !is_over) {
        usleep(1000);
    }
    if (0 == me.rank && 0 != strcmp(what, "nobody")) {
        printf("rank 0: it is over: %s (%d)\n", PMIx_Error_string(outcome), outcome);
        tell_state();
    }
    fflush(stdout);
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
