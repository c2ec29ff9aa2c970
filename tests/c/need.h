/* Identity of a program, and its exit on errors. Included by programs; not a program. hello.c has
 * its own code for this, so that it can be read by itself. */
#ifndef NEED_H
#define NEED_H

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

/* Prints the failed call and exits: a proc can do nothing without its server. */
static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

#endif
