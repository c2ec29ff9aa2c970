//! Trace on standard error. Its filter is `warn`, or that of `trace.filter`, or that of `PEAL_LOG`,
//! which overrides it.
use crate::messages::StandardErrorWriter;
use anyhow::{Context, Result};
use peal_config::{Config, Setting};
use std::{ffi::OsString, sync::OnceLock};
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

/// Handle by which the filter can be changed.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts the trace, before the configuration is known.
pub fn set_up() -> Result<()> {
    use std::io::IsTerminal;
    let filter = match overriding() {
        Some(text) => parsed(&text)?,
        None => EnvFilter::new("warn"),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| StandardErrorWriter)
        .with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(filter)
        .with(CacheRaces)
        .with(lines)
        .init();
    // This function is called once, so the cell is empty.
    let _ = FILTER.set(handle);
    Ok(())
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

/// Returns the overriding filter; an empty variable does not override.
fn overriding() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|text| !text.is_empty())
}

fn parsed(text: &OsString) -> Result<EnvFilter> {
    let filter = text.to_str().and_then(|text| EnvFilter::try_new(text).ok());
    filter.with_context(|| {
        let wanted = Setting::<Config>::of("trace.filter")
            .map(Setting::accepted_values)
            .unwrap_or_default();
        format!("{VARIABLE} is {text:?}; it should be {wanted}")
    })
}

/// Effect of the configured filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterSource {
    /// It applies from now on.
    Yes,
    /// `PEAL_LOG` overrides it.
    Overridden,
}

/// Applies the filter of the configuration.
pub fn follow(filter: &str) -> Result<FilterSource> {
    if overriding().is_some() {
        return Ok(FilterSource::Overridden);
    }
    if let Some(handle) = FILTER.get() {
        handle.reload(EnvFilter::try_new(filter)?)?;
    }
    Ok(FilterSource::Yes)
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
