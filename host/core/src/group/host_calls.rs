//! Operations on groups that the host environment carries out, one at a time for each group: it matches
//! the calls of several servers by the group's name.
use super::{GroupKey, GroupOperation, HostGroupRequest};
use peal_model::Nspace;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// An operation on a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
struct NamedOperation {
    key: GroupKey,
    operation: GroupOperation,
}

/// A call of the host environment that is not answered.
#[derive(Debug, Serialize, Deserialize)]
struct HostCall {
    stage: CallStage,
    /// The jobs of its procs.
    jobs: BTreeSet<Nspace>,
    /// The next call about the same operation.
    next: Option<Box<HostGroupRequest>>,
}

/// The stage of a call of the host environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum CallStage {
    /// The operation waits for its answer.
    Awaited,
    /// Its answer is being applied.
    Answered,
    /// The operation has ended without its answer.
    Abandoned,
}

/// All calls of the host environment that are not answered.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct HostCalls(BTreeMap<NamedOperation, HostCall>);

impl HostCalls {
    /// Begins a call. Returns the request if it is to be made now.
    pub(super) fn begin(
        &mut self,
        request: Box<HostGroupRequest>,
        stage: CallStage,
    ) -> Option<Box<HostGroupRequest>> {
        let name = NamedOperation {
            key: request.key.clone(),
            operation: request.operation,
        };
        let jobs = request.procs.iter().map(|proc| proc.nspace.clone());
        match self.0.entry(name) {
            Entry::Vacant(place) => {
                place.insert(HostCall {
                    stage,
                    jobs: jobs.collect(),
                    next: None,
                });
                Some(request)
            }
            Entry::Occupied(mut open) => {
                // The operation that waits has called already.
                if open.get().stage == CallStage::Abandoned {
                    open.get_mut().next = Some(request);
                }
                None
            }
        }
    }

    /// Marks a call as answered. Returns false if no operation waits for it.
    pub(super) fn answered(&mut self, key: &GroupKey, operation: GroupOperation) -> bool {
        let call = self.call(key, operation);
        let awaited = call.filter(|call| call.stage == CallStage::Awaited);
        awaited
            .map(|call| call.stage = CallStage::Answered)
            .is_some()
    }

    /// Marks a call as abandoned, because its operation has ended. Returns true if the host environment
    /// has not been told of the operation at all.
    pub(super) fn abandon(&mut self, key: &GroupKey, operation: GroupOperation) -> bool {
        let Some(call) = self.call(key, operation) else {
            return true;
        };
        match call.stage {
            CallStage::Awaited => call.stage = CallStage::Abandoned,
            CallStage::Answered => {}
            CallStage::Abandoned => return true,
        }
        false
    }

    /// Removes a call that is answered. Returns the next one about the same operation.
    pub(super) fn end(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
    ) -> Option<Box<HostGroupRequest>> {
        let key = key.clone();
        self.0.remove(&NamedOperation { key, operation })?.next
    }

    /// Removes the calls about procs of a job that is gone.
    pub(super) fn forget_job(&mut self, nspace: &Nspace) {
        self.0.retain(|_, call| !call.jobs.contains(nspace));
    }

    /// Returns true if all calls are answered.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn call(&mut self, key: &GroupKey, operation: GroupOperation) -> Option<&mut HostCall> {
        let key = key.clone();
        self.0.get_mut(&NamedOperation { key, operation })
    }
}
