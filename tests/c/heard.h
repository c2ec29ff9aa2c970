/* Shared parts of the programs about events: handlers that record events, procs that raise one
 * event at a time, and steps after which each proc prints the events that it received.
 *
 * A step is the same on all procs. Rank 0 raises events and then a mark. Messages of a server to
 * one proc keep their order, so a proc that receives the mark has received all events of the step.
 * A step prints one line, so that a table of differences between servers can name it. The line
 * groups events by the handlers' names, because the library determines the order of one proc's
 * handlers. A program about that order prints the handlers as they were called instead.
 *
 * Included by programs; not a program. */
#ifndef HEARD_H
#define HEARD_H

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "say.h"

/* Code that no test uses. It marks the end of a step. */
#define MARK (PMIX_EXTERNAL_ERR_BASE - 999)
/* Key of an event's note, by which tests distinguish events. */
#define NOTE "test.note"

/* Time limit of things that must happen. It passes only if something is broken. */
#define PATIENCE_SECONDS 20

#define MAX_HEARD 256
#define MAX_HANDLERS 32
#define MAX_INFOS 3

struct heard {
    const char *handler;
    char *text;
};

/* Handler of a test. The names differ, because the library reports by name which handler it
 * calls. */
struct handler {
    const char *name;
    pmix_status_t outcome;
    /* Called when the library has learned that the handler is done. */
    void (*then)(struct handler *handler);
    size_t id;
    /* Infos of the registration: the library reads them until it answers. */
    pmix_info_t infos[MAX_INFOS + 1];
};

/* Shared with the library's thread, which adds handlers only in `then`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct heard heard[MAX_HEARD];
static struct handler handlers[MAX_HANDLERS];
static size_t nheard, nhandlers, marks, marks_seen;
static pmix_status_t answer;
static bool answered;

/* Waits under the lock. Returns false on a time-out. */
static bool await(bool (*ready)(size_t), size_t wanted)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += PATIENCE_SECONDS;
    while (!ready(wanted)) {
        if (ETIMEDOUT == pthread_cond_timedwait(&changed, &lock, &deadline)) {
            return ready(wanted);
        }
    }
    return true;
}

static bool is_answered(size_t unused) { (void) unused; return answered; }
static bool has_marks(size_t wanted) { return marks >= wanted; }

/* Ends the program, because all further steps depend on the missing event. */
static void __attribute__((noreturn)) give_up(const char *what)
{
    miss("%s", what);
    _exit(1);
}

static void on_answer(pmix_status_t status, void *unused)
{
    (void) unused;
    pthread_mutex_lock(&lock);
    answer = status;
    answered = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_registered(pmix_status_t status, size_t id, void *handler)
{
    ((struct handler *) handler)->id = id;
    on_answer(status, NULL);
}

/* Returns the answer to the latest call by one of the two functions above. */
static pmix_status_t take_answer(const char *what)
{
    pthread_mutex_lock(&lock);
    if (!await(is_answered, 0)) {
        give_up(what);
    }
    answered = false;
    pmix_status_t status = answer;
    pthread_mutex_unlock(&lock);
    return status;
}

static void fence(void)
{
    if (PMIX_SUCCESS != PMIx_Fence(NULL, 0, NULL, 0)) {
        give_up("fence");
    }
}

/* ---- hearing ------------------------------------------------------------- */

/* Function that returns the text for an event: by default its note or its code. The caller frees
 * it. */
static char *(*show)(pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos);

static char *show_note(pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos)
{
    (void) source;
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], NOTE)) {
            return value_text(&infos[i].value);
        }
    }
    char *text = malloc(16);
    snprintf(text, 16, "%d", code);
    return text;
}

static struct handler *called_handler(const pmix_info_t *infos, size_t ninfos)
{
    for (size_t i = 0; i < ninfos; i++) {
        for (size_t h = 0; PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_HDLR_NAME) && h < nhandlers; h++) {
            if (0 == strcmp(infos[i].value.data.string, handlers[h].name)) {
                return &handlers[h];
            }
        }
    }
    give_up("the name of a handler");
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) results, (void) nresults;
    /* The mark is for the steps alone, even if other handlers match it. */
    char *text = MARK == code ? NULL : show(code, source, infos, ninfos);
    pthread_mutex_lock(&lock);
    struct handler *handler = called_handler(infos, ninfos);
    if (NULL != text && nheard < MAX_HEARD) {
        heard[nheard++] = (struct heard) {handler->name, text};
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(handler->outcome, NULL, 0, NULL, NULL, chain);
    if (NULL != text && NULL != handler->then) {
        handler->then(handler);
    }
}

static void on_mark(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) code, (void) source, (void) infos, (void) ninfos, (void) results, (void) nresults;
    pthread_mutex_lock(&lock);
    marks++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, chain);
}

/* ---- registering --------------------------------------------------------- */

static struct handler *new_handler(const char *name)
{
    if (MAX_HANDLERS == nhandlers) {
        give_up("room for a handler");
    }
    handlers[nhandlers] = (struct handler) {.name = name, .outcome = PMIX_EVENT_NO_ACTION_TAKEN};
    return &handlers[nhandlers++];
}

/* Registers a handler; the caller waits for the answer. The library is called with a callback:
 * without one it works on its lists in this thread, concurrently with its own thread. */
static void ask_to_listen(struct handler *handler, pmix_status_t *codes, size_t ncodes, const pmix_info_t *infos,
                          size_t ninfos)
{
    if (ninfos > 0) {
        memcpy(handler->infos, infos, ninfos * sizeof *infos);
    }
    PMIX_INFO_LOAD(&handler->infos[ninfos], PMIX_EVENT_HDLR_NAME, handler->name, PMIX_STRING);
    PMIx_Register_event_handler(codes, ncodes, handler->infos, ninfos + 1, on_event, on_registered, handler);
}

static inline struct handler *listen_with(const char *name, pmix_status_t *codes, size_t ncodes, const pmix_info_t *infos,
                                   size_t ninfos)
{
    struct handler *handler = new_handler(name);
    ask_to_listen(handler, codes, ncodes, infos, ninfos);
    if (PMIX_SUCCESS != take_answer(name)) {
        give_up(name);
    }
    return handler;
}

static inline struct handler *listen_to(const char *name, pmix_status_t code)
{
    return listen_with(name, &code, 1, NULL, 0);
}

static inline void stop(const struct handler *handler)
{
    PMIx_Deregister_event_handler(handler->id, on_answer, NULL);
    if (PMIX_SUCCESS != take_answer(handler->name)) {
        give_up(handler->name);
    }
}

/* ---- raising ------------------------------------------------------------- */

/* Raises an event and returns the answer of the library or the server. */
static pmix_status_t notify(pmix_status_t code, pmix_data_range_t range, const pmix_info_t *infos, size_t ninfos)
{
    pmix_status_t rc = PMIx_Notify_event(code, &me, range, infos, ninfos, on_answer, NULL);
    return PMIX_SUCCESS == rc ? take_answer("answer to an event") : rc;
}

/* Ends a step by an event that follows all others. */
static void raise_mark(void)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
    if (PMIX_SUCCESS != notify(MARK, PMIX_RANGE_LOCAL, &info, 1)) {
        give_up("mark");
    }
    PMIX_INFO_DESTRUCT(&info);
}

/* ---- steps --------------------------------------------------------------- */

/* Prints one line: the events of each handler in their order, the handlers in the order of their
 * registration. */
static void say_heard(const char *step)
{
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    for (size_t h = 0; h < nhandlers; h++) {
        const char *before = NULL;
        for (size_t i = 0; i < nheard; i++) {
            if (handlers[h].name == heard[i].handler) {
                fprintf(out, "%s%s%s", NULL == before ? " [" : ", ", NULL == before ? handlers[h].name : "",
                        NULL == before ? ": " : "");
                fputs(heard[i].text, out);
                before = heard[i].handler;
            }
        }
        fputs(NULL == before ? "" : "]", out);
    }
    fclose(out);
    say("%s:%s", step, 0 == nheard ? " nothing" : line);
    free(line);
    while (nheard > 0) {
        free(heard[--nheard].text);
    }
}

/* Function that prints the line of a step. */
static void (*say_step)(const char *step) = say_heard;

/* Ends a step on all procs. The fence before the line takes longer than the library needs from one
 * handler of a chain to the next. The fence after it keeps events of the next step out of this
 * one. */
static inline void finish_step(const char *step)
{
    if (0 == me.rank) {
        raise_mark();
    }
    pthread_mutex_lock(&lock);
    if (!await(has_marks, ++marks_seen)) {
        give_up(step);
    }
    pthread_mutex_unlock(&lock);
    fence();
    pthread_mutex_lock(&lock);
    say_step(step);
    pthread_mutex_unlock(&lock);
    fence();
}

/* Begins the first step on all procs. */
static void start_hearing(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    show = NULL == show ? show_note : show;
    /* A server that never answers must not leave procs behind. */
    alarm(2 * PATIENCE_SECONDS);
    if (PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) {
        exit(1);
    }
    pmix_status_t mark = MARK;
    static struct handler of_the_mark;
    PMIx_Register_event_handler(&mark, 1, NULL, 0, on_mark, on_registered, &of_the_mark);
    if (PMIX_SUCCESS != take_answer("registration")) {
        give_up("registration");
    }
    fence();
}

static int finish_hearing(void)
{
    say_status("finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    return failed ? 1 : 0;
}

#endif
