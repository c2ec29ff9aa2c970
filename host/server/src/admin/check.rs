//! Checks of requests that change something: what they would do now, without doing it.
use super::{
    access::Caller,
    dispatch::{AdminDispatcher, ProcessCommand, STOPPED},
    protocol::{AdminReply, AdminRequest},
    registered_jobs::require_idle,
};
use crate::handle::AddJobError;
use peal_core::job::JobProgress;

impl AdminDispatcher {
    /// Returns the reply that a request would have now.
    ///
    /// # Errors
    ///
    /// Returns the reason for which the request would be refused, or that it changes nothing.
    pub(super) async fn check(
        &self,
        caller: Caller,
        call: AdminRequest,
    ) -> Result<AdminReply, String> {
        match call {
            AdminRequest::Register(job) => {
                let spec = self.new_job(caller, &job).await?;
                self.check_job_limit(self.registered.lock().await.len())?;
                let jobs = self.all_jobs().await?;
                if jobs.iter().any(|known| known.spec.nspace == spec.nspace) {
                    return Err(AddJobError::Exists(spec.nspace).to_string());
                }
                let registration = self.registered_as(&spec.nspace, job.size);
                Ok(AdminReply::Registered(registration))
            }
            AdminRequest::Started { nspace, rank, pid } => {
                self.started_process(&nspace, rank, pid).await?;
                Ok(AdminReply::Started)
            }
            AdminRequest::Deregister { nspace } => {
                let (nspace, _) = self.find(&nspace).await?;
                let jobs = self.all_jobs().await?;
                let job = jobs.iter().find(|known| known.spec.nspace == nspace);
                job.map_or(Ok(()), require_idle)?;
                Ok(AdminReply::Deregistered)
            }
            AdminRequest::Drain => Ok(AdminReply::Draining),
            AdminRequest::Stop => Ok(AdminReply::Stopping),
            AdminRequest::Reload => self
                .request_result(ProcessCommand::CheckReload)
                .await
                .flatten()
                .map(AdminReply::Reloaded),
            AdminRequest::Module(call) => self
                .request_result(|reply| ProcessCommand::CheckModule { call, reply })
                .await
                .flatten(),
            AdminRequest::Upgrade => Ok(AdminReply::Upgrading),
            AdminRequest::HandOver => {
                Err("only the process that takes the server over can tell".to_owned())
            }
            AdminRequest::Stats
            | AdminRequest::Users
            | AdminRequest::Status
            | AdminRequest::Jobs
            | AdminRequest::Chains
            | AdminRequest::Watch { .. }
            | AdminRequest::Activity { .. }
            | AdminRequest::Environment { .. }
            | AdminRequest::Check { .. } => Err(format!(
                "{call} changes nothing: only requests that do can be checked"
            )),
        }
    }

    async fn all_jobs(&self) -> Result<Vec<JobProgress>, String> {
        self.parts
            .handle
            .jobs()
            .await
            .ok_or_else(|| STOPPED.to_owned())
    }
}
