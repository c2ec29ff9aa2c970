// SDK for modules in C++: conversion between its values and those of the library in C.
#include "peal.hpp"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>

namespace peal {
namespace {

// ---- values of C to those of C++

Proc lift(const peal_proc &proc) { return {proc.nspace, proc.rank}; }
std::string lift(const peal_string &text) { return text.len == 0 ? std::string() : std::string(text.ptr, text.len); }
std::optional<std::string> lift_optional(const char *text) {
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

UserIdentity lift(const peal_user_identity &identity) { return {identity.uid, identity.gid}; }
std::vector<std::string> lift(const peal_strings &texts) { return {texts.ptr, texts.ptr + texts.len}; }
Bytes lift(const peal_bytes &bytes) { return bytes.len == 0 ? Bytes() : Bytes(bytes.ptr, bytes.ptr + bytes.len); }
Value lift(const peal_value &value);
Info lift(const peal_info &info);

template <class From>
auto lift_all(const From *items, std::size_t count) {
  std::vector<decltype(lift(items[0]))> lifted;
  lifted.reserve(count);
  for (std::size_t at = 0; at < count; at++) lifted.push_back(lift(items[at]));
  return lifted;
}

Info lift(const peal_info &info) { return {info.key, lift(info.value), info.flags}; }
Infos lift(const peal_infos &infos) { return lift_all(infos.ptr, infos.len); }

Array lift(const peal_array &array) {
  if (array.element == PEAL_INFO) return lift_all(array.infos, array.len);
  if (array.element == PEAL_PROC) return lift_all(array.procs, array.len);
  return {array.element, lift_all(array.values, array.len)};
}

Value lift(const peal_value &value) {
  if (value.is_opaque) return Opaque{value.type, value.opaque};
  switch (value.type) {
    case PEAL_BOOLEAN: return value.boolean;
    case PEAL_BYTE: return Byte{value.byte};
    case PEAL_TEXT: return lift(value.text);
    case PEAL_SIZE: return Size{value.size};
    case PEAL_PID: return Pid{value.pid};
    case PEAL_INT: return Int{value.int_};
    case PEAL_INT8: return value.int8;
    case PEAL_INT16: return value.int16;
    case PEAL_INT32: return value.int32;
    case PEAL_INT64: return value.int64;
    case PEAL_UINT: return Uint{value.uint};
    case PEAL_UINT8: return value.uint8;
    case PEAL_UINT16: return value.uint16;
    case PEAL_UINT32: return value.uint32;
    case PEAL_UINT64: return value.uint64;
    case PEAL_FLOAT32: return value.float32;
    case PEAL_FLOAT64: return value.float64;
    case PEAL_TIMEVAL: return Timeval{value.timeval.seconds, value.timeval.microseconds};
    case PEAL_TIME: return Time{value.time};
    case PEAL_STATUS: return Status{value.status};
    case PEAL_PROC: return lift(value.proc);
    case PEAL_BYTES: return lift(value.bytes);
    case PEAL_RANGE: return static_cast<Range>(value.range);
    case PEAL_ARRAY: return lift(value.array);
    case PEAL_RANK: return Rank{value.rank};
    case PEAL_NSPACE: return Nspace{lift(value.text)};
    default: return {};
  }
}

// ---- values of C++ to those of C, which refer to the memory of the former and to memory of the call

peal_proc lower(const Proc &proc) { return {proc.nspace.c_str(), proc.rank}; }
peal_string lower(const std::string &text) { return {text.data(), text.size()}; }

template <class To, class From, class Lower>
To *lower_all(const std::vector<From> &items, Lower lower) {
  auto *lowered = static_cast<To *>(peal_alloc(items.size() * sizeof(To)));
  for (std::size_t at = 0; at < items.size(); at++) lowered[at] = lower(items[at]);
  return lowered;
}

peal_procs lower(const std::vector<Proc> &procs) {
  return {lower_all<peal_proc>(procs, [](const Proc &proc) { return lower(proc); }), procs.size()};
}

peal_value lower(const Value &value);
peal_info lower(const Info &info) { return {info.key.c_str(), info.flags, lower(info.value)}; }
peal_infos lower(const Infos &infos) {
  return {lower_all<peal_info>(infos, [](const Info &info) { return lower(info); }), infos.size()};
}

peal_array lower(const Array &array) {
  peal_array lowered{};
  lowered.element = array.element;
  if (const auto *infos = std::get_if<Infos>(&array.items)) {
    peal_infos all = lower(*infos);
    lowered.infos = all.ptr;
    lowered.len = all.len;
  } else if (const auto *procs = std::get_if<std::vector<Proc>>(&array.items)) {
    peal_procs all = lower(*procs);
    lowered.procs = all.ptr;
    lowered.len = all.len;
  } else if (const auto *values = std::get_if<std::vector<Value>>(&array.items)) {
    lowered.values = lower_all<peal_value>(*values, [](const Value &value) { return lower(value); });
    lowered.len = values->size();
  }
  return lowered;
}

peal_value lower(const Value &value) {
  peal_value lowered{};
  lowered.type = value.type();
  if (auto opaque = value.as_opaque()) {
    lowered.is_opaque = true;
    lowered.opaque = opaque->handle;
    return lowered;
  }
  switch (lowered.type) {
    case PEAL_BOOLEAN: lowered.boolean = *value.as<bool>(); break;
    case PEAL_BYTE: lowered.byte = value.as<Byte>()->number; break;
    case PEAL_SIZE: lowered.size = value.as<Size>()->number; break;
    case PEAL_PID: lowered.pid = value.as<Pid>()->number; break;
    case PEAL_INT: lowered.int_ = value.as<Int>()->number; break;
    case PEAL_INT8: lowered.int8 = *value.as<std::int8_t>(); break;
    case PEAL_INT16: lowered.int16 = *value.as<std::int16_t>(); break;
    case PEAL_INT32: lowered.int32 = *value.as<std::int32_t>(); break;
    case PEAL_INT64: lowered.int64 = *value.as<std::int64_t>(); break;
    case PEAL_UINT: lowered.uint = value.as<Uint>()->number; break;
    case PEAL_UINT8: lowered.uint8 = *value.as<std::uint8_t>(); break;
    case PEAL_UINT16: lowered.uint16 = *value.as<std::uint16_t>(); break;
    case PEAL_UINT32: lowered.uint32 = *value.as<std::uint32_t>(); break;
    case PEAL_UINT64: lowered.uint64 = *value.as<std::uint64_t>(); break;
    case PEAL_FLOAT32: lowered.float32 = *value.as<float>(); break;
    case PEAL_FLOAT64: lowered.float64 = *value.as<double>(); break;
    case PEAL_TIME: lowered.time = value.as<Time>()->number; break;
    case PEAL_STATUS: lowered.status = value.as<Status>()->number; break;
    case PEAL_RANK: lowered.rank = value.as<Rank>()->number; break;
    case PEAL_TIMEVAL: {
      const auto *time = value.as<Timeval>();
      lowered.timeval = {time->seconds, time->microseconds};
      break;
    }
    case PEAL_RANGE: lowered.range = static_cast<peal_range>(*value.as<Range>()); break;
    case PEAL_PROC: lowered.proc = lower(*value.as<Proc>()); break;
    case PEAL_TEXT: lowered.text = lower(*value.as<std::string>()); break;
    case PEAL_NSPACE: lowered.text = lower(value.as<Nspace>()->name); break;
    case PEAL_BYTES: lowered.bytes = {value.as<Bytes>()->data(), value.as<Bytes>()->size()}; break;
    case PEAL_ARRAY: lowered.array = lower(*value.as<Array>()); break;
    default: break;
  }
  return lowered;
}

peal_registration lower(const Registration &registration) {
  return {registration.tag, registration.name ? registration.name->c_str() : nullptr, registration.codes.data(),
          registration.codes.size(), lower(registration.directives)};
}

// ---- statuses

Result<void> done(std::int32_t status) {
  if (status != PMIX_SUCCESS) return std::unexpected(status);
  return {};
}

template <class T>
Result<T> done(std::int32_t status, T result) {
  if (status != PMIX_SUCCESS) return std::unexpected(status);
  return result;
}

}  // namespace

// ---- values

Array::Array(std::uint16_t element, std::vector<Value> values) : element(element), items(std::move(values)) {}
Array::Array(Infos infos) : element(PEAL_INFO), items(std::move(infos)) {}
Array::Array(std::vector<Proc> procs) : element(PEAL_PROC), items(std::move(procs)) {}

Value::Value(Opaque opaque) : type_(opaque.type), is_opaque_(true) { new (small_) Opaque(opaque); }
Value::Value(const char *text) : Value(std::string(text)) {}
Value::Value(std::string_view text) : Value(std::string(text)) {}
Value::Value(Infos infos) : Value(Array(std::move(infos))) {}
Value::Value(std::vector<Proc> procs) : Value(Array(std::move(procs))) {}

std::optional<Opaque> Value::as_opaque() const {
  if (!is_opaque_) return std::nullopt;
  return *std::launder(reinterpret_cast<const Opaque *>(small_));
}

std::optional<std::uint64_t> Value::as_u64() const {
  peal_value value = lower(*this);
  std::uint64_t number;
  return peal_as_u64(&value, &number) ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> Value::as_i64() const {
  peal_value value = lower(*this);
  std::int64_t number;
  return peal_as_i64(&value, &number) ? std::optional(number) : std::nullopt;
}

std::optional<std::string_view> Value::as_text() const {
  if (const auto *text = as<std::string>()) return *text;
  if (const auto *nspace = as<Nspace>()) return nspace->name;
  return std::nullopt;
}

std::span<const Info> Value::as_infos() const {
  const auto *array = as<Array>();
  const auto *infos = array == nullptr ? nullptr : std::get_if<Infos>(&array->items);
  return infos == nullptr ? std::span<const Info>() : *infos;
}

void fail(std::string_view text, std::source_location place) {
  std::string line = std::to_string(place.line());
  peal_fail((std::string(text) + " at " + place.file_name() + ":" + line + " in " + place.function_name()).c_str());
}

// ---- the current call

std::optional<Proc> View::source() const {
  peal_proc source;
  return peal_source(&source) ? std::optional(lift(source)) : std::nullopt;
}

std::optional<UserIdentity> View::identity() const {
  peal_user_identity identity;
  return peal_credentials(&identity) ? std::optional(lift(identity)) : std::nullopt;
}

Infos View::infos() const { return lift(peal_all_infos()); }
Infos View::directives() const { return lift(peal_directives()); }

std::vector<ChainResult> View::previous_results() const {
  peal_chain_results results = peal_previous_results();
  std::vector<ChainResult> lifted;
  for (std::size_t at = 0; at < results.len; at++) {
    const peal_chain_result &result = results.ptr[at];
    lifted.push_back({result.name, result.status, lift(result.infos)});
  }
  return lifted;
}

std::optional<Value> View::get(const char *key) const {
  const peal_value *value = peal_get(key);
  return value == nullptr ? std::nullopt : std::optional(lift(*value));
}

std::vector<Proc> Event::targets() const {
  peal_procs procs = peal_targets();
  return lift_all(procs.ptr, procs.len);
}

std::vector<std::string> Request::nodes() const { return lift(request_.nodes); }
std::optional<std::string> Request::image() const { return lift_optional(request_.image); }
std::optional<std::string> Request::group_name() const { return lift_optional(request_.group_name); }

std::vector<Application> Request::applications() const {
  std::vector<Application> applications;
  for (std::size_t at = 0; at < request_.applications.len; at++) {
    const peal_application &one = request_.applications.ptr[at];
    applications.push_back(
        {one.command, lift(one.arguments), lift(one.environment), lift_optional(one.directory), one.procs, lift(one.directives)});
  }
  return applications;
}

std::optional<PeerInfo> Request::peer() const {
  peal_peer_info peer;
  if (!peal_peer(&peer)) return std::nullopt;
  return PeerInfo{peer.pid == 0 ? std::nullopt : std::optional(peer.pid), peer.release};
}

std::vector<UnixGroup> Request::unix_groups() const {
  peal_unix_groups groups = peal_all_unix_groups();
  std::vector<UnixGroup> lifted;
  for (std::size_t at = 0; at < groups.len; at++) lifted.push_back({groups.ptr[at].gid, lift_optional(groups.ptr[at].name)});
  return lifted;
}

std::optional<UserIdentity> Request::server_identity() const {
  peal_user_identity identity;
  return peal_server_identity(&identity) ? std::optional(lift(identity)) : std::nullopt;
}

std::vector<TargetProc> Request::targets() const {
  peal_procs procs = peal_targets();
  std::vector<TargetProc> targets;
  for (std::size_t at = 0; at < procs.len; at++) {
    peal_user_identity owner;
    bool is_known = peal_target_owner(at, &owner);
    targets.push_back({lift(procs.ptr[at]), is_known ? std::optional(lift(owner)) : std::nullopt});
  }
  return targets;
}

// ---- outcomes

std::int32_t deliver(const Outcome &outcome) {
  for (const Info &info : outcome.infos) peal_push_info(lower(info));
  return outcome.status;
}

peal_policy_outcome PolicyOutcome::deliver() const {
  for (const Info &info : infos_) peal_push_info(lower(info));
  if (amended_) peal_amend(lower(*amended_));
  if (range_) peal_narrow_range(static_cast<peal_range>(*range_));
  if (rewritten_) peal_rewrite_data(lower(*rewritten_));
  return kind_;
}

// ---- lifecycle

Config::Config(peal_infos infos) : infos_(lift(infos)) {}

const Value *Config::get(std::string_view name) const {
  for (const Info &info : infos_) {
    if (info.key == name) return &info.value;
  }
  return nullptr;
}

const char *deliver(const InitOutcome &outcome) {
  // The host reads names and messages when the export has returned, so they are copied into memory of the call.
  const auto copied = [](const std::string &text) { return peal_format("%s", text.c_str()); };
  if (!outcome) return copied(outcome.error());
  for (const Registration &registration : *outcome) {
    peal_registration lowered = lower(registration);
    if (registration.name) lowered.name = copied(*registration.name);
    peal_request_registration(lowered);
  }
  return nullptr;
}

// ---- capabilities

namespace logging {
void error(const std::string &message) { peal_log(PEAL_LOG_ERROR, message.c_str()); }
void warn(const std::string &message) { peal_log(PEAL_LOG_WARN, message.c_str()); }
void info(const std::string &message) { peal_log(PEAL_LOG_INFO, message.c_str()); }
void debug(const std::string &message) { peal_log(PEAL_LOG_DEBUG, message.c_str()); }
void trace(const std::string &message) { peal_log(PEAL_LOG_TRACE, message.c_str()); }
}  // namespace logging

namespace clock {
std::uint64_t now() { return peal_now(); }
}  // namespace clock

namespace notify {
Result<void> notify(std::int32_t code, Range range, const Infos &infos) {
  return done(peal_notify(code, static_cast<peal_range>(range), lower(infos)));
}
}  // namespace notify

namespace registration {
Result<void> add(const Registration &registration) { return done(peal_register(lower(registration))); }
Result<void> remove(std::uint64_t registration) { return done(peal_deregister(registration)); }
}  // namespace registration

namespace sink {
std::vector<std::string> names() { return lift(peal_sink_names()); }
Result<void> write(const std::string &sink, std::string_view text) {
  return done(peal_sink_write(sink.c_str(), text.data(), text.size()));
}
Result<void> write(const std::string &sink, const Bytes &bytes) {
  return done(peal_sink_write(sink.c_str(), bytes.data(), bytes.size()));
}
Result<void> send_mail(const std::string &sink, const Mail &mail) {
  const auto text = [](const std::optional<std::string> &text) { return text ? text->c_str() : nullptr; };
  peal_mail lowered{};
  lowered.sender = text(mail.sender);
  lowered.recipients = lower_all<const char *>(mail.recipients, [](const std::string &recipient) { return recipient.c_str(); });
  lowered.recipient_count = mail.recipients.size();
  lowered.subject = mail.subject.c_str();
  lowered.text = mail.text.c_str();
  lowered.server = text(mail.server);
  lowered.port = mail.port.value_or(0);
  return done(peal_sink_send_mail(sink.c_str(), &lowered));
}
}  // namespace sink

namespace state {
Result<std::optional<Bytes>> get(const std::string &key) {
  peal_bytes value;
  bool found = false;
  std::int32_t status = peal_state_get(key.c_str(), &value, &found);
  return done(status, found ? std::optional(lift(value)) : std::nullopt);
}
Result<void> set(const std::string &key, std::span<const std::uint8_t> value) {
  return done(peal_state_set(key.c_str(), value.data(), value.size()));
}
Result<void> remove(const std::string &key) { return done(peal_state_delete(key.c_str())); }
Result<std::vector<std::string>> keys(const std::string &prefix) {
  peal_strings keys{};
  std::int32_t status = peal_state_keys(prefix.c_str(), &keys);
  return done(status, lift(keys));
}
}  // namespace state

namespace random {
std::uint64_t u64() { return peal_random_u64(); }
Result<Bytes> bytes(std::size_t count) {
  Bytes bytes(count);
  std::int32_t status = peal_random_fill(bytes.data(), count);
  return done(status, std::move(bytes));
}
}  // namespace random

namespace files {
std::vector<std::string> directories() { return lift(peal_file_directories()); }
Result<Bytes> read(const std::string &directory, const std::string &path) {
  peal_bytes data{};
  std::int32_t status = peal_file_read(directory.c_str(), path.c_str(), &data);
  return done(status, lift(data));
}
Result<void> write(const std::string &directory, const std::string &path, std::string_view data) {
  return done(peal_file_write(directory.c_str(), path.c_str(), data.data(), data.size()));
}
Result<void> append(const std::string &directory, const std::string &path, std::string_view data) {
  return done(peal_file_append(directory.c_str(), path.c_str(), data.data(), data.size()));
}
Result<void> remove(const std::string &directory, const std::string &path) {
  return done(peal_file_remove(directory.c_str(), path.c_str()));
}
Result<std::vector<std::string>> list(const std::string &directory, const std::string &path) {
  peal_strings names{};
  std::int32_t status = peal_file_list(directory.c_str(), path.c_str(), &names);
  return done(status, lift(names));
}
}  // namespace files

namespace job_control {
Result<void> request(const std::vector<Proc> &targets, const Infos &directives) {
  return done(peal_job_control_request(lower(targets), lower(directives)));
}
}  // namespace job_control

namespace log_request {
Result<void> submit(const Infos &data, const Infos &directives) {
  return done(peal_log_request_submit(lower(data), lower(directives)));
}
}  // namespace log_request

namespace resource_usage {
Result<Infos> query(const std::vector<Proc> &procs) {
  peal_infos used{};
  std::int32_t status = peal_resource_usage_query(lower(procs), &used);
  return done(status, lift(used));
}
}  // namespace resource_usage

}  // namespace peal

// Newer releases of the standard library say noexcept.
#ifndef _LIBCPP_VERBOSE_ABORT_NOEXCEPT
#define _LIBCPP_VERBOSE_ABORT_NOEXCEPT
#endif

// Replaces that of the standard library, which would write to a standard error that does not exist. It is called where the
// library would throw.
[[noreturn]] void std::__libcpp_verbose_abort(const char *format, ...) _LIBCPP_VERBOSE_ABORT_NOEXCEPT {
  // The formats of the library have no other conversion than %s.
  std::string text;
  va_list arguments;
  va_start(arguments, format);
  for (const char *at = format; *at != '\0'; at++) {
    if (std::strncmp(at, "%s", 2) == 0) {
      text += va_arg(arguments, const char *);
      at++;
    } else {
      text += *at;
    }
  }
  va_end(arguments);
  peal_fail(text.c_str());
}

// Replace those of the runtime library, which would bring its output to standard error into each component.
extern "C" [[noreturn]] void __cxa_pure_virtual() { peal_fail("a pure virtual function was called"); }

void *operator new(std::size_t size) {
  // An allocation of no bytes has an address of its own.
  void *memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) peal_fail("out of memory");
  return memory;
}
void *operator new[](std::size_t size) { return operator new(size); }
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return std::malloc(size == 0 ? 1 : size); }
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return std::malloc(size == 0 ? 1 : size); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
