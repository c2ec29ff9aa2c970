//! Counts the events that it decides about, in its state (`calls`), and marks each by its settings:
//! an info under the key `mark` whose value is `version`. For tests of requests and state while
//! modules are replaced.
use peal_sdk::{
    Info, PolicyOutcome, PolicySubject, Registration, Request, Value, event_policy, lifecycle,
    state, status,
};
use std::sync::OnceLock;

/// Key of the counter in the state.
const CALLS: &str = "calls";

struct Settings {
    mark: String,
    version: i64,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &peal_sdk::Config) -> Result<Vec<Registration>, String> {
    let Some(Value::Text(mark)) = config.get("mark") else {
        return Err("mark should be a text: the key of the info that I add".to_owned());
    };
    let Some(Value::Int64(version)) = config.get("version") else {
        return Err("version should be a whole number".to_owned());
    };
    let settings = Settings {
        mark: mark.clone(),
        version: *version,
    };
    SETTINGS
        .set(settings)
        .map_err(|_| "I have my settings already".to_owned())?;
    Ok(Vec::new())
}

fn stop() {}

fn count() -> Result<u64, i32> {
    let stored = state::get(CALLS)?.and_then(|bytes| bytes.try_into().ok());
    let calls = stored.map_or(0, u64::from_le_bytes) + 1;
    state::set(CALLS, &calls.to_le_bytes())?;
    Ok(calls)
}

fn decide(request: &Request) -> PolicyOutcome {
    if !matches!(request.subject(), PolicySubject::Event { .. }) {
        return PolicyOutcome::pass();
    }
    let (Ok(_), Some(settings)) = (count(), SETTINGS.get()) else {
        return PolicyOutcome::deny(status::PMIX_ERROR)
            .with_reason("the number of events cannot be stored");
    };
    let mut infos = request.infos();
    infos.push(Info::new(
        settings.mark.as_str(),
        Value::Int64(settings.version),
    ));
    PolicyOutcome::pass().amend(infos)
}

event_policy!(decide);
lifecycle!(init, stop);
