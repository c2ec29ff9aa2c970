/* Events that are kept for handlers that register late, each delivered once. A job of three procs:
 * rank 0 raises events, then the others register, and print the events that they receive in each
 * step.
 *
 *     host 3 cached order     peal run -n 3 -- cached order
 *
 * The last argument is one of the scenarios in the table at the end. */
#include "heard.h"

enum { A = PMIX_EXTERNAL_ERR_BASE - 1, B = A - 1, C = A - 2, D = A - 3 };

/* Rank 0 raises an event with its number, and optionally one more info. */
static void raise_event(pmix_status_t code, pmix_data_range_t range, const char *note, const pmix_info_t *more)
{
    if (0 != me.rank) {
        return;
    }
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], NOTE, note, PMIX_STRING);
    if (NULL != more) {
        infos[1] = *more;
    }
    pmix_status_t status = notify(code, range, infos, NULL == more ? 1 : 2);
    if (PMIX_SUCCESS != status) {
        say("%s: %s (%d)", note, PMIx_Error_string(status), status);
    }
    PMIX_INFO_DESTRUCT(&infos[0]);
}

/* Waits until all procs have completed the earlier steps. Returns true on the proc that registers
 * next. */
static bool it_is(pmix_rank_t rank)
{
    fence();
    return rank == me.rank;
}

/* Events come in the order in which they were raised, also at the second proc that registers. */
static void in_order(void)
{
    static const struct {
        const char *name, *later;
        pmix_data_range_t range;
        pmix_status_t code;
    } ranges[] = {{"namespace", "namespace, by another", PMIX_RANGE_NAMESPACE, A},
                  {"session", "session, by another", PMIX_RANGE_SESSION, B},
                  {"local", "local, by another", PMIX_RANGE_LOCAL, C},
                  {"global", "global, by another", PMIX_RANGE_GLOBAL, D}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        raise_event(ranges[i].code, ranges[i].range, "first", NULL);
        raise_event(ranges[i].code, ranges[i].range, "second", NULL);
        raise_event(ranges[i].code, ranges[i].range, "third", NULL);
        if (it_is(1)) {
            listen_to(ranges[i].name, ranges[i].code);
        }
        finish_step(ranges[i].name);
        if (it_is(2)) {
            listen_to(ranges[i].name, ranges[i].code);
        }
        finish_step(ranges[i].later);
    }
}

/* An event is not delivered again, whatever else the proc registers. */
static void once(void)
{
    pmix_status_t codes[] = {A, B, C};
    raise_event(A, PMIX_RANGE_NAMESPACE, "of the job", NULL);
    raise_event(B, PMIX_RANGE_SESSION, "of the session", NULL);
    if (it_is(1)) {
        listen_with("two codes", codes, 2, NULL, 0);
    }
    finish_step("two codes");
    if (it_is(1)) {
        listen_to("one of them", A);
        listen_to("the other", B);
    }
    finish_step("the same once more");
    if (it_is(1)) {
        listen_with("three codes", codes, 3, NULL, 0);
    }
    finish_step("the same among others");
}

/* With overlapping lists of codes, the second registration gets only new events, in one order
 * across codes. */
static void overlapping(void)
{
    pmix_status_t codes[] = {A, B, C};
    static const char *const notes[] = {"A1", "B2", "C3", "A4", "B5", "C6"};
    for (size_t i = 0; i < 6; i++) {
        raise_event(codes[i % 3], i % 2 ? PMIX_RANGE_SESSION : PMIX_RANGE_NAMESPACE, notes[i], NULL);
    }
    if (it_is(1)) {
        listen_with("A and B", codes, 2, NULL, 0);
    }
    finish_step("the first two of three codes");
    if (it_is(1)) {
        listen_with("B and C", codes + 1, 2, NULL, 0);
    }
    finish_step("the last two of three codes");
}

static void not_to_be_kept(void)
{
    pmix_info_t no_cache;
    PMIX_INFO_LOAD(&no_cache, PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
    raise_event(A, PMIX_RANGE_NAMESPACE, "not to be kept", &no_cache);
    raise_event(A, PMIX_RANGE_SESSION, "nor this", &no_cache);
    raise_event(A, PMIX_RANGE_NAMESPACE, "to be kept", NULL);
    if (it_is(1)) {
        listen_to("kept", A);
    }
    finish_step("some are not to be kept");
}

/* A handler that received an event when it was raised does not receive it again by a wider
 * registration. */
static void heard_already(void)
{
    pmix_status_t codes[] = {A, B};
    if (it_is(1)) {
        listen_to("at once", A);
    }
    fence();
    raise_event(A, PMIX_RANGE_NAMESPACE, "heard at once", NULL);
    raise_event(A, PMIX_RANGE_SESSION, "and this", NULL);
    raise_event(B, PMIX_RANGE_SESSION, "heard by nobody yet", NULL);
    finish_step("heard at once");
    if (it_is(1)) {
        listen_with("two codes", codes, 2, NULL, 0);
    }
    finish_step("two codes");
}

/* A proc that deregisters and registers again has missed no event about its job, and receives none
 * twice. */
static void back_again(void)
{
    struct handler *handler = NULL;
    raise_event(A, PMIX_RANGE_NAMESPACE, "before", NULL);
    if (it_is(1)) {
        handler = listen_to("is here", A);
    }
    finish_step("is here");
    if (it_is(1)) {
        stop(handler);
    }
    fence();
    raise_event(A, PMIX_RANGE_NAMESPACE, "in between", NULL);
    finish_step("is away");
    if (it_is(1)) {
        listen_to("is back", A);
    }
    finish_step("is back");
}

static void raise_for(const char *note, pmix_data_range_t range, pmix_proc_t *targets, size_t ntargets)
{
    pmix_info_t info;
    pmix_data_array_t array = {.type = PMIX_PROC, .size = ntargets, .array = targets};
    if (1 == ntargets) {
        PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, targets, PMIX_PROC);
    } else {
        PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &array, PMIX_DATA_ARRAY);
    }
    raise_event(A, range, note, &info);
    PMIX_INFO_DESTRUCT(&info);
}

static void both_listen(void)
{
    if (it_is(1)) {
        listen_to("target", A);
    }
    finish_step("rank 1 comes");
    if (it_is(2)) {
        listen_to("target", A);
    }
    finish_step("rank 2 comes");
}

static void of_targets(void)
{
    pmix_proc_t targets[2], all;
    PMIX_LOAD_PROCID(&targets[0], me.nspace, 1);
    PMIX_LOAD_PROCID(&targets[1], me.nspace, 2);
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    raise_for("for 1", PMIX_RANGE_CUSTOM, &targets[0], 1);
    raise_for("for 2", PMIX_RANGE_CUSTOM, &targets[1], 1);
    raise_for("for both", PMIX_RANGE_CUSTOM, targets, 2);
    raise_for("for all", PMIX_RANGE_CUSTOM, &all, 1);
    both_listen();
}

static void of_others(void)
{
    /* Without a recipient, the event is refused. */
    pmix_proc_t others[2];
    PMIX_LOAD_PROCID(&others[0], "another-job", PMIX_RANK_WILDCARD);
    PMIX_LOAD_PROCID(&others[1], me.nspace, 0);
    raise_for("for another job", PMIX_RANGE_CUSTOM, others, 2);
    both_listen();
}

static void of_the_manager(void)
{
    raise_event(A, PMIX_RANGE_RM, "for the resource manager", NULL);
    both_listen();
}

/* A refused event is not kept, either. */
static void refused(void)
{
    pmix_proc_t target;
    PMIX_LOAD_PROCID(&target, me.nspace, 1);
    raise_for("a namespace and a target", PMIX_RANGE_NAMESPACE, &target, 1);
    both_listen();
}

/* A filter keeps the events that it does not pass for later. */
static void of_affected(void)
{
    pmix_proc_t affected = me;
    pmix_info_t info;
    for (affected.rank = 1; affected.rank < 3; affected.rank++) {
        PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &affected, PMIX_PROC);
        raise_event(A, PMIX_RANGE_NAMESPACE, 1 == affected.rank ? "affects 1" : "affects 2", &info);
        PMIX_INFO_DESTRUCT(&info);
    }
    raise_event(A, PMIX_RANGE_NAMESPACE, "affects nobody in particular", NULL);
    if (it_is(1)) {
        affected.rank = 2;
        PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &affected, PMIX_PROC);
        listen_with("of rank 2", &(pmix_status_t) {A}, 1, &info, 1);
    }
    finish_step("of rank 2 only");
    if (it_is(1)) {
        listen_with("of anybody", (pmix_status_t[]) {A, B}, 2, NULL, 0);
    }
    finish_step("and of anybody");
}

/* The library of the raising proc keeps an event for its own handlers; the server has none for
 * them. */
static void of_its_own(void)
{
    raise_event(A, PMIX_RANGE_NAMESPACE, "told the job", NULL);
    raise_event(B, PMIX_RANGE_SESSION, "told all", NULL);
    if (it_is(0)) {
        listen_to("own event of the job", A);
        listen_to("own event of the session", B);
    }
    finish_step("what it raised itself");
}

static void by_default(void)
{
    pmix_info_t non_default;
    PMIX_INFO_LOAD(&non_default, PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
    raise_event(A, PMIX_RANGE_NAMESPACE, "of the job", NULL);
    raise_event(B, PMIX_RANGE_SESSION, "of the session", NULL);
    raise_event(C, PMIX_RANGE_NAMESPACE, "not for default handlers", &non_default);
    if (it_is(1)) {
        listen_with("default", NULL, 0, NULL, 0);
    }
    finish_step("by default");
    if (it_is(1)) {
        listen_to("by code", C);
    }
    finish_step("by code");
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"order", in_order},      {"once", once},           {"overlap", overlapping}, {"unkept", not_to_be_kept},
    {"heard", heard_already}, {"back", back_again},     {"targets", of_targets},  {"others", of_others},
    {"refused", refused},     {"affected", of_affected}, {"own", of_its_own},     {"default", by_default},
    {"manager", of_the_manager},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; 2 == argc && i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (0 == strcmp(argv[1], scenarios[i].name)) {
            start_hearing();
            scenarios[i].run();
            return finish_hearing();
        }
    }
    fprintf(stderr, "usage: %s SCENARIO\n", argv[0]);
    return 2;
}
