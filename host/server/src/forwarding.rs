//! Output of procs on its way to who wants it.
use crate::{actor::Actor, outbox::Outgoing};
use peal_model::Proc;
use peal_wire::IofOutput;

impl Actor {
    /// Output is for whoever has room: nobody is cut off for it, and nothing else waits behind much of it.
    pub(crate) fn forward(&mut self, to: &Proc, output: &IofOutput) {
        for peer in self.state.connections_of(to) {
            let Some(outbox) = self.outboxes.get(&peer) else {
                continue;
            };
            let outgoing = Outgoing::Output(Box::new(output.clone()));
            let bytes = outgoing.bytes();
            let is_room = outbox.line.waiting().saturating_add(bytes) <= self.outbox_bytes / 2
                && outbox.is_half_empty();
            if is_room {
                self.send(peer, outgoing);
            } else {
                self.metrics.counters().output_dropped.count();
            }
        }
    }
}
