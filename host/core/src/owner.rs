//! Owners of hosted handlers, with one chain each, and their order.
use crate::{audience, user_scope::UserScope};
use peal_model::{Event, Nspace, Proc};
use std::fmt;

/// The owner of a chain. The order of the variants is the order in which the chains run. No owner
/// sees, precedes or ends the chain of an earlier one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    /// The site. Its handlers see every event that the server distributes, and events for the
    /// resource manager where the host environment leaves these to them.
    Site,
    /// A user. Its handlers see the events that concern its jobs.
    User(u32),
    /// A job. Its handlers see the events that concern its procs.
    Namespace(Nspace),
}

impl Owner {
    /// Returns the proc that the owner's handlers register as: all procs of a job, none for others.
    pub fn registrant(&self) -> Option<Proc> {
        match self {
            Owner::Site | Owner::User(_) => None,
            Owner::Namespace(nspace) => Some(Proc::all(nspace.clone())),
        }
    }

    /// Returns true if the owner's handlers see an event of this user scope. `jobs` are the known
    /// namespaces with their users.
    pub fn sees<'a>(
        &self,
        event: &Event,
        reach: UserScope,
        mut jobs: impl Iterator<Item = (&'a Nspace, u32)>,
    ) -> bool {
        match self {
            Owner::Site => true,
            // Events about jobs of other users are hidden, even if the scope includes the user.
            Owner::User(uid) => {
                reach.includes(Some(*uid))
                    && jobs
                        .any(|(nspace, owner)| owner == *uid && audience::concerns(event, nspace))
            }
            Owner::Namespace(nspace) => {
                let user = jobs
                    .find(|(known, _)| *known == nspace)
                    .map(|(_, user)| user);
                reach.includes(user) && audience::concerns(event, nspace)
            }
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Site => f.write_str("site"),
            Owner::User(uid) => write!(f, "user {uid}"),
            Owner::Namespace(nspace) => write!(f, "namespace {nspace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Range, Rank, Status};

    #[test]
    fn site_comes_first_and_tenants_see_own_entries_only() {
        let mine = Nspace::new("mine").unwrap();
        let other = Nspace::new("other").unwrap();
        let site = Owner::Site;
        let user = Owner::User(7);
        let job = Owner::Namespace(mine.clone());
        assert!(site < user && user < job);
        let jobs = [(mine.clone(), 7), (other.clone(), 8)];
        let reaches = |owner: &Owner, event: &Event, reach| {
            owner.sees(
                event,
                reach,
                jobs.iter().map(|(nspace, uid)| (nspace, *uid)),
            )
        };
        let sees = |owner: &Owner, event: &Event| reaches(owner, event, UserScope::Everybody);
        let from = |nspace: &Nspace, range| {
            let source = Some(Proc::new(nspace.clone(), Rank(0)));
            Event {
                code: Status(-1),
                source,
                range,
                infos: Vec::new(),
            }
        };
        for owner in [&site, &user, &job] {
            assert!(sees(owner, &from(&mine, Range::Namespace)));
            assert!(sees(owner, &from(&other, Range::Global)));
            assert_eq!(sees(owner, &from(&other, Range::Namespace)), *owner == site);
            let global = from(&other, Range::Global);
            assert!(reaches(owner, &global, UserScope::User(7)));
            assert_eq!(
                reaches(owner, &global, UserScope::User(8)),
                *owner == site,
                "other users do not reach them"
            );
        }
    }
}
