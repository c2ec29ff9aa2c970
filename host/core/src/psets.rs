//! Process sets: procs to which the host environment has given a name. Names are each user's own.
use peal_model::{Nspace, Proc, Text};
use std::collections::BTreeMap;
use thiserror::Error;

/// A process set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pset {
    /// What it is called.
    pub name: Text,
    /// Who is in it, in the host's order.
    pub members: Vec<Proc>,
}

/// Why a process set is not defined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PsetError {
    /// Nobody is in it.
    #[error("process set {0:?} has no members; it needs at least one")]
    Empty(Text),
    /// Somebody in it is in no job here.
    #[error("process set {name:?} names {proc}, who is in no job of this server")]
    Unknown {
        /// The set.
        name: Text,
        /// Who.
        proc: Proc,
    },
    /// Its members are not of one user.
    #[error("process set {0:?} has procs of several users; all must be of one")]
    Mixed(Text),
    /// The user has one of that name.
    #[error("user {uid} has a process set {name:?} already; names must differ")]
    Exists {
        /// The set.
        name: Text,
        /// Whose.
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

    /// A job is gone: the sets in which procs of it were go with it.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) -> Vec<(u32, Pset)> {
        let has = |pset: &Pset| pset.members.iter().any(|proc| proc.nspace == *nspace);
        self.0
            .extract_if(.., |_, pset| has(pset))
            .map(|((uid, _), pset)| (uid, pset))
            .collect()
    }

    /// Those of a user, by name.
    pub(crate) fn of(&self, uid: u32) -> impl Iterator<Item = &Pset> {
        self.0
            .range((uid, Text::default())..)
            .take_while(move |((whose, _), _)| *whose == uid)
            .map(|(_, pset)| pset)
    }
}
