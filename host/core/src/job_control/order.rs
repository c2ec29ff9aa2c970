//! A checkpoint as it was asked for.
use super::{JobControlError, Method};
use peal_model::key;
use std::time::Duration;

/// A checkpoint that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointOrder {
    /// What it is called.
    pub checkpoint: String,
    /// How the procs are told, where the requester knows that better than they.
    pub method: Option<Method>,
    /// A number under the key that means a signal or a time: which of the two depends on what the procs declared.
    pub ambiguous: Option<Ambiguous>,
    /// How long it may take; none: what the site says.
    pub timeout: Option<Duration>,
}

/// A number under `pmix.jctrl.ckptsig`, which is both `PMIX_JOB_CTRL_CHECKPOINT_SIGNAL` and `PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT`, in
/// every release up to today's. It could be the number of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ambiguous(pub u8);

/// A checkpoint by all that is said about it. Of two numbers under the one key the first is the signal and the second the time,
/// in the order in which the Standard lists them; one that no signal has can only be a time.
pub(super) fn of(
    checkpoint: String,
    event: Option<Method>,
    numbers: &[u64],
    timeout: Option<Duration>,
) -> Result<CheckpointOrder, JobControlError> {
    let key = key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL.0;
    let time = |number: u64| Some(Duration::from_secs(number)).filter(|time| !time.is_zero());
    let one = |number: u64| u8::try_from(number).ok().filter(|number| (1..=64).contains(number));
    let (method, ambiguous, timeout) = match (numbers, event) {
        ([], event) => (event, None, timeout),
        ([seconds], Some(event)) => (Some(event), None, timeout.or(time(*seconds))),
        ([number], None) => match one(*number) {
            Some(number) if timeout.is_some() => (Some(Method::Signal(number)), None, timeout),
            Some(number) => (None, Some(Ambiguous(number)), None),
            None => (None, None, timeout.or(time(*number))),
        },
        ([number, seconds], None) => {
            let wanted = "the number of a signal, from 1 to 64, and after it a time in seconds";
            let number = one(*number).ok_or(JobControlError::BadDirective { key, wanted })?;
            (Some(Method::Signal(number)), None, timeout.or(time(*seconds)))
        }
        _ => {
            let (first, second) = (key::PMIX_JOB_CTRL_CHECKPOINT_EVENT.0, key);
            return Err(JobControlError::Several { first, second });
        }
    };
    Ok(CheckpointOrder { checkpoint, method, ambiguous, timeout })
}
