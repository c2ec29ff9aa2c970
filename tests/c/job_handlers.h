/* The handlers of job.c, the notices that every proc sends, and the records of expected and actual
 * calls.
 *
 * Included by job.c; not a program. */
#ifndef JOB_HANDLERS_H
#define JOB_HANDLERS_H

#include <pthread.h>
#include <time.h>

#include "job_data.h"

/* Time limit of any event; generous, since it only passes if something is broken. */
#define EVENT_SECONDS 15

enum { FIRST_CODE = PMIX_EXTERNAL_ERR_BASE - 1, CODES = 3 };

static const pmix_status_t multi_codes[CODES] = {FIRST_CODE, FIRST_CODE - 1, FIRST_CODE - 2};

enum handler { SINGLE, MULTI, DEFAULT, HANDLERS };
static const char *const handler_names[HANDLERS] = {"single", "multi", "default"};
static size_t handler_ids[HANDLERS];

/* Notices that each proc sends in its turn. The event contains the notice's name.
 *
 * Every code that must cross the server has a handler of its own. The 4.2.2 server ignores
 * registrations without codes, so that a default handler there receives only the events of other
 * registrations of the same proc. */
static const struct notice {
    const char *name;
    pmix_status_t code;
    pmix_data_range_t range;
    bool non_default;
} notices[] = {
    {"PROC_LOCAL", FIRST_CODE - 3, PMIX_RANGE_PROC_LOCAL, false},
    {"LOCAL", FIRST_CODE, PMIX_RANGE_LOCAL, false},
    {"NAMESPACE", FIRST_CODE - 2, PMIX_RANGE_NAMESPACE, false},
    {"GLOBAL", FIRST_CODE - 1, PMIX_RANGE_GLOBAL, false},
    /* No handler has this code, so only default handlers could receive it, and they must not. */
    {"UNWANTED", FIRST_CODE - 4, PMIX_RANGE_NAMESPACE, true},
    {"CUSTOM", FIRST_CODE - 2, PMIX_RANGE_CUSTOM, false},
    {"NON_DEFAULT", FIRST_CODE, PMIX_RANGE_NAMESPACE, true},
    {"SESSION", FIRST_CODE, PMIX_RANGE_SESSION, false},
};
#define NOTICES (sizeof notices / sizeof notices[0])

/* One call of one handler. */
struct observation {
    enum handler handler;
    pmix_rank_t source;
    pmix_status_t code;
    const char *notice;
    char *text;
};

/* Everything below is shared with the library's own thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct observation *observations;
static size_t nobservations, max_observations;
static int *calls; /* by source, notice and handler */
static pmix_status_t accepted; /* what the server said to the notice sent last */
static bool answered;
static time_t patience = EVENT_SECONDS;

static int *calls_of(pmix_rank_t source, size_t notice, enum handler handler)
{
    return &calls[(source * NOTICES + notice) * HANDLERS + handler];
}

static bool reaches_me(pmix_rank_t source, const struct notice *notice)
{
    switch (notice->range) {
    case PMIX_RANGE_PROC_LOCAL: return me.rank == source;
    case PMIX_RANGE_CUSTOM: return me.rank == next_rank(source);
    default: return true;
    }
}

static bool handler_has_code(enum handler handler, pmix_status_t code)
{
    switch (handler) {
    case SINGLE: return FIRST_CODE == code;
    case MULTI: return code <= multi_codes[0] && code >= multi_codes[CODES - 1];
    default: return true;
    }
}

/* Returns the status of each handler: `multi` ends the chain for its second code and continues it
 * for the others. */
static pmix_status_t outcome(enum handler handler, pmix_status_t code)
{
    if (MULTI == handler) {
        return multi_codes[1] == code ? PMIX_EVENT_ACTION_COMPLETE : PMIX_EVENT_PARTIAL_ACTION_TAKEN;
    }
    return PMIX_EVENT_NO_ACTION_TAKEN;
}

/* Returns true if this proc's `handler` must be called for that notice of `source`. */
static bool expected(pmix_rank_t source, const struct notice *notice, enum handler handler)
{
    if (!reaches_me(source, notice) || !handler_has_code(handler, notice->code)) {
        return false;
    }
    if (DEFAULT != handler) {
        return true;
    }
    bool multi_ends = PMIX_EVENT_ACTION_COMPLETE == outcome(MULTI, notice->code);
    return !notice->non_default && !(handler_has_code(MULTI, notice->code) && multi_ends);
}

static int by_key(const void *left, const void *right)
{
    return strcmp(((const pmix_info_t *) left)->key, ((const pmix_info_t *) right)->key);
}

/* Sorted by key: the order of infos has no meaning. */
static void write_sorted_infos(FILE *out, const pmix_info_t *infos, size_t ninfos)
{
    if (0 == ninfos) {
        return;
    }
    pmix_info_t *sorted = malloc(ninfos * sizeof *sorted);
    memcpy(sorted, infos, ninfos * sizeof *sorted); /* borrows the values: nothing is freed in it */
    qsort(sorted, ninfos, sizeof *sorted, by_key);
    for (size_t i = 0; i < ninfos; i++) {
        fputs(0 == i ? "" : ", ", out);
        write_info(out, &sorted[i]);
    }
    free(sorted);
}

/* The results keep their order, which is that of the chain. */
static void write_results(FILE *out, const pmix_info_t *results, size_t nresults)
{
    for (size_t i = 0; i < nresults; i++) {
        fputs(0 == i ? "" : ", ", out);
        write_info(out, &results[i]);
    }
}

/* Returns the line for one call of a handler; the caller frees it. */
static char *event_text(const char *handler, pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos,
                        size_t ninfos, const pmix_info_t *results, size_t nresults)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "event in %s: code %d source ", handler, code);
    write_proc(out, source);
    fputs(" infos [", out);
    write_sorted_infos(out, infos, ninfos);
    fprintf(out, "] results %zu [", nresults);
    write_results(out, results, nresults);
    fputc(']', out);
    fclose(out);
    return text;
}

static size_t find_notice(const pmix_info_t *infos, size_t ninfos)
{
    for (size_t i = 0; i < ninfos; i++) {
        for (size_t n = 0; PMIX_CHECK_KEY(&infos[i], "job.notice") && n < NOTICES; n++) {
            if (PMIX_STRING == infos[i].value.type && 0 == strcmp(infos[i].value.data.string, notices[n].name)) {
                return n;
            }
        }
    }
    return NOTICES;
}

/* Records one call. An unknown event is recorded there too and reported at the end. */
static void observe(enum handler handler, pmix_status_t code, const pmix_proc_t *source, size_t notice, char *text)
{
    pthread_mutex_lock(&lock);
    bool ours = notice < NOTICES && PMIX_CHECK_NSPACE(source->nspace, me.nspace) && source->rank < job_size;
    if (ours) {
        ++*calls_of(source->rank, notice, handler);
    }
    if (nobservations < max_observations) {
        observations[nobservations++] = (struct observation){
            .handler = handler,
            .source = source->rank,
            .code = code,
            .notice = notice < NOTICES ? notices[notice].name : "",
            .text = text,
        };
    } else {
        free(text);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Results that each handler returns besides its status. The library reads them after the handler
 * has returned, so they live as long as the program. */
static pmix_info_t single_results[1], multi_results[2];

static void load_results(void)
{
    bool looked = true;
    uint32_t count = 2;
    PMIX_INFO_LOAD(&single_results[0], "job.single.looked", &looked, PMIX_BOOL);
    PMIX_INFO_LOAD(&multi_results[0], "job.multi.count", &count, PMIX_UINT32);
    PMIX_INFO_LOAD(&multi_results[1], "job.multi.text", "partly done", PMIX_STRING);
}

static void run_handler(enum handler handler, pmix_info_t *own, size_t nown, pmix_status_t code,
                        const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos, pmix_info_t results[],
                        size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    char *text = event_text(handler_names[handler], code, source, infos, ninfos, results, nresults);
    observe(handler, code, source, find_notice(infos, ninfos), text);
    done(outcome(handler, code), own, nown, NULL, NULL, chain);
}

static void on_single(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                      pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id;
    run_handler(SINGLE, single_results, 1, code, source, infos, ninfos, results, nresults, done, chain);
}

static void on_multi(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id;
    run_handler(MULTI, multi_results, 2, code, source, infos, ninfos, results, nresults, done, chain);
}

static void on_default(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                       pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id;
    run_handler(DEFAULT, NULL, 0, code, source, infos, ninfos, results, nresults, done, chain);
}

/* Registers a handler. Returns true on success; a negative answer is a status. */
static bool register_handler(const char *name, const pmix_status_t *codes, size_t ncodes,
                             pmix_notification_fn_t function, size_t *id)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_HDLR_NAME, name, PMIX_STRING);
    pmix_status_t answer =
        PMIx_Register_event_handler((pmix_status_t *) codes, ncodes, &info, 1, function, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    say("register %s: %s", name, answer >= 0 ? "done" : PMIx_Error_string(answer));
    if (answer < 0) {
        miss("registration of %s (%d)", name, answer);
        return false;
    }
    *id = (size_t) answer;
    return true;
}

static void open_books(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    /* Room for twice the expected number, so that duplicates and unknown events are seen and
     * bounded. */
    max_observations = 2 * job_size * NOTICES * HANDLERS;
    observations = calloc(max_observations, sizeof *observations);
    calls = calloc(job_size * NOTICES * HANDLERS, sizeof *calls);
    load_results();
}

static bool register_handlers(void)
{
    return register_handler("single", multi_codes, 1, on_single, &handler_ids[SINGLE]) &&
           register_handler("multi", multi_codes, CODES, on_multi, &handler_ids[MULTI]) &&
           register_handler("default", NULL, 0, on_default, &handler_ids[DEFAULT]);
}

static void deregister_handlers(void)
{
    for (int handler = 0; handler < HANDLERS; handler++) {
        char what[32];
        snprintf(what, sizeof what, "deregister %s", handler_names[handler]);
        say_status(what, PMIx_Deregister_event_handler(handler_ids[handler], NULL, NULL), PMIX_SUCCESS);
    }
}

#endif
