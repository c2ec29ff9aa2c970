//! Published data and the lookups that wait for them, separate for each user.
mod request;
mod scope;
mod user_publications;

use crate::quota::{Quota, QuotaRefusals, QuotaReport, unreserved};
use peal_model::{Info, Nspace, Pdata, Proc, Status, Text, code};
use request::{Lookup, Publication, keys_of};
use std::{collections::BTreeMap, time::Duration};
use thiserror::Error;
use user_publications::UserPublications;

/// Limits for one user and in total. An eighth of each total is reserved for root and the server's
/// user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishLimits {
    /// Number of items.
    pub items: PublishLimit,
    /// Memory of the items, in bytes.
    pub bytes: PublishLimit,
    /// Number of keys in waiting lookups.
    pub waits: PublishLimit,
}

/// Limit of one resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishLimit {
    /// Share of one user.
    pub user: usize,
    /// Total.
    pub total: usize,
}

impl Default for PublishLimits {
    fn default() -> PublishLimits {
        let limit = |user| PublishLimit {
            user,
            total: 4 * user,
        };
        PublishLimits {
            items: limit(4096),
            bytes: limit(64 << 20),
            waits: limit(4096),
        }
    }
}

/// Reason for which a request about published data is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PublishRefusal {
    /// The request is invalid, or nothing is found.
    #[error("{0}")]
    Status(Status),
    /// The user has used up its share, or all users what there is for them.
    #[error("published data are at a limit ({})", setting(*.limit, *.quota))]
    Limit {
        /// The resource.
        quota: Quota,
        /// The limit.
        limit: ReachedLimit,
    },
}

/// Limit that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReachedLimit {
    /// The share of one user.
    User,
    /// The total.
    Total,
}

/// Returns the setting of a limit.
fn setting(limit: ReachedLimit, quota: Quota) -> &'static str {
    let settings = quota.settings();
    match limit {
        ReachedLimit::User => settings.share,
        ReachedLimit::Total => settings.total.unwrap_or(settings.share),
    }
}

impl From<Status> for PublishRefusal {
    fn from(status: Status) -> PublishRefusal {
        PublishRefusal::Status(status)
    }
}

impl PublishRefusal {
    /// Returns the status for the requester.
    pub fn status(self) -> Status {
        match self {
            PublishRefusal::Status(status) => status,
            PublishRefusal::Limit { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
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
#[derive(Debug)]
pub struct Published {
    limits: PublishLimits,
    /// User of the server.
    server: u32,
    shelves: BTreeMap<u32, UserPublications>,
    refusals: QuotaRefusals,
    next_wait: u64,
}

/// Amounts of one resource, before a request.
#[derive(Clone, Copy, Debug)]
struct PublishUse {
    quota: Quota,
    limit: PublishLimit,
    user: usize,
    total: usize,
}

impl Published {
    /// Creates an empty store of a server that runs as this user.
    pub fn new(limits: PublishLimits, server: u32) -> Published {
        Published {
            limits,
            server,
            shelves: BTreeMap::new(),
            refusals: QuotaRefusals::default(),
            next_wait: 0,
        }
    }

    /// Publishes the data among the infos, all or none. A key may exist once in a range. Returns
    /// the waiting lookups that finish by this. They get data with persistence
    /// `PMIX_PERSIST_FIRST_READ` before other lookups.
    pub fn publish(
        &mut self,
        by: &DataRequester,
        infos: Vec<Info>,
    ) -> Result<Vec<FinishedLookup>, PublishRefusal> {
        let publication = Publication::read(&by.proc, infos)?;
        if self
            .shelves
            .get(&by.uid)
            .is_some_and(|shelf| shelf.has_any(&publication))
            || publication.repeats_a_key()
        {
            return Err(code::PMIX_ERR_DUPLICATE_KEY.into());
        }
        // Checked first, so that a request is published as a whole or not at all.
        let PublishLimits { items, bytes, .. } = self.limits;
        let used = self.used(
            Quota::PublishedItems,
            items,
            by.uid,
            UserPublications::count,
        );
        self.check(by.uid, used, publication.data.len())?;
        let used = self.used(
            Quota::PublishedBytes,
            bytes,
            by.uid,
            UserPublications::bytes,
        );
        self.check(by.uid, used, publication.bytes())?;
        let shelf = self.shelves.entry(by.uid).or_default();
        let ready = shelf.publish(&by.proc, publication);
        self.tidy(by.uid);
        Ok(ready)
    }

    fn used(
        &self,
        quota: Quota,
        limit: PublishLimit,
        uid: u32,
        amount: fn(&UserPublications) -> usize,
    ) -> PublishUse {
        PublishUse {
            quota,
            limit,
            user: self.shelves.get(&uid).map_or(0, amount),
            total: self.shelves.values().map(amount).sum(),
        }
    }

    /// Checks that a user may have so much more of a resource.
    fn check(&mut self, uid: u32, used: PublishUse, more: usize) -> Result<(), PublishRefusal> {
        let PublishUse {
            quota,
            limit,
            user,
            total,
        } = used;
        let for_users = if uid == 0 || uid == self.server {
            limit.total
        } else {
            unreserved(limit.total)
        };
        let limit = if user.saturating_add(more) > limit.user {
            ReachedLimit::User
        } else if total.saturating_add(more) > for_users {
            ReachedLimit::Total
        } else {
            return Ok(());
        };
        self.refusals.count(uid, quota);
        Err(PublishRefusal::Limit { quota, limit })
    }

    /// Adds what each user has published, and waits for, to a report.
    pub fn report_quotas(&self, report: &mut QuotaReport) {
        let PublishLimits {
            items,
            bytes,
            waits,
        } = self.limits;
        for (quota, limit) in [
            (Quota::PublishedItems, items),
            (Quota::PublishedBytes, bytes),
            (Quota::PendingLookups, waits),
        ] {
            report.limit(quota, limit.user, Some(limit.total));
        }
        for (uid, shelf) in &self.shelves {
            report.hold(Quota::PublishedItems, [(*uid, shelf.count())]);
            report.hold(Quota::PublishedBytes, [(*uid, shelf.bytes())]);
            report.hold(Quota::PendingLookups, [(*uid, shelf.awaited())]);
        }
        report.refuse(&self.refusals);
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
    ) -> Result<LookupResult, PublishRefusal> {
        let lookup = Lookup::read(&by.proc, keys, infos)?;
        let shelf = self.shelves.entry(by.uid).or_default();
        let found = shelf.find(&by.proc, &lookup);
        self.tidy(by.uid);
        match found {
            // A lookup that waits finds `None` until its data are complete.
            Some(found) if found.is_empty() => Err(code::PMIX_ERR_NOT_FOUND.into()),
            Some(found) => Ok(LookupResult::Found(found)),
            None => {
                let limit = self.limits.waits;
                let used = self.used(
                    Quota::PendingLookups,
                    limit,
                    by.uid,
                    UserPublications::awaited,
                );
                self.check(by.uid, used, lookup.keys.len())?;
                self.next_wait += 1;
                let id = WaitId(self.next_wait);
                let timeout = lookup.timeout;
                let shelf = self.shelves.entry(by.uid).or_default();
                shelf.wait(id, by.proc.clone(), lookup);
                Ok(LookupResult::Waits(id, timeout))
            }
        }
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
