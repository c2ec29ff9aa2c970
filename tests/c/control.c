/* A PMIx program whose first proc controls the others and logs, and prints the results.
 *
 * Runs as a job of any size under any PMIx server: `peal run -n 3 -- target/c/control signal`.
 *
 * - signal: rank 0 sends SIGUSR1 to all others, which wait for it.
 * - terminate RANK: rank 0 terminates a proc, and checks that its process is gone.
 * - stubborn RANK: the same with a proc that ignores SIGTERM.
 * - kill: rank 0 kills its whole job.
 * - unknown: rank 0 requests a KILL of an unknown job.
 * - nothing: rank 0 sends a request without an action.
 * - cleanup DIR: rank 0 registers a file for removal after itself, and a directory with its
 *   contents for removal after the job; then contradicting requests.
 * - cleanup-many DIR: rank 0 registers seven files and five directories, in one request with an
 *   info for each.
 * - log: every rank logs a line to stdout and one to stderr. */
#include "need.h"

#include <errno.h>
#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


static void say(const char *what, pmix_status_t status)
{
    printf("rank %u: %s: %s (%d)\n", me.rank, what, PMIx_Error_string(status), status);
    fflush(stdout);
}

static void tell_pid(void)
{
    pmix_value_t pid = { .type = PMIX_PID, .data.pid = getpid() };
    need("put", PMIx_Put(PMIX_LOCAL, "control.pid", &pid));
    need("commit", PMIx_Commit());
}

static pid_t pid_of(const pmix_proc_t *proc)
{
    pmix_value_t *value;
    need("get a pid", PMIx_Get(proc, "control.pid", NULL, 0, &value));
    pid_t pid = value->data.pid;
    PMIX_VALUE_RELEASE(value);
    return pid;
}

static void everybody_is_here(void)
{
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

static uint32_t job_size(void)
{
    pmix_proc_t job;
    pmix_value_t *size;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    need("get the job's size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size));
    uint32_t procs = size->data.uint32;
    PMIX_VALUE_RELEASE(size);
    return procs;
}

/* Requests one action and prints the server's answer. */
static void control(const char *what, pmix_proc_t *targets, size_t ntargets, pmix_info_t *directive, size_t ndirectives)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    say(what, PMIx_Job_control(targets, ntargets, directive, ndirectives, &results, &nresults));
    PMIX_INFO_FREE(results, nresults);
}

static void order(const char *what, const char *key, pmix_proc_t *targets, size_t ntargets)
{
    bool yes = true;
    pmix_info_t directive;
    PMIX_INFO_LOAD(&directive, key, &yes, PMIX_BOOL);
    control(what, targets, ntargets, &directive, 1);
    PMIX_INFO_DESTRUCT(&directive);
}

static void send_signals(void)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    everybody_is_here();
    if (0 == me.rank) {
        uint32_t others = job_size() - 1;
        pmix_proc_t *targets;
        PMIX_PROC_CREATE(targets, others);
        for (uint32_t at = 0; at < others; at++) {
            PMIX_LOAD_PROCID(&targets[at], me.nspace, at + 1);
        }
        int number = SIGUSR1;
        pmix_info_t directive;
        PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT);
        control("signal", targets, others, &directive, 1);
        PMIX_INFO_DESTRUCT(&directive);
        PMIX_PROC_FREE(targets, others);
    } else {
        int got = 0;
        sigwait(&wanted, &got);
        printf("rank %u: got %s\n", me.rank, SIGUSR1 == got ? "SIGUSR1" : "another signal");
        fflush(stdout);
    }
    everybody_is_here();
}

static void end_one(pmix_rank_t rank, bool stubborn)
{
    if (stubborn) {
        signal(SIGTERM, SIG_IGN);
    }
    tell_pid();
    everybody_is_here();
    while (rank == me.rank) {
        pause();
    }
    if (0 == me.rank) {
        pmix_proc_t target;
        PMIX_LOAD_PROCID(&target, me.nspace, rank);
        pid_t pid = pid_of(&target);
        order("terminate", PMIX_JOB_CTRL_TERMINATE, &target, 1);
        printf("rank 0: its process is %s\n", 0 != kill(pid, 0) && ESRCH == errno ? "gone" : "still there");
        fflush(stdout);
    }
}

static void end_all(void)
{
    everybody_is_here();
    if (0 == me.rank) {
        order("kill", PMIX_JOB_CTRL_KILL, NULL, 0);
    }
    for (;;) {
        pause();
    }
}

static void log_lines(void)
{
    char out[64], err[64];
    pmix_info_t data[2];
    snprintf(out, sizeof out, "rank %u logs to stdout\n", me.rank);
    snprintf(err, sizeof err, "rank %u logs to stderr\n", me.rank);
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDOUT, out, PMIX_STRING);
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_STDERR, err, PMIX_STRING);
    say("log", PMIx_Log(data, 2, NULL, 0));
    PMIX_INFO_DESTRUCT(&data[0]);
    PMIX_INFO_DESTRUCT(&data[1]);
}

/* Registers a file of this proc and a directory of the job. */
static void clean_up(const char *dir)
{
    char file[256];
    bool yes = true;
    pmix_info_t directives[3];
    snprintf(file, sizeof file, "%s/file", dir);
    PMIX_INFO_LOAD(&directives[0], PMIX_REGISTER_CLEANUP, file, PMIX_STRING);
    control("a file", &me, 1, directives, 1);
    snprintf(file, sizeof file, "%s/tree", dir);
    PMIX_INFO_LOAD(&directives[0], PMIX_REGISTER_CLEANUP_DIR, file, PMIX_STRING);
    PMIX_INFO_LOAD(&directives[1], PMIX_CLEANUP_RECURSIVE, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[2], PMIX_CLEANUP_IGNORE, "keep", PMIX_STRING);
    control("a directory", NULL, 0, directives, 3);
    control("the same, less deep", NULL, 0, directives, 1);
    PMIX_INFO_LOAD(&directives[0], PMIX_REGISTER_CLEANUP, "no/path", PMIX_STRING);
    control("no path", &me, 1, directives, 1);
}

/* Creates an info for each of several paths. */
static void clean_up_many(const char *dir)
{
    enum { FILES = 7, DIRECTORIES = 5 };
    char path[256];
    pmix_info_t directives[FILES + DIRECTORIES];
    for (int at = 0; at < FILES; at++) {
        snprintf(path, sizeof path, "%s/file%d", dir, at);
        PMIX_INFO_LOAD(&directives[at], PMIX_REGISTER_CLEANUP, path, PMIX_STRING);
    }
    for (int at = 0; at < DIRECTORIES; at++) {
        snprintf(path, sizeof path, "%s/dir%d", dir, at);
        PMIX_INFO_LOAD(&directives[FILES + at], PMIX_REGISTER_CLEANUP_DIR, path, PMIX_STRING);
    }
    control("many", NULL, 0, directives, FILES + DIRECTORIES);
}

static void run(const char *what, const char *more)
{
    if (0 == strcmp(what, "signal")) {
        send_signals();
    } else if (0 == strcmp(what, "terminate") || 0 == strcmp(what, "stubborn")) {
        end_one((pmix_rank_t) atoi(more), 0 == strcmp(what, "stubborn"));
    } else if (0 == strcmp(what, "kill")) {
        end_all();
    } else if (0 == strcmp(what, "log")) {
        log_lines();
    } else if (0 != me.rank) {
        return;
    } else if (0 == strcmp(what, "unknown")) {
        pmix_proc_t target;
        PMIX_LOAD_PROCID(&target, "nobody-knows-it", PMIX_RANK_WILDCARD);
        order("kill of an unknown job", PMIX_JOB_CTRL_KILL, &target, 1);
    } else if (0 == strcmp(what, "nothing")) {
        pmix_info_t directive;
        PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_ID, "empty", PMIX_STRING);
        control("no action", NULL, 0, &directive, 1);
        PMIX_INFO_DESTRUCT(&directive);
    } else if (0 == strcmp(what, "cleanup")) {
        clean_up(more);
    } else if (0 == strcmp(what, "cleanup-many")) {
        clean_up_many(more);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ACTION [RANK|DIR]\n", argv[0]);
        return 2;
    }
    /* Before the library starts its threads, which inherit the mask: the signal stays pending until
     * sigwait. */
    sigset_t later;
    sigemptyset(&later);
    sigaddset(&later, SIGUSR1);
    sigprocmask(SIG_BLOCK, &later, NULL);
    need("init", PMIx_Init(&me, NULL, 0));
    run(argv[1], argc > 2 ? argv[2] : "1");
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
