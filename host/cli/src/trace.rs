//! What is traced on standard error: warnings, what `trace.filter` says, or what `PEAL_LOG` says, which overrides it.
use anyhow::Result;
use std::sync::OnceLock;
use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

/// Where the filter can be changed.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Begins to trace, before the configuration is known.
pub fn set_up() {
    use std::io::IsTerminal;
    let filter = EnvFilter::try_from_env("PEAL_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let (filter, handle) = reload::Layer::new(filter);
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(lines).init();
    // It is set up once.
    let _ = FILTER.set(handle);
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
    if std::env::var_os("PEAL_LOG").is_some() {
        return Ok(Followed::Overridden);
    }
    if let Some(handle) = FILTER.get() {
        handle.reload(EnvFilter::try_new(filter)?)?;
    }
    Ok(Followed::Yes)
}
