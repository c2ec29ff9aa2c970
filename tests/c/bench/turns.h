/* What all procs of a job do together is measured in turns, so that jobs of several servers, which are all there at once, measure
 * one after the other for some milliseconds each: whatever else the machine does disturbs all of them alike.
 *
 * Included by client.c, behind what that says of the job; not a program. */
#ifndef TURNS_H
#define TURNS_H

/* One that nobody is waited for, where nothing is said of turns. */
static uint32_t turns_measured(void) { return 0 == turns ? 1 : turns; }

/* For what is measured in each. */
static double *of_each_turn(void) { return calloc(turns_measured(), sizeof(double)); }

/* Rank 0 waits for the turn of its job, and the others for rank 0. */
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

/* Nobody goes before the other jobs have had their turns. */
static void end_turns(void)
{
    begin_turn();
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

/* Tells rank 0 what each turn took here, in nanoseconds. To rank 0 they become the mean of all procs: who comes last to one call may be
 * the first at the next, and so each waits longer for one of them. */
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
    /* Until it has read them nobody writes others. */
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

/* The middle one of the turns, of nanoseconds; `times` is sorted by this. */
static void print_middle(const char *name, double *times)
{
    qsort(times, turns_measured(), sizeof *times, ascending);
    printf("%s %.3f\n", name, times[turns_measured() / 2] / 1e3);
}

#endif
