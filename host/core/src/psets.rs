//! Process sets: named sets of procs, defined by the host environment. Each user has a name space.
use peal_model::{
    Event, Info, Infos, KeyName, Nspace, Proc, Query, Range, Status, Text, UserIdentity, Value, key,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// A process set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pset {
    /// The name.
    pub name: Text,
    /// The members, in the host environment's order.
    pub members: Vec<Proc>,
}

impl Pset {
    /// Returns an event about the set, for the procs of its user.
    pub(crate) fn to_event(&self, code: Status, more: Vec<Info>) -> Event {
        let mut infos = vec![
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(key::PMIX_PSET_NAME, Value::String(Some(self.name.clone()))),
        ];
        infos.extend(more);
        Event {
            code,
            source: None,
            range: Range::Local,
            infos,
        }
    }
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
#[derive(Debug, Default, Serialize, Deserialize)]
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

    /// Removes the sets of this name that have a proc of one of these jobs.
    pub(crate) fn drop_named(&mut self, name: &Text, jobs: &[Nspace]) -> Vec<(u32, Pset)> {
        let is_of_jobs = |pset: &Pset| {
            let mut members = pset.members.iter();
            members.any(|proc| jobs.contains(&proc.nspace))
        };
        self.0
            .extract_if(.., |_, pset| pset.name == *name && is_of_jobs(pset))
            .map(|((uid, _), pset)| (uid, pset))
            .collect()
    }

    /// Returns the sets of a user, by name.
    pub(crate) fn of(&self, uid: u32) -> impl Iterator<Item = &Pset> {
        self.0
            // The empty text sorts before all names.
            .range((uid, Text::default())..)
            .take_while(move |((owner, _), _)| *owner == uid)
            .map(|(_, pset)| pset)
    }

    /// Answers queries about the process sets of the requester's user.
    pub(crate) fn query(&self, identity: UserIdentity, queries: &[Query]) -> Vec<Info> {
        let sets: Vec<&Pset> = self.of(identity.uid).collect();
        let mut infos = Vec::new();
        for query in queries {
            let meant = query
                .qualifiers
                .value_of(key::PMIX_PSET_NAME)
                .and_then(Value::as_str);
            // Other keys are answered elsewhere.
            for name in query.keys.iter().flatten().filter_map(Text::as_str) {
                let is = |key: KeyName| name == key.0;
                if is(key::PMIX_QUERY_NUM_PSETS) {
                    infos.push(Info::new(
                        key::PMIX_QUERY_NUM_PSETS,
                        Value::Size(sets.len() as u64),
                    ));
                } else if is(key::PMIX_QUERY_PSET_NAMES) {
                    let names: Vec<&str> =
                        sets.iter().filter_map(|set| set.name.as_str()).collect();
                    infos.push(Info::new(
                        key::PMIX_QUERY_PSET_NAMES,
                        Value::string(&names.join(",")),
                    ));
                } else if is(key::PMIX_QUERY_PSET_MEMBERSHIP)
                    // A name that is not UTF-8 must not match a query that names no set.
                    && let Some(meant) = meant
                    && let Some(set) = sets.iter().find(|set| set.name.as_str() == Some(meant))
                {
                    let members = Value::procs(set.members.iter().cloned());
                    infos.push(Info::new(key::PMIX_QUERY_PSET_MEMBERSHIP, members));
                }
            }
        }
        infos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Rank;

    #[test]
    fn query_without_a_name_matches_no_unprintable_set() {
        let mut psets = Psets::default();
        let pset = Pset {
            name: Text::from_bytes(b"\xff"),
            members: vec![Proc::new(Nspace::new("job").unwrap(), Rank(0))],
        };
        psets.define(1000, pset).unwrap();
        let query = Query {
            keys: vec![Some(key::PMIX_QUERY_PSET_MEMBERSHIP.0.into())],
            qualifiers: Vec::new(),
        };
        let identity = UserIdentity {
            uid: 1000,
            gid: 100,
        };
        assert_eq!(psets.query(identity, &[query]), Vec::new());
    }
}
