//! Requests to the server on its admin socket. The console can ask what every administrator can.
use peal_server::admin::{
    AdminReply, AdminRequest, AdminRequestError, Answers, Chain, JobStatus, ModuleCall, ModuleList,
    ShadowReport, request_on_behalf,
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::sync::{AcquireError, Semaphore};

/// Time of a reply to a page. A change may compile modules.
const REPLY_TIME: Duration = Duration::from_secs(60);
/// Requests of pages at once. The server serves few administrators of one user at once, and this console is one.
const MAX_REQUESTS: usize = 4;

/// Error of a request to the server.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    /// The server does not answer.
    #[error(transparent)]
    Request(#[from] AdminRequestError),
    /// The server refuses.
    #[error("{0}")]
    Refused(String),
    /// The server answers something else.
    #[error("the server sent an unexpected reply: {0}")]
    Unexpected(String),
    /// The task of the request failed.
    #[error("the request was not carried out: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// The console ends.
    #[error("the request was not sent: {0}")]
    Closed(#[from] AcquireError),
}

/// Way to the server.
#[derive(Clone, Debug)]
pub(crate) struct ServerLink {
    socket: PathBuf,
    /// Permits of the requests of pages. That of the live pages takes none.
    requests: Arc<Semaphore>,
}

impl ServerLink {
    pub(crate) fn new(socket: PathBuf) -> ServerLink {
        ServerLink {
            socket,
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        }
    }

    /// Sends a request, and returns its first reply, which must come within this time. Blocks.
    pub(crate) fn open(
        &self,
        call: &AdminRequest,
        behalf: &str,
        time: Duration,
    ) -> Result<(AdminReply, Answers), LinkError> {
        let mut answers = request_on_behalf(&self.socket, call, behalf.to_owned())?;
        match answers.reply_within(time)? {
            AdminReply::Refused { reason } => Err(LinkError::Refused(reason)),
            reply => Ok((reply, answers)),
        }
    }

    /// Sends a request on behalf of a user of the console, and returns its reply.
    pub(crate) async fn ask(
        &self,
        call: AdminRequest,
        behalf: &str,
    ) -> Result<AdminReply, LinkError> {
        let (link, behalf) = (self.clone(), behalf.to_owned());
        let permit = self.requests.clone().acquire_owned().await?;
        // The request goes on without its page, and keeps its permit.
        let asked = move || {
            let _permit = permit;
            link.open(&call, &behalf, REPLY_TIME)
                .map(|(reply, _)| reply)
        };
        tokio::task::spawn_blocking(asked).await?
    }

    /// Returns the modules.
    pub(crate) async fn modules(&self, behalf: &str) -> Result<ModuleList, LinkError> {
        let call = AdminRequest::Module(ModuleCall::List);
        match self.ask(call, behalf).await? {
            AdminReply::Modules(list) => Ok(list),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Returns the reports about a shadow module.
    pub(crate) async fn differences(
        &self,
        name: String,
        behalf: &str,
    ) -> Result<Vec<ShadowReport>, LinkError> {
        let call = AdminRequest::Module(ModuleCall::Diff { name });
        match self.ask(call, behalf).await? {
            AdminReply::Differences { shadows } => Ok(shadows),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Returns the chains.
    pub(crate) async fn chains(&self, behalf: &str) -> Result<Vec<Chain>, LinkError> {
        match self.ask(AdminRequest::Chains, behalf).await? {
            AdminReply::Chains { chains } => Ok(chains),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Returns the jobs.
    pub(crate) async fn jobs(&self, behalf: &str) -> Result<Vec<JobStatus>, LinkError> {
        match self.ask(AdminRequest::Jobs, behalf).await? {
            AdminReply::Jobs { jobs } => Ok(jobs),
            reply => Err(unexpected(&reply)),
        }
    }
}

pub(crate) fn unexpected(reply: &AdminReply) -> LinkError {
    // The beginning says which reply it is.
    LinkError::Unexpected(format!("{reply:?}").chars().take(60).collect())
}
