/* Upcalls of host.c for tools, log requests, queries and job control: little, but enough to check
 * that both directions work. The requests are printed on stderr.
 *
 * Included by host.c; not a program. The library calls these from one thread. */
#ifndef HOST_SERVICES_H
#define HOST_SERVICES_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix_server.h>

/* The only query that it answers. */
#define QUESTION "test.question"

static bool is_true(const pmix_info_t infos[], size_t ninfos, const char *key)
{
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], key)) {
            return PMIX_INFO_TRUE(&infos[i]);
        }
    }
    return false;
}

/* A tool without a name is called tools:N. A tool with a name keeps it. */
static void tool_connected(pmix_info_t infos[], size_t ninfos, pmix_tool_connection_cbfunc_t done, void *data)
{
    static pmix_rank_t tools;
    pmix_proc_t name;
    PMIX_LOAD_PROCID(&name, "tools", tools);
    bool named = false;
    for (size_t i = 0; i < ninfos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PMIX_NSPACE)) {
            PMIX_LOAD_NSPACE(name.nspace, infos[i].value.data.string);
            named = true;
        } else if (PMIX_CHECK_KEY(&infos[i], PMIX_RANK)) {
            name.rank = infos[i].value.data.rank;
        }
    }
    tools += named ? 0 : 1;
    done(PMIX_SUCCESS, &name, data);
}

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t queries[], size_t nqueries, pmix_info_cbfunc_t done,
                           void *data)
{
    (void) proc;
    size_t asked = 0, answered = 0;
    for (size_t q = 0; q < nqueries; q++) {
        for (size_t k = 0; NULL != queries[q].keys && NULL != queries[q].keys[k]; k++) {
            asked++;
            answered += 0 == strcmp(queries[q].keys[k], QUESTION) ? 1 : 0;
        }
    }
    if (0 == answered) {
        return PMIX_ERR_NOT_FOUND;
    }
    pmix_info_t answer; /* borrowed: the library packs it before `done` returns */
    PMIX_INFO_CONSTRUCT(&answer);
    PMIX_INFO_LOAD(&answer, QUESTION, "answer", PMIX_STRING);
    done(answered < asked ? PMIX_QUERY_PARTIAL_SUCCESS : PMIX_SUCCESS, &answer, 1, data, NULL, NULL);
    PMIX_INFO_DESTRUCT(&answer);
    return PMIX_SUCCESS;
}

struct logged {
    pmix_op_cbfunc_t done;
    void *data;
};

static void *answer_log(void *argument)
{
    struct logged logged = *(struct logged *) argument;
    free(argument);
    logged.done(PMIX_SUCCESS, logged.data);
    return NULL;
}

/* Answers from a thread of its own: the library holds a lock until this returns. */
static void log_data(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos, const pmix_info_t directives[],
                     size_t ndirectives, pmix_op_cbfunc_t done, void *data)
{
    (void) directives;
    for (size_t i = 0; i < ninfos; i++) {
        const pmix_value_t *value = &infos[i].value;
        fprintf(stderr, "host: %s:%u logs %s=%s with %zu directives\n", proc->nspace, proc->rank, infos[i].key,
                PMIX_STRING == value->type ? value->data.string : "...", ndirectives);
    }
    struct logged *logged = malloc(sizeof *logged);
    *logged = (struct logged) {done, data};
    pthread_t thread;
    pthread_create(&thread, NULL, answer_log, logged);
    pthread_detach(thread);
}

/* Kills no proc, and prints the reason. */
static pmix_status_t job_control(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t directives[], size_t ndirectives, pmix_info_cbfunc_t done,
                                 void *data)
{
    (void) targets;
    for (size_t i = 0; i < ndirectives; i++) {
        fprintf(stderr, "host: %s:%u wants %s of %zu targets\n", proc->nspace, proc->rank, directives[i].key, ntargets);
    }
    bool kill = is_true(directives, ndirectives, PMIX_JOB_CTRL_KILL);
    pmix_info_t reason;
    PMIX_INFO_CONSTRUCT(&reason);
    PMIX_INFO_LOAD(&reason, PMIX_EVENT_TEXT_MESSAGE, kill ? "nobody is killed here" : "as you wish", PMIX_STRING);
    done(kill ? PMIX_ERR_NO_PERMISSIONS : PMIX_SUCCESS, &reason, 1, data, NULL, NULL);
    PMIX_INFO_DESTRUCT(&reason);
    return PMIX_SUCCESS;
}

#endif
