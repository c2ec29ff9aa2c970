/* A small PMIx host environment on the server library, with which other servers are compared. It
 * runs one job on this node, answers the library's upcalls, and exits with the first status of a
 * proc that was not 0. For a killed proc this is 128 + signal, for an aborted job the status passed
 * to PMIx_Abort.
 *
 *     host [--tools DIRECTORY] [--stdin RANK] N PROGRAM [ARGUMENTS...]
 *
 * With a directory it serves tools, too, and leaves its rendezvous files there. With a rank it
 * forwards the output of the procs to those that pull it, and what is pushed to the rank to its
 * input. It prints nothing of its own on stdout; errors go to stderr. Upcalls that it does not
 * support are left out of the module, so that the library answers PMIX_ERR_NOT_SUPPORTED. */
#define _GNU_SOURCE /* execvpe */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

#include "host_groups.h"
#include "host_published.h"
#include "host_services.h"
#include "host_streams.h"

#define NSPACE "job"
#define MAX_PROCS 1024

extern char **environ;

/* The job. Written by main; the abort upcall reads and changes it from the library's thread. */
static pthread_mutex_t job_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t job_size;
static pid_t pids[MAX_PROCS];
static int exit_status;
static bool killed;

/* ---- waiting for the library ------------------------------------------- */

struct answer {
    sem_t given;
    pmix_status_t status;
};

static void on_answer(pmix_status_t status, void *data)
{
    struct answer *answer = data;
    answer->status = status;
    sem_post(&answer->given);
}

static void require(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fprintf(stderr, "host: %s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(125);
    }
}

/* Some calls answer by callback if they return PMIX_SUCCESS, and are complete otherwise. */
static void await(const char *what, pmix_status_t status, struct answer *answer)
{
    require(what, status);
    if (PMIX_SUCCESS == status) {
        while (0 != sem_wait(&answer->given)) {
        }
        require(what, answer->status);
    }
}

/* ---- upcalls ----------------------------------------------------------- */

static pmix_status_t connected(const pmix_proc_t *proc, void *object, pmix_info_t infos[], size_t ninfos,
                               pmix_op_cbfunc_t done, void *data)
{
    (void) proc, (void) object, (void) infos, (void) ninfos, (void) done, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void) proc, (void) object, (void) done, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

/* Regardless of the named procs, the whole job is aborted. */
static pmix_status_t abort_job(const pmix_proc_t *proc, void *object, int status, const char message[],
                               pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *data)
{
    (void) object, (void) procs, (void) nprocs, (void) done, (void) data;
    fprintf(stderr, "host: rank %u aborts the job with %d: %s\n", proc->rank, status, message);
    pthread_mutex_lock(&job_lock);
    killed = true;
    if (0 == exit_status) {
        exit_status = status;
    }
    for (uint32_t rank = 0; rank < job_size; rank++) {
        if (pids[rank] > 0) {
            kill(pids[rank], SIGKILL);
        }
    }
    pthread_mutex_unlock(&job_lock);
    return PMIX_OPERATION_SUCCEEDED;
}

/* On one node all participants have arrived when the library makes the upcall. The data of the
 * others are what the upcall passed. */
static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                           char *bytes, size_t nbytes, pmix_modex_cbfunc_t done, void *data)
{
    (void) procs, (void) nprocs, (void) infos, (void) ninfos;
    done(PMIX_SUCCESS, bytes, nbytes, data, free, bytes);
    return PMIX_SUCCESS;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos,
                                  pmix_modex_cbfunc_t done, void *data)
{
    (void) proc, (void) infos, (void) ninfos, (void) done, (void) data;
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t connect_procs(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                                   pmix_op_cbfunc_t done, void *data)
{
    (void) procs, (void) nprocs, (void) infos, (void) ninfos, (void) done, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t infos[], size_t ninfos,
                                     pmix_op_cbfunc_t done, void *data)
{
    (void) codes, (void) ncodes, (void) infos, (void) ninfos, (void) done, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t deregister_events(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t done, void *data)
{
    (void) codes, (void) ncodes, (void) done, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

/* There is no other node to pass an event to. */
static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t infos[], size_t ninfos, pmix_op_cbfunc_t done, void *data)
{
    (void) code, (void) source, (void) range, (void) infos, (void) ninfos, (void) done, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_server_module_t module = {
    .client_connected2 = connected,
    .client_finalized = finalized,
    .abort = abort_job,
    .fence_nb = fence,
    .direct_modex = direct_modex,
    .publish = publish,
    .lookup = lookup,
    .unpublish = unpublish,
    .connect = connect_procs,
    .disconnect = connect_procs,
    .register_events = register_events,
    .deregister_events = deregister_events,
    .notify_event = notify_event,
    .query = query,
    .tool_connected = tool_connected,
    .log = log_data,
    .job_control = job_control,
    .group = group,
};

/* ---- the job's data ---------------------------------------------------- */

static void load_proc_data(pmix_info_t *info, pmix_rank_t rank, const char *hostname)
{
    uint16_t local_rank = (uint16_t) rank;
    uint32_t zero = 0;
    PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    PMIX_DATA_ARRAY_CREATE(info->value.data.darray, 7, PMIX_INFO);
    pmix_info_t *data = info->value.data.darray->array;
    PMIX_INFO_LOAD(&data[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&data[1], PMIX_GLOBAL_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&data[2], PMIX_LOCAL_RANK, &local_rank, PMIX_UINT16);
    PMIX_INFO_LOAD(&data[3], PMIX_NODE_RANK, &local_rank, PMIX_UINT16);
    PMIX_INFO_LOAD(&data[4], PMIX_APPNUM, &zero, PMIX_UINT32);
    PMIX_INFO_LOAD(&data[5], PMIX_NODEID, &zero, PMIX_UINT32);
    PMIX_INFO_LOAD(&data[6], PMIX_HOSTNAME, hostname, PMIX_STRING);
}

/* Returns "0,1,...,N-1"; the caller frees it. */
static char *all_ranks(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (uint32_t rank = 0; rank < job_size; rank++) {
        fprintf(out, "%s%u", 0 == rank ? "" : ",", rank);
    }
    fclose(out);
    return text;
}

/* The library derives all data about nodes and local peers from the two maps. */
static void load_job_data(pmix_info_t *infos, size_t ninfos, const char *hostname)
{
    char *ranks = all_ranks(), *nodes = NULL, *procs = NULL;
    uint32_t one = 1;
    require("node map", PMIx_generate_regex(hostname, &nodes));
    require("process map", PMIx_generate_ppn(ranks, &procs));
    size_t n = 0;
    PMIX_INFO_LOAD(&infos[n++], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[n++], PMIX_PROC_MAP, procs, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[n++], PMIX_JOBID, NSPACE, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[n++], PMIX_JOB_SIZE, &job_size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[n++], PMIX_UNIV_SIZE, &job_size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[n++], PMIX_MAX_PROCS, &job_size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[n++], PMIX_NUM_NODES, &one, PMIX_UINT32);
    for (pmix_rank_t rank = 0; n < ninfos; rank++, n++) {
        load_proc_data(&infos[n], rank, hostname);
    }
    free(ranks);
    free(nodes);
    free(procs);
}

static void register_job(void)
{
    char hostname[256] = "";
    gethostname(hostname, sizeof hostname - 1);
    size_t ninfos = 7 + job_size;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, ninfos);
    load_job_data(infos, ninfos, hostname);
    struct answer answer;
    sem_init(&answer.given, 0, 0);
    pmix_nspace_t nspace;
    PMIX_LOAD_NSPACE(nspace, NSPACE);
    await("register namespace",
          PMIx_server_register_nspace(nspace, (int) job_size, infos, ninfos, on_answer, &answer), &answer);
    PMIX_INFO_FREE(infos, ninfos);
}

/* ---- the procs --------------------------------------------------------- */

/* Returns the environment without variables that a server above this one may have set. */
static char **own_environment(void)
{
    char **copy = NULL;
    for (char **entry = environ; NULL != *entry; entry++) {
        if (0 != strncmp(*entry, "PMIX_", 5)) {
            pmix_status_t rc;
            PMIX_ARGV_APPEND(rc, copy, *entry);
            require("environment", rc);
        }
    }
    return copy;
}

static void register_proc(const pmix_proc_t *proc)
{
    struct answer answer;
    sem_init(&answer.given, 0, 0);
    await("register client", PMIx_server_register_client(proc, geteuid(), getegid(), NULL, on_answer, &answer),
          &answer);
}

static pid_t start(pmix_rank_t rank, char **command)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, NSPACE, rank);
    char **environment = own_environment();
    pmix_status_t rc = PMIx_server_setup_fork(&proc, &environment);
    require("setup fork", rc);
    /* All data travel in messages, as with a server that shares no memory with its clients. */
    PMIX_SETENV(rc, "PMIX_GDS_MODULE", "hash", &environment);
    require("environment", rc);
    struct pipes pipes;
    bool forwards = PMIX_RANK_INVALID != input_rank;
    if (forwards) {
        make_pipes(&pipes);
    }
    pid_t pid = fork();
    if (0 == pid) {
        if (forwards) {
            use_pipes(&pipes);
        }
        execvpe(command[0], command, environment);
        perror(command[0]);
        _exit(127);
    }
    PMIX_ARGV_FREE(environment);
    if (forwards) {
        keep_pipes(&pipes, &proc);
    }
    return pid;
}

static void start_all(char **command)
{
    for (pmix_rank_t rank = 0; rank < job_size; rank++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, NSPACE, rank);
        register_proc(&proc);
    }
    pthread_mutex_lock(&job_lock);
    for (pmix_rank_t rank = 0; rank < job_size; rank++) {
        pids[rank] = start(rank, command);
    }
    pthread_mutex_unlock(&job_lock);
}

/* Notifies the other procs that one was killed, in the form of PRRTE for a job that goes on. The
 * dead proc itself is the source, the range is custom with the whole namespace as target, and the
 * exit code is 128 + signal. */
static void tell_death_as(pmix_status_t code, pmix_rank_t rank, int status)
{
    pmix_proc_t dead, job;
    PMIX_LOAD_PROCID(&dead, NSPACE, rank);
    PMIX_LOAD_PROCID(&job, NSPACE, PMIX_RANK_WILDCARD);
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, 3);
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_AFFECTED_PROC, &dead, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_CUSTOM_RANGE, &job, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[2], PMIX_EXIT_CODE, &status, PMIX_INT);
    struct answer answer;
    sem_init(&answer.given, 0, 0);
    await("notify", PMIx_Notify_event(code, &dead, PMIX_RANGE_CUSTOM, infos, 3, on_answer, &answer), &answer);
    PMIX_INFO_FREE(infos, 3);
}

/* The library of an inviting proc waits for the second code. */
static void tell_death(pmix_rank_t rank, int status)
{
    tell_death_as(PMIX_ERR_PROC_ABORTED_BY_SIG, rank, status);
    tell_death_as(PMIX_PROC_TERMINATED, rank, status);
}

/* Records the end of a proc. Returns true if the other procs must be notified. */
static bool record_end(pmix_rank_t rank, int status, bool by_signal)
{
    pthread_mutex_lock(&job_lock);
    pids[rank] = 0;
    if (0 == exit_status) {
        exit_status = status;
    }
    bool tell = by_signal && !killed;
    pthread_mutex_unlock(&job_lock);
    return tell;
}

static pmix_rank_t rank_of(pid_t pid)
{
    pmix_rank_t rank = 0;
    while (rank < job_size && pids[rank] != pid) {
        rank++;
    }
    return rank;
}

static void wait_for_all(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, 0)) > 0) {
        pmix_rank_t rank = rank_of(pid);
        if (rank == job_size) {
            continue; /* not a proc of the job */
        }
        bool by_signal = WIFSIGNALED(status);
        int code = by_signal ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (record_end(rank, code, by_signal)) {
            tell_death(rank, code);
        }
    }
}

static void start_server(const char *tools)
{
    pmix_info_t infos[5];
    size_t ninfos = 0;
    bool no = false;
    /* 4.2.2 writes delivered output itself otherwise, and to a null pointer. */
    PMIX_INFO_LOAD(&infos[ninfos++], PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL);
    if (NULL != tools) {
        PMIX_INFO_LOAD(&infos[ninfos++], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
        PMIX_INFO_LOAD(&infos[ninfos++], PMIX_SERVER_SYSTEM_SUPPORT, NULL, PMIX_BOOL);
        PMIX_INFO_LOAD(&infos[ninfos++], PMIX_SERVER_TMPDIR, tools, PMIX_STRING);
        PMIX_INFO_LOAD(&infos[ninfos++], PMIX_SYSTEM_TMPDIR, tools, PMIX_STRING);
    }
    require("init", PMIx_server_init(&module, infos, ninfos));
}

int main(int argc, char **argv)
{
    const char *name = argv[0], *tools = NULL;
    for (; argc > 3 && 0 == strncmp(argv[1], "--", 2); argv += 2, argc -= 2) {
        if (0 == strcmp(argv[1], "--tools")) {
            tools = argv[2];
        } else if (0 == strcmp(argv[1], "--stdin")) {
            input_rank = (pmix_rank_t) atoi(argv[2]);
            module.iof_pull = iof_pull;
            module.push_stdin = push_stdin;
        } else {
            break;
        }
    }
    int procs = argc > 2 ? atoi(argv[1]) : 0;
    if (procs < 1 || procs > MAX_PROCS) {
        fprintf(stderr, "usage: %s [--tools DIRECTORY] [--stdin RANK] N PROGRAM [ARGUMENTS...], with N from 1 to %d\n", name,
                MAX_PROCS);
        return 2;
    }
    job_size = (uint32_t) procs;
    start_server(tools);
    register_job();
    start_all(argv + 2);
    wait_for_all();
    await_streams();
    require("finalize", PMIx_server_finalize());
    return exit_status;
}
