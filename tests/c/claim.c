/* Claims to be the proc that its environment names, and prints the result.
 *
 *     claim         initializes and finalizes
 *     claim fork    does so in a forked child, then itself
 *
 *     peal run -n 2 -- target/c/claim fork
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmix.h>

static int claim(const char *who)
{
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    char line[256];
    if (status != PMIX_SUCCESS) {
        snprintf(line, sizeof line, "%s: refused (%d)\n", who, status);
    } else {
        snprintf(line, sizeof line, "%s: admitted as rank %u\n", who, me.rank);
        PMIx_Finalize(NULL, 0);
    }
    return write(STDOUT_FILENO, line, strlen(line)) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            return claim("child");
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            return EXIT_FAILURE;
        }
    }
    return claim("proc");
}
