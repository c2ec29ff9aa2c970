/* Ranges, targets, and affected procs. A job of four procs: rank 0 raises one event a step, and
 * each proc prints the events that it received. Rank 0 receives its own events from its own
 * library, once, and never from the server.
 *
 *     host 4 ranges     peal run -n 4 -- ranges
 */
#include "heard.h"

enum { NEWS = PMIX_EXTERNAL_ERR_BASE - 1, AFFECTING = NEWS - 1 };

#define MAX_PROCS 3

/* Events that rank 0 raises. */
struct event {
    const char *step;
    pmix_data_range_t range;
    /* Named procs and their key. A single proc is passed as such, several as an array. They are
     * ranks of this job except for `stranger`. */
    const char *key;
    size_t nprocs;
    pmix_rank_t ranks[MAX_PROCS];
    const char *stranger;
};

#define CUSTOM PMIX_RANGE_CUSTOM, PMIX_EVENT_CUSTOM_RANGE
#define ABOUT PMIX_RANGE_NAMESPACE, PMIX_EVENT_AFFECTED_PROC
#define ALL PMIX_RANK_WILDCARD
#define STRANGER "another-job"

static const struct event of_ranges[] = {
    {"local", PMIX_RANGE_LOCAL, NULL, 0, {0}, NULL},
    {"namespace", PMIX_RANGE_NAMESPACE, NULL, 0, {0}, NULL},
    {"session", PMIX_RANGE_SESSION, NULL, 0, {0}, NULL},
    {"global", PMIX_RANGE_GLOBAL, NULL, 0, {0}, NULL},
    {"resource manager", PMIX_RANGE_RM, NULL, 0, {0}, NULL},
    {"own process", PMIX_RANGE_PROC_LOCAL, NULL, 0, {0}, NULL},
    {"one target", CUSTOM, 1, {2}, NULL},
    {"two targets", CUSTOM, 2, {1, 3}, NULL},
    {"itself and another", CUSTOM, 2, {0, 2}, NULL},
    {"targets that overlap", CUSTOM, 3, {2, 2, ALL}, NULL},
    {"all of the job as one target", CUSTOM, 1, {ALL}, NULL},
    {"a target that is not there", CUSTOM, 1, {7}, NULL},
    {"all of another job", CUSTOM, 1, {ALL}, STRANGER},
    {"of another job and of this", CUSTOM, 2, {3, 3}, STRANGER},
    {"targets of a namespace", PMIX_RANGE_NAMESPACE, PMIX_EVENT_CUSTOM_RANGE, 1, {1}, NULL},
    {"targets of all", PMIX_RANGE_GLOBAL, PMIX_EVENT_CUSTOM_RANGE, 2, {1, 2}, NULL},
    {"custom without targets", PMIX_RANGE_CUSTOM, NULL, 0, {0}, NULL},
    {"no range", PMIX_RANGE_UNDEF, NULL, 0, {0}, NULL},
};

/* Rank 1 filters for rank 2, rank 2 for ranks 0 and 3, rank 3 for all of its job. */
static const struct event of_affected[] = {
    {"affects nobody in particular", PMIX_RANGE_NAMESPACE, NULL, 0, {0}, NULL},
    {"affects 2", ABOUT, 1, {2}, NULL},
    {"affects 3", ABOUT, 1, {3}, NULL},
    {"affects 1", ABOUT, 1, {1}, NULL},
    {"affects 1 and 3", ABOUT, 2, {1, 3}, NULL},
    {"affects 1, 2 and 3", ABOUT, 3, {1, 2, 3}, NULL},
    {"affects all of the job", ABOUT, 1, {ALL}, NULL},
    {"affects all of another job", ABOUT, 1, {ALL}, STRANGER},
    {"affects 2 of another job", ABOUT, 1, {2}, STRANGER},
    {"affects 2, for the session", PMIX_RANGE_SESSION, PMIX_EVENT_AFFECTED_PROC, 1, {2}, NULL},
};

/* Returns a single proc, or an array if the key is for several. */
static void name_procs(pmix_info_t *info, const char *key, const pmix_rank_t *ranks, size_t nprocs, const char *stranger)
{
    pmix_proc_t procs[MAX_PROCS];
    for (size_t i = 0; i < nprocs; i++) {
        PMIX_LOAD_PROCID(&procs[i], 0 == i && NULL != stranger ? stranger : me.nspace, ranks[i]);
    }
    if (1 == nprocs) {
        PMIX_INFO_LOAD(info, key, procs, PMIX_PROC);
        return;
    }
    bool affected = 0 == strcmp(key, PMIX_EVENT_AFFECTED_PROC);
    pmix_data_array_t array = {.type = PMIX_PROC, .size = nprocs, .array = procs};
    PMIX_INFO_LOAD(info, affected ? PMIX_EVENT_AFFECTED_PROCS : key, &array, PMIX_DATA_ARRAY);
}

/* The event is not kept: its recipients are registered already. */
static void raise_event(pmix_status_t code, const struct event *event)
{
    pmix_info_t infos[3];
    size_t ninfos = 0;
    PMIX_INFO_LOAD(&infos[ninfos++], NOTE, event->step, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[ninfos++], PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
    if (NULL != event->key) {
        name_procs(&infos[ninfos++], event->key, event->ranks, event->nprocs, event->stranger);
    }
    pmix_status_t status = notify(code, event->range, infos, ninfos);
    say("%s is answered by %s (%d)", event->step, PMIx_Error_string(status), status);
    for (size_t i = 0; i < ninfos; i++) {
        PMIX_INFO_DESTRUCT(&infos[i]);
    }
}

/* Returns an event's note, and whether it is one of this proc's own. */
static char *show_origin(pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos)
{
    char *note = show_note(code, source, infos, ninfos), *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "%s%s", note, PMIX_CHECK_PROCID(source, &me) ? " of its own" : "");
    fclose(out);
    free(note);
    return text;
}

static void take_steps(pmix_status_t code, const struct event *events, size_t nevents)
{
    for (const struct event *event = events; event < events + nevents; event++) {
        if (0 == me.rank) {
            raise_event(code, event);
        }
        finish_step(event->step);
    }
}

static void listen_to_affected(void)
{
    static const struct {
        size_t nprocs;
        pmix_rank_t ranks[2];
    } filters[] = {{0}, {1, {2}}, {2, {0, 3}}, {1, {ALL}}};
    if (0 != me.rank) {
        pmix_status_t code = AFFECTING;
        pmix_info_t filter;
        name_procs(&filter, PMIX_EVENT_AFFECTED_PROC, filters[me.rank].ranks, filters[me.rank].nprocs, NULL);
        listen_with("affected", &code, 1, &filter, 1);
    }
    fence();
}

int main(void)
{
    show = show_origin;
    start_hearing();
    listen_to("news", NEWS);
    fence();
    take_steps(NEWS, of_ranges, sizeof of_ranges / sizeof of_ranges[0]);
    listen_to_affected();
    take_steps(AFFECTING, of_affected, sizeof of_affected / sizeof of_affected[0]);
    /* Events that a server sends without a registration show here: the library keeps them for later
     * handlers. */
    if (0 != me.rank) {
        listen_to("afterwards", AFFECTING);
    }
    finish_step("of what came before, without a filter");
    return finish_hearing();
}
