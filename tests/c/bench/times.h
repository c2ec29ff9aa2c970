/* Summary of many times as two numbers.
 *
 * Included by client.c after its declarations of the measurement; not a program. */
#ifndef TIMES_H
#define TIMES_H

static int ascending(const void *left, const void *right)
{
    double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

/* Prints the median and the 99th percentile of the measured times in nanoseconds, and sorts
 * `times`. */
static void print_times(double *times)
{
    qsort(times, count, sizeof *times, ascending);
    printf("us %.3f\nus_p99 %.3f\n", times[count / 2] / 1e3, times[(size_t) (count * 0.99)] / 1e3);
}

#endif
