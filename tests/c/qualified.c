/* Puts a key three times, with different qualifiers and with none, and prints the values that the
 * next rank gets: with each of them, with others, and without. */
#include "need.h"
#include <string.h>

#define KEY "test.word"
#define SIDE "test.side"

static void put(const char *word, const char *side)
{
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], KEY, word, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], SIDE, side, PMIX_STRING);
    PMIX_INFO_SET_QUALIFIER(&infos[1]);
    pmix_data_array_t array = { .type = PMIX_INFO, .size = 2, .array = infos };
    pmix_value_t value = { .type = PMIX_DATA_ARRAY, .data.darray = &array };
    need("put", PMIx_Put(PMIX_GLOBAL, PMIX_QUALIFIED_VALUE, &value));
}

static void show(const pmix_proc_t *proc, const char *side)
{
    pmix_info_t qualifier;
    pmix_value_t *found = NULL;
    if (side != NULL) {
        PMIX_INFO_LOAD(&qualifier, SIDE, side, PMIX_STRING);
        PMIX_INFO_SET_QUALIFIER(&qualifier);
    }
    pmix_status_t status = PMIx_Get(proc, KEY, &qualifier, side != NULL, &found);
    const char *shown = status == PMIX_SUCCESS ? found->data.string : PMIx_Error_string(status);
    printf("rank %u: %s: %s\n", me.rank, side == NULL ? "none" : side, shown);
    fflush(stdout);
}

int main(void)
{
    need("init", PMIx_Init(&me, NULL, 0));
    if (me.rank == 0) {
        pmix_value_t plain = { .type = PMIX_STRING, .data.string = "in the middle" };
        put("to the left", "left");
        put("to the right", "right");
        need("put", PMIx_Put(PMIX_GLOBAL, KEY, &plain));
        need("commit", PMIx_Commit());
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (me.rank != 0) {
        pmix_proc_t first;
        PMIX_LOAD_PROCID(&first, me.nspace, 0);
        show(&first, "left");
        show(&first, "right");
        show(&first, "below");
        show(&first, NULL);
    }
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
    return EXIT_SUCCESS;
}
