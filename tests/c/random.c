/* Functions of clients in random order, with random arguments: null pointers, wrong counts, arrays
 * that nest, values of unknown types, keys that are too long. They are called before the first init,
 * in several threads while the library is initialized, and after the last finalize. No call may
 * crash or hang; without an init none may succeed. Arguments are freed as soon as a call returns.
 *
 *     random SEED CALLS THREADS           under `peal run`, or without a server
 *     random SEED CALLS THREADS alone     as a tool that connects to no server
 *
 * Calls that wait for other procs have a time limit or do not block. The C library crashes on some of
 * this, so that only Peal's library runs it. */
#include <pmix_tool.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INFOS = 4, MAX_DEPTH = 3, LONGEST_SECONDS = 300, FIRST_CODE = PMIX_EXTERNAL_ERR_BASE - 9 };

/* Arguments and state of one thread. */
struct caller {
    uint64_t state;
    /* Ids of handlers, and of pulls of output. */
    size_t ids[4];
};

static pmix_proc_t me;

/* SplitMix64 generator. */
static uint64_t number(struct caller *c)
{
    uint64_t mixed = c->state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static size_t below(struct caller *c, size_t end) { return number(c) % end; }
static bool once_in(struct caller *c, size_t times) { return 0 == below(c, times); }

/* ---- arguments ----------------------------------------------------------- */

static const char LONG_TEXT[] =
    "----------------------------------------------------------------------------------------------------"
    "----------------------------------------------------------------------------------------------------"
    "----------------------------------------------------------------------------------------------------"
    "----------------------------------------------------------------------------------------------------"
    "----------------------------------------------------------------------------------------------------"
    "----------------------------------------------------------------------------------------------------";

static const char *text(struct caller *c)
{
    static const char *const texts[] = {NULL, "", "a", "test.key", "test.other", "\xff\xfe,;:", "1,2-3,[", LONG_TEXT};
    return texts[below(c, sizeof texts / sizeof *texts)];
}

static const char *key(struct caller *c)
{
    static const char *const keys[] = {
        NULL, "", "test.a", "test.b", "test.c", LONG_TEXT, PMIX_RANK, PMIX_JOB_SIZE, PMIX_LOCAL_RANK, PMIX_HOSTNAME,
        PMIX_LOCAL_PEERS, PMIX_NODE_LIST,
    };
    return keys[below(c, sizeof keys / sizeof *keys)];
}

/* Key of an info: none that makes a call wait or another proc end. */
static const char *directive(struct caller *c)
{
    static const char *const keys[] = {
        "", "test.a", "test.b", PMIX_OPTIONAL, PMIX_IMMEDIATE, PMIX_COLLECT_DATA, PMIX_RANGE, PMIX_PERSISTENCE,
        PMIX_USERID, PMIX_EVENT_HDLR_NAME, PMIX_EVENT_HDLR_FIRST, PMIX_EVENT_AFFECTED_PROC, PMIX_EVENT_CUSTOM_RANGE,
        PMIX_EVENT_NON_DEFAULT, PMIX_EVENT_DO_NOT_CACHE, PMIX_HOSTNAME, PMIX_NSPACE, PMIX_PROCID, PMIX_NODEID,
        PMIX_GROUP_OPTIONAL, PMIX_GROUP_ASSIGN_CONTEXT_ID, PMIX_JOB_CTRL_ID, PMIX_MONITOR_ID, PMIX_DEVICE_TYPE,
        PMIX_DEVICE_ID, PMIX_QUERY_REFRESH_CACHE, PMIX_LOG_ONCE, PMIX_DATA_SCOPE,
    };
    return keys[below(c, sizeof keys / sizeof *keys)];
}

static void fill_proc(struct caller *c, pmix_proc_t *proc)
{
    static const pmix_rank_t ranks[] = {0, 1, 4711, PMIX_RANK_WILDCARD, PMIX_RANK_UNDEF, PMIX_RANK_INVALID};
    memset(proc, 0, sizeof *proc);
    switch (below(c, 6)) {
    case 0: break;
    case 1: strcpy(proc->nspace, "nowhere"); break;
    /* A namespace without an end. */
    case 2: memset(proc->nspace, 'n', sizeof proc->nspace); break;
    default: memcpy(proc->nspace, me.nspace, sizeof proc->nspace);
    }
    proc->rank = once_in(c, 2) ? me.rank : ranks[below(c, sizeof ranks / sizeof *ranks)];
}

static void fill_infos(struct caller *c, pmix_info_t *infos, size_t count, int depth);

static void *copy(const void *bytes, size_t size)
{
    void *made = malloc(size);
    memcpy(made, bytes, size);
    return made;
}

static pmix_data_array_t *new_array(struct caller *c, int depth)
{
    size_t count = below(c, 3);
    pmix_data_array_t *array = calloc(1, sizeof *array);
    static const pmix_data_type_t types[] = {PMIX_INFO, PMIX_PROC, PMIX_UINT32, PMIX_STRING, PMIX_BOOL, 499};
    array->type = types[below(c, sizeof types / sizeof *types)];
    array->size = count;
    if (0 == count || 499 == array->type || once_in(c, 8)) {
        /* A null pointer, whatever the count is. */
        return array;
    }
    switch (array->type) {
    case PMIX_INFO:
        array->array = calloc(count, sizeof(pmix_info_t));
        fill_infos(c, array->array, count, depth + 1);
        break;
    case PMIX_PROC:
        array->array = calloc(count, sizeof(pmix_proc_t));
        for (size_t i = 0; i < count; i++) {
            fill_proc(c, (pmix_proc_t *) array->array + i);
        }
        break;
    default: array->array = calloc(count, sizeof(uint64_t));
    }
    return array;
}

static void fill_value(struct caller *c, pmix_value_t *value, int depth)
{
    const char *string = text(c);
    pmix_proc_t proc;
    memset(value, 0, sizeof *value);
    switch (below(c, depth < MAX_DEPTH ? 12 : 10)) {
    case 0: value->type = PMIX_STRING; value->data.string = NULL == string ? NULL : strdup(string); break;
    case 1: value->type = PMIX_BOOL; value->data.flag = once_in(c, 2); break;
    case 2: value->type = PMIX_UINT32; value->data.uint32 = (uint32_t) number(c); break;
    case 3: value->type = PMIX_INT; value->data.integer = (int) number(c); break;
    case 4: value->type = PMIX_DOUBLE; value->data.dval = (double) number(c) / 7; break;
    case 5:
        value->type = PMIX_PROC;
        fill_proc(c, &proc);
        value->data.proc = once_in(c, 4) ? NULL : copy(&proc, sizeof proc);
        break;
    case 6:
        value->type = PMIX_BYTE_OBJECT;
        value->data.bo.size = below(c, 20);
        value->data.bo.bytes = once_in(c, 4) ? NULL : calloc(1, value->data.bo.size + 1);
        break;
    case 7: value->type = PMIX_DATA_RANGE; value->data.range = (pmix_data_range_t) below(c, 12); break;
    case 8: value->type = once_in(c, 2) ? PMIX_UNDEF : 499; break;
    case 9: value->type = PMIX_DEVTYPE; value->data.devtype = number(c); break;
    default:
        value->type = PMIX_DATA_ARRAY;
        value->data.darray = once_in(c, 6) ? NULL : new_array(c, depth + 1);
    }
}

static void fill_infos(struct caller *c, pmix_info_t *infos, size_t count, int depth)
{
    memset(infos, 0, count * sizeof *infos);
    for (size_t i = 0; i < count; i++) {
        if (once_in(c, 16)) {
            /* A key without an end. */
            memset(infos[i].key, 'k', sizeof infos[i].key);
        } else {
            strcpy(infos[i].key, directive(c));
        }
        infos[i].flags = once_in(c, 4) ? PMIX_INFO_REQD : 0;
        fill_value(c, &infos[i].value, depth);
    }
}

/* Frees a value by hand: the library may not know its type. */
static void free_infos(pmix_info_t *infos, size_t count);

static void free_value(pmix_value_t *value)
{
    pmix_data_array_t *array = value->data.darray;
    switch (value->type) {
    case PMIX_STRING: free(value->data.string); break;
    case PMIX_PROC: free(value->data.proc); break;
    case PMIX_BYTE_OBJECT: free(value->data.bo.bytes); break;
    case PMIX_DATA_ARRAY:
        if (NULL != array && PMIX_INFO == array->type && NULL != array->array) {
            free_infos(array->array, array->size);
        }
        if (NULL != array) {
            free(array->array);
        }
        free(array);
        break;
    default: break;
    }
}

static void free_infos(pmix_info_t *infos, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free_value(&infos[i].value);
    }
}

/* Infos of a call. The first one is a time limit, so that nothing waits for other procs for long. */
struct infos {
    pmix_info_t *first, all[MAX_INFOS];
    size_t count, made;
};

static struct infos *new_infos(struct caller *c, struct infos *infos)
{
    int limit = 1;
    memset(infos, 0, sizeof *infos);
    infos->made = 1 + below(c, MAX_INFOS);
    fill_infos(c, infos->all, infos->made, 0);
    free_value(&infos->all[0].value);
    memset(&infos->all[0], 0, sizeof infos->all[0]);
    strcpy(infos->all[0].key, PMIX_TIMEOUT);
    infos->all[0].value.type = PMIX_INT;
    infos->all[0].value.data.integer = limit;
    infos->first = infos->all;
    infos->count = infos->made;
    if (once_in(c, 12)) {
        /* A count without infos. */
        infos->first = NULL;
    }
    return infos;
}

static pmix_status_t done_with(struct infos *infos, pmix_status_t status)
{
    free_infos(infos->all, infos->made);
    return status;
}

/* Procs of a call. */
struct procs {
    pmix_proc_t *first, all[3];
    size_t count;
};

static struct procs *new_procs(struct caller *c, struct procs *procs)
{
    procs->count = below(c, 4);
    procs->first = once_in(c, 8) ? NULL : procs->all;
    for (size_t i = 0; i < procs->count; i++) {
        fill_proc(c, &procs->all[i]);
    }
    return procs;
}

/* ---- callbacks ----------------------------------------------------------- */

static void on_done(pmix_status_t status, void *object) { (void) status, (void) object; }

static void on_value(pmix_status_t status, pmix_value_t *value, void *object)
{
    (void) status, (void) value, (void) object;
}

static void on_infos(pmix_status_t status, pmix_info_t *infos, size_t ninfos, void *object, pmix_release_cbfunc_t release,
                     void *released)
{
    (void) status, (void) infos, (void) ninfos, (void) object;
    if (NULL != release) {
        release(released);
    }
}

static void on_data(pmix_status_t status, pmix_pdata_t *data, size_t ndata, void *object)
{
    (void) status, (void) data, (void) ndata, (void) object;
}

static void on_spawned(pmix_status_t status, pmix_nspace_t nspace, void *object)
{
    (void) status, (void) nspace, (void) object;
}

static void on_distances(pmix_status_t status, pmix_device_distance_t *distances, size_t count, void *object,
                         pmix_release_cbfunc_t release, void *released)
{
    (void) status, (void) distances, (void) count, (void) object;
    if (NULL != release) {
        release(released);
    }
}

static void on_credential(pmix_status_t status, pmix_byte_object_t *credential, pmix_info_t *infos, size_t ninfos,
                          void *object)
{
    (void) status, (void) credential, (void) infos, (void) ninfos, (void) object;
}

static void on_validation(pmix_status_t status, pmix_info_t *infos, size_t ninfos, void *object)
{
    (void) status, (void) infos, (void) ninfos, (void) object;
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                      pmix_info_t *infos, size_t ninfos)
{
    (void) id, (void) channel, (void) source, (void) bytes, (void) infos, (void) ninfos;
}

static void on_registered(pmix_status_t status, size_t id, void *object) { (void) status, (void) id, (void) object; }

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *chain)
{
    (void) id, (void) source, (void) results, (void) nresults;
    done(PMIX_EVENT_NO_ACTION_TAKEN, 0 == code % 2 ? infos : NULL, 0 == code % 2 ? ninfos : 0, on_done, NULL, chain);
    if (0 == code % 3) {
        /* One that completes twice. */
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, chain);
    }
}

/* ---- calls --------------------------------------------------------------- */

static pmix_status_t call_put(struct caller *c)
{
    static const pmix_scope_t scopes[] = {PMIX_GLOBAL, PMIX_LOCAL, PMIX_REMOTE, PMIX_INTERNAL, 77};
    pmix_value_t value;
    fill_value(c, &value, 0);
    pmix_status_t status = PMIx_Put(scopes[below(c, 5)], key(c), once_in(c, 8) ? NULL : &value);
    free_value(&value);
    return status;
}

static pmix_status_t call_store(struct caller *c)
{
    pmix_proc_t proc;
    pmix_value_t value;
    fill_proc(c, &proc);
    fill_value(c, &value, 0);
    pmix_status_t status = PMIx_Store_internal(once_in(c, 8) ? NULL : &proc, key(c), once_in(c, 8) ? NULL : &value);
    free_value(&value);
    return status;
}

static pmix_status_t call_commit(struct caller *c) { (void) c; return PMIx_Commit(); }

static pmix_status_t call_get(struct caller *c)
{
    struct infos infos;
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    fill_proc(c, &proc);
    new_infos(c, &infos);
    strcpy(infos.all[0].key, once_in(c, 2) ? PMIX_OPTIONAL : PMIX_IMMEDIATE);
    infos.all[0].value.type = PMIX_BOOL;
    infos.all[0].value.data.flag = true;
    if (once_in(c, 2)) {
        return done_with(&infos, PMIx_Get_nb(once_in(c, 8) ? NULL : &proc, key(c), infos.first, infos.count,
                                             once_in(c, 8) ? NULL : on_value, NULL));
    }
    pmix_status_t status = PMIx_Get(once_in(c, 8) ? NULL : &proc, key(c), infos.first, infos.count,
                                    once_in(c, 8) ? NULL : &value);
    if (NULL != value) {
        PMIX_VALUE_RELEASE(value);
    }
    return done_with(&infos, status);
}

static pmix_status_t call_fence(struct caller *c)
{
    struct infos infos;
    struct procs procs;
    new_infos(c, &infos);
    if (once_in(c, 2)) {
        return done_with(&infos, PMIx_Fence(&me, 1, infos.first, infos.count));
    }
    new_procs(c, &procs);
    return done_with(&infos, PMIx_Fence_nb(procs.first, procs.count, infos.first, infos.count,
                                           once_in(c, 8) ? NULL : on_done, NULL));
}

static pmix_status_t call_connect(struct caller *c)
{
    struct infos infos;
    struct procs procs;
    new_infos(c, &infos);
    new_procs(c, &procs);
    switch (below(c, 4)) {
    case 0: return done_with(&infos, PMIx_Connect(&me, 1, infos.first, infos.count));
    case 1: return done_with(&infos, PMIx_Disconnect(&me, 1, infos.first, infos.count));
    case 2:
        return done_with(&infos,
                         PMIx_Connect_nb(procs.first, procs.count, infos.first, infos.count, on_done, NULL));
    default:
        return done_with(&infos,
                         PMIx_Disconnect_nb(procs.first, procs.count, infos.first, infos.count, on_done, NULL));
    }
}

static pmix_status_t call_publish(struct caller *c)
{
    struct infos infos;
    new_infos(c, &infos);
    if (once_in(c, 2)) {
        return done_with(&infos, PMIx_Publish(infos.first, infos.count));
    }
    return done_with(&infos, PMIx_Publish_nb(infos.first, infos.count, once_in(c, 8) ? NULL : on_done, NULL));
}

static pmix_status_t call_lookup(struct caller *c)
{
    struct infos infos;
    pmix_pdata_t data[2];
    char *keys[] = {"test.a", "test.b", NULL};
    memset(data, 0, sizeof data);
    strcpy(data[0].key, "test.a");
    memset(data[1].key, 'k', sizeof data[1].key);
    new_infos(c, &infos);
    switch (below(c, 4)) {
    case 0: {
        size_t count = below(c, 3);
        pmix_status_t status = PMIx_Lookup(once_in(c, 8) ? NULL : data, count, infos.first, infos.count);
        PMIX_VALUE_DESTRUCT(&data[0].value);
        PMIX_VALUE_DESTRUCT(&data[1].value);
        return done_with(&infos, status);
    }
    case 1:
        return done_with(&infos, PMIx_Lookup_nb(once_in(c, 8) ? NULL : keys, infos.first, infos.count,
                                                once_in(c, 8) ? NULL : on_data, NULL));
    case 2: return done_with(&infos, PMIx_Unpublish(once_in(c, 8) ? NULL : keys, infos.first, infos.count));
    default:
        return done_with(&infos, PMIx_Unpublish_nb(keys, infos.first, infos.count, once_in(c, 8) ? NULL : on_done, NULL));
    }
}

static pmix_status_t call_resolve(struct caller *c)
{
    static const char *const nspaces[] = {NULL, "", "nowhere", me.nspace, LONG_TEXT};
    const char *nspace = nspaces[below(c, 5)];
    pmix_proc_t *procs = NULL;
    char *nodes = NULL;
    size_t count = 0;
    pmix_status_t status;
    if (once_in(c, 2)) {
        status = PMIx_Resolve_peers(text(c), nspace, once_in(c, 8) ? NULL : &procs, once_in(c, 8) ? NULL : &count);
    } else {
        status = PMIx_Resolve_nodes(nspace, once_in(c, 8) ? NULL : &nodes);
    }
    free(procs);
    free(nodes);
    return status;
}

static pmix_status_t call_query(struct caller *c)
{
    struct infos infos, qualifiers;
    char *keys[] = {PMIX_QUERY_NAMESPACES, PMIX_QUERY_PROC_TABLE, PMIX_QUERY_MEMORY_USAGE, "test.a", NULL};
    pmix_query_t queries[2];
    pmix_info_t *results = NULL;
    size_t count = 0;
    memset(queries, 0, sizeof queries);
    new_infos(c, &infos);
    new_infos(c, &qualifiers);
    queries[0].keys = once_in(c, 8) ? NULL : &keys[below(c, 5)];
    queries[0].qualifiers = qualifiers.first;
    queries[0].nqual = qualifiers.count;
    pmix_status_t status;
    size_t nqueries = below(c, 3);
    switch (below(c, 4)) {
    case 0:
        /* Without a place for the count the results could not be freed. */
        status = once_in(c, 8) ? PMIx_Query_info(queries, nqueries, NULL, NULL)
                               : PMIx_Query_info(once_in(c, 8) ? NULL : queries, nqueries, &results, &count);
        break;
    case 1: status = PMIx_Query_info_nb(queries, nqueries, once_in(c, 8) ? NULL : on_infos, NULL); break;
    case 2: status = PMIx_Allocation_request((pmix_alloc_directive_t) below(c, 9), infos.first, infos.count, &results,
                                             &count);
            break;
    default:
        status = PMIx_Allocation_request_nb((pmix_alloc_directive_t) below(c, 9), infos.first, infos.count, on_infos,
                                            NULL);
    }
    if (NULL != results && count > 0) {
        PMIX_INFO_FREE(results, count);
    }
    done_with(&qualifiers, status);
    return done_with(&infos, status);
}

static pmix_status_t call_log(struct caller *c)
{
    struct infos data, directives;
    new_infos(c, &data);
    new_infos(c, &directives);
    pmix_status_t status = once_in(c, 2)
                               ? PMIx_Log(data.first, data.count, directives.first, directives.count)
                               : PMIx_Log_nb(data.first, data.count, directives.first, directives.count,
                                             once_in(c, 8) ? NULL : on_done, NULL);
    done_with(&data, status);
    return done_with(&directives, status);
}

static pmix_status_t call_control(struct caller *c)
{
    struct infos infos, monitor;
    struct procs procs;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    new_infos(c, &infos);
    new_infos(c, &monitor);
    new_procs(c, &procs);
    const pmix_info_t *watched = once_in(c, 8) ? NULL : &monitor.all[monitor.made - 1];
    switch (below(c, 4)) {
    case 0: status = PMIx_Job_control(procs.first, procs.count, infos.first, infos.count, &results, &count); break;
    case 1: status = PMIx_Job_control_nb(procs.first, procs.count, infos.first, infos.count, on_infos, NULL); break;
    case 2: status = PMIx_Process_monitor(watched, FIRST_CODE, infos.first, infos.count, &results, &count); break;
    default: status = PMIx_Process_monitor_nb(watched, FIRST_CODE, infos.first, infos.count, on_infos, NULL);
    }
    if (NULL != results && count > 0) {
        PMIX_INFO_FREE(results, count);
    }
    done_with(&monitor, status);
    return done_with(&infos, status);
}

static pmix_status_t call_register(struct caller *c)
{
    struct infos infos;
    pmix_status_t codes[2] = {FIRST_CODE + (int) below(c, 8), FIRST_CODE + (int) below(c, 8)};
    size_t *id = &c->ids[below(c, 4)];
    new_infos(c, &infos);
    PMIx_Deregister_event_handler(*id, once_in(c, 2) ? NULL : on_done, NULL);
    pmix_status_t status = PMIx_Register_event_handler(once_in(c, 8) ? NULL : codes, below(c, 3), infos.first, infos.count,
                                                       once_in(c, 8) ? NULL : on_event,
                                                       once_in(c, 4) ? on_registered : NULL, NULL);
    if (status > 0) {
        *id = (size_t) status;
        status = PMIX_SUCCESS;
    }
    return done_with(&infos, status);
}

static pmix_status_t call_notify(struct caller *c)
{
    struct infos infos;
    pmix_proc_t source;
    new_infos(c, &infos);
    fill_proc(c, &source);
    return done_with(&infos, PMIx_Notify_event(FIRST_CODE + (int) below(c, 8), once_in(c, 4) ? NULL : &source,
                                               (pmix_data_range_t) below(c, 10), infos.first, infos.count,
                                               once_in(c, 2) ? NULL : on_done, NULL));
}

static pmix_status_t call_group(struct caller *c)
{
    struct infos infos;
    struct procs procs;
    pmix_proc_t leader;
    pmix_info_t *results = NULL;
    size_t count = 0;
    const char *name = text(c);
    pmix_group_opt_t answer = once_in(c, 2) ? PMIX_GROUP_ACCEPT : PMIX_GROUP_DECLINE;
    pmix_status_t status;
    new_infos(c, &infos);
    new_procs(c, &procs);
    fill_proc(c, &leader);
    switch (below(c, 9)) {
    case 0:
        status = PMIx_Group_construct(name, &me, 1, infos.first, infos.count, once_in(c, 8) ? NULL : &results, &count);
        break;
    case 1:
        status = PMIx_Group_construct_nb(name, procs.first, procs.count, infos.first, infos.count, on_infos, NULL);
        break;
    case 2: status = PMIx_Group_destruct(name, infos.first, infos.count); break;
    case 3: status = PMIx_Group_destruct_nb(name, infos.first, infos.count, once_in(c, 8) ? NULL : on_done, NULL); break;
    case 4: status = PMIx_Group_leave(name, infos.first, infos.count); break;
    case 5: status = PMIx_Group_leave_nb(name, infos.first, infos.count, on_done, NULL); break;
    case 6:
        status = PMIx_Group_invite_nb(name, procs.first, procs.count, infos.first, infos.count, on_infos, NULL);
        break;
    case 7:
        status = PMIx_Group_join_nb(name, once_in(c, 4) ? NULL : &leader, answer, infos.first, infos.count,
                                    once_in(c, 8) ? NULL : on_infos, NULL);
        break;
    default: status = PMIx_Group_construct(name, NULL, 0, NULL, 0, &results, &count);
    }
    if (NULL != results && count > 0) {
        PMIX_INFO_FREE(results, count);
    }
    return done_with(&infos, status);
}

/* No application that could start. */
static pmix_status_t call_spawn(struct caller *c)
{
    struct infos infos;
    pmix_app_t apps[2];
    pmix_nspace_t nspace;
    char *argv[] = {"", NULL};
    memset(apps, 0, sizeof apps);
    apps[0].argv = once_in(c, 2) ? NULL : argv;
    apps[0].maxprocs = (int) below(c, 3) - 1;
    apps[0].ninfo = below(c, 2);
    new_infos(c, &infos);
    if (once_in(c, 2)) {
        return done_with(&infos, PMIx_Spawn(infos.first, infos.count, once_in(c, 8) ? NULL : apps, below(c, 3), nspace));
    }
    return done_with(&infos, PMIx_Spawn_nb(infos.first, infos.count, once_in(c, 8) ? NULL : apps, below(c, 3),
                                           once_in(c, 8) ? NULL : on_spawned, NULL));
}

static pmix_status_t call_credential(struct caller *c)
{
    struct infos infos;
    pmix_byte_object_t credential = {NULL, 0}, odd = {once_in(c, 2) ? NULL : "abc", below(c, 4)};
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    new_infos(c, &infos);
    switch (below(c, 4)) {
    case 0: status = PMIx_Get_credential(infos.first, infos.count, once_in(c, 8) ? NULL : &credential); break;
    case 1:
        status = PMIx_Get_credential_nb(infos.first, infos.count, once_in(c, 8) ? NULL : on_credential, NULL);
        break;
    case 2:
        status = PMIx_Validate_credential(once_in(c, 8) ? NULL : &odd, infos.first, infos.count, &results, &count);
        break;
    default: status = PMIx_Validate_credential_nb(&odd, infos.first, infos.count, on_validation, NULL);
    }
    free(credential.bytes);
    if (NULL != results && count > 0) {
        PMIX_INFO_FREE(results, count);
    }
    return done_with(&infos, status);
}

static pmix_status_t call_iof(struct caller *c)
{
    struct infos infos;
    struct procs procs;
    pmix_byte_object_t bytes = {once_in(c, 4) ? NULL : "ab", 2};
    pmix_status_t status;
    new_infos(c, &infos);
    new_procs(c, &procs);
    switch (below(c, 3)) {
    case 0:
        status = PMIx_IOF_pull(procs.first, procs.count, infos.first, infos.count, (pmix_iof_channel_t) below(c, 16),
                               once_in(c, 8) ? NULL : on_output, once_in(c, 2) ? NULL : on_registered, NULL);
        status = status > 0 ? PMIx_IOF_deregister((size_t) status, NULL, 0, NULL, NULL) : status;
        break;
    case 1: status = PMIx_IOF_deregister(below(c, 9), infos.first, infos.count, once_in(c, 2) ? NULL : on_done, NULL); break;
    default:
        status = PMIx_IOF_push(procs.first, procs.count, once_in(c, 8) ? NULL : &bytes, infos.first, infos.count,
                               once_in(c, 2) ? NULL : on_done, NULL);
    }
    return done_with(&infos, status);
}

static pmix_status_t call_fabric(struct caller *c)
{
    struct infos infos;
    pmix_fabric_t fabric;
    memset(&fabric, 0, sizeof fabric);
    new_infos(c, &infos);
    pmix_fabric_t *at = once_in(c, 8) ? NULL : &fabric;
    pmix_status_t status;
    switch (below(c, 3)) {
    case 0: status = PMIx_Fabric_register(at, infos.first, infos.count); break;
    case 1: status = PMIx_Fabric_update(at); break;
    default: status = PMIx_Fabric_deregister(at);
    }
    if (NULL != fabric.info) {
        PMIX_INFO_FREE(fabric.info, fabric.ninfo);
    }
    return done_with(&infos, status);
}

static pmix_status_t call_topology(struct caller *c)
{
    struct infos infos;
    pmix_topology_t topology = {NULL, NULL};
    pmix_cpuset_t cpuset = {NULL, NULL}, parsed = {NULL, NULL};
    pmix_device_distance_t *distances = NULL;
    size_t count = 0;
    pmix_locality_t locality;
    pmix_status_t status;
    new_infos(c, &infos);
    switch (below(c, 6)) {
    case 0: status = PMIx_Load_topology(once_in(c, 8) ? NULL : &topology); break;
    case 1: status = PMIx_Get_cpuset(once_in(c, 8) ? NULL : &cpuset, (pmix_bind_envelope_t) below(c, 3)); break;
    case 2: status = PMIx_Parse_cpuset_string(once_in(c, 4) ? "hwloc:0" : text(c), once_in(c, 8) ? NULL : &parsed); break;
    case 3: status = PMIx_Get_relative_locality("hwloc:SK0:CR0", text(c), once_in(c, 8) ? NULL : &locality); break;
    case 4:
        status = PMIx_Compute_distances(once_in(c, 4) ? &topology : NULL, once_in(c, 4) ? &cpuset : NULL, infos.first,
                                        infos.count, once_in(c, 8) ? NULL : &distances, once_in(c, 8) ? NULL : &count);
        break;
    default:
        status = PMIx_Compute_distances_nb(NULL, NULL, infos.first, infos.count, once_in(c, 8) ? NULL : on_distances, NULL);
    }
    if (NULL != distances && count > 0) {
        PMIX_DEVICE_DIST_FREE(distances, count);
    } else {
        free(distances);
    }
    PMIx_Topology_destruct(&topology);
    PMIx_Cpuset_destruct(&cpuset);
    PMIx_Cpuset_destruct(&parsed);
    return done_with(&infos, status);
}

static pmix_status_t call_tool(struct caller *c)
{
    struct infos infos;
    pmix_proc_t server, *servers = NULL;
    size_t count = 0;
    pmix_status_t status;
    fill_proc(c, &server);
    new_infos(c, &infos);
    switch (below(c, 3)) {
    case 0: status = PMIx_tool_get_servers(once_in(c, 8) ? NULL : &servers, once_in(c, 8) ? NULL : &count); break;
    case 1: status = PMIx_tool_set_server(once_in(c, 8) ? NULL : &server, infos.first, infos.count); break;
    default: status = PMIx_tool_disconnect(once_in(c, 8) ? NULL : &server);
    }
    free(servers);
    return done_with(&infos, status);
}

static pmix_status_t (*const CALLS[])(struct caller *) = {
    call_put, call_store, call_commit, call_get, call_fence, call_connect, call_publish, call_lookup, call_resolve,
    call_query, call_log, call_control, call_register, call_notify, call_group, call_spawn, call_credential, call_iof,
    call_fabric, call_topology, call_tool,
};

enum { NCALLS = sizeof CALLS / sizeof *CALLS };

/* ---- phases -------------------------------------------------------------- */

static size_t calls;
static uint64_t seed;

/* Returns the number of calls that succeeded. */
static size_t call_all(uint64_t own_seed)
{
    struct caller caller = {.state = own_seed, .ids = {4711, 4711, 4711, 4711}};
    size_t succeeded = 0;
    for (size_t i = 0; i < calls; i++) {
        succeeded += PMIX_SUCCESS == CALLS[below(&caller, NCALLS)](&caller);
    }
    return succeeded;
}

static void *work(void *index)
{
    /* Inits and finalizes that count. */
    bool counts = 0 == (size_t) index % 2 && PMIX_SUCCESS == PMIx_Init(NULL, NULL, 0);
    size_t succeeded = call_all(seed + 1000 * me.rank + (size_t) index);
    if (counts) {
        PMIx_Finalize(NULL, 0);
    }
    return (void *) succeeded;
}

static void say_refused(const char *when, size_t succeeded)
{
    printf("rank %u: %s: %zu calls succeeded\n", me.rank, when, succeeded);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: random SEED CALLS THREADS [alone]\n");
        return EXIT_FAILURE;
    }
    seed = strtoull(argv[1], NULL, 10);
    calls = strtoull(argv[2], NULL, 10);
    size_t nthreads = strtoull(argv[3], NULL, 10), succeeded = 0;
    bool alone = NULL != argv[4];
    const char *rank = getenv("PMIX_RANK");
    me.rank = NULL == rank ? 0 : (pmix_rank_t) atoi(rank);
    /* Whatever hangs must end. */
    alarm(LONGEST_SECONDS + (unsigned) calls / 10);
    say_refused("before init", call_all(seed));
    pmix_status_t status;
    if (alone) {
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, PMIX_TOOL_DO_NOT_CONNECT, NULL, PMIX_BOOL);
        status = PMIx_tool_init(&me, &info, 1);
        PMIX_INFO_DESTRUCT(&info);
    } else {
        status = PMIx_Init(&me, NULL, 0);
    }
    if (PMIX_SUCCESS != status) {
        printf("rank %u: init: %d\n", me.rank, status);
        say_refused("without init", call_all(seed + 1));
        return EXIT_SUCCESS;
    }
    pthread_t threads[nthreads];
    for (size_t i = 0; i < nthreads; i++) {
        pthread_create(&threads[i], NULL, work, (void *) i);
    }
    for (size_t i = 0; i < nthreads; i++) {
        void *result;
        pthread_join(threads[i], &result);
        succeeded += (size_t) result;
    }
    printf("rank %u: initialized: %s\n", me.rank, succeeded > 0 ? "some calls succeeded" : "no call succeeded");
    fflush(stdout);
    status = alone ? PMIx_tool_finalize() : PMIx_Finalize(NULL, 0);
    printf("rank %u: finalize: %d\n", me.rank, status);
    say_refused("after finalize", call_all(seed + 2));
    return EXIT_SUCCESS;
}
