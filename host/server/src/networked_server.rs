//! The server as the network of servers sees it, and messages of other servers that are refused.
use crate::{
    handle::{ActorMessage, ServerHandle},
    metrics::Metrics,
};
use peal_audit::{AdmissionDenial, AuditTrail};
use peal_cluster::{JoinedServer, RefusedSender, ServerKind};
use peal_core::{group::ServerId, server::InterServerMessage};
use peal_store::TraceRateLimit;
use std::{sync::Arc, time::Instant};

/// Messages of other servers that are refused: each is counted, recorded and traced. The trail counts repeated
/// ones of a sender as one group.
pub(crate) struct RefusedMessages {
    pub(crate) audit: Option<AuditTrail>,
    pub(crate) metrics: Arc<Metrics>,
    /// Limit of the log lines, since a server may cause any number of them.
    pub(crate) lines: TraceRateLimit,
}

impl RefusedMessages {
    pub(crate) fn refuse(&self, from: &RefusedSender, reason: &str) {
        self.metrics.counters().server_messages_refused.count();
        if let Some(audit) = &self.audit {
            audit.refuse(AdmissionDenial {
                reason: reason.to_owned(),
                from: Some(from.to_string()),
                cause: Some(format!("message of {from}")),
                ..AdmissionDenial::default()
            });
        }
        match self.lines.allow(Instant::now()) {
            Some(left_out) => {
                tracing::warn!(%from, reason, left_out, "message of another server refused");
            }
            None => tracing::debug!(%from, reason, "message of another server refused"),
        }
    }
}

/// A server as its network reaches it.
pub(crate) struct NetworkedServer {
    pub(crate) handle: ServerHandle,
    pub(crate) refused: Arc<RefusedMessages>,
}

impl JoinedServer for NetworkedServer {
    fn enroll(&self, id: ServerId) {
        self.handle.send(ActorMessage::Enrolled(id));
    }

    fn server_joined(&self, id: ServerId, kind: ServerKind) {
        self.handle.send(ActorMessage::ServerJoined(id, kind));
    }

    fn server_left(&self, id: ServerId) {
        self.handle.send(ActorMessage::ServerLeft(id));
    }

    fn server_message(
        &self,
        from: ServerId,
        message: InterServerMessage,
    ) -> Result<(), Box<InterServerMessage>> {
        match self.handle.inbox.reserve(from, message.bytes()) {
            Some(charge) => {
                self.handle.send(ActorMessage::Server {
                    from,
                    message,
                    charge,
                });
                Ok(())
            }
            None => Err(Box::new(message)),
        }
    }

    fn last_message(&self, from: ServerId, message: InterServerMessage) {
        let charge = self.handle.inbox.charge(from, message.bytes());
        self.handle.send(ActorMessage::Server {
            from,
            message,
            charge,
        });
    }

    fn message_refused(&self, from: RefusedSender, reason: &str) {
        self.refused.refuse(&from, reason);
    }

    fn max_server_inbox_bytes(&self) -> usize {
        self.handle.inbox.limits().server
    }
}
