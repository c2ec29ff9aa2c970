//! Published data and the lookups that wait for them, separate for each user.
mod request;
mod scope;
mod user_publications;

use peal_model::{Info, Nspace, Pdata, Proc, Status, Text, code};
use request::{Lookup, Publication, keys_of};
use std::{collections::BTreeMap, time::Duration};
use user_publications::UserPublications;

/// Limits for one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishLimits {
    /// Number of items.
    pub items: usize,
    /// Memory of the items, in bytes.
    pub bytes: usize,
    /// Number of keys in waiting lookups.
    pub waits: usize,
}

impl Default for PublishLimits {
    fn default() -> PublishLimits {
        PublishLimits {
            items: 4096,
            bytes: 64 << 20,
            waits: 4096,
        }
    }
}

/// Identifier of a waiting lookup; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitId(u64);

/// A proc that publishes or looks up data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRequester {
    /// The proc.
    pub proc: Proc,
    /// The user that it runs as.
    pub uid: u32,
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Debug)]
pub enum LookupResult {
    /// The found data.
    Found(Vec<Pdata>),
    /// The lookup waits; with a timeout, the caller calls [`Published::give_up`] when it is over.
    Waits(WaitId, Option<Duration>),
}

/// A waiting lookup that has finished.
#[derive(Clone, PartialEq, Debug)]
pub struct FinishedLookup {
    /// The lookup.
    pub wait: WaitId,
    /// The found data.
    pub found: Vec<Pdata>,
}

/// All published data and waiting lookups.
#[derive(Debug, Default)]
pub struct Published {
    limits: PublishLimits,
    shelves: BTreeMap<u32, UserPublications>,
    next_wait: u64,
}

impl Published {
    /// Creates an empty store.
    pub fn new(limits: PublishLimits) -> Published {
        Published {
            limits,
            ..Published::default()
        }
    }

    /// Publishes the data among the infos, all or none. A key may exist once in a range. Returns
    /// the waiting lookups that finish by this. They get data with persistence
    /// `PMIX_PERSIST_FIRST_READ` before other lookups.
    pub fn publish(
        &mut self,
        by: &DataRequester,
        infos: Vec<Info>,
    ) -> Result<Vec<FinishedLookup>, Status> {
        let publication = Publication::read(&by.proc, infos)?;
        let shelf = self.shelves.entry(by.uid).or_default();
        // A refused request leaves an empty entry of its user, which `tidy` removes.
        let ready = shelf.publish(&by.proc, publication, &self.limits);
        self.tidy(by.uid);
        ready
    }

    /// Looks up keys and returns the found data in the order of the keys. The lookup waits if it
    /// requests more data than exist.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if nothing exists and the lookup does not wait.
    pub fn lookup(
        &mut self,
        by: &DataRequester,
        keys: &[Text],
        infos: &[Info],
    ) -> Result<LookupResult, Status> {
        let lookup = Lookup::read(&by.proc, keys, infos)?;
        let shelf = self.shelves.entry(by.uid).or_default();
        let looked = match shelf.find(&by.proc, &lookup) {
            // A lookup that waits finds `None` until its data are complete.
            Some(found) if found.is_empty() => Err(code::PMIX_ERR_NOT_FOUND),
            Some(found) => Ok(LookupResult::Found(found)),
            None if shelf.awaited().saturating_add(lookup.keys.len()) > self.limits.waits => {
                Err(code::PMIX_ERR_OUT_OF_RESOURCE)
            }
            None => {
                self.next_wait += 1;
                let id = WaitId(self.next_wait);
                let timeout = lookup.timeout;
                shelf.wait(id, by.proc.clone(), lookup);
                Ok(LookupResult::Waits(id, timeout))
            }
        };
        self.tidy(by.uid);
        looked
    }

    /// Returns true if a lookup still waits.
    pub fn awaits(&self, wait: WaitId) -> bool {
        self.shelves.values().any(|shelf| shelf.awaits(wait))
    }

    /// Removes a waiting lookup.
    pub fn give_up(&mut self, wait: WaitId) {
        self.each(|shelf| shelf.give_up(|id, _| id == wait));
    }

    /// Withdraws the data that a proc has published under these keys; without keys, all of them.
    pub fn unpublish(&mut self, by: &DataRequester, keys: &[Text]) -> Result<(), Status> {
        let keys = keys_of(keys)?;
        if let Some(shelf) = self.shelves.get_mut(&by.uid) {
            shelf.withdraw(|key, item| {
                item.by == by.proc && (keys.is_empty() || keys.contains(key))
            });
        }
        self.tidy(by.uid);
        Ok(())
    }

    /// Handles the end of a proc: removes its data that persist only as long, and its waiting lookups.
    pub fn proc_ended(&mut self, proc: &Proc) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.by == *proc && item.ends_with_its_proc());
            shelf.give_up(|_, by| by == proc);
        });
    }

    /// Handles the departure of a tool, which counts as its own job.
    pub fn tool_left(&mut self, tool: &Proc) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.by == *tool && item.ends_with_its_job());
            shelf.give_up(|_, by| by == tool);
        });
    }

    /// Handles the end of a job: data of its procs are removed unless their persistence is longer.
    pub fn job_ended(&mut self, nspace: &Nspace) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.by.nspace == *nspace && item.ends_with_its_job());
            shelf.give_up(|_, by| by.nspace == *nspace);
        });
    }

    /// Handles the end of a user's last job: data that persist as long as the session are removed.
    pub fn session_ended(&mut self, uid: u32) {
        if let Some(shelf) = self.shelves.get_mut(&uid) {
            shelf.withdraw(|_, item| item.ends_with_its_session());
        }
        self.tidy(uid);
    }

    fn each(&mut self, change: impl Fn(&mut UserPublications)) {
        self.shelves.values_mut().for_each(change);
        self.shelves.retain(|_, shelf| !shelf.is_empty());
    }

    fn tidy(&mut self, uid: u32) {
        // Each user that was ever refused would otherwise keep an entry.
        if self
            .shelves
            .get(&uid)
            .is_some_and(UserPublications::is_empty)
        {
            self.shelves.remove(&uid);
        }
    }
}
