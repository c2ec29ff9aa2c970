//! Conversion of errors of the engine into a [`CallFailure`] with a reason.
use crate::call::{CallFailure, FailureKind};
use crate::exception::Exception;
use crate::memory_limiter::BudgetExceeded;
use crate::meter::CallAbort;
use crate::text::plain;
use crate::{LimitKind, ModuleLimits};
use std::fmt;
use wasmtime::{FrameInfo, Trap, WasmBacktrace};

/// Bound on a function name or reason, in bytes; the rest is cut.
const MAX_TEXT: usize = 256;
/// Bound on a function name that is demangled, in bytes: a short mangled name can stand for a very
/// long one.
const MAX_MANGLED: usize = 1024;
/// Bound on the places of a backtrace: a frame has several where functions are inlined.
const MAX_PLACES: usize = 16;
/// Prefixes of the functions of Rust's own runtime.
const RUNTIME: [&str; 4] = ["core::", "std::", "__rustc::", "rust_"];
/// Directory of the sources of Rust's own runtime, as its debug information names it.
const RUNTIME_SOURCES: &str = "/rustc/";
/// Message of wasmtime when a guest passes too many bytes in one host call; wasmtime has no error
/// type for it.
const COPIED_TOO_MUCH: &str = "fuel allocated for hostcalls has been exhausted";

/// Part of an instance's life in which a call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Instantiation.
    Start,
    /// Call of `lifecycle.init`.
    Init,
    /// Call of a role.
    Call,
    /// Call of `lifecycle.stop`.
    Stop,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Start => "the start",
            Phase::Init => "the init",
            Phase::Call => "the call",
            Phase::Stop => "the stop",
        }
    }
}

/// Returns the failure for an error of the engine. `refused` is the memory request that was
/// refused, if any; `exception` is the guest's description.
pub(crate) fn explain(
    error: &wasmtime::Error,
    phase: Phase,
    refused: Option<BudgetExceeded>,
    exception: Option<Exception>,
    limits: &ModuleLimits,
) -> CallFailure {
    let failure = CallFailure {
        backtrace: backtrace(error),
        ..explain_end(error, phase, refused, limits)
    };
    let Some(Exception { text, places }) = exception else {
        return failure;
    };
    // Languages end in `unreachable` after an exception. Any other end has a reason of its own.
    let is_its_own_end =
        failure.limit.is_none() && trap_of(error) == Some(Trap::UnreachableCodeReached);
    let reason = match is_its_own_end {
        true => format!("{} failed: {text}", phase.name()),
        false => format!("{}; before that: {text}", failure.reason),
    };
    // If the guest gives source positions, the functions of the backtrace are those of an
    // interpreter.
    let backtrace = if places.is_empty() {
        failure.backtrace
    } else {
        places
    };
    CallFailure {
        reason,
        backtrace,
        ..failure
    }
}

fn trap_of(error: &wasmtime::Error) -> Option<Trap> {
    error.downcast_ref::<Trap>().copied()
}

/// Returns the failure without backtrace and exception.
fn explain_end(
    error: &wasmtime::Error,
    phase: Phase,
    refused: Option<BudgetExceeded>,
    limits: &ModuleLimits,
) -> CallFailure {
    let phase_name = phase.name();
    let cause = plain(&error.root_cause().to_string(), MAX_TEXT);
    let hit = |kind, limit: LimitKind, what: String| {
        CallFailure::new(kind, Some(limit), format!("{phase_name} {what} ({limit})"))
    };
    match (error.downcast_ref::<CallAbort>(), trap_of(error), refused) {
        // The host ended the call itself and knows why, whatever happened before.
        (Some(stop), ..) => {
            let what = plain(&stop.to_string(), MAX_TEXT);
            match limit_of(stop) {
                Some(limit) => hit(kind_of(stop), limit, what),
                None => CallFailure::new(kind_of(stop), None, format!("{phase_name} {what}")),
            }
        }
        // These traps come before a refused growth: a guest that goes on after the refusal fails
        // for another reason.
        (None, Some(Trap::Interrupt), _) => hit(
            FailureKind::Timeout,
            LimitKind::CallTime,
            format!("ran longer than {:?}", limits.call_time),
        ),
        (None, Some(Trap::OutOfFuel), _) => {
            let most = limits.fuel.unwrap_or(u64::MAX);
            hit(
                FailureKind::Fuel,
                LimitKind::Fuel,
                format!("used up the fuel of {most} that one call may use"),
            )
        }
        (None, Some(Trap::StackOverflow), _) => {
            let what = format!("trapped: {}", trap_text(&cause));
            hit(FailureKind::Trapped, LimitKind::Stack, what)
        }
        (
            None,
            _,
            Some(BudgetExceeded {
                limit,
                requested,
                most,
            }),
        ) => hit(
            FailureKind::Memory,
            limit,
            format!("requested memory up to {requested} bytes; the limit is {most}: {cause}"),
        ),
        (None, None, None) if cause.contains(COPIED_TOO_MUCH) => {
            let most = limits.copied_per_host_call();
            hit(
                FailureKind::Output,
                LimitKind::Output,
                format!("passed more than {most} bytes in one host call"),
            )
        }
        // Without a trap the engine could not make the instance, and the guest is not at fault.
        (None, None, None) if phase == Phase::Start => CallFailure::unavailable(cause),
        (None, ..) => CallFailure::new(
            FailureKind::Trapped,
            None,
            format!("{phase_name} trapped: {}", trap_text(&cause)),
        ),
    }
}

fn trap_text(cause: &str) -> &str {
    cause.trim_start_matches("wasm trap: ")
}

/// Returns the failure for an instance that exceeds a bound on instances.
pub(crate) fn no_room(refused: BudgetExceeded) -> CallFailure {
    let BudgetExceeded {
        limit,
        requested,
        most,
    } = refused;
    let of = match limit {
        LimitKind::TenantInstances => "the owner's modules",
        LimitKind::TenantsInstances => "the modules of all users and jobs",
        _ => "all modules",
    };
    let reason =
        format!("instances of {of} would count as {requested}; the limit is {most} ({limit})");
    // Others hold the instances, so the module is not at fault.
    CallFailure::new(FailureKind::Unavailable, Some(limit), reason)
}

fn kind_of(stop: &CallAbort) -> FailureKind {
    match stop {
        CallAbort::HostCalls(_) => FailureKind::HostCalls,
        CallAbort::HostCallTime(_) => FailureKind::Timeout,
        CallAbort::Output(_) | CallAbort::Depth(_) => FailureKind::Output,
        _ => FailureKind::Trapped,
    }
}

fn limit_of(stop: &CallAbort) -> Option<LimitKind> {
    match stop {
        CallAbort::HostCalls(_) => Some(LimitKind::HostCalls),
        CallAbort::HostCallTime(_) => Some(LimitKind::HostCallTime),
        CallAbort::Output(_) => Some(LimitKind::Output),
        _ => None,
    }
}

fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map_or(&[][..], WasmBacktrace::frames);
    let places = frames.iter().flat_map(places).take(MAX_PLACES).collect();
    let own = without_runtime(places).into_iter();
    own.map(|place| place.to_string()).collect()
}

/// Place in a backtrace.
#[derive(Clone, PartialEq, Eq, Debug)]
struct BacktracePlace {
    function: String,
    /// File and line, if the component says them.
    position: Option<(String, u32)>,
}

impl fmt::Display for BacktracePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.position {
            write!(f, "{file}:{line} in ")?;
        }
        f.write_str(&self.function)
    }
}

/// Drops the functions before the first one that is not Rust's own: they only show how a panic
/// ends.
fn without_runtime(places: Vec<BacktracePlace>) -> Vec<BacktracePlace> {
    let is_runtime = |place: &BacktracePlace| {
        let file = place.position.as_ref().map(|(file, _)| file);
        let mut prefixes = RUNTIME.iter();
        prefixes.any(|prefix| place.function.starts_with(prefix))
            || file.is_some_and(|file| file.starts_with(RUNTIME_SOURCES))
    };
    let own = places
        .iter()
        .skip_while(|place| is_runtime(place))
        .cloned()
        .collect::<Vec<_>>();
    if own.is_empty() { places } else { own }
}

/// Returns the places of a frame: one, or more where the compiler inlined functions.
fn places(frame: &FrameInfo) -> Vec<BacktracePlace> {
    let physical = || match frame.func_name() {
        Some(name) => readable(name),
        None => format!("function {}", frame.func_index()),
    };
    if frame.symbols().is_empty() {
        return vec![BacktracePlace {
            function: physical(),
            position: None,
        }];
    }
    let places = frame.symbols().iter().map(|symbol| BacktracePlace {
        function: symbol.name().map_or_else(physical, readable),
        position: symbol.file().zip(symbol.line()).map(|(file, line)| {
            // The directory of a compilation stands for the project.
            (plain(file.trim_start_matches("./"), MAX_TEXT), line)
        }),
    });
    places.collect()
}

fn readable(name: &str) -> String {
    if name.len() > MAX_MANGLED {
        return plain(name, MAX_TEXT);
    }
    let demangled = match rustc_demangle::try_demangle(name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => cpp_demangle::Symbol::new(name)
            .ok()
            .and_then(|symbol| symbol.demangle().ok())
            .unwrap_or_else(|| name.to_owned()),
    };
    plain(&demangled, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::{BacktracePlace, readable, without_runtime};

    #[test]
    fn backtrace_of_a_panic_begins_with_the_authors_function() {
        let place = |name: &str| BacktracePlace {
            function: name.to_owned(),
            position: Some(("lib.rs".to_owned(), 7)),
        };
        let functions = |names: [&str; 3]| names.map(place).to_vec();
        let panicked = functions([
            "std::panicking::panic_with_hook",
            "core::panicking::panic_fmt",
            "mine::handle",
        ]);
        assert_eq!(without_runtime(panicked), [place("mine::handle")]);
        let mut aborted = functions(["abort", "handle", "export"]);
        aborted[0].position = Some(("/rustc/5980/library/std/src/process.rs".to_owned(), 9));
        assert_eq!(without_runtime(aborted)[0], place("handle"));
        let all = functions(["core::a", "std::b", "rust_c"]);
        assert_eq!(without_runtime(all.clone()), all, "better than none");
    }

    #[test]
    fn function_names_are_shown_as_their_author_wrote_them() {
        assert_eq!(
            readable("_ZN9peal_trap4trap17hf700561f71e46fd8E"),
            "peal_trap::trap"
        );
        assert_eq!(
            readable("_RNvNtCsgXGp5Oqx2Ny_4core9panicking9panic_fmt"),
            "core::panicking::panic_fmt"
        );
        assert_eq!(
            readable("_Z7rank_ofRKN4peal5EventE"),
            "rank_of(peal::Event const&)"
        );
        assert_eq!(
            readable("peal:pmix/event-handler@0.1.0#handle"),
            "peal:pmix/event-handler@0.1.0#handle"
        );
        let part = "x".repeat(300);
        let long = format!("_ZN{}17hf700561f71e46fd8E", format!("300{part}").repeat(4));
        assert!(
            readable(&long).starts_with("_ZN300xxx"),
            "it would take too long"
        );
    }
}
