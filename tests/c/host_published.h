/* Published data in host.c: a bounded list in memory. Ranges, persistence and waiting are ignored.
 * On one node with one job they do not matter to a proc that looks up data which it knows to exist.
 *
 * Included by host.c; not a program. The library calls these from one thread. */
#ifndef HOST_PUBLISHED_H
#define HOST_PUBLISHED_H

#include <pmix_server.h>

#define MAX_PUBLISHED 64

static pmix_pdata_t published[MAX_PUBLISHED];
static size_t npublished;

static size_t find_published(const char *key)
{
    size_t i = 0;
    while (i < npublished && !PMIX_CHECK_KEY(&published[i], key)) {
        i++;
    }
    return i;
}

/* The Standard's own keys among the infos are directives, not data. */
static bool is_directive(const pmix_info_t *info) { return 0 == strncmp(info->key, "pmix.", 5); }

static pmix_status_t publish_one(const pmix_proc_t *proc, const pmix_info_t *info)
{
    if (npublished > find_published(info->key)) {
        return PMIX_ERR_DUPLICATE_KEY;
    }
    if (MAX_PUBLISHED == npublished) {
        return PMIX_ERR_OUT_OF_RESOURCE;
    }
    pmix_pdata_t *entry = &published[npublished++];
    PMIX_PDATA_CONSTRUCT(entry);
    entry->proc = *proc;
    PMIX_LOAD_KEY(entry->key, info->key);
    pmix_status_t rc;
    PMIX_VALUE_XFER_DIRECT(rc, &entry->value, &info->value);
    return rc;
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos, pmix_op_cbfunc_t done,
                             void *data)
{
    (void) done, (void) data;
    for (size_t i = 0; i < ninfos; i++) {
        pmix_status_t rc = is_directive(&infos[i]) ? PMIX_SUCCESS : publish_one(proc, &infos[i]);
        if (PMIX_SUCCESS != rc) {
            return rc;
        }
    }
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t infos[], size_t ninfos,
                            pmix_lookup_cbfunc_t done, void *data)
{
    (void) proc, (void) infos, (void) ninfos;
    pmix_pdata_t found[MAX_PUBLISHED]; /* borrowed: the library copies them before `done` returns */
    size_t nfound = 0;
    for (size_t k = 0; NULL != keys[k] && nfound < MAX_PUBLISHED; k++) {
        size_t i = find_published(keys[k]);
        if (i < npublished) {
            found[nfound++] = published[i];
        }
    }
    if (0 == nfound) {
        return PMIX_ERR_NOT_FOUND;
    }
    done(PMIX_SUCCESS, found, nfound, data);
    return PMIX_SUCCESS;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t infos[], size_t ninfos,
                               pmix_op_cbfunc_t done, void *data)
{
    (void) proc, (void) infos, (void) ninfos, (void) done, (void) data;
    for (size_t k = 0; NULL != keys && NULL != keys[k]; k++) {
        size_t i = find_published(keys[k]);
        if (i < npublished) {
            PMIX_PDATA_DESTRUCT(&published[i]);
            published[i] = published[--npublished];
        }
    }
    return PMIX_OPERATION_SUCCEEDED;
}

#endif
