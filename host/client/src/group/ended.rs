//! Invitations of this proc: those that are open, which a finalize aborts, and ended ones. A proc that
//! accepts an ended one receives an abort event at once, so that it does not wait for its time limit.
use super::{events, invite::Led};
use crate::{
    lock,
    observers::{Observer, Observers},
    queued_item::QueuedItem,
    session::ClientSession,
};
use peal_model::{Proc, code};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
};

/// Number of ended invitations that are kept.
const REMEMBERED: usize = 64;

/// Ended invitation.
pub(super) struct EndedInvitation {
    session: Weak<ClientSession>,
    group: String,
    /// Members of the group; empty if none was formed.
    members: Vec<Proc>,
}

impl EndedInvitation {
    pub(super) fn new(
        session: &Arc<ClientSession>,
        group: &str,
        members: Vec<Proc>,
    ) -> EndedInvitation {
        EndedInvitation {
            session: Arc::downgrade(session),
            group: group.to_owned(),
            members,
        }
    }
}

impl Observer for EndedInvitation {
    fn observe(&self, arrival: &QueuedItem) {
        let QueuedItem::Event(event) = arrival else {
            return;
        };
        let accepts = event.code == code::PMIX_GROUP_INVITE_ACCEPTED;
        let Some(late) = event.source.as_ref().filter(|_| accepts) else {
            return;
        };
        // A proc that names no group in its acceptance waits for none.
        if events::group_of(event) != Some(&self.group) || self.members.contains(late) {
            return;
        }
        if let Some(session) = self.session.upgrade() {
            session.announce(vec![events::abort(
                &session.me,
                &self.group,
                std::slice::from_ref(late),
            )]);
        }
    }
}

/// Invitations of this proc.
#[derive(Default)]
pub(crate) struct LedInvitations {
    /// Invitations without a result.
    open: Mutex<Vec<Weak<Led>>>,
    /// The newest ended ones, the oldest first.
    ended: Mutex<VecDeque<Arc<EndedInvitation>>>,
}

impl LedInvitations {
    /// Adds an open invitation, and removes ended ones to a group of its name.
    pub(super) fn begin(&self, group: &str, led: &Arc<Led>) {
        let mut open = lock(&self.open);
        open.retain(|led| led.strong_count() > 0);
        open.push(Arc::downgrade(led));
        lock(&self.ended).retain(|over| over.group != group);
    }

    /// Removes and returns the open invitations.
    pub(super) fn take_open(&self) -> Vec<Arc<Led>> {
        let open = std::mem::take(&mut *lock(&self.open));
        open.iter().filter_map(Weak::upgrade).collect()
    }

    /// Adds an ended invitation.
    pub(super) fn end(&self, over: EndedInvitation, observers: &Observers) {
        let over = Arc::new(over);
        observers.add(&over);
        let mut all = lock(&self.ended);
        all.push_back(over);
        if all.len() > REMEMBERED {
            all.pop_front();
        }
    }
}
