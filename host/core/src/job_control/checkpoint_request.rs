//! Requests for checkpoints and preemptions.
use super::{CheckpointMethod, JobAction, JobControlError};
use peal_model::key;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A requested checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckpointOrder {
    /// The name of the checkpoint.
    pub checkpoint: String,
    /// The method, where the requester names one.
    pub method: Option<CheckpointMethod>,
    /// The timeout; none for the site's setting.
    pub timeout: Option<Duration>,
}

/// A requested preemption.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PreemptionOrder {
    /// The action in the end.
    pub action: JobAction,
    /// The grace period; none for the site's setting.
    pub grace: Option<Duration>,
}

/// Combines the directives of a checkpoint request.
///
/// `pmix.jctrl.ckptsig` is both `PMIX_JOB_CTRL_CHECKPOINT_SIGNAL` and
/// `PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT` in every release so far. Of two numbers under this key, the
/// first is the signal and the second the timeout, in the order of the Standard. A single number is
/// the signal if it is a valid one, as in the RFC's example; otherwise it is the timeout. Beside an
/// event, every number is the timeout.
pub(super) fn of(
    checkpoint: String,
    event: Option<CheckpointMethod>,
    numbers: &[u64],
    timeout: Option<Duration>,
) -> Result<CheckpointOrder, JobControlError> {
    let key = key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL.0;
    // Zero means no timeout, as for `PMIX_TIMEOUT`.
    let time = |number: u64| Some(Duration::from_secs(number)).filter(|time| !time.is_zero());
    let one = |number: u64| {
        u8::try_from(number)
            .ok()
            // Linux has signals from 1 to 64, with those for real time.
            .filter(|number| (1..=64).contains(number))
    };
    // `PMIX_TIMEOUT` has one meaning only, so it precedes a number under the shared key.
    let (method, timeout) = match (numbers, event) {
        ([], event) => (event, timeout),
        ([seconds], Some(event)) => (Some(event), timeout.or(time(*seconds))),
        ([number], None) => match one(*number) {
            Some(number) => (Some(CheckpointMethod::Signal(number)), timeout),
            None => (None, timeout.or(time(*number))),
        },
        ([number, seconds], None) => {
            let expected = "the number of a signal, from 1 to 64, and after it a time in seconds";
            let number = one(*number).ok_or(JobControlError::BadDirective { key, expected })?;
            (
                Some(CheckpointMethod::Signal(number)),
                timeout.or(time(*seconds)),
            )
        }
        _ => {
            let first = key::PMIX_JOB_CTRL_CHECKPOINT_EVENT.0;
            let second = key;
            return Err(JobControlError::Several { first, second });
        }
    };
    Ok(CheckpointOrder {
        checkpoint,
        method,
        timeout,
    })
}
