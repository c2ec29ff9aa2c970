//! Events of clients and of tenants' handlers, and registrations for events, before and after their
//! policies.
use super::{
    denial::{DenialRecipient, DenialReply},
    held::{GatedOperation, GatedRequester},
};
use crate::{
    MonotonicTime,
    server::{
        Action, EventBudget, EventOrigin, PeerId, RequestId, ServerContext, ServerState,
        early_events::RaisedEvent,
        events::{self, RaiseRequest, RaisingOwner},
        reply,
    },
    user_scope::UserScope,
};
use peal_model::{
    Event, EventSubject, Hook, Info, PolicySubject, Proc, RegistrationSubject, Status,
    UserIdentity, code,
};
use std::{collections::BTreeSet, mem, sync::Arc};

impl ServerState {
    /// Handles an event of a client or of a tenant's handler: distributes it, holds it for its
    /// policies, or denies it.
    pub(in crate::server) fn enter_event(
        &mut self,
        raising: RaiseRequest,
        mut event: Event,
        identity: Option<UserIdentity>,
    ) -> Vec<Action> {
        let targets = event.custom_targets().unwrap_or_default();
        let subject = PolicySubject::Event(EventSubject {
            code: event.code,
            range: event.range,
            // The subject holds the only copy. A grant returns it, with the amendments.
            infos: mem::take(&mut event.infos),
        });
        let (reply, groups) = match raising {
            RaiseRequest::Client(to, _) => {
                (DenialReply::Status(to), self.clients.groups_of(to.peer))
            }
            RaiseRequest::Handler(_) => (DenialReply::Silent, Arc::default()),
        };
        let requester = GatedRequester {
            proc: event.source.clone(),
            identity,
            groups,
        };
        let request = self.policy_request(subject, requester, &targets);
        let recipient = DenialRecipient::of(&request, reply);
        self.decide_or_hold(request, recipient, GatedOperation::Event { raising, event })
    }

    pub(in crate::server) fn client_notifies(
        &mut self,
        to: RequestId,
        mut event: Event,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.names().name_members(&mut event);
        match events::check(&mut event, &self.settings) {
            Err(status) => vec![reply(to, status)],
            Ok(()) => self.enter_event(
                RaiseRequest::Client(to, now),
                event,
                self.clients.identity_of(to.peer),
            ),
        }
    }

    /// Raises an event of the host environment or of the site's handlers, which needs no
    /// permission.
    pub fn notify(&mut self, event: Event) -> Result<Vec<Action>, Status> {
        self.raise(event, RaisingOwner::Site, self.settings.allowance)
    }

    /// Raises an event of a hosted handler, with the remaining event budget.
    pub fn raise(
        &mut self,
        mut event: Event,
        raiser: RaisingOwner,
        allowance: EventBudget,
    ) -> Result<Vec<Action>, Status> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        match raiser {
            RaisingOwner::Site => self.events.notify(ctx, event, allowance),
            RaisingOwner::Tenant(identity) => {
                // Checked before the policies are called, so that they see only events that can be
                // raised.
                events::check(&mut event, &self.settings)?;
                self.events.check_host_registered(&event)?;
                let raising = RaiseRequest::Handler(allowance);
                Ok(self.enter_event(raising, event, Some(identity)))
            }
        }
    }

    /// Distributes a permitted event to the procs of a user scope.
    pub(in crate::server) fn permitted(
        &mut self,
        raising: RaiseRequest,
        event: Event,
        reach: UserScope,
    ) -> Vec<Action> {
        let event = Arc::new(event);
        let ctx = ServerContext::new(&self.clients, &self.settings);
        match raising {
            RaiseRequest::Client(to, at) => {
                let heard = || {
                    self.events.check_host_registered(&event)?;
                    // Targets on other servers are unknown here.
                    if self.groups.is_alone() {
                        events::check_targets_exist(&self.clients, &event, reach)
                    } else {
                        Ok(())
                    }
                };
                if !events::is_acted_on(event.code)
                    && let Err(status) = heard()
                {
                    return vec![reply(to, status)];
                }
                // First, so that a server that gets an invitation knows who asks for its ends.
                let mut actions = self.watch_invited(&event);
                let raised = RaisedEvent {
                    event: event.clone(),
                    origin: EventOrigin::ThisServer,
                    reach,
                    allowance: self.settings.allowance,
                };
                // A group that another server decides about is announced before members hear of it.
                let group = (!self.groups.is_alone()).then(|| self.unknown_group(&event));
                // Deliveries precede the reply: recipients wait for the event, and the raiser only
                // for its acknowledgement.
                actions.extend(self.deliver_in_order(raised, group.flatten(), at));
                let ctx = ServerContext::new(&self.clients, &self.settings);
                actions.push(reply(to, code::PMIX_SUCCESS));
                if let (code::PMIX_JCTRL_CHECKPOINT_COMPLETE, Some(proc)) =
                    (event.code, &event.source)
                {
                    actions.extend(self.controls.checkpointed(
                        ctx,
                        &mut self.events,
                        proc,
                        &event.infos,
                    ));
                }
                actions.extend(self.group_event(&event, at));
                actions.extend(self.deliver_early_events(at));
                actions
            }
            RaiseRequest::Handler(allowance) => {
                self.events.distribute(ctx, event, reach, allowance)
            }
        }
    }

    /// Handles a registration for events: registers it or holds it for the policies of events.
    pub(in crate::server) fn enter_registration(
        &mut self,
        to: RequestId,
        source: Proc,
        codes: Vec<Status>,
        directives: Vec<Info>,
    ) -> Vec<Action> {
        // Without policies every registration is permitted (`BuiltInRule::GrantAlways`).
        if !self.gate.is_policed(Hook::Event) {
            let ctx = ServerContext::new(&self.clients, &self.settings);
            return self.events.register(ctx, to, codes, &directives);
        }
        let subject = PolicySubject::Registration(RegistrationSubject {
            codes: codes.clone(),
            directives,
        });
        let requester = GatedRequester {
            proc: Some(source),
            identity: self.clients.identity_of(to.peer),
            groups: self.clients.groups_of(to.peer),
        };
        let request = self.policy_request(subject, requester, &[]);
        let recipient = DenialRecipient::of(&request, DenialReply::Status(to));
        self.hold_for_policies(
            request,
            recipient,
            GatedOperation::Registration { to, codes },
        )
    }

    /// Removes codes from the registrations of a client, also from those that are undecided.
    pub(in crate::server) fn deregister(
        &mut self,
        peer: PeerId,
        codes: Vec<Status>,
    ) -> Vec<Action> {
        let codes: BTreeSet<Status> = codes.into_iter().collect();
        // A client that withdraws an undecided registration need not wait for the decision.
        let undecided = self.gate.remove_codes(peer, &codes);
        let mut actions: Vec<Action> = undecided
            .into_iter()
            .map(|to| reply(to, code::PMIX_SUCCESS))
            .collect();
        actions.extend(self.events.deregister(peer, &codes));
        actions
    }
}
