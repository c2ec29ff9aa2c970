/* Times of a job over the nodes of a cluster, in microseconds:
 *
 *     cluster_pmix events COUNT WARM
 *     cluster_pmix fences COUNT WARM
 *
 * - events: of four ranks, two on each of two nodes. Rank 0 sends an event to rank 1 and waits for its answer, then one
 *   to rank 2, by turns. within_us and across_us are the medians for the rank on the same node and on the other.
 * - fences: a fence of the whole job, which the launcher carries, and one that names each rank, which Peal's servers
 *   carry. launcher_us and cluster_us are the means, measured in ten turns.
 *
 * COUNT is the number of measured repetitions, WARM that of the ones before. */
#include "../../c/say.h"
#include <semaphore.h>
#include <time.h>

#define PING (PMIX_EXTERNAL_ERR_BASE - 101)
#define ANSWER (PMIX_EXTERNAL_ERR_BASE - 102)
#define SAME_NODE 1
#define OTHER_NODE 2
#define TURNS 10

static long count, warm;
static pmix_proc_t all, *each;
static uint32_t size;
static sem_t done;
static double answered;

static void must(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        say_status(what, status, PMIX_SUCCESS);
        exit(1);
    }
}

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void await(void)
{
    while (0 != sem_wait(&done)) {
    }
}

/* ---- events ------------------------------------------------------------ */

static void on_accepted(pmix_status_t status, void *object)
{
    (void) object;
    must("notify", status);
}

static void notify(pmix_status_t code, uint32_t rank)
{
    pmix_info_t target;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    PMIX_INFO_LOAD(&target, PMIX_EVENT_CUSTOM_RANGE, &proc, PMIX_PROC);
    must("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_CUSTOM, &target, 1, on_accepted, NULL));
    PMIX_INFO_DESTRUCT(&target);
}

#define HANDLER(name)                                                                                                  \
    static void name(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,      \
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *object)
#define UNUSED (void) id, (void) code, (void) source, (void) infos, (void) ninfos, (void) results, (void) nresults
#define NO_ACTION next(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, object)

HANDLER(on_ping)
{
    UNUSED;
    notify(ANSWER, 0);
    NO_ACTION;
}

HANDLER(on_answer)
{
    UNUSED;
    answered = microseconds();
    NO_ACTION;
    sem_post(&done);
}

static void on_registered(pmix_status_t status, size_t id, void *object)
{
    (void) id, (void) object;
    must("register", status);
    sem_post(&done);
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

static double there_and_back(uint32_t rank)
{
    double began = microseconds();
    notify(PING, rank);
    await();
    return answered - began;
}

static void print_median(const char *name, double *times)
{
    qsort(times, (size_t) count, sizeof *times, ascending);
    printf("%s %.3f\n", name, times[count / 2]);
}

static void events(void)
{
    pmix_status_t code = 0 == me.rank ? ANSWER : PING;
    double *within = calloc((size_t) count, sizeof *within), *across = calloc((size_t) count, sizeof *across);
    PMIx_Register_event_handler(&code, 1, NULL, 0, 0 == me.rank ? on_answer : on_ping, on_registered, NULL);
    await();
    must("fence", PMIx_Fence(&all, 1, NULL, 0));
    for (long i = -warm; 0 == me.rank && i < count; i++) {
        double same = there_and_back(SAME_NODE), other = there_and_back(OTHER_NODE);
        if (i >= 0) {
            within[i] = same;
            across[i] = other;
        }
    }
    if (0 == me.rank) {
        print_median("within_us", within);
        print_median("across_us", across);
    }
    must("fence", PMIx_Fence(&all, 1, NULL, 0));
}

/* ---- fences ------------------------------------------------------------ */

static void by_launcher(void) { must("fence of the job", PMIx_Fence(&all, 1, NULL, 0)); }

static void by_cluster(void) { must("fence of each", PMIx_Fence(each, size, NULL, 0)); }

/* Returns the time of a number of fences. */
static double of(void (*fence)(void), long number)
{
    double began = microseconds();
    for (long i = 0; i < number; i++) {
        fence();
    }
    return microseconds() - began;
}

static void fences(void)
{
    double launcher = 0, cluster = 0;
    PMIX_PROC_CREATE(each, size);
    for (uint32_t rank = 0; rank < size; rank++) {
        PMIX_LOAD_PROCID(&each[rank], me.nspace, rank);
    }
    of(by_launcher, warm);
    of(by_cluster, warm);
    for (int turn = 0; turn < TURNS; turn++) {
        launcher += of(by_launcher, count / TURNS);
        cluster += of(by_cluster, count / TURNS);
    }
    if (0 == me.rank) {
        double number = (double) (count / TURNS * TURNS);
        printf("launcher_us %.3f\ncluster_us %.3f\n", launcher / number, cluster / number);
    }
}

int main(int argc, char **argv)
{
    pmix_value_t *value;
    if (argc != 4) {
        fprintf(stderr, "usage: %s events|fences COUNT WARM\n", argv[0]);
        return 2;
    }
    count = atol(argv[2]);
    warm = atol(argv[3]);
    sem_init(&done, 0, 0);
    must("init", PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    must("size of the job", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    if (0 == strcmp(argv[1], "events")) {
        events();
    } else {
        fences();
    }
    fflush(stdout);
    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
