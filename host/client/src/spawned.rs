//! Jobs that procs and tools have started for them.
use crate::{Call, Client, ClientError};
use peal_model::{App, CommandCode, Info, Nspace, Reply, Request};

impl Client {
    /// Has a job started of these applications and answers with its name when it is (`PMIx_Spawn`). The directives are for all of them, as
    /// `PMIX_NOTIFY_COMPLETION`, by which we hear of its end (`PMIX_EVENT_JOB_END`).
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
