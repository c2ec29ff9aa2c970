/* Cycles of the library within a process, starts of processes, and the memory of a process.
 *
 * Included by client.c after its declarations of the job; not a program. */
#ifndef PROCESSES_H
#define PROCESSES_H
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* Path of this program. */
static char *program;

/* ---- cycles and starts -------------------------------------------------- */

static void initialize_and_finalize(void)
{
    need("init", PMIx_Init(&me, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
}

/* The process takes the place of this one, which has finalized. */
static void start_process(void)
{
    char *arguments[] = {program, "nothing", "0", "0", (char *) arrivals.dir, NULL};
    pid_t process;
    int status = posix_spawn(&process, program, NULL, NULL, arguments, environ);
    if (0 == status && process == waitpid(process, &status, 0) && WIFEXITED(status) && 0 == WEXITSTATUS(status)) {
        return;
    }
    fprintf(stderr, "rank %u: the started process failed: %d\n", me.rank, status);
    _exit(EXIT_FAILURE);
}

/* Measures an operation that needs the library to be finalized. */
static void repeat_finalized(void (*operation)(void))
{
    need("finalize", PMIx_Finalize(NULL, 0));
    double *times = of_each_repetition(), *next = times;
    for (uint32_t turn = 0; turn < turns_measured(); turn++) {
        begin_turn();
        for (uint32_t i = 0; i < warm + count; i++) {
            uint64_t start = now_ns();
            operation();
            if (i >= warm) {
                *next++ = (double) (now_ns() - start);
            }
        }
        end_turn();
    }
    need("init", PMIx_Init(&me, NULL, 0));
    print_times(times, (size_t) (next - times));
    free(times);
    end_turns();
}

static void cycle(void) { repeat_finalized(initialize_and_finalize); }

static void start_processes(void) { repeat_finalized(start_process); }

/* ---- memory -------------------------------------------------------------- */

/* Time in microseconds between two reads of the memory, and the most reads. */
#define MEMORY_INTERVAL 200000
#define MEMORY_READS 100

struct memory {
    double private_kib, proportional_kib;
};

static double line_of(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    if (NULL == line) {
        fprintf(stderr, "smaps_rollup has no line %s\n", name);
        _exit(EXIT_FAILURE);
    }
    return atof(line + strlen(name));
}

/* Uses no memory that it did not use before. */
static struct memory memory_in_use(void)
{
    static char text[8192];
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length < 0) {
        perror("/proc/self/smaps_rollup");
        _exit(EXIT_FAILURE);
    }
    close(file);
    text[length] = '\0';
    return (struct memory) {line_of(text, "\nPrivate_Clean:") + line_of(text, "\nPrivate_Dirty:"),
                            line_of(text, "\nPss:")};
}

/* Waits until the memory no longer changes. */
static struct memory memory_at_rest(void)
{
    struct memory before, now = memory_in_use();
    for (uint32_t reads = 0; reads < MEMORY_READS; reads++) {
        before = now;
        usleep(MEMORY_INTERVAL);
        now = memory_in_use();
        if (now.private_kib == before.private_kib && now.proportional_kib == before.proportional_kib) {
            break;
        }
    }
    return now;
}

/* The printed memory is the mean of all procs. All are connected while it is read, since each of
 * them takes part in the fences of the mean. */
static void memory(void)
{
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    struct memory at_rest = memory_at_rest();
    average_over_procs(&at_rest.private_kib);
    average_over_procs(&at_rest.proportional_kib);
    if (0 == me.rank) {
        printf("private_kib %.1f\nproportional_kib %.1f\n", at_rest.private_kib, at_rest.proportional_kib);
    }
}

#endif
