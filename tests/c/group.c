/* A PMIx program whose procs form groups, and print the results. The output does not depend on the
 * number of a group.
 *
 * Runs as a job of three procs or more under any PMIx server: `peal run -n 4 -- target/c/group
 * whole`. RANK is the rank that differs from the others.
 *
 * - whole: all form a group with a number and infos, and fence by its name; then the same name
 *   again.
 * - part: all but rank 0 form a group, each naming them in another order, without a number.
 * - several: two groups at once that overlap.
 * - mistakes: invalid calls.
 * - late RANK: RANK calls too late for the others; then all of them call again.
 * - dies RANK: RANK dies before it calls; then the others form a smaller group.
 * - tolerant RANK: the same, but the group forms without dead procs (PMIX_GROUP_FT_COLLECTIVE).
 * - mourned RANK: RANK dies in the group, and the others are notified
 *   (PMIX_GROUP_NOTIFY_TERMINATION).
 * - leaves RANK: RANK leaves the group, and the others are notified.
 * - departs RANK: the same by an event of its own, as in 7.0.
 * - members: all, named by the wildcard rank; each prints the membership that it received.
 * - led RANK: RANK dies before it calls; rank 0, the leader, lets the group form without it.
 * - leaderless: rank 0, the leader, dies; rank 1 leads from then on.
 * - bootstrap RANK: all but RANK know the number of leaders but not their names; rank 0 adds RANK,
 *   of another program.
 * - named: all but rank 0 form a group; rank 1 sends its members a signal and an event by the
 *   group's name.
 * - refused RANK: RANK names one proc more than a policy allows, first with the others and then
 *   before them; then it does not.
 * - both NSPACE: all procs of this job and of another one, of which a policy denies one. */
#include "grouped.h"

#include <signal.h>

/* Checks that all have received the same number. */
static void compare_numbers(const char *key, size_t number)
{
    pmix_proc_t first;
    pmix_value_t own = {.type = PMIX_SIZE, .data.size = number}, *of_first;
    PMIX_LOAD_PROCID(&first, me.nspace, 0);
    need("put", PMIx_Put(PMIX_GLOBAL, key, &own));
    need("commit", PMIx_Commit());
    fence_of_job();
    need("get", PMIx_Get(&first, key, NULL, 0, &of_first));
    say("its number is that of rank 0: %s", of_first->data.size == number ? "yes" : "no");
    PMIX_VALUE_RELEASE(of_first);
}

static void whole(void)
{
    pmix_proc_t all = all_of(me.nspace);
    post(PMIX_GLOBAL);
    size_t first = numbered("whole", &all, 1);
    for (pmix_rank_t rank = 0; rank < job_size; rank++) {
        say_value_of(me.nspace, rank, POSTED, SIZE_MAX);
        say_value_of(me.nspace, rank, PMIX_GROUP_LOCAL_CID, first);
        say_value_of(me.nspace, rank, NOTE, first);
    }
    compare_numbers("test.first", first);
    fence_of_group("whole");
    destruct("whole", PMIX_SUCCESS);
    size_t second = numbered("whole", &all, 1);
    compare_numbers("test.second", second);
    say("its number is another one: %s", first != second ? "yes" : "no");
    destruct("whole", PMIX_SUCCESS);
}

/* Returns all ranks from this one on, in another order for each caller. The caller frees them. */
static pmix_proc_t *procs_from(pmix_rank_t from, size_t number)
{
    pmix_proc_t *procs;
    PMIX_PROC_CREATE(procs, number);
    for (size_t i = 0; i < number; i++) {
        PMIX_LOAD_PROCID(&procs[i], me.nspace, from + (pmix_rank_t) ((i + me.rank) % number));
    }
    return procs;
}

static void part(void)
{
    size_t number = job_size - 1;
    pmix_proc_t *procs = procs_from(1, number);
    if (0 != me.rank) {
        construct("part", procs, number, NULL, 0, PMIX_SUCCESS);
        fence_of_group("part");
        destruct("part", PMIX_SUCCESS);
    }
    fence_of_job();
    PMIX_PROC_FREE(procs, number);
}

/* ---- two at once ------------------------------------------------------- */

static void on_formed(pmix_status_t status, pmix_info_t infos[], size_t ninfos, void *object,
                      pmix_release_cbfunc_t release, void *released)
{
    (void) infos, (void) ninfos;
    answer(object, status);
    if (NULL != release) {
        release(released);
    }
}

static void on_done(pmix_status_t status, void *object) { answer(object, status); }

static void several(void)
{
    static const char *const names[] = {"lower", "upper"};
    size_t number = job_size - 1;
    pmix_proc_t *procs[] = {procs_from(0, number), procs_from(1, number)};
    bool in[] = {me.rank < number, 0 != me.rank};
    struct call calls[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        if (in[i]) {
            need("construct", PMIx_Group_construct_nb(names[i], procs[i], number, NULL, 0, on_formed, &calls[i]));
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (in[i]) {
            say_answer("construct", names[i], &calls[i]);
        }
    }
    /* The order is reversed. */
    for (size_t i = 2; i-- > 0;) {
        if (in[i]) {
            fence_of_group(names[i]);
            calls[i] = (struct call) {0};
            need("destruct", PMIx_Group_destruct_nb(names[i], NULL, 0, on_done, &calls[i]));
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (in[i]) {
            say_answer("destruct", names[i], &calls[i]);
        }
        PMIX_PROC_FREE(procs[i], number);
    }
    fence_of_job();
}

/* ---- what goes wrong --------------------------------------------------- */

static void mistakes(void)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    destruct("unknown", PMIX_ERR_NOT_FOUND);
    say_status("construct of nobody", PMIx_Group_construct("nobody", NULL, 0, NULL, 0, &results, &nresults),
               PMIX_ERR_BAD_PARAM);
    pmix_proc_t all = all_of(me.nspace);
    construct("short", &all, 1, NULL, 0, PMIX_SUCCESS);
    destruct("short", PMIX_SUCCESS);
    /* The proc that is answered first must not destruct the group twice. */
    fence_of_job();
    destruct("short", PMIX_ERR_NOT_FOUND);
}

static void late(pmix_rank_t rank)
{
    pmix_proc_t all = all_of(me.nspace);
    int seconds = 1;
    pmix_info_t timeout;
    PMIX_INFO_LOAD(&timeout, PMIX_TIMEOUT, &seconds, PMIX_INT);
    if (rank != me.rank) {
        construct("late", &all, 1, &timeout, 1, PMIX_ERR_TIMEOUT);
    }
    fence_of_job();
    if (rank == me.rank) {
        construct("late", &all, 1, NULL, 0, PMIX_ERR_TIMEOUT);
    }
    fence_of_job();
    construct("late", &all, 1, &timeout, 1, PMIX_SUCCESS);
    destruct("late", PMIX_SUCCESS);
}

/* A construct during which a proc dies. The others have called by then, or call later, with the
 * same result. */
static void dies(pmix_rank_t rank, bool tolerant)
{
    pmix_proc_t all = all_of(me.nspace);
    bool yes = true;
    pmix_info_t directive;
    PMIX_INFO_LOAD(&directive, PMIX_GROUP_FT_COLLECTIVE, &yes, PMIX_BOOL);
    listen_to(PMIX_GROUP_MEMBER_FAILED, NULL);
    fence_of_job();
    if (rank == me.rank) {
        say("dies");
        raise(SIGKILL);
    }
    if (tolerant) {
        construct("left", &all, 1, &directive, 1, PMIX_SUCCESS);
        say_next_event("who is missing");
        fence_of_group("left");
        destruct("left", PMIX_SUCCESS);
        return;
    }
    construct("all", &all, 1, NULL, 0, PMIX_GROUP_CONSTRUCT_ABORT);
    pmix_proc_t *left;
    PMIX_PROC_CREATE(left, job_size);
    size_t number = load_procs(left, job_size, rank);
    construct("left", left, number, NULL, 0, PMIX_SUCCESS);
    destruct("left", PMIX_SUCCESS);
    PMIX_PROC_FREE(left, job_size);
}

/* A member leaves, and the others are notified. It is then not needed for the destruct. */
static void goes(pmix_rank_t rank, bool dies)
{
    pmix_proc_t all = all_of(me.nspace);
    bool yes = true;
    pmix_info_t notify;
    PMIX_INFO_LOAD(&notify, PMIX_GROUP_NOTIFY_TERMINATION, &yes, PMIX_BOOL);
    listen_to(dies ? PMIX_GROUP_MEMBER_FAILED : PMIX_GROUP_LEFT, NULL);
    construct("ours", &all, 1, &notify, 1, PMIX_SUCCESS);
    fence_of_job();
    if (rank == me.rank && dies) {
        say("dies");
        raise(SIGKILL);
    } else if (rank == me.rank) {
        say_status("leave ours", PMIx_Group_leave("ours", NULL, 0), PMIX_SUCCESS);
        destruct("ours", PMIX_ERR_NOT_FOUND);
        return;
    }
    say_next_event("an event about whoever is gone");
    fence_of_group("ours");
    destruct("ours", PMIX_SUCCESS);
}

/* ---- events about a group ------------------------------------------------ */

/* Event for all of the job, after all other events. */
#define OVER 424244
/* Event that reports that a proc has called. */
#define CALLED 424245

/* Raises an event about the group for these procs, and about the caller if requested. */
static void raise_for(pmix_status_t code, pmix_proc_t *targets, size_t number, bool is_about_me)
{
    pmix_data_array_t procs = {.type = PMIX_PROC, .size = number, .array = targets};
    pmix_info_t infos[3];
    PMIX_INFO_CONSTRUCT(&infos[0]);
    PMIX_LOAD_KEY(infos[0].key, PMIX_EVENT_CUSTOM_RANGE);
    infos[0].value.type = PMIX_DATA_ARRAY;
    infos[0].value.data.darray = &procs;
    PMIX_INFO_LOAD(&infos[1], PMIX_GROUP_ID, "ours", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_EVENT_AFFECTED_PROC, &me, PMIX_PROC);
    need("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_CUSTOM, infos, is_about_me ? 3 : 2, NULL, NULL));
    PMIX_INFO_DESTRUCT(&infos[1]);
    PMIX_INFO_DESTRUCT(&infos[2]);
}

/* A second notification of a departure would come before the last event. */
static void departs(pmix_rank_t rank)
{
    pmix_proc_t all = all_of(me.nspace), *rest;
    PMIX_PROC_CREATE(rest, job_size);
    size_t number = load_procs(rest, job_size, rank);
    listen_to(PMIX_GROUP_LEFT, NULL);
    listen_to(OVER, NULL);
    construct("ours", &all, 1, NULL, 0, PMIX_SUCCESS);
    fence_of_job();
    if (rank == me.rank) {
        raise_for(PMIX_GROUP_LEFT, rest, number, true);
        raise_for(OVER, rest, number, false);
        destruct("ours", PMIX_ERR_NOT_FOUND);
    } else {
        say_next_event("who has left");
        say_next_event("the last event");
        fence_of_group("ours");
        destruct("ours", PMIX_SUCCESS);
    }
    PMIX_PROC_FREE(rest, job_size);
}

/* ---- who leads ----------------------------------------------------------- */

/* Calls construct and does not wait. */
static void begin(struct call *call, bool leads)
{
    /* The library may read it until it has answered. */
    static pmix_proc_t all;
    static pmix_info_t leader;
    bool yes = true;
    all = all_of(me.nspace);
    PMIX_INFO_LOAD(&leader, PMIX_GROUP_LEADER, &yes, PMIX_BOOL);
    need("construct", PMIx_Group_construct_nb("ours", &all, 1, &leader, leads ? 1 : 0, on_formed, call));
}

static void finish_ours(struct call *call)
{
    say_answer("construct", "ours", call);
    fence_of_group("ours");
    destruct("ours", PMIX_SUCCESS);
}

static bool has_heard(void *number) { return nevents >= *(size_t *) number; }

/* Dies when this number of other procs have reported their calls. */
static void die_after(size_t number)
{
    pthread_mutex_lock(&lock);
    if (!wait_until(has_heard, &number, PATIENCE_SECONDS)) {
        miss("that %zu others have called", number);
    }
    pthread_mutex_unlock(&lock);
    say("dies");
    raise(SIGKILL);
}

static void led(pmix_rank_t rank)
{
    pmix_proc_t dying;
    struct call call = {0};
    PMIX_LOAD_PROCID(&dying, me.nspace, rank);
    listen_to(rank == me.rank ? CALLED : PMIX_GROUP_MEMBER_FAILED, NULL);
    fence_of_job();
    if (rank == me.rank) {
        die_after(job_size - 1);
    }
    begin(&call, 0 == me.rank);
    raise_for(CALLED, &dying, 1, false);
    say_next_event("who has failed");
    if (0 == me.rank) {
        raise_for(PMIX_GROUP_MEMBERSHIP_UPDATE, &me, 1, false);
    }
    finish_ours(&call);
}

/* The last rank keeps the construct open until another rank leads. */
static void leaderless(void)
{
    pmix_rank_t last = job_size - 1;
    pmix_proc_t leader, later;
    struct call call = {0};
    PMIX_LOAD_PROCID(&leader, me.nspace, 0);
    PMIX_LOAD_PROCID(&later, me.nspace, last);
    if (0 == me.rank) {
        listen_to(CALLED, NULL);
    } else {
        listen_to(PMIX_GROUP_LEADER_FAILED, NULL);
        listen_to(PMIX_GROUP_LEADER_SELECTED, NULL);
        listen_to(PMIX_GROUP_MEMBER_FAILED, NULL);
    }
    fence_of_job();
    if (last == me.rank) {
        say_next_event("that another one leads");
        begin(&call, false);
        say_next_event("who has failed");
        finish_ours(&call);
        return;
    }
    begin(&call, 0 == me.rank);
    if (0 == me.rank) {
        die_after(job_size - 2);
    }
    raise_for(CALLED, &leader, 1, false);
    say_next_event("that whoever led has failed");
    if (1 == me.rank) {
        raise_for(PMIX_GROUP_LEADER_SELECTED, &later, 1, false);
    }
    say_next_event("who leads");
    finish_ours(&call);
}

/* ---- who is in it -------------------------------------------------------- */

/* Prints the membership that a construct returned. */
static void say_members(const pmix_info_t *results, size_t nresults)
{
    for (size_t i = 0; i < nresults; i++) {
        if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_MEMBERSHIP)) {
            char *text = value_text(&results[i].value);
            say("its members are %s", text);
            free(text);
            return;
        }
    }
    say("its members are not told");
}

static void members(void)
{
    pmix_proc_t all = all_of(me.nspace);
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    say_status("construct ours", PMIx_Group_construct("ours", &all, 1, NULL, 0, &results, &nresults), PMIX_SUCCESS);
    say_members(results, nresults);
    PMIX_INFO_FREE(results, nresults);
    destruct("ours", PMIX_SUCCESS);
}

/* Releases before 6.0 have no name for the key, and call nothing without a proc: an added proc is
 * another program. */
static void bootstrap(pmix_rank_t added)
{
    pmix_info_t infos[2];
    pmix_proc_t proc;
    size_t leaders = job_size - 1;
    PMIX_LOAD_PROCID(&proc, me.nspace, added);
    pmix_data_array_t procs = {.type = PMIX_PROC, .size = 1, .array = &proc};
    PMIX_INFO_LOAD(&infos[0], "pmix.grp.btstrp", &leaders, PMIX_SIZE);
    PMIX_INFO_CONSTRUCT(&infos[1]);
    PMIX_LOAD_KEY(infos[1].key, PMIX_GROUP_ADD_MEMBERS);
    infos[1].value.type = PMIX_DATA_ARRAY;
    infos[1].value.data.darray = &procs;
    construct("ours", &me, 1, infos, 0 == me.rank ? 2 : 1, PMIX_SUCCESS);
    fence_of_group("ours");
    destruct("ours", PMIX_SUCCESS);
}

/* ---- by its name ------------------------------------------------------- */

/* Event for the members of "ours" only. */
#define FOR_US 424243

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void) number;
    signals++;
}

static void name_members(void)
{
    pmix_proc_t members = all_of("ours"), job = all_of(me.nspace);
    int number = SIGUSR1;
    pmix_info_t signal, targets, *results = NULL;
    size_t nresults = 0;
    PMIX_INFO_LOAD(&signal, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT);
    say_status("signal ours", PMIx_Job_control(&members, 1, &signal, 1, &results, &nresults), PMIX_SUCCESS);
    PMIX_INFO_FREE(results, nresults);
    PMIX_INFO_LOAD(&targets, PMIX_EVENT_CUSTOM_RANGE, &members, PMIX_PROC);
    need("notify", PMIx_Notify_event(FOR_US, &me, PMIX_RANGE_CUSTOM, &targets, 1, NULL, NULL));
    PMIX_INFO_LOAD(&targets, PMIX_EVENT_CUSTOM_RANGE, &job, PMIX_PROC);
    need("notify", PMIx_Notify_event(OVER, &me, PMIX_RANGE_CUSTOM, &targets, 1, NULL, NULL));
}

static void named(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    listen_to(FOR_US, NULL);
    listen_to(OVER, NULL);
    size_t number = job_size - 1;
    pmix_proc_t *procs = procs_from(1, number);
    if (0 != me.rank) {
        construct("ours", procs, number, NULL, 0, PMIX_SUCCESS);
    }
    fence_of_job();
    if (1 == me.rank) {
        name_members();
    } else {
        if (0 != me.rank) {
            say_next_event("an event for the members");
        }
        say_next_event("the last event");
    }
    fence_of_job();
    say("signals: %d", (int) signals);
    if (0 != me.rank) {
        destruct("ours", PMIX_SUCCESS);
    }
    PMIX_PROC_FREE(procs, number);
}

/* ---- what a policy refuses ---------------------------------------------- */

/* All participants get the denial with its reason. */
static void in_vain(const char *group, const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *infos, size_t ninfos)
{
    construct(group, procs, nprocs, infos, ninfos, PMIX_ERR_NO_PERMISSIONS);
    say_next_event("why it came to nothing");
}

/* The number of named procs is limited to that of existing ones. */
static void refused(pmix_rank_t rank)
{
    pmix_proc_t *all;
    pmix_info_t more;
    PMIX_PROC_CREATE(all, job_size);
    size_t number = load_procs(all, job_size, PMIX_RANK_UNDEF);
    pmix_data_array_t added = {.type = PMIX_PROC, .size = 1, .array = all};
    PMIX_INFO_CONSTRUCT(&more);
    PMIX_LOAD_KEY(more.key, PMIX_GROUP_ADD_MEMBERS);
    more.value.type = PMIX_DATA_ARRAY;
    more.value.data.darray = &added;
    size_t ninfos = rank == me.rank ? 1 : 0;
    listen_to(PMIX_GROUP_CONSTRUCT_ABORT, NULL);
    fence_of_job();
    in_vain("team", all, number, &more, ninfos);
    fence_of_job();
    if (rank == me.rank) {
        in_vain("team", all, number, &more, ninfos);
    }
    fence_of_job();
    if (rank != me.rank) {
        in_vain("team", all, number, NULL, 0);
    }
    fence_of_job();
    construct("team", all, number, NULL, 0, PMIX_SUCCESS);
    destruct("team", PMIX_SUCCESS);
    PMIX_PROC_FREE(all, job_size);
}

static void both(const char *nspace)
{
    pmix_proc_t procs[] = {all_of(me.nspace), all_of(nspace)};
    listen_to(PMIX_GROUP_CONSTRUCT_ABORT, NULL);
    in_vain("both", procs, 2, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ACTION [RANK]\n", argv[0]);
        return 2;
    }
    const char *what = argv[1];
    pmix_rank_t rank = argc > 2 ? (pmix_rank_t) atoi(argv[2]) : 1;
    start();
    if (0 == strcmp(what, "whole")) {
        whole();
    } else if (0 == strcmp(what, "part")) {
        part();
    } else if (0 == strcmp(what, "several")) {
        several();
    } else if (0 == strcmp(what, "mistakes")) {
        mistakes();
    } else if (0 == strcmp(what, "late")) {
        late(rank);
    } else if (0 == strcmp(what, "dies") || 0 == strcmp(what, "tolerant")) {
        dies(rank, 0 == strcmp(what, "tolerant"));
    } else if (0 == strcmp(what, "mourned") || 0 == strcmp(what, "leaves")) {
        goes(rank, 0 == strcmp(what, "mourned"));
    } else if (0 == strcmp(what, "departs")) {
        departs(rank);
    } else if (0 == strcmp(what, "members")) {
        members();
    } else if (0 == strcmp(what, "led")) {
        led(rank);
    } else if (0 == strcmp(what, "leaderless")) {
        leaderless();
    } else if (0 == strcmp(what, "bootstrap")) {
        bootstrap(rank);
    } else if (0 == strcmp(what, "named")) {
        named();
    } else if (0 == strcmp(what, "refused")) {
        refused(rank);
    } else if (0 == strcmp(what, "both") && argc > 2) {
        both(argv[2]);
    }
    return finish();
}
