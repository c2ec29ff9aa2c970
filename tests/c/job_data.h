/* The data half of job.c: the server's data about the job, the values that each proc puts, and the
 * values that every proc then gets of every other.
 *
 * Included by job.c; not a program. */
#ifndef JOB_DATA_H
#define JOB_DATA_H

#include "say.h"

static uint32_t job_size;

/* Above the 4096 bytes from which some releases compress committed values. */
#define LONG_TEXT 6000

static void load_text(pmix_value_t *value, pmix_rank_t rank)
{
    char text[32];
    snprintf(text, sizeof text, "text of %u", rank);
    PMIX_VALUE_LOAD(value, text, PMIX_STRING);
}

static void load_long(pmix_value_t *value, pmix_rank_t rank)
{
    char text[LONG_TEXT + 1];
    for (size_t i = 0; i < LONG_TEXT; i++) {
        text[i] = (char) ('a' + (i * i + rank) % 26);
    }
    text[LONG_TEXT] = '\0';
    PMIX_VALUE_LOAD(value, text, PMIX_STRING);
}

static void load_number(pmix_value_t *value, pmix_rank_t rank)
{
    uint64_t number = UINT64_MAX - rank;
    PMIX_VALUE_LOAD(value, &number, PMIX_UINT64);
}

static void load_real(pmix_value_t *value, pmix_rank_t rank)
{
    double number = rank + 0.125;
    PMIX_VALUE_LOAD(value, &number, PMIX_DOUBLE);
}

static void load_bytes(pmix_value_t *value, pmix_rank_t rank)
{
    char bytes[] = {0, 1, 0x7f, (char) 0x80, (char) 0xff, (char) rank};
    pmix_byte_object_t object = {.bytes = bytes, .size = sizeof bytes};
    PMIX_VALUE_LOAD(value, &object, PMIX_BYTE_OBJECT);
}

static void load_procs(pmix_value_t *value, pmix_rank_t rank)
{
    value->type = PMIX_DATA_ARRAY;
    PMIX_DATA_ARRAY_CREATE(value->data.darray, 2, PMIX_PROC);
    pmix_proc_t *procs = value->data.darray->array;
    PMIX_LOAD_PROCID(&procs[0], me.nspace, rank);
    PMIX_LOAD_PROCID(&procs[1], me.nspace, PMIX_RANK_WILDCARD);
}

/* An array of infos, one of which is itself an array: the deepest form that programs use. */
static void load_nested(pmix_value_t *value, pmix_rank_t rank)
{
    value->type = PMIX_DATA_ARRAY;
    PMIX_DATA_ARRAY_CREATE(value->data.darray, 2, PMIX_INFO);
    pmix_info_t *infos = value->data.darray->array;
    PMIX_INFO_LOAD(&infos[0], "job.inner.rank", &rank, PMIX_PROC_RANK);
    PMIX_LOAD_KEY(infos[1].key, "job.inner.list");
    infos[1].value.type = PMIX_DATA_ARRAY;
    PMIX_DATA_ARRAY_CREATE(infos[1].value.data.darray, 3, PMIX_UINT32);
    uint32_t *numbers = infos[1].value.data.darray->array;
    for (uint32_t i = 0; i < 3; i++) {
        numbers[i] = rank * 1000 + i;
    }
}

/* Values that every proc puts. `load` makes the value of any rank, so that the reader of a peer's
 * value knows the expected one. */
static const struct item {
    const char *key;
    pmix_scope_t scope;
    void (*load)(pmix_value_t *value, pmix_rank_t rank);
} items[] = {
    {"job.text", PMIX_GLOBAL, load_text},     {"job.long", PMIX_GLOBAL, load_long},
    {"job.number", PMIX_LOCAL, load_number},  {"job.real", PMIX_GLOBAL, load_real},
    {"job.bytes", PMIX_GLOBAL, load_bytes},   {"job.procs", PMIX_GLOBAL, load_procs},
    {"job.nested", PMIX_GLOBAL, load_nested}, {"job.remote", PMIX_REMOTE, load_text},
};
#define ITEMS (sizeof items / sizeof items[0])

/* Prints the result of getting `key`; `expected` is the text of the expected value, or NULL if
 * `status` is expected. Keys of a proc are always requested by its rank, those of the job by the
 * wildcard. */
static void check_get(const char *how, const pmix_proc_t *proc, const char *key, const pmix_info_t *infos,
                      size_t ninfos, const char *expected, pmix_status_t status)
{
    char owner[16] = "job";
    if (PMIX_RANK_WILDCARD != proc->rank) {
        snprintf(owner, sizeof owner, "%u", proc->rank);
    }
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(proc, key, infos, ninfos, &value);
    if (PMIX_SUCCESS != rc) {
        say("get%s %s of %s: %s (%d)", how, key, owner, PMIx_Error_string(rc), rc);
        if (NULL != expected || rc != status) {
            miss("%s of %s should have been %s", key, owner, NULL != expected ? expected : PMIx_Error_string(status));
        }
        return;
    }
    char *text = value_text(value);
    say("get%s %s of %s: %s", how, key, owner, text);
    if (NULL == expected) {
        miss("%s of %s should have been %s", key, owner, PMIx_Error_string(status));
    } else if (0 != strcmp(text, expected)) {
        miss("%s of %s should have been %s", key, owner, expected);
    }
    free(text);
    PMIX_VALUE_RELEASE(value);
}

static pmix_proc_t proc_of(pmix_rank_t rank)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    return proc;
}

static pmix_rank_t next_rank(pmix_rank_t rank) { return (rank + 1) % job_size; }

/* The job size comes first because everything after it depends on it. */
static bool learn_job_size(void)
{
    pmix_proc_t job = proc_of(PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (PMIX_SUCCESS != rc || PMIX_UINT32 != value->type || value->data.uint32 < 2) {
        miss("a job size of at least 2 as uint32 (status %d)", rc);
        return false;
    }
    job_size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    say("job size: %" PRIu32, job_size);
    return true;
}

/* "0,1,...,N-1" in quotes: all procs of the job are on this node. */
static char *all_ranks_text(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (uint32_t rank = 0; rank < job_size; rank++) {
        fprintf(out, "%s%" PRIu32, 0 == rank ? "\"" : ",", rank);
    }
    fputc('"', out);
    fclose(out);
    return text;
}

static void check_hostname(void)
{
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &value);
    bool present = PMIX_SUCCESS == rc && PMIX_STRING == value->type && '\0' != value->data.string[0];
    say("hostname: %s", present ? "present" : "absent");
    if (!present) {
        miss("a host name (status %d)", rc);
    }
    if (NULL != value) {
        PMIX_VALUE_RELEASE(value);
    }
}

/* Data that the server has before any put. */
static void check_job_facts(void)
{
    pmix_proc_t job = proc_of(PMIX_RANK_WILDCARD);
    char local_rank[16];
    snprintf(local_rank, sizeof local_rank, "uint16 %u", me.rank);
    char *peers = all_ranks_text();
    check_get("", &job, PMIX_LOCAL_PEERS, NULL, 0, peers, PMIX_SUCCESS);
    check_get("", &me, PMIX_LOCAL_RANK, NULL, 0, local_rank, PMIX_SUCCESS);
    check_hostname();
    check_get("", &job, "job.absent", NULL, 0, NULL, PMIX_ERR_NOT_FOUND);
    check_get("", &job, "pmix.absent", NULL, 0, NULL, PMIX_ERR_NOT_FOUND);
    free(peers);
}

static void put_items(void)
{
    for (size_t i = 0; i < ITEMS; i++) {
        pmix_value_t value;
        PMIX_VALUE_CONSTRUCT(&value);
        items[i].load(&value, me.rank);
        say_status(items[i].key, PMIx_Put(items[i].scope, items[i].key, &value), PMIX_SUCCESS);
        PMIX_VALUE_DESTRUCT(&value);
    }
    say_status("commit", PMIx_Commit(), PMIX_SUCCESS);
}

/* Gets one item of one proc. Data of remote scope are hidden from procs of the same node, except
 * their owner. */
static void check_item(const char *how, pmix_rank_t rank, const struct item *item)
{
    pmix_proc_t proc = proc_of(rank);
    if (PMIX_REMOTE == item->scope && rank != me.rank) {
        check_get(how, &proc, item->key, NULL, 0, NULL, PMIX_ERR_NOT_FOUND);
        return;
    }
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    item->load(&value, rank);
    char *expected = value_text(&value);
    check_get(how, &proc, item->key, NULL, 0, expected, PMIX_SUCCESS);
    free(expected);
    PMIX_VALUE_DESTRUCT(&value);
}

/* Only rank 0 requests before the fence, and only for one proc, so that check_absent still finds
 * procs of which this one has no data. */
static bool is_asked_early(pmix_rank_t rank) { return 0 == me.rank && job_size - 1 == rank; }

/* Requests a value before any fence: the server has to hold the request until the other proc
 * commits. */
static void check_early_get(void)
{
    for (uint32_t rank = 0; rank < job_size; rank++) {
        if (is_asked_early(rank)) {
            check_item(" early", rank, &items[0]);
        }
    }
}

/* Prints the result of a fence; `collect` requests that the server exchanges the committed data. */
static void fence(const char *what, bool collect)
{
    pmix_proc_t job = proc_of(PMIX_RANK_WILDCARD);
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    say_status(what, PMIx_Fence(&job, 1, &info, 1), PMIX_SUCCESS);
}

/* The three ways not to wait for ever for a key that no proc has put. An optional get sends no
 * request. It does not even find a key that the peer has put, because with the `hash` store a fence
 * brings no data by itself. */
static void check_absent(void)
{
    pmix_proc_t next = proc_of(next_rank(me.rank));
    pmix_info_t info;
    int seconds = 1;
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    if (!is_asked_early(next.rank)) {
        check_get(" optional", &next, "job.text", &info, 1, NULL, PMIX_ERR_NOT_FOUND);
    }
    check_get(" optional", &next, "job.absent", &info, 1, NULL, PMIX_ERR_NOT_FOUND);
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
    check_get(" immediate", &next, "job.absent", &info, 1, NULL, PMIX_ERR_NOT_FOUND);
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    check_get(" timeout", &next, "job.absent", &info, 1, NULL, PMIX_ERR_TIMEOUT);
}

static void check_items(void)
{
    for (uint32_t rank = 0; rank < job_size; rank++) {
        for (size_t i = 0; i < ITEMS; i++) {
            check_item("", rank, &items[i]);
        }
    }
}

#endif
