//! Process sets: named sets of procs, defined by the host environment. Each user has a name space.
use peal_model::{Nspace, Proc, Text};
use std::collections::BTreeMap;
use thiserror::Error;

/// A process set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pset {
    /// The name.
    pub name: Text,
    /// The members, in the host environment's order.
    pub members: Vec<Proc>,
}

/// The reason why a process set is not defined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PsetError {
    /// The set has no members.
    #[error("process set {0:?} has no members; it needs at least one")]
    Empty(Text),
    /// A member belongs to no job of this server.
    #[error("process set {name:?} names {proc}, which is in no job of this server")]
    Unknown {
        /// The name of the set.
        name: Text,
        /// The member.
        proc: Proc,
    },
    /// The members belong to several users.
    #[error("process set {0:?} has procs of several users; all must be of one")]
    Mixed(Text),
    /// The user has a set of this name.
    #[error("user {uid} has a process set {name:?} already; names must differ")]
    Exists {
        /// The name of the set.
        name: Text,
        /// The user.
        uid: u32,
    },
}

/// All process sets of a server.
#[derive(Debug, Default)]
pub(crate) struct Psets(BTreeMap<(u32, Text), Pset>);

impl Psets {
    pub(crate) fn define(&mut self, uid: u32, pset: Pset) -> Result<(), PsetError> {
        let key = (uid, pset.name.clone());
        if self.0.contains_key(&key) {
            return Err(PsetError::Exists {
                name: pset.name,
                uid,
            });
        }
        self.0.insert(key, pset);
        Ok(())
    }

    /// Removes the sets with procs of a removed job.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) -> Vec<(u32, Pset)> {
        let has = |pset: &Pset| pset.members.iter().any(|proc| proc.nspace == *nspace);
        self.0
            .extract_if(.., |_, pset| has(pset))
            .map(|((uid, _), pset)| (uid, pset))
            .collect()
    }

    /// Returns the sets of a user, by name.
    pub(crate) fn of(&self, uid: u32) -> impl Iterator<Item = &Pset> {
        self.0
            .range((uid, Text::default())..)
            .take_while(move |((whose, _), _)| *whose == uid)
            .map(|(_, pset)| pset)
    }
}
