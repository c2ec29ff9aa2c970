//! Jobs that an event may reach, by the user scope of its source.
use peal_core::user_scope::UserScope;
use peal_model::{Nspace, Proc, Rank, UserIdentity};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Jobs that an event may reach.
#[derive(Clone, PartialEq, Debug)]
pub struct ReachedJobs {
    reach: UserScope,
    /// Jobs of this server with their users, at the time when the event was raised.
    jobs: Arc<Vec<(Nspace, UserIdentity)>>,
}

impl ReachedJobs {
    /// Returns the jobs that an event with this user scope may reach.
    pub fn new(reach: UserScope, jobs: Arc<Vec<(Nspace, UserIdentity)>>) -> ReachedJobs {
        ReachedJobs { reach, jobs }
    }

    /// Returns every job, for an event of the resource manager.
    pub fn all() -> ReachedJobs {
        ReachedJobs {
            reach: UserScope::Everybody,
            jobs: Arc::default(),
        }
    }

    /// Returns true if one of the procs belongs to a job that the event may reach.
    pub fn include_any(&self, procs: &[Proc]) -> bool {
        match self.reach {
            UserScope::Everybody => !procs.is_empty(),
            UserScope::User(_) => self
                .own()
                .any(|nspace| procs.iter().any(|proc| proc.nspace == *nspace)),
        }
    }

    /// Returns the ranks of these procs by job, without jobs that the event may not reach.
    pub fn ranks_of(&self, procs: Vec<Proc>) -> BTreeMap<Nspace, Vec<Rank>> {
        let own: BTreeSet<&Nspace> = self.own().collect();
        let mut jobs: BTreeMap<Nspace, Vec<Rank>> = BTreeMap::new();
        for Proc { nspace, rank } in procs {
            if self.reach == UserScope::Everybody || own.contains(&nspace) {
                jobs.entry(nspace).or_default().push(rank);
            }
        }
        jobs
    }

    /// Returns the jobs of users in the scope.
    fn own(&self) -> impl Iterator<Item = &Nspace> {
        self.jobs
            .iter()
            .filter(|(_, identity)| self.reach.includes(Some(identity.uid)))
            .map(|(nspace, _)| nspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_a_user_reaches_that_users_jobs_only() {
        let nspace = |name: &str| Nspace::new(name).unwrap();
        let proc = |name: &str, rank| Proc::new(nspace(name), Rank(rank));
        let of = |name: &str, uid| (nspace(name), UserIdentity { uid, gid: uid });
        let jobs = Arc::new(vec![of("own", 7), of("other", 8)]);
        let own = ReachedJobs::new(UserScope::User(7), jobs.clone());
        let affected = vec![
            proc("other", 0),
            proc("own", 1),
            proc("gone", 0),
            proc("own", 2),
        ];
        assert_eq!(
            own.ranks_of(affected.clone()),
            [(nspace("own"), vec![Rank(1), Rank(2)])].into()
        );
        assert!(
            own.include_any(&affected) && !own.include_any(&[proc("other", 0), proc("gone", 0)])
        );
        let granted = ReachedJobs::new(UserScope::Everybody, jobs);
        assert_eq!(granted.ranks_of(affected.clone()).len(), 3);
        assert!(granted.include_any(&affected[..1]) && !granted.include_any(&[]));
    }
}
