//! Connections of stubs as bytes and descriptors, with which another process of the server goes on.
use super::{
    host_router::HostRouter,
    registered_jobs::HandedJobs,
    remote_host::{HandedHostEnvironment, RemoteHost},
    service::{MessageQueue, StubConnection, StubSettings},
    transfer::TransferError,
};
use crate::handover::HandoverError;
use peal_model::Proc;
use peal_stub::{CodecError, FrameLimit, RequestNumber, StubMessage, encode};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Stubs of a server that another process continues.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HandedStubs {
    /// Number of names that host environments were given.
    named: u64,
    /// Path of the socket on which the server listens, if it does.
    listens_at: Option<PathBuf>,
    connections: Vec<HandedStub>,
}

/// Connection of a stub.
#[derive(Debug, Serialize, Deserialize)]
struct HandedStub {
    /// Messages that were received and not executed.
    #[serde(with = "serde_bytes")]
    received: Vec<u8>,
    /// Bytes that are to be sent.
    #[serde(with = "serde_bytes")]
    unsent: Vec<u8>,
    /// Session of a stub that was admitted.
    session: Option<HandedSession>,
    /// Descriptors that follow that of the connection.
    further: Vec<StubDescriptor>,
}

/// Session of an admitted stub.
#[derive(Debug, Serialize, Deserialize)]
struct HandedSession {
    host: HandedHostEnvironment,
    jobs: HandedJobs,
    /// Requests for values that are not answered.
    values_requests: BTreeMap<RequestNumber, Proc>,
}

/// Kind of a further descriptor of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum StubDescriptor {
    /// Socket of the messages of forked procs.
    Forks,
    /// Process of the host environment.
    Process,
}

/// Stubs with their descriptors, in the order of the connections.
#[derive(Debug)]
pub struct StubHandover {
    /// Stubs.
    pub stubs: HandedStubs,
    /// Descriptors: that of the listening socket, and those of each connection.
    pub descriptors: Vec<OwnedFd>,
}

impl HandedStubs {
    pub(super) fn new(named: u64, listens_at: Option<PathBuf>) -> HandedStubs {
        HandedStubs {
            named,
            listens_at,
            connections: Vec::new(),
        }
    }

    /// Returns the number of descriptors that belong to the stubs.
    pub fn descriptors(&self) -> usize {
        let of = |connection: &HandedStub| 1 + connection.further.len();
        let connections: usize = self.connections.iter().map(of).sum();
        connections + usize::from(self.listens_at.is_some())
    }
}

impl StubHandover {
    /// Adds a suspended connection.
    pub(super) fn add(&mut self, connection: &mut StubConnection) -> Result<(), HandoverError> {
        let mut received = Vec::new();
        let mut further = Vec::new();
        let limit = FrameLimit::default();
        let (handed, socket, forks, process) = match connection {
            StubConnection::Greeting(greeting) => {
                if let Some(hello) = &greeting.hello {
                    received.extend(encode(&StubMessage::Hello(hello.clone()), limit)?);
                }
                received.extend(greeting.receiver.undecoded());
                let forks = greeting.receiver.descriptor();
                (None, &greeting.socket, forks, &greeting.process)
            }
            StubConnection::Session(session) => {
                session.collect_waiting()?;
                let executor = &session.executor;
                for (number, answer) in executor.host.held_answers() {
                    received.extend(encode(&StubMessage::Answer { number, answer }, limit)?);
                }
                for waiting in &executor.early {
                    let request = StubMessage::Request {
                        number: waiting.number,
                        request: waiting.request.clone(),
                    };
                    received.extend(encode(&request, limit)?);
                }
                received.extend(session.reader.undecoded());
                let handed = HandedSession {
                    host: executor.host.handed(),
                    jobs: executor.jobs.handed(),
                    values_requests: executor.host.open_values_requests(),
                };
                let unsent = session.writer.sender.unsent().to_vec();
                let socket = session.writer.sender.socket();
                (
                    Some((handed, unsent)),
                    socket,
                    session.forks.as_ref(),
                    &session.process,
                )
            }
        };
        let copied = rustix::io::fcntl_dupfd_cloexec(socket.as_fd(), 0);
        self.descriptors.push(copied.map_err(std::io::Error::from)?);
        let kinds = [
            (StubDescriptor::Forks, forks),
            (StubDescriptor::Process, process.as_ref()),
        ];
        for (kind, descriptor) in kinds {
            if let Some(descriptor) = descriptor {
                further.push(kind);
                self.descriptors.push(descriptor.try_clone()?);
            }
        }
        let (session, unsent) = handed.unzip();
        self.stubs.connections.push(HandedStub {
            received,
            unsent: unsent.unwrap_or_default(),
            session,
            further,
        });
        Ok(())
    }
}

/// Stubs of another process with which this one goes on.
#[derive(Debug, Default)]
pub struct ContinuedStubs {
    stubs: HandedStubs,
    descriptors: Vec<OwnedFd>,
}

/// Continued stubs whose host environments the router has, so that upcalls to them wait.
#[derive(Default)]
pub struct EnteredStubs {
    pub(super) named: u64,
    /// Socket that listens, with its path.
    pub(super) listener: Option<InheritedListener>,
    pub(super) connections: Vec<EnteredStub>,
}

/// Listening socket of another process.
pub(super) struct InheritedListener {
    pub(super) path: PathBuf,
    pub(super) socket: OwnedFd,
}

/// Continued connection.
pub(super) struct EnteredStub {
    pub(super) socket: OwnedFd,
    pub(super) process: Option<OwnedFd>,
    pub(super) forks: Option<OwnedFd>,
    pub(super) received: Vec<u8>,
    pub(super) unsent: Vec<u8>,
    pub(super) session: Option<EnteredSession>,
}

/// Continued session.
pub(super) struct EnteredSession {
    pub(super) host: Arc<RemoteHost>,
    pub(super) queue: MessageQueue,
    pub(super) jobs: HandedJobs,
    pub(super) values_requests: BTreeMap<RequestNumber, Proc>,
}

impl ContinuedStubs {
    /// Returns the path at which the server listens for stubs, if it does.
    pub fn listens_at(&self) -> Option<&Path> {
        self.stubs.listens_at.as_deref()
    }

    /// Reads handed stubs.
    ///
    /// # Errors
    ///
    /// Fails if the number of descriptors is not that of the stubs.
    pub fn read(
        stubs: HandedStubs,
        descriptors: Vec<OwnedFd>,
    ) -> Result<ContinuedStubs, HandoverError> {
        let (found, wanted) = (descriptors.len(), stubs.descriptors());
        if found != wanted {
            return Err(HandoverError::Descriptors { found, wanted });
        }
        Ok(ContinuedStubs { stubs, descriptors })
    }

    /// Enters the host environments into the router, before the server has connections.
    ///
    /// # Errors
    ///
    /// Fails if descriptors are missing.
    pub fn enter(
        self,
        router: &HostRouter,
        settings: &StubSettings,
    ) -> Result<EnteredStubs, HandoverError> {
        let ContinuedStubs { stubs, descriptors } = self;
        let (found, wanted) = (descriptors.len(), stubs.descriptors());
        let mut descriptors = descriptors.into_iter();
        let mut next = || {
            let missing = HandoverError::Descriptors { found, wanted };
            descriptors.next().ok_or(missing)
        };
        let listener = match stubs.listens_at {
            Some(path) => Some(InheritedListener {
                path,
                socket: next()?,
            }),
            None => None,
        };
        let mut connections = Vec::new();
        for handed in stubs.connections {
            let mut connection = EnteredStub {
                socket: next()?,
                process: None,
                forks: None,
                received: handed.received,
                unsent: handed.unsent,
                session: None,
            };
            for kind in handed.further {
                let place = match kind {
                    StubDescriptor::Forks => &mut connection.forks,
                    StubDescriptor::Process => &mut connection.process,
                };
                *place = Some(next()?);
            }
            connection.session = handed.session.map(|session| {
                let queue = settings.queue();
                let outgoing = queue.outgoing.clone();
                let limits = settings.upcall_limits();
                let host = Arc::new(RemoteHost::continued(session.host, outgoing, limits));
                router.host_connected(host.clone());
                router.continue_jobs(&host, &session.jobs.added);
                EnteredSession {
                    host,
                    queue,
                    jobs: session.jobs,
                    values_requests: session.values_requests,
                }
            });
            connections.push(connection);
        }
        Ok(EnteredStubs {
            named: stubs.named,
            listener,
            connections,
        })
    }
}

impl From<TransferError> for HandoverError {
    fn from(error: TransferError) -> HandoverError {
        HandoverError::Stub {
            why: error.to_string(),
        }
    }
}

impl From<CodecError> for HandoverError {
    fn from(error: CodecError) -> HandoverError {
        TransferError::from(error).into()
    }
}
