//! How procs and jobs end, what is told of it, and what that means for the exit status.
use super::job_request::JobRequest;
use peal_core::choice::OnAbort;
use peal_model::{Info, Proc, Value, key};
use peal_server::ProcExit;

/// What the host is going to do about an abnormal end if no handler wishes anything else, and how long it waits for them; said
/// in the event. `PMIX_EVENT_TERMINATE_PROC`, `_NODE` and `_SESSION` it never intends: the proc is gone, and the rest is not its
/// job. `PMIX_EVENT_SILENT_TERMINATION` is about events of ends in order, which it does not raise.
pub(crate) fn intention(request: &JobRequest) -> Vec<Info> {
    let seconds = i32::try_from(request.keeping.action_timeout.as_millis().div_ceil(1000))
        .unwrap_or(i32::MAX);
    let mut infos = vec![Info::new(
        key::PMIX_EVENT_ACTION_TIMEOUT,
        Value::Int(seconds),
    )];
    match request.keeping.on_abort {
        OnAbort::Terminate => {
            infos.push(Info::new(key::PMIX_EVENT_TERMINATE_JOB, Value::Bool(true)))
        }
        OnAbort::Continue => {}
    }
    infos
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug)]
pub struct JobExit {
    /// The exit status to pass on: that of the first abnormal end, or 1 where that was zero; zero if none was abnormal.
    pub exit_status: i32,
    /// The first proc that ended abnormally, if one did.
    pub first_abnormal: Option<(Proc, ProcExit)>,
    /// The proc that aborted the job, if one did, and what it had to say.
    pub abort: Option<(Proc, String)>,
}
