/* The event half of job.c: each proc in its turn sends its notices, and all wait for those that
 * concern them and print them.
 *
 * Turns are separated by fences. So the output of a chain does not depend on timing. Also, no event
 * is delivered while a proc notifies: 4.2.2 works on its own event cache from both threads without
 * a lock.
 *
 * Included by job.c; not a program. */
#ifndef JOB_EVENTS_H
#define JOB_EVENTS_H

#include <errno.h>

#include "job_handlers.h"

/* Waits under the lock until `ready` returns true. Returns false if the deadline passed first.
 * After that the others get little time, so that a broken server still leads to a full report. */
static bool wait_until(bool (*ready)(const void *), const void *what)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += patience;
    while (!ready(what)) {
        if (ETIMEDOUT == pthread_cond_timedwait(&changed, &lock, &deadline) && !ready(what)) {
            patience = 1;
            return false;
        }
    }
    return true;
}

/* One source and one of its notices. */
struct sent {
    pmix_rank_t source;
    size_t notice;
};

static bool all_called(const void *what)
{
    const struct sent *sent = what;
    for (int handler = 0; handler < HANDLERS; handler++) {
        if (expected(sent->source, &notices[sent->notice], handler) &&
            0 == *calls_of(sent->source, sent->notice, handler)) {
            return false;
        }
    }
    return true;
}

static void await_notice(pmix_rank_t source, size_t notice)
{
    struct sent sent = {source, notice};
    pthread_mutex_lock(&lock);
    bool complete = wait_until(all_called, &sent);
    pthread_mutex_unlock(&lock);
    if (!complete) {
        miss("%s of %u in time", notices[notice].name, source);
    }
}

static void on_answer(pmix_status_t status, void *unused)
{
    (void) unused;
    pthread_mutex_lock(&lock);
    accepted = status;
    answered = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool is_answered(const void *unused)
{
    (void) unused;
    return answered;
}

/* Loads a notice's infos, of which the last depends on the notice. Returns their number. */
static size_t load_notice(pmix_info_t infos[4], const struct notice *notice)
{
    size_t ninfos = 0;
    PMIX_INFO_LOAD(&infos[ninfos++], "job.notice", notice->name, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[ninfos++], "job.from", &me.rank, PMIX_PROC_RANK);
    if (notice->non_default) {
        PMIX_INFO_LOAD(&infos[ninfos++], PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
    }
    if (PMIX_RANGE_CUSTOM == notice->range) {
        pmix_data_array_t *targets;
        PMIX_DATA_ARRAY_CREATE(targets, 1, PMIX_PROC);
        *(pmix_proc_t *) targets->array = proc_of(next_rank(me.rank));
        PMIX_LOAD_KEY(infos[ninfos].key, PMIX_EVENT_CUSTOM_RANGE);
        infos[ninfos].flags = 0;
        infos[ninfos].value.type = PMIX_DATA_ARRAY;
        infos[ninfos++].value.data.darray = targets;
    }
    return ninfos;
}

/* Sends one notice and prints the server's answer. */
static void notify(const struct notice *notice)
{
    pmix_info_t infos[4];
    size_t ninfos = load_notice(infos, notice);
    char what[32];
    snprintf(what, sizeof what, "notify %s", notice->name);
    pthread_mutex_lock(&lock);
    answered = false;
    pthread_mutex_unlock(&lock);
    pmix_status_t rc = PMIx_Notify_event(notice->code, &me, notice->range, infos, ninfos, on_answer, NULL);
    pthread_mutex_lock(&lock);
    bool in_time = PMIX_SUCCESS != rc || wait_until(is_answered, NULL);
    pthread_mutex_unlock(&lock);
    if (in_time) {
        say_status(what, PMIX_SUCCESS == rc ? accepted : rc, PMIX_SUCCESS);
    } else {
        miss("answer to %s in time", what);
    }
    for (size_t i = 0; i < ninfos; i++) {
        PMIX_INFO_DESTRUCT(&infos[i]);
    }
}

/* One proc notifies; all wait for the notices that concern them. */
static void take_turn(pmix_rank_t source)
{
    for (size_t notice = 0; notice < NOTICES; notice++) {
        if (me.rank == source) {
            notify(&notices[notice]);
        }
        await_notice(source, notice);
    }
    char what[32];
    snprintf(what, sizeof what, "fence after turn of %u", source);
    fence(what, false);
}

static int by_observation(const void *left, const void *right)
{
    const struct observation *a = left, *b = right;
    if (a->handler != b->handler) {
        return a->handler < b->handler ? -1 : 1;
    }
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    if (a->code != b->code) {
        return a->code > b->code ? -1 : 1;
    }
    int names = strcmp(a->notice, b->notice);
    return 0 != names ? names : strcmp(a->text, b->text);
}

/* Prints all calls in an order that does not depend on arrival. */
static void say_observations(void)
{
    pthread_mutex_lock(&lock);
    qsort(observations, nobservations, sizeof *observations, by_observation);
    for (size_t i = 0; i < nobservations; i++) {
        say("%s", observations[i].text);
        if ('\0' == observations[i].notice[0]) {
            miss("a reason for the event above");
        }
    }
    pthread_mutex_unlock(&lock);
}

/* Checks that each handler was called once for each notice that concerns it, and never
 * otherwise. */
static void check_calls(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < job_size * NOTICES * HANDLERS; i++) {
        pmix_rank_t source = (pmix_rank_t) (i / HANDLERS / NOTICES);
        size_t notice = i / HANDLERS % NOTICES;
        int handler = (int) (i % HANDLERS);
        int wanted = expected(source, &notices[notice], handler) ? 1 : 0;
        if (calls[i] != wanted) {
            miss("%s of %u in %s: %d instead of %d", notices[notice].name, source, handler_names[handler], calls[i],
                 wanted);
        }
    }
    pthread_mutex_unlock(&lock);
}

#endif
