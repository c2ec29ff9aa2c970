//! Starts an abnormally ended proc again. `peal-module.toml` says how, and declares the settings.
use peal_sdk::{
    Config, Event, Info, Outcome, Proc, Registration, Value, handler, job_control, key, lifecycle,
    status,
};
use std::{
    collections::VecDeque,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Maximum number of remembered procs.
const ROOM: usize = 1024;

struct Settings {
    times: u32,
    checkpoint: Option<String>,
    /// Numbers of restarts by proc, the latest first.
    started: Mutex<VecDeque<(Proc, u32)>>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["times", "checkpoint"])?;
    let times = config.number("times", 1..=1000)?.unwrap_or(1);
    let times = u32::try_from(times).unwrap_or(1);
    let checkpoint = config.text("checkpoint")?.map(str::to_owned);
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        times,
        checkpoint,
        started: Mutex::default(),
    });
    let ends = [
        status::PMIX_ERR_PROC_ABORTED_BY_SIG,
        status::PMIX_ERR_EXIT_NONZERO_TERM,
        status::PMIX_ERR_PROC_TERM_WO_SYNC,
    ];
    Ok(vec![ends.into_iter().fold(
        Registration::new().name("restart"),
        Registration::code,
    )])
}

fn stop() {}

fn restart(event: &Event) -> Outcome {
    // The event has a time limit for the decision; without one, the job is already decided about.
    let is_asked = event.get(key::PMIX_EVENT_ACTION_TIMEOUT).is_some();
    let (true, Some(settings), Some(Value::Proc(dead))) = (
        is_asked,
        SETTINGS.get(),
        event.get(key::PMIX_EVENT_AFFECTED_PROC),
    ) else {
        return Outcome::no_action();
    };
    if !settings.may_start(&dead) {
        return Outcome::no_action();
    }
    let from = settings
        .checkpoint
        .as_deref()
        .map_or(Value::Undef, Value::from);
    match job_control::request([dead], [Info::new(key::PMIX_JOB_CTRL_RESTART, from)]) {
        Ok(number) => Outcome::partial()
            .with(key::PMIX_EVENT_NO_TERMINATION, true)
            .with("peal.restart.request", number),
        Err(status) => Outcome::status(status),
    }
}

impl Settings {
    /// Counts a restart, and returns whether it is allowed.
    fn may_start(&self, proc: &Proc) -> bool {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, times)) = started.iter_mut().find(|(known, _)| known == proc) {
            *times += 1;
            return *times <= self.times;
        }
        started.push_back((proc.clone(), 1));
        if started.len() > ROOM {
            started.pop_front();
        }
        true
    }
}

handler!(restart);
lifecycle!(init, stop);
