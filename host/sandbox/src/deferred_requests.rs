//! The host side of what a guest asks of its server beyond the call at hand: `job-control` and `log-request`, which are carried out once the
//! call has returned, and `resource-usage`.
use crate::bindings::peal::pmix::{job_control, log_request, resource_usage, types};
use crate::call_data::CallSubject;
use crate::host_calls::HostCallRequest;
use crate::instance_state::InstanceState;
use crate::lift::raise_proc;
use crate::lower::lower_content;
use crate::meter::CallAbort;
use crate::services::CapabilityResult;
use peal_model::{Info, Proc, Status, code};
use serde::{Deserialize, Serialize};

/// How often one call may ask for job control, and how often it may log.
const MAX_REQUESTS: usize = 16;
/// How many procs one request may name.
const MAX_PROCS: usize = 1024;

/// Job control that a module asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeferredControl {
    /// The number that the module was told, unique in this process.
    pub request: u64,
    /// Of whom; of nobody named means the module's own job.
    pub targets: Vec<Proc>,
    /// What is to be done.
    pub directives: Vec<Info>,
}

/// What a module wants logged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeferredLog {
    /// The number under which it is traced, unique in this process.
    pub request: u64,
    /// What.
    pub data: Vec<Info>,
    /// How.
    pub directives: Vec<Info>,
}

/// What procs use of the machine, as the owner of one module may know it. Called on a guest thread.
pub trait ProcUsage: Send + Sync {
    /// What these procs use now, one info for each that is there: `PMIX_ERR_NO_PERMISSIONS` where one of them belongs to somebody
    /// else, `PMIX_ERR_NOT_FOUND` where one is not known.
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
                let asked = host.current.output.controls.len();
                if let Err(status) = host.may_ask(asked) {
                    return Ok(Err(status.0));
                }
                if targets.len() > MAX_PROCS || directives.infos.is_empty() {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                host.meter.charge(size_of::<DeferredControl>())?;
                let targets = host.raise_procs(&targets)?;
                let directives = host.raise().content(directives)?;
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
                let asked = host.current.output.reports.len();
                if let Err(status) = host.may_ask(asked) {
                    return Ok(Err(status.0));
                }
                if data.infos.is_empty() {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                host.meter.charge(size_of::<DeferredLog>())?;
                let (data, directives) = (
                    host.raise().content(data)?,
                    host.raise().content(directives)?,
                );
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
        let procs = self.raise_procs(&procs)?;
        let ask = || HostCallRequest::Usage {
            procs: procs.clone(),
        };
        let used: Result<Vec<Info>, Status> = self.recorded_call(0, ask, |host| {
            Ok(match host.services.usage.as_deref() {
                _ if procs.len() > MAX_PROCS => Err(code::PMIX_ERR_BAD_PARAM),
                Some(usage) => usage.of(&procs),
                None => Err(code::PMIX_ERR_NOT_SUPPORTED),
            })
        })?;
        match used {
            Ok(infos) => Ok(Ok(self.lend(infos)?)),
            Err(status) => Ok(Err(status.0)),
        }
    }
}

impl InstanceState {
    /// Whether one more request of a kind may be made in this call, of which there are so many.
    fn may_ask(&self, asked: usize) -> Result<(), Status> {
        match &self.current.subject {
            CallSubject::Event(_) if asked < MAX_REQUESTS => Ok(()),
            CallSubject::Event(_) => Err(code::PMIX_ERR_OUT_OF_RESOURCE),
            _ => Err(code::PMIX_ERR_NOT_AVAILABLE),
        }
    }

    fn raise_procs(&mut self, procs: &[types::Proc]) -> Result<Vec<Proc>, CallAbort> {
        let mut raised = Vec::with_capacity(procs.len().min(MAX_PROCS));
        for proc in procs {
            self.meter.charge(size_of::<Proc>() + proc.nspace.len())?;
            raised.push(raise_proc(proc)?);
        }
        Ok(raised)
    }

    /// Infos from elsewhere, as the guest sees them. Where some have no shape in the contract they are kept until the call has
    /// returned, at its cost, so that they can be passed on.
    fn lend(&mut self, infos: Vec<Info>) -> Result<types::FlatInfos, CallAbort> {
        let opaques = &mut self.current.opaques;
        let list = opaques.next_lent();
        let content = lower_content(opaques, list, &infos);
        if opaques.has_any_of(list) {
            self.meter.charge(
                infos
                    .iter()
                    .map(|info| peal_model::Size::of_info(info).bytes)
                    .sum(),
            )?;
            self.current.opaques.keep(infos);
        }
        Ok(content)
    }

    /// The number of one more request.
    pub(crate) fn next_request(&mut self) -> Result<u64, CallAbort> {
        self.outside(|| HostCallRequest::Number, |host| Ok(host.count_request()))
    }
}
