/* Time of a fence of all procs of a job under any server, in microseconds:
 *
 *     fence_pmix COUNT WARM
 *
 * - fence_us: a fence without data, in a row of fences.
 * - exchange_us: put, commit and a fence that collects data, in a row of those.
 *
 * COUNT is the number of measured repetitions, WARM that of the ones before. */
#include "../../c/say.h"
#include <time.h>

static pmix_proc_t all;

static void must(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        say_status(what, status, PMIX_SUCCESS);
        exit(1);
    }
}

static void fence(void) { must("fence", PMIx_Fence(&all, 1, NULL, 0)); }

static void exchange(void)
{
    static uint32_t number;
    pmix_value_t value;
    pmix_info_t collect;
    bool yes = true;

    number++;
    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    must("put", PMIx_Put(PMIX_GLOBAL, "labs.number", &value));
    must("commit", PMIx_Commit());
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must("fence with data", PMIx_Fence(&all, 1, &collect, 1));
}

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Prints the mean time of a repetition. The fence before the first one lets all procs begin together. */
static void measure(const char *name, void (*repeated)(void), long count, long warm)
{
    fence();
    for (long i = 0; i < warm; i++) {
        repeated();
    }
    double began = microseconds();
    for (long i = 0; i < count; i++) {
        repeated();
    }
    if (0 == me.rank) {
        printf("%s %.3f\n", name, (microseconds() - began) / (double) count);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s COUNT WARM\n", argv[0]);
        return 2;
    }
    must("init", PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    measure("fence_us", fence, atol(argv[1]), atol(argv[2]));
    measure("exchange_us", exchange, atol(argv[1]), atol(argv[2]));
    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
