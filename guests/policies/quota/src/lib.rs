//! Limits the requests of each user in a minute, by hook. `peal-module.toml` says how, and declares
//! the settings.
mod window;

use peal_sdk::{
    Config, PolicyOutcome, PolicySubject, Registration, Request, UserIdentity, clock,
    connection_policy, event_policy, job_control_policy, lifecycle, spawn_policy, state, status,
};
use std::sync::OnceLock;
use window::Window;

/// Maximum number of requests in a minute: their times are one value of the state.
const MOST: i64 = 8192;

/// Number of windows that are checked for each new one, so that those of absent users are dropped.
const SWEPT: usize = 8;

/// Counted hooks, by the names of the settings.
const COUNTED: [&str; 5] = [
    "connection",
    "event",
    "registration",
    "job_control",
    "spawn",
];

struct Settings {
    /// Limits in a minute, in the order of [`COUNTED`].
    most: [Option<usize>; COUNTED.len()],
    exempt: Vec<u32>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    let [connection, event, registration, job_control, spawn] = COUNTED;
    config.allow_only(&[
        "per_minute",
        connection,
        event,
        registration,
        job_control,
        spawn,
        "exempt",
    ])?;
    let number = |name| {
        config
            .number(name, 1..=MOST)
            .map(|number| number.and_then(|number| usize::try_from(number).ok()))
    };
    let all = number("per_minute")?;
    let mut most = [all; COUNTED.len()];
    for (most, name) in most.iter_mut().zip(COUNTED) {
        *most = number(name)?.or(*most);
    }
    if most.iter().all(Option::is_none) {
        return Err(
            "nothing is limited: set \"per_minute\", or one of the hooks' own numbers".to_owned(),
        );
    }
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
    state::keys("")
        .map_err(|status| format!("it can keep nothing (status {status}): set store.path"))?;
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings { most, exempt });
    Ok(Vec::new())
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let Some((settings, identity)) = SETTINGS.get().zip(request.identity()) else {
        return PolicyOutcome::pass();
    };
    let what = match request.subject() {
        PolicySubject::Connection(_) => 0,
        PolicySubject::Event { .. } => 1,
        PolicySubject::Registration => 2,
        PolicySubject::JobControl => 3,
        PolicySubject::Spawn => 4,
        // Lines are counted by `log-limit`; watching is bounded by the server.
        PolicySubject::Log
        | PolicySubject::Monitor
        | PolicySubject::Provision
        | PolicySubject::Group(_) => {
            return PolicyOutcome::pass();
        }
    };
    match (COUNTED.get(what), settings.most.get(what)) {
        (Some(name), Some(Some(most))) if !settings.exempt.contains(&identity.uid) => {
            count(name, *most, identity)
        }
        _ => PolicyOutcome::pass(),
    }
}

fn count(what: &str, most: usize, UserIdentity { uid, .. }: UserIdentity) -> PolicyOutcome {
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    let key = format!("{what}/{uid}");
    match admit(&key, now, most) {
        Ok(Ok(())) => PolicyOutcome::pass(),
        Ok(Err(wait)) => {
            let seconds = wait.div_ceil(1000);
            let what = what.replace('_', " ");
            PolicyOutcome::deny(status::PMIX_ERR_RESOURCE_BUSY).with_reason(format!(
                "uid {uid} may make {most} {what} requests a minute: try again in {seconds} s"
            ))
        }
        // What cannot be counted is not let through.
        Err(status) => PolicyOutcome::deny(status)
            .with_reason(format!("requests of uid {uid} cannot be counted")),
    }
}

fn admit(key: &str, now: u64, most: usize) -> Result<Result<(), u64>, i32> {
    let kept = state::get(key)?;
    if kept.is_none() {
        sweep(now)?;
    }
    let mut window = kept.map_or_else(Window::default, |bytes| Window::from_bytes(&bytes));
    let admitted = window.admit(now, most);
    if admitted.is_ok() {
        state::set(key, &window.to_bytes())?;
    }
    Ok(admitted)
}

/// Drops some of the expired windows. The position depends on the time, so that all are checked in
/// turn.
fn sweep(now: u64) -> Result<(), i32> {
    let keys = state::keys("")?;
    let start = usize::try_from(now)
        .unwrap_or_default()
        .checked_rem(keys.len())
        .unwrap_or_default();
    for key in keys.iter().cycle().skip(start).take(SWEPT.min(keys.len())) {
        if state::get(key)?.is_none_or(|bytes| Window::from_bytes(&bytes).is_over(now)) {
            state::delete(key)?;
        }
    }
    Ok(())
}

connection_policy!(decide);
event_policy!(decide);
job_control_policy!(decide);
spawn_policy!(decide);
lifecycle!(init, stop);
