//! What procs published for others to look up, and the lookups that wait for it. Each user has a shelf, which is nobody else's.
mod request;
mod scope;
mod user_publications;

use peal_model::{Info, Nspace, Pdata, Proc, Status, Text, code};
use request::{Lookup, Publication, keys_of};
use std::{collections::BTreeMap, time::Duration};
use user_publications::UserPublications;

/// How much one user may have published, and waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishLimits {
    /// Items.
    pub items: usize,
    /// Their memory, in bytes.
    pub bytes: usize,
    /// Keys that are waited for.
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

/// A lookup that waits; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitId(u64);

/// Who publishes, or looks up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRequester {
    /// The proc.
    pub proc: Proc,
    /// As which user.
    pub uid: u32,
}

/// What a lookup comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum LookupResult {
    /// This was there.
    Found(Vec<Pdata>),
    /// It waits, at most so long if a time was given: then call [`Published::give_up`].
    Waits(WaitId, Option<Duration>),
}

/// A lookup that has waited long enough, and what it found.
#[derive(Clone, PartialEq, Debug)]
pub struct FinishedLookup {
    /// Which.
    pub wait: WaitId,
    /// What was there.
    pub found: Vec<Pdata>,
}

/// All that is published, and who waits for more.
#[derive(Debug, Default)]
pub struct Published {
    limits: PublishLimits,
    shelves: BTreeMap<u32, UserPublications>,
    next_wait: u64,
}

impl Published {
    /// Nothing yet.
    pub fn new(limits: PublishLimits) -> Published {
        Published {
            limits,
            ..Published::default()
        }
    }

    /// Publishes what is data among the infos: all of it or nothing. Within one range a key is there once. Returns the lookups that
    /// need not wait any longer, which come first to what is to be read once.
    pub fn publish(
        &mut self,
        by: &DataRequester,
        infos: Vec<Info>,
    ) -> Result<Vec<FinishedLookup>, Status> {
        let publication = Publication::read(&by.proc, infos)?;
        let shelf = self.shelves.entry(by.uid).or_default();
        let ready = shelf.publish(&by.proc, publication, &self.limits);
        self.tidy(by.uid);
        ready
    }

    /// Looks keys up: what is there, in the order of the keys, or `PMIX_ERR_NOT_FOUND`. Who wants to wait for more does.
    pub fn lookup(
        &mut self,
        by: &DataRequester,
        keys: &[Text],
        infos: &[Info],
    ) -> Result<LookupResult, Status> {
        let lookup = Lookup::read(&by.proc, keys, infos)?;
        let shelf = self.shelves.entry(by.uid).or_default();
        let looked = match shelf.find(&by.proc, &lookup) {
            Some(found) if found.is_empty() => Err(code::PMIX_ERR_NOT_FOUND),
            Some(found) => Ok(LookupResult::Found(found)),
            None if shelf.awaited().saturating_add(lookup.keys.len()) > self.limits.waits => {
                Err(code::PMIX_ERR_OUT_OF_RESOURCE)
            }
            None => {
                self.next_wait += 1;
                let (id, timeout) = (WaitId(self.next_wait), lookup.timeout);
                shelf.wait(id, by.proc.clone(), lookup);
                Ok(LookupResult::Waits(id, timeout))
            }
        };
        self.tidy(by.uid);
        looked
    }

    /// Whether a lookup still waits.
    pub fn awaits(&self, wait: WaitId) -> bool {
        self.shelves.values().any(|shelf| shelf.awaits(wait))
    }

    /// A lookup waits no more.
    pub fn give_up(&mut self, wait: WaitId) {
        self.each(|shelf| shelf.give_up(|id, _| id == wait));
    }

    /// Withdraws what a proc has published under these keys, or all of it where there are none.
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

    /// A proc has ended, and with it what was to last as long as it. It waits for nothing any more.
    pub fn proc_ended(&mut self, proc: &Proc) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.by == *proc && item.ends_with_its_proc());
            shelf.give_up(|_, by| by == proc);
        });
    }

    /// A tool has left, which is its own job.
    pub fn tool_left(&mut self, tool: &Proc) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.by == *tool && item.ends_with_its_job());
            shelf.give_up(|_, by| by == tool);
        });
    }

    /// A job has ended, and with it what its procs did not publish for longer.
    pub fn job_ended(&mut self, nspace: &Nspace) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.by.nspace == *nspace && item.ends_with_its_job());
            shelf.give_up(|_, by| by.nspace == *nspace);
        });
    }

    /// A user has no job any more, and with the last one went what was to last as long as the session.
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
        if self
            .shelves
            .get(&uid)
            .is_some_and(UserPublications::is_empty)
        {
            self.shelves.remove(&uid);
        }
    }
}
