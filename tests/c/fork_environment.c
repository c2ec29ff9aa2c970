/* The environment that a host environment gets for the procs of jobs (PMIx_server_setup_fork). Prints the
 * names of the variables, and the values of those that a programming model has.
 *
 *     fork_environment
 *
 * Runs on the server library alone. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "need.h"
#include <pmix_server.h>

#define MAX_INFOS 16
/* Length of the prefix of a model's variables. */
#define PREFIX "OMPI_"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

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

static void load_number(pmix_info_t *info, const char *key, uint32_t number)
{
    PMIX_INFO_LOAD(info, key, &number, PMIX_UINT32);
}

static void load_array(pmix_info_t *info, const char *key, pmix_info_t *infos, size_t ninfos)
{
    pmix_data_array_t *array;
    PMIX_DATA_ARRAY_CREATE(array, ninfos, PMIX_INFO);
    memcpy(array->array, infos, ninfos * sizeof(pmix_info_t));
    PMIX_INFO_CONSTRUCT(info);
    PMIX_LOAD_KEY(info->key, key);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

static void load_proc(pmix_info_t *info, pmix_rank_t rank, uint32_t app)
{
    pmix_info_t infos[6];
    uint16_t local = (uint16_t) (rank + 1), node = (uint16_t) (rank + 2);
    char directory[32];
    snprintf(directory, sizeof directory, "/tmp/proc%u", rank);
    PMIX_INFO_LOAD(&infos[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&infos[1], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&infos[2], PMIX_NODE_RANK, &node, PMIX_UINT16);
    PMIX_INFO_LOAD(&infos[3], PMIX_PROCDIR, directory, PMIX_STRING);
    load_number(&infos[4], PMIX_APPNUM, app);
    load_number(&infos[5], PMIX_REINCARNATION, rank + 3);
    load_array(info, PMIX_PROC_DATA, infos, 6);
}

static void load_app(pmix_info_t *info, uint32_t app, uint32_t size, pmix_rank_t first, char *command)
{
    pmix_info_t infos[5];
    load_number(&infos[0], PMIX_APPNUM, app);
    load_number(&infos[1], PMIX_APP_SIZE, size);
    PMIX_INFO_LOAD(&infos[2], PMIX_APPLDR, &first, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&infos[3], PMIX_WDIR, "/work", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[4], PMIX_APP_ARGV, command, PMIX_STRING);
    load_array(info, PMIX_APP_INFO_ARRAY, infos, 5);
}

/* Registers a job of two procs with this number of applications. */
static void register_job(const char *nspace, uint32_t napps, const char *model)
{
    bool done = false;
    pmix_info_t infos[MAX_INFOS];
    size_t n = 0;
    char name[256] = "", *nodes, *ranks;
    gethostname(name, sizeof name - 1);
    need("map of the nodes", PMIx_generate_regex(name, &nodes));
    need("map of the ranks", PMIx_generate_ppn("0,1", &ranks));
    if (NULL != model) {
        PMIX_INFO_LOAD(&infos[n++], PMIX_PERSONALITY, model, PMIX_STRING);
    }
    PMIX_INFO_LOAD(&infos[n++], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[n++], PMIX_PROC_MAP, ranks, PMIX_REGEX);
    load_number(&infos[n++], PMIX_UNIV_SIZE, 5);
    load_number(&infos[n++], PMIX_JOB_SIZE, 2);
    load_number(&infos[n++], PMIX_LOCAL_SIZE, 2);
    load_number(&infos[n++], PMIX_JOB_NUM_APPS, napps);
    if (napps > 1) {
        load_app(&infos[n++], 0, 1, 0, "first one two");
        load_app(&infos[n++], 1, 1, 1, "second three");
    } else {
        load_app(&infos[n++], 0, 2, 0, "only one two");
    }
    load_proc(&infos[n++], 0, 0);
    load_proc(&infos[n++], 1, napps - 1);
    need("register the job", PMIx_server_register_nspace(nspace, 2, infos, n, on_done, &done));
    await_done(&done);
}

static int compare(const void *one, const void *other)
{
    return strcmp(*(char *const *) one, *(char *const *) other);
}

static void say_environment(const char *nspace, pmix_rank_t rank)
{
    pmix_proc_t proc;
    char **env = NULL;
    size_t size = 0;
    PMIX_LOAD_PROCID(&proc, nspace, rank);
    pmix_status_t status = PMIx_server_setup_fork(&proc, &env);
    printf("%s %u: %d\n", nspace, rank, status);
    while (NULL != env && NULL != env[size]) {
        size++;
    }
    qsort(env, size, sizeof *env, compare);
    for (size_t i = 0; i < size; i++) {
        char *end = strchr(env[i], '=');
        bool has_value = 0 == strncmp(env[i], PREFIX, strlen(PREFIX));
        printf("%s %u: %.*s\n", nspace, rank, has_value || NULL == end ? (int) strlen(env[i]) : (int) (end - env[i]),
               env[i]);
    }
    fflush(stdout);
}

int main(void)
{
    static pmix_server_module_t module;
    need("init of the server", PMIx_server_init(&module, NULL, 0));
    register_job("plain", 1, NULL);
    register_job("model", 1, "ompi5");
    register_job("several", 2, "x,ompi");
    say_environment("plain", 0);
    say_environment("model", 0);
    say_environment("model", 1);
    say_environment("several", 1);
    say_environment("unknown", 0);
    need("finalize of the server", PMIx_server_finalize());
    return EXIT_SUCCESS;
}
