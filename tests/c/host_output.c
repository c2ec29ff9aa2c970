/* A host environment that delivers output of its own, and its only proc, which pulls it. Prints what the
 * proc gets: output before the pull and after it, of this process and of another one of the host
 * environment.
 *
 *     host_output
 *
 * Runs on the server library alone: no other launcher is needed. */
#define _GNU_SOURCE /* execvpe */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "need.h"
#include <pmix_server.h>
#include <pmix_tool.h>

#define HOST "launcher"
#define PIECES 3
/* Time limit of things that must happen. It passes only if something is broken. */
#define PATIENCE_SECONDS 20

extern char **environ;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int left = PIECES;

/* ---- the proc ------------------------------------------------------------ */

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *data,
                      pmix_info_t infos[], size_t ninfos)
{
    (void) id, (void) channel, (void) infos, (void) ninfos;
    pthread_mutex_lock(&lock);
    printf("%s %u: %.*s", source->nspace, source->rank, (int) data->size, data->bytes);
    fflush(stdout);
    left--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int proc(int told)
{
    pmix_proc_t host;
    struct timespec deadline;
    need("init", PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&host, HOST, PMIX_RANK_WILDCARD);
    pmix_status_t pulled = PMIx_IOF_pull(&host, 1, NULL, 0, PMIX_FWD_STDERR_CHANNEL, on_output, NULL, NULL);
    /* The number of the pull is a success, too. */
    need("pull", pulled < 0 ? pulled : PMIX_SUCCESS);
    if (1 != write(told, "x", 1)) {
        return EXIT_FAILURE;
    }
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&lock);
    while (left > 0 && 0 == pthread_cond_timedwait(&changed, &lock, &deadline)) {
    }
    int missing = left;
    pthread_mutex_unlock(&lock);
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0 == missing ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the host environment ------------------------------------------------ */

static void on_done(pmix_status_t status, void *data)
{
    (void) status;
    pthread_mutex_lock(&lock);
    *(bool *) data = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await_done(bool *done)
{
    pthread_mutex_lock(&lock);
    while (!*done) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static pmix_status_t client_connected(const pmix_proc_t *who, void *server, pmix_op_cbfunc_t answer, void *data)
{
    (void) who, (void) server, (void) answer, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[],
                              size_t ndirectives, pmix_iof_channel_t channels, pmix_op_cbfunc_t answer, void *data)
{
    (void) procs, (void) nprocs, (void) directives, (void) ndirectives, (void) channels, (void) answer, (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static void deliver(pmix_rank_t rank, char *text)
{
    pmix_proc_t source;
    pmix_byte_object_t piece = {.bytes = text, .size = strlen(text)};
    PMIX_LOAD_PROCID(&source, HOST, rank);
    pmix_status_t status = PMIx_server_IOF_deliver(&source, PMIX_FWD_STDERR_CHANNEL, &piece, NULL, 0, NULL, NULL);
    need("deliver", PMIX_OPERATION_SUCCEEDED == status ? PMIX_SUCCESS : status);
}

static void register_job(pmix_proc_t *proc)
{
    bool described = false, registered = false;
    uint32_t size = 1;
    pmix_info_t infos[4];
    char name[256] = "", *nodes, *ranks;
    gethostname(name, sizeof name - 1);
    need("map of the nodes", PMIx_generate_regex(name, &nodes));
    need("map of the ranks", PMIx_generate_ppn("0", &ranks));
    PMIX_LOAD_PROCID(proc, "job", 0);
    PMIX_INFO_LOAD(&infos[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[2], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[3], PMIX_PROC_MAP, ranks, PMIX_REGEX);
    need("register the job", PMIx_server_register_nspace(proc->nspace, 1, infos, 4, on_done, &described));
    await_done(&described);
    need("register the proc", PMIx_server_register_client(proc, geteuid(), getegid(), NULL, on_done, &registered));
    await_done(&registered);
}

static int host(char *program)
{
    static pmix_server_module_t module = {.client_connected = client_connected, .iof_pull = iof_pull};
    pmix_info_t infos[3];
    pmix_rank_t rank = 0;
    bool no = false;
    pmix_proc_t job;
    int pipes[2], status;
    char byte, told[16];
    char **env = NULL;
    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_NSPACE, HOST, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    /* The library itself writes the output otherwise, and 4.2 crashes in that. */
    PMIX_INFO_LOAD(&infos[2], PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL);
    need("init of the server", PMIx_server_init(&module, infos, 3));
    register_job(&job);
    deliver(0, "early\n");
    deliver(7, "of another process\n");
    for (char **variable = environ; NULL != *variable; variable++) {
        pmix_status_t appended;
        PMIX_ARGV_APPEND(appended, env, *variable);
        need("environment", appended);
    }
    if (0 != pipe(pipes)) {
        return EXIT_FAILURE;
    }
    snprintf(told, sizeof told, "%d", pipes[1]);
    pid_t child = fork();
    if (0 == child) {
        char *arguments[] = {program, told, NULL};
        need("setup of the fork", PMIx_server_setup_fork(&job, &env));
        execvpe(program, arguments, env);
        _exit(127);
    }
    close(pipes[1]);
    if (1 == read(pipes[0], &byte, 1)) {
        deliver(0, "late\n");
    }
    waitpid(child, &status, 0);
    need("finalize of the server", PMIx_server_finalize());
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int main(int argc, char **argv) { return argc > 1 ? proc(atoi(argv[1])) : host(argv[0]); }
