//! Keeps users out while a node is maintained. `peal-module.toml` says how, and declares the
//! settings.
mod plan;

use peal_sdk::{
    Config, PolicyOutcome, PolicySubject, Registration, Request, clock, connection_policy,
    event_policy, job_control_policy, lifecycle, status,
};
use plan::Plan;
use std::sync::OnceLock;

struct Settings {
    plan: Plan,
    connection: bool,
    job_control: bool,
    /// Codes of denied events; none: all.
    events: Option<Vec<i32>>,
    exempt: Vec<u32>,
    because: String,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

const NAMES: [&str; 7] = [
    "weekly", "once", "offset", "deny", "events", "exempt", "because",
];
const HOOKS: [&str; 3] = ["connection", "job-control", "event"];

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&NAMES)?;
    let list = |name| config.list(name).map(Option::unwrap_or_default);
    let plan = Plan::read(
        &list("weekly")?,
        &list("once")?,
        config.text("offset")?.unwrap_or("UTC"),
    )?;
    let deny = config
        .list("deny")?
        .unwrap_or(vec!["connection", "job-control"]);
    if let Some(other) = deny.iter().find(|word| !HOOKS.contains(word)) {
        return Err(format!(
            "{other:?} in \"deny\" is nothing that can be denied; there are {}",
            HOOKS.join(", ")
        ));
    }
    let denies = |word| deny.contains(&word);
    let events = match config.list("events")? {
        Some(_) if !denies("event") => {
            return Err("\"events\" has an effect only with \"event\" in \"deny\"".to_owned());
        }
        Some(codes) => Some(numbers("events", &codes)?),
        None if denies("event") => None,
        None => Some(Vec::new()),
    };
    let exempt = numbers("exempt", &config.list("exempt")?.unwrap_or(vec!["0"]))?;
    let because = config
        .text("because")?
        .map(|text| format!(" ({text})"))
        .unwrap_or_default();
    let connection = denies("connection");
    let job_control = denies("job-control");
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        plan,
        connection,
        job_control,
        events,
        exempt,
        because,
    });
    Ok(Vec::new())
}

fn numbers<T: std::str::FromStr>(name: &str, texts: &[&str]) -> Result<Vec<T>, String> {
    let number = |text: &&str| {
        text.parse()
            .map_err(|_| format!("{text:?} in {name:?} is no number of the range of this setting"))
    };
    texts.iter().map(number).collect()
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let Some(settings) = SETTINGS.get() else {
        return PolicyOutcome::pass();
    };
    let is_meant = match request.subject() {
        PolicySubject::Connection(_) => settings.connection,
        PolicySubject::JobControl => settings.job_control,
        PolicySubject::Event { code, .. } => settings
            .events
            .as_ref()
            .is_none_or(|codes| codes.contains(&code)),
        PolicySubject::Registration
        | PolicySubject::Monitor
        | PolicySubject::Provision
        | PolicySubject::Log
        | PolicySubject::Group(_)
        | PolicySubject::Spawn => false,
    };
    if !is_meant
        || request
            .identity()
            .is_some_and(|identity| settings.exempt.contains(&identity.uid))
    {
        return PolicyOutcome::pass();
    }
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    match settings.plan.closed_until(now) {
        Some(end) => PolicyOutcome::deny(status::PMIX_ERR_NOT_AVAILABLE).with_reason(format!(
            "maintenance until {}{}",
            settings.plan.written(end),
            settings.because
        )),
        None => PolicyOutcome::pass(),
    }
}

connection_policy!(decide);
event_policy!(decide);
job_control_policy!(decide);
lifecycle!(init, stop);
