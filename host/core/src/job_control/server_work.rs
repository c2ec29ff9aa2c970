//! Work that one server does for another one.
use super::{
    CheckpointMethod, CheckpointOrder, JobAction, JobControl, JobControlOperation, is_name,
    methods_are_valid,
};
use peal_model::{Info, Proc, Value, key};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// Procs of which a checkpoint is requested by the same methods.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcsOfMethods {
    /// The methods, in the order in which they are tried.
    pub methods: Vec<CheckpointMethod>,
    /// Single procs of the receiver.
    pub procs: Vec<Proc>,
}

/// A checkpoint of procs of another server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerCheckpoint {
    /// The name of the request at the server that orders it, which procs are told.
    pub request: String,
    /// The name of the checkpoint.
    pub name: String,
    /// The time after which procs that have not reported have failed.
    pub timeout: Duration,
    /// The procs.
    pub procs: Vec<ProcsOfMethods>,
}

impl ServerCheckpoint {
    /// Groups procs by their methods.
    pub(crate) fn group(
        methods: &BTreeMap<Proc, VecDeque<CheckpointMethod>>,
    ) -> Vec<ProcsOfMethods> {
        let mut by_methods: BTreeMap<&VecDeque<CheckpointMethod>, Vec<Proc>> = BTreeMap::new();
        for (proc, methods) in methods {
            by_methods.entry(methods).or_default().push(proc.clone());
        }
        let procs = by_methods.into_iter();
        procs
            .map(|(methods, procs)| ProcsOfMethods {
                methods: methods.iter().copied().collect(),
                procs,
            })
            .collect()
    }

    /// Returns the methods of each proc.
    pub(crate) fn methods(&self) -> BTreeMap<Proc, VecDeque<CheckpointMethod>> {
        let procs = self.procs.iter().flat_map(|of| {
            let procs = of.procs.iter().cloned();
            procs.map(|proc| (proc, of.methods.iter().copied().collect()))
        });
        procs.collect()
    }

    /// Returns true if each proc has methods that a proc can declare, and the names are names.
    fn is_valid(&self) -> bool {
        let has_methods = |of: &ProcsOfMethods| methods_are_valid(&of.methods);
        is_name(&self.name) && is_name(&self.request) && self.procs.iter().all(has_methods)
    }
}

/// Work for another server on procs of this node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ServerWork {
    /// The host environment acts.
    Act(JobControl),
    /// Procs make a checkpoint.
    Checkpoint(ServerCheckpoint),
}

impl ServerWork {
    /// Returns the operation.
    pub(crate) fn operation(&self) -> JobControlOperation {
        match self {
            ServerWork::Act(control) => JobControlOperation::Act(control.action.clone()),
            ServerWork::Checkpoint(checkpoint) => {
                JobControlOperation::Checkpoint(CheckpointOrder {
                    checkpoint: checkpoint.name.clone(),
                    method: None,
                    timeout: Some(checkpoint.timeout),
                })
            }
        }
    }

    /// Returns the directives that request the operation. Those of a checkpoint have each method.
    pub(crate) fn directives(&self) -> Vec<Info> {
        match self {
            ServerWork::Act(control) => vec![control.action.directive()],
            ServerWork::Checkpoint(checkpoint) => {
                let name = Value::string(&checkpoint.name);
                let name = Info::new(key::PMIX_JOB_CTRL_CHECKPOINT, name);
                let methods = checkpoint.procs.iter().flat_map(|of| &of.methods);
                let methods: BTreeSet<&CheckpointMethod> = methods.collect();
                let methods = methods.into_iter().map(CheckpointMethod::info);
                std::iter::once(name).chain(methods).collect()
            }
        }
    }

    /// Returns the name that the request keeps, if it has one.
    pub(crate) fn request(&self) -> Option<&str> {
        match self {
            ServerWork::Act(_) => None,
            ServerWork::Checkpoint(checkpoint) => Some(&checkpoint.request),
        }
    }

    /// Returns true if a server may order the work.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            ServerWork::Act(control) => match control.action {
                JobAction::Signal(number) => CheckpointMethod::Signal(number).is_valid(),
                _ => true,
            },
            ServerWork::Checkpoint(checkpoint) => checkpoint.is_valid(),
        }
    }

    /// Returns the procs.
    pub(crate) fn procs(&self) -> Vec<Proc> {
        match self {
            ServerWork::Act(control) => control.targets.clone(),
            ServerWork::Checkpoint(checkpoint) => {
                let procs = checkpoint.procs.iter().flat_map(|of| of.procs.iter());
                procs.cloned().collect()
            }
        }
    }

    /// Returns the work on these procs alone.
    pub(crate) fn on(self, procs: &[Proc]) -> ServerWork {
        let procs: BTreeSet<&Proc> = procs.iter().collect();
        let mut work = self;
        match &mut work {
            ServerWork::Act(control) => control.targets.retain(|proc| procs.contains(proc)),
            ServerWork::Checkpoint(checkpoint) => {
                for of in &mut checkpoint.procs {
                    of.procs.retain(|proc| procs.contains(proc));
                }
            }
        }
        work
    }
}
