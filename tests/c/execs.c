/* A process that becomes another program after its init, with the process id that it had.
 *
 *     execs self     each proc becomes this program anew, which initializes again
 *     execs child    a forked child does, while its parent stays what it is
 *     execs other    a proc becomes a program without PMIx
 *
 *     peal run -n 2 -- execs self */
#include <pmix.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pmix_proc_t me;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("rank %u: ", me.rank);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void say_fence(const char *when)
{
    pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
    say("%s: fence: %s (%d)", when, PMIx_Error_string(status), status);
}

/* Begins the program again, with `again` as its argument. */
static void become(const char *self)
{
    execl(self, self, "again", (char *) NULL);
    perror(self);
    _exit(127);
}

static void begin(const char *when)
{
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    say("%s: init: %s (%d)", when, PMIx_Error_string(status), status);
    if (PMIX_SUCCESS != status) {
        _exit(EXIT_FAILURE);
    }
}

static int finish(const char *when)
{
    pmix_status_t status = PMIx_Finalize(NULL, 0);
    say("%s: finalize: %s (%d)", when, PMIx_Error_string(status), status);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (2 != argc) {
        fprintf(stderr, "usage: %s self|child|other\n", argv[0]);
        return 2;
    }
    me.rank = (pmix_rank_t) atoi(getenv("PMIX_RANK"));
    /* A server that never answers must not leave procs behind. */
    alarm(40);
    if (0 == strcmp(argv[1], "again")) {
        begin("again");
        say_fence("again");
        return finish("again");
    }
    begin("before");
    say_fence("before");
    if (0 == strcmp(argv[1], "self")) {
        become(argv[0]);
    }
    if (0 == strcmp(argv[1], "other")) {
        execlp("true", "true", (char *) NULL);
    }
    int ended = -1;
    pid_t child = fork();
    if (0 == child) {
        become(argv[0]);
    }
    waitpid(child, &ended, 0);
    say("the child ends with %d", WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended));
    say_fence("after");
    return finish("after");
}
