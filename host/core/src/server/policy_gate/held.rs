//! Requests that are held for decisions, and the memory that they use.
use super::DecisionId;
use crate::{
    job_control::{ControlId, JobControlOperation},
    server::{
        RequestId, control::ControlRequester, denial::DenialRecipient, events::RaiseRequest,
        group_policy::GatedGroupCall, spawning::GatedSpawn,
    },
    user_scope::UserScope,
};
use peal_model::{Event, Hook, Info, LogRequest, Proc, Request, Status};
use std::collections::BTreeMap;

/// A held request without the infos that policies may amend.
#[derive(Debug)]
pub(in crate::server) enum GatedOperation {
    Control {
        by: ControlRequester,
        targets: Vec<Proc>,
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

/// A held request, event or registration, with its requester.
#[derive(Debug)]
pub(super) struct GatedRequest {
    pub(super) asker: DenialRecipient,
    pub(super) bytes: usize,
    pub(super) what: GatedOperation,
}

/// The memory of one pending decision, and the user that is charged for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateLoad {
    pub(super) uid: Option<u32>,
    pub(super) bytes: usize,
}

/// All held requests, and the hooks that have policies.
#[derive(Debug, Default)]
pub(in crate::server) struct Gate {
    pub(in crate::server) policed: Vec<Hook>,
    /// Hooks whose policies are shadow modules only.
    pub(super) watched: Vec<Hook>,
    pub(super) held: BTreeMap<DecisionId, GatedRequest>,
    /// Connections whose admission is undecided.
    pub(super) entering: BTreeMap<DecisionId, GateLoad>,
    /// Number of pending decisions of each user.
    pub(super) by_user: BTreeMap<Option<u32>, usize>,
    pub(super) bytes: usize,
    pub(super) next: u64,
}

impl Gate {
    /// Returns the number of pending decisions.
    pub(in crate::server) fn awaited(&self) -> usize {
        self.held.len() + self.entering.len()
    }

    pub(super) fn hold(&mut self, id: DecisionId, held: GatedRequest) {
        self.add(held.load());
        self.held.insert(id, held);
    }

    pub(super) fn release(&mut self, id: DecisionId) -> Option<GatedRequest> {
        let held = self.held.remove(&id)?;
        self.subtract(held.load());
        Some(held)
    }

    pub(super) fn add(&mut self, GateLoad { uid, bytes }: GateLoad) {
        self.bytes += bytes;
        *self.by_user.entry(uid).or_default() += 1;
    }

    pub(super) fn subtract(&mut self, GateLoad { uid, bytes }: GateLoad) {
        self.bytes -= bytes;
        if let Some(count) = self.by_user.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&uid);
            }
        }
    }

    pub(super) fn number(&mut self) -> DecisionId {
        self.next += 1;
        DecisionId(self.next)
    }
}

impl GatedRequest {
    fn load(&self) -> GateLoad {
        GateLoad {
            uid: self.asker.uid(),
            bytes: self.bytes,
        }
    }
}
