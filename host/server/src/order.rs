//! Who is answered first of those who are answered together, as at the end of a fence.
use crate::outbox::Outbox;
use peal_core::server::{Action, PeerId};
use std::collections::BTreeMap;

/// Puts the answers to clients on other processors first, where there is nothing but answers, which have no order among each other.
/// Those clients begin while the others are still written to. One on our own processor begins when we are done at the earliest; or
/// it takes the processor from us, and everybody behind it waits.
pub(crate) fn far_first(actions: &mut [Action], outboxes: &BTreeMap<PeerId, Outbox>) {
    let is_answer = |action: &Action| matches!(action, Action::Reply { .. });
    if actions.len() < 2 || !actions.iter().all(is_answer) {
        return;
    }
    let here = Some(rustix::thread::sched_getcpu());
    actions.sort_by_cached_key(|action| match action {
        Action::Reply { to, .. } => outboxes.get(&to.peer).is_some_and(|outbox| outbox.line.cpu() == here),
        _ => false,
    });
}
