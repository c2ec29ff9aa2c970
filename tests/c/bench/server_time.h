/* Processor time of the server, which is the parent of each proc.
 *
 * Included by client.c after its declarations of the job; not a program. */
#ifndef SERVER_TIME_H
#define SERVER_TIME_H

/* Returns the processor time of the server, of all its threads, in nanoseconds. */
static uint64_t server_ns(void)
{
    clockid_t clock;
    struct timespec used;
    if (0 != clock_getcpuclockid(getppid(), &clock) || 0 != clock_gettime(clock, &used)) {
        fprintf(stderr, "rank %u: the processor time of the server is unknown\n", me.rank);
        _exit(EXIT_FAILURE);
    }
    return (uint64_t) used.tv_sec * 1000000000u + (uint64_t) used.tv_nsec;
}

/* Start of the measured repetitions of a turn. Only rank 0 knows the server's time. */
struct start {
    uint64_t at, server;
};

static struct start start_of_measurement(void)
{
    return (struct start) {.at = now_ns(), .server = 0 == me.rank ? server_ns() : 0};
}

/* Returns the time of a repetition in nanoseconds. */
static double time_since(struct start start) { return (double) (now_ns() - start.at) / count; }

/* Returns the processor time of the server for a repetition in nanoseconds, at rank 0. */
static double server_time_since(struct start start)
{
    return 0 == me.rank ? (double) (server_ns() - start.server) / count : 0;
}

/* Prints the median of the turns for a repetition, and for the part of each proc. Sorts `times`. */
static void print_server_time(double *times)
{
    print_middle("cpu_us", times);
    for (uint32_t turn = 0; turn < turns_measured(); turn++) {
        times[turn] /= job_size;
    }
    print_middle("proc_cpu_us", times);
}

#endif
