//! Capability `logging`, and text that components print by WASI: lines in the host's trace.
use crate::LimitKind;
use crate::bindings::peal::pmix::logging;
use crate::host_calls::{HostCallRequest, Level};
use crate::instance_state::InstanceState;
use crate::meter::CallAbort;
use crate::text::plain;
use peal_model::{Status, code};

/// Bound on a log message, in bytes; the rest is cut.
const MAX_MESSAGE: usize = 4096;

impl logging::Host for InstanceState {
    fn log(&mut self, level: logging::Level, message: String) -> wasmtime::Result<()> {
        let entered = self.meter.begin_host_call()?;
        let written = self.write_trace(level.into(), &message);
        self.meter.leave(entered);
        Ok(written?)
    }
}

impl From<logging::Level> for Level {
    fn from(level: logging::Level) -> Level {
        match level {
            logging::Level::Error => Level::Error,
            logging::Level::Warn => Level::Warn,
            logging::Level::Info => Level::Info,
            logging::Level::Debug => Level::Debug,
            logging::Level::Trace => Level::Trace,
        }
    }
}

impl InstanceState {
    /// Writes a message to the trace. A message that is left out counts as a limit that was
    /// exceeded.
    pub(crate) fn write_trace(&mut self, level: Level, message: &str) -> Result<(), CallAbort> {
        let request = || HostCallRequest::Log {
            level,
            message: plain(message, MAX_MESSAGE),
        };
        let written: Result<(), Status> =
            self.recorded_answer(request, |host| Ok(host.trace(level, message)))?;
        if written.is_err() {
            self.meter.hit(LimitKind::LogLines);
        }
        Ok(())
    }

    /// Writes a line. Lines of a disabled level do not count toward the limit.
    fn trace(&self, level: Level, message: &str) -> Result<(), Status> {
        macro_rules! write {
            ($level:ident) => {
                // Tests take each message, whatever its level and the limit.
                if let Some(hooks) = &self.services.test_hooks {
                    hooks.trace(tracing::Level::$level, &plain(message, MAX_MESSAGE));
                } else if tracing::enabled!(target: "peal::guest", tracing::Level::$level) {
                    if !self.trace_limiter.allow() {
                        return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
                    }
                    let module = &**self.trace_limiter.module();
                    let message = plain(message, MAX_MESSAGE);
                    tracing::event!(target: "peal::guest", tracing::Level::$level, module, "{message}");
                }
            };
        }
        match level {
            Level::Error => write!(ERROR),
            Level::Warn => write!(WARN),
            Level::Info => write!(INFO),
            Level::Debug => write!(DEBUG),
            Level::Trace => write!(TRACE),
        }
        Ok(())
    }
}
