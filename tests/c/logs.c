/* A PMIx program that logs to every channel, with every directive that there is, and prints the
 * result of each request.
 *
 * Runs as a job of any size; only rank 0 logs: `peal run -- target/c/logs all`.
 *
 * - all: every channel and directive by PMIx_Log.
 * - later: the same by PMIx_Log_nb.
 * - wrong: values of all invalid types for each key, then one line that must still be logged. */
#include "need.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

static bool by_callback;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void told(pmix_status_t status, void *cbdata)
{
    pmix_status_t *answer = cbdata;
    /* The waiting thread reads nothing else. */
    __atomic_store_n(answer, status, __ATOMIC_RELEASE);
}

#define NO_ANSWER 4711

static pmix_status_t log_it(pmix_info_t *data, size_t n_data, pmix_info_t *directives, size_t n_directives)
{
    if (!by_callback) {
        return PMIx_Log(data, n_data, directives, n_directives);
    }
    pmix_status_t answer = NO_ANSWER;
    pmix_status_t status = PMIx_Log_nb(data, n_data, directives, n_directives, told, &answer);
    if (PMIX_SUCCESS != status) {
        return PMIX_OPERATION_SUCCEEDED == status ? PMIX_SUCCESS : status;
    }
    while (NO_ANSWER == __atomic_load_n(&answer, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    return answer;
}

/* Logs a text to one channel with up to two directives. */
static void try_one(const char *what, const char *channel, pmix_info_t *directives, size_t n)
{
    pmix_info_t data;
    char text[128];
    snprintf(text, sizeof text, "%s, in C", what);
    PMIX_INFO_LOAD(&data, channel, text, PMIX_STRING);
    pmix_status_t status = log_it(&data, 1, directives, n);
    say("%s: %s (%d)", what, PMIx_Error_string(status), status);
    PMIX_INFO_DESTRUCT(&data);
}

static void try_with(const char *what, const char *channel, const char *key, const void *value, pmix_data_type_t type)
{
    pmix_info_t directive;
    PMIX_INFO_LOAD(&directive, key, value, type);
    try_one(what, channel, &directive, 1);
    PMIX_INFO_DESTRUCT(&directive);
}

static void try_mail(const char *what, const char *key, const void *value, pmix_data_type_t type)
{
    pmix_data_array_t parts;
    PMIX_DATA_ARRAY_CONSTRUCT(&parts, NULL == key ? 3 : 4, PMIX_INFO);
    pmix_info_t *part = parts.array;
    PMIX_INFO_LOAD(&part[0], PMIX_LOG_EMAIL_ADDR, "ops@peers.test,dev@peers.test", PMIX_STRING);
    PMIX_INFO_LOAD(&part[1], PMIX_LOG_EMAIL_SUBJECT, what, PMIX_STRING);
    PMIX_INFO_LOAD(&part[2], PMIX_LOG_EMAIL_MSG, "A line.\n.\nAnd one behind a dot.", PMIX_STRING);
    if (NULL != key) {
        PMIX_INFO_LOAD(&part[3], key, value, type);
    }
    pmix_info_t data;
    PMIX_INFO_LOAD(&data, PMIX_LOG_EMAIL, &parts, PMIX_DATA_ARRAY);
    pmix_status_t status = log_it(&data, 1, NULL, 0);
    say("%s: %s (%d)", what, PMIx_Error_string(status), status);
    PMIX_INFO_DESTRUCT(&data);
    PMIX_DATA_ARRAY_DESTRUCT(&parts);
}

static void try_several(const char *what, const char *first, const char *second, bool once, bool required)
{
    pmix_info_t data[2], directive;
    PMIX_INFO_LOAD(&data[0], first, what, PMIX_STRING);
    PMIX_INFO_LOAD(&data[1], second, what, PMIX_STRING);
    if (required) {
        PMIX_INFO_REQUIRED(&data[1]);
    }
    PMIX_INFO_LOAD(&directive, PMIX_LOG_ONCE, &once, PMIX_BOOL);
    pmix_status_t status = log_it(data, 2, &directive, 1);
    say("%s: %s (%d)", what, PMIx_Error_string(status), status);
    PMIX_INFO_DESTRUCT(&data[0]);
    PMIX_INFO_DESTRUCT(&data[1]);
    PMIX_INFO_DESTRUCT(&directive);
}

/* The address and the subject are beside the message, and among the directives. */
static void try_mail_by_directives(void)
{
    pmix_data_array_t parts;
    PMIX_DATA_ARRAY_CONSTRUCT(&parts, 1, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *) parts.array, PMIX_LOG_EMAIL_MSG, "A line.\n.\nAnd one behind a dot.", PMIX_STRING);
    pmix_info_t data[2], directive;
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_EMAIL, &parts, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_EMAIL_ADDR, "ops@peers.test", PMIX_STRING);
    PMIX_INFO_LOAD(&directive, PMIX_LOG_EMAIL_SUBJECT, "by directives", PMIX_STRING);
    pmix_status_t status = log_it(data, 2, &directive, 1);
    say("mail by directives: %s (%d)", PMIx_Error_string(status), status);
    PMIX_INFO_DESTRUCT(&data[0]);
    PMIX_INFO_DESTRUCT(&data[1]);
    PMIX_INFO_DESTRUCT(&directive);
    PMIX_DATA_ARRAY_DESTRUCT(&parts);
}

/* The second and the third request are only counted. */
static void try_duplicates(void)
{
    bool aggregate = true;
    for (int i = 0; i < 3; i++) {
        pmix_info_t data, directives[3];
        PMIX_INFO_LOAD(&data, "site.log.board", "a fan has failed", PMIX_STRING);
        PMIX_INFO_LOAD(&directives[0], PMIX_LOG_AGG, &aggregate, PMIX_BOOL);
        PMIX_INFO_LOAD(&directives[1], PMIX_LOG_KEY, "fan", PMIX_STRING);
        PMIX_INFO_LOAD(&directives[2], PMIX_LOG_VAL, "failed", PMIX_STRING);
        pmix_status_t status = log_it(&data, 1, directives, 3);
        say("duplicate: %s (%d)", PMIx_Error_string(status), status);
        PMIX_INFO_DESTRUCT(&data);
        for (int d = 0; d < 3; d++) {
            PMIX_INFO_DESTRUCT(&directives[d]);
        }
    }
}

static void all(void)
{
    const char *channels[] = { PMIX_LOG_STDOUT, PMIX_LOG_STDERR, PMIX_LOG_LOCAL_SYSLOG, PMIX_LOG_GLOBAL_SYSLOG,
                               PMIX_LOG_SYSLOG, PMIX_LOG_JOB_RECORD, PMIX_LOG_GLOBAL_DATASTORE, "site.log.board" };
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        try_one(channels[i], channels[i], NULL, 0);
    }
    int priority = LOG_LOCAL0 | LOG_ERR;
    time_t moment = 1767603600;
    bool yes = true;
    int32_t port = 25;
    try_with("priority", PMIX_LOG_GLOBAL_SYSLOG, PMIX_LOG_SYSLOG_PRI, &priority, PMIX_INT);
    try_with("time", PMIX_LOG_GLOBAL_SYSLOG, PMIX_LOG_TIMESTAMP, &moment, PMIX_TIME);
    try_with("own time", PMIX_LOG_STDOUT, PMIX_LOG_GENERATE_TIMESTAMP, &yes, PMIX_BOOL);
    try_with("time output", "site.log.board", PMIX_LOG_TIMESTAMP_OUTPUT, &yes, PMIX_BOOL);
    try_with("tag", PMIX_LOG_STDOUT, PMIX_LOG_TAG_OUTPUT, &yes, PMIX_BOOL);
    try_with("xml", PMIX_LOG_STDOUT, PMIX_LOG_XML_OUTPUT, &yes, PMIX_BOOL);
    try_with("xml on syslog", PMIX_LOG_GLOBAL_SYSLOG, PMIX_LOG_XML_OUTPUT, &yes, PMIX_BOOL);
    try_mail("mail", NULL, NULL, PMIX_UNDEF);
    try_mail("mail from an allowed sender", PMIX_LOG_EMAIL_SENDER_ADDR, "app@peers.test", PMIX_STRING);
    try_mail("mail from anybody", PMIX_LOG_EMAIL_SENDER_ADDR, "root@elsewhere.test", PMIX_STRING);
    try_mail("mail by another server", PMIX_LOG_EMAIL_SERVER, "127.0.0.2", PMIX_STRING);
    try_mail("mail to another port", PMIX_LOG_EMAIL_SRVR_PORT, &port, PMIX_INT32);
    try_mail_by_directives();
    try_several("both", PMIX_LOG_GLOBAL_SYSLOG, "site.log.board", false, false);
    try_several("once", PMIX_LOG_GLOBAL_SYSLOG, "site.log.board", true, false);
    try_several("once, and one required", PMIX_LOG_GLOBAL_SYSLOG, "site.log.board", true, true);
    try_several("one is missing", PMIX_LOG_GLOBAL_SYSLOG, "pmix.log.nowhere", false, false);
    try_several("a required one is missing", PMIX_LOG_GLOBAL_SYSLOG, "pmix.log.nowhere", false, true);
    try_several("neither is there", "pmix.log.nowhere", "pmix.log.neither", false, false);
    pmix_byte_object_t message = { .bytes = "a blob, in C", .size = strlen("a blob, in C") };
    pmix_info_t blob[2];
    PMIX_INFO_LOAD(&blob[0], PMIX_LOG_MSG, &message, PMIX_BYTE_OBJECT);
    PMIX_INFO_LOAD(&blob[1], "site.log.board", &yes, PMIX_BOOL);
    pmix_status_t status = log_it(blob, 2, NULL, 0);
    say("a blob: %s (%d)", PMIx_Error_string(status), status);
    try_duplicates();
}

static const char *const keys[] = {
    PMIX_LOG_SOURCE, PMIX_LOG_STDERR, PMIX_LOG_STDOUT, PMIX_LOG_SYSLOG, PMIX_LOG_LOCAL_SYSLOG, PMIX_LOG_GLOBAL_SYSLOG,
    PMIX_LOG_SYSLOG_PRI, PMIX_LOG_TIMESTAMP, PMIX_LOG_GENERATE_TIMESTAMP, PMIX_LOG_TAG_OUTPUT,
    PMIX_LOG_TIMESTAMP_OUTPUT, PMIX_LOG_XML_OUTPUT, PMIX_LOG_ONCE, PMIX_LOG_MSG, PMIX_LOG_KEY, PMIX_LOG_VAL,
    PMIX_LOG_AGG, PMIX_LOG_EMAIL, PMIX_LOG_EMAIL_ADDR, PMIX_LOG_EMAIL_SENDER_ADDR, PMIX_LOG_EMAIL_SUBJECT,
    PMIX_LOG_EMAIL_MSG, PMIX_LOG_EMAIL_SERVER, PMIX_LOG_EMAIL_SRVR_PORT, PMIX_LOG_GLOBAL_DATASTORE,
    PMIX_LOG_JOB_RECORD, PMIX_LOG_PROC_TERMINATION, PMIX_LOG_PROC_ABNORMAL_TERMINATION, PMIX_LOG_JOB_EVENTS,
    PMIX_LOG_COMPLETION, "site.log.board", "pmix.log.nowhere", ""
};

/* Loads one value of each type, including the valid one. Returns their number. */
static size_t values(pmix_value_t *values)
{
    static pmix_byte_object_t bytes = { .bytes = "\xff\x00\n", .size = 3 };
    static pmix_proc_t nobody;
    size_t n = 0;
    static pmix_data_array_t empty = { .type = PMIX_INFO };
    pmix_data_array_t *numbers;
    PMIX_DATA_ARRAY_CREATE(numbers, 3, PMIX_UINT64);
    values[n++] = (pmix_value_t) { .type = PMIX_UNDEF };
    values[n++] = (pmix_value_t) { .type = PMIX_BOOL, .data.flag = true };
    values[n++] = (pmix_value_t) { .type = PMIX_BYTE, .data.byte = 7 };
    values[n++] = (pmix_value_t) { .type = PMIX_STRING, .data.string = "a text\nof \x1b[31mtwo\r lines" };
    values[n++] = (pmix_value_t) { .type = PMIX_STRING, .data.string = "" };
    values[n++] = (pmix_value_t) { .type = PMIX_SIZE, .data.size = SIZE_MAX };
    values[n++] = (pmix_value_t) { .type = PMIX_INT, .data.integer = -1 };
    values[n++] = (pmix_value_t) { .type = PMIX_UINT64, .data.uint64 = UINT64_MAX };
    values[n++] = (pmix_value_t) { .type = PMIX_DOUBLE, .data.dval = -1.0 / 3 };
    values[n++] = (pmix_value_t) { .type = PMIX_TIME, .data.time = INT64_MIN };
    values[n++] = (pmix_value_t) { .type = PMIX_STATUS, .data.status = PMIX_ERR_PROC_ABORTED };
    values[n++] = (pmix_value_t) { .type = PMIX_PROC, .data.proc = &nobody };
    values[n++] = (pmix_value_t) { .type = PMIX_BYTE_OBJECT, .data.bo = bytes };
    values[n++] = (pmix_value_t) { .type = PMIX_DATA_ARRAY, .data.darray = &empty };
    values[n++] = (pmix_value_t) { .type = PMIX_DATA_ARRAY, .data.darray = numbers };
    return n;
}

static void wrong(void)
{
    pmix_value_t all_values[32];
    size_t n = values(all_values), requests = 0;
    for (size_t key = 0; key < sizeof keys / sizeof *keys; key++) {
        for (size_t value = 0; value < n; value++) {
            for (int place = 0; place < 2; place++) {
                pmix_info_t data[2], directive;
                memset(data, 0, sizeof data);
                memset(&directive, 0, sizeof directive);
                PMIX_LOAD_KEY(data[0].key, "site.log.board");
                data[0].value = (pmix_value_t) { .type = PMIX_STRING, .data.string = "beside what is wrong" };
                pmix_info_t *odd = 0 == place ? &data[1] : &directive;
                PMIX_LOAD_KEY(odd->key, keys[key]);
                odd->value = all_values[value];
                log_it(data, 0 == place ? 2 : 1, &directive, (size_t) place);
                requests++;
            }
        }
    }
    say("%zu requests were answered", requests);
    try_one("after all of it", "site.log.board", NULL, 0);
}

int main(int argc, char **argv)
{
    if (2 != argc || (0 != strcmp(argv[1], "all") && 0 != strcmp(argv[1], "later") && 0 != strcmp(argv[1], "wrong"))) {
        fprintf(stderr, "usage: %s all|later|wrong\n", argv[0]);
        return 2;
    }
    need("init", PMIx_Init(&me, NULL, 0));
    by_callback = 0 == strcmp(argv[1], "later");
    if (0 == me.rank) {
        if (0 == strcmp(argv[1], "wrong")) {
            wrong();
        } else {
            all();
        }
    }
    /* No proc finalizes before all is logged. */
    need("fence", PMIx_Fence(NULL, 0, NULL, 0));
    need("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
