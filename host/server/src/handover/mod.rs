//! Handover of a running server to another process. A suspended server becomes bytes and sockets, of which
//! the other process makes the server that goes on: with the same address, connections, jobs and events.
mod connections;
mod suspension;

pub(crate) use suspension::{SuspendedConnections, until};
pub use suspension::{SuspensionError, SuspensionLimits};

use crate::{
    actor::Actor,
    admin::SocketError,
    connection::{ConnectionContext, ServedConnection},
};
use connections::{ContinuedConnection, HandedConnection};
use peal_cluster::{HandedMembership, HandedMembershipError};
use peal_core::{
    MonotonicTime,
    job::JobSpec,
    server::{ServerState, StateSettings},
};
use peal_handover::{StateDecodeError, StateEncodeError, decode_state};
use peal_model::Proc;
use peal_store::{SpillIndex, SpillParts};
use peal_system::process::ProcessId;
use serde::{Deserialize, Serialize};
use std::{io, mem, net::TcpListener, os::fd::OwnedFd};
use thiserror::Error;

/// Newest form of the state. It grows when an older release could not continue from the state: a field that older
/// ones may ignore, and one that newer ones replace by a default, leave it as it is.
const FORM: u32 = 2;

/// Form of the state of a server in no cluster, which releases before form 2 continue, too.
const FORM_ALONE: u32 = 1;

/// Oldest form of the state that this release reads.
const OLDEST_FORM: u32 = 1;

/// Server that another process continues.
#[derive(Debug)]
pub struct HandedServer {
    /// State as bytes, in the form of [`FORM`].
    pub state: Vec<u8>,
    /// Descriptors: the socket that listens, those of the connections in their order, and the files of spilled
    /// events.
    pub descriptors: Vec<OwnedFd>,
}

/// Reason for which a server cannot be handed over or continued.
#[derive(Debug, Error)]
pub enum HandoverError {
    /// The state has a form that this release does not read.
    #[error(
        "the state has form {found}, this release reads {OLDEST_FORM} to {FORM}; upgrade by a release between them"
    )]
    Form {
        /// Form of the state.
        found: u32,
    },
    /// The state cannot be written.
    #[error("the state cannot be written: {0}")]
    Write(#[from] rmp_serde::encode::Error),
    /// The state machine cannot be written.
    #[error(transparent)]
    EncodeState(#[from] StateEncodeError),
    /// The state machine cannot be read.
    #[error(transparent)]
    DecodeState(#[from] StateDecodeError),
    /// The state cannot be read.
    #[error("the state cannot be read: {0}")]
    Read(#[from] rmp_serde::decode::Error),
    /// A connection is encoded in a way that this release does not know.
    #[error("the connection of {proc} cannot be continued: {why}")]
    Connection {
        /// Proc at the other end.
        proc: Proc,
        /// Reason.
        why: String,
    },
    /// A message of a stub cannot be handed over.
    #[error("a connection of a launcher cannot be continued: {why}")]
    Stub {
        /// Reason.
        why: String,
    },
    /// The place in the cluster cannot be handed over.
    #[error(transparent)]
    Membership(#[from] HandedMembershipError),
    /// The socket for stubs cannot be created.
    #[error(transparent)]
    StubSocket(#[from] SocketError),
    /// The number of descriptors is not that of the state.
    #[error("{found} descriptors came with a state that has {wanted}")]
    Descriptors {
        /// Number of descriptors.
        found: usize,
        /// Number that the state has.
        wanted: usize,
    },
    /// A socket cannot be used.
    #[error("a socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}

/// First part of a state, which every release can read.
#[derive(Serialize, Deserialize)]
struct StateForm {
    form: u32,
}

/// State of a server.
#[derive(Serialize, Deserialize)]
pub(crate) struct ServerSnapshot {
    form: u32,
    /// Name of the server.
    pub(crate) me: Proc,
    /// Time of the state machine.
    pub(crate) clock: MonotonicTime,
    /// State machine, as [`peal_handover::encode_state`] returns it.
    #[serde(with = "serde_bytes")]
    pub(crate) state: Vec<u8>,
    pub(crate) connections: Vec<HandedConnection>,
    /// Positions of spilled events, if there is a spill.
    pub(crate) spill: Option<SpillIndex>,
    /// Processes that are watched, some without a connection.
    pub(crate) watched: Vec<WatchedProcess>,
    /// Number of names that tools were given.
    pub(crate) tools_named: u64,
    /// Number of events that have entered the chains.
    pub(crate) events_numbered: u64,
    /// Place of the server in its cluster, if it is in one.
    #[serde(default)]
    pub(crate) membership: Option<HandedMembership>,
}

/// Process of a proc that another launcher has started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct WatchedProcess {
    pub(crate) proc: Proc,
    pub(crate) pid: u32,
    /// Identity, unless the process has ended.
    pub(crate) id: Option<ProcessId>,
}

/// Server of another process that this one continues.
pub struct ContinuedServer {
    snapshot: ServerSnapshot,
    state: ServerState,
    listener: TcpListener,
    /// Sockets of the connections, in their order.
    sockets: Vec<OwnedFd>,
    /// Files of spilled events.
    spill_files: Vec<OwnedFd>,
}

/// Parts of a continued server that are needed when its state has become that of this process.
#[derive(Default)]
pub(crate) struct BegunServer {
    pub(crate) clock: MonotonicTime,
    pub(crate) tools_named: u64,
    pub(crate) events_numbered: u64,
    connections: Vec<HandedConnection>,
    sockets: Vec<OwnedFd>,
    pub(crate) spill: Option<SpillParts>,
    watched: Vec<WatchedProcess>,
}

/// Server that starts: its own or a continued one.
pub(crate) struct StartingServer {
    pub(crate) me: Proc,
    pub(crate) listener: TcpListener,
    pub(crate) state: ServerState,
    pub(crate) begun: BegunServer,
}

impl ContinuedServer {
    /// Reads a handed server. Nothing changes if that fails.
    ///
    /// # Errors
    ///
    /// Fails if this release cannot read the state.
    pub fn read(handed: HandedServer) -> Result<ContinuedServer, HandoverError> {
        let HandedServer { state, descriptors } = handed;
        let StateForm { form } = rmp_serde::from_slice(&state)?;
        if !(OLDEST_FORM..=FORM).contains(&form) {
            return Err(HandoverError::Form { found: form });
        }
        let mut snapshot: ServerSnapshot = rmp_serde::from_slice(&state)?;
        let state = decode_state(&mem::take(&mut snapshot.state))?;
        for connection in &snapshot.connections {
            connection.check()?;
        }
        let files = snapshot.spill.as_ref().map_or(0, SpillIndex::files);
        let wanted = 1 + snapshot.connections.len() + files;
        let found = descriptors.len();
        let mut descriptors = descriptors.into_iter();
        match descriptors.next() {
            Some(listener) if found == wanted => Ok(ContinuedServer {
                sockets: descriptors
                    .by_ref()
                    .take(snapshot.connections.len())
                    .collect(),
                snapshot,
                state,
                listener: listener.into(),
                spill_files: descriptors.collect(),
            }),
            _ => Err(HandoverError::Descriptors { found, wanted }),
        }
    }

    /// Returns the place of the server in its cluster, if it is in one.
    pub fn membership(&self) -> Option<&HandedMembership> {
        self.snapshot.membership.as_ref()
    }

    /// Returns the registered jobs.
    pub fn jobs(&self) -> Vec<JobSpec> {
        self.state.jobs().map(|job| job.spec).collect()
    }

    /// Goes on with these settings.
    pub(crate) fn starting(self, settings: StateSettings) -> StartingServer {
        let ServerSnapshot {
            me,
            clock,
            connections,
            spill,
            watched,
            tools_named,
            events_numbered,
            ..
        } = self.snapshot;
        StartingServer {
            me,
            listener: self.listener,
            state: self.state.continued(settings),
            begun: BegunServer {
                clock,
                tools_named,
                events_numbered,
                connections,
                sockets: self.sockets,
                spill: spill.map(|index| SpillParts {
                    index,
                    files: self.spill_files,
                }),
                watched,
            },
        }
    }
}

impl BegunServer {
    /// Makes the connections that go on. Their messages wait until they are served.
    ///
    /// # Errors
    ///
    /// Fails if a socket cannot be used.
    pub(crate) fn go_on(
        self,
        context: &ConnectionContext,
    ) -> Result<Vec<ServedConnection>, HandoverError> {
        for watched in &self.watched {
            context.processes.continue_watch(watched);
            if watched.id.is_some_and(ProcessId::is_there) {
                context.host.process_found(&watched.proc, watched.pid);
            }
        }
        let mut connections = Vec::new();
        for (handed, socket) in self.connections.into_iter().zip(self.sockets) {
            let ContinuedConnection { outbox, connection } = handed.continued(socket, context)?;
            let peer = connection.peer;
            let inserted = context
                .shared_actor
                .with_actor(|actor| actor.outboxes.insert(peer, outbox));
            inserted.map_err(|_| HandoverError::Stopped)?;
            connections.push(connection);
        }
        let answers = Actor::process_continued_answers;
        let processed = context.shared_actor.with_actor(answers);
        processed.map_err(|_| HandoverError::Stopped)?;
        Ok(connections)
    }
}
