// The current call, the capabilities and the exports of a component, on top of the generated peal_raw.c.
#include "peal.h"

#include <stdlib.h>
#include <string.h>

#include "peal_tree.h"

// ---- memory: everything is freed when the call ends

typedef struct block {
  struct block *before;
} block;

enum { BLOCK = 4096, ALIGN = 8 };

static block *blocks;
static uint8_t *room, *room_end;

void *peal_alloc(size_t size) {
  if (size > SIZE_MAX - BLOCK) __builtin_trap();
  size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (size > (size_t)(room_end - room)) {
    size_t wanted = ALIGN + (size > BLOCK - ALIGN ? size : BLOCK - ALIGN);
    block *fresh = malloc(wanted);
    if (fresh == NULL) __builtin_trap();
    fresh->before = blocks;
    blocks = fresh;
    room = (uint8_t *)fresh + ALIGN;
    room_end = (uint8_t *)fresh + wanted;
  }
  void *there = room;
  room += size;
  return there;
}

// Replaces the weak one of peal_raw.c, so that memory that the host writes is freed with the call as well.
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *ptr, size_t old_size, size_t align,
                                                                size_t new_size) {
  if (new_size == 0) return (void *)align;
  void *there = peal_alloc(new_size);
  if (old_size > 0) memcpy(there, ptr, old_size < new_size ? old_size : new_size);
  return there;
}

void peal_end_of_call_(void) {
  while (blocks != NULL) {
    block *before = blocks->before;
    free(blocks);
    blocks = before;
  }
  room = room_end = NULL;
}

// ---- failures

void peal_fail(const char *text) {
  peal_raw_string_t raw = peal_lower_string(text);
  peal_raw_list_string_t places = {0};
  peal_pmix_exception_describe(&raw, &places);
  __builtin_trap();
}

// Replaces that of the C library, which would write to a standard error that does not exist.
_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function) {
  peal_fail(peal_format("assertion failed at %s:%d in %s: %s", file, line, function, expression));
}

// ---- the current call

bool peal_source(peal_proc *source) {
  peal_pmix_types_proc_t raw;
  if (!peal_pmix_call_source(&raw)) return false;
  *source = peal_lift_proc(&raw);
  return true;
}

static bool given(bool is_some, const peal_pmix_types_user_identity_t *raw, peal_user_identity *identity) {
  if (is_some) *identity = (peal_user_identity){raw->uid, raw->gid};
  return is_some;
}

bool peal_credentials(peal_user_identity *identity) {
  peal_pmix_types_user_identity_t raw;
  bool is_some = peal_pmix_call_credentials(&raw);
  return given(is_some, &raw, identity);
}

peal_unix_groups peal_all_unix_groups(void) {
  peal_pmix_call_list_unix_group_t raw;
  peal_pmix_call_unix_groups(&raw);
  peal_unix_group *groups = peal_alloc(raw.len * sizeof *groups);
  for (size_t at = 0; at < raw.len; at++) {
    const peal_pmix_types_unix_group_t *group = &raw.ptr[at];
    groups[at] = (peal_unix_group){group->gid, group->name.is_some ? peal_text_of(group->name.val.ptr, group->name.val.len) : NULL};
  }
  return (peal_unix_groups){groups, raw.len};
}

bool peal_server_identity(peal_user_identity *identity) {
  peal_pmix_types_user_identity_t raw;
  bool is_some = peal_pmix_call_server_identity(&raw);
  return given(is_some, &raw, identity);
}

bool peal_peer(peal_peer_info *peer) {
  peal_pmix_call_peer_info_t raw;
  if (!peal_pmix_call_peer(&raw)) return false;
  *peer = (peal_peer_info){raw.pid.is_some ? raw.pid.val : 0, peal_text_of(raw.release.ptr, raw.release.len)};
  return true;
}

peal_procs peal_targets(void) {
  peal_pmix_call_list_proc_t raw;
  peal_pmix_call_targets(&raw);
  peal_proc *procs = peal_alloc(raw.len * sizeof *procs);
  for (size_t at = 0; at < raw.len; at++) procs[at] = peal_lift_proc(&raw.ptr[at]);
  return (peal_procs){procs, raw.len};
}

bool peal_target_owner(size_t target, peal_user_identity *identity) {
  peal_pmix_call_list_option_user_identity_t raw;
  peal_pmix_call_target_owners(&raw);
  return target < raw.len && given(raw.ptr[target].is_some, &raw.ptr[target].val, identity);
}

peal_infos peal_all_infos(void) {
  peal_pmix_call_flat_infos_t raw;
  peal_pmix_call_infos(&raw);
  return peal_lift_flat_infos(&raw.infos, &raw.arrays);
}

peal_infos peal_directives(void) {
  peal_pmix_call_flat_infos_t raw;
  peal_pmix_call_directives(&raw);
  return peal_lift_flat_infos(&raw.infos, &raw.arrays);
}

const peal_value *peal_get(const char *key) {
  peal_raw_string_t raw_key = peal_lower_string(key);
  peal_pmix_call_flat_value_t raw;
  if (!peal_pmix_call_get(&raw_key, &raw)) return NULL;
  peal_value *value = peal_alloc(sizeof *value);
  *value = peal_lift_value(&raw.value, peal_lift_arrays(&raw.arrays), raw.arrays.len);
  return value;
}

peal_chain_results peal_previous_results(void) {
  peal_pmix_call_chain_results_t raw;
  peal_pmix_call_previous_results(&raw);
  peal_array *arrays = peal_lift_arrays(&raw.arrays);
  peal_chain_result *previous = peal_alloc(raw.results.len * sizeof *previous);
  for (size_t at = 0; at < raw.results.len; at++) {
    const peal_pmix_types_chain_result_t *step = &raw.results.ptr[at];
    previous[at] = (peal_chain_result){peal_text_of(step->name.ptr, step->name.len), step->status,
                            peal_lift_infos(&step->infos, arrays, raw.arrays.len)};
  }
  return (peal_chain_results){previous, raw.results.len};
}

void peal_push_info(peal_info info) {
  raw_array_list arrays = {0};
  peal_pmix_types_info_t raw = peal_lower_info(&info, &arrays);
  peal_pmix_call_list_array_t list = {arrays.ptr, arrays.len};
  peal_pmix_call_push(&raw, &list);
}

void peal_push(const char *key, peal_value value) { peal_push_info((peal_info){key, 0, value}); }

// ---- policies

peal_policy_outcome peal_pass(void) { return (peal_policy_outcome){PEAL_PMIX_TYPES_POLICY_OUTCOME_PASS, 0}; }
peal_policy_outcome peal_grant(void) { return (peal_policy_outcome){PEAL_PMIX_TYPES_POLICY_OUTCOME_GRANT, 0}; }

peal_policy_outcome peal_deny(int32_t status, const char *reason) {
  if (reason != NULL) peal_push("peal.reason", peal_text(reason));
  return (peal_policy_outcome){PEAL_PMIX_TYPES_POLICY_OUTCOME_DENY, status};
}

void peal_amend(peal_infos infos) {
  peal_pmix_amendment_flat_infos_t raw = peal_lower_flat_infos(infos);
  peal_pmix_amendment_amend(&raw);
}

int32_t peal_narrow_range(peal_range range) {
  int32_t status = PMIX_SUCCESS;
  peal_pmix_amendment_narrow_range((peal_pmix_types_range_t)range, &status);
  return status;
}

int32_t peal_rewrite_data(peal_infos data) {
  peal_pmix_amendment_flat_infos_t raw = peal_lower_flat_infos(data);
  int32_t status = PMIX_SUCCESS;
  peal_pmix_amendment_rewrite_data(&raw, &status);
  return status;
}

// ---- capabilities

void peal_log(peal_level level, const char *message) {
  peal_raw_string_t raw = peal_lower_string(message);
  peal_pmix_logging_log((peal_pmix_logging_level_t)level, &raw);
}

uint64_t peal_now(void) { return peal_pmix_clock_now(); }

int32_t peal_notify(int32_t code, peal_range range, peal_infos infos) {
  peal_pmix_notify_flat_infos_t raw = peal_lower_flat_infos(infos);
  uint64_t request;
  int32_t status = PMIX_SUCCESS;
  peal_pmix_notify_notify(code, (peal_pmix_types_range_t)range, &raw, &request, &status);
  return status;
}

static peal_pmix_types_proc_t *lower_procs(peal_procs procs) {
  peal_pmix_types_proc_t *raw = peal_alloc(procs.len * sizeof *raw);
  for (size_t at = 0; at < procs.len; at++) {
    raw[at] = (peal_pmix_types_proc_t){peal_lower_string(procs.ptr[at].nspace), procs.ptr[at].rank};
  }
  return raw;
}

int32_t peal_job_control_request(peal_procs targets, peal_infos directives) {
  peal_pmix_job_control_list_proc_t raw_targets = {lower_procs(targets), targets.len};
  peal_pmix_job_control_flat_infos_t raw = peal_lower_flat_infos(directives);
  uint64_t request;
  int32_t status = PMIX_SUCCESS;
  peal_pmix_job_control_request(&raw_targets, &raw, &request, &status);
  return status;
}

int32_t peal_log_request_submit(peal_infos data, peal_infos directives) {
  peal_pmix_log_request_flat_infos_t raw_data = peal_lower_flat_infos(data), raw = peal_lower_flat_infos(directives);
  int32_t status = PMIX_SUCCESS;
  peal_pmix_log_request_submit(&raw_data, &raw, &status);
  return status;
}

int32_t peal_resource_usage_query(peal_procs procs, peal_infos *used) {
  peal_pmix_resource_usage_list_proc_t raw_procs = {lower_procs(procs), procs.len};
  peal_pmix_resource_usage_flat_infos_t raw;
  int32_t status = PMIX_SUCCESS;
  if (peal_pmix_resource_usage_query(&raw_procs, &raw, &status)) *used = peal_lift_flat_infos(&raw.infos, &raw.arrays);
  return status;
}

static peal_pmix_types_registration_t lower_registration(const peal_registration *registration) {
  return (peal_pmix_types_registration_t){
      .tag = registration->tag,
      .name = {registration->name != NULL, peal_lower_string(registration->name)},
      .codes = {(int32_t *)registration->codes, registration->code_count},
      .directives = peal_lower_flat_infos(registration->directives),
  };
}

int32_t peal_register(peal_registration registration) {
  peal_pmix_registration_registration_t raw = lower_registration(&registration);
  int32_t status = PMIX_SUCCESS;
  peal_pmix_registration_register(&raw, &status);
  return status;
}

int32_t peal_deregister(uint64_t registration) {
  int32_t status = PMIX_SUCCESS;
  peal_pmix_registration_deregister(registration, &status);
  return status;
}

static peal_strings lift_strings(const peal_raw_list_string_t *raw) {
  const char **texts = peal_alloc(raw->len * sizeof *texts);
  for (size_t at = 0; at < raw->len; at++) texts[at] = peal_text_of(raw->ptr[at].ptr, raw->ptr[at].len);
  return (peal_strings){texts, raw->len};
}

peal_strings peal_sink_names(void) {
  peal_raw_list_string_t raw;
  peal_pmix_sink_names(&raw);
  return lift_strings(&raw);
}

const char *peal_first_sink(void) {
  peal_strings names = peal_sink_names();
  return names.len == 0 ? NULL : names.ptr[0];
}

int32_t peal_sink_write(const char *sink, const void *ptr, size_t len) {
  peal_raw_string_t name = peal_lower_string(sink);
  peal_raw_list_u8_t bytes = {(uint8_t *)ptr, len};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_sink_write(&name, &bytes, &status);
  return status;
}

int32_t peal_sink_send_mail(const char *sink, const peal_mail *mail) {
  peal_raw_string_t name = peal_lower_string(sink);
  peal_raw_string_t *recipients = peal_alloc(mail->recipient_count * sizeof *recipients);
  for (size_t at = 0; at < mail->recipient_count; at++) recipients[at] = peal_lower_string(mail->recipients[at]);
  peal_pmix_sink_mail_t raw = {
    .sender = {mail->sender != NULL, peal_lower_string(mail->sender ? mail->sender : "")},
    .recipients = {recipients, mail->recipient_count},
    .subject = peal_lower_string(mail->subject ? mail->subject : ""),
    .text = peal_lower_string(mail->text ? mail->text : ""),
    .server = {mail->server != NULL, peal_lower_string(mail->server ? mail->server : "")},
    .port = {mail->port != 0, mail->port},
  };
  int32_t status = PMIX_SUCCESS;
  peal_pmix_sink_send_mail(&name, &raw, &status);
  return status;
}

int32_t peal_state_get(const char *key, peal_bytes *value, bool *found) {
  peal_raw_string_t raw_key = peal_lower_string(key);
  peal_raw_option_list_u8_t raw = {0};
  int32_t status = PMIX_SUCCESS;
  *found = peal_pmix_state_get(&raw_key, &raw, &status) && raw.is_some;
  if (*found) *value = (peal_bytes){raw.val.ptr, raw.val.len};
  return status;
}

int32_t peal_state_set(const char *key, const void *ptr, size_t len) {
  peal_raw_string_t raw_key = peal_lower_string(key);
  peal_raw_list_u8_t value = {(uint8_t *)ptr, len};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_state_set(&raw_key, &value, &status);
  return status;
}

int32_t peal_state_delete(const char *key) {
  peal_raw_string_t raw_key = peal_lower_string(key);
  int32_t status = PMIX_SUCCESS;
  peal_pmix_state_delete(&raw_key, &status);
  return status;
}

int32_t peal_state_keys(const char *prefix, peal_strings *keys) {
  peal_raw_string_t raw_prefix = peal_lower_string(prefix);
  peal_raw_list_string_t raw = {0};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_state_keys(&raw_prefix, &raw, &status);
  *keys = lift_strings(&raw);
  return status;
}

uint64_t peal_random_u64(void) { return peal_pmix_random_get_random_u64(); }

int32_t peal_random_fill(void *ptr, size_t len) {
  enum { AT_ONCE = 65536 };
  int32_t status = PMIX_SUCCESS;
  for (size_t at = 0; at < len;) {
    size_t part = len - at < AT_ONCE ? len - at : AT_ONCE;
    peal_raw_list_u8_t raw;
    if (!peal_pmix_random_get_random_bytes((uint32_t)part, &raw, &status)) return status;
    memcpy((uint8_t *)ptr + at, raw.ptr, part);
    at += part;
  }
  return status;
}

peal_strings peal_file_directories(void) {
  peal_raw_list_string_t raw;
  peal_pmix_files_directories(&raw);
  return lift_strings(&raw);
}

int32_t peal_file_read(const char *directory, const char *path, peal_bytes *data) {
  peal_raw_string_t in = peal_lower_string(directory), at = peal_lower_string(path);
  peal_raw_list_u8_t raw = {0};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_files_read(&in, &at, &raw, &status);
  *data = (peal_bytes){raw.ptr, raw.len};
  return status;
}

int32_t peal_file_write(const char *directory, const char *path, const void *ptr, size_t len) {
  peal_raw_string_t in = peal_lower_string(directory), at = peal_lower_string(path);
  peal_raw_list_u8_t data = {(uint8_t *)ptr, len};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_files_write(&in, &at, &data, &status);
  return status;
}

int32_t peal_file_append(const char *directory, const char *path, const void *ptr, size_t len) {
  peal_raw_string_t in = peal_lower_string(directory), at = peal_lower_string(path);
  peal_raw_list_u8_t data = {(uint8_t *)ptr, len};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_files_append(&in, &at, &data, &status);
  return status;
}

int32_t peal_file_remove(const char *directory, const char *path) {
  peal_raw_string_t in = peal_lower_string(directory), at = peal_lower_string(path);
  int32_t status = PMIX_SUCCESS;
  peal_pmix_files_remove(&in, &at, &status);
  return status;
}

int32_t peal_file_list(const char *directory, const char *path, peal_strings *names) {
  peal_raw_string_t in = peal_lower_string(directory), at = peal_lower_string(path);
  peal_raw_list_string_t raw = {0};
  int32_t status = PMIX_SUCCESS;
  peal_pmix_files_list(&in, &at, &raw, &status);
  *names = lift_strings(&raw);
  return status;
}

// ---- exports of a component

int32_t peal_run_handler_(peal_event_handler *handle, const peal_event *event) {
  int32_t status = handle(event);
  peal_end_of_call_();
  return status;
}

// Canonical form of an outcome; the host reads it when the export has returned.
const void *peal_run_policy_(peal_policy *decide, const peal_request *request) {
  static peal_pmix_types_policy_outcome_t raw;
  peal_policy_outcome outcome = decide(request);
  raw.tag = outcome.kind;
  raw.val.deny = outcome.status;
  peal_end_of_call_();
  return &raw;
}

const void *peal_run_group_(peal_policy *decide, peal_group_operation_kind kind, const peal_string *name, uint32_t previous) {
  peal_request request = {
      .subject = PEAL_GROUP,
      .group_kind = kind,
      .group_name = name == NULL ? NULL : peal_text_of((const uint8_t *)name->ptr, name->len),
      .previous_count = previous,
  };
  return peal_run_policy_(decide, &request);
}

static peal_strings texts_of(const peal_string *raw, size_t count) {
  const char **texts = peal_alloc(count * sizeof *texts);
  for (size_t at = 0; at < count; at++) texts[at] = peal_text_of((const uint8_t *)raw[at].ptr, raw[at].len);
  return (peal_strings){texts, count};
}

const void *peal_run_provision_(peal_policy *decide, const peal_string *nodes, size_t count, const peal_string *image,
                                uint32_t previous) {
  peal_request request = {
      .subject = PEAL_PROVISION,
      .nodes = texts_of(nodes, count),
      .image = image == NULL ? NULL : peal_text_of((const uint8_t *)image->ptr, image->len),
      .previous_count = previous,
  };
  return peal_run_policy_(decide, &request);
}

const void *peal_run_spawn_(peal_policy *decide, const peal_raw_application_ *raw, size_t count, uint32_t previous) {
  peal_application *applications = peal_alloc(count * sizeof *applications);
  uint32_t wanted = 0;
  for (size_t at = 0; at < count; at++) wanted |= raw[at].directives;
  // The infos hold the directives of all applications in order.
  peal_infos left = {NULL, 0};
  if (wanted > 0) left = peal_all_infos();
  for (size_t at = 0; at < count; at++) {
    const peal_raw_application_ *from = &raw[at];
    size_t own = from->directives < left.len ? from->directives : left.len;
    applications[at] = (peal_application){
        .command = peal_text_of((const uint8_t *)from->command.ptr, from->command.len),
        .arguments = texts_of(from->arguments.ptr, from->arguments.len),
        .environment = texts_of(from->environment.ptr, from->environment.len),
        .directory = from->directory.is_some
                         ? peal_text_of((const uint8_t *)from->directory.val.ptr, from->directory.val.len)
                         : NULL,
        .procs = from->procs,
        .directives = {left.ptr, own},
    };
    if (own > 0) left = (peal_infos){left.ptr + own, left.len - own};
  }
  peal_request request = {.subject = PEAL_SPAWN, .applications = {applications, count}, .previous_count = previous};
  return peal_run_policy_(decide, &request);
}

int32_t peal_run_channel_(peal_log_channel *log, const char *channel, size_t len, uint64_t timestamp, uint32_t infos,
                          uint32_t directives, uint32_t previous) {
  peal_log_request request = {peal_text_of((const uint8_t *)channel, len), timestamp, infos, directives, previous};
  int32_t status = log(&request);
  peal_end_of_call_();
  return status;
}

enum { MAX_REQUESTED = 64 };
static peal_pmix_types_registration_t *requested;
static size_t requested_count;

void peal_request_registration(peal_registration registration) {
  if (requested == NULL) requested = peal_alloc(MAX_REQUESTED * sizeof *requested);
  if (requested_count == MAX_REQUESTED) __builtin_trap();
  requested[requested_count++] = lower_registration(&registration);
}

const void *peal_run_init_(peal_init *init, void *infos, size_t info_count, void *arrays, size_t array_count) {
  static struct {
    uint8_t is_err;
    const void *ptr;
    size_t len;
  } returned;
  raw_infos raw = {infos, info_count};
  raw_arrays raw_arrays_ = {arrays, array_count};
  requested = NULL;
  requested_count = 0;
  const char *refusal = init(peal_lift_flat_infos(&raw, &raw_arrays_));
  returned.is_err = refusal != NULL;
  returned.ptr = refusal != NULL ? (const void *)refusal : requested_count == 0 ? (const void *)(uintptr_t)ALIGN : requested;
  returned.len = refusal != NULL ? strlen(refusal) : requested_count;
  // The host reads the memory before it is freed.
  return &returned;
}
