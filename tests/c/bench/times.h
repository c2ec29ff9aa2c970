/* Many times, told as two.
 *
 * Included by client.c, behind what that says of the measurement; not a program. */
#ifndef TIMES_H
#define TIMES_H

static int ascending(const void *left, const void *right)
{
    double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

/* The times of the measured ones, in nanoseconds; `times` is sorted by this. */
static void print_times(double *times)
{
    qsort(times, count, sizeof *times, ascending);
    printf("us %.3f\nus_p99 %.3f\n", times[count / 2] / 1e3, times[(size_t) (count * 0.99)] / 1e3);
}

#endif
