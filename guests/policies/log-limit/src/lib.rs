//! Limits the lines that users log in a minute, hides values of keys, and diverts output. `peal-
//! module.toml` says how, and declares the settings.
mod bucket;
mod rewriting;

use bucket::Bucket;
use peal_sdk::{
    Config, PolicyOutcome, Registration, Request, clock, lifecycle, log_policy, state, status,
};
use rewriting::{Diversion, divert, lines, redact};
use std::sync::OnceLock;

/// Maximum number of lines in a minute.
const MOST: i64 = 1_000_000;

/// Number of buckets that are checked for each new one, so that those of absent users are dropped.
const SWEPT: usize = 8;

struct Settings {
    per_minute: Option<u64>,
    exempt: Vec<u32>,
    secret: Vec<String>,
    diversions: Vec<Diversion>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["per_minute", "exempt", "redact", "divert"])?;
    let per_minute = config
        .number("per_minute", 1..=MOST)?
        .and_then(|lines| u64::try_from(lines).ok());
    let user = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} in \"exempt\" is no user's number"))
    };
    let exempt = config
        .list("exempt")?
        .unwrap_or(vec!["0"])
        .into_iter()
        .map(user)
        .collect::<Result<Vec<u32>, String>>()?;
    let secret: Vec<String> = config
        .list("redact")?
        .unwrap_or_default()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let diversions = config
        .list("divert")?
        .unwrap_or_default()
        .into_iter()
        .map(Diversion::read);
    let diversions = diversions.collect::<Result<Vec<Diversion>, String>>()?;
    if per_minute.is_none() && secret.is_empty() && diversions.is_empty() {
        return Err(
            "it has nothing to do: set \"per_minute\", \"redact\" or \"divert\"".to_owned(),
        );
    }
    state::keys("")
        .map_err(|status| format!("it can keep nothing (status {status}): set store.path"))?;
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        per_minute,
        exempt,
        secret,
        diversions,
    });
    Ok(Vec::new())
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let Some(settings) = SETTINGS.get() else {
        return PolicyOutcome::pass();
    };
    let mut data = request.infos();
    let mut directives = request.directives();
    if let Some(denial) = over_the_limit(settings, request, lines(&data)) {
        return denial;
    }
    let nspace = request
        .requester()
        .map(|requester| requester.nspace)
        .unwrap_or_default();
    let mut outcome = PolicyOutcome::pass();
    if divert(&mut data, &nspace, &settings.diversions) | redact(&mut data, &settings.secret) {
        outcome = outcome.rewrite_data(data);
    }
    if redact(&mut directives, &settings.secret) {
        outcome = outcome.amend(directives);
    }
    outcome
}

/// Counts lines, unless there are too many.
fn over_the_limit(settings: &Settings, request: &Request, lines: u64) -> Option<PolicyOutcome> {
    let most = settings.per_minute?;
    let uid = request.identity()?.uid;
    if settings.exempt.contains(&uid) {
        return None;
    }
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    let busy = |reason: String| {
        Some(PolicyOutcome::deny(status::PMIX_ERR_RESOURCE_BUSY).with_reason(reason))
    };
    match take(&uid.to_string(), now, lines, most) {
        Ok(Ok(())) => None,
        Ok(Err(Some(wait))) => {
            let seconds = wait.div_ceil(1000);
            busy(format!(
                "uid {uid} may log {most} lines a minute: there is room for {lines} in {seconds} s"
            ))
        }
        Ok(Err(None)) => busy(format!(
            "uid {uid} may log {most} lines a minute: {lines} at once are too many"
        )),
        // What cannot be counted is not let through.
        Err(status) => Some(
            PolicyOutcome::deny(status)
                .with_reason(format!("the lines of uid {uid} cannot be counted")),
        ),
    }
}

fn take(key: &str, now: u64, lines: u64, most: u64) -> Result<Result<(), Option<u64>>, i32> {
    let kept = state::get(key)?;
    if kept.is_none() {
        sweep(now, most)?;
    }
    let bucket = kept
        .and_then(|bytes| Bucket::from_bytes(&bytes))
        .unwrap_or(Bucket::full(now, most));
    match bucket.take(now, lines, most) {
        Ok(less) => state::set(key, &less.to_bytes()).map(Ok),
        Err(wait) => Ok(Err(wait)),
    }
}

/// Drops some of the full buckets. The position depends on the time, so that all are checked in
/// turn.
fn sweep(now: u64, most: u64) -> Result<(), i32> {
    let keys = state::keys("")?;
    let start = usize::try_from(now)
        .unwrap_or_default()
        .checked_rem(keys.len())
        .unwrap_or_default();
    for key in keys.iter().cycle().skip(start).take(SWEPT.min(keys.len())) {
        let bucket = state::get(key)?.and_then(|bytes| Bucket::from_bytes(&bytes));
        if bucket.is_none_or(|bucket| bucket.is_full(now, most)) {
            state::delete(key)?;
        }
    }
    Ok(())
}

log_policy!(decide);
lifecycle!(init, stop);
