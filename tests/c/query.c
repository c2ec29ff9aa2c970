/* A tool that sends a query to its server and prints the answer: a line for each item, after the
 * item that contains it.
 *
 *     query KEY... [-- QUALIFIER[=VALUE]]...
 *
 * A key is the string on the wire. A qualifier without a value is true, one of digits is a rank,
 * any other is text. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix_tool.h>

#define MOST 16

static void need(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        printf("%s: %s\n", what, PMIx_Error_string(status));
        exit(EXIT_FAILURE);
    }
}

static void load(pmix_info_t *info, char *word)
{
    char *value = strchr(word, '=');
    bool yes = true;
    if (NULL == value) {
        PMIX_INFO_LOAD(info, word, &yes, PMIX_BOOL);
        return;
    }
    *value++ = '\0';
    if (isdigit((unsigned char) *value)) {
        pmix_rank_t rank = (pmix_rank_t) atoi(value);
        PMIX_INFO_LOAD(info, word, &rank, PMIX_PROC_RANK);
    } else {
        PMIX_INFO_LOAD(info, word, value, PMIX_STRING);
    }
}

static void print(const char *before, const pmix_value_t *value);

static void print_all(const char *before, const pmix_data_array_t *array)
{
    printf("%s: %zu of type %u\n", before, array->size, array->type);
    for (size_t i = 0; i < array->size; i++) {
        const pmix_info_t *info = (const pmix_info_t *) array->array + i;
        const pmix_proc_info_t *proc = (const pmix_proc_info_t *) array->array + i;
        char inner[1024];
        if (PMIX_INFO == array->type) {
            snprintf(inner, sizeof inner, "%s %s", before, info->key);
            print(inner, &info->value);
        } else if (PMIX_PROC_INFO == array->type) {
            printf("%s %u: state %u\n", before, proc->proc.rank, proc->state);
        }
    }
}

static void print(const char *before, const pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_DATA_ARRAY: print_all(before, value->data.darray); break;
    case PMIX_STRING: printf("%s: \"%s\"\n", before, value->data.string); break;
    case PMIX_STATUS: printf("%s: %s\n", before, PMIx_Error_string(value->data.status)); break;
    case PMIX_FLOAT: printf("%s: %f\n", before, value->data.fval); break;
    case PMIX_PROC_RANK: printf("%s: rank %u\n", before, value->data.rank); break;
    case PMIX_PROC: printf("%s: proc %u\n", before, value->data.proc->rank); break;
    case PMIX_PID: printf("%s: %d\n", before, value->data.pid); break;
    case PMIX_UINT32: printf("%s: %u\n", before, value->data.uint32); break;
    default: printf("%s: type %u\n", before, value->type);
    }
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_query_t query;
    pmix_info_t qualifiers[MOST], *found = NULL;
    size_t count = 0, given = 0;
    pmix_status_t status;
    int at = 1;

    PMIX_QUERY_CONSTRUCT(&query);
    for (; at < argc && 0 != strcmp(argv[at], "--"); at++) {
        PMIX_ARGV_APPEND(status, query.keys, argv[at]);
    }
    for (at++; at < argc && given < MOST; at++) {
        load(&qualifiers[given++], argv[at]);
    }
    /* The library reads the first qualifier even if the number of qualifiers is 0. */
    query.qualifiers = given > 0 ? qualifiers : NULL;
    query.nqual = given;

    need("init", PMIx_tool_init(&me, NULL, 0));
    status = PMIx_Query_info(&query, 1, &found, &count);
    printf("query: %s\n", PMIx_Error_string(status));
    for (size_t i = 0; i < count; i++) {
        print(found[i].key, &found[i].value);
    }
    need("finalize", PMIx_tool_finalize());
    return EXIT_SUCCESS;
}
