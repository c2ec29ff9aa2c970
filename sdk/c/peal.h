// SDK for Peal modules in C.
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
// One file of a module exports the roles of the component by such macros, at its end. A component imports only the capabilities
// that the module uses. Memory returned by the host, this library or peal_alloc is freed when the call returns: do not free it,
// and do not keep it.
//
// Strings end with a zero byte. Lists are a pointer and a length; the pointer of an empty list must not be used.
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

// PMIx type numbers of values.
typedef enum {
  PEAL_UNDEF = 0,    // no value; also a NULL string
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
  PEAL_INFO = 24,    // elements of arrays only
  PEAL_BYTES = 27,
  PEAL_RANGE = 33,
  PEAL_ARRAY = 39,
  PEAL_RANK = 40,
  PEAL_NSPACE = 60,
} peal_type;

// Range of an event.
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

// Flags of an info, combined.
enum { PEAL_REQUIRED = 1, PEAL_ARRAY_END = 2, PEAL_REQUIRED_PROCESSED = 4, PEAL_QUALIFIER = 8, PEAL_PERSISTENT = 16 };

typedef struct peal_value peal_value;
typedef struct peal_info peal_info;

typedef struct {
  const char *nspace;
  uint32_t rank;
} peal_proc;

typedef struct {
  uint32_t uid, gid;
} peal_user_identity;

typedef struct {
  uint32_t gid;
  const char *name;  // or NULL if the host knows none
} peal_unix_group;

typedef struct {
  const peal_unix_group *ptr;
  size_t len;
} peal_unix_groups;

typedef struct {
  uint32_t pid;         // process id by the kernel; 0 if unknown
  const char *release;  // release of its PMIx library as stated by the peer, such as "4.2.2"
} peal_peer_info;

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

// Array. The elements are infos if their type is PEAL_INFO, procs if it is PEAL_PROC, else values.
typedef struct {
  uint16_t element;
  size_t len;
  union {
    const peal_info *infos;
    const peal_proc *procs;
    const peal_value *values;
  };
} peal_array;

// Value; the member of its type holds it. A value of another type is `opaque`: it can be pushed again within the same call, but not
// read.
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
    peal_string text;  // also of a namespace
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

// Result of one module of a chain. A status of -1000000 or below is one of Peal's own, of a module that failed.
typedef struct {
  const char *name;
  int32_t status;
  peal_infos infos;
} peal_chain_result;

typedef struct {
  const peal_chain_result *ptr;
  size_t len;
} peal_chain_results;

// Creates values of common types. For others: (peal_value){.type = PEAL_PID, .pid = 7}.
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

// Reads a value of any integer type. Returns false if the value is NULL, of another type, or does not fit.
bool peal_as_u64(const peal_value *value, uint64_t *number);
bool peal_as_i64(const peal_value *value, int64_t *number);
// Returns the text of a string or namespace, else NULL.
const char *peal_as_text(const peal_value *value);

// Ends the call as a failure with this text. A failed `assert` of <assert.h> does the same.
void peal_fail(const char *text) __attribute__((noreturn));

// Allocates memory until the call returns; traps if there is none.
void *peal_alloc(size_t size);
// Formats a string with the conversions %s %d %u %x %c %% %lld %llu, without linking stdio.
const char *peal_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- the current call

// Reads the source of the event or the requester. False: the resource manager, or a tool without a name.
bool peal_source(peal_proc *source);
// Reads user and group of the source, as reported by the kernel. False where no process is the source.
bool peal_credentials(peal_user_identity *identity);
// Returns the Unix groups of the requester's process, as reported by the kernel: its effective group first. Policies only.
peal_unix_groups peal_all_unix_groups(void);
// Reads user and group of the server. Policies only.
bool peal_server_identity(peal_user_identity *identity);
// Reads the peer that requests a connection. False for other subjects.
bool peal_peer(peal_peer_info *peer);
// Returns the target procs of the event or request.
peal_procs peal_targets(void);
// Reads the owner of a target by its index. False if this server does not know the job. Policies only.
bool peal_target_owner(size_t target, peal_user_identity *identity);
// Returns all infos in their order.
peal_infos peal_all_infos(void);
// Returns all directives: how a request is carried out. Events have none.
peal_infos peal_directives(void);
// Returns the value of a key among the infos or else the directives, or NULL. Of a repeated key the last value counts.
const peal_value *peal_get(const char *key);
// Returns the results of the modules that ran earlier in the chain, oldest first.
peal_chain_results peal_previous_results(void);
// Adds an info to the result of this module.
void peal_push(const char *key, peal_value value);
void peal_push_info(peal_info info);

// ---- events

typedef struct {
  uint64_t registration;  // number of the registration that this call is for
  uint32_t tag;           // tag that the module gave to it; 0 if the configuration made it
  int32_t code;           // event code
  peal_range range;
  uint32_t info_count;
  uint32_t previous_count;  // handlers that ran earlier in this chain
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
} peal_policy_subject;

// Operation on a group.
typedef enum { PEAL_CONSTRUCT, PEAL_DESTRUCT, PEAL_INVITE, PEAL_JOIN } peal_group_operation_kind;

// Application of the job to be spawned.
typedef struct {
  const char *command;  // as requested, possibly a name to be searched in PATH; empty if none is named
  peal_strings arguments;    // without the program's name
  peal_strings environment;  // in addition to the server's, each NAME=value
  const char *directory;     // working directory, unless a directive names another, or NULL
  uint32_t procs;            // 0 for an invalid number
  peal_infos directives;     // of the application
} peal_application;

typedef struct {
  const peal_application *ptr;
  size_t len;
} peal_applications;

typedef struct {
  peal_policy_subject subject;
  bool is_tool;      // of a connection: the peer is a tool
  int32_t code;      // of an event
  peal_range range;  // of an event
  const int32_t *codes;  // of a registration; none: all codes
  size_t code_count;
  peal_strings nodes;  // nodes to be provided
  const char *image;   // image for the nodes, or NULL
  peal_group_operation_kind group_kind;
  const char *group_name;  // or NULL
  peal_applications applications;  // applications of the job to be spawned
  uint32_t previous_count;  // policies that ran earlier in this chain
} peal_request;

typedef struct {
  uint8_t kind;  // 0 pass, 1 grant, 2 deny
  int32_t status;
} peal_policy_outcome;

typedef peal_policy_outcome peal_policy(const peal_request *request);

// Makes no decision: later policies decide.
peal_policy_outcome peal_pass(void);
// Grants the request.
peal_policy_outcome peal_grant(void);
// Denies the request with a status for the requester, and a reason in plain text or NULL.
peal_policy_outcome peal_deny(int32_t status, const char *reason);
// Replaces the directives of the request or, for an event or a connection, its infos.
void peal_amend(peal_infos infos);
// Replaces the range of the event. Returns a status, PMIX_SUCCESS if the new range is within the old one.
int32_t peal_narrow_range(peal_range range);
// Replaces the data of a log request. Returns a status, PMIX_SUCCESS if the request is one.
int32_t peal_rewrite_data(peal_infos data);

// ---- log channels

typedef struct {
  const char *channel;  // key of the channel
  uint64_t timestamp;   // seconds since the epoch, or 0
  uint32_t info_count, directive_count;
  uint32_t previous_count;  // channels that were tried earlier
} peal_log_request;

typedef int32_t peal_log_channel(const peal_log_request *request);

// ---- lifecycle

// Registration that a module requests; no codes: all codes.
typedef struct {
  uint32_t tag;
  const char *name;  // or NULL
  const int32_t *codes;
  size_t code_count;
  peal_infos directives;
} peal_registration;

// Receives the settings of the admin's configuration. Returns NULL, or a message that keeps the module from starting.
typedef const char *peal_init(peal_infos config);
typedef void peal_stop(void);
// Requests a registration, within init; at most 64.
void peal_request_registration(peal_registration registration);

// ---- capabilities: a module that calls one of these needs its grant. They return a status, PMIX_SUCCESS for success.

typedef enum { PEAL_LOG_ERROR, PEAL_LOG_WARN, PEAL_LOG_INFO, PEAL_LOG_DEBUG, PEAL_LOG_TRACE } peal_level;
// `logging`: writes to the trace of the host
void peal_log(peal_level level, const char *message);
// `clock`: returns milliseconds since the epoch
uint64_t peal_now(void);
// `notify`: raises an event after this call has returned
int32_t peal_notify(int32_t code, peal_range range, peal_infos infos);
// `registration`: changes the registrations of this module after this call has returned
int32_t peal_register(peal_registration registration);
int32_t peal_deregister(uint64_t registration);
// `sink`: writes to the sinks that the admin opened for this module
peal_strings peal_sink_names(void);  // sorted
const char *peal_first_sink(void);   // its name, or NULL if the admin opened none
int32_t peal_sink_write(const char *sink, const void *ptr, size_t len);
// Parts of a mail; the host composes the message. NULL, and 0 for the port: as the admin configured.
typedef struct {
  const char *sender;
  const char *const *recipients;
  size_t recipient_count;
  const char *subject;
  const char *text;
  const char *server;
  uint16_t port;
} peal_mail;
int32_t peal_sink_send_mail(const char *sink, const peal_mail *mail);
// `state`: a key-value store of this module. `value` is unchanged and `found` false if the key does not exist.
int32_t peal_state_get(const char *key, peal_bytes *value, bool *found);
int32_t peal_state_set(const char *key, const void *ptr, size_t len);
int32_t peal_state_delete(const char *key);
int32_t peal_state_keys(const char *prefix, peal_strings *keys);  // sorted; the prefix "": all keys
// `random`: reads the random source of the host system
uint64_t peal_random_u64(void);
int32_t peal_random_fill(void *ptr, size_t len);
// `files`: reads and writes files in directories that the admin granted. A path is relative to its directory and cannot leave it.
// Operations take effect immediately, also if the call then fails. Refused with PMIX_ERR_NOT_FOUND for a file that does not exist,
// PMIX_ERR_NO_PERMISSIONS for a path that leaves its directory and for missing access rights, PMIX_ERR_BAD_PARAM for a path that is
// invalid or not that of a regular file, PMIX_ERR_OUT_OF_RESOURCE beyond 16 MiB, 10,000 entries or the directory's quota.
peal_strings peal_file_directories(void);
int32_t peal_file_read(const char *directory, const char *path, peal_bytes *data);
int32_t peal_file_write(const char *directory, const char *path, const void *ptr, size_t len);  // creates the file, but no directories
int32_t peal_file_append(const char *directory, const char *path, const void *ptr, size_t len);
int32_t peal_file_remove(const char *directory, const char *path);
int32_t peal_file_list(const char *directory, const char *path, peal_strings *names);  // sorted; the path "." is the directory itself

// `job-control`: requests job control after this call has returned; without targets, of the job that owns this module
int32_t peal_job_control_request(peal_procs targets, peal_infos directives);
// `log-request`: submits a log request after this call has returned; the directive PMIX_LOG_SOURCE names the subject
int32_t peal_log_request_submit(peal_infos data, peal_infos directives);
// `resource-usage`: queries the resources that procs use, one info for each
int32_t peal_resource_usage_query(peal_procs procs, peal_infos *used);

// ---- exports of a component: one line for each role

#define PEAL_EXPORT_(name) __attribute__((export_name("peal:pmix/" name)))

#define PEAL_EVENT_HANDLER(handle)                                                                               \
  PEAL_EXPORT_("event-handler@0.1.0#handle")                                                                     \
  int32_t peal_export_handle(int64_t registration, int32_t tag, int32_t code, int32_t range, int32_t infos,      \
                             int32_t previous) {                                                                    \
    peal_event event = {(uint64_t)registration, (uint32_t)tag, code, (peal_range)range, (uint32_t)infos,         \
                        (uint32_t)previous};                                                                        \
    return peal_run_handler_(handle, &event);                                                                    \
  }

#define PEAL_CONNECTION_POLICY(decide)                                                                           \
  PEAL_EXPORT_("connection-policy@0.1.0#decide")                                                                 \
  const void *peal_export_decide_connection(int32_t kind, int32_t targets, int32_t infos, int32_t previous) {       \
    (void)targets, (void)infos;                                                                                  \
    peal_request request = {.subject = PEAL_CONNECTION, .is_tool = kind == 1, .previous_count = (uint32_t)previous};     \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_EVENT_POLICY(decide)                                                                                \
  PEAL_EXPORT_("event-policy@0.1.0#decide")                                                                      \
  const void *peal_export_decide_event(int32_t code, int32_t range, int32_t targets, int32_t infos,              \
                                       int32_t previous) {                                                          \
    (void)targets, (void)infos;                                                                                  \
    peal_request request = {                                                                                     \
        .subject = PEAL_EVENT, .code = code, .range = (peal_range)range, .previous_count = (uint32_t)previous};          \
    return peal_run_policy_(decide, &request);                                                                   \
  }                                                                                                              \
  PEAL_EXPORT_("event-policy@0.1.0#decide-registration")                                                         \
  const void *peal_export_decide_registration(const int32_t *codes, int32_t count, int32_t directives,           \
                                              int32_t previous) {                                                   \
    (void)directives;                                                                                            \
    peal_request request = {.subject = PEAL_REGISTRATION,                                                         \
                            .codes = codes,                                                                      \
                            .code_count = (size_t)count,                                                         \
                            .previous_count = (uint32_t)previous};                                                      \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_GROUP_POLICY(decide)                                                                                \
  PEAL_EXPORT_("group-policy@0.1.0#decide")                                                                      \
  const void *peal_export_decide_group(int32_t kind, int32_t is_named, const char *name, size_t len,             \
                                       int32_t targets, int32_t directives, int32_t previous) {                     \
    (void)targets, (void)directives;                                                                             \
    peal_string named = {name, len};                                                                             \
    return peal_run_group_(decide, (peal_group_operation_kind)kind, is_named ? &named : NULL, (uint32_t)previous);            \
  }

#define PEAL_JOB_CONTROL_POLICY(decide)                                                                          \
  PEAL_EXPORT_("job-control-policy@0.1.0#decide")                                                                \
  const void *peal_export_decide_job_control(int32_t targets, int32_t directives, int32_t previous) {               \
    (void)targets, (void)directives;                                                                             \
    peal_request request = {.subject = PEAL_JOB_CONTROL, .previous_count = (uint32_t)previous};                          \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_LOG_POLICY(decide)                                                                                  \
  PEAL_EXPORT_("log-policy@0.1.0#decide")                                                                        \
  const void *peal_export_decide_log(int32_t infos, int32_t directives, int32_t previous) {                         \
    (void)infos, (void)directives;                                                                               \
    peal_request request = {.subject = PEAL_LOG, .previous_count = (uint32_t)previous};                                  \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_MONITOR_POLICY(decide)                                                                              \
  PEAL_EXPORT_("monitor-policy@0.1.0#decide")                                                                    \
  const void *peal_export_decide_monitor(int32_t targets, int32_t infos, int32_t directives, int32_t previous) {    \
    (void)targets, (void)infos, (void)directives;                                                                \
    peal_request request = {.subject = PEAL_MONITOR, .previous_count = (uint32_t)previous};                              \
    return peal_run_policy_(decide, &request);                                                                   \
  }

#define PEAL_PROVISION_POLICY(decide)                                                                            \
  PEAL_EXPORT_("provision-policy@0.1.0#decide")                                                                  \
  const void *peal_export_decide_provision(const peal_string *nodes, size_t count, int32_t has_image,            \
                                           const char *image, size_t len, int32_t directives, int32_t previous) {   \
    (void)directives;                                                                                            \
    peal_string named = {image, len};                                                                            \
    return peal_run_provision_(decide, nodes, count, has_image ? &named : NULL, (uint32_t)previous);                \
  }

#define PEAL_SPAWN_POLICY(decide)                                                                                \
  PEAL_EXPORT_("spawn-policy@0.1.0#decide")                                                                      \
  const void *peal_export_decide_spawn(const peal_raw_application_ *applications, size_t count, int32_t targets, \
                                       int32_t directives, int32_t previous) {                                      \
    (void)targets, (void)directives;                                                                             \
    return peal_run_spawn_(decide, applications, count, (uint32_t)previous);                                        \
  }

#define PEAL_LOG_CHANNEL(log)                                                                                    \
  PEAL_EXPORT_("log-channel@0.1.0#log")                                                                          \
  int32_t peal_export_log(const char *channel, size_t len, int64_t timestamp, int32_t infos, int32_t directives, \
                          int32_t previous) {                                                                       \
    return peal_run_channel_(log, channel, len, (uint64_t)timestamp, (uint32_t)infos, (uint32_t)directives,      \
                             (uint32_t)previous);                                                                   \
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

// Functions that the macros call; not for authors.
int32_t peal_run_handler_(peal_event_handler *handle, const peal_event *event);
const void *peal_run_policy_(peal_policy *decide, const peal_request *request);
const void *peal_run_group_(peal_policy *decide, peal_group_operation_kind kind, const peal_string *name, uint32_t previous);
const void *peal_run_provision_(peal_policy *decide, const peal_string *nodes, size_t count, const peal_string *image,
                                uint32_t previous);
// Application in the canonical ABI.
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

const void *peal_run_spawn_(peal_policy *decide, const peal_raw_application_ *applications, size_t count, uint32_t previous);
int32_t peal_run_channel_(peal_log_channel *log, const char *channel, size_t len, uint64_t timestamp, uint32_t infos,
                          uint32_t directives, uint32_t previous);
const void *peal_run_init_(peal_init *init, void *infos, size_t info_count, void *arrays, size_t array_count);
void peal_end_of_call_(void);

#ifdef __cplusplus
}
#endif

#endif
