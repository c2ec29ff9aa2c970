//! Trace on standard error, or with its fields in the journal of systemd. Its filter is `warn`, or that of
//! `trace.filter`, or that of `PEAL_LOG`, or that of `-v` and `-q`; each overrides those before it.
use crate::{
    args::{LogFormat, TraceArgs},
    messages::StandardErrorWriter,
};
use anyhow::{Context, Result};
use peal_config::{Config, Setting};
use rustix::fs::fstat;
use std::{
    env,
    io::{self, IsTerminal},
    sync::OnceLock,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    layer::{Context as LayerContext, SubscriberExt},
    reload,
    util::SubscriberInitExt,
};

/// Variable that overrides the configuration.
const VARIABLE: &str = "PEAL_LOG";

/// Variable in which systemd gives device and inode of the journal's stream.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Handle by which the filter can be changed; none if the command line or `PEAL_LOG` overrides it.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts the trace, before the configuration is known.
pub fn set_up(args: &TraceArgs) -> Result<()> {
    let overriding = match args.filter() {
        Some(filter) => Some(EnvFilter::new(filter)),
        None => from_environment()?,
    };
    let is_overridden = overriding.is_some();
    let filter = overriding.unwrap_or_else(|| EnvFilter::new("warn"));
    let (filter, handle) = reload::Layer::new(filter);
    tracing_subscriber::registry()
        .with(filter)
        .with(CacheRaces)
        .with(output(args.log_format))
        .init();
    if !is_overridden {
        // This function is called once, so the cell is empty.
        let _ = FILTER.set(handle);
    }
    Ok(())
}

/// Returns the layer that writes.
fn output<S>(format: Option<LogFormat>) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| StandardErrorWriter)
        .with_ansi(io::stderr().is_terminal());
    match format {
        Some(LogFormat::Json) => lines.json().flatten_event(true).boxed(),
        Some(LogFormat::Text) => lines.boxed(),
        None if is_journal() => match tracing_journald::layer() {
            Ok(journal) => journal.with_syslog_identifier("peal".to_owned()).boxed(),
            // The journal still has standard error.
            Err(_) => lines.boxed(),
        },
        None => lines.boxed(),
    }
}

/// Returns true if standard error is a stream of systemd's journal.
fn is_journal() -> bool {
    let named = env::var(JOURNAL_STREAM).unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|found| named == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Filter that drops warnings of the engine's code cache about files that another process has just
/// written. One copy is enough.
struct CacheRaces;

/// Crate of that cache, and the system errors for a file that another process has just created or
/// replaced.
const CACHE_CRATE: &str = "wasmtime_internal_cache";
const RACE_ERRORS: [&str; 2] = ["(os error 17)", "(os error 2)"];

impl<S: Subscriber> Layer<S> for CacheRaces {
    fn event_enabled(&self, event: &Event<'_>, _: LayerContext<'_, S>) -> bool {
        // Events of the `log` crate have this target.
        if event.metadata().target() != "log" {
            return true;
        }
        let mut message = LogMessage::default();
        event.record(&mut message);
        !message.is_cache_race()
    }
}

/// Message of an event of the `log` crate, and the crate that it came from.
#[derive(Default)]
struct LogMessage {
    target: String,
    message: String,
}

impl LogMessage {
    fn is_cache_race(&self) -> bool {
        self.target.starts_with(CACHE_CRATE)
            && RACE_ERRORS.iter().any(|error| self.message.contains(error))
    }
}

impl Visit for LogMessage {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "log.target" => self.target = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            value.clone_into(&mut self.target);
        }
    }
}

/// Returns the filter of the environment; an empty variable has none.
fn from_environment() -> Result<Option<EnvFilter>> {
    let Some(text) = env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let filter = text.to_str().and_then(|text| EnvFilter::try_new(text).ok());
    let filter = filter.with_context(|| {
        let wanted = Setting::<Config>::of("trace.filter")
            .map(Setting::accepted_values)
            .unwrap_or_default();
        format!("{VARIABLE} is {text:?}; it should be {wanted}")
    });
    filter.map(Some)
}

/// Source of the filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterSource {
    /// The configuration.
    Configuration,
    /// The command line or `PEAL_LOG`, which override the configuration.
    Overridden,
}

/// Returns the source of the filter in force.
pub fn filter_source() -> FilterSource {
    if FILTER.get().is_some() {
        FilterSource::Configuration
    } else {
        FilterSource::Overridden
    }
}

/// Applies the filter of the configuration, unless another source overrides it.
pub fn follow(filter: &str) -> Result<()> {
    if let Some(handle) = FILTER.get() {
        handle.reload(EnvFilter::try_new(filter)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_races_of_the_cache_are_left_out() {
        let message = |target: &str, message: &str| LogMessage {
            target: target.to_owned(),
            message: message.to_owned(),
        };
        let race =
            "Failed to write file with rename, target path: /c/mod, err: File exists (os error 17)";
        assert!(message("wasmtime_internal_cache", race).is_cache_race());
        assert!(
            !message(
                "wasmtime_internal_cache",
                "err: No space left on device (os error 28)"
            )
            .is_cache_race()
        );
        assert!(!message("other", race).is_cache_race());
    }
}
