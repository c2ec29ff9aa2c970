/* Shared parts of the programs about groups: calls that print their results, and events that are
 * received one after the other.
 *
 * Included by group.c, across.c and invite.c; not a program. */
#ifndef GROUPED_H
#define GROUPED_H

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "say.h"

/* Time limit of things that must happen. It passes only if something is broken. */
#define PATIENCE_SECONDS 15
/* A server that never answers must not leave procs behind. */
#define LIFETIME_SECONDS 40
#define MAX_EVENTS 64

static uint32_t job_size;

/* Shared with the library's thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

/* Ends the program if a call fails that the others depend on. */
static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        miss("%s: %s (%d)", what, PMIx_Error_string(status), status);
        _exit(1);
    }
}

static pmix_proc_t all_of(const char *nspace)
{
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
    return all;
}

/* Returns all ranks below `end` but one, and their number. */
static inline size_t load_procs(pmix_proc_t *procs, pmix_rank_t end, pmix_rank_t without)
{
    size_t number = 0;
    for (pmix_rank_t rank = 0; rank < end; rank++) {
        if (rank != without) {
            PMIX_LOAD_PROCID(&procs[number], me.nspace, rank);
            number++;
        }
    }
    return number;
}

/* ---- waiting ----------------------------------------------------------- */

/* Waits under the lock until this is true. Returns false on a time-out. */
static bool wait_until(bool (*is_so)(void *), void *of, int seconds)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += seconds;
    while (!is_so(of)) {
        if (ETIMEDOUT == pthread_cond_timedwait(&changed, &lock, &deadline)) {
            return is_so(of);
        }
    }
    return true;
}

/* State of a call that does not block. */
struct call {
    bool answered;
    pmix_status_t status;
};

static inline void answer(struct call *call, pmix_status_t status)
{
    pthread_mutex_lock(&lock);
    call->status = status;
    call->answered = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool is_answered(void *call) { return ((struct call *) call)->answered; }

/* Returns true if the call was answered within this time. */
static bool comes(struct call *call, int seconds)
{
    pthread_mutex_lock(&lock);
    bool in_time = wait_until(is_answered, call, seconds);
    pthread_mutex_unlock(&lock);
    return in_time;
}

static inline void say_answer(const char *what, const char *group, struct call *call)
{
    if (comes(call, PATIENCE_SECONDS)) {
        say("%s %s: %s (%d)", what, group, PMIx_Error_string(call->status), call->status);
    } else {
        miss("the answer to %s %s", what, group);
    }
}

/* ---- groups ------------------------------------------------------------ */

static inline void fence_of_job(void) { need("fence", PMIx_Fence(NULL, 0, NULL, 0)); }

static inline void fence_of_group(const char *group)
{
    pmix_proc_t all = all_of(group);
    char what[64];
    snprintf(what, sizeof what, "fence %s", group);
    say_status(what, PMIx_Fence(&all, 1, NULL, 0), PMIX_SUCCESS);
}

/* Returns the number in the results of a construct. If it received none, the library makes one
 * up. */
static size_t number_in(const pmix_info_t *results, size_t nresults)
{
    for (size_t i = 0; i < nresults; i++) {
        if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID) && PMIX_SIZE == results[i].value.type) {
            return results[i].value.data.size;
        }
    }
    return SIZE_MAX;
}

/* Forms a group, prints the result, and returns the group's number. */
static inline size_t construct(const char *group, const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *infos,
                               size_t ninfos, pmix_status_t expected)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    char what[64];
    snprintf(what, sizeof what, "construct %s", group);
    pmix_status_t status = PMIx_Group_construct(group, procs, nprocs, infos, ninfos, &results, &nresults);
    say_status(what, status, expected);
    size_t number = PMIX_SUCCESS == status ? number_in(results, nresults) : SIZE_MAX;
    if (PMIX_SUCCESS == status) {
        say("%s: it has %s number", what, SIZE_MAX == number ? "no" : "a");
    }
    PMIX_INFO_FREE(results, nresults);
    return number;
}

static inline void destruct(const char *group, pmix_status_t expected)
{
    char what[64];
    snprintf(what, sizeof what, "destruct %s", group);
    say_status(what, PMIx_Group_destruct(group, NULL, 0), expected);
}

/* Further facts about a member, without a key in the Standard. */
#define NOTE "test.note"
#define POSTED "test.posted"

static inline void post(pmix_scope_t scope)
{
    pmix_value_t posted = {.type = PMIX_UINT32, .data.uint32 = 1000 + me.rank};
    need("put", PMIx_Put(scope, POSTED, &posted));
    need("commit", PMIx_Commit());
}

/* Info that each member contributes about itself. */
static inline pmix_data_array_t *own_infos(void)
{
    pmix_data_array_t *infos;
    size_t local_id = 100 + me.rank;
    char note[32];
    snprintf(note, sizeof note, "rank %u was here", me.rank);
    PMIX_DATA_ARRAY_CREATE(infos, 2, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *) infos->array, PMIX_GROUP_LOCAL_CID, &local_id, PMIX_SIZE);
    PMIX_INFO_LOAD((pmix_info_t *) infos->array + 1, NOTE, note, PMIX_STRING);
    return infos;
}

/* Forms a group with a number. Each member contributes an info about itself, and requests events
 * about deaths. Returns the number. */
static inline size_t numbered(const char *name, const pmix_proc_t *procs, size_t nprocs)
{
    pmix_info_t infos[3];
    bool yes = true;
    PMIX_INFO_LOAD(&infos[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[2], PMIX_GROUP_NOTIFY_TERMINATION, &yes, PMIX_BOOL);
    PMIX_INFO_CONSTRUCT(&infos[1]);
    PMIX_LOAD_KEY(infos[1].key, PMIX_GROUP_INFO);
    infos[1].value.type = PMIX_DATA_ARRAY;
    infos[1].value.data.darray = own_infos();
    size_t number = construct(name, procs, nprocs, infos, 3, PMIX_SUCCESS);
    PMIX_INFO_DESTRUCT(&infos[1]);
    return number;
}

/* Prints a value of a member, in the group of that number unless it is 0. */
static inline void say_value_of(const char *nspace, pmix_rank_t rank, const char *key, size_t number)
{
    pmix_proc_t member;
    pmix_info_t of_group;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&member, nspace, rank);
    PMIX_INFO_LOAD(&of_group, PMIX_GROUP_CONTEXT_ID, &number, PMIX_SIZE);
    PMIX_INFO_SET_QUALIFIER(&of_group);
    pmix_status_t status = PMIx_Get(&member, key, &of_group, SIZE_MAX == number ? 0 : 1, &value);
    PMIX_INFO_DESTRUCT(&of_group);
    char whose[16] = "the job";
    if (PMIX_RANK_WILDCARD != rank) {
        snprintf(whose, sizeof whose, "%u", rank);
    }
    if (PMIX_SUCCESS != status) {
        miss("%s of %s: %s (%d)", key, whose, PMIx_Error_string(status), status);
        return;
    }
    if (PMIX_SIZE == value->type) {
        say("%s of %s: size %zu", key, whose, value->data.size);
    } else {
        char *text = value_text(value);
        say("%s of %s: %s", key, whose, text);
        free(text);
    }
    PMIX_VALUE_RELEASE(value);
}

/* ---- events ------------------------------------------------------------ */

/* Events in the order of their arrival, and the number of those that were printed. */
static char *events[MAX_EVENTS];
static size_t nevents, nsaid;
/* Reaction of a program to an event before the chain goes on, in the library's thread. */
typedef void (*reaction)(pmix_status_t code, const pmix_proc_t *source, const char *group);
static reaction react;

static const char *group_in(const pmix_info_t *infos, size_t ninfos)
{
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PMIX_GROUP_ID) && PMIX_STRING == infos[i].value.type) {
            return infos[i].value.data.string;
        }
    }
    return NULL;
}

/* Returns the text of an event: the infos that the Standard requires in each, and no others that a
 * server may add. */
static char *text_of(pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    const char *group = group_in(infos, ninfos);
    fprintf(out, "%d", code);
    if (NULL != group) {
        fprintf(out, " %s", group);
    }
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROC) && PMIX_PROC == infos[i].value.type) {
            fputs(" about ", out);
            write_proc(out, infos[i].value.data.proc);
        }
    }
    /* Reason of a refusal, which only Peal sends. */
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], "peal.reason") && PMIX_STRING == infos[i].value.type) {
            fprintf(out, " because %s", infos[i].value.data.string);
        }
    }
    /* The Standard does not fix the source of an event about a failure. */
    bool is_servers = PMIX_GROUP_MEMBER_FAILED == code || PMIX_GROUP_LEFT == code || PMIX_RANK_UNDEF == source->rank;
    if (!is_servers) {
        fputs(" by ", out);
        write_proc(out, source);
    }
    fclose(out);
    return text;
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) results, (void) nresults;
    char *text = text_of(code, source, infos, ninfos);
    if (NULL != react) {
        react(code, source, group_in(infos, ninfos));
    }
    pthread_mutex_lock(&lock);
    if (nevents < MAX_EVENTS) {
        events[nevents++] = text;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, chain);
}

static void on_registered(pmix_status_t status, size_t id, void *call)
{
    (void) id;
    answer(call, status);
}

/* Sets the reaction to all events of a proc. */
static inline void listen_to(pmix_status_t code, reaction wanted)
{
    struct call call = {0};
    react = NULL != wanted ? wanted : react;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registered, &call);
    need("registration", comes(&call, PATIENCE_SECONDS) ? call.status : PMIX_ERR_TIMEOUT);
}

static bool has_more(void *unused)
{
    (void) unused;
    return nsaid < nevents;
}

/* Waits for one more event. */
static inline void say_next_event(const char *what)
{
    pthread_mutex_lock(&lock);
    bool heard = wait_until(has_more, NULL, PATIENCE_SECONDS);
    if (heard) {
        say("hears %s", events[nsaid++]);
    } else {
        miss("%s", what);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- the program ------------------------------------------------------- */

static void start(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    alarm(LIFETIME_SECONDS);
    need("init", PMIx_Init(&me, NULL, 0));
    pmix_proc_t job = all_of(me.nspace);
    pmix_value_t *size;
    need("the job's size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size));
    job_size = size->data.uint32;
    PMIX_VALUE_RELEASE(size);
}

static int finish(void)
{
    say_status("finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    return failed ? 1 : 0;
}

#endif
