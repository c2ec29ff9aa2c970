//! Policies of group requests and of events about groups. A denial is also reported to the other
//! participants.
use super::{
    denial::{DenialRecipient, DenialReply, deny},
    held::{GatedOperation, GatedRequester},
};
use crate::{
    MonotonicTime,
    defaults::{self, RuleRequest},
    group::{self, GroupKey, GroupName},
    policy::DeniedVerdict,
    server::{
        Action, RequestId, ServerContext, ServerState, events::RaiseRequest, groups::each_job,
    },
    user_scope::UserScope,
};
use peal_model::{
    BuiltInRule, Event, GroupOperationKind, GroupSubject, Hook, Info, Infos, PolicySubject, Proc,
    Request, Status, Text, UserIdentity, Value, code, key,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A construct or destruct that is held for its policies.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GatedGroupCall {
    to: RequestId,
    source: Proc,
    request: Request,
    at: MonotonicTime,
}

impl ServerState {
    /// Handles a construct or destruct: carries it out, holds it for its policies, or denies it.
    pub(in crate::server) fn enter_group(
        &mut self,
        to: RequestId,
        source: Proc,
        request: Request,
        at: MonotonicTime,
    ) -> Vec<Action> {
        let identity = self.clients.identity_of(to.peer);
        let requester = Some(source.clone());
        let recipient =
            DenialRecipient::new(Hook::Group, requester, identity, DenialReply::Status(to));
        if self.gate.is_policed(Hook::Group) {
            let Some((kind, name, procs)) = self.about_group(&source, &request) else {
                return Vec::new();
            };
            let call = GatedGroupCall {
                to,
                source,
                request,
                at,
            };
            let subject = PolicySubject::Group(GroupSubject {
                kind,
                name: name.as_ref().map(Text::to_string),
                directives: directives(&call.request).to_vec(),
            });
            let groups = self.clients.groups_of(to.peer);
            let request = self.policy_request(
                subject,
                GatedRequester {
                    proc: recipient.requester.clone(),
                    identity,
                    groups,
                },
                &procs,
            );
            return self.hold_for_policies(request, recipient, GatedOperation::Group(call));
        }
        // One proc per job suffices: all procs of a job have one owner, and members of a user's
        // group belong to that user.
        match self.group_by_default(&recipient, &jobs_named(&request)) {
            Ok(()) => self.group(to, source, request, at),
            Err(verdict) => self.denied(
                recipient.about(&self.clients.targets(&jobs_named(&request))),
                GatedOperation::Group(GatedGroupCall {
                    to,
                    source,
                    request,
                    at,
                }),
                verdict,
            ),
        }
    }

    /// Handles a permitted event. If procs form a group by it, the group policies decide first.
    pub(super) fn enter_invitation(
        &mut self,
        raising: RaiseRequest,
        event: Event,
        reach: UserScope,
        identity: Option<UserIdentity>,
    ) -> Vec<Action> {
        let Some(kind) = kind_of(&event) else {
            // The event forms no group, so the policies of groups are not asked.
            return self.permitted(raising, event, reach);
        };
        let procs = named_in(&event);
        let (reply, groups) = match raising {
            RaiseRequest::Client(to, _) => {
                (DenialReply::Status(to), self.clients.groups_of(to.peer))
            }
            RaiseRequest::Handler(_) => (DenialReply::Silent, Arc::default()),
        };
        let recipient = DenialRecipient::new(Hook::Group, event.source.clone(), identity, reply);
        if self.gate.is_policed(Hook::Group) {
            let name = match event.infos.value_of(key::PMIX_GROUP_ID) {
                Some(Value::String(Some(name))) => Some(name.to_string()),
                _ => None,
            };
            let subject = PolicySubject::Group(GroupSubject {
                kind,
                name,
                directives: event.infos.clone(),
            });
            let request = self.policy_request(
                subject,
                GatedRequester {
                    proc: recipient.requester.clone(),
                    identity,
                    groups,
                },
                &procs,
            );
            return self.hold_for_policies(
                request,
                recipient,
                GatedOperation::Invitation {
                    raising,
                    event,
                    reach,
                },
            );
        }
        // Without policies the default decides, as for a group by construct.
        match self.group_by_default(&recipient, &procs) {
            Ok(()) => self.permitted(raising, event, reach),
            Err(verdict) => self.denied(
                recipient.about(&self.clients.targets(&procs)),
                GatedOperation::Invitation {
                    raising,
                    event,
                    reach,
                },
                verdict,
            ),
        }
    }

    /// Carries out a granted construct or destruct, with these directives.
    pub(super) fn grouped(&mut self, call: GatedGroupCall, amended: Vec<Info>) -> Vec<Action> {
        let GatedGroupCall {
            to,
            source,
            mut request,
            at,
        } = call;
        if let Request::GroupConstruct { directives, .. }
        | Request::GroupDestruct { directives, .. } = &mut request
        {
            *directives = amended;
        }
        self.group(to, source, request, at)
    }

    /// Denies an operation. Reports it to the requester and, for groups, to the other participants.
    pub(super) fn denied(
        &mut self,
        recipient: DenialRecipient,
        operation: GatedOperation,
        verdict: DeniedVerdict,
    ) -> Vec<Action> {
        let DeniedVerdict {
            status, reasons, ..
        } = &verdict;
        match operation {
            GatedOperation::Group(GatedGroupCall {
                to,
                source,
                request,
                at,
            }) => {
                let refusal = group::GroupRefusal {
                    proc: source,
                    status: *status,
                    reasons: reasons.clone(),
                };
                // The denial must be recorded before any participant can react to it.
                let mut actions = deny(
                    DenialRecipient {
                        reply: DenialReply::Silent,
                        ..recipient
                    },
                    verdict,
                );
                actions.extend(self.refuse_group(to, request, refusal, at));
                actions
            }
            GatedOperation::Invitation {
                raising,
                mut event,
                reach,
            } => {
                // The event that replaces the denied one reports the reasons to the other
                // participants.
                event.infos.extend(reasons.iter().cloned());
                let mut actions = deny(recipient, verdict);
                if let Some(code) = instead_of(event.code) {
                    let allowance = match raising {
                        RaiseRequest::Client(..) => self.settings.allowance,
                        RaiseRequest::Handler(allowance) => allowance,
                    };
                    actions.extend(self.events.distribute(
                        ServerContext::new(&self.clients, &self.settings),
                        Arc::new(Event { code, ..event }),
                        reach,
                        allowance,
                    ));
                }
                actions
            }
            _ => deny(recipient, verdict),
        }
    }

    /// Decides about a group by the default of the hook.
    fn group_by_default(
        &self,
        recipient: &DenialRecipient,
        procs: &[Proc],
    ) -> Result<(), DeniedVerdict> {
        let targets = self.clients.targets(procs);
        let requester = recipient.requester.as_ref();
        let identity = recipient.identity;
        let server = self.clients.server();
        let case = RuleRequest {
            requester,
            identity,
            server,
            targets: &targets,
            hook: Hook::Group,
            rule: BuiltInRule::NoForeignTargets,
        };
        Ok(defaults::decide(
            self.settings.defaults.of(Hook::Group),
            &case,
        )?)
    }

    /// Returns the kind, name, and named procs or members of a construct or destruct.
    fn about_group(
        &self,
        source: &Proc,
        request: &Request,
    ) -> Option<(GroupOperationKind, Option<Text>, Vec<Proc>)> {
        match request {
            Request::GroupConstruct {
                group,
                procs,
                directives,
            } => {
                // Added members take part as named ones do, so policies see both.
                let added = directives
                    .iter()
                    .filter(|info| info.key == key::PMIX_GROUP_ADD_MEMBERS);
                let added = added.filter_map(|info| info.value.as_procs()).flatten();
                let procs = self
                    .names()
                    .named_by(source, procs.iter().cloned().chain(added).collect());
                Some((GroupOperationKind::Construct, group.clone(), procs))
            }
            // Some releases of OpenPMIx send no members with a destruct.
            Request::GroupDestruct { group, members, .. } => {
                let key = |name: &Text| GroupKey {
                    uid: self.clients.uid_of(source),
                    name: GroupName::Called(name.clone()),
                };
                let known = group
                    .as_ref()
                    .and_then(|name| self.groups.members(&key(name)));
                Some((
                    GroupOperationKind::Destruct,
                    group.clone(),
                    known.unwrap_or_else(|| members.clone()),
                ))
            }
            _ => None,
        }
    }
}

/// Returns one proc of each job that a construct or destruct names.
fn jobs_named(request: &Request) -> Vec<Proc> {
    match request {
        Request::GroupConstruct {
            procs, directives, ..
        } => {
            let added = directives
                .iter()
                .filter(|info| info.key == key::PMIX_GROUP_ADD_MEMBERS);
            let added: Vec<Proc> = added
                .filter_map(|info| info.value.as_procs())
                .flatten()
                .collect();
            each_job(procs).chain(each_job(&added)).cloned().collect()
        }
        Request::GroupDestruct { members, .. } => each_job(members).cloned().collect(),
        _ => Vec::new(),
    }
}

fn directives(request: &Request) -> &[Info] {
    match request {
        Request::GroupConstruct { directives, .. } | Request::GroupDestruct { directives, .. } => {
            directives
        }
        _ => &[],
    }
}

/// Returns the procs that an event about a group names: the members, else the targets.
pub(in crate::server) fn named_in(event: &Event) -> Vec<Proc> {
    let members = event
        .infos
        .value_of(key::PMIX_GROUP_MEMBERSHIP)
        .and_then(Value::as_procs);
    members
        .or_else(|| event.custom_targets())
        .unwrap_or_default()
}

/// Returns true if the end of a construct, which an event announces, is a success. Only some
/// releases send the status.
pub(in crate::server) fn is_formed(event: &Event) -> bool {
    let status = event.infos.value_of(key::PMIX_LOCAL_COLLECTIVE_STATUS);
    status.is_none_or(|status| *status == Value::Status(code::PMIX_SUCCESS))
}

/// Returns the group operation that an event is a part of, for groups by invitation.
fn kind_of(event: &Event) -> Option<GroupOperationKind> {
    match event.code {
        code::PMIX_GROUP_INVITED => Some(GroupOperationKind::Invite),
        code::PMIX_GROUP_INVITE_ACCEPTED => Some(GroupOperationKind::Join),
        // The leader's announcement is what forms a group by invitation.
        code::PMIX_GROUP_CONSTRUCT_COMPLETE if is_formed(event) => {
            Some(GroupOperationKind::Construct)
        }
        _ => None,
    }
}

/// Returns the code of the event that replaces a denied one for which other procs wait. Nothing
/// waits for an invitation.
fn instead_of(code: Status) -> Option<Status> {
    match code {
        code::PMIX_GROUP_INVITE_ACCEPTED => Some(code::PMIX_GROUP_INVITE_DECLINED),
        code::PMIX_GROUP_CONSTRUCT_COMPLETE => Some(code::PMIX_GROUP_CONSTRUCT_ABORT),
        _ => None,
    }
}
