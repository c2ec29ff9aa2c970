//! Logs abnormal ends and requests how the job continues. `peal-module.toml` says how, and declares
//! the settings.
use peal_sdk::{
    Config, Event, Info, Outcome, Registration, Value, handler, key, lifecycle, log_request, status,
};
use std::sync::OnceLock;

/// Continuation of the job.
#[derive(Clone, Copy, PartialEq, Debug)]
enum JobContinuation {
    Continue,
    Terminate,
    Nothing,
}

impl JobContinuation {
    fn in_words(self) -> &'static str {
        match self {
            JobContinuation::Continue => "the others are to go on",
            JobContinuation::Terminate => "the job is to end",
            JobContinuation::Nothing => "other handlers decide about the job",
        }
    }
}

/// Abnormal ends that are logged.
#[derive(Clone, Copy, PartialEq)]
enum LoggedEnds {
    /// Those after which the handlers decide about the job.
    Undecided,
    All,
}

struct Settings {
    continuation: JobContinuation,
    ends: LoggedEnds,
    /// Key of the log channel.
    channel: &'static str,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["job", "ends", "log"])?;
    let continuation = match config.text("job")? {
        Some("continue") => JobContinuation::Continue,
        Some("terminate") => JobContinuation::Terminate,
        Some(other) => {
            return Err(format!(
                "the setting \"job\" is {other:?}; there are continue and terminate"
            ));
        }
        None => JobContinuation::Nothing,
    };
    let ends = match config.text("ends")?.unwrap_or("undecided") {
        "undecided" => LoggedEnds::Undecided,
        "all" => LoggedEnds::All,
        other => {
            return Err(format!(
                "the setting \"ends\" is {other:?}; there are undecided and all"
            ));
        }
    };
    let channel = match config.text("log")?.unwrap_or("stderr") {
        "stderr" => key::PMIX_LOG_STDERR,
        "syslog" => key::PMIX_LOG_SYSLOG,
        "job_record" => key::PMIX_LOG_JOB_RECORD,
        other => {
            return Err(format!(
                "the setting \"log\" is {other:?}; there are stderr, syslog and job_record"
            ));
        }
    };
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        continuation,
        ends,
        channel,
    });
    let ends = [
        status::PMIX_ERR_PROC_ABORTED_BY_SIG,
        status::PMIX_ERR_EXIT_NONZERO_TERM,
        status::PMIX_ERR_PROC_TERM_WO_SYNC,
    ];
    Ok(vec![ends.into_iter().fold(
        Registration::new().name("log-abort"),
        Registration::code,
    )])
}

fn stop() {}

fn log_abort(event: &Event) -> Outcome {
    let (Some(settings), Some(Value::Proc(dead))) =
        (SETTINGS.get(), event.get(key::PMIX_EVENT_AFFECTED_PROC))
    else {
        return Outcome::no_action();
    };
    // The event has a time limit for the decision; without one, handlers do not decide about the
    // job.
    let is_asked = event.get(key::PMIX_EVENT_ACTION_TIMEOUT).is_some();
    if !is_asked && settings.ends == LoggedEnds::Undecided {
        return Outcome::no_action();
    }
    let status = match event
        .get(key::PMIX_EXIT_CODE)
        .as_ref()
        .and_then(Value::as_i64)
    {
        Some(status) => format!(" (exit status {status})"),
        None => String::new(),
    };
    let continuation = match is_asked {
        true => format!(": {}", settings.continuation.in_words()),
        false => String::new(),
    };
    let line = format!("{dead} has ended abnormally{status}{continuation}");
    let logged = log_request::submit(
        [Info::new(settings.channel, line)],
        [Info::new(key::PMIX_LOG_SOURCE, dead)],
    );
    // The request about the job does not depend on the log request.
    let outcome = Outcome::partial().with("peal.log-abort.logged", logged.is_ok());
    match settings.continuation {
        _ if !is_asked => outcome,
        JobContinuation::Continue => outcome.with(key::PMIX_EVENT_NO_TERMINATION, true),
        JobContinuation::Terminate => outcome.with(key::PMIX_EVENT_WANT_TERMINATION, true),
        JobContinuation::Nothing => outcome,
    }
}

handler!(log_abort);
lifecycle!(init, stop);
