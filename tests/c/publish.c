/* Publish, lookup and unpublish. A job of two procs: rank 0 publishes, rank 1 looks the data up,
 * step by step.
 *
 *     host 2 publish     peal run -n 2 -- publish
 */
#include "say.h"

static void __attribute__((noreturn)) give_up(const char *what)
{
    miss("%s", what);
    _exit(1);
}

static void fence(void)
{
    if (PMIX_SUCCESS != PMIx_Fence(NULL, 0, NULL, 0)) {
        give_up("fence");
    }
}

static void publish(const char *what, pmix_info_t *infos, size_t ninfos, pmix_status_t expected)
{
    say_status(what, PMIx_Publish(infos, ninfos), expected);
}

/* Looks up two keys, and prints the result of each. */
static void look_up(const char *what, const char *first, const char *second, pmix_status_t expected)
{
    const char *keys[] = {first, second};
    pmix_pdata_t *data;
    PMIX_PDATA_CREATE(data, 2);
    for (size_t i = 0; i < 2; i++) {
        PMIX_LOAD_KEY(data[i].key, keys[i]);
    }
    say_status(what, PMIx_Lookup(data, 2, NULL, 0), expected);
    for (size_t i = 0; i < 2; i++) {
        bool there = PMIX_UNDEF != data[i].value.type;
        char *text = there ? value_text(&data[i].value) : strdup("nothing");
        say("%s: %s of rank %d", data[i].key, text, there ? (int) data[i].proc.rank : -1);
        free(text);
    }
    PMIX_PDATA_FREE(data, 2);
}

static void unpublish(const char *what, const char *key)
{
    char *keys[] = {(char *) key, NULL};
    say_status(what, PMIx_Unpublish(keys, NULL, 0), PMIX_SUCCESS);
}

int main(void)
{
    if (PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) {
        give_up("PMIx_Init");
    }
    uint32_t number = 7;
    pmix_data_range_t range = PMIX_RANGE_SESSION;
    pmix_persistence_t persistence = PMIX_PERSIST_SESSION;
    pmix_info_t infos[4];
    PMIX_INFO_LOAD(&infos[0], "test.port", "tcp://somewhere", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], "test.number", &number, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[2], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&infos[3], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
    if (1 == me.rank) {
        look_up("before anything is there", "test.port", "test.number", PMIX_ERR_NOT_FOUND);
    }
    fence();
    if (0 == me.rank) {
        publish("publish", infos, 4, PMIX_SUCCESS);
    }
    fence();
    if (1 == me.rank) {
        look_up("both", "test.port", "test.number", PMIX_SUCCESS);
        look_up("one of two", "test.port", "test.none", PMIX_SUCCESS);
        publish("the same key", infos, 1, PMIX_ERR_DUPLICATE_KEY);
    }
    fence();
    if (0 == me.rank) {
        unpublish("unpublish", "test.port");
        unpublish("what nobody has published", "test.none");
    }
    fence();
    if (1 == me.rank) {
        look_up("what is left", "test.port", "test.number", PMIX_SUCCESS);
        publish("the key again", infos, 1, PMIX_SUCCESS);
    }
    fence();
    if (0 == me.rank) {
        look_up("by two procs", "test.port", "test.number", PMIX_SUCCESS);
    }
    fence();
    for (size_t i = 0; i < 4; i++) {
        PMIX_INFO_DESTRUCT(&infos[i]);
    }
    PMIx_Finalize(NULL, 0);
    return failed ? 1 : 0;
}
