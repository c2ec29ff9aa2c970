//! Queries of a host environment to the servers of other nodes.
use crate::handle::{ActorMessage, ServerHandle};
use peal_model::{Info, Nspace, Query, Status};
use tokio::sync::oneshot;

/// The servers of other nodes that have procs of a job.
#[derive(Clone)]
pub struct OtherServers {
    handle: ServerHandle,
}

impl OtherServers {
    pub(crate) fn new(handle: ServerHandle) -> OtherServers {
        OtherServers { handle }
    }

    /// Passes queries about a job to the other servers that have procs of it, and returns the answer of
    /// each. Each query names the job. Without such a server there is no answer.
    pub async fn query(&self, job: Nspace, queries: Vec<Query>) -> Vec<Result<Vec<Info>, Status>> {
        let (reply_to, answers) = oneshot::channel();
        self.handle.send(ActorMessage::QueryServers {
            job,
            queries,
            reply_to,
        });
        // A server that has stopped asks none.
        answers.await.unwrap_or_default()
    }
}
