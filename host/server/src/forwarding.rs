//! Forwarding of procs' output to the clients that have pulled it.
use crate::{actor::Actor, outbox::Outgoing};
use peal_model::Proc;
use peal_wire::IofOutput;

impl Actor {
    /// Queues output for a proc or tool, and drops it if half of the outbox is full. Output
    /// therefore never cuts a client off, and other messages wait behind little of it.
    pub(crate) fn forward(&mut self, to: &Proc, output: &IofOutput) {
        for peer in self.state.connections_of(to) {
            let Some(outbox) = self.outboxes.get(&peer) else {
                continue;
            };
            let outgoing = Outgoing::Output(Box::new(output.clone()));
            let bytes = outgoing.bytes();
            let is_room = outbox.writer.waiting().saturating_add(bytes) <= self.outbox_bytes / 2
                && outbox.is_half_empty()
                && !outbox.writer.share().is_half_used_with(bytes);
            if is_room {
                self.send(peer, outgoing);
            } else {
                self.metrics.counters().output_dropped.count();
            }
        }
    }
}
