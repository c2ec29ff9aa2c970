/* A PMIx program whose rank 0 invites others to a group, and prints the results.
 *
 * Runs as a job of four procs or more under any PMIx server: `peal run -n 4 -- target/c/invite
 * accept`. Invitations are events; the leader's library counts the answers. Invited procs answer
 * from inside the handler of the invitation. RANK is the rank that does not accept.
 *
 * - accept: all are invited, and accept.
 * - decline RANK: RANK declines.
 * - ignore RANK: RANK declines, and the group forms without it.
 * - cancel RANK: RANK declines, and the construct is cancelled.
 * - replace RANK: all but the last are invited, RANK declines, and the last is invited in its
 *   place.
 * - dies RANK: RANK dies on the invitation, and the group forms without it.
 * - others: all but rank 0 are invited. Rank 0 is in the group only if the results say so.
 * - forbidden: a policy denies rank 0 the invitation, and no proc receives it.
 * - abroad NSPACE: rank 0 of another job is invited, too, which a policy does not allow to join.
 * - guest: the program of that job, which would accept.
 *
 * 4.2.2 ends an invitation only when all have accepted, regardless of the time-out. The program
 * waits no longer than HANGS_SECONDS for that. The non-blocking call announces no group, so this
 * program does. */
#include "grouped.h"

#include <signal.h>

#define GROUP "crew"
#define HANGS_SECONDS 2

static const char *what;
/* Rank that does not accept. */
static pmix_rank_t other;
static struct call joined;

/* ---- invited procs ------------------------------------------------------ */

static void on_joined(pmix_status_t status, pmix_info_t infos[], size_t ninfos, void *object,
                      pmix_release_cbfunc_t release, void *released)
{
    (void) infos, (void) ninfos;
    answer(object, status);
    if (NULL != release) {
        release(released);
    }
}

static void answer_invitation(pmix_status_t code, const pmix_proc_t *leader, const char *group)
{
    if (PMIX_GROUP_INVITED != code) {
        return;
    }
    if (other == me.rank && 0 == strcmp(what, "dies")) {
        say("dies");
        raise(SIGKILL);
    }
    pmix_group_opt_t decision = other == me.rank ? PMIX_GROUP_DECLINE : PMIX_GROUP_ACCEPT;
    pmix_status_t status = PMIx_Group_join_nb(group, leader, decision, NULL, 0, on_joined, &joined);
    if (PMIX_SUCCESS != status) {
        answer(&joined, status);
    }
}

/* Waits for the group, and makes the calls of its members. */
static void follow(bool in_it)
{
    /* When all of the others have answered, their leader looks for a replacement. */
    bool replaced = 0 == strcmp(what, "replace"), replaces = replaced && job_size - 1 == me.rank;
    if (replaces) {
        fence_of_job();
    }
    say_next_event("an invitation");
    /* An acceptance may be answered only when the group is formed. */
    if (replaced && !replaces) {
        fence_of_job();
    }
    say_answer(other == me.rank ? "decline" : "join", GROUP, &joined);
    if (in_it) {
        say_next_event("what became of it");
    }
}

/* ---- the leader --------------------------------------------------------- */

/* Set if the leader is a member of a group to which it has not invited itself. */
static bool is_made_member;

/* `release` is not called: 4.2.2 passes its own data, which must not be released. */
static void on_invited(pmix_status_t status, pmix_info_t infos[], size_t ninfos, void *object,
                       pmix_release_cbfunc_t release, void *released)
{
    (void) release, (void) released;
    for (size_t i = 0; PMIX_SUCCESS == status && i < ninfos; i++) {
        const pmix_data_array_t *members = infos[i].value.data.darray;
        bool has_members = PMIX_CHECK_KEY(&infos[i], PMIX_GROUP_MEMBERSHIP) && PMIX_DATA_ARRAY == infos[i].value.type;
        for (size_t m = 0; has_members && m < members->size; m++) {
            is_made_member = is_made_member || PMIX_CHECK_PROCID((pmix_proc_t *) members->array + m, &me);
        }
    }
    answer(object, status);
}

static void on_told(pmix_status_t status, void *object) { answer(object, status); }

struct procs {
    pmix_proc_t *list;
    size_t number;
};

/* Returns all ranks below `end` but one. */
static struct procs procs_without(pmix_rank_t end, pmix_rank_t without)
{
    struct procs procs = {.list = calloc(end, sizeof *procs.list)};
    procs.number = load_procs(procs.list, end, without);
    return procs;
}

static void begin_invitation(struct procs procs, struct call *call)
{
    need("invite", PMIx_Group_invite_nb(GROUP, procs.list, procs.number, NULL, 0, on_invited, call));
}

/* Sends these procs the result. */
static void tell(pmix_status_t code, struct procs procs)
{
    pmix_data_array_t targets = {.type = PMIX_PROC, .size = procs.number, .array = procs.list};
    pmix_info_t infos[3];
    struct call call = {0};
    bool yes = true;
    PMIX_INFO_CONSTRUCT(&infos[0]);
    PMIX_LOAD_KEY(infos[0].key, PMIX_EVENT_CUSTOM_RANGE);
    infos[0].value.type = PMIX_DATA_ARRAY;
    infos[0].value.data.darray = &targets;
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[2], PMIX_GROUP_ID, GROUP, PMIX_STRING);
    need("announce", PMIx_Notify_event(code, &me, PMIX_RANGE_CUSTOM, infos, 3, on_told, &call));
    say_answer("announce", GROUP, &call);
    PMIX_INFO_DESTRUCT(&infos[2]);
}

/* Sends the result to one of these procs. */
static void announce(pmix_status_t code, struct procs procs)
{
    tell(code, procs);
    say_next_event("what became of it");
}

static void say_whether_answered(struct call *call)
{
    if (comes(call, HANGS_SECONDS)) {
        say_answer("invite", GROUP, call);
    } else {
        say("invite %s: not answered in %d s", GROUP, HANGS_SECONDS);
    }
}

static void invite_all(void)
{
    struct procs all = procs_without(job_size, PMIX_RANK_UNDEF);
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    say_status("invite " GROUP, PMIx_Group_invite(GROUP, all.list, all.number, NULL, 0, &results, &nresults),
               PMIX_SUCCESS);
    PMIX_INFO_FREE(results, nresults);
    say_next_event("what became of it");
    free(all.list);
}

/* Invites procs of which one does not accept. `said` is the event for the rest, if any. */
static void invite_in_vain(pmix_status_t said)
{
    /* The library keeps it until the invitation is answered, which never happens. */
    static struct call call;
    struct procs all = procs_without(job_size, PMIX_RANK_UNDEF), rest = procs_without(job_size, other);
    begin_invitation(all, &call);
    say_next_event("who does not come");
    say_whether_answered(&call);
    if (PMIX_SUCCESS != said) {
        announce(said, rest);
    }
    free(rest.list);
    free(all.list);
}

/* 4.2.2 counts for the later invitation only. */
static void invite_another(void)
{
    static struct call first, second;
    struct procs few = procs_without(job_size - 1, PMIX_RANK_UNDEF), rest = procs_without(job_size, other);
    struct procs two = {.list = calloc(2, sizeof *two.list), .number = 2};
    PMIX_LOAD_PROCID(&two.list[0], me.nspace, me.rank);
    PMIX_LOAD_PROCID(&two.list[1], me.nspace, job_size - 1);
    begin_invitation(few, &first);
    say_next_event("who does not come");
    fence_of_job();
    begin_invitation(two, &second);
    say_answer("invite another to", GROUP, &second);
    say_whether_answered(&first);
    announce(PMIX_GROUP_CONSTRUCT_COMPLETE, rest);
    free(two.list);
    free(rest.list);
    free(few.list);
}

static void invite_others(void)
{
    static struct call call;
    struct procs others = procs_without(job_size, me.rank);
    begin_invitation(others, &call);
    say_answer("invite", GROUP, &call);
    /* Peal's library has announced the group already. The server of 4.2.2 keeps a group for each
     * announcement, and reads beyond the procs of a fence over two groups of one name. */
    if (NULL == strstr(PMIx_Get_version(), ", Peal")) {
        tell(PMIX_GROUP_CONSTRUCT_COMPLETE, others);
    }
    free(others.list);
}

/* No proc is invited. */
static void invite_nobody(void)
{
    struct procs all = procs_without(job_size, PMIX_RANK_UNDEF);
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    say_status("invite " GROUP, PMIx_Group_invite(GROUP, all.list, all.number, NULL, 0, &results, &nresults),
               PMIX_ERR_NO_PERMISSIONS);
    PMIX_INFO_FREE(results, nresults);
    free(all.list);
}

static void invite_abroad(const char *nspace)
{
    static struct call call;
    struct procs all = procs_without(job_size, PMIX_RANK_UNDEF);
    struct procs more = {.list = calloc(all.number + 1, sizeof *more.list), .number = all.number + 1};
    memcpy(more.list, all.list, all.number * sizeof *more.list);
    PMIX_LOAD_PROCID(&more.list[all.number], nspace, 0);
    begin_invitation(more, &call);
    say_next_event("who does not come");
    say_whether_answered(&call);
    free(more.list);
    free(all.list);
}

static void be_guest(void)
{
    listen_to(PMIX_GROUP_INVITED, answer_invitation);
    say_next_event("an invitation");
    say_answer("join", GROUP, &joined);
}

static void lead(const char *whom)
{
    if (0 == strcmp(what, "accept")) {
        invite_all();
    } else if (0 == strcmp(what, "decline")) {
        invite_in_vain(PMIX_SUCCESS);
    } else if (0 == strcmp(what, "cancel")) {
        invite_in_vain(PMIX_GROUP_CONSTRUCT_ABORT);
    } else if (0 == strcmp(what, "ignore") || 0 == strcmp(what, "dies")) {
        invite_in_vain(PMIX_GROUP_CONSTRUCT_COMPLETE);
    } else if (0 == strcmp(what, "replace")) {
        invite_another();
    } else if (0 == strcmp(what, "others")) {
        invite_others();
    } else if (0 == strcmp(what, "forbidden")) {
        invite_nobody();
    } else if (0 == strcmp(what, "abroad") && NULL != whom) {
        invite_abroad(whom);
    }
}

/* ---- the program ------------------------------------------------------- */

static void listen_all(void)
{
    if (0 == me.rank) {
        listen_to(PMIX_GROUP_INVITE_DECLINED, NULL);
        listen_to(PMIX_GROUP_INVITE_FAILED, NULL);
    } else {
        listen_to(PMIX_GROUP_INVITED, answer_invitation);
    }
    listen_to(PMIX_GROUP_CONSTRUCT_COMPLETE, NULL);
    listen_to(PMIX_GROUP_CONSTRUCT_ABORT, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ACTION [RANK]\n", argv[0]);
        return 2;
    }
    what = argv[1];
    bool is_abroad = 0 == strcmp(what, "abroad");
    other = argc > 2 && !is_abroad ? (pmix_rank_t) atoi(argv[2]) : PMIX_RANK_UNDEF;
    bool is_forbidden = 0 == strcmp(what, "forbidden");
    bool comes_to_something = 0 != strcmp(what, "decline") && !is_forbidden && !is_abroad;
    bool is_formed = comes_to_something && 0 != strcmp(what, "cancel");
    start();
    if (0 == strcmp(what, "guest")) {
        be_guest();
        return finish();
    }
    listen_all();
    fence_of_job();
    if (0 == me.rank) {
        lead(argc > 2 ? argv[2] : NULL);
    } else if (!is_forbidden) {
        follow(comes_to_something && other != me.rank);
    }
    if (is_forbidden) {
        /* All sent events have arrived before this ends. */
        fence_of_job();
        say("%zu events", nevents);
    }
    bool is_in_it = other != me.rank && (0 != me.rank || 0 != strcmp(what, "others") || is_made_member);
    if (is_formed && is_in_it) {
        fence_of_group(GROUP);
        destruct(GROUP, PMIX_SUCCESS);
    }
    return finish();
}
