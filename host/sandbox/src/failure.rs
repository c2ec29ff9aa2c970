//! Turns what the engine says about a call that ended badly into a failure with a reason.
use crate::call::{Failure, FailureKind};
use crate::limits::Limits;
use crate::meter::Stop;
use crate::text::plain;
use wasmtime::{FrameInfo, Trap, WasmBacktrace};

/// The longest function name or reason kept, in bytes.
const MAX_TEXT: usize = 256;
/// The longest function name that is demangled, in bytes: a short one can stand for very much already.
const MAX_MANGLED: usize = 1024;
/// What the engine says when a guest hands over too many bytes at once; it has no type of its own for that.
const COPIED_TOO_MUCH: &str = "fuel allocated for hostcalls has been exhausted";

/// What the guest was about when it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Being instantiated.
    Start,
    /// Being told its settings.
    Init,
    /// Being called.
    Call,
    /// Being told that it is no longer needed.
    Stop,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Start => "its start",
            Phase::Init => "its init",
            Phase::Call => "the call",
            Phase::Stop => "its stop",
        }
    }
}

/// What went wrong. `refused` is the memory in bytes that the instance wanted and did not get, if it wanted too much.
pub(crate) fn explain(error: &wasmtime::Error, phase: Phase, refused: Option<usize>, limits: &Limits) -> Failure {
    let (who, cause) = (phase.name(), plain(&error.root_cause().to_string(), MAX_TEXT));
    let trap = error.downcast_ref::<Trap>();
    let (kind, reason) = match (error.downcast_ref::<Stop>(), trap, refused) {
        (Some(stop), ..) => (kind_of(stop), format!("{who} {}", plain(&stop.to_string(), MAX_TEXT))),
        (None, Some(Trap::Interrupt), _) => {
            (FailureKind::Timeout, format!("{who} ran longer than {:?}", limits.call_time))
        }
        (None, _, Some(wanted)) => {
            let most = limits.memory;
            let reason = format!("{who} wanted {wanted} bytes of memory of the {most} it may have: {cause}");
            (FailureKind::Memory, reason)
        }
        (None, None, None) if cause.contains(COPIED_TOO_MUCH) => {
            let most = limits.copied_per_host_call();
            (FailureKind::Output, format!("{who} handed over more than {most} bytes at once"))
        }
        (None, None, None) if phase == Phase::Start => (FailureKind::Unavailable, cause),
        (None, ..) => (FailureKind::Trapped, format!("{who} trapped: {}", cause.trim_start_matches("wasm trap: "))),
    };
    Failure { kind, reason, backtrace: backtrace(error) }
}

fn kind_of(stop: &Stop) -> FailureKind {
    match stop {
        Stop::HostCalls(_) => FailureKind::HostCalls,
        Stop::HostTime(_) => FailureKind::Timeout,
        Stop::Output(_) | Stop::Depth(_) => FailureKind::Output,
        Stop::Ident(_) | Stop::Mixed(_) | Stop::NoArray(_) | Stop::NoOpaque { .. } => FailureKind::Trapped,
    }
}

fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    frames.iter().map(function).collect()
}

/// A function by its name, or by its number where the component was stripped.
fn function(frame: &FrameInfo) -> String {
    let symbol = frame.symbols().iter().find_map(|symbol| symbol.name());
    match symbol.or_else(|| frame.func_name()) {
        Some(name) => readable(name),
        None => format!("function {}", frame.func_index()),
    }
}

fn readable(name: &str) -> String {
    if name.len() > MAX_MANGLED {
        return plain(name, MAX_TEXT);
    }
    plain(&format!("{:#}", rustc_demangle::demangle(name)), MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn function_names_are_shown_as_their_author_wrote_them() {
        assert_eq!(readable("_ZN9peal_trap4trap17hf700561f71e46fd8E"), "peal_trap::trap");
        assert_eq!(readable("_RNvNtCsgXGp5Oqx2Ny_4core9panicking9panic_fmt"), "core::panicking::panic_fmt");
        assert_eq!(readable("peal:pmix/event-handler@0.1.0#handle"), "peal:pmix/event-handler@0.1.0#handle");
        let part = "x".repeat(300);
        let long = format!("_ZN{}17hf700561f71e46fd8E", format!("300{part}").repeat(4));
        assert!(readable(&long).starts_with("_ZN300xxx"), "it would take too long");
    }
}
