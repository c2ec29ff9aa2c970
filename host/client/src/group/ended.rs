//! Ended invitations of this proc. A proc that accepts one too late receives an abort event at
//! once, so that it does not wait for its time limit.
use super::events;
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

/// Ended invitations, the oldest first.
#[derive(Default)]
pub(crate) struct EndedInvitations(Mutex<VecDeque<Arc<EndedInvitation>>>);

impl EndedInvitations {
    /// Removes ended invitations to a group for which a new invitation begins.
    pub(super) fn begin(&self, group: &str) {
        lock(&self.0).retain(|over| over.group != group);
    }

    /// Adds an ended invitation.
    pub(super) fn end(&self, over: EndedInvitation, observers: &Observers) {
        let over = Arc::new(over);
        observers.add(&over);
        let mut all = lock(&self.0);
        all.push_back(over);
        if all.len() > REMEMBERED {
            all.pop_front();
        }
    }
}
