// What an author of Peal modules writes against, in C.
//
//     #include <peal.h>
//
//     static int32_t handle(const peal_event *event) {
//       peal_push("first.greeting", peal_text("well done"));
//       return PMIX_EVENT_NO_ACTION_TAKEN;
//     }
//
//     PEAL_EVENT_HANDLER(handle)
//
// One file of a module says by such macros, at its end, what the component exports. A module asks its host for what it calls and
// for nothing else. All memory that the host or this library hands over, and whatever peal_alloc gives, is freed by itself when the
// call returns: never free it, never keep it.
//
// Strings end with a zero byte; lists are a pointer and a length, and the pointer of an empty one must not be used.
#ifndef PEAL_H
#define PEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peal_names.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- values

// The PMIx type numbers of values.
typedef enum {
  PEAL_UNDEF = 0,    // no value, a NULL string
  PEAL_BOOLEAN = 1,
  PEAL_BYTE = 2,
  PEAL_TEXT = 3,
  PEAL_SIZE = 4,
  PEAL_PID = 5,
  PEAL_INT = 6,
  PEAL_INT8 = 7,
  PEAL_INT16 = 8,
  PEAL_INT32 = 9,
  PEAL_INT64 = 10,
  PEAL_UINT = 11,
  PEAL_UINT8 = 12,
  PEAL_UINT16 = 13,
  PEAL_UINT32 = 14,
  PEAL_UINT64 = 15,
  PEAL_FLOAT32 = 16,
  PEAL_FLOAT64 = 17,
  PEAL_TIMEVAL = 18,
  PEAL_TIME = 19,
  PEAL_STATUS = 20,
  PEAL_PROC = 22,
  PEAL_INFO = 24,    // of the elements of arrays only
  PEAL_BYTES = 27,
  PEAL_RANGE = 33,
  PEAL_ARRAY = 39,
  PEAL_RANK = 40,
  PEAL_NSPACE = 60,
} peal_type;

// Whom an event is meant for.
typedef enum {
  PEAL_RANGE_UNDEF,
  PEAL_RANGE_RM,
  PEAL_RANGE_LOCAL,
  PEAL_RANGE_NAMESPACE,
  PEAL_RANGE_SESSION,
  PEAL_RANGE_GLOBAL,
  PEAL_RANGE_CUSTOM,
  PEAL_RANGE_PROC_LOCAL,
} peal_range;

// How binding an info is: any of these together.
enum { PEAL_REQUIRED = 1, PEAL_ARRAY_END = 2, PEAL_REQUIRED_PROCESSED = 4, PEAL_QUALIFIER = 8, PEAL_PERSISTENT = 16 };

typedef struct peal_value peal_value;
typedef struct peal_info peal_info;

typedef struct {
  const char *nspace;
  uint32_t rank;
} peal_proc;

typedef struct {
  uint32_t uid, gid;
} peal_identity;

typedef struct {
  uint32_t gid;
  const char *name;  // or NULL where the host knows none
} peal_group;

typedef struct {
  const peal_group *ptr;
  size_t len;
} peal_groups;

typedef struct {
  uint32_t pid;         // its process by the kernel's word; 0 where that is not known
  const char *release;  // that of its library by its own word, such as "4.2.2"
} peal_peer;

typedef struct {
  const char *ptr;
  size_t len;
} peal_string;

typedef struct {
  const char *const *ptr;
  size_t len;
} peal_strings;

typedef struct {
  const uint8_t *ptr;
  size_t len;
} peal_bytes;

// An array. Its elements are infos where their type is PEAL_INFO, procs where it is PEAL_PROC, else values.
typedef struct {
  uint16_t element;
  size_t len;
  union {
    const peal_info *infos;
    const peal_proc *procs;
    const peal_value *values;
  };
} peal_array;

// A value: the member of its type is the one to read. A type that is none of the above has no shape here (`opaque`); such a value can
// be pushed again within the same call.
struct peal_value {
  uint16_t type;
  bool is_opaque;
  union {
    bool boolean;
    uint8_t byte, uint8;
    int8_t int8;
    int16_t int16;
    uint16_t uint16;
    int32_t int_, int32, status;
    uint32_t pid, uint, uint32, rank, opaque;
    int64_t int64;
    uint64_t size, uint64, time;
    float float32;
    double float64;
    struct {
      int64_t seconds, microseconds;
    } timeval;
    peal_proc proc;
    peal_string text;  // of a namespace, too
    peal_range range;
    peal_bytes bytes;
    peal_array array;
  };
};

struct peal_info {
  const char *key;
  uint8_t flags;
  peal_value value;
};

typedef struct {
  const peal_info *ptr;
  size_t len;
} peal_infos;

typedef struct {
  const peal_proc *ptr;
  size_t len;
} peal_procs;

// What one member of a chain returned; a status of -1000000 and below is one of Peal's own, of one that failed.
typedef struct {
  const char *name;
  int32_t status;
  peal_infos infos;
} peal_step;

typedef struct {
  const peal_step *ptr;
  size_t len;
} peal_steps;

// Values of some types. Of others: (peal_value){.type = PEAL_PID, .pid = 7}.
peal_value peal_boolean(bool truth);
peal_value peal_text(const char *text);
peal_value peal_i32(int32_t number);
peal_value peal_i64(int64_t number);
peal_value peal_u32(uint32_t number);
peal_value peal_u64(uint64_t number);
peal_value peal_f64(double number);
peal_value peal_status(int32_t status);
peal_value peal_blob(const void *ptr, size_t len);
peal_value peal_proc_value(const char *nspace, uint32_t rank);
peal_value peal_info_array(const peal_info *infos, size_t len);
peal_value peal_proc_array(const peal_proc *procs, size_t len);
peal_value peal_array_of(uint16_t element, const peal_value *values, size_t len);

// Reads a value of any integer type; false if it is none or does not fit. A NULL value is none.
bool peal_as_u64(const peal_value *value, uint64_t *number);
bool peal_as_i64(const peal_value *value, int64_t *number);
// The text of a string or namespace, else NULL.
const char *peal_as_text(const peal_value *value);

// Ends the call as a failure; the host tells this text wherever it tells of that. A failed `assert` of <assert.h> does so, too.
void peal_fail(const char *text) __attribute__((noreturn));

// Memory until the call returns; traps where there is none.
void *peal_alloc(size_t size);
// A string put together as by printf, of conversions %s %d %u %x %c %% and %lld %llu; for that alone stdio is not linked.
const char *peal_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- the call at hand

// Who caused it; false means the resource manager, or a tool without a name.
bool peal_source(peal_proc *source);
// User and group of the source, as the kernel told the server; false where nobody is behind it.
bool peal_credentials(peal_identity *identity);
// The groups of the source's process by the kernel's word, the one that it runs as first; for policies.
peal_groups peal_all_groups(void);
// User and group as which the server runs; for policies.
bool peal_server(peal_identity *identity);
// What connects; for policies about connections, else false.
bool peal_connection(peal_peer *peer);
// The procs it is aimed at, where it names any.
peal_procs peal_targets(void);
// User and group of the job of the target of that number; false where it is not known here; for policies.
bool peal_owner(size_t target, peal_identity *identity);
// All infos, in their order.
peal_infos peal_all_infos(void);
// How it is to be done; events have none.
peal_infos peal_directives(void);
// The value of this key among the infos or else the directives, or NULL. A repeated key means the last.
const peal_value *peal_get(const char *key);
// What those before this one in the chain returned, oldest first.
peal_steps peal_all_steps(void);
// Adds an info to what this one returns.
void peal_push(const char *key, peal_value value);
void peal_push_info(peal_info info);

// ---- events

typedef struct {
  uint64_t registration;  // the number of the registration that is called
  uint32_t tag;           // which the module gave it; 0 where the admin's file made it
  int32_t code;           // what happened
  peal_range range;
  uint32_t info_count;
  uint32_t step_count;  // how many handlers of this chain ran before
} peal_event;

typedef int32_t peal_event_handler(const peal_event *event);

// ---- policies

typedef enum {
  PEAL_CONNECTION,
  PEAL_EVENT,
  PEAL_REGISTRATION,
  PEAL_JOB_CONTROL,
  PEAL_LOG,
  PEAL_MONITOR,
  PEAL_PROVISION,
  PEAL_GROUP,
  PEAL_SPAWN
} peal_matter;

// What is to be done about a group.
typedef enum { PEAL_CONSTRUCT, PEAL_DESTRUCT, PEAL_INVITE, PEAL_JOIN } peal_group_kind;

// An application that is to be started.
typedef struct {
  const char *command;  // as it was asked for, perhaps a name that is looked for in the directories of PATH; empty where none is named
  peal_strings arguments;    // without its name
  peal_strings environment;  // beside the server's own, each NAME=value
  const char *directory;     // where it starts unless a directive says otherwise, or NULL
  uint32_t procs;            // 0 where the number makes no sense
  peal_infos directives;     // its own
} peal_application;

typedef struct {
  const peal_application *ptr;
  size_t len;
} peal_applications;

typedef struct {
  peal_matter matter;
  bool is_tool;      // of a connection: by a tool, not a proc
  int32_t code;      // of an event
  peal_range range;  // of an event
  const int32_t *codes;  // of a registration; none means all
  size_t code_count;
  peal_strings nodes;  // that are to be provided
  const char *image;   // to be put on them, or NULL
  peal_group_kind group_kind;
  const char *group_name;  // or NULL
  peal_applications applications;  // that are to be spawned as one job
  uint32_t step_count;  // how many policies of this chain were asked before
} peal_request;

typedef struct {
  uint8_t says;  // 0 pass, 1 grant, 2 deny
  int32_t status;
} peal_outcome;

typedef peal_outcome peal_policy(const peal_request *request);

// Nothing: those after it decide.
peal_outcome peal_pass(void);
// Yes.
peal_outcome peal_grant(void);
// No, with the status that the requester is told, and a reason in words or NULL.
peal_outcome peal_deny(int32_t status, const char *reason);
// Puts these in the place of the request's directives or, of an event or a connection, of its infos.
void peal_amend(peal_infos infos);
// Puts this range in the place of the event's; returns a status, PMIX_SUCCESS if it is within it.
int32_t peal_narrow(peal_range range);
// Puts these in the place of what is to be logged; returns a status, PMIX_SUCCESS where a log request is decided about.
int32_t peal_rewrite(peal_infos data);

// ---- log channels

typedef struct {
  const char *channel;  // the key of the channel that is meant
  uint64_t timestamp;   // seconds since the epoch, or 0
  uint32_t info_count, directive_count;
  uint32_t step_count;  // how many channels were tried before
} peal_log_request;

typedef int32_t peal_log_channel(const peal_log_request *request);

// ---- lifecycle

// What a module wishes to handle; no codes mean all.
typedef struct {
  uint32_t tag;
  const char *name;  // or NULL
  const int32_t *codes;
  size_t code_count;
  peal_infos directives;
} peal_registration;

// Given the settings of the admin's file; returns NULL, or why the module will not start.
typedef const char *peal_init(peal_infos config);
typedef void peal_stop(void);
// Within init: a registration that the module wishes for, up to 64.
void peal_wish(peal_registration wish);

// ---- capabilities: whoever calls one of these asks an admin for it. Each returns a status, PMIX_SUCCESS if it was done.

typedef enum { PEAL_LOG_ERROR, PEAL_LOG_WARN, PEAL_LOG_INFO, PEAL_LOG_DEBUG, PEAL_LOG_TRACE } peal_level;
// `logging`
void peal_log(peal_level level, const char *message);
// `clock`: milliseconds since the epoch
uint64_t peal_now(void);
// `notify`: raises an event after this call has returned
int32_t peal_notify(int32_t code, peal_range range, peal_infos infos);
// `registration`: effective after this call has returned
int32_t peal_register(peal_registration wish);
int32_t peal_deregister(uint64_t registration);
// `sink`
peal_strings peal_sink_names(void);  // in their order
const char *peal_first_sink(void);   // its name, or NULL where the admin opened none
int32_t peal_sink_write(const char *sink, const void *ptr, size_t len);
// A mail in its parts; the host makes the message. NULL, and 0 for the port, mean what the admin said.
typedef struct {
  const char *sender;
  const char *const *recipients;
  size_t recipient_count;
  const char *subject;
  const char *text;
  const char *server;
  uint16_t port;
} peal_mail;
int32_t peal_sink_submit(const char *sink, const peal_mail *mail);
// `state`: `value` is left alone where there is none, and then `found` is false
int32_t peal_state_get(const char *key, peal_bytes *value, bool *found);
int32_t peal_state_set(const char *key, const void *ptr, size_t len);
int32_t peal_state_delete(const char *key);
int32_t peal_state_keys(const char *prefix, peal_strings *keys);  // in their order; the prefix "" is that of all
// `random`: as good as the host's own
uint64_t peal_random(void);
int32_t peal_random_fill(void *ptr, size_t len);
// `files`: in directories that the admin named. A path is relative to its directory and leads nowhere else; whatever is done takes
// effect at once, also if the call then fails. PMIX_ERR_NOT_FOUND is for what is not there, PMIX_ERR_NO_PERMISSIONS for a path that
// leads out and for what may not be read or changed, PMIX_ERR_BAD_PARAM for a path that is none or names no regular file,
// PMIX_ERR_OUT_OF_RESOURCE for more than 16 MiB, 10,000 entries or the directory's quota.
peal_strings peal_file_directories(void);
int32_t peal_file_read(const char *directory, const char *path, peal_bytes *data);
int32_t peal_file_write(const char *directory, const char *path, const void *ptr, size_t len);  // makes it; no directories
int32_t peal_file_append(const char *directory, const char *path, const void *ptr, size_t len);
int32_t peal_file_remove(const char *directory, const char *path);
int32_t peal_file_entries(const char *directory, const char *path, peal_strings *names);  // by the path "." of itself

// `control`: asks for job control after this call has returned; without targets, of the module's own job
int32_t peal_control(peal_procs targets, peal_infos directives);
// `report`: logs after this call has returned; PMIX_LOG_SOURCE among the directives says about whom
int32_t peal_report(peal_infos data, peal_infos directives);
// `usage`: what procs use of the machine, one info for each
int32_t peal_usage_of(peal_procs procs, peal_infos *used);

// ---- what a component exports: one line for each role

#define PEAL_EXPORT_(name) __attribute__((export_name("peal:pmix/" name)))

#define PEAL_EVENT_HANDLER(handle)                                                                               \
  PEAL_EXPORT_("event-handler@0.1.0#handle")                                                                     \
  int32_t peal_export_handle(int64_t registration, int32_t tag, int32_t code, int32_t range, int32_t infos,      \
                             int32_t steps) {                                                                    \
    peal_event event = {(uint64_t)registration, (uint32_t)tag, code, (peal_range)range, (uint32_t)infos,         \
                        (uint32_t)steps};                                                                        \
    return peal_run_handler_(handle, &event);                                                                    \
  }

#define PEAL_CONNECTION_POLICY(decide)                                                                           \
  PEAL_EXPORT_("connection-policy@0.1.0#decide")                                                                 \
  const void *peal_export_decide_connection(int32_t kind, int32_t targets, int32_t infos, int32_t steps) {       \
    (void)targets, (void)infos;                                                                                  \
    peal_request request = {.matter = PEAL_CONNECTION, .is_tool = kind == 1, .step_count = (uint32_t)steps};     \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_EVENT_POLICY(decide)                                                                                \
  PEAL_EXPORT_("event-policy@0.1.0#decide")                                                                      \
  const void *peal_export_decide_event(int32_t code, int32_t range, int32_t targets, int32_t infos,              \
                                       int32_t steps) {                                                          \
    (void)targets, (void)infos;                                                                                  \
    peal_request request = {                                                                                     \
        .matter = PEAL_EVENT, .code = code, .range = (peal_range)range, .step_count = (uint32_t)steps};          \
    return peal_run_policy_(decide, &request);                                                                   \
  }                                                                                                              \
  PEAL_EXPORT_("event-policy@0.1.0#decide-registration")                                                         \
  const void *peal_export_decide_registration(const int32_t *codes, int32_t count, int32_t directives,           \
                                              int32_t steps) {                                                   \
    (void)directives;                                                                                            \
    peal_request request = {.matter = PEAL_REGISTRATION,                                                         \
                            .codes = codes,                                                                      \
                            .code_count = (size_t)count,                                                         \
                            .step_count = (uint32_t)steps};                                                      \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_GROUP_POLICY(decide)                                                                                \
  PEAL_EXPORT_("group-policy@0.1.0#decide")                                                                      \
  const void *peal_export_decide_group(int32_t kind, int32_t is_named, const char *name, size_t len,             \
                                       int32_t targets, int32_t directives, int32_t steps) {                     \
    (void)targets, (void)directives;                                                                             \
    peal_string named = {name, len};                                                                             \
    return peal_run_group_(decide, (peal_group_kind)kind, is_named ? &named : NULL, (uint32_t)steps);            \
  }

#define PEAL_JOB_CONTROL_POLICY(decide)                                                                          \
  PEAL_EXPORT_("job-control-policy@0.1.0#decide")                                                                \
  const void *peal_export_decide_job_control(int32_t targets, int32_t directives, int32_t steps) {               \
    (void)targets, (void)directives;                                                                             \
    peal_request request = {.matter = PEAL_JOB_CONTROL, .step_count = (uint32_t)steps};                          \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_LOG_POLICY(decide)                                                                                  \
  PEAL_EXPORT_("log-policy@0.1.0#decide")                                                                        \
  const void *peal_export_decide_log(int32_t infos, int32_t directives, int32_t steps) {                         \
    (void)infos, (void)directives;                                                                               \
    peal_request request = {.matter = PEAL_LOG, .step_count = (uint32_t)steps};                                  \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_MONITOR_POLICY(decide)                                                                              \
  PEAL_EXPORT_("monitor-policy@0.1.0#decide")                                                                    \
  const void *peal_export_decide_monitor(int32_t targets, int32_t infos, int32_t directives, int32_t steps) {    \
    (void)targets, (void)infos, (void)directives;                                                                \
    peal_request request = {.matter = PEAL_MONITOR, .step_count = (uint32_t)steps};                              \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_PROVISION_POLICY(decide)                                                                            \
  PEAL_EXPORT_("provision-policy@0.1.0#decide")                                                                  \
  const void *peal_export_decide_provision(const peal_string *nodes, size_t count, int32_t has_image,            \
                                           const char *image, size_t len, int32_t directives, int32_t steps) {   \
    (void)directives;                                                                                            \
    peal_string named = {image, len};                                                                            \
    return peal_run_provision_(decide, nodes, count, has_image ? &named : NULL, (uint32_t)steps);                \
  }

#define PEAL_SPAWN_POLICY(decide)                                                                                \
  PEAL_EXPORT_("spawn-policy@0.1.0#decide")                                                                      \
  const void *peal_export_decide_spawn(const peal_raw_application_ *applications, size_t count, int32_t targets, \
                                       int32_t directives, int32_t steps) {                                      \
    (void)targets, (void)directives;                                                                             \
    return peal_run_spawn_(decide, applications, count, (uint32_t)steps);                                        \
  }

#define PEAL_LOG_CHANNEL(log)                                                                                    \
  PEAL_EXPORT_("log-channel@0.1.0#log")                                                                          \
  int32_t peal_export_log(const char *channel, size_t len, int64_t timestamp, int32_t infos, int32_t directives, \
                          int32_t steps) {                                                                       \
    return peal_run_channel_(log, channel, len, (uint64_t)timestamp, (uint32_t)infos, (uint32_t)directives,      \
                             (uint32_t)steps);                                                                   \
  }

#define PEAL_LIFECYCLE(init, stop)                                                                               \
  PEAL_EXPORT_("lifecycle@0.1.0#init")                                                                           \
  const void *peal_export_init(void *infos, size_t info_count, void *arrays, size_t array_count) {               \
    return peal_run_init_(init, infos, info_count, arrays, array_count);                                         \
  }                                                                                                              \
  __attribute__((export_name("cabi_post_peal:pmix/lifecycle@0.1.0#init"))) void peal_export_after_init(          \
      const void *returned) {                                                                                    \
    (void)returned;                                                                                              \
    peal_end_of_call_();                                                                                         \
  }                                                                                                              \
  PEAL_EXPORT_("lifecycle@0.1.0#stop") void peal_export_stop(void) {                                             \
    stop();                                                                                                      \
    peal_end_of_call_();                                                                                         \
  }

// What the macros call; not for authors.
int32_t peal_run_handler_(peal_event_handler *handle, const peal_event *event);
const void *peal_run_policy_(peal_policy *decide, const peal_request *request);
const void *peal_run_group_(peal_policy *decide, peal_group_kind kind, const peal_string *name, uint32_t steps);
const void *peal_run_provision_(peal_policy *decide, const peal_string *nodes, size_t count, const peal_string *image,
                                uint32_t steps);
// An application in the canonical ABI.
typedef struct {
  peal_string command;
  struct {
    const peal_string *ptr;
    size_t len;
  } arguments, environment;
  struct {
    uint8_t is_some;
    peal_string val;
  } directory;
  uint32_t procs, directives;
} peal_raw_application_;

const void *peal_run_spawn_(peal_policy *decide, const peal_raw_application_ *applications, size_t count, uint32_t steps);
int32_t peal_run_channel_(peal_log_channel *log, const char *channel, size_t len, uint64_t timestamp, uint32_t infos,
                          uint32_t directives, uint32_t steps);
const void *peal_run_init_(peal_init *init, void *infos, size_t info_count, void *arrays, size_t array_count);
void peal_end_of_call_(void);

#ifdef __cplusplus
}
#endif

#endif
