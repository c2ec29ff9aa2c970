/* Operations of a job are measured in turns. Jobs of several servers run at once and
 * measure one after the other, for some milliseconds each, so that changing load of the machine
 * disturbs all alike.
 *
 * Included by client.c after its declarations of the job; not a program. */
#ifndef TURNS_H
#define TURNS_H

/* Returns the number of turns: a single turn, without waiting, if none are requested. */
static uint32_t turns_measured(void) { return 0 == turns ? 1 : turns; }

/* Allocates the times of each turn. */
static double *of_each_turn(void) { return calloc(turns_measured(), sizeof(double)); }

/* Allocates the times of each measured repetition of all turns. */
static double *of_each_repetition(void) { return calloc((size_t) turns_measured() * count, sizeof(double)); }

/* Rank 0 waits for the turn of its job, and the other ranks for rank 0. */
static void begin_turn(void)
{
    if (0 == me.rank && 0 != turns) {
        await_turn(&arrivals);
    }
}

static void end_turn(void)
{
    if (0 == me.rank && 0 != turns) {
        turn_is_over(&arrivals);
    }
}

/* No proc continues before the other jobs had their turns. */
static void end_turns(void)
{
    begin_turn();
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

/* Sends the time of each turn in nanoseconds to rank 0, which stores the mean of all procs. A proc
 * that is last at one call may be first at the next, so each waits longer at one of them. */
static void average_over_procs(double *times)
{
    size_t bytes = turns_measured() * sizeof *times;
    need_bytes(pwrite(arrivals.times, times, bytes, (off_t) (me.rank * bytes)), bytes, "times");
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        double *others = of_each_turn();
        for (uint32_t rank = 1; rank < job_size; rank++) {
            need_bytes(pread(arrivals.times, others, bytes, (off_t) (rank * bytes)), bytes, "times");
            for (uint32_t turn = 0; turn < turns_measured(); turn++) {
                times[turn] += others[turn];
            }
        }
        for (uint32_t turn = 0; turn < turns_measured(); turn++) {
            times[turn] /= job_size;
        }
        free(others);
    }
    /* No proc writes further times until rank 0 has read these. */
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

/* Prints the median time of the turns in nanoseconds, and sorts `times`. */
static void print_middle(const char *name, double *times)
{
    qsort(times, turns_measured(), sizeof *times, ascending);
    printf("%s %.3f\n", name, times[turns_measured() / 2] / 1e3);
}

#endif
