/* Many procs that the bench counts, queries and kills.
 *
 * Included by client.c after its declarations of the events; not a program. */
#ifndef CROWD_H
#define CROWD_H

HANDLER(on_death)
{
    UNUSED;
    arrive(&arrivals, now_ns(), job_size - 1);
    NO_ACTION;
}

/* Waits in three stages until the bench lets all procs continue: initialized, with a handler of a
 * killed proc, and at the end. The bench kills one in the last stage, whose handlers arrive. `times`
 * holds the process id of each rank, in native order. */
static void crowd(void)
{
    pid_t process = getpid();
    need_bytes(pwrite(arrivals.times, &process, sizeof process, (off_t) (me.rank * sizeof process)), sizeof process,
               "times");
    arrive(&arrivals, now_ns(), job_size);
    /* Of another pipe than the end: a fast proc must not take the byte of a slow one. */
    await_turn(&arrivals);
    add_handler(PMIX_ERR_PROC_ABORTED_BY_SIG, "death", on_death);
    arrive(&arrivals, now_ns(), job_size);
    await_leave(&arrivals);
}

/* Queries the table of all procs of the job. */
static void query_procs(void)
{
    pmix_query_t query;
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_status_t rc;
    PMIX_ARGV_APPEND(rc, query.keys, PMIX_QUERY_PROC_TABLE);
    need("key", rc);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, me.nspace, PMIX_STRING);
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    need("query", PMIx_Query_info(&query, 1, &results, &nresults));
    if (1 != nresults || PMIX_DATA_ARRAY != results->value.type || job_size != results->value.data.darray->size) {
        fprintf(stderr, "rank %u: the table does not have %u procs\n", me.rank, job_size);
        _exit(EXIT_FAILURE);
    }
    PMIX_INFO_FREE(results, nresults);
    PMIX_QUERY_DESTRUCT(&query);
}

/* Rank 0 queries the table, one query after the other, in turns. The others are no work for the
 * server meanwhile. */
static void table(void)
{
    if (0 != me.rank) {
        arrive(&arrivals, now_ns(), job_size - 1);
        await_leave(&arrivals);
    } else if (1 < job_size) {
        await_last(&arrivals);
    }
    double *times = of_each_turn(), *used = of_each_turn();
    for (uint32_t turn = 0; turn < turns_measured(); turn++) {
        begin_turn();
        struct start start = {0};
        for (uint32_t i = 0; 0 == me.rank && i < warm + count; i++) {
            if (i == warm) {
                start = start_of_measurement();
            }
            query_procs();
        }
        times[turn] = time_since(start);
        used[turn] = server_time_since(start);
        end_turn();
    }
    /* They wait for the turns of the other jobs too. */
    begin_turn();
    for (uint32_t rank = 1; 0 == me.rank && rank < job_size; rank++) {
        let_leave(&arrivals);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (0 == me.rank) {
        print_middle("us", times);
        print_server_time(used);
    }
    free(times);
    free(used);
}

#endif
