//! Connection of one stub: its requests, in order, and its answers to upcalls.
use super::{
    fork_messages,
    host_router::{DeliveredOutput, HostRouter},
    registered_jobs::RegisteredJobs,
    remote_host::RemoteHost,
    service::StubPlace,
    suspension::StubPhases,
    transfer::{MessageReceiver, MessageSender, TransferError},
};
use crate::{
    handle::ServerHandle,
    process_watch::{LINGER, end_of},
};
use peal_core::{server::EventBudget, user_scope::UserScope};
use peal_model::{Event, Infos, IofChannel, Proc, Status, UserIdentity, Value, code, key};
use peal_stub::{HostReply, HostRequest, RequestNumber, ServerMessage, StubMessage, StubRefusal};
use std::{collections::VecDeque, io, os::fd::OwnedFd, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{
    sync::{RwLock, mpsc},
    task::JoinSet,
    time::sleep,
};

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
    pub(super) reader: RequestReader,
    pub(super) writer: MessageWriter,
    pub(super) executor: RequestExecutor,
    /// Process of the host environment, if it can be watched.
    pub(super) process: Option<OwnedFd>,
    /// Socket of the messages of forked procs, if there is one.
    pub(super) forks: Option<OwnedFd>,
    #[expect(dead_code, reason = "its drop ends the count of the connection")]
    pub(super) place: StubPlace,
}

/// End of the service of a connection.
pub(super) enum SessionEnd {
    /// The connection has ended, and its jobs were removed.
    Ended(Result<(), SessionError>),
    /// The server is suspended.
    Suspended(Box<Session>),
}

impl Session {
    /// Serves the stub until its connection ends, and removes its jobs; or until the server is suspended.
    pub(super) async fn run(mut self: Box<Self>, phases: &mut StubPhases) -> SessionEnd {
        let served = tokio::select! {
            served = self.serve() => served,
            () = phases.suspended() => return SessionEnd::Suspended(self),
        };
        let turns = self.executor.turns.clone();
        tokio::select! {
            _turn = turns.read() => {
                self.executor.jobs.remove_all().await;
                self.executor.router.host_ended(&self.executor.host);
                self.executor.host.end();
                SessionEnd::Ended(served)
            }
            // The process that goes on finds the same end.
            () = phases.suspended() => SessionEnd::Suspended(self),
        }
    }

    /// Serves the stub until its connection ends. Cancelling the future while no turn is under way loses nothing.
    async fn serve(&mut self) -> Result<(), SessionError> {
        let Session {
            reader,
            writer,
            executor,
            process,
            forks,
            ..
        } = self;
        let process = process.as_ref().map(OwnedFd::try_clone).transpose()?;
        let host = executor.host.clone();
        // Ends with this future.
        let mut followed = JoinSet::new();
        if let Some(forks) = forks {
            followed.spawn(fork_messages::follow(
                forks.try_clone()?,
                executor.jobs.users(),
                executor.handle.clone(),
                executor.turns.clone(),
            ));
        }
        let served = async {
            let (read, ()) = tokio::join!(reader.read_all(&host), executor.execute_all());
            read
        };
        tokio::select! {
            served = served => served,
            ended = writer.write_all() => Ok(ended?),
            () = process_ended(process) => Ok(()),
        }
    }

    /// Puts the messages that wait where [`RequestExecutor::early`] and [`MessageWriter::sender`] have them.
    pub(super) fn collect_waiting(&mut self) -> Result<(), TransferError> {
        let Session {
            reader,
            writer,
            executor,
            ..
        } = self;
        while let Ok(request) = executor.requests.try_recv() {
            executor.early.push_back(request);
        }
        executor.early.extend(reader.unpassed.take());
        while let Ok(message) = writer.queue.try_recv() {
            writer.sender.add(&message)?;
        }
        Ok(())
    }
}

/// Receiving end of a connection. Requests wait for the earlier ones; answers do not, since a request may wait
/// for an upcall whose answer comes behind it.
pub(super) struct RequestReader {
    receiver: MessageReceiver,
    /// Queue of the requests; none after the last one.
    pass: Option<mpsc::Sender<NumberedRequest>>,
    /// Request for which the queue had no room.
    unpassed: Option<NumberedRequest>,
}

impl RequestReader {
    /// Creates the receiving end, and the queue of its requests, of which this number wait.
    pub(super) fn new(
        receiver: MessageReceiver,
        max_waiting: usize,
    ) -> (RequestReader, mpsc::Receiver<NumberedRequest>) {
        let (pass, requests) = mpsc::channel(max_waiting);
        let reader = RequestReader {
            receiver,
            pass: Some(pass),
            unpassed: None,
        };
        (reader, requests)
    }

    /// Returns the bytes that were received and not decoded.
    pub(super) fn undecoded(&self) -> &[u8] {
        self.receiver.undecoded()
    }

    /// Reads messages until the stream ends. Cancelling the future loses nothing.
    async fn read_all(&mut self, host: &RemoteHost) -> Result<(), SessionError> {
        let read = self.read_some(host).await;
        // The requests that wait are carried out.
        self.pass = None;
        read
    }

    async fn read_some(&mut self, host: &RemoteHost) -> Result<(), SessionError> {
        let Some(pass) = &self.pass else {
            return Ok(());
        };
        loop {
            if self.unpassed.is_some() {
                let Ok(place) = pass.reserve().await else {
                    return Ok(());
                };
                if let Some(request) = self.unpassed.take() {
                    place.send(request);
                }
            }
            match self.receiver.next().await? {
                None => return Ok(()),
                Some(StubMessage::Hello(_)) => return Err(SessionError::SecondHello),
                Some(StubMessage::Answer { number, answer }) => host.answered(number, answer),
                Some(StubMessage::Request { number, request }) => {
                    self.unpassed = Some(NumberedRequest { number, request });
                }
            }
        }
    }
}

/// Sending end of a connection.
pub(super) struct MessageWriter {
    pub(super) sender: MessageSender,
    pub(super) queue: mpsc::Receiver<ServerMessage>,
}

impl MessageWriter {
    /// Sends the queued messages until the queue ends. Cancelling the future loses nothing.
    async fn write_all(&mut self) -> Result<(), TransferError> {
        loop {
            self.sender.flush().await?;
            match self.queue.recv().await {
                Some(message) => self.sender.add(&message)?,
                None => return Ok(()),
            }
        }
    }
}

/// Executor of the requests of a connection.
pub(super) struct RequestExecutor {
    pub(super) handle: ServerHandle,
    pub(super) router: Arc<HostRouter>,
    pub(super) host: Arc<RemoteHost>,
    pub(super) jobs: RegisteredJobs,
    pub(super) outgoing: mpsc::Sender<ServerMessage>,
    /// Number of events that handlers may raise in response to an event of the host environment.
    pub(super) allowance: EventBudget,
    /// Lock that is held while a request is executed. A suspension waits for it.
    pub(super) turns: Arc<RwLock<()>>,
    pub(super) requests: mpsc::Receiver<NumberedRequest>,
    /// Requests that come before those of the queue.
    pub(super) early: VecDeque<NumberedRequest>,
}

impl RequestExecutor {
    /// Executes requests until there are no further ones. Cancelling the future while no turn is under way loses
    /// nothing.
    async fn execute_all(&mut self) {
        let turns = self.turns.clone();
        loop {
            if self.early.is_empty() {
                match self.requests.recv().await {
                    Some(request) => self.early.push_back(request),
                    None => return,
                }
            }
            let _turn = turns.read().await;
            if let Some(NumberedRequest { number, request }) = self.early.pop_front() {
                self.request(number, request).await;
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
    pub(super) fn modex(&self, number: RequestNumber, proc: Proc) {
        if !self.jobs.has(&proc.nspace) {
            self.reply(number, Err(code::PMIX_ERR_INVALID_NAMESPACE));
            return;
        }
        let handle = self.handle.clone();
        let outgoing = self.outgoing.clone();
        let host = self.host.clone();
        host.values_request(number, proc.clone());
        tokio::spawn(async move {
            let values = handle.modex(proc).await;
            send(&outgoing, number, values.map(HostReply::Data));
            host.values_sent(number);
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
pub(super) struct NumberedRequest {
    pub(super) number: RequestNumber,
    pub(super) request: HostRequest,
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
        let (mut reader, mut requests) = RequestReader::new(receiver, 8);
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
        let answering = host.clone();
        let read = tokio::spawn(async move { reader.read_all(&answering).await });
        let (answer, ()) = tokio::join!(host.call(query), stub_side);
        assert_eq!(answer, Ok(UpcallResult::Done));
        assert_eq!(requests.try_recv().unwrap().number, RequestNumber(1));
        drop(stub);
        read.await.unwrap().unwrap();
    }
}
