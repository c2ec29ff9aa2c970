//! Connection of one stub: its requests, in order, and its answers to upcalls.
use super::{
    registered_jobs::RegisteredJobs,
    remote_host::RemoteHost,
    transfer::{MessageReceiver, TransferError},
};
use crate::handle::ServerHandle;
use peal_core::{server::EventBudget, user_scope::UserScope};
use peal_model::{Event, Infos, Status, UserIdentity, Value, code, key};
use peal_stub::{HostReply, HostRequest, RequestNumber, ServerMessage, StubMessage, StubRefusal};
use std::{future::Future, io, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::sync::mpsc;

/// Reason for the end of a stub's connection.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The stub was refused.
    #[error("host environment refused: {0}")]
    Refused(StubRefusal),
    /// The first message did not come in time.
    #[error("no first message of the host environment within {0:?}")]
    Slow(Duration),
    /// The first message was another one.
    #[error("first message of the host environment is no hello")]
    NoHello,
    /// A later message was a hello.
    #[error("host environment says hello twice")]
    SecondHello,
    /// The transfer failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The socket failed.
    #[error("socket of the host environment: {0}")]
    Io(#[from] io::Error),
}

/// Connection of an admitted stub.
pub(super) struct Session {
    pub(super) handle: ServerHandle,
    pub(super) host: Arc<RemoteHost>,
    pub(super) jobs: RegisteredJobs,
    pub(super) outgoing: mpsc::Sender<ServerMessage>,
    /// Number of events that handlers may raise in response to an event of the host environment.
    pub(super) allowance: EventBudget,
}

impl Session {
    /// Serves the stub until its connection ends, and removes its jobs.
    pub(super) async fn run(
        mut self,
        receiver: MessageReceiver,
        write: impl Future<Output = Result<(), TransferError>>,
    ) -> Result<(), SessionError> {
        let served = self.serve(receiver, write).await;
        self.jobs.remove_all().await;
        served
    }

    async fn serve(
        &mut self,
        mut receiver: MessageReceiver,
        write: impl Future<Output = Result<(), TransferError>>,
    ) -> Result<(), SessionError> {
        let mut write = std::pin::pin!(write);
        loop {
            let message = tokio::select! {
                message = receiver.next() => message?,
                ended = &mut write => {
                    ended?;
                    return Ok(());
                }
            };
            match message {
                None => return Ok(()),
                Some(StubMessage::Hello(_)) => return Err(SessionError::SecondHello),
                Some(StubMessage::Answer { number, answer }) => self.host.answered(number, answer),
                Some(StubMessage::Request { number, request }) => {
                    // While a request is carried out, its upcalls and their answers must move.
                    let carried_out = self.request(number, request);
                    tokio::select! {
                        () = carried_out => {}
                        ended = &mut write => {
                            ended?;
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    async fn request(&mut self, number: RequestNumber, request: HostRequest) {
        let done = |result: Result<(), Status>| result.map(|()| HostReply::Done);
        let reply = match request {
            HostRequest::RegisterNamespace {
                nspace,
                local,
                infos,
            } => done(self.jobs.describe(nspace, local, infos).await),
            HostRequest::DeregisterNamespace { nspace } => {
                self.jobs.remove(&nspace).await;
                Ok(HostReply::Done)
            }
            HostRequest::RegisterClient { proc, uid, gid } => {
                done(self.jobs.add_client(proc, UserIdentity { uid, gid }).await)
            }
            // The job's data name the proc as long as the job is registered.
            HostRequest::DeregisterClient { .. } => Ok(HostReply::Done),
            HostRequest::Modex { proc } => {
                self.modex(number, proc);
                return;
            }
            HostRequest::Notify { event } => done(self.notify(event)),
            HostRequest::DefineProcessSet { name, members } => {
                let defined = self.handle.define_process_set(name, members).await;
                match defined {
                    Some(Ok(())) => Ok(HostReply::Done),
                    Some(Err(error)) => {
                        tracing::warn!(host = ?self.host, %error, "process set not defined");
                        Err(code::PMIX_ERR_BAD_PARAM)
                    }
                    None => Err(code::PMIX_ERR_NOT_AVAILABLE),
                }
            }
            HostRequest::SetupApplication { .. } => Ok(HostReply::Infos(Vec::new())),
            HostRequest::CollectInventory { .. } => Ok(HostReply::Infos(Vec::new())),
            // Nothing needs to be prepared on a node, and nothing asks for what these name.
            HostRequest::SetupLocalSupport { .. }
            | HostRequest::DeliverInventory { .. }
            | HostRequest::RegisterResources { .. }
            | HostRequest::DeregisterResources { .. }
            | HostRequest::RegisterAttributes { .. } => Ok(HostReply::Done),
            HostRequest::DeleteProcessSet { .. } | HostRequest::ForwardOutput { .. } => {
                Err(code::PMIX_ERR_NOT_SUPPORTED)
            }
        };
        self.reply(number, reply);
    }

    fn reply(&self, number: RequestNumber, reply: Result<HostReply, Status>) {
        send(&self.outgoing, number, reply);
    }

    /// Answers when the proc has put values, which may take long.
    fn modex(&self, number: RequestNumber, proc: peal_model::Proc) {
        if !self.jobs.has(&proc.nspace) {
            self.reply(number, Err(code::PMIX_ERR_INVALID_NAMESPACE));
            return;
        }
        let handle = self.handle.clone();
        let outgoing = self.outgoing.clone();
        tokio::spawn(async move {
            let values = handle.modex(proc).await;
            send(&outgoing, number, values.map(HostReply::Data));
        });
    }

    /// Raises an event for the procs of this node.
    fn notify(&self, event: Event) -> Result<(), Status> {
        // Open MPI's daemons pass an event on to all nodes, that of its source too, where the procs have
        // heard it already.
        if event.infos.value_of(key::PMIX_EVENT_PROXY) == Some(&Value::Proc(self.host.name.clone()))
        {
            return Ok(());
        }
        let own = self.host.identity;
        let reach = if own.uid == 0 {
            UserScope::Everybody
        } else {
            UserScope::of(Some(own))
        };
        self.handle
            .distributed(Arc::new(event), reach, self.allowance);
        Ok(())
    }
}

fn send(
    outgoing: &mpsc::Sender<ServerMessage>,
    number: RequestNumber,
    reply: Result<HostReply, Status>,
) {
    if let Err(error) = outgoing.try_send(ServerMessage::Reply { number, reply }) {
        tracing::warn!(%error, "reply to host environment not sent");
    }
}
