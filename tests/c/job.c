/* A PMIx client that uses data, fences and events in every way a job normally does, and prints the
 * results. It uses the PMIx library alone and does not depend on its server: the same program under
 * two servers must print the same lines.
 *
 * Run it as a job of two or more procs on one node:
 *
 *     host 4 job [--status N | --die RANK | --abort RANK]
 *
 * - --status N: rank 0 exits with N if everything else succeeded.
 * - --die RANK: that rank kills itself after the first fence. The others wait for the event that
 *   reports it.
 * - --abort RANK: that rank calls PMIx_Abort after the first fence. The others wait to be killed.
 *
 * Each proc exits with 0 if everything expected happened, else with 1 after a line with `missing:`
 * for each thing that did not. README.md has the sequence of calls. */
#include <getopt.h>

#include "job_end.h"

/* A server that never answers must not leave procs behind. */
#define JOB_SECONDS 90

enum ending { FINISH, DIE, ABORT };

struct options {
    enum ending ending;
    pmix_rank_t rank; /* who dies or aborts */
    int status;       /* what rank 0 exits with */
};

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"status", required_argument, NULL, 's'},
        {"die", required_argument, NULL, 'd'},
        {"abort", required_argument, NULL, 'a'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while (-1 != (option = getopt_long(argc, argv, "", known, NULL))) {
        switch (option) {
        case 's': options->status = atoi(optarg); break;
        case 'd': options->ending = DIE; options->rank = (pmix_rank_t) atoi(optarg); break;
        case 'a': options->ending = ABORT; options->rank = (pmix_rank_t) atoi(optarg); break;
        default: return false;
        }
    }
    return optind == argc;
}

/* The text is made before the alarm, as a signal handler may only write. */
static char alarm_text[80];

static void on_alarm(int signal)
{
    (void) signal;
    write_all(alarm_text, strlen(alarm_text));
    _exit(1);
}

static void set_alarm(void)
{
    snprintf(alarm_text, sizeof alarm_text, "rank %u: missing: the end within %d s\n", me.rank, JOB_SECONDS);
    signal(SIGALRM, on_alarm);
    alarm(JOB_SECONDS);
}

static void exchange_data(void)
{
    check_early_get();
    put_items();
    fence("fence with data", true);
}

static void exchange_events(void)
{
    if (!register_handlers()) {
        return;
    }
    fence("fence after registration", false);
    for (uint32_t source = 0; source < job_size; source++) {
        take_turn(source);
    }
    say_observations();
    check_calls();
    deregister_handlers();
    /* The end of a proc is an event, too, and would reach handlers of procs that are slower. */
    fence("fence after deregistration", false);
}

static void run(const struct options *options)
{
    if (!learn_job_size()) {
        return;
    }
    if (options->rank >= job_size) {
        miss("rank %u in a job of %" PRIu32, options->rank, job_size);
        return;
    }
    open_books();
    check_job_facts();
    exchange_data();
    switch (options->ending) {
    case DIE: die_or_hear(options->rank); return;
    case ABORT: abort_or_wait(options->rank); return;
    case FINISH: break;
    }
    check_absent();
    check_items();
    exchange_events();
}

int main(int argc, char **argv)
{
    struct options options = {.ending = FINISH};
    if (!parse(argc, argv, &options)) {
        fprintf(stderr, "usage: %s [--status N | --die RANK | --abort RANK]\n", argv[0]);
        return 2;
    }
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    if (PMIX_SUCCESS != rc) {
        fprintf(stderr, "%s: PMIx_Init: %s (%d)\n", argv[0], PMIx_Error_string(rc), rc);
        return 1;
    }
    set_alarm();
    run(&options);
    say_status("finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    if (failed) {
        return 1;
    }
    return 0 == me.rank ? options.status : 0;
}
