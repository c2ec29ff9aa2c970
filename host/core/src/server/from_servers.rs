//! Messages of other servers. A server is believed only about itself.
use super::{
    Action, EventOrigin, InterServerMessage, LogMessage, MessageRefusal, MissedEvents,
    ServerContext, ServerState, early_events::RaisedEvent,
};
use crate::{
    MonotonicTime, event_targets,
    group::{GroupMessage, ServerId},
    owner::Owner,
    registration::ChainPart,
    user_scope::UserScope,
};
use peal_model::{Event, Nspace};
use std::{collections::BTreeSet, sync::Arc};

impl ServerState {
    /// Handles a message of another server. What that server may not say is refused.
    pub fn server_message(
        &mut self,
        from: ServerId,
        message: InterServerMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        match message {
            InterServerMessage::Group(message) => {
                let changed = match &message {
                    GroupMessage::Job { nspace, .. } => Some((nspace.clone(), None)),
                    GroupMessage::JobGone(nspace) => Some((nspace.clone(), Some(from))),
                    _ => None,
                };
                let mut actions = self.with_groups(|groups| groups.received(from, message, now));
                if let Some((nspace, lost)) = changed {
                    actions.extend(self.servers_changed(&nspace, lost));
                }
                // A decision may have made a group known.
                actions.extend(self.deliver_early_events(now));
                actions
            }
            InterServerMessage::Fence(message) => {
                self.data
                    .fence_message(&self.clients, &self.groups, from, message, now)
            }
            InterServerMessage::Modex(message) => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.data
                    .modex_message(ctx, &self.groups, from, message, now)
            }
            InterServerMessage::Event(event, reach) => self.event_from(from, event, reach, now),
            InterServerMessage::Missed(missed) => {
                self.missed(&missed);
                Vec::new()
            }
            InterServerMessage::Log(message) => match self.check_log(from, &message) {
                Ok(()) => vec![Action::LogMessage { from, message }],
                Err(refusal) => vec![Action::MessageRefused { from, refusal }],
            },
            InterServerMessage::PublishedData(message) => self.published_data(from, message),
            InterServerMessage::Request(message) => self.request_message(from, message, now),
        }
    }

    fn event_from(
        &mut self,
        from: ServerId,
        event: Arc<Event>,
        reach: UserScope,
        now: MonotonicTime,
    ) -> Vec<Action> {
        match self.check_event(from, &event, reach) {
            Ok(()) => {
                let group = self.unknown_group(&event);
                let raised = RaisedEvent {
                    event,
                    origin: EventOrigin::OtherServer(from),
                    reach,
                    allowance: self.settings.allowance.on_this_server(),
                };
                self.deliver_in_order(raised, group, now)
            }
            Err(refusal) => vec![Action::MessageRefused { from, refusal }],
        }
    }

    /// Checks that a server logs for its own procs, as the user that they run as.
    fn check_log(&self, from: ServerId, message: &LogMessage) -> Result<(), MessageRefusal> {
        let LogMessage::Write { request, .. } = message else {
            return Ok(());
        };
        let Some(source) = &request.source else {
            return Ok(());
        };
        let is_local = self.clients.life(source).is_some();
        if is_local || !self.groups.may_speak_for(from, source) {
            return Err(MessageRefusal::ForeignProc(source.clone()));
        }
        match (self.groups.owner_of(&source.nspace), request.identity) {
            (Some(owner), Some(identity)) if identity != owner => {
                Err(MessageRefusal::ForeignUser(source.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the part of an owner's chain that this server runs for an event: the whole chain of an
    /// owner at one server alone, so that a handler runs once for an event. This is the server at
    /// which the event was raised; for a user or job that it does not have, the lowest one that has.
    pub fn part_of_chain(&self, owner: &Owner, origin: EventOrigin) -> ChainPart {
        let EventOrigin::OtherServer(origin) = origin else {
            return ChainPart::Whole;
        };
        let runs_here = match owner {
            Owner::Site => false,
            Owner::User(uid) => self.groups.is_first_with_user(*uid, origin),
            Owner::Namespace(nspace) => self.groups.is_first_with_job(nspace, origin),
        };
        if runs_here {
            ChainPart::Whole
        } else {
            ChainPart::EachNode
        }
    }

    /// Notes events of another server that did not get here. Each proc that may have been meant gets
    /// their number, an upper bound, with the next event about its job.
    fn missed(&mut self, missed: &MissedEvents) {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.events.missed(ctx, missed);
    }

    /// Checks that a server may raise an event: its source is one of the server's procs, and an event
    /// of a host environment is about jobs that the server has.
    fn check_event(
        &self,
        from: ServerId,
        event: &Event,
        reach: UserScope,
    ) -> Result<(), MessageRefusal> {
        let Some(source) = &event.source else {
            let named = event.custom_targets().unwrap_or_default();
            let named = named.into_iter().chain(event.affected());
            let jobs: BTreeSet<Nspace> = named
                .map(|proc| proc.nspace)
                .chain(event_targets::jobs_of(event))
                .collect();
            let foreign = jobs
                .into_iter()
                .find(|nspace| !self.groups.may_speak_for_job(from, nspace));
            return foreign.map_or(Ok(()), |nspace| Err(MessageRefusal::NoPart(nspace)));
        };
        // The procs and tools of this server raise their events here.
        let is_local = self.clients.life(source).is_some()
            || self.clients.tool_identity(&source.nspace).is_some();
        if is_local || !self.groups.may_speak_for(from, source) {
            return Err(MessageRefusal::ForeignProc(source.clone()));
        }
        // A policy may have granted an event to all users, never to one other user.
        match (self.groups.owner_of(&source.nspace), reach) {
            (Some(owner), UserScope::User(uid)) if uid != owner.uid => {
                Err(MessageRefusal::ForeignUser(source.clone()))
            }
            _ => Ok(()),
        }
    }
}
