/* Measures a PMIx server, and the C library itself, from its clients. One proc prints the results
 * as lines "NAME VALUE". `peal-bench proc` does the same with Peal's client. `cargo xtask bench`
 * runs both.
 *
 *     client chain    COUNT WARM DIR HANDLERS
 *     client fan      COUNT WARM DIR TURNS
 *     client pingpong COUNT WARM DIR TURNS
 *     client flood    COUNT WARM DIR WINDOW
 *     client silent   COUNT WARM DIR
 *     client fence    COUNT WARM DIR TURNS
 *     client group    COUNT WARM DIR TURNS
 *     client groupid  COUNT WARM DIR TURNS
 *     client log      COUNT WARM DIR
 *     client beats    COUNT WARM DIR
 *     client pulse    SECONDS 0 DIR
 *     client cycle    COUNT WARM DIR TURNS
 *     client start    COUNT WARM DIR TURNS
 *     client nothing  0 0 DIR
 *     client memory   0 0 DIR
 *     client idle     0 0 DIR
 *     client table    COUNT WARM DIR TURNS
 *     client crowd    0 0 DIR
 *
 * - chain: an event of range PROC_LOCAL through a chain of HANDLERS native handlers.
 * - fan: rank 0 to all others, one event after the other, until the last one's handler runs.
 * - pingpong: rank 0 to rank 1, whose handler answers with an event.
 * - flood: rank 0 to rank 1, with at most WINDOW unacknowledged events; 0 means no limit.
 * - silent: the same without a completion function. The library decides how long a call waits.
 * - fence: a fence of all procs, repeated in each of TURNS turns (turns.h).
 * - group: all procs form a group and destruct it, one after the other.
 * - groupid: the same with groups that get a context id.
 * - log: rank 0 logs a line to stderr, waits for the answer, and logs the next.
 * - beats: rank 0 sends heartbeats, and waits until the server has received them all.
 * - pulse: all procs send a heartbeat per second. Rank 0 prints the share of a CPU that its parent
 *   uses for them.
 * - cycle: initializes and finalizes the library, one after the other.
 * - start: starts a process that does nothing, waits for its end, and starts the next.
 * - nothing: initializes and finalizes the library.
 * - memory: prints the memory of a proc that has done one fence and is idle.
 * - idle: connects and waits.
 * - table: rank 0 queries the table of all procs, one query after the other.
 * - crowd: connects, handles the death of a proc, and waits (crowd.h).
 *
 * COUNT is the number of measured repetitions, WARM that of the ones before, both in each of TURNS
 * turns (turns.h). Some modes print the processor time of the server, which is the parent, too
 * (server_time.h). DIR has the files that arrivals.h describes. BENCH_LIBRARY is in the environment
 * if the program must run on Peal's library. */
#define _GNU_SOURCE
#include <pmix.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrivals.h"

#define NEWS (PMIX_EXTERNAL_ERR_BASE - 101)
#define ANSWER (PMIX_EXTERNAL_ERR_BASE - 102)
#define INFOS 4
/* Time in seconds without an event after which no more are expected. */
#define PATIENCE 5

static pmix_proc_t me;
static uint32_t job_size;
static uint32_t count, warm, turns;
static struct arrivals arrivals;
static sem_t done;

static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fprintf(stderr, "rank %u: %s: %s (%d)\n", me.rank, what, PMIx_Error_string(status), status);
        _exit(EXIT_FAILURE);
    }
}

static void await(sem_t *semaphore)
{
    while (0 != sem_wait(semaphore)) {
    }
}

#include "times.h"

#include "turns.h"

#include "server_time.h"

#include "groups.h"

#include "processes.h"

/* ---- events ------------------------------------------------------------ */

static void on_registered(pmix_status_t status, size_t id, void *object)
{
    (void) id, (void) object;
    need("register", status);
    sem_post(&done);
}

static void add_handler(pmix_status_t code, const char *name, pmix_notification_fn_t handler)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_HDLR_NAME, name, PMIX_STRING);
    PMIx_Register_event_handler(&code, 1, &info, 1, handler, on_registered, NULL);
    await(&done);
    PMIX_INFO_DESTRUCT(&info);
}

static void on_accepted(pmix_status_t status, void *object)
{
    (void) status;
    if (NULL != object) {
        sem_post(object);
    }
}

/* Sends event `number`. `completed`, if not null, is called when the server has acknowledged it. */
static void send_event(pmix_status_t code, pmix_data_range_t range, uint64_t number, pmix_op_cbfunc_t completed,
                       void *object)
{
    pmix_info_t infos[INFOS];
    uint64_t now = now_ns();
    bool flag = true;
    PMIX_INFO_LOAD(&infos[0], "bench.number", &number, PMIX_UINT64);
    PMIX_INFO_LOAD(&infos[1], "bench.sent", &now, PMIX_UINT64);
    PMIX_INFO_LOAD(&infos[2], "bench.text", "a short diagnostic text", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[3], "bench.flag", &flag, PMIX_BOOL);
    need("notify", PMIx_Notify_event(code, &me, range, infos, INFOS, completed, object));
    for (size_t i = 0; i < INFOS; i++) {
        PMIX_INFO_DESTRUCT(&infos[i]);
    }
}

/* Sends event `number`. `accepted`, if not null, is posted when the server has acknowledged it. */
static void notify(pmix_status_t code, pmix_data_range_t range, uint64_t number, sem_t *accepted)
{
    send_event(code, range, number, on_accepted, accepted);
}

static uint64_t number_in(const pmix_info_t infos[], size_t ninfos, const char *key)
{
    for (size_t i = 0; i < ninfos; i++) {
        if (0 == strncmp(infos[i].key, key, PMIX_MAX_KEYLEN)) {
            return infos[i].value.data.uint64;
        }
    }
    return UINT64_MAX;
}

/* Parameters of every handler. The handlers take no action. */
#define HANDLER(name)                                                                                                  \
    static void name(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,      \
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *object)
#define UNUSED (void) id, (void) code, (void) source, (void) infos, (void) ninfos, (void) results, (void) nresults
#define NO_ACTION next(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, object)

/* ---- chain ------------------------------------------------------------- */

static uint32_t handlers, handlers_run;
static uint64_t last_run;

/* The library does not report the end of a chain. The run of the last handler marks it. */
HANDLER(on_link)
{
    UNUSED;
    bool last = ++handlers_run == handlers;
    if (last) {
        last_run = now_ns();
    }
    NO_ACTION;
    if (last) {
        sem_post(&done);
    }
}

static void chain(void)
{
    double *times = calloc(count, sizeof *times);
    for (uint32_t i = 0; i < handlers; i++) {
        char name[32];
        snprintf(name, sizeof name, "link %u", i);
        add_handler(NEWS, name, on_link);
    }
    for (uint32_t i = 0; i < warm + count; i++) {
        handlers_run = 0;
        uint64_t start = now_ns();
        notify(NEWS, PMIX_RANGE_PROC_LOCAL, i, NULL);
        await(&done);
        if (i >= warm) {
            times[i - warm] = (double) (last_run - start);
        }
    }
    print_times(times, count);
}

/* ---- fan --------------------------------------------------------------- */

HANDLER(on_fan)
{
    UNUSED;
    arrive(&arrivals, now_ns(), job_size - 1);
    NO_ACTION;
}

/* Measures events of rank 0 in turns: the time from each event to the one that `until` returns. */
static void measure_events(uint64_t (*until)(void))
{
    double *times = of_each_repetition(), *next = times, *used = of_each_turn();
    for (uint32_t turn = 0; turn < turns_measured(); turn++) {
        struct start measured = {0};
        begin_turn();
        for (uint32_t i = 0; i < warm + count; i++) {
            if (i == warm) {
                measured = start_of_measurement();
            }
            uint64_t start = now_ns();
            notify(NEWS, PMIX_RANGE_LOCAL, i, NULL);
            uint64_t end = until();
            if (i >= warm) {
                *next++ = (double) (end - start);
            }
        }
        used[turn] = server_time_since(measured);
        end_turn();
    }
    print_times(times, (size_t) (next - times));
    print_server_time(used);
    free(times);
    free(used);
}

/* Waits until all have arrived, and returns the time of the last one. */
static uint64_t last_arrival(void)
{
    return await_last(&arrivals);
}

static void fan(void)
{
    if (0 != me.rank) {
        add_handler(NEWS, "fan", on_fan);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        measure_events(last_arrival);
    }
    end_turns();
}

/* ---- pingpong ---------------------------------------------------------- */

HANDLER(on_ping)
{
    UNUSED;
    notify(ANSWER, PMIX_RANGE_LOCAL, number_in(infos, ninfos, "bench.number"), NULL);
    NO_ACTION;
}

HANDLER(on_pong)
{
    UNUSED;
    last_run = now_ns();
    NO_ACTION;
    sem_post(&done);
}

/* Waits for the answer, and returns the time at which its handler ran. */
static uint64_t answer_heard(void)
{
    await(&done);
    return last_run;
}

static void pingpong(void)
{
    if (1 == me.rank) {
        add_handler(NEWS, "ping", on_ping);
    } else {
        add_handler(ANSWER, "pong", on_pong);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        measure_events(answer_heard);
    }
    end_turns();
}

/* ---- flood ------------------------------------------------------------- */

static uint8_t *seen;
static uint32_t window, received, duplicates;
static uint64_t first_sent = UINT64_MAX;

HANDLER(on_flood)
{
    UNUSED;
    last_run = now_ns();
    uint64_t number = number_in(infos, ninfos, "bench.number"), sent = number_in(infos, ninfos, "bench.sent");
    first_sent = sent < first_sent ? sent : first_sent;
    if (number < count) {
        duplicates += seen[number];
        received += !seen[number];
        seen[number] = 1;
    }
    NO_ACTION;
    sem_post(&done);
}

static void send_flood(void)
{
    sem_t accepted;
    sem_init(&accepted, 0, window);
    for (uint32_t i = 0; i < count; i++) {
        if (0 != window) {
            await(&accepted);
        }
        notify(NEWS, PMIX_RANGE_LOCAL, i, &accepted);
    }
    for (uint32_t left = 0 != window ? window : count; left > 0; left--) {
        await(&accepted);
    }
}

static void send_silently(void)
{
    for (uint32_t i = 0; i < count; i++) {
        send_event(NEWS, PMIX_RANGE_LOCAL, i, NULL, NULL);
    }
}

static void receive_flood(void)
{
    for (uint32_t i = 0; i < count; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PATIENCE;
        if (0 != sem_timedwait(&done, &until)) {
            break;
        }
    }
    printf("lost %u\nduplicates %u\n", count - received, duplicates);
    printf("per_s %.1f\n", received / ((double) (last_run - first_sent) / 1e9));
}

static void flood_by(void (*send)(void))
{
    seen = calloc(count, 1);
    if (1 == me.rank) {
        add_handler(NEWS, "flood", on_flood);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        send();
    } else if (1 == me.rank) {
        receive_flood();
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

static void flood(void) { flood_by(send_flood); }

static void silent(void) { flood_by(send_silently); }

/* ---- heartbeats --------------------------------------------------------- */

static void have_heartbeats_monitored(void)
{
    bool yes = true;
    uint32_t time = 60;
    pmix_info_t asked, directive, *results = NULL;
    size_t nresults = 0;
    PMIX_INFO_LOAD(&asked, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directive, PMIX_MONITOR_HEARTBEAT_TIME, &time, PMIX_UINT32);
    need("monitor", PMIx_Process_monitor(&asked, PMIX_MONITOR_HEARTBEAT_ALERT, &directive, 1, &results, &nresults));
    PMIX_INFO_FREE(results, nresults);
}

static void beats(void)
{
    have_heartbeats_monitored();
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        uint64_t start = 0;
        for (uint32_t i = 0; i < warm + count; i++) {
            if (i == warm) {
                start = now_ns();
            }
            PMIx_Heartbeat();
        }
        /* The server processes messages in order: when it answers this, it has received the
         * heartbeats. */
        have_heartbeats_monitored();
        printf("per_s %.0f\n", (double) count / ((double) (now_ns() - start) / 1e9));
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

/* Number of heartbeats before the measured ones. */
#define BEFORE 3

static void pulse(void)
{
    have_heartbeats_monitored();
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    /* The procs do not start at the same moment. */
    usleep(1000000 / job_size * me.rank);
    struct start start = {0};
    for (uint32_t i = 0; i < BEFORE + count; i++) {
        /* By now the effects of the fence are over. */
        if (BEFORE == i) {
            start = start_of_measurement();
        }
        PMIx_Heartbeat();
        sleep(1);
    }
    if (0 == me.rank) {
        printf("cpu %.5f\n", server_time_since(start) / time_since(start));
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

#include "crowd.h"

/* ---- fence, log, nothing and idle ---------------------------------------------------- */

static void fence(void)
{
    double *times = of_each_turn(), *used = of_each_turn();
    for (uint32_t turn = 0; turn < turns_measured(); turn++) {
        struct start start = {0};
        begin_turn();
        for (uint32_t i = 0; i < warm + count; i++) {
            if (i == warm) {
                start = start_of_measurement();
            }
            need("fence", PMIx_Fence(NULL, 0, NULL, 0));
        }
        times[turn] = time_since(start);
        used[turn] = server_time_since(start);
        end_turn();
    }
    end_turns();
    if (0 == me.rank) {
        print_middle("us", times);
        print_server_time(used);
    }
    free(times);
    free(used);
}

static void log_lines(void)
{
    if (0 != me.rank) {
        return;
    }
    pmix_info_t line;
    PMIX_INFO_LOAD(&line, PMIX_LOG_STDERR, "a short diagnostic text", PMIX_STRING);
    uint64_t start = 0;
    for (uint32_t i = 0; i < warm + count; i++) {
        if (i == warm) {
            start = now_ns();
        }
        need("log", PMIx_Log(&line, 1, NULL, 0));
    }
    printf("per_s %.0f\n", (double) count / ((double) (now_ns() - start) / 1e9));
}

static void nothing(void) {}

static void idle(void)
{
    arrive(&arrivals, 0, job_size);
    await_leave(&arrivals);
}

/* Ends the program if it runs on another library than the bench believes. */
static void need_library(void)
{
    const char *version = PMIx_Get_version();
    if ((NULL != getenv("BENCH_LIBRARY")) != (NULL != strstr(version, ", Peal"))) {
        fprintf(stderr, "the program runs on another library than it should: %s\n", version);
        _exit(EXIT_FAILURE);
    }
}

static uint32_t size_of_job(void)
{
    pmix_proc_t job;
    pmix_value_t *size;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    need("get the job's size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size));
    uint32_t procs = size->data.uint32;
    PMIX_VALUE_RELEASE(size);
    return procs;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"chain", chain}, {"fan", fan}, {"pingpong", pingpong}, {"flood", flood}, {"silent", silent},
                 {"fence", fence}, {"group", group}, {"groupid", group_with_id}, {"log", log_lines}, {"beats", beats},
                 {"pulse", pulse}, {"cycle", cycle}, {"start", start_processes}, {"nothing", nothing}, {"memory", memory},
                 {"idle", idle}, {"table", table}, {"crowd", crowd}};
    if (argc < 5) {
        fprintf(stderr, "usage: %s MODE COUNT WARM DIR [HANDLERS | WINDOW | TURNS]\n", argv[0]);
        return 2;
    }
    count = (uint32_t) atoi(argv[2]);
    warm = (uint32_t) atoi(argv[3]);
    handlers = window = turns = argc > 5 ? (uint32_t) atoi(argv[5]) : 0;
    program = argv[0];
    need_library();
    open_arrivals(&arrivals, argv[4]);
    sem_init(&done, 0, 0);
    need("init", PMIx_Init(&me, NULL, 0));
    job_size = size_of_job();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (0 == strcmp(argv[1], modes[i].name)) {
            modes[i].run();
        }
    }
    fflush(stdout);
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
