//! Logs one line about a proc that has ended abnormally, for whoever reads the output of its job, and says what becomes of that job.
//! Ends that nobody asks about (the job is being ended, or none of it is left) go without a word.
//!
//! ```toml
//! [[module]]
//! name = "mourn"
//! path = "mourn.wasm"
//! grants = ["report"]            # needs a log channel for stderr, such as stdio.wasm
//! [module.config]
//! job = "continue"               # the other procs go on; "terminate": they are ended; else `run.on_abort` holds
//! ```
use peal_sdk::{
    Config, Event, Info, Outcome, Registration, Value, handler, key, lifecycle, report, status,
};
use std::sync::OnceLock;

/// What becomes of the job.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Wish {
    Continue,
    Terminate,
    Nothing,
}

impl Wish {
    fn in_words(self) -> &'static str {
        match self {
            Wish::Continue => "the others are to go on",
            Wish::Terminate => "the job is to end",
            Wish::Nothing => "what follows is for others to say",
        }
    }
}

static WISH: OnceLock<Wish> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.only(&["job"])?;
    let wish = match config.text("job")? {
        Some("continue") => Wish::Continue,
        Some("terminate") => Wish::Terminate,
        Some(other) => {
            return Err(format!(
                "the setting \"job\" is {other:?}; there are continue and terminate"
            ));
        }
        None => Wish::Nothing,
    };
    // An instance is told its settings once.
    let _ = WISH.set(wish);
    let ends = [
        status::PMIX_ERR_PROC_ABORTED_BY_SIG,
        status::PMIX_ERR_EXIT_NONZERO_TERM,
        status::PMIX_ERR_PROC_TERM_WO_SYNC,
    ];
    Ok(vec![ends.into_iter().fold(
        Registration::new().name("mourn"),
        Registration::code,
    )])
}

fn stop() {}

fn mourn(event: &Event) -> Outcome {
    // The host says how long it waits for an answer; if it does not wait, all is decided.
    let is_asked = event.get(key::PMIX_EVENT_ACTION_TIMEOUT).is_some();
    let (true, Some(Value::Proc(dead))) = (is_asked, event.get(key::PMIX_EVENT_AFFECTED_PROC))
    else {
        return Outcome::no_action();
    };
    let wish = WISH.get().copied().unwrap_or(Wish::Nothing);
    let status = match event
        .get(key::PMIX_EXIT_CODE)
        .as_ref()
        .and_then(Value::as_i64)
    {
        Some(status) => format!(" (exit status {status})"),
        None => String::new(),
    };
    let line = format!("{dead} has ended abnormally{status}: {}", wish.in_words());
    let logged = report::log(
        [Info::new(key::PMIX_LOG_STDERR, line)],
        [Info::new(key::PMIX_LOG_SOURCE, dead)],
    );
    // What cannot be logged does not keep it from saying what it wishes.
    let outcome = Outcome::partial().with("peal.mourn.logged", logged.is_ok());
    match wish {
        Wish::Continue => outcome.with(key::PMIX_EVENT_NO_TERMINATION, true),
        Wish::Terminate => outcome.with(key::PMIX_EVENT_WANT_TERMINATION, true),
        Wish::Nothing => outcome,
    }
}

handler!(mourn);
lifecycle!(init, stop);
