//! Requests that are held for decisions, and the memory that they use.
use super::{DecisionId, denial::DenialRecipient, groups::GatedGroupCall};
use crate::{
    decision_limits::{DecisionLimit, DecisionLimits, DecisionLoad, DecisionUser},
    job_control::{ControlId, JobControlOperation},
    quota::{Quota, QuotaReport},
    server::{
        Action, PeerId, RequestId, StateSettings, Upcall,
        clients::ClientTable,
        control::ControlRequester,
        events::{RaiseRequest, remove_codes},
    },
    user_scope::UserScope,
};
use peal_model::{
    App, ControlExtent, Event, Hook, Info, LogRequest, Nspace, Proc, Request, Status, UnixGroup,
    UserIdentity,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A held request without the infos that policies may amend.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GatedOperation {
    Control {
        by: ControlRequester,
        targets: Vec<Proc>,
        extent: ControlExtent,
        operation: Option<JobControlOperation>,
    },
    Provision(ControlId),
    Abort {
        to: RequestId,
        source: Proc,
        request: Request,
    },
    Monitor {
        to: RequestId,
        source: Proc,
        monitor: Info,
        error: Status,
    },
    Event {
        raising: RaiseRequest,
        event: Event,
    },
    Registration {
        to: RequestId,
        codes: Vec<Status>,
    },
    Log {
        to: RequestId,
        request: LogRequest,
    },
    Group(GatedGroupCall),
    Spawn(GatedSpawn),
    Invitation {
        raising: RaiseRequest,
        event: Event,
        reach: UserScope,
    },
}

/// A held spawn request, without its directives.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GatedSpawn {
    pub(super) to: RequestId,
    pub(super) source: Proc,
    pub(super) apps: Vec<App>,
}

impl GatedSpawn {
    /// Passes the granted request to the host environment, with these directives.
    pub(super) fn granted(self, infos: Vec<Info>) -> Action {
        let GatedSpawn { to, source, apps } = self;
        Action::Upcall(Upcall::Request {
            to,
            source,
            request: Request::Spawn { infos, apps },
        })
    }
}

/// A requester, as the policies of its request see it.
#[derive(Debug)]
pub(in crate::server) struct GatedRequester {
    /// None for a tool without a name, and for the site's modules.
    pub(in crate::server) proc: Option<Proc>,
    pub(in crate::server) identity: Option<UserIdentity>,
    /// The Unix groups of its process; empty for a handler.
    pub(in crate::server) groups: Arc<[UnixGroup]>,
}

/// A held request, event or registration, with its requester.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GatedRequest {
    pub(super) recipient: DenialRecipient,
    pub(super) bytes: usize,
    pub(super) operation: GatedOperation,
}

/// The memory of one pending decision, and the user that is charged for it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct GateLoad {
    pub(super) uid: Option<u32>,
    pub(super) bytes: usize,
}

/// All held requests, and the hooks that have policies.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::server) struct Gate {
    policed: Vec<Hook>,
    /// Hooks whose policies are shadow modules only.
    watched: Vec<Hook>,
    held: BTreeMap<DecisionId, GatedRequest>,
    /// Connections whose admission is undecided.
    entering: BTreeMap<DecisionId, GateLoad>,
    /// Pending decisions of each user.
    by_user: BTreeMap<Option<u32>, DecisionLoad>,
    bytes: usize,
    next: u64,
}

impl Gate {
    /// Sets the hooks that have policies.
    pub(super) fn set_policed(&mut self, policed: Vec<Hook>) {
        self.policed = policed;
    }

    /// Sets the hooks whose policies are shadow modules only.
    pub(super) fn set_watched(&mut self, watched: Vec<Hook>) {
        self.watched = watched;
    }

    /// Returns true if a hook has policies.
    pub(super) fn is_policed(&self, hook: Hook) -> bool {
        self.policed.contains(&hook)
    }

    /// Returns the number of pending decisions.
    pub(in crate::server) fn awaited(&self) -> usize {
        self.held.len() + self.entering.len()
    }

    /// Adds the pending decisions of each user to a report.
    pub(in crate::server) fn report_quotas(
        &self,
        report: &mut QuotaReport,
        settings: &StateSettings,
    ) {
        let DecisionLimits {
            requests,
            user_requests,
            bytes,
            user_bytes,
        } = settings.decisions;
        report.limit(Quota::PendingDecisions, user_requests, Some(requests));
        report.limit(Quota::PendingDecisionBytes, user_bytes, Some(bytes));
        let users = || {
            let users = self.by_user.iter();
            users.filter_map(|(uid, load)| Some(((*uid)?, load)))
        };
        report.hold(
            Quota::PendingDecisions,
            users().map(|(uid, load)| (uid, load.requests)),
        );
        report.hold(
            Quota::PendingDecisionBytes,
            users().map(|(uid, load)| (uid, load.bytes)),
        );
    }

    /// Checks that one more pending decision is within the limits, overall and of its user. Hooks
    /// with shadow policies only are not limited.
    pub(super) fn check(
        &self,
        limits: &DecisionLimits,
        hook: Hook,
        load: GateLoad,
        clients: &ClientTable,
    ) -> Result<(), DecisionLimit> {
        if self.watched.contains(&hook) {
            return Ok(());
        }
        let own = || self.by_user.get(&load.uid).copied().unwrap_or_default();
        let user = match load.uid {
            Some(uid) if clients.is_bounded(uid) => DecisionUser::Bounded(own()),
            _ => DecisionUser::Exempt,
        };
        let all = DecisionLoad {
            requests: self.awaited(),
            bytes: self.bytes,
        };
        limits.check(all, user, load.bytes)
    }

    /// Holds the admission of a connection.
    pub(super) fn hold_admission(&mut self, load: GateLoad) -> DecisionId {
        let id = self.number();
        self.add(load);
        self.entering.insert(id, load);
        id
    }

    /// Releases the admission of a connection.
    pub(super) fn release_admission(&mut self, id: DecisionId) {
        if let Some(load) = self.entering.remove(&id) {
            self.subtract(load);
        }
    }

    /// Holds a request of this memory, and returns the identifier of its decision.
    pub(super) fn hold(
        &mut self,
        recipient: DenialRecipient,
        bytes: usize,
        operation: GatedOperation,
    ) -> DecisionId {
        let id = self.number();
        let recipient = DenialRecipient {
            decision: Some(id),
            ..recipient
        };
        let held = GatedRequest {
            recipient,
            bytes,
            operation,
        };
        self.add(held.load());
        self.held.insert(id, held);
        id
    }

    /// Releases a request whose decision has come.
    pub(super) fn release(&mut self, id: DecisionId) -> Option<GatedRequest> {
        let held = self.held.remove(&id)?;
        self.subtract(held.load());
        Some(held)
    }

    /// Releases the requests of all procs of a namespace.
    pub(super) fn release_of(&mut self, nspace: &Nspace) -> Vec<GatedRequest> {
        let of_them = |held: &GatedRequest| {
            held.recipient
                .requester
                .as_ref()
                .is_some_and(|proc| proc.nspace == *nspace)
        };
        // Listed first, because `release` changes the map.
        let ids: Vec<DecisionId> = self
            .held
            .iter()
            .filter(|(_, held)| of_them(held))
            .map(|(id, _)| *id)
            .collect();
        ids.into_iter().filter_map(|id| self.release(id)).collect()
    }

    /// Removes codes from the undecided registrations of a connection. Returns the requests that
    /// have no code left.
    pub(super) fn remove_codes(
        &mut self,
        peer: PeerId,
        codes: &BTreeSet<Status>,
    ) -> Vec<RequestId> {
        let mut idle = Vec::new();
        for (id, held) in &mut self.held {
            if let GatedOperation::Registration {
                to,
                codes: requested,
            } = &mut held.operation
                && to.peer == peer
                && remove_codes(requested, codes)
            {
                idle.push((*id, *to));
            }
        }
        // Only now, because the loop borrows the map.
        idle.iter().for_each(|(id, _)| drop(self.release(*id)));
        idle.into_iter().map(|(_, to)| to).collect()
    }

    /// Drops the undecided registrations of a connection that is no longer active.
    pub(in crate::server) fn drop_registrations(&mut self, peer: PeerId) {
        let is_registration = |held: &GatedRequest| matches!(&held.operation, GatedOperation::Registration { to, .. } if to.peer == peer);
        let ids: Vec<DecisionId> = self
            .held
            .iter()
            .filter(|(_, held)| is_registration(held))
            .map(|(id, _)| *id)
            .collect();
        ids.into_iter().for_each(|id| drop(self.release(id)));
    }

    fn add(&mut self, GateLoad { uid, bytes }: GateLoad) {
        self.bytes += bytes;
        let own = self.by_user.entry(uid).or_default();
        own.requests += 1;
        own.bytes += bytes;
    }

    fn subtract(&mut self, GateLoad { uid, bytes }: GateLoad) {
        self.bytes -= bytes;
        if let Some(own) = self.by_user.get_mut(&uid) {
            own.requests -= 1;
            own.bytes -= bytes;
            if own.requests == 0 {
                self.by_user.remove(&uid);
            }
        }
    }

    /// Returns the number of the next decision.
    pub(in crate::server) fn number(&mut self) -> DecisionId {
        self.next += 1;
        DecisionId(self.next)
    }
}

impl GatedRequest {
    fn load(&self) -> GateLoad {
        GateLoad {
            uid: self.recipient.uid(),
            bytes: self.bytes,
        }
    }
}
