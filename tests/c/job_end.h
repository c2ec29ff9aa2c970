/* The abnormal ends of job.c: one proc dies and the others receive the event, or one proc requests
 * the end of the whole job.
 *
 * Included by job.c; not a program. */
#ifndef JOB_END_H
#define JOB_END_H

#include <signal.h>

#include "job_events.h"

/* Arguments of PMIx_Abort. */
#define ABORT_STATUS 7

/* Codes by which a server may report that a proc is gone. */
static const pmix_status_t death_codes[] = {
    PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED,   PMIX_ERR_PROC_TERM_WO_SYNC,
    PMIX_ERR_LOST_CONNECTION,     PMIX_EVENT_PROC_TERMINATED,
};

/* The first event about the death of `doomed`; shared with the library's thread. */
static pmix_rank_t doomed;
static char *death;

static bool names(const pmix_proc_t *proc)
{
    return PMIX_CHECK_NSPACE(proc->nspace, me.nspace) && doomed == proc->rank;
}

static bool info_names(const pmix_info_t *info)
{
    if (PMIX_CHECK_KEY(info, PMIX_EVENT_AFFECTED_PROC) && PMIX_PROC == info->value.type) {
        return names(info->value.data.proc);
    }
    if (!PMIX_CHECK_KEY(info, PMIX_EVENT_AFFECTED_PROCS) || PMIX_DATA_ARRAY != info->value.type) {
        return false;
    }
    const pmix_data_array_t *array = info->value.data.darray;
    for (size_t i = 0; PMIX_PROC == array->type && i < array->size; i++) {
        if (names((const pmix_proc_t *) array->array + i)) {
            return true;
        }
    }
    return false;
}

static bool is_about_the_doomed(const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos)
{
    bool about = names(source);
    for (size_t i = 0; i < ninfos && !about; i++) {
        about = info_names(&infos[i]);
    }
    return about;
}

static void on_death(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id;
    pthread_mutex_lock(&lock);
    if (NULL == death && is_about_the_doomed(source, infos, ninfos)) {
        death = event_text("death", code, source, infos, ninfos, results, nresults);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, chain);
}

static bool has_died(const void *unused)
{
    (void) unused;
    return NULL != death;
}

/* Ends the dying proc without a message to its server. */
static void die(void)
{
    fence("fence before death", false);
    say("dies");
    raise(SIGKILL);
}

/* The others register before the fence, as later can be too late. When a client leaves in any way,
 * the 4.2.2 server drops every kept event with one custom target that matches the client. The whole
 * namespace is such a target. */
static void hear_of_death(void)
{
    size_t id = 0;
    if (!register_handler("death", death_codes, sizeof death_codes / sizeof death_codes[0], on_death, &id)) {
        return;
    }
    fence("fence before death", false);
    pthread_mutex_lock(&lock);
    bool heard = wait_until(has_died, NULL);
    pthread_mutex_unlock(&lock);
    if (heard) {
        say("%s", death);
    } else {
        miss("an event about the end of %u in time", doomed);
    }
    say_status("deregister death", PMIx_Deregister_event_handler(id, NULL, NULL), PMIX_SUCCESS);
}

static void die_or_hear(pmix_rank_t rank)
{
    doomed = rank;
    if (me.rank == rank) {
        die();
    } else {
        hear_of_death();
    }
}

/* Does not return. The fence makes sure that all have printed their lines before any proc is
 * killed. After it, only the aborting proc prints. */
static void abort_or_wait(pmix_rank_t rank)
{
    PMIx_Fence(NULL, 0, NULL, 0);
    if (me.rank == rank) {
        say("aborts with %d", ABORT_STATUS);
        PMIx_Abort(ABORT_STATUS, "job.c was told to abort", NULL, 0);
    }
    for (;;) {
        pause();
    }
}

#endif
