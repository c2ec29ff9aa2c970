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

/* Prints the median and the 99th percentile of this number of times in nanoseconds, and sorts
 * them. */
static void print_times(double *times, size_t number)
{
    qsort(times, number, sizeof *times, ascending);
    printf("us %.3f\nus_p99 %.3f\n", times[number / 2] / 1e3, times[(size_t) ((double) number * 0.99)] / 1e3);
}

#endif
