/* A flood of events: rank 0 raises them without waiting for answers, rank 1 counts those that arrive, and
 * checks their order. A job of two procs:
 *
 *     host 2 flood 20000 heard     peal run -n 2 -- flood 2000 kept
 *
 * - heard: rank 1 has a handler before.
 * - kept: rank 1 registers its handler when all have been raised.
 *
 * Rank 0 raises one more event after all others. When rank 1 receives that one, no other follows. */
#include "heard.h"

enum { NEWS = PMIX_EXTERNAL_ERR_BASE - 1, LAST = NEWS - 1 };

static uint32_t arrived, expected;
static size_t taken;
static bool in_order = true, ended;

static void on_news(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) source, (void) results, (void) nresults;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; NEWS == code && i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], NOTE)) {
            in_order = in_order && infos[i].value.data.uint32 >= expected;
            expected = infos[i].value.data.uint32 + 1;
            arrived++;
        }
    }
    ended = ended || LAST == code;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, chain);
}

static void on_taken(pmix_status_t status, void *object)
{
    pmix_info_t *info = object;
    (void) status;
    PMIX_INFO_FREE(info, 1);
    pthread_mutex_lock(&lock);
    taken++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool are_taken(size_t wanted) { return taken >= wanted; }
static bool has_ended(size_t unused) { (void) unused; return ended; }

static void raise_all(uint32_t number)
{
    size_t refused = 0;
    for (uint32_t i = 0; i < number; i++) {
        pmix_info_t *info;
        PMIX_INFO_CREATE(info, 1);
        PMIX_INFO_LOAD(info, NOTE, &i, PMIX_UINT32);
        refused += PMIX_SUCCESS != PMIx_Notify_event(NEWS, &me, PMIX_RANGE_NAMESPACE, info, 1, on_taken, info);
    }
    pthread_mutex_lock(&lock);
    if (!await(are_taken, number - refused)) {
        give_up("the answers");
    }
    pthread_mutex_unlock(&lock);
    say("%zu of %u are refused", refused, number);
}

static void listen(void)
{
    static struct handler handler;
    static pmix_status_t codes[] = {NEWS, LAST};
    PMIx_Register_event_handler(codes, 2, NULL, 0, on_news, on_registered, &handler);
    if (PMIX_SUCCESS != take_answer("registration")) {
        give_up("registration");
    }
}

int main(int argc, char **argv)
{
    if (3 != argc) {
        fprintf(stderr, "usage: %s NUMBER heard|kept\n", argv[0]);
        return 2;
    }
    uint32_t number = (uint32_t) atoi(argv[1]);
    bool kept = 0 == strcmp(argv[2], "kept");
    start_hearing();
    if (1 == me.rank && !kept) {
        listen();
    }
    fence();
    if (0 == me.rank) {
        raise_all(number);
    }
    fence();
    if (1 == me.rank && kept) {
        listen();
    }
    fence();
    if (0 == me.rank) {
        say_status("the last", notify(LAST, PMIX_RANGE_NAMESPACE, NULL, 0), PMIX_SUCCESS);
    } else if (1 == me.rank) {
        pthread_mutex_lock(&lock);
        if (!await(has_ended, 0)) {
            give_up("the last event");
        }
        say("%u of %u arrive, %s", arrived, number, in_order ? "in order" : "out of order");
        pthread_mutex_unlock(&lock);
    }
    fence();
    return finish_hearing();
}
