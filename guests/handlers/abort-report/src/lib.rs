//! Writes what led to an abnormal end into the record of the job, as one report. `peal-module.toml` says how,
//! and declares the settings.
mod history;
mod output;
mod settings;

use history::{History, Job, Sample};
use output::last_output;
use peal_sdk::{
    Config, Event, Info, Outcome, Proc, Registration, Value, clock, handler, key, lifecycle,
    log_request, resource_usage, status,
};
use settings::{ReportedEnds, Settings};
use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

/// Codes of abnormal ends.
const ENDS: [i32; 3] = [
    status::PMIX_ERR_PROC_ABORTED_BY_SIG,
    status::PMIX_ERR_EXIT_NONZERO_TERM,
    status::PMIX_ERR_PROC_TERM_WO_SYNC,
];

/// Maximum length of the text of an event, in characters.
const MAX_TEXT: usize = 200;

/// Maximum number of procs that the line of an event names.
const MAX_NAMED: usize = 8;

/// Module with its settings.
struct Reporter {
    settings: Settings,
    history: Mutex<History>,
}

static REPORTER: OnceLock<Reporter> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    let settings = Settings::read(config)?;
    let mut registration = Registration::new().name("abort-report");
    // Without codes it is called for all; the ends are among them.
    if !settings.codes.is_empty() {
        let codes = settings.codes.iter().copied().chain(ENDS);
        registration = codes.fold(registration, Registration::code);
    }
    for level in [key::PMIX_EVENT_JOB_LEVEL, key::PMIX_EVENT_ENVIRO_LEVEL] {
        registration = registration.directive(level, true);
    }
    // An instance receives its settings only once.
    let _ = REPORTER.set(Reporter {
        settings,
        history: Mutex::default(),
    });
    Ok(vec![registration])
}

fn stop() {}

/// Returns the affected procs of an event or, if it names none, its source.
fn procs_of(event: &Event, source: Option<&Proc>) -> Vec<Proc> {
    if let Some(Value::Proc(proc)) = event.get(key::PMIX_EVENT_AFFECTED_PROC) {
        return vec![proc];
    }
    match event.get(key::PMIX_EVENT_AFFECTED_PROCS) {
        Some(Value::Procs(procs)) if !procs.is_empty() => procs,
        _ => source.cloned().into_iter().collect(),
    }
}

/// Returns the line of an event in a report.
fn line_of(event: &Event, source: Option<&Proc>, procs: &[Proc], now: Duration) -> String {
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + now);
    let from = source.map_or("the resource manager".to_owned(), Proc::to_string);
    let named = procs.iter().take(MAX_NAMED).map(Proc::to_string);
    let others = procs.len().saturating_sub(MAX_NAMED);
    let others = (others > 0).then(|| format!("{others} others"));
    let about: Vec<String> = named.chain(others).collect();
    let text = event.get(key::PMIX_EVENT_TEXT_MESSAGE);
    let text = text.as_ref().and_then(Value::as_str).map(|text| {
        let shown: String = text.chars().take(MAX_TEXT).collect();
        format!(": {shown}")
    });
    format!(
        "{time} event {} from {from}, about {}{}",
        event.code(),
        about.join(", "),
        text.unwrap_or_default()
    )
}

/// Asks for the usage of a proc, unless that was done lately.
fn sample(settings: &Settings, job: &mut Job, proc: &Proc, now: Duration) {
    let Some(pause) = settings.sample else { return };
    let is_late = |before: &Sample| now < before.time || now - before.time >= pause;
    if !job.sample(proc.rank).is_none_or(is_late) {
        return;
    }
    // An error means that the proc has ended, or that the host measures nothing: the report goes without.
    let usage = resource_usage::query(std::slice::from_ref(proc)).unwrap_or_default();
    if !usage.is_empty() {
        job.keep(proc.rank, Sample { time: now, usage });
    }
}

/// Submits the report about an abnormal end.
fn report(
    settings: &Settings,
    job: &mut Job,
    event: &Event,
    proc: &Proc,
    now: Duration,
) -> Outcome {
    let code = event.code();
    let exit = event.get(key::PMIX_EXIT_CODE);
    let exit = exit.as_ref().and_then(Value::as_i64);
    let exit = exit.map_or(String::new(), |exit| format!(", exit status {exit}"));
    let mut parts = vec![format!("{} events before", job.events.len())];
    let events = Value::Values {
        element: Value::Text(String::new()).data_type(),
        items: job.events.iter().cloned().map(Value::Text).collect(),
    };
    let mut facts = vec![
        Info::new("peal.abort.proc", proc.clone()),
        Info::new("peal.abort.code", Value::Status(code)),
        Info::new("peal.abort.events", events),
    ];
    if let Some(used) = job.sample(proc.rank) {
        // Rounded to whole seconds.
        let age = (now.saturating_sub(used.time) + Duration::from_millis(500)).as_secs();
        parts.push(format!("usage of {age} s before"));
        facts.push(Info::new("peal.abort.usage", used.usage.clone()));
    }
    let pattern = settings.output.as_deref();
    if let Some(output) = pattern.and_then(|pattern| last_output(pattern, proc, settings.lines)) {
        parts.push(format!(
            "last {} lines of output",
            output.split('\n').count()
        ));
        facts.push(Info::new("peal.abort.output", output));
    }
    let parts = parts.join(", ");
    let line = format!("{proc} has ended abnormally (code {code}{exit}); {parts}");
    let data = [Info::new(settings.channel, line)].into_iter().chain(facts);
    let source = Info::new(key::PMIX_LOG_SOURCE, proc.clone());
    if let Err(refused) = log_request::submit(data, [source]) {
        return Outcome::status(refused);
    }
    job.is_reported = true;
    Outcome::partial().with("peal.abort.reported", proc.clone())
}

fn handle(event: &Event) -> Outcome {
    let Some(Reporter { settings, history }) = REPORTER.get() else {
        return Outcome::no_action();
    };
    let source = event.source();
    let procs = procs_of(event, source.as_ref());
    let Some(first) = procs.first() else {
        return Outcome::no_action();
    };
    let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
    let now = clock::now();
    let line = line_of(event, source.as_ref(), &procs, now);
    if ENDS.contains(&event.code()) {
        let job = history.job(&first.nspace);
        let outcome = if job.is_reported && settings.ends == ReportedEnds::First {
            Outcome::no_action()
        } else {
            report(settings, job, event, first, now)
        };
        job.add(line, settings.events);
        return outcome;
    }
    let namespaces: BTreeSet<&str> = procs.iter().map(|proc| proc.nspace.as_str()).collect();
    for nspace in namespaces {
        history.job(nspace).add(line.clone(), settings.events);
    }
    if let Some(source) = source {
        sample(settings, history.job(&source.nspace), &source, now);
    }
    Outcome::no_action()
}

handler!(handle);
lifecycle!(init, stop);
