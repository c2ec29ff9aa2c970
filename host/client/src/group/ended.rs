//! Invitations of ours that are over: whoever accepts one too late is told so, instead of waiting for what has been.
use super::events;
use crate::{
    lock,
    observers::{Observer, Observers},
    queue::QueuedItem,
    session::ClientSession,
};
use peal_model::{Proc, code};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
};

/// How many invitations that are over are remembered.
const REMEMBERED: usize = 64;

/// An invitation that is over.
pub(super) struct EndedInvitation {
    session: Weak<ClientSession>,
    group: String,
    /// Who is in the group; nobody where there is none.
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
    fn see(&self, arrival: &QueuedItem) {
        let QueuedItem::Event(event) = arrival else {
            return;
        };
        let accepts = event.code == code::PMIX_GROUP_INVITE_ACCEPTED;
        let Some(late) = event.source.as_ref().filter(|_| accepts) else {
            return;
        };
        // Those who do not say which group they accept wait for none.
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

/// Those that are remembered, the oldest first.
#[derive(Default)]
pub(crate) struct EndedInvitations(Mutex<VecDeque<Arc<EndedInvitation>>>);

impl EndedInvitations {
    /// To this group others are invited anew.
    pub(super) fn begin(&self, group: &str) {
        lock(&self.0).retain(|over| over.group != group);
    }

    /// This one is over.
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
