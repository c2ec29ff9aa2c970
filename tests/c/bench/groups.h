/* Groups of all procs that are formed and destructed, one after the other.
 *
 * Included by client.c after its declarations of the job; not a program. */
#ifndef GROUPS_H
#define GROUPS_H

/* Each proc names all procs one by one, as MPI does. The printed time is that of a proc's call,
 * including the wait for slower procs. */
static void form_groups(bool numbered)
{
    pmix_proc_t *all = calloc(job_size, sizeof *all);
    for (uint32_t rank = 0; rank < job_size; rank++) {
        PMIX_LOAD_PROCID(&all[rank], me.nspace, rank);
    }
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &numbered, PMIX_BOOL);
    double *constructs = of_each_turn(), *destructs = of_each_turn(), *used = of_each_turn();
    for (uint32_t turn = 0; turn < turns_measured(); turn++) {
        struct start measured = {0};
        begin_turn();
        for (uint32_t i = 0; i < warm + count; i++) {
            if (i == warm) {
                measured = start_of_measurement();
            }
            pmix_info_t *results = NULL;
            size_t nresults = 0;
            uint64_t start = now_ns();
            need("construct",
                 PMIx_Group_construct("bench", all, job_size, &info, numbered ? 1 : 0, &results, &nresults));
            uint64_t formed = now_ns();
            PMIX_INFO_FREE(results, nresults);
            need("destruct", PMIx_Group_destruct("bench", NULL, 0));
            if (i >= warm) {
                constructs[turn] += (double) (formed - start) / count;
                destructs[turn] += (double) (now_ns() - formed) / count;
            }
        }
        used[turn] = server_time_since(measured);
        end_turn();
    }
    end_turns();
    average_over_procs(constructs);
    average_over_procs(destructs);
    if (0 == me.rank) {
        print_middle("construct_us", constructs);
        print_middle("destruct_us", destructs);
        print_server_time(used);
    }
    free(constructs);
    free(destructs);
    free(used);
    free(all);
}

static void group(void) { form_groups(false); }

static void group_with_id(void) { form_groups(true); }

#endif
