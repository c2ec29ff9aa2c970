//! Shares spawned procs among Unix groups, by recent use. `peal-module.toml` says how, and declares
//! the settings.
mod settings;
mod usage;

use peal_sdk::{
    Config, PolicyOutcome, PolicySubject, Registration, Request, clock, lifecycle, spawn_policy,
    state, status,
};
use settings::Settings;
use std::sync::OnceLock;
use usage::{Refusal, Usage};

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    let settings = Settings::read(config)?;
    state::keys("")
        .map_err(|status| format!("it can keep nothing (status {status}): set store.path"))?;
    // An instance receives its settings only once.
    let _ = SETTINGS.set(settings);
    Ok(Vec::new())
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let (Some(settings), PolicySubject::Spawn) = (SETTINGS.get(), request.subject()) else {
        return PolicyOutcome::pass();
    };
    let identity = request.identity();
    if identity.is_some_and(|identity| settings.exempt.contains(&identity.uid)) {
        return PolicyOutcome::pass();
    }
    let procs: u64 = request
        .applications()
        .iter()
        .map(|application| u64::from(application.procs))
        .sum();
    let group = settings.group_of(&request.unix_groups());
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    match admit(settings, group, procs, now) {
        Ok(Ok(())) => PolicyOutcome::pass(),
        Ok(Err(refusal)) => PolicyOutcome::deny(status::PMIX_ERR_RESOURCE_BUSY)
            .with_reason(refusal.text(settings.name(group), procs)),
        // What cannot be counted is not let through.
        Err(status) => PolicyOutcome::deny(status).with_reason(format!(
            "procs of group {} cannot be counted",
            settings.name(group)
        )),
    }
}

/// Counts procs for a group, unless they exceed its part.
fn admit(
    settings: &Settings,
    group: usize,
    procs: u64,
    now: u64,
) -> Result<Result<(), Refusal>, i32> {
    let mut used = Vec::new();
    for number in 0..settings.len() {
        let kept = state::get(&key(settings, number))?;
        let usage = kept.map_or_else(Usage::default, |bytes| Usage::from_bytes(&bytes));
        used.push(usage.at(now, settings.half_life));
    }
    let own = used.get(group).copied().unwrap_or_default();
    let all: f64 = used.iter().sum();
    let part = settings.part(group);
    match usage::check(settings, part, own, all, procs) {
        Some(refusal) => Ok(Err(refusal)),
        None => {
            let usage = Usage::new(own + usage::number(procs), now);
            state::set(&key(settings, group), &usage.to_bytes()).map(Ok)
        }
    }
}

/// Returns the key of a group in the state.
fn key(settings: &Settings, group: usize) -> String {
    format!("used/{}", settings.name(group))
}

spawn_policy!(decide);
lifecycle!(init, stop);
