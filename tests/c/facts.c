/* Prints the values of reserved keys of itself and other procs. Its arguments are RANK:KEY, where
 * RANK is `own`, `all` or a number. The first arguments may be `of NSPACE`: then it gets values of
 * another job, as a tool if no launcher started it. */
#include <pmix_tool.h>
#include "say.h"

static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

static pmix_rank_t rank_of(const char *word)
{
    if (0 == strncmp(word, "own:", 4)) {
        return me.rank;
    }
    return 0 == strncmp(word, "all:", 4) ? PMIX_RANK_WILDCARD : (pmix_rank_t) atoi(word);
}

static void show(const char *nspace, const char *word)
{
    const char *key = strchr(word, ':') + 1;
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&proc, nspace, rank_of(word));
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (status != PMIX_SUCCESS) {
        fputs(PMIx_Error_string(status), out);
    } else if (value->type == PMIX_STRING && value->data.string == NULL) {
        fputs("nothing", out);
    } else if (value->type == PMIX_PID) {
        fputs(value->data.pid == getpid() ? "own pid" : "other pid", out);
    } else if (value->type == PMIX_DATA_ARRAY && value->data.darray->type == PMIX_STRING) {
        for (size_t i = 0; i < value->data.darray->size; i++) {
            fprintf(out, "%s%s", i == 0 ? "" : ",", ((char **) value->data.darray->array)[i]);
        }
    } else {
        write_value(out, value);
    }
    fclose(out);
    say("%s: %s", word, text);
    free(text);
}

int main(int argc, char *argv[])
{
    const char *nspace = me.nspace;
    int first = 1;
    bool is_proc = getenv("PMIX_NAMESPACE") != NULL;
    need("init", is_proc ? PMIx_Init(&me, NULL, 0) : PMIx_tool_init(&me, NULL, 0));
    if (argc > 2 && 0 == strcmp(argv[1], "of")) {
        nspace = argv[2];
        first = 3;
    }
    for (int i = first; i < argc; i++) {
        show(nspace, argv[i]);
    }
    say_status("finalize", is_proc ? PMIx_Finalize(NULL, 0) : PMIx_tool_finalize(), PMIX_SUCCESS);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
