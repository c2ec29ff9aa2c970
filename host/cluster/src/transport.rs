//! Interfaces between a server and the network on which it meets others.
use crate::{HandedMembership, HandedMembershipError};
use peal_core::{group::ServerId, server::InterServerMessage, user_scope::UserScope};
use peal_model::{Event, NodeName};
use serde::{Deserialize, Serialize};
use std::{fmt, pin::Pin, sync::Arc};

/// Service of a server for the others.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ServerKind {
    /// No service.
    #[default]
    Node,
    /// Writing to log channels that the others do not have (`PMIX_SERVER_GATEWAY`).
    Gateway,
}

impl ServerKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Node => "node",
            ServerKind::Gateway => "gateway",
        }
    }
}

/// Sender of a message that was refused, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusedSender {
    /// The server of a node, whose key the message was sent with.
    Node(NodeName),
    /// A server whose node is not known.
    Server(ServerId),
    /// Some server of the cluster.
    Unknown,
}

impl fmt::Display for RefusedSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusedSender::Node(node) => write!(f, "node {node}"),
            RefusedSender::Server(id) => write!(f, "server {}", id.0),
            RefusedSender::Unknown => f.write_str("another server"),
        }
    }
}

/// End of a leave.
pub type LeaveFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Network on which servers meet.
pub trait ServerNetwork: Send + Sync + 'static {
    /// Joins a server. It is told its number, and the other servers, in time: [`JoinedServer::enroll`]
    /// may be called before this function returns, or much later.
    fn join(&self, server: Arc<dyn JoinedServer>, kind: ServerKind) -> Arc<dyn ServerTransport>;
}

/// Connection of one server to the others. Before the server is enrolled there are no others.
pub trait ServerTransport: Send + Sync + 'static {
    /// Distributes an event to the other servers. `reach` are the users whose procs may receive it.
    fn distribute(&self, event: Arc<Event>, reach: UserScope);

    /// Sends a message to another server. Messages of one server to another arrive in order, events
    /// included. A message for which the receiver has no room waits at the sender. Messages to a
    /// server that has left are dropped.
    fn send(&self, to: ServerId, message: InterServerMessage);

    /// Tells that this server has room again for messages of another one.
    fn room(&self, of: ServerId);

    /// Returns another server as the sender of a refused message, with its node if that is known.
    fn sender(&self, server: ServerId) -> RefusedSender;

    /// Leaves the network. The others have learned that when the future ends; it need not be polled.
    fn leave(&self) -> LeaveFuture;

    /// Passes nothing more on to the server, until [`ServerTransport::release`].
    fn hold(&self) {}

    /// Passes on what has come meanwhile, and further messages.
    fn release(&self) {}

    /// Returns the place of the server on the network, which passes nothing on, for another process of the server.
    /// Networks within one process have none.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be encoded.
    fn handed(&self) -> Result<Option<HandedMembership>, HandedMembershipError> {
        Ok(None)
    }
}

/// A server as its network sees it.
pub trait JoinedServer: Send + Sync + 'static {
    /// Gives the server its number. A server that had another one was removed by the others: all that
    /// it knew have been reported as left before. Numbers of later calls are greater.
    fn enroll(&self, id: ServerId);

    /// Reports another server. After an enrollment those that are there are reported by ascending
    /// numbers.
    fn server_joined(&self, id: ServerId, kind: ServerKind);

    /// Reports that another server has left. Its last message was passed on before.
    fn server_left(&self, id: ServerId);

    /// Passes on a message of another server.
    ///
    /// # Errors
    ///
    /// Returns the message if there is no room for it. The server then calls
    /// [`ServerTransport::room`] when there is some.
    fn server_message(
        &self,
        from: ServerId,
        message: InterServerMessage,
    ) -> Result<(), Box<InterServerMessage>>;

    /// Passes on one of the last messages of a server that is about to leave, in any case.
    fn last_message(&self, from: ServerId, message: InterServerMessage);

    /// Reports something that another server sent and the network refused, with the reason.
    fn message_refused(&self, from: RefusedSender, reason: &str);

    /// Returns the maximum bytes of the messages of one other server that wait here.
    fn max_server_inbox_bytes(&self) -> usize;
}
