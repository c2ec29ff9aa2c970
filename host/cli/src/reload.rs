//! `peal reload` and `SIGHUP`: the configuration is read again; what can change in a running server does, the rest is named.
use crate::{
    admin,
    args::{ConfigArgs, ServerArgs},
    component, config,
    trace::{self, Followed},
};
use anyhow::Result;
use peal_config::{Config, Given, ModuleEntry, Policy, Resolved, Setting, Settings};
use peal_server::{
    Metrics, ServerHandle,
    admin::{Call, Reloaded, Reply},
    metrics::MetricsEndpoint,
};
use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

/// The configuration of a running server, and what of it can change.
pub struct Reloading {
    /// Where it comes from.
    pub sources: ConfigArgs,
    /// What the verb's own options say.
    pub given: Vec<Given>,
    /// What holds; settings that need a restart stay as they were at the start.
    pub current: Resolved,
    /// Where metrics are served.
    pub endpoint: Option<MetricsEndpoint>,
    /// What is served there.
    pub metrics: Arc<Metrics>,
    /// The server.
    pub server: ServerHandle,
}

impl Reloading {
    /// Reads the configuration again. If anything is wrong with it, nothing changes.
    pub async fn reload(&mut self) -> Result<Reloaded> {
        let new = config::load(self.sources.clone(), self.given.clone())?;
        component::check_all(&new)?;
        let wanted = new.config;
        // What can fail comes before anything is changed.
        let endpoint = match wanted.metrics.listen {
            Some(address) if wanted.metrics != self.current.config.metrics => {
                Some(MetricsEndpoint::start(address, self.metrics.clone()).await?)
            }
            _ => None,
        };
        let mut reloaded = Reloaded::default();
        for key in changed(&self.current.config, &wanted) {
            let applied = match key {
                "trace.filter" => trace::follow(&wanted.trace.filter)? == Followed::Yes,
                "metrics.listen" => true,
                key => key.starts_with("policy.") && key.ends_with(".default"),
            };
            let list = if applied { &mut reloaded.applied } else { &mut reloaded.needs_restart };
            list.push(key.to_owned());
        }
        reloaded.needs_restart.extend(changed_modules(&self.current.modules, &new.modules));
        if wanted.metrics != self.current.config.metrics {
            if let Some(old) = std::mem::replace(&mut self.endpoint, endpoint) {
                old.stop().await;
            }
            self.current.config.metrics = wanted.metrics;
        }
        self.server.set_defaults(config::defaults(&wanted.policy));
        let max_pending = self.current.config.policy.max_pending;
        self.current.config.policy = Policy { max_pending, ..wanted.policy };
        if reloaded.applied.iter().any(|key| key == "trace.filter") {
            self.current.config.trace = wanted.trace;
        }
        Ok(reloaded)
    }
}

/// The keys of the settings that differ.
fn changed(old: &Config, new: &Config) -> Vec<&'static str> {
    let differs = |setting: &&Setting<Config>| setting.value(old) != setting.value(new);
    Config::ALL.iter().filter(differs).map(|setting| setting.key).collect()
}

/// The modules that came, went, or have other settings.
fn changed_modules(old: &[ModuleEntry], new: &[ModuleEntry]) -> BTreeSet<String> {
    let without =
        |entry: &&ModuleEntry, others: &[ModuleEntry]| others.iter().all(|other| other.settings != entry.settings);
    let differing =
        old.iter().filter(|entry| without(entry, new)).chain(new.iter().filter(|entry| without(entry, old)));
    differing.map(|entry| format!("module {:?}", entry.settings.name)).collect()
}

/// Has a running server read its configuration again, and tells what came of it.
pub fn ask(at: ServerArgs) -> Result<ExitCode> {
    let (reply, _) = admin::ask(at, &Call::Reload)?;
    let Reply::Reloaded(reloaded) = reply else { return admin::unexpected(&reply) };
    let mut out = io::stdout().lock();
    for key in &reloaded.applied {
        writeln!(out, "{key} has changed")?;
    }
    for key in &reloaded.needs_restart {
        writeln!(out, "{key} will change at the next start")?;
    }
    if reloaded == Reloaded::default() {
        writeln!(out, "nothing has changed")?;
    }
    Ok(ExitCode::SUCCESS)
}
