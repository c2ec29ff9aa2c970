//! A checkpoint as it was asked for.
use super::{CheckpointMethod, JobControlError};
use peal_model::key;
use std::time::Duration;

/// A checkpoint that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointOrder {
    /// What it is called.
    pub checkpoint: String,
    /// How the procs are told, where the requester knows that better than they.
    pub method: Option<CheckpointMethod>,
    /// How long it may take; none: what the site says.
    pub timeout: Option<Duration>,
}

/// A checkpoint by all that is said about it.
///
/// `pmix.jctrl.ckptsig` is both `PMIX_JOB_CTRL_CHECKPOINT_SIGNAL` and `PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT` in every release up to
/// today's. Of two numbers under it the first is the signal and the second the time, in the order in which the Standard lists them.
/// A lone number that a signal has is the signal, as in the example of the RFC; any other is the time, and so is each beside an event.
pub(super) fn of(
    checkpoint: String,
    event: Option<CheckpointMethod>,
    numbers: &[u64],
    timeout: Option<Duration>,
) -> Result<CheckpointOrder, JobControlError> {
    let key = key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL.0;
    let time = |number: u64| Some(Duration::from_secs(number)).filter(|time| !time.is_zero());
    let one = |number: u64| {
        u8::try_from(number)
            .ok()
            .filter(|number| (1..=64).contains(number))
    };
    let (method, timeout) = match (numbers, event) {
        ([], event) => (event, timeout),
        ([seconds], Some(event)) => (Some(event), timeout.or(time(*seconds))),
        ([number], None) => match one(*number) {
            Some(number) => (Some(CheckpointMethod::Signal(number)), timeout),
            None => (None, timeout.or(time(*number))),
        },
        ([number, seconds], None) => {
            let wanted = "the number of a signal, from 1 to 64, and after it a time in seconds";
            let number = one(*number).ok_or(JobControlError::BadDirective { key, wanted })?;
            (
                Some(CheckpointMethod::Signal(number)),
                timeout.or(time(*seconds)),
            )
        }
        _ => {
            let (first, second) = (key::PMIX_JOB_CTRL_CHECKPOINT_EVENT.0, key);
            return Err(JobControlError::Several { first, second });
        }
    };
    Ok(CheckpointOrder {
        checkpoint,
        method,
        timeout,
    })
}
