//! What is traced on standard error: warnings, what `trace.filter` says, or what `PEAL_LOG` says, which overrides it.
use anyhow::{Context, Result};
use peal_config::{Config, Setting};
use std::{ffi::OsString, sync::OnceLock};
use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

/// The variable that overrides the configuration.
const VARIABLE: &str = "PEAL_LOG";

/// Where the filter can be changed.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Begins to trace, before the configuration is known.
pub fn set_up() -> Result<()> {
    use std::io::IsTerminal;
    let filter = match overriding() {
        Some(text) => parsed(&text)?,
        None => EnvFilter::new("warn"),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(lines).init();
    // It is set up once.
    let _ = FILTER.set(handle);
    Ok(())
}

/// What overrides the configuration; one that is empty does not.
fn overriding() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|text| !text.is_empty())
}

fn parsed(text: &OsString) -> Result<EnvFilter> {
    let filter = text.to_str().and_then(|text| EnvFilter::try_new(text).ok());
    filter.with_context(|| {
        let wanted = Setting::<Config>::of("trace.filter").map(Setting::wanted).unwrap_or_default();
        format!("{VARIABLE} is {text:?}; it should be {wanted}")
    })
}

/// Whether a filter of the configuration holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    /// From now on.
    Yes,
    /// `PEAL_LOG` overrides it.
    Overridden,
}

/// Traces what the configuration says.
pub fn follow(filter: &str) -> Result<Followed> {
    if overriding().is_some() {
        return Ok(Followed::Overridden);
    }
    if let Some(handle) = FILTER.get() {
        handle.reload(EnvFilter::try_new(filter)?)?;
    }
    Ok(Followed::Yes)
}
