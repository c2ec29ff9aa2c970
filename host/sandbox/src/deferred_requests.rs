//! Host side of the requests that go beyond the call itself. `control` and `report` are carried out
//! after the call has returned; `usage` is answered at once.
use crate::bindings::peal::pmix::{job_control, log_request, resource_usage, types};
use crate::call_data::CallSubject;
use crate::host_calls::HostCallRequest;
use crate::instance_state::InstanceState;
use crate::lift::lift_proc;
use crate::lower::lower_content;
use crate::meter::CallAbort;
use crate::services::CapabilityResult;
use peal_model::{Info, Proc, Status, code};
use serde::{Deserialize, Serialize};

/// Bound on the job control requests of one call, and on its log requests.
const MAX_REQUESTS: usize = 16;
/// Bound on the procs that one request may name.
pub const MAX_REQUEST_PROCS: usize = 1024;

/// A job control request of a module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeferredControl {
    /// Number of the request as returned to the module, unique in this process.
    pub request: u64,
    /// Target procs; an empty list means the module's own job.
    pub targets: Vec<Proc>,
    /// Directives of the request.
    pub directives: Vec<Info>,
}

/// A log request of a module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeferredLog {
    /// Number of the request in the trace, unique in this process.
    pub request: u64,
    /// Data to be logged.
    pub data: Vec<Info>,
    /// Directives of the request.
    pub directives: Vec<Info>,
}

/// Source of the resource usage of procs, as far as the owner of one module may know it. It is
/// called on a guest thread.
pub trait ProcUsage: Send + Sync {
    /// Returns the current usage, one info for each proc that exists.
    ///
    /// Returns `PMIX_ERR_NO_PERMISSIONS` if one of the procs belongs to another user,
    /// `PMIX_ERR_NOT_FOUND` if one is unknown.
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status>;
}

impl job_control::Host for InstanceState {
    fn request(
        &mut self,
        targets: Vec<types::Proc>,
        directives: types::FlatInfos,
    ) -> CapabilityResult<u64> {
        self.host_call(
            || HostCallRequest::Control,
            |host| {
                // Checked before the values are lifted at the cost of the call.
                let earlier = host.current.output.controls.len();
                if let Err(status) = host.check_request_count(earlier) {
                    return Ok(Err(status.0));
                }
                if targets.len() > MAX_REQUEST_PROCS || directives.infos.is_empty() {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                host.meter.charge(size_of::<DeferredControl>())?;
                let targets = host.lift_procs(&targets)?;
                let directives = host.lifter().content(directives)?;
                let request = host.next_request()?;
                host.current.output.controls.push(DeferredControl {
                    request,
                    targets,
                    directives,
                });
                Ok(Ok(request))
            },
        )
    }
}

impl log_request::Host for InstanceState {
    fn submit(
        &mut self,
        data: types::FlatInfos,
        directives: types::FlatInfos,
    ) -> CapabilityResult<()> {
        self.host_call(
            || HostCallRequest::Report,
            |host| {
                let earlier = host.current.output.reports.len();
                if let Err(status) = host.check_request_count(earlier) {
                    return Ok(Err(status.0));
                }
                if data.infos.is_empty() {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                // The lifter charges the contents only.
                host.meter.charge(size_of::<DeferredLog>())?;
                let data = host.lifter().content(data)?;
                let directives = host.lifter().content(directives)?;
                let request = host.next_request()?;
                host.current.output.reports.push(DeferredLog {
                    request,
                    data,
                    directives,
                });
                Ok(Ok(()))
            },
        )
    }
}

impl resource_usage::Host for InstanceState {
    fn query(&mut self, procs: Vec<types::Proc>) -> CapabilityResult<types::FlatInfos> {
        // Lifted first, because the record of the host call names the procs.
        let procs = self.lift_procs(&procs)?;
        let request = || HostCallRequest::Usage {
            procs: procs.clone(),
        };
        let used: Result<Vec<Info>, Status> = self.recorded_call(0, request, |host| {
            Ok(match host.services.usage.as_deref() {
                _ if procs.len() > MAX_REQUEST_PROCS => Err(code::PMIX_ERR_BAD_PARAM),
                Some(usage) => usage.of(&procs),
                None => Err(code::PMIX_ERR_NOT_SUPPORTED),
            })
        })?;
        match used {
            Ok(infos) => Ok(Ok(self.lower_answer(infos)?)),
            Err(status) => Ok(Err(status.0)),
        }
    }
}

impl InstanceState {
    /// Checks that the call may make one more request of a kind, after `earlier` others.
    fn check_request_count(&self, earlier: usize) -> Result<(), Status> {
        match &self.current.subject {
            CallSubject::Event(_) if earlier < MAX_REQUESTS => Ok(()),
            CallSubject::Event(_) => Err(code::PMIX_ERR_OUT_OF_RESOURCE),
            // Results of policies and channels carry no requests.
            _ => Err(code::PMIX_ERR_NOT_AVAILABLE),
        }
    }

    fn lift_procs(&mut self, procs: &[types::Proc]) -> Result<Vec<Proc>, CallAbort> {
        // The guest chooses the length. A list over the bound is refused later, after it was
        // charged.
        let mut raised = Vec::with_capacity(procs.len().min(MAX_REQUEST_PROCS));
        for proc in procs {
            self.meter.charge(size_of::<Proc>() + proc.nspace.len())?;
            raised.push(lift_proc(proc)?);
        }
        Ok(raised)
    }

    /// Lowers infos that a host call returned. If some have no form in the contract, the infos are
    /// kept until the call has returned, at the cost of the call, so that the guest can pass them
    /// on.
    fn lower_answer(&mut self, infos: Vec<Info>) -> Result<types::FlatInfos, CallAbort> {
        let opaques = &mut self.current.opaques;
        let list = opaques.next_answer();
        let content = lower_content(opaques, list, &infos);
        if opaques.has_any_of(list) {
            self.meter.charge(
                infos
                    .iter()
                    .map(|info| peal_model::Size::of_info(info).bytes)
                    .sum(),
            )?;
            self.current.opaques.keep_answer(infos);
        }
        Ok(content)
    }

    /// Returns the number of a new request.
    pub(crate) fn next_request(&mut self) -> Result<u64, CallAbort> {
        // The counter is the process's own, so a replay has to return the recorded number.
        self.recorded_answer(|| HostCallRequest::Number, |host| Ok(host.count_request()))
    }
}
