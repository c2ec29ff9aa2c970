//! Spawn of jobs for procs and tools.
use crate::{Call, Client, ClientError};
use peal_model::{App, CommandCode, Info, Nspace, Reply, Request};

impl Client {
    /// Spawns a job of these applications, and returns its namespace when it is started
    /// (`PMIx_Spawn`). The directives hold for all of them. An example is `PMIX_NOTIFY_COMPLETION`,
    /// which notifies the caller of its end (`PMIX_EVENT_JOB_END`).
    pub async fn spawn(&self, directives: &[Info], apps: &[App]) -> Result<Nspace, ClientError> {
        match self
            .ask(Request::Spawn {
                infos: directives.to_vec(),
                apps: apps.to_vec(),
            })
            .await?
        {
            Reply::Spawned {
                nspace: Some(nspace),
                ..
            } => Ok(nspace),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Spawn),
            }),
        }
    }
}
