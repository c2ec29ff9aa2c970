//! Checks of messages about published data: a server is believed only about its own procs.
use super::send;
use crate::{
    group::ServerId,
    published::{DataRequester, ItemNumber, Publication, PublicationScope, PublishedDataMessage},
    server::{Action, MessageRefusal, ServerState},
};
use peal_model::{Proc, code};
use std::collections::BTreeSet;

impl ServerState {
    /// Handles a message of another server about published data.
    pub(in crate::server) fn published_data(
        &mut self,
        from: ServerId,
        message: PublishedDataMessage,
    ) -> Vec<Action> {
        let (number, checked) = match &message {
            PublishedDataMessage::Publish {
                number,
                publication,
            } => {
                let checked = self.check_scope(from, &publication.by, &publication.scope);
                let checked = checked.and_then(|()| self.check_publication(from, publication));
                (*number, checked)
            }
            PublishedDataMessage::Lookup { number, by, lookup } => {
                (*number, self.check_scope(from, by, &lookup.scope))
            }
            PublishedDataMessage::Restore(_) => return self.restore(from, message),
            _ => return self.publications.message(from, message),
        };
        match checked {
            Ok(()) => self.publications.message(from, message),
            Err(refusal) => {
                // A request that nobody answers would wait for ever.
                let result = Err(code::PMIX_ERR_NO_PERMISSIONS);
                let answer = PublishedDataMessage::Answer { number, result };
                vec![Action::MessageRefused { from, refusal }, send(from, answer)]
            }
        }
    }

    /// Restores those items of a server that its procs may have published.
    fn restore(&mut self, from: ServerId, message: PublishedDataMessage) -> Vec<Action> {
        let PublishedDataMessage::Restore(mut publications) = message else {
            return Vec::new();
        };
        let mut refused: BTreeSet<ItemNumber> = BTreeSet::new();
        let mut actions = Vec::new();
        publications.retain(|publication| {
            let checked = self.check_publication(from, publication);
            let Err(refusal) = checked else {
                return true;
            };
            refused.extend(publication.items.iter().map(|item| item.number));
            actions.push(Action::MessageRefused { from, refusal });
            false
        });
        if !refused.is_empty() {
            actions.push(send(from, PublishedDataMessage::Refused(refused)));
        }
        let rest = PublishedDataMessage::Restore(publications);
        actions.extend(self.publications.message(from, rest));
        actions
    }

    /// Checks that a server has data of procs that it may have had, as their users, in their ranges.
    /// Data may outlive the job of their publisher there.
    fn check_publication(
        &self,
        from: ServerId,
        publication: &Publication,
    ) -> Result<(), MessageRefusal> {
        let Publication { by, scope, .. } = publication;
        let DataRequester { proc, uid } = by;
        if self.is_local(proc) || self.groups.is_of_other(from, proc) {
            return Err(MessageRefusal::ForeignProc(proc.clone()));
        }
        let owner = self.groups.owner_of(&proc.nspace);
        if owner.is_some_and(|owner| owner.uid != *uid) {
            return Err(MessageRefusal::ForeignUser(proc.clone()));
        }
        if scope.is_shared() && scope.is_of(proc) {
            Ok(())
        } else {
            Err(MessageRefusal::ForeignRange(proc.clone()))
        }
    }

    fn is_local(&self, proc: &Proc) -> bool {
        self.clients.life(proc).is_some() || self.clients.tool_identity(&proc.nspace).is_some()
    }

    /// Checks that a server makes requests for its own procs, as their users, in their ranges.
    fn check_scope(
        &self,
        from: ServerId,
        by: &DataRequester,
        scope: &PublicationScope,
    ) -> Result<(), MessageRefusal> {
        let DataRequester { proc, uid } = by;
        if self.is_local(proc) || !self.groups.may_speak_for(from, proc) {
            return Err(MessageRefusal::ForeignProc(proc.clone()));
        }
        let owner = self.groups.owner_of(&proc.nspace);
        if owner.is_some_and(|owner| owner.uid != *uid) {
            return Err(MessageRefusal::ForeignUser(proc.clone()));
        }
        if scope.is_of(proc) {
            Ok(())
        } else {
            Err(MessageRefusal::ForeignRange(proc.clone()))
        }
    }
}
