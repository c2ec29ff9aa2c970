/* The order of the handlers of one process, by RFC 0002: the handler that is first of all; handlers
 * of one code, of several codes and of all codes, each in the order of their registration; the handler
 * that is last of all. A job of two procs: rank 1 registers handlers, rank 0 raises an event for its job,
 * and rank 1 prints the handlers in the order of their calls. The steps differ by the handlers.
 *
 *     host 2 order     peal run -n 2 -- order
 *
 * A registration that is refused prints its status. */
#include "heard.h"

enum { CODE = PMIX_EXTERNAL_ERR_BASE - 1, OTHER = CODE - 1, MAX_PLACED = 8 };

/* Codes of a registration. */
enum codes { ONE, TWO, ALL };

/* Handler of a step: its name, the codes, and its place, which a key says. The value of the key is a
 * handler's name or true. */
struct placed {
    const char *name;
    enum codes codes;
    const char *key, *beside;
};

struct step {
    const char *name;
    struct placed placed[MAX_PLACED];
};

static const struct step steps[] = {
    {"registration", {{"a", ONE, NULL, NULL}, {"b", ONE, NULL, NULL}, {"c", ONE, NULL, NULL}}},
    {"several codes", {{"a", TWO, NULL, NULL}, {"b", TWO, NULL, NULL}}},
    {"all codes", {{"one", ONE, NULL, NULL}, {"a", ALL, NULL, NULL}, {"b", ALL, NULL, NULL}}},
    {"categories", {{"all", ALL, NULL, NULL}, {"two", TWO, NULL, NULL}, {"one", ONE, NULL, NULL}}},
    {"first and last",
     {{"all", ALL, NULL, NULL},
      {"last", ONE, PMIX_EVENT_HDLR_LAST, NULL},
      {"one", ONE, NULL, NULL},
      {"first", ONE, PMIX_EVENT_HDLR_FIRST, NULL}}},
    {"first of several codes",
     {{"one", ONE, NULL, NULL}, {"two", TWO, NULL, NULL}, {"first", TWO, PMIX_EVENT_HDLR_FIRST, NULL}}},
    {"two that are first",
     {{"first", ONE, PMIX_EVENT_HDLR_FIRST, NULL}, {"refused", ONE, PMIX_EVENT_HDLR_FIRST, NULL}, {"one", ONE, NULL, NULL}}},
    {"first and last in a category",
     {{"a", ONE, NULL, NULL},
      {"last", ONE, PMIX_EVENT_HDLR_LAST_IN_CATEGORY, NULL},
      {"first", ONE, PMIX_EVENT_HDLR_FIRST_IN_CATEGORY, NULL},
      {"b", ONE, NULL, NULL},
      {"two", TWO, PMIX_EVENT_HDLR_FIRST_IN_CATEGORY, NULL}}},
    {"prepended and appended",
     {{"a", ONE, NULL, NULL}, {"before all", ONE, PMIX_EVENT_HDLR_PREPEND, NULL}, {"b", ONE, PMIX_EVENT_HDLR_APPEND, NULL}}},
    {"before the first",
     {{"a", ONE, NULL, NULL}, {"b", ONE, NULL, NULL}, {"before a", ONE, PMIX_EVENT_HDLR_BEFORE, "a"}}},
    {"before the second",
     {{"a", ONE, NULL, NULL}, {"b", ONE, NULL, NULL}, {"before b", ONE, PMIX_EVENT_HDLR_BEFORE, "b"}}},
    {"after the first",
     {{"a", ONE, NULL, NULL}, {"b", ONE, NULL, NULL}, {"after a", ONE, PMIX_EVENT_HDLR_AFTER, "a"}}},
    {"after the last",
     {{"a", ONE, NULL, NULL}, {"b", ONE, NULL, NULL}, {"after b", ONE, PMIX_EVENT_HDLR_AFTER, "b"}}},
    {"before and after one of several codes",
     {{"a", TWO, NULL, NULL},
      {"b", TWO, NULL, NULL},
      {"before b", TWO, PMIX_EVENT_HDLR_BEFORE, "b"},
      {"after b", TWO, PMIX_EVENT_HDLR_AFTER, "b"}}},
    {"after one that is unknown", {{"a", ONE, NULL, NULL}, {"lost", ONE, PMIX_EVENT_HDLR_AFTER, "nobody"}}},
};

/* Prints the handlers in the order of their calls. */
static void say_calls(const char *step)
{
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    for (size_t i = 0; i < nheard; i++) {
        fprintf(out, "%s%s", 0 == i ? "" : ", ", heard[i].handler);
    }
    fclose(out);
    if (1 == me.rank) {
        say("%s: %s", step, 0 == nheard ? "nothing" : line);
    }
    free(line);
    while (nheard > 0) {
        free(heard[--nheard].text);
    }
}

static void place(const struct placed *placed)
{
    pmix_status_t codes[] = {CODE, OTHER};
    pmix_info_t info;
    size_t ninfos = NULL == placed->key ? 0 : 1;
    if (NULL != placed->beside) {
        PMIX_INFO_LOAD(&info, placed->key, placed->beside, PMIX_STRING);
    } else if (NULL != placed->key) {
        PMIX_INFO_LOAD(&info, placed->key, NULL, PMIX_BOOL);
    }
    struct handler *handler = new_handler(placed->name);
    ask_to_listen(handler, ALL == placed->codes ? NULL : codes, ALL == placed->codes ? 0 : 1 + (size_t) placed->codes,
                  &info, ninfos);
    pmix_status_t status = take_answer(placed->name);
    if (PMIX_SUCCESS != status) {
        say("%s: %s (%d)", placed->name, PMIx_Error_string(status), status);
        nhandlers--;
    }
}

static void run(const struct step *step)
{
    for (size_t i = 0; 1 == me.rank && i < MAX_PLACED && NULL != step->placed[i].name; i++) {
        place(&step->placed[i]);
    }
    fence();
    if (0 == me.rank) {
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
        pmix_status_t status = notify(CODE, PMIX_RANGE_NAMESPACE, &info, 1);
        if (PMIX_SUCCESS != status) {
            miss("an answer to the event of %s: %s (%d)", step->name, PMIx_Error_string(status), status);
        }
    }
    finish_step(step->name);
    while (nhandlers > 0) {
        stop(&handlers[nhandlers - 1]);
        nhandlers--;
    }
}

int main(void)
{
    say_step = say_calls;
    start_hearing();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        run(&steps[i]);
    }
    return finish_hearing();
}
