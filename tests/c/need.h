/* Who a program is, and how it gives up. Included by programs; not a program. hello.c has its own, to be read by itself. */
#ifndef NEED_H
#define NEED_H

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

/* Says what failed and leaves: without its server a proc has nothing to do. */
static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

#endif
