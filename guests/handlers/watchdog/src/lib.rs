//! Records, mails, ends or restarts a proc that missed its heartbeats. `peal-module.toml` says how,
//! and declares the settings.
use peal_sdk::{
    Config, Event, Info, Outcome, Proc, Registration, Value, clock, handler, job_control, key,
    lifecycle, log, log_request, resource_usage, status,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Wildcard rank: all procs of a job.
const ALL: u32 = u32::MAX - 1;

/// Maximum number of remembered jobs.
const ROOM: usize = 1024;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    Kill,
    Terminate,
    Restart,
    Nothing,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Kill => "kill",
            Action::Terminate => "terminate",
            Action::Restart => "restart",
            Action::Nothing => "none",
        }
    }

    fn directive(self) -> Option<Info> {
        match self {
            Action::Kill => Some(Info::new(key::PMIX_JOB_CTRL_KILL, true)),
            Action::Terminate => Some(Info::new(key::PMIX_JOB_CTRL_TERMINATE, true)),
            // Restart from the beginning: the watchdog does not know the checkpoints.
            Action::Restart => Some(Info::new(key::PMIX_JOB_CTRL_RESTART, Value::Undef)),
            Action::Nothing => None,
        }
    }
}

/// Target of the action.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Of {
    Proc,
    Job,
}

/// Channel of the log request about a silent proc.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Log {
    JobRecord,
    Stderr,
}

impl Log {
    fn line(self, words: &str) -> Info {
        match self {
            Log::JobRecord => Info::new(key::PMIX_LOG_JOB_RECORD, words),
            // Most servers write it as it is.
            Log::Stderr => Info::new(key::PMIX_LOG_STDERR, format!("{words}\n")),
        }
    }
}

struct Settings {
    action: Action,
    of: Of,
    /// Minimum time between actions upon one job, in milliseconds.
    pause: u64,
    log: Log,
    mail: Option<String>,
    /// Times of the last action by job.
    acted: Mutex<BTreeMap<String, u64>>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["action", "of", "pause", "log", "mail"])?;
    let action = match config.text("action")?.unwrap_or("none") {
        "kill" => Action::Kill,
        "terminate" => Action::Terminate,
        "restart" => Action::Restart,
        "none" => Action::Nothing,
        other => {
            return Err(format!(
                "the setting \"action\" is {other:?}; there are kill, terminate, restart and none"
            ));
        }
    };
    let of = match config.text("of")?.unwrap_or("proc") {
        "proc" => Of::Proc,
        "job" => Of::Job,
        other => {
            return Err(format!(
                "the setting \"of\" is {other:?}; there are proc and job"
            ));
        }
    };
    let seconds = config.number("pause", 0..=86_400)?.unwrap_or(30);
    let pause = u64::try_from(seconds).unwrap_or_default() * 1000;
    let log = match config.text("log")?.unwrap_or("job_record") {
        "job_record" => Log::JobRecord,
        "stderr" => Log::Stderr,
        other => {
            return Err(format!(
                "the setting \"log\" is {other:?}; there are job_record and stderr"
            ));
        }
    };
    let mail = config.text("mail")?.map(str::to_owned);
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        action,
        of,
        pause,
        log,
        mail,
        acted: Mutex::default(),
    });
    let alerts = [
        status::PMIX_MONITOR_HEARTBEAT_ALERT,
        status::PMIX_MONITOR_FILE_ALERT,
    ];
    let registration = alerts
        .into_iter()
        .fold(Registration::new().name("watchdog"), Registration::code);
    let levels = [key::PMIX_EVENT_JOB_LEVEL, key::PMIX_EVENT_ENVIRO_LEVEL];
    Ok(vec![
        levels
            .into_iter()
            .fold(registration, |registration, level| {
                registration.directive(level, true)
            }),
    ])
}

fn stop() {}

fn watch(event: &Event) -> Outcome {
    let Some(settings) = SETTINGS.get() else {
        return Outcome::no_action();
    };
    let affected = match event.get(key::PMIX_EVENT_AFFECTED_PROC) {
        Some(Value::Proc(affected)) => Some(affected),
        _ => event.source(),
    };
    let Some(silent) = affected else {
        log::warn(format!("alert {} names no affected proc", event.code()));
        return Outcome::no_action();
    };
    let what = described(event, &silent);
    if event
        .get(key::PMIX_MONITOR_APP_CONTROL)
        .is_some_and(|value| value.as_bool() == Some(true))
    {
        log::info(format!("{what}: left to the application, as it requested"));
        return Outcome::no_action();
    }
    let action = if is_enough(settings, &silent.nspace) {
        Action::Nothing
    } else {
        settings.action
    };
    let target = match settings.of {
        Of::Proc => silent.clone(),
        Of::Job => Proc {
            nspace: silent.nspace.clone(),
            rank: ALL,
        },
    };
    let requested_action = action
        .directive()
        .map(|directive| job_control::request([target], [directive]));
    report(
        settings,
        &format!("{what}, action: {}", action.name()),
        &silent,
    );
    let outcome = Outcome::partial().with("peal.watchdog.action", action.name());
    match requested_action {
        None => outcome,
        Some(Ok(number)) => outcome.with("peal.watchdog.request", number),
        Some(Err(status)) => {
            log::error(format!(
                "{what}: {} is refused with {status}",
                action.name()
            ));
            Outcome::status(status)
        }
    }
}

/// Describes the subject in words.
fn described(event: &Event, silent: &Proc) -> String {
    let what = match event.code() {
        status::PMIX_MONITOR_FILE_ALERT => match event.get(key::PMIX_MONITOR_FILE) {
            Some(Value::Text(file)) => format!("file {file:?} of {silent} does not change"),
            _ => format!("a file of {silent} does not change"),
        },
        _ => format!("{silent} sends no heartbeat"),
    };
    match event.get(key::PMIX_MONITOR_ID) {
        Some(Value::Text(id)) => format!("{what} (monitor {id:?})"),
        _ => what,
    }
}

/// Returns whether the last action upon this whole job is so recent that it covers the alert.
fn is_enough(settings: &Settings, job: &str) -> bool {
    if settings.of == Of::Proc || settings.action == Action::Nothing {
        return false;
    }
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    let mut acted = settings
        .acted
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    acted.retain(|_, at| now.saturating_sub(*at) < settings.pause);
    if acted.contains_key(job) {
        return true;
    }
    if acted.len() < ROOM {
        acted.insert(job.to_owned(), now);
    }
    false
}

/// Logs the alert, with the resources that the proc uses, and sends the mail. Failures do not
/// prevent the action.
fn report(settings: &Settings, words: &str, silent: &Proc) {
    let about = || [Info::new(key::PMIX_LOG_SOURCE, silent.clone())];
    let used = resource_usage::query(std::slice::from_ref(silent)).unwrap_or_else(|status| {
        log::debug(format!("what {silent} uses is not known ({status})"));
        Vec::new()
    });
    let line = std::iter::once(settings.log.line(words));
    if let Err(status) = log_request::submit(line.chain(used), about()) {
        log::warn(format!("{words}: this cannot be recorded ({status})"));
    }
    let Some(address) = &settings.mail else {
        return;
    };
    let mail = Value::Infos(vec![
        Info::new(key::PMIX_LOG_EMAIL_ADDR, address.as_str()),
        Info::new(key::PMIX_LOG_EMAIL_SUBJECT, format!("{silent} is silent")),
        Info::new(key::PMIX_LOG_EMAIL_MSG, words),
    ]);
    if let Err(status) = log_request::submit([Info::new(key::PMIX_LOG_EMAIL, mail)], about()) {
        log::warn(format!("{words}: no mail to {address} ({status})"));
    }
}

handler!(watch);
lifecycle!(init, stop);
