//! Exits of jobs: the infos of their events and the exit status of the job.
use super::job_request::JobRequest;
use peal_core::choice::OnAbort;
use peal_model::{Info, Proc, Value, key};
use peal_server::ProcExit;

/// Returns the infos of the event of an abnormal end that announce the default action: the
/// action without a handler's request, and the time that handlers have to request another one.
///
/// `PMIX_EVENT_TERMINATE_PROC` is never announced, since the proc has ended already. `_NODE` and
/// `_SESSION` are outside of the launcher's responsibility. `PMIX_EVENT_SILENT_TERMINATION`
/// concerns events of normal ends, which the launcher does not raise.
pub(crate) fn intention(request: &JobRequest) -> Vec<Info> {
    // Rounded up: the attribute is in whole seconds, and zero would announce no time at all.
    let seconds = i32::try_from(request.options.action_timeout.as_millis().div_ceil(1000))
        .unwrap_or(i32::MAX);
    let mut infos = vec![Info::new(
        key::PMIX_EVENT_ACTION_TIMEOUT,
        Value::Int(seconds),
    )];
    match request.options.on_abort {
        OnAbort::Terminate => {
            infos.push(Info::new(key::PMIX_EVENT_TERMINATE_JOB, Value::Bool(true)))
        }
        OnAbort::Continue => {}
    }
    infos
}

/// Exit of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobExit {
    /// Exit status to pass on: that of the first abnormal end, or 1 if that was zero. Zero if no
    /// end was abnormal.
    pub exit_status: i32,
    /// First proc that ended abnormally, if any did.
    pub first_abnormal: Option<(Proc, ProcExit)>,
    /// Proc that aborted the job, if any did, with its message.
    pub abort: Option<(Proc, String)>,
}
