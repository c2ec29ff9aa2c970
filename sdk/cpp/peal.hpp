// SDK for Peal modules in C++23.
//
//     #include <peal.hpp>
//
//     static peal::Outcome handle(const peal::Event &event) {
//       return peal::Outcome::no_action().with("first.code", event.code());
//     }
//
//     PEAL_EVENT_HANDLER(peal::event_handler<handle>)
//
// One file of a module exports the roles of the component by such macros, at its end. A component imports only the capabilities
// that the module uses. Values own their memory: they may be kept after the call. The names of the Standard (PMIX_...) are
// macros.
//
// There are no exceptions and no RTTI. A failed `assert`, peal::fail, and what would throw in the standard library end the call
// as a failure with its text. Capabilities return std::expected with the status of a refusal. What needs stdio does not build:
// <iostream>, <format>, std::to_string of a double. std::to_string of an integer and peal_format do.
#ifndef PEAL_HPP
#define PEAL_HPP

#include <cstddef>
#include <cstdint>
#include <expected>
#include <new>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// The library in C: this one converts its values, and its macros export the roles.
#include <peal.h>

namespace peal {

// ---- values

// Integer that keeps its PMIx type, where C++ has no type of its own for it. The width of a plain integer is its type:
// std::int8_t to std::uint64_t.
template <peal_type type, class Number>
struct Typed {
  Number number = 0;
  bool operator==(const Typed &) const = default;
};

using Byte = Typed<PEAL_BYTE, std::uint8_t>;
using Size = Typed<PEAL_SIZE, std::uint64_t>;
using Pid = Typed<PEAL_PID, std::uint32_t>;
using Int = Typed<PEAL_INT, std::int32_t>;     // `int` of C
using Uint = Typed<PEAL_UINT, std::uint32_t>;  // `unsigned int` of C
using Time = Typed<PEAL_TIME, std::uint64_t>;  // seconds since the epoch
using Status = Typed<PEAL_STATUS, std::int32_t>;
using Rank = Typed<PEAL_RANK, std::uint32_t>;

// Span or point of time.
struct Timeval {
  std::int64_t seconds = 0, microseconds = 0;
  bool operator==(const Timeval &) const = default;
};

// Proc: namespace and rank.
struct Proc {
  std::string nspace;
  std::uint32_t rank = 0;
  bool operator==(const Proc &) const = default;
};

// Namespace.
struct Nspace {
  std::string name;
  bool operator==(const Nspace &) const = default;
};

// Value of a type that the contract does not define. It can be passed on within the same call.
struct Opaque {
  std::uint16_t type = 0;
  std::uint32_t handle = 0;
  bool operator==(const Opaque &) const = default;
};

// Range of an event.
enum class Range : std::uint8_t { undef, rm, local, nspace, session, global, custom, proc_local };

// User and group of a process, as reported by the kernel.
struct UserIdentity {
  std::uint32_t uid = 0, gid = 0;
  bool operator==(const UserIdentity &) const = default;
};

using Bytes = std::vector<std::uint8_t>;

class Value;
struct Info;
using Infos = std::vector<Info>;

// Array of infos, procs or other values of one type, which is given even if the array is empty: `element`, a PMIx type number.
struct Array {
  std::uint16_t element = PEAL_UNDEF;
  std::variant<std::vector<Value>, Infos, std::vector<Proc>> items;

  Array(std::uint16_t element, std::vector<Value> values);
  Array(Infos infos);
  Array(std::vector<Proc> procs);
};

// PMIx type number of each type of C++ that a value can have.
template <class T>
inline constexpr std::uint16_t type_of = PEAL_UNDEF;
template <peal_type type, class Number>
inline constexpr std::uint16_t type_of<Typed<type, Number>> = type;
template <>
inline constexpr std::uint16_t type_of<bool> = PEAL_BOOLEAN;
template <>
inline constexpr std::uint16_t type_of<std::string> = PEAL_TEXT;
template <>
inline constexpr std::uint16_t type_of<std::int8_t> = PEAL_INT8;
template <>
inline constexpr std::uint16_t type_of<std::int16_t> = PEAL_INT16;
template <>
inline constexpr std::uint16_t type_of<std::int32_t> = PEAL_INT32;
template <>
inline constexpr std::uint16_t type_of<std::int64_t> = PEAL_INT64;
template <>
inline constexpr std::uint16_t type_of<std::uint8_t> = PEAL_UINT8;
template <>
inline constexpr std::uint16_t type_of<std::uint16_t> = PEAL_UINT16;
template <>
inline constexpr std::uint16_t type_of<std::uint32_t> = PEAL_UINT32;
template <>
inline constexpr std::uint16_t type_of<std::uint64_t> = PEAL_UINT64;
template <>
inline constexpr std::uint16_t type_of<float> = PEAL_FLOAT32;
template <>
inline constexpr std::uint16_t type_of<double> = PEAL_FLOAT64;
template <>
inline constexpr std::uint16_t type_of<Timeval> = PEAL_TIMEVAL;
template <>
inline constexpr std::uint16_t type_of<Proc> = PEAL_PROC;
template <>
inline constexpr std::uint16_t type_of<Bytes> = PEAL_BYTES;
template <>
inline constexpr std::uint16_t type_of<Range> = PEAL_RANGE;
template <>
inline constexpr std::uint16_t type_of<Array> = PEAL_ARRAY;
template <>
inline constexpr std::uint16_t type_of<Nspace> = PEAL_NSPACE;

// Types of values, except for the opaque ones. Other types are refused, so that no integer changes its width unseen.
template <class T>
concept Typical = type_of<T> != PEAL_UNDEF;

// Value of one PMIx type. A value that was made of nothing is no value, or a NULL string.
class Value {
 public:
  Value() = default;
  template <class T>
    requires Typical<std::remove_cvref_t<T>>
  Value(T &&held) : type_(type_of<std::remove_cvref_t<T>>) {
    using Held = std::remove_cvref_t<T>;
    if constexpr (is_small<Held>) {
      new (small_) Held(held);
    } else {
      large_.template emplace<Held>(std::forward<T>(held));
    }
  }
  Value(Opaque opaque);
  Value(const char *text);
  Value(std::string_view text);
  Value(Infos infos);
  Value(std::vector<Proc> procs);

  // Returns the PMIx type number.
  std::uint16_t type() const { return type_; }
  // Returns what the value holds, or nullptr if that has another type.
  template <Typical T>
  const T *as() const {
    if (type_ != type_of<T> || is_opaque_) return nullptr;
    if constexpr (is_small<T>) {
      return std::launder(reinterpret_cast<const T *>(small_));
    } else {
      return std::get_if<T>(&large_);
    }
  }
  std::optional<Opaque> as_opaque() const;
  // Returns an integer of any type. Empty for other types, and for a number that does not fit.
  std::optional<std::uint64_t> as_u64() const;
  std::optional<std::int64_t> as_i64() const;
  // Returns the text of a string or a namespace.
  std::optional<std::string_view> as_text() const;
  // Returns the infos of an array of infos; none for other values.
  std::span<const Info> as_infos() const;

 private:
  template <class T>
  static constexpr bool is_small = std::is_trivially_copyable_v<T>;

  std::uint16_t type_ = PEAL_UNDEF;
  bool is_opaque_ = false;
  // One variant of all types would be several times the code.
  alignas(8) std::byte small_[16] = {};
  std::variant<std::monostate, std::string, Proc, Bytes, Array, Nspace> large_;
};

// Info or directive: a value under a key. The flags are those of peal.h, such as PEAL_REQUIRED.
struct Info {
  std::string key;
  Value value;
  std::uint8_t flags = 0;
};

// Result of one module of a chain. A status of -1000000 or below is one of Peal's own, of a module that failed.
struct ChainResult {
  std::string name;
  std::int32_t status = 0;
  Infos infos;
};

// Ends the call as a failure with this text and the place of the caller.
[[noreturn]] void fail(std::string_view text, std::source_location place = std::source_location::current());

// ---- the current call

// Common part of events, requests and log requests. Every function calls the host, so keep a value that is needed twice.
class View {
 public:
  // Source of the event or the requester. Empty: the resource manager, or a tool without a name.
  std::optional<Proc> source() const;
  // User and group of the source, as reported by the kernel. Empty where no process is the source.
  std::optional<UserIdentity> identity() const;
  // All infos, in their order.
  Infos infos() const;
  // Directives: how a request is carried out. Events have none.
  Infos directives() const;
  // Results of the modules that ran earlier in the chain, oldest first.
  std::vector<ChainResult> previous_results() const;
  // Number of the modules that ran earlier in the chain.
  std::uint32_t previous_count() const { return previous_count_; }
  // Value of a key among the infos or else the directives. Of a repeated key the last value counts.
  std::optional<Value> get(const char *key) const;

 protected:
  explicit View(std::uint32_t previous_count) : previous_count_(previous_count) {}

 private:
  std::uint32_t previous_count_;
};

// Event of the current call.
class Event : public View {
 public:
  explicit Event(const peal_event &event) : View(event.previous_count), event_(event) {}
  std::int32_t code() const { return event_.code; }
  Range range() const { return static_cast<Range>(event_.range); }
  // Number of the registration that this call is for.
  std::uint64_t registration() const { return event_.registration; }
  // Tag that this module gave to its registration; 0 if the configuration made it.
  std::uint32_t tag() const { return event_.tag; }
  std::uint32_t info_count() const { return event_.info_count; }
  // Target procs of the event, if it names any.
  std::vector<Proc> targets() const;

 private:
  peal_event event_;
};

// Target proc of a request, and the user and group of its job; no owner if this server does not know the job.
struct TargetProc {
  Proc proc;
  std::optional<UserIdentity> owner;
};

// Unix group: its number, and its name if the host knows one.
struct UnixGroup {
  std::uint32_t gid = 0;
  std::optional<std::string> name;
};

// Peer of a connection: its process id by the kernel, if known, and the release of its PMIx library as stated by the peer.
struct PeerInfo {
  std::optional<std::uint32_t> pid;
  std::string release;
};

// Application of the job to be spawned.
struct Application {
  std::string command;                   // as requested; empty if none is named
  std::vector<std::string> arguments;    // without the program's name
  std::vector<std::string> environment;  // in addition to the server's, each NAME=value
  std::optional<std::string> directory;  // working directory, unless a directive names another
  std::uint32_t procs = 1;               // 0 for an invalid number
  Infos directives;                      // of the application
};

enum class Subject : std::uint8_t { connection, event, registration, job_control, log, monitor, provision, group, spawn };
enum class GroupOperationKind : std::uint8_t { construct, destruct, invite, join };

// Request to decide about.
class Request : public View {
 public:
  explicit Request(const peal_request &request) : View(request.previous_count), request_(request) {}
  Subject subject() const { return static_cast<Subject>(request_.subject); }
  // True for a connection of a tool.
  bool is_tool() const { return request_.is_tool; }
  // Code and range of an event.
  std::int32_t code() const { return request_.code; }
  Range range() const { return static_cast<Range>(request_.range); }
  // Codes of a registration; none: all codes.
  std::span<const std::int32_t> codes() const { return {request_.codes, request_.code_count}; }
  // Names of the nodes to be provided, and the image for them.
  std::vector<std::string> nodes() const;
  std::optional<std::string> image() const;
  // Operation on a group, and the group's name if the request has one.
  GroupOperationKind group_kind() const { return static_cast<GroupOperationKind>(request_.group_kind); }
  std::optional<std::string> group_name() const;
  // Applications of the job to be spawned.
  std::vector<Application> applications() const;
  // Peer of a connection.
  std::optional<PeerInfo> peer() const;
  // Unix groups of the requester's process, as reported by the kernel: its effective group first.
  std::vector<UnixGroup> unix_groups() const;
  // User and group of the server.
  std::optional<UserIdentity> server_identity() const;
  // Target procs, with their owners.
  std::vector<TargetProc> targets() const;

 private:
  peal_request request_;
};

// Log request of the current call; its infos are the data to be written.
class LogRequest : public View {
 public:
  explicit LogRequest(const peal_log_request &request) : View(request.previous_count), request_(request) {}
  // Key of the channel.
  const char *channel() const { return request_.channel; }
  // Time of the request, in seconds since the epoch.
  std::optional<std::uint64_t> timestamp() const {
    return request_.timestamp == 0 ? std::nullopt : std::optional(request_.timestamp);
  }

 private:
  peal_log_request request_;
};

// ---- outcomes

// Outcome of a handler's or a log channel's call: a status, and infos for later modules of the chain.
class [[nodiscard]] Outcome {
 public:
  // Any status: one of the Standard, or a number that programs agreed upon.
  explicit Outcome(std::int32_t status) : status(status) {}
  // No action was taken.
  static Outcome no_action() { return Outcome(PMIX_EVENT_NO_ACTION_TAKEN); }
  // An action was taken; others may take more.
  static Outcome partial() { return Outcome(PMIX_EVENT_PARTIAL_ACTION_TAKEN); }
  // An action will be taken later.
  static Outcome deferred() { return Outcome(PMIX_EVENT_ACTION_DEFERRED); }
  // All actions were taken. This status alone ends the chain of its owner.
  static Outcome complete() { return Outcome(PMIX_EVENT_ACTION_COMPLETE); }
  // The request was logged.
  static Outcome success() { return Outcome(PMIX_SUCCESS); }

  // Adds an info for later modules of the chain.
  Outcome &&with(std::string key, Value value, std::uint8_t flags = 0) && {
    add(std::move(key), std::move(value), flags);
    return std::move(*this);
  }
  void add(std::string key, Value value, std::uint8_t flags = 0) { infos.push_back({std::move(key), std::move(value), flags}); }

  std::int32_t status;
  Infos infos;
};

// Outcome of one policy about a request.
class [[nodiscard]] PolicyOutcome {
 public:
  // No decision: later policies decide or, if none does, the site's default.
  static PolicyOutcome pass() { return PolicyOutcome(peal_pass()); }
  // Grants the request; later policies are not called.
  static PolicyOutcome grant() { return PolicyOutcome(peal_grant()); }
  // Denies the request with a status for the requester; later policies are not called.
  static PolicyOutcome deny(std::int32_t status = PMIX_ERR_NO_PERMISSIONS) { return PolicyOutcome(peal_deny(status, nullptr)); }
  // Denies the request with a reason in plain text for the requester.
  static PolicyOutcome deny(std::int32_t status, std::string_view reason) { return deny(status).with("peal.reason", reason); }

  // Adds an info for later modules of the chain and, for a grant of nodes, for the requester.
  PolicyOutcome &&with(std::string key, Value value) && {
    infos_.push_back({std::move(key), std::move(value)});
    return std::move(*this);
  }
  // Replaces the directives of the request or, for an event or a connection, its infos. Without effect if the outcome is a
  // denial.
  PolicyOutcome &&amend(Infos infos) && {
    amended_ = std::move(infos);
    return std::move(*this);
  }
  // Replaces the range of the event. Without effect if the new range is not within the old one.
  PolicyOutcome &&narrow_range(Range range) && {
    range_ = range;
    return std::move(*this);
  }
  // Replaces the data of a log request. Without effect for other subjects, or if the outcome is a denial.
  PolicyOutcome &&rewrite_data(Infos data) && {
    rewritten_ = std::move(data);
    return std::move(*this);
  }

  // Hands the outcome to the host; the adapters below call it.
  peal_policy_outcome deliver() const;

 private:
  explicit PolicyOutcome(peal_policy_outcome kind) : kind_(kind) {}
  peal_policy_outcome kind_;
  Infos infos_;
  std::optional<Infos> amended_, rewritten_;
  std::optional<Range> range_;
};

// ---- lifecycle

// Registration that a module requests. Without codes it is called for every event.
struct Registration {
  std::uint32_t tag = 0;
  std::optional<std::string> name;
  std::vector<std::int32_t> codes;
  Infos directives;  // placement and filters
};

// Settings of this module in the admin's configuration.
class Config {
 public:
  explicit Config(peal_infos infos);
  const Infos &infos() const { return infos_; }
  // Value of a setting, or nullptr.
  const Value *get(std::string_view name) const;

 private:
  Infos infos_;
};

// Registrations of a module that starts, or the message of one that does not: return std::unexpected("...").
using InitOutcome = std::expected<std::vector<Registration>, std::string>;

// ---- capabilities: a module that calls one of these needs its grant. The error of a result is the status of a refusal.

template <class T>
using Result = std::expected<T, std::int32_t>;

// Writes to the trace of the host.
namespace logging {
void error(const std::string &message);
void warn(const std::string &message);
void info(const std::string &message);
void debug(const std::string &message);
void trace(const std::string &message);
}  // namespace logging

namespace clock {
// Returns milliseconds since the epoch.
std::uint64_t now();
}  // namespace clock

namespace notify {
// Raises an event after this call has returned.
Result<void> notify(std::int32_t code, Range range = Range::session, const Infos &infos = {});
}  // namespace notify

// Changes the registrations of this module after this call has returned.
namespace registration {
Result<void> add(const Registration &registration);
Result<void> remove(std::uint64_t registration);
}  // namespace registration

// Mail; the host composes the message. What is missing is as the admin configured it.
struct Mail {
  std::vector<std::string> recipients;
  std::string subject, text;
  std::optional<std::string> sender, server;
  std::optional<std::uint16_t> port;
};

// Writes to the sinks that the admin opened for this module.
namespace sink {
std::vector<std::string> names();  // sorted
Result<void> write(const std::string &sink, std::string_view text);
Result<void> write(const std::string &sink, const Bytes &bytes);
Result<void> send_mail(const std::string &sink, const Mail &mail);
}  // namespace sink

// Key-value store of this module, which survives restarts.
namespace state {
Result<std::optional<Bytes>> get(const std::string &key);
Result<void> set(const std::string &key, std::span<const std::uint8_t> value);
Result<void> remove(const std::string &key);
Result<std::vector<std::string>> keys(const std::string &prefix = "");  // sorted
}  // namespace state

// Random source of the host system.
namespace random {
std::uint64_t u64();
Result<Bytes> bytes(std::size_t count);
}  // namespace random

// Files in directories that the admin granted. A path is relative to its directory and cannot leave it. Operations take effect
// immediately, also if the call then fails. peal.h lists the refusals.
namespace files {
std::vector<std::string> directories();
Result<Bytes> read(const std::string &directory, const std::string &path);
// Replaces the content of a file, or creates the file; creates no directories.
Result<void> write(const std::string &directory, const std::string &path, std::string_view data);
Result<void> append(const std::string &directory, const std::string &path, std::string_view data);
Result<void> remove(const std::string &directory, const std::string &path);
Result<std::vector<std::string>> list(const std::string &directory, const std::string &path = ".");  // sorted
}  // namespace files

namespace job_control {
// Requests job control after this call has returned; without targets, of the job that owns this module.
Result<void> request(const std::vector<Proc> &targets, const Infos &directives);
}  // namespace job_control

namespace log_request {
// Submits a log request after this call has returned; the directive PMIX_LOG_SOURCE names the subject.
Result<void> submit(const Infos &data, const Infos &directives = {});
}  // namespace log_request

namespace resource_usage {
// Queries the resources that procs use, one info for each.
Result<Infos> query(const std::vector<Proc> &procs);
}  // namespace resource_usage

// ---- exports: adapters from functions in C++ to the macros of peal.h

// Hands the infos of an outcome to the host, and returns its status.
std::int32_t deliver(const Outcome &outcome);
// Hands the registrations of a start to the host. Returns a message that keeps the module from starting, or nullptr.
const char *deliver(const InitOutcome &outcome);

// PEAL_EVENT_HANDLER(peal::event_handler<handle>): `Outcome handle(const Event &)`.
template <auto handle>
std::int32_t event_handler(const peal_event *event) {
  return deliver(handle(Event(*event)));
}

// PEAL_EVENT_POLICY(peal::policy<decide>), and so on for other policies: `PolicyOutcome decide(const Request &)`.
template <auto decide>
peal_policy_outcome policy(const peal_request *request) {
  return decide(Request(*request)).deliver();
}

// PEAL_LOG_CHANNEL(peal::log_channel<log>): `Outcome log(const LogRequest &)`.
template <auto log>
std::int32_t log_channel(const peal_log_request *request) {
  return deliver(log(LogRequest(*request)));
}

// PEAL_LIFECYCLE(peal::init<start>, stop): `InitOutcome start(const Config &)` and `void stop()`.
template <auto start>
const char *init(peal_infos config) {
  return deliver(start(Config(config)));
}

}  // namespace peal

#endif
