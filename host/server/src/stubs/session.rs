//! Connection of one stub: its requests, in order, and its answers to upcalls.
use super::{
    host_router::{DeliveredOutput, HostRouter},
    registered_jobs::RegisteredJobs,
    remote_host::RemoteHost,
    transfer::{MessageReceiver, TransferError},
};
use crate::{
    handle::ServerHandle,
    process_watch::{LINGER, end_of},
};
use peal_core::{server::EventBudget, user_scope::UserScope};
use peal_model::{Event, Infos, IofChannel, Status, UserIdentity, Value, code, key};
use peal_stub::{HostReply, HostRequest, RequestNumber, ServerMessage, StubMessage, StubRefusal};
use std::{future::Future, io, os::fd::OwnedFd, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{sync::mpsc, time::sleep};

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
    pub(super) router: Arc<HostRouter>,
    pub(super) host: Arc<RemoteHost>,
    pub(super) jobs: RegisteredJobs,
    pub(super) outgoing: mpsc::Sender<ServerMessage>,
    /// Number of events that handlers may raise in response to an event of the host environment.
    pub(super) allowance: EventBudget,
    /// Number of requests that wait for earlier ones. Further ones are not read.
    pub(super) max_waiting: usize,
    /// Process of the host environment, if it can be watched.
    pub(super) process: Option<OwnedFd>,
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
        self.router.host_ended(&self.host);
        served
    }

    async fn serve(
        &mut self,
        receiver: MessageReceiver,
        write: impl Future<Output = Result<(), TransferError>>,
    ) -> Result<(), SessionError> {
        let process = self.process.take();
        let (pass, mut requests) = mpsc::channel(self.max_waiting);
        let read = read_all(receiver, self.host.clone(), pass);
        let carry_out = async {
            while let Some(NumberedRequest { number, request }) = requests.recv().await {
                self.request(number, request).await;
            }
        };
        let served = async {
            let (read, ()) = tokio::join!(read, carry_out);
            read
        };
        tokio::select! {
            served = served => served,
            ended = write => Ok(ended?),
            () = process_ended(process) => Ok(()),
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
            HostRequest::RegisterResources { infos } => done(self.jobs.add_resources(infos)),
            HostRequest::DeregisterResources { infos } => {
                self.jobs.remove_resources(&infos);
                Ok(HostReply::Done)
            }
            // Nothing asks for what this names.
            HostRequest::RegisterAttributes { .. } => Ok(HostReply::Done),
            HostRequest::DeleteProcessSet { name } => {
                // One that does not exist is no error, as in the C library.
                let jobs = self.jobs.names();
                self.handle.delete_process_set(name, jobs).await;
                Ok(HostReply::Done)
            }
            HostRequest::ForwardOutput {
                source,
                channel,
                data,
                infos,
            } => {
                let output = DeliveredOutput {
                    source,
                    channels: channel,
                    data,
                    infos,
                };
                self.deliver(output).await.map(|()| HostReply::Done)
            }
        };
        self.reply(number, reply);
    }

    /// Passes output of a proc, or of the host environment itself, to those that pull it.
    async fn deliver(&self, output: DeliveredOutput) -> Result<(), Status> {
        if output.channels.0 & IofChannel::STDIN.0 != 0 {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // Nobody can pull from a job that is not registered, and other launchers deliver the output of
        // theirs.
        let is_own = output.source.nspace == self.host.name.nspace;
        if is_own || self.jobs.has(&output.source.nspace) {
            self.router.deliver(&self.handle, output).await;
        } else {
            tracing::debug!(source = %output.source, "output dropped: job not registered");
        }
        Ok(())
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

/// Waits for the end of the host environment's process. A child of it may keep the connection open.
async fn process_ended(process: Option<OwnedFd>) {
    if let Some(process) = process {
        match end_of(process).await {
            Ok(()) => return sleep(LINGER).await,
            Err(error) => tracing::warn!(%error, "process of host environment not watched"),
        }
    }
    std::future::pending().await
}

/// Request that has not been carried out.
#[derive(Debug)]
struct NumberedRequest {
    number: RequestNumber,
    request: HostRequest,
}

/// Reads messages until the stream ends. Requests wait for the earlier ones; answers do not, since a
/// request may wait for an upcall whose answer comes behind it.
async fn read_all(
    mut receiver: MessageReceiver,
    host: Arc<RemoteHost>,
    pass: mpsc::Sender<NumberedRequest>,
) -> Result<(), SessionError> {
    while let Some(message) = receiver.next().await? {
        match message {
            StubMessage::Hello(_) => return Err(SessionError::SecondHello),
            StubMessage::Answer { number, answer } => host.answered(number, answer),
            StubMessage::Request { number, request } => {
                let request = NumberedRequest { number, request };
                if pass.send(request).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::remote_host::UpcallLimits;
    use peal_model::{Nspace, Proc, Rank};
    use peal_stub::{FrameLimit, HostUpcall, StubSocket, UpcallKind, UpcallResult, encode};
    use tokio::{io::AsyncWriteExt, net::UnixStream};

    #[tokio::test]
    async fn answer_behind_unfinished_requests_is_read() {
        let (mut stub, server) = UnixStream::pair().unwrap();
        let socket = StubSocket::new(server.into_std().unwrap()).unwrap();
        let receiver = MessageReceiver::new(Arc::new(socket), FrameLimit::default());
        let name = Proc::new(Nspace::new("host").unwrap(), Rank(0));
        let identity = UserIdentity { uid: 0, gid: 0 };
        let (outgoing, mut sent) = mpsc::channel(8);
        let limits = UpcallLimits {
            timeout: Duration::from_secs(60),
            open: 8,
        };
        let offered = vec![UpcallKind::Query];
        let host = RemoteHost::new(name.clone(), identity, offered, outgoing, limits);
        let host = Arc::new(host);
        let (pass, mut requests) = mpsc::channel(8);
        let stub_side = async {
            let Some(ServerMessage::Upcall { number, .. }) = sent.recv().await else {
                panic!("an upcall should be sent")
            };
            let proc = name.clone();
            let messages = [
                StubMessage::Request {
                    number: RequestNumber(1),
                    request: HostRequest::Modex { proc },
                },
                StubMessage::Answer {
                    number,
                    answer: Ok(UpcallResult::Done),
                },
            ];
            for message in messages {
                let frame = encode(&message, FrameLimit::default()).unwrap();
                stub.write_all(&frame).await.unwrap();
            }
        };
        let query = HostUpcall::Query {
            source: name.clone(),
            queries: Vec::new(),
        };
        let read = tokio::spawn(read_all(receiver, host.clone(), pass));
        let (answer, ()) = tokio::join!(host.call(query), stub_side);
        assert_eq!(answer, Ok(UpcallResult::Done));
        assert_eq!(requests.try_recv().unwrap().number, RequestNumber(1));
        drop(stub);
        read.await.unwrap().unwrap();
    }
}
