/* Groups in host.c. All members are on this node and have called when the library makes the upcall.
 * Only their contributions are returned, and groups are numbered.
 *
 * Included by host.c; not a program. The library calls this from one thread. */
#ifndef HOST_GROUPS_H
#define HOST_GROUPS_H

#include <stdlib.h>

#include <pmix_server.h>

#include "host_services.h"

struct formed {
    pmix_info_t infos[3];
    size_t ninfos;
};

/* The library reads the answer later, and calls back when it has. */
static void forget_formed(void *argument)
{
    struct formed *formed = argument;
    for (size_t i = 0; i < formed->ninfos; i++) {
        PMIX_INFO_DESTRUCT(&formed->infos[i]);
    }
    free(formed);
}

static pmix_status_t group(pmix_group_operation_t operation, char name[], const pmix_proc_t procs[], size_t nprocs,
                           const pmix_info_t directives[], size_t ndirectives, pmix_info_cbfunc_t done, void *data)
{
    static size_t context_ids;
    (void) name;
    if (PMIX_GROUP_CONSTRUCT != operation) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    struct formed *formed = calloc(1, sizeof *formed);
    for (size_t i = 0; i < ndirectives; i++) {
        if (PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_ENDPT_DATA)) {
            PMIX_INFO_XFER(&formed->infos[formed->ninfos++], &directives[i]);
            break;
        }
    }
    /* From 5.0 on the library passes the membership in the host's answer to its clients. */
    pmix_data_array_t members = {.type = PMIX_PROC, .size = nprocs, .array = (void *) procs};
    PMIX_INFO_LOAD(&formed->infos[formed->ninfos++], PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
    if (is_true(directives, ndirectives, PMIX_GROUP_ASSIGN_CONTEXT_ID)) {
        context_ids++;
        PMIX_INFO_LOAD(&formed->infos[formed->ninfos++], PMIX_GROUP_CONTEXT_ID, &context_ids, PMIX_SIZE);
    }
    done(PMIX_SUCCESS, formed->infos, formed->ninfos, data, forget_formed, formed);
    return PMIX_SUCCESS;
}

#endif
