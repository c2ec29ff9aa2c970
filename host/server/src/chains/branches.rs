//! Owners whose chains an event passes next. The site comes first. The chains of different users
//! run beside each other, each user's before those of its namespaces. An event is queued only for
//! owners that see it.
use super::{ChainEvent, EventInFlight};
use crate::notice::ChainResults;
use peal_core::{owner::Owner, server::EventBudget};
use peal_model::{Nspace, UserIdentity};
use std::sync::{Arc, Mutex, PoisonError};

/// Event that passes the chains of several owners beside each other.
pub(super) struct EventJoin {
    state: Mutex<JoinState>,
}

struct JoinState {
    /// Number of branches that have not ended.
    open: usize,
    /// Results of the chains that have ended.
    results: Vec<ChainResults>,
    awaited: Option<super::Awaited>,
}

impl ChainEvent {
    /// Returns the user of a job of this server.
    pub(super) fn user_of(&self, nspace: &Nspace) -> Option<u32> {
        let job = self.job(nspace)?;
        Some(job.1.uid)
    }

    /// Returns the user of the source: of its process, or of the owner of the module that raised the event.
    pub(super) fn user_of_source(&self) -> Option<u32> {
        let source = || Owner::of_requester(self.event.source.as_ref()?);
        match self.source {
            Some(source) => Some(source.uid),
            None => match source()? {
                Owner::Site => None,
                Owner::User(uid) => Some(uid),
                Owner::Namespace(nspace) => self.user_of(&nspace),
            },
        }
    }

    fn job(&self, nspace: &Nspace) -> Option<&(Nspace, UserIdentity)> {
        // The jobs are sorted by name.
        let at = self.jobs.binary_search_by(|job| job.0.cmp(nspace)).ok()?;
        self.jobs.get(at)
    }

    /// Returns true if the handlers of an owner see the event.
    fn is_seen_by(&self, owner: &Owner) -> bool {
        let uid = |job: &'_ (Nspace, UserIdentity)| job.1.uid;
        match owner {
            Owner::Site => true,
            Owner::User(_) => {
                let jobs = self.jobs.iter().map(|job| (&job.0, uid(job)));
                owner.sees(&self.event, self.reach, jobs)
            }
            Owner::Namespace(nspace) => {
                let job = self.job(nspace).map(|job| (&job.0, uid(job)));
                owner.sees(&self.event, self.reach, job.into_iter())
            }
        }
    }

    /// Returns the owners that follow one, or the first ones, among these. All of them see the
    /// event. `owners` must be sorted.
    pub(super) fn next_owners<'a>(
        &self,
        after: Option<&Owner>,
        owners: impl Iterator<Item = &'a Owner>,
    ) -> Vec<&'a Owner> {
        let mut next = Vec::new();
        // No owner follows a namespace.
        if let Some(Owner::Namespace(_)) = after {
            return next;
        }
        // Users among them, in their order.
        let mut users: Vec<u32> = Vec::new();
        for owner in owners {
            let follows = match (after, owner) {
                (None, Owner::Site) => return vec![owner],
                (None | Some(Owner::Site), Owner::User(_)) => true,
                // The namespaces of a user with a chain follow that chain.
                (None | Some(Owner::Site), Owner::Namespace(nspace)) => self
                    .user_of(nspace)
                    .is_none_or(|uid| users.binary_search(&uid).is_err()),
                (Some(Owner::User(uid)), Owner::Namespace(nspace)) => {
                    self.user_of(nspace) == Some(*uid)
                }
                _ => false,
            };
            if follows && self.is_seen_by(owner) {
                next.push(owner);
                if let Owner::User(uid) = owner {
                    users.push(*uid);
                }
            }
        }
        next
    }

    /// Returns the position of the owner, among these, whose handlers may request the termination
    /// of the job that the event is about: the owner of that job, or else the first one.
    fn decider(&self, owners: &[&Owner]) -> usize {
        let affected = self.event.affected();
        let job = affected.first().map(|proc| &proc.nspace);
        let owns = |owner: &&Owner| match owner {
            Owner::Site => false,
            Owner::User(uid) => job.and_then(|job| self.user_of(job)) == Some(*uid),
            Owner::Namespace(nspace) => Some(nspace) == job,
        };
        owners.iter().position(owns).unwrap_or_default()
    }
}

impl EventInFlight {
    /// Divides an event among owners whose chains it passes beside each other.
    pub(super) fn split(mut self, owners: &[&Owner]) -> Vec<EventInFlight> {
        let decider = if self.entered.termination_reply.is_some() {
            self.entered.decider(owners)
        } else {
            0
        };
        let mut reply = self.entered.termination_reply.take();
        let join = self.join(owners.len());
        let ChainEvent {
            number,
            event,
            origin,
            whole_chains,
            reach,
            allowance,
            source,
            jobs,
            span,
            ..
        } = self.entered;
        let branch = |(position, allowance): (usize, EventBudget)| EventInFlight {
            entered: ChainEvent {
                number,
                event: event.clone(),
                origin,
                whole_chains: whole_chains.clone(),
                reach,
                allowance,
                source,
                jobs: jobs.clone(),
                termination_reply: reply.take_if(|_| position == decider),
                awaited: None,
                span: span.clone(),
            },
            measurement: self.measurement.clone(),
            bytes: self.bytes,
            results: Vec::new(),
            join: Some(join.clone()),
            charge: None,
        };
        let shares = allowance.divided(owners.len());
        shares.enumerate().map(branch).collect()
    }

    /// Adds branches to the event's join, or creates one. The results so far go there.
    fn join(&mut self, branches: usize) -> Arc<EventJoin> {
        let results = std::mem::take(&mut self.results);
        match self.join.take() {
            Some(join) => {
                let mut state = join.state.lock().unwrap_or_else(PoisonError::into_inner);
                // This branch continues as the first of the new ones.
                state.open += branches.saturating_sub(1);
                state.results.extend(results);
                drop(state);
                join
            }
            None => Arc::new(EventJoin {
                state: Mutex::new(JoinState {
                    open: branches,
                    results,
                    awaited: self.entered.awaited.take(),
                }),
            }),
        }
    }

    /// Ends a branch. Returns the whole event, with the results in the order of their owners, after
    /// its last branch.
    pub(super) fn joined(mut self) -> Option<EventInFlight> {
        let Some(join) = self.join.take() else {
            return Some(self);
        };
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut state = join.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.results.append(&mut self.results);
        state.open = state.open.saturating_sub(1);
        if state.open > 0 {
            return None;
        }
        self.results = std::mem::take(&mut state.results);
        self.results
            .sort_by(|one, other| one.owner.cmp(&other.owner));
        self.entered.awaited = state.awaited.take();
        Some(self)
    }
}

#[cfg(test)]
mod tests;
