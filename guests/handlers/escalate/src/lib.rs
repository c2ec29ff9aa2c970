//! Raises another event when one event repeats within a time. `peal-module.toml` says how, and
//! declares the settings.
use peal_sdk::{
    Config, Event, Info, Outcome, Proc, Range, Registration, Value, clock, handler, key, lifecycle,
    notify,
};
use peal_tally::Tally;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Maximum number of counters: codes and procs.
const ROOM: usize = 1024;

/// Key of a counter: a code, and the namespace and rank that it is counted for.
type What = (i32, Option<(String, u32)>);

/// Unit that events are counted for.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Affected,
    Source,
    All,
}

struct Settings {
    count: i64,
    seconds: i64,
    by: By,
    into: i32,
    range: Range,
    message: Option<String>,
    tally: Mutex<Tally<What>>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

const NAMES: [&str; 7] = [
    "codes", "count", "seconds", "by", "into", "range", "message",
];

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&NAMES)?;
    let code = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} in \"codes\" is no number of a code"))
    };
    let codes = match config.get("codes") {
        Some(Value::Int64(_)) => config
            .number("codes", i32::MIN.into()..=-1)?
            .iter()
            .map(ToString::to_string)
            .collect(),
        _ => config
            .list("codes")?
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>(),
    };
    let codes = codes
        .iter()
        .map(|text| code(text))
        .collect::<Result<Vec<i32>, String>>()?;
    if codes.is_empty() {
        return Err(
            "the setting \"codes\" is missing; it should list the codes of counted events, as in \"-3001, -25\""
                .to_owned(),
        );
    }
    let into = config
        .number("into", i32::MIN.into()..=-1)?
        .ok_or("the setting \"into\" is missing: the code to raise")?;
    let into = i32::try_from(into).unwrap_or_default();
    if codes.contains(&into) {
        return Err(format!(
            "what is raised, {into}, is counted itself: it would never end"
        ));
    }
    let count = config.number("count", 1..=100)?.unwrap_or(5);
    let seconds = config.number("seconds", 1..=86_400)?.unwrap_or(60);
    let by = match config.text("by")?.unwrap_or("affected") {
        "affected" => By::Affected,
        "source" => By::Source,
        "all" => By::All,
        other => {
            return Err(format!(
                "the setting \"by\" is {other:?}; there are affected, source and all"
            ));
        }
    };
    let range = match config.text("range")?.unwrap_or("session") {
        "rm" => Range::Rm,
        "local" => Range::Local,
        "namespace" => Range::Namespace,
        "session" => Range::Session,
        "global" => Range::Global,
        other => {
            return Err(format!(
                "the setting \"range\" is {other:?}; there are rm, local, namespace, session and global"
            ));
        }
    };
    let message = config.text("message")?.map(str::to_owned);
    let window = u64::try_from(seconds).unwrap_or_default() * 1000;
    let tally = Mutex::new(Tally::new(
        usize::try_from(count).unwrap_or(1),
        window,
        ROOM,
    ));
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        count,
        seconds,
        by,
        into,
        range,
        message,
        tally,
    });
    let registration = codes
        .into_iter()
        .fold(Registration::new().name("escalate"), Registration::code);
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

fn escalate(event: &Event) -> Outcome {
    let Some(settings) = SETTINGS.get() else {
        return Outcome::no_action();
    };
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    let code = event.code();
    let mut tally = settings
        .tally
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mut procs = counted_for(event, settings.by);
    procs.retain(|proc| {
        tally.add(
            &(
                code,
                proc.as_ref().map(|proc| (proc.nspace.clone(), proc.rank)),
            ),
            now,
        )
    });
    if procs.is_empty() {
        return Outcome::no_action();
    }
    let raised: Result<Vec<u64>, i32> = procs
        .iter()
        .map(|proc| raise(settings, code, proc.as_ref()))
        .collect();
    match raised {
        Ok(raised) => Outcome::partial()
            .with("peal.escalate.into", settings.into)
            .with("peal.escalate.raised", raised.len()),
        Err(status) => Outcome::status(status),
    }
}

/// Returns the proc that an event is counted for; none is a unit, too.
fn counted_for(event: &Event, by: By) -> Vec<Option<Proc>> {
    let procs = match by {
        By::All => Vec::new(),
        By::Source => event.source().into_iter().collect(),
        By::Affected => match (
            event.get(key::PMIX_EVENT_AFFECTED_PROC),
            event.get(key::PMIX_EVENT_AFFECTED_PROCS),
        ) {
            (Some(Value::Proc(proc)), _) => vec![proc],
            (_, Some(Value::Procs(procs))) => procs,
            _ => Vec::new(),
        },
    };
    if procs.is_empty() {
        vec![None]
    } else {
        procs.into_iter().map(Some).collect()
    }
}

fn raise(settings: &Settings, code: i32, proc: Option<&Proc>) -> Result<u64, i32> {
    let affected = proc.filter(|_| settings.by == By::Affected);
    let affected = affected.map(|proc| Info::new(key::PMIX_EVENT_AFFECTED_PROC, proc.clone()));
    let source = proc.filter(|_| settings.by == By::Source);
    let source = source.map(|proc| Info::new("peal.escalate.source", proc.clone()));
    let message = settings
        .message
        .as_deref()
        .map(|text| Info::new(key::PMIX_EVENT_TEXT_MESSAGE, text));
    let counted = [
        Info::new("peal.escalate.code", Value::Status(code)),
        Info::new("peal.escalate.count", settings.count),
        Info::new("peal.escalate.seconds", settings.seconds),
    ];
    notify(
        settings.into,
        settings.range,
        affected
            .into_iter()
            .chain(source)
            .chain(message)
            .chain(counted),
    )
}

handler!(escalate);
lifecycle!(init, stop);
