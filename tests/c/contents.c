/* Contents of events: values of the types that libpmix 4.2.2 sends in a message, and every kind of
 * code. A job of two procs: rank 0 raises one event for each, rank 1 prints the events and compares
 * their contents.
 *
 *     host 2 contents infos     peal run -n 2 -- contents codes
 */
#include <float.h>
#include <limits.h>
#include <math.h>

#include "heard.h"

#define CODE (PMIX_EXTERNAL_ERR_BASE - 1)
#define MAX_VALUES 128
/* Size above which a library of this release compresses a value. */
#define LONG_TEXT 6000
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- values ---------------------------------------------------------------- */

/* PMIX_DATA_BUFFER is left out: with it the library ends its own process. PMIX_REGEX, and
 * statistics of a node with its disks or network interfaces, are left out: with them the library
 * ends its server. */

/* Values that both procs know. They are never freed, so that they may share memory. */
static struct {
    const char *name;
    pmix_value_t value;
} values[MAX_VALUES];
static size_t nvalues;

#define ADD(text, kind, field, ...)                                                                                    \
    do {                                                                                                               \
        values[nvalues].name = text;                                                                                   \
        values[nvalues++].value = (pmix_value_t) {.type = kind, .data.field = __VA_ARGS__};                            \
    } while (0)

static void add_numbers(void)
{
    ADD("false", PMIX_BOOL, flag, false);
    ADD("true", PMIX_BOOL, flag, true);
    ADD("byte", PMIX_BYTE, byte, 0xff);
    ADD("size", PMIX_SIZE, size, SIZE_MAX);
    ADD("pid", PMIX_PID, pid, INT_MAX);
    ADD("int min", PMIX_INT, integer, INT_MIN);
    ADD("int max", PMIX_INT, integer, INT_MAX);
    ADD("int8 min", PMIX_INT8, int8, INT8_MIN);
    ADD("int8 max", PMIX_INT8, int8, INT8_MAX);
    ADD("int16 min", PMIX_INT16, int16, INT16_MIN);
    ADD("int16 max", PMIX_INT16, int16, INT16_MAX);
    ADD("int32 min", PMIX_INT32, int32, INT32_MIN);
    ADD("int32 max", PMIX_INT32, int32, INT32_MAX);
    ADD("int64 min", PMIX_INT64, int64, INT64_MIN);
    ADD("int64 max", PMIX_INT64, int64, INT64_MAX);
    ADD("int64 zero", PMIX_INT64, int64, 0);
    ADD("int64 -1", PMIX_INT64, int64, -1);
    ADD("uint", PMIX_UINT, uint, UINT_MAX);
    ADD("uint8", PMIX_UINT8, uint8, UINT8_MAX);
    ADD("uint16", PMIX_UINT16, uint16, UINT16_MAX);
    ADD("uint32", PMIX_UINT32, uint32, UINT32_MAX);
    ADD("uint64", PMIX_UINT64, uint64, UINT64_MAX);
    ADD("uint64 zero", PMIX_UINT64, uint64, 0);
    ADD("float", PMIX_FLOAT, fval, -0.5f);
    ADD("float max", PMIX_FLOAT, fval, FLT_MAX);
    ADD("float nan", PMIX_FLOAT, fval, NAN);
    ADD("double", PMIX_DOUBLE, dval, 1234.0625);
    ADD("double max", PMIX_DOUBLE, dval, DBL_MAX);
    ADD("double -max", PMIX_DOUBLE, dval, -DBL_MAX);
    ADD("double -0", PMIX_DOUBLE, dval, -0.0);
    ADD("double nan", PMIX_DOUBLE, dval, NAN);
    ADD("double inf", PMIX_DOUBLE, dval, INFINITY);
    ADD("double -inf", PMIX_DOUBLE, dval, -INFINITY);
    ADD("timeval", PMIX_TIMEVAL, tv, {.tv_sec = 1700000000, .tv_usec = 999999});
    ADD("time", PMIX_TIME, time, 1700000000);
    ADD("time zero", PMIX_TIME, time, 0);
}

static void add_words(void)
{
    static char letters[LONG_TEXT];
    static char bytes[] = {0, 1, 0x7f, (char) 0x80, (char) 0xff};
    memset(letters, 'x', sizeof letters - 1);
    ADD("string", PMIX_STRING, string, "plain");
    ADD("string empty", PMIX_STRING, string, "");
    ADD("string umlauts", PMIX_STRING, string, "gr\xc3\xbc\xc3\x9f" "e \xe2\x82\xac \xf0\x9f\x94\x94");
    ADD("string no utf-8", PMIX_STRING, string, "\xff\xfe\x80");
    ADD("string of lines", PMIX_STRING, string, "a\tb\nc\"d\\");
    ADD("string long", PMIX_STRING, string, letters);
    ADD("bytes", PMIX_BYTE_OBJECT, bo, {.bytes = bytes, .size = sizeof bytes});
    ADD("bytes none", PMIX_BYTE_OBJECT, bo, {.bytes = NULL, .size = 0});
    ADD("bytes long", PMIX_BYTE_OBJECT, bo, {.bytes = letters, .size = sizeof letters});
    ADD("compressed string", PMIX_COMPRESSED_STRING, bo, {.bytes = bytes, .size = sizeof bytes});
    ADD("compressed bytes", PMIX_COMPRESSED_BYTE_OBJECT, bo, {.bytes = bytes, .size = sizeof bytes});
    ADD("envar", PMIX_ENVAR, envar, {.envar = "NAME", .value = "a=b", .separator = ':'});
    ADD("envar bare", PMIX_ENVAR, envar, {.envar = "NAME", .value = NULL, .separator = '\0'});
}

static void add_states(void)
{
    ADD("status", PMIX_STATUS, status, PMIX_ERR_TIMEOUT);
    ADD("status min", PMIX_STATUS, status, INT_MIN);
    ADD("rank", PMIX_PROC_RANK, rank, 7);
    ADD("rank wildcard", PMIX_PROC_RANK, rank, PMIX_RANK_WILDCARD);
    ADD("persistence", PMIX_PERSIST, persist, PMIX_PERSIST_SESSION);
    ADD("scope", PMIX_SCOPE, scope, PMIX_GLOBAL);
    ADD("range", PMIX_DATA_RANGE, range, PMIX_RANGE_CUSTOM);
    ADD("proc state", PMIX_PROC_STATE, state, PMIX_PROC_STATE_RUNNING);
    ADD("job state", PMIX_JOB_STATE, jstate, PMIX_JOB_STATE_RUNNING);
    ADD("link state", PMIX_LINK_STATE, linkstate, PMIX_LINK_UP);
    ADD("allocation", PMIX_ALLOC_DIRECTIVE, adir, PMIX_ALLOC_RELEASE);
    ADD("locality", PMIX_LOCTYPE, locality, PMIX_LOCALITY_NONLOCAL | PMIX_LOCALITY_SHARE_NODE);
    ADD("device type", PMIX_DEVTYPE, devtype, PMIX_DEVTYPE_GPU);
    ADD("storage medium", PMIX_STOR_MEDIUM, uint64, PMIX_STORAGE_MEDIUM_NVME);
    ADD("storage access", PMIX_STOR_ACCESS, uint64, PMIX_STORAGE_ACCESSIBILITY_CLUSTER);
    ADD("storage persistence", PMIX_STOR_PERSIST, uint64, PMIX_STORAGE_PERSISTENCE_PROJECT);
    ADD("storage access type", PMIX_STOR_ACCESS_TYPE, uint16, PMIX_STORAGE_ACCESS_RDWR);
    ADD("nothing", PMIX_UNDEF, ptr, NULL);
    ADD("pointer", PMIX_POINTER, ptr, &values);
}

static void add_structures(void)
{
    static pmix_nspace_t nspace = "another-job";
    static pmix_proc_t proc = {"another-job", 3};
    static pmix_proc_info_t process = {{"another-job", 3}, "node", "program", 4711, 137, PMIX_PROC_STATE_RUNNING};
    static uint32_t axes[] = {1, 0, UINT32_MAX};
    static pmix_coord_t coord = {PMIX_COORD_LOGICAL_VIEW, axes, 3};
    static pmix_geometry_t geometry = {1, "fabric://node", "eth0", &coord, 1};
    static pmix_device_distance_t distance = {"gpu://node", "card0", PMIX_DEVTYPE_GPU, 1, UINT16_MAX};
    static pmix_endpoint_t endpoint = {"fabric://node", "eth0", {"\0end", 4}};
    static char *description[] = {"what it means", NULL};
    static pmix_regattr_t attribute = {"PMIX_TIMEOUT", PMIX_TIMEOUT, PMIX_INT, description};
    static pmix_proc_stats_t usage = {"node", {"another-job", 3}, 4711, "program", 'R', {5, 6}, 1, 2, 3, 4, 5, 6, 7, 8, {9, 10}};
    static pmix_disk_stats_t disk = {"sda", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, UINT64_MAX};
    static pmix_net_stats_t net = {"eth0", 1, 2, 3, 4, 5, UINT64_MAX};
    static pmix_node_stats_t node = {"node", 0.5f, 1, 2, 4096, 1024, 3, 4, 5, 6, 7, 8, {1700000000, 1}, NULL, 0, NULL, 0};
    ADD("namespace", PMIX_PROC_NSPACE, nspace, &nspace);
    ADD("proc", PMIX_PROC, proc, &proc);
    ADD("process", PMIX_PROC_INFO, pinfo, &process);
    ADD("coordinates", PMIX_COORD, coord, &coord);
    ADD("geometry", PMIX_GEOMETRY, geometry, &geometry);
    ADD("device distance", PMIX_DEVICE_DIST, devdist, &distance);
    ADD("endpoint", PMIX_ENDPOINT, endpoint, &endpoint);
    /* The library sends fewer fields than it reads. */
    ADD("statistics of a proc", PMIX_PROC_STATS, pstats, &usage);
    ADD("disk", PMIX_DISK_STATS, dkstats, &disk);
    ADD("interface", PMIX_NET_STATS, netstats, &net);
    ADD("node", PMIX_NODE_STATS, ndstats, &node);
    /* The library reads the type differently from the form that it writes. */
    ADD("attribute", PMIX_REGATTR, ptr, &attribute);
}

static void add_arrays(void)
{
    static pmix_proc_t procs[] = {{"one", 0}, {"other", PMIX_RANK_WILDCARD}};
    static int64_t numbers[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    static char *strings[] = {"", "a", "b c"};
    static pmix_disk_stats_t disks[] = {{"sda", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {.disk = "sdb"}};
    static pmix_net_stats_t nets[] = {{"lo", 1, 2, 3, 4, 5, 6}, {.net_interface = "eth0"}};
    static pmix_node_stats_t nodes[] = {{.node = "one", .la = 1}, {.node = NULL, .mapped = 2}};
    static pmix_info_t inner[2], outer[2];
    static pmix_data_array_t of_procs = {PMIX_PROC, 2, procs}, of_numbers = {PMIX_INT64, 5, numbers},
                             of_strings = {PMIX_STRING, 3, strings}, of_nothing = {PMIX_INFO, 0, NULL},
                             of_disks = {PMIX_DISK_STATS, 2, disks}, of_nets = {PMIX_NET_STATS, 2, nets},
                             of_nodes = {PMIX_NODE_STATS, 2, nodes},
                             innermost = {PMIX_INFO, 2, inner}, outermost = {PMIX_INFO, 2, outer};
    PMIX_LOAD_KEY(inner[0].key, "test.numbers");
    inner[0].value = (pmix_value_t) {.type = PMIX_DATA_ARRAY, .data.darray = &of_numbers};
    PMIX_LOAD_KEY(inner[1].key, "test.word");
    inner[1].value = (pmix_value_t) {.type = PMIX_STRING, .data.string = "inside"};
    inner[1].flags = PMIX_INFO_REQD;
    PMIX_LOAD_KEY(outer[0].key, "test.inner");
    outer[0].value = (pmix_value_t) {.type = PMIX_DATA_ARRAY, .data.darray = &innermost};
    PMIX_LOAD_KEY(outer[1].key, "test.procs");
    outer[1].value = (pmix_value_t) {.type = PMIX_DATA_ARRAY, .data.darray = &of_procs};
    ADD("array of procs", PMIX_DATA_ARRAY, darray, &of_procs);
    ADD("array of numbers", PMIX_DATA_ARRAY, darray, &of_numbers);
    ADD("array of strings", PMIX_DATA_ARRAY, darray, &of_strings);
    ADD("array of nothing", PMIX_DATA_ARRAY, darray, &of_nothing);
    ADD("array of disks", PMIX_DATA_ARRAY, darray, &of_disks);
    ADD("array of interfaces", PMIX_DATA_ARRAY, darray, &of_nets);
    ADD("array of nodes", PMIX_DATA_ARRAY, darray, &of_nodes);
    ADD("array in arrays", PMIX_DATA_ARRAY, darray, &outermost);
}

/* Values are equal if the library encodes them in the same bytes. */
static bool is_same(pmix_value_t *one, pmix_value_t *other)
{
    pmix_data_buffer_t left, right;
    PMIX_DATA_BUFFER_CONSTRUCT(&left);
    PMIX_DATA_BUFFER_CONSTRUCT(&right);
    bool packed = PMIX_SUCCESS == PMIx_Data_pack(NULL, &left, one, 1, PMIX_VALUE) &&
                  PMIX_SUCCESS == PMIx_Data_pack(NULL, &right, other, 1, PMIX_VALUE);
    bool same = packed && left.bytes_used == right.bytes_used &&
                0 == memcmp(left.base_ptr, right.base_ptr, left.bytes_used);
    PMIX_DATA_BUFFER_DESTRUCT(&left);
    PMIX_DATA_BUFFER_DESTRUCT(&right);
    return same;
}

/* Returns the name of an event's value, followed by a star if the value differs from the expected
 * one. */
static char *show_value(pmix_status_t code, const pmix_proc_t *source, const pmix_info_t *infos, size_t ninfos)
{
    (void) code, (void) source;
    for (size_t i = 0; i < ninfos; i++) {
        for (size_t v = 0; v < nvalues; v++) {
            if (PMIX_CHECK_KEY(&infos[i], values[v].name)) {
                bool same = is_same((pmix_value_t *) &infos[i].value, &values[v].value);
                char *text = malloc(PMIX_MAX_KEYLEN + 2);
                snprintf(text, PMIX_MAX_KEYLEN + 2, "%s%s", values[v].name, same ? "" : "*");
                return text;
            }
        }
    }
    return strdup("no value");
}

static void raise_one(const char *name, pmix_status_t code, const pmix_info_t *infos, size_t ninfos)
{
    pmix_status_t status = notify(code, PMIX_RANGE_NAMESPACE, infos, ninfos);
    if (PMIX_SUCCESS != status) {
        say("%s: %s (%d)", name, PMIx_Error_string(status), status);
    }
}

static void exchange_values(void)
{
    struct {
        const char *name;
        void (*add)(void);
    } kinds[] = {{"numbers", add_numbers},
                 {"words", add_words},
                 {"states", add_states},
                 {"structures", add_structures},
                 {"arrays", add_arrays}};
    if (1 == me.rank) {
        listen_to("values", CODE);
    }
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        size_t known = nvalues;
        kinds[kind].add();
        fence();
        for (size_t v = known; 0 == me.rank && v < nvalues; v++) {
            pmix_info_t info = {.value = values[v].value};
            PMIX_LOAD_KEY(info.key, values[v].name);
            raise_one(values[v].name, CODE, &info, 1);
        }
        finish_step(kinds[kind].name);
    }
}

/* ---- codes ----------------------------------------------------------------- */

static void exchange_codes(void)
{
    static pmix_status_t codes[] = {
        /* Codes of the Standard: errors, events, and system events, for which the server calls its
         * host environment. */
        PMIX_ERROR, PMIX_ERR_PROC_ABORTED, PMIX_ERR_TIMEOUT, PMIX_EVENT_JOB_START, PMIX_EVENT_PROC_TERMINATED,
        PMIX_EVENT_NODE_DOWN, PMIX_EVENT_SYS_OTHER,
        /* Codes of users. */
        PMIX_EXTERNAL_ERR_BASE, PMIX_EXTERNAL_ERR_BASE - 1, -30000, INT_MIN + 1,
        /* Other codes. */
        PMIX_SUCCESS, 1, 42, INT_MAX};
    static char names[COUNT(codes)][16];
    if (1 == me.rank) {
        for (size_t i = 0; i < COUNT(codes); i++) {
            snprintf(names[i], sizeof names[i], "%zu", i);
            listen_to(names[i], codes[i]);
        }
        listen_with("all", codes, COUNT(codes), NULL, 0);
    }
    fence();
    for (size_t i = 0; i < COUNT(codes); i++) {
        if (0 == me.rank) {
            raise_one("code", codes[i], NULL, 0);
        }
        finish_step("code");
    }
}

int main(int argc, char **argv)
{
    bool infos = 2 == argc && 0 == strcmp(argv[1], "infos");
    if (!infos && (2 != argc || 0 != strcmp(argv[1], "codes"))) {
        fprintf(stderr, "usage: %s infos|codes\n", argv[0]);
        return 2;
    }
    show = infos ? show_value : show_note;
    start_hearing();
    infos ? exchange_values() : exchange_codes();
    return finish_hearing();
}
