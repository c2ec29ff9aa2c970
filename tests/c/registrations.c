/* Effects of registration and deregistration on the events that a proc receives. A job of two
 * procs: rank 0 raises events, rank 1 receives and prints them, step by step. No event is kept for
 * later, so that each goes to the handlers registered at its time.
 *
 *     host 2 registrations     peal run -n 2 -- registrations
 */
#include "heard.h"

enum { A = PMIX_EXTERNAL_ERR_BASE - 1, B = A - 1, C = A - 2, D = A - 3 };

static void raise_in(pmix_status_t code, pmix_data_range_t range, bool non_default)
{
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &non_default, PMIX_BOOL);
    if (PMIX_SUCCESS != notify(code, range, infos, 2)) {
        give_up("event");
    }
}

static void raise_event(pmix_status_t code, bool non_default) { raise_in(code, PMIX_RANGE_NAMESPACE, non_default); }

/* Raises one event of each code. */
static void step(const char *name)
{
    for (pmix_status_t code = A; 0 == me.rank && code >= D; code--) {
        raise_event(code, false);
    }
    finish_step(name);
}

/* Only rank 1 registers. All procs call this, so that the change is complete before the next
 * step. */
static bool i_listen(void)
{
    fence();
    return 1 == me.rank;
}

static void several_codes(void)
{
    struct handler *single = NULL, *multi = NULL;
    pmix_status_t codes[] = {B, C};
    if (i_listen()) {
        single = listen_to("single", A);
        multi = listen_with("multi", codes, 2, NULL, 0);
    }
    fence();
    step("a code and several");
    if (i_listen()) {
        stop(multi);
    }
    fence();
    step("the one alone");
    if (i_listen()) {
        stop(single);
    }
    fence();
    step("neither");
}

/* Registrations for one class of events: JOB is job-specific, ENVIRONMENT is not. The headers of
 * this release have no names for the keys, and its library ignores them. */
static void levels(void)
{
    static const char *const keys[] = {"pmix.evjob", "pmix.evenv"};
    static const char *const names[][2] = {{"jobs alone", "environment alone"}, {"jobs", "environment"}};
    enum { JOB = D - 1, ENVIRONMENT = D - 2 };
    pmix_status_t codes[] = {JOB, ENVIRONMENT};
    struct handler *handlers_of[2] = {NULL, NULL};
    for (size_t turn = 0; turn < 3; turn++) {
        bool together = 2 == turn;
        for (size_t i = together ? 0 : turn; i < (together ? 2 : turn + 1); i++) {
            if (i_listen()) {
                pmix_info_t level;
                PMIX_INFO_LOAD(&level, keys[i], NULL, PMIX_BOOL);
                handlers_of[i] = listen_with(names[together][i], codes, 2, &level, 1);
            }
        }
        fence();
        if (0 == me.rank) {
            raise_in(JOB, PMIX_RANGE_NAMESPACE, false);
            raise_in(ENVIRONMENT, PMIX_RANGE_SESSION, false);
        }
        finish_step(together ? "both classes" : names[0][turn]);
        for (size_t i = together ? 0 : turn; i < (together ? 2 : turn + 1); i++) {
            if (i_listen()) {
                stop(handlers_of[i]);
            }
        }
        fence();
    }
}

/* The code is deregistered only with the last of several registrations for it, also with
 * overlapping lists. */
static void the_same_code(void)
{
    struct handler *first = NULL, *second = NULL, *both = NULL;
    pmix_status_t codes[] = {A, B};
    if (i_listen()) {
        first = listen_to("first", A);
        second = listen_to("second", A);
        both = listen_with("both", codes, 2, NULL, 0);
        second->outcome = first->outcome = PMIX_EVENT_PARTIAL_ACTION_TAKEN;
    }
    fence();
    step("twice, and in a list");
    if (i_listen()) {
        stop(first);
    }
    fence();
    step("without the first");
    if (i_listen()) {
        stop(both);
    }
    fence();
    step("without the list");
    if (i_listen()) {
        stop(second);
        first = listen_to("first again", A);
        say("the library uses a number %s", first->id > second->id ? "once" : "again");
    }
    fence();
    step("registered again");
    if (i_listen()) {
        stop(first);
    }
    fence();
}

/* Registration without codes. */
static void default_codes(void)
{
    struct handler *single = NULL, *any = NULL;
    if (i_listen()) {
        single = listen_to("beside", A);
        any = listen_with("default", NULL, 0, NULL, 0);
    }
    fence();
    step("default");
    if (0 == me.rank) {
        raise_event(A, true);
        raise_event(B, true);
    }
    finish_step("marked as not for default handlers");
    if (i_listen()) {
        stop(any);
    }
    fence();
    step("no default");
    if (i_listen()) {
        stop(single);
    }
    fence();
}

/* The library removes such a handler only if it ended the chain, and does not notify its server. */
static void one_shot(void)
{
    if (i_listen()) {
        pmix_info_t once;
        PMIX_INFO_LOAD(&once, PMIX_EVENT_ONESHOT, NULL, PMIX_BOOL);
        struct handler *handler = listen_with("once", &(pmix_status_t) {A}, 1, &once, 1);
        handler->outcome = PMIX_EVENT_ACTION_COMPLETE;
    }
    fence();
    step("one shot");
    step("after the one shot");
}

static void leave(struct handler *handler) { PMIx_Deregister_event_handler(handler->id, on_answer, NULL); }

static void call_another(struct handler *handler)
{
    static pmix_status_t code = C;
    handler->then = NULL;
    ask_to_listen(new_handler("registered in a handler"), &code, 1, NULL, 0);
}

/* Deregistration from inside of handlers, after the library is done with them: it still reads a
 * handler that has been called. */
static void inside(void)
{
    struct handler *leaves = NULL, *calls = NULL;
    if (i_listen()) {
        leaves = listen_to("leaves", B);
        calls = listen_to("calls another", D);
        leaves->then = leave;
        calls->then = call_another;
    }
    fence();
    if (0 == me.rank) {
        raise_event(B, false);
    }
    finish_step("before it leaves");
    if (i_listen() && PMIX_SUCCESS != take_answer("deregistration")) {
        give_up("deregistration");
    }
    fence();
    step("the other calls another");
    if (i_listen() && PMIX_SUCCESS != take_answer("registration")) {
        give_up("registration");
    }
    fence();
    step("that one hears");
    if (i_listen()) {
        listen_to("back again", B);
    }
    fence();
    step("and the one that left is back");
}

int main(void)
{
    start_hearing();
    levels();
    several_codes();
    the_same_code();
    default_codes();
    one_shot();
    inside();
    return finish_hearing();
}
