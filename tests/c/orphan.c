/* A host environment that ends without a finalization, and leaves a child that holds its descriptors
 * open, but for its output. It prints the process id of the child, which waits to be killed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

int main(void)
{
    static pmix_server_module_t module;
    pmix_status_t status = PMIx_server_init(&module, NULL, 0);
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "init: %s\n", PMIx_Error_string(status));
        return EXIT_FAILURE;
    }
    pid_t child = fork();
    if (0 == child) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        for (;;) {
            pause();
        }
    }
    printf("%d\n", (int) child);
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}
