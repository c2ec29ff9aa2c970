/* Logs an info that names no channel, then a line to stdout and one to stderr, and prints the
 * result of each request:
 *
 *     peal run -- target/c/payload
 */
#include "need.h"

static void log_one(const char *what, const char *key, const void *value, pmix_data_type_t type)
{
    pmix_info_t data;
    PMIX_INFO_LOAD(&data, key, value, type);
    pmix_status_t status = PMIx_Log(&data, 1, NULL, 0);
    printf("%s: %s (%d)\n", what, PMIx_Error_string(status), status);
    fflush(stdout);
    PMIX_INFO_DESTRUCT(&data);
}

int main(void)
{
    int progress = 5;
    need("init", PMIx_Init(&me, NULL, 0));
    log_one("payload", "app.progress", &progress, PMIX_INT);
    log_one("stdout", PMIX_LOG_STDOUT, "logged to stdout", PMIX_STRING);
    log_one("stderr", PMIX_LOG_STDERR, "logged to stderr", PMIX_STRING);
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
