//! Logs one line about a proc that ended abnormally to the output of its job, and requests whether
//! the job continues. Ignores ends that need no decision: the job is being terminated, or none of
//! its procs is left.
//!
//! ```toml
//! [[module]]
//! name = "log-abort"
//! path = "log-abort.wasm"
//! grants = ["log-request"]            # needs a log channel for stderr, such as stdio.wasm
//! [module.config]
//! job = "continue"               # or "terminate"; default: `run.on_abort` decides
//! ```
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
            JobContinuation::Nothing => "what follows is for others to say",
        }
    }
}

static CONTINUATION: OnceLock<JobContinuation> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["job"])?;
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
    // An instance receives its settings only once.
    let _ = CONTINUATION.set(continuation);
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
    // The event has a time limit for the decision; without one, the job is already decided about.
    let is_asked = event.get(key::PMIX_EVENT_ACTION_TIMEOUT).is_some();
    let (true, Some(Value::Proc(dead))) = (is_asked, event.get(key::PMIX_EVENT_AFFECTED_PROC))
    else {
        return Outcome::no_action();
    };
    let continuation = CONTINUATION
        .get()
        .copied()
        .unwrap_or(JobContinuation::Nothing);
    let status = match event
        .get(key::PMIX_EXIT_CODE)
        .as_ref()
        .and_then(Value::as_i64)
    {
        Some(status) => format!(" (exit status {status})"),
        None => String::new(),
    };
    let line = format!(
        "{dead} has ended abnormally{status}: {}",
        continuation.in_words()
    );
    let logged = log_request::submit(
        [Info::new(key::PMIX_LOG_STDERR, line)],
        [Info::new(key::PMIX_LOG_SOURCE, dead)],
    );
    // The request about the job does not depend on the log request.
    let outcome = Outcome::partial().with("peal.log-abort.logged", logged.is_ok());
    match continuation {
        JobContinuation::Continue => outcome.with(key::PMIX_EVENT_NO_TERMINATION, true),
        JobContinuation::Terminate => outcome.with(key::PMIX_EVENT_WANT_TERMINATION, true),
        JobContinuation::Nothing => outcome,
    }
}

handler!(log_abort);
lifecycle!(init, stop);
