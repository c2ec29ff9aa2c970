//! Changes of the servers: the next holder, and the data that it restores.
use super::{
    Action, DataOperation, DataRequestId, Holder, OpenDataRequest, Publication, Publications, send,
};
use crate::{
    group::{Groups, ServerId},
    published::PublishedDataMessage,
};
use std::collections::BTreeSet;

/// Number of bytes beyond which a message with items is followed by another one.
const RESTORE_PART_BYTES: usize = 1 << 20;

impl Publications {
    /// Follows a change of the servers. One may have left.
    pub(in crate::server) fn servers_changed(
        &mut self,
        groups: &Groups,
        left: Option<ServerId>,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(left) = left {
            self.remove_server(left);
            actions.extend(self.awaits_no_more(left));
        }
        let first = groups.coordinator();
        let holder = if first == groups.me() {
            match &self.holder {
                Holder::Here { .. } => return actions,
                // Their data may exist: until they have restored them, nothing is known to be missing.
                Holder::Other(_) => Holder::Here {
                    awaited: groups
                        .others()
                        .filter(|other| !self.restored.contains(other))
                        .collect(),
                },
            }
        } else if self.holder == Holder::Other(first) {
            return actions;
        } else {
            Holder::Other(first)
        };
        let before = std::mem::replace(&mut self.holder, holder);
        if let Holder::Other(next) = self.holder {
            if let Holder::Here { .. } = before {
                self.drop_others();
            }
            actions.extend(self.restore_at(next));
        }
        let own = self.requests.keys().copied();
        let own: Vec<DataRequestId> = own.filter(|id| id.server().is_none()).collect();
        for id in own {
            let Some(request) = self.close(id) else {
                continue;
            };
            match request.operation {
                // The data are in no copy any more, and so the next holder does not have them.
                DataOperation::Unpublish => actions.push(request.answer(Ok(Vec::new()))),
                DataOperation::Publish(_) | DataOperation::Lookup { .. } => {
                    actions.extend(self.submit(id, request));
                }
            }
        }
        actions.extend(self.execute_postponed());
        actions
    }

    /// Sends all shared items of this server to the next holder.
    fn restore_at(&self, to: ServerId) -> Vec<Action> {
        let mut parts: Vec<Vec<Publication>> = Vec::new();
        let mut bytes = RESTORE_PART_BYTES;
        for publication in self.store.shared() {
            let more = publication.bytes();
            match parts.last_mut() {
                Some(part) if bytes.saturating_add(more) <= RESTORE_PART_BYTES => {
                    part.push(publication);
                    bytes += more;
                }
                _ => {
                    parts.push(vec![publication]);
                    bytes = more;
                }
            }
        }
        let parts = parts.into_iter().map(PublishedDataMessage::Restore);
        let begins = std::iter::once(PublishedDataMessage::RestoreBegins);
        let messages = begins
            .chain(parts)
            .chain([PublishedDataMessage::RestoreEnds]);
        messages.map(|message| send(to, message)).collect()
    }

    /// Notes that a server has restored its data here.
    pub(super) fn restored_by(&mut self, from: ServerId) -> Vec<Action> {
        self.restored.insert(from);
        self.awaits_no_more(from)
    }

    fn awaits_no_more(&mut self, server: ServerId) -> Vec<Action> {
        if let Holder::Here { awaited } = &mut self.holder
            && awaited.remove(&server)
        {
            return self.execute_postponed();
        }
        Vec::new()
    }

    /// Carries out what was postponed, if this server has the data of all servers.
    fn execute_postponed(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.answers() {
            return actions;
        }
        let postponed: Vec<DataRequestId> = self.requests_where(OpenDataRequest::is_postponed);
        for id in postponed {
            if let Some(request) = self.close(id) {
                actions.extend(self.submit(id, request));
            }
        }
        actions
    }

    /// Removes the items and requests of a server.
    pub(super) fn remove_server(&mut self, server: ServerId) {
        self.store.remove_server(server);
        self.restored.remove(&server);
        self.close_requests_of(|of| of == server);
    }

    /// Removes the items and requests of all other servers, because another one holds them.
    fn drop_others(&mut self) {
        self.store.remove_others();
        self.restored = BTreeSet::new();
        self.close_requests_of(|_| true);
    }

    fn close_requests_of(&mut self, is_meant: impl Fn(ServerId) -> bool) {
        let theirs = self.requests.keys().copied();
        let theirs = theirs.filter(|id| id.server().is_some_and(&is_meant));
        for id in theirs.collect::<Vec<_>>() {
            self.close(id);
        }
    }

    fn requests_where(&self, is_meant: impl Fn(&OpenDataRequest) -> bool) -> Vec<DataRequestId> {
        let requests = self.requests.iter();
        let meant = requests.filter(|(_, request)| is_meant(request));
        meant.map(|(id, _)| *id).collect()
    }
}

impl OpenDataRequest {
    fn is_postponed(&self) -> bool {
        self.stage == super::DataRequestStage::Postponed
    }
}
