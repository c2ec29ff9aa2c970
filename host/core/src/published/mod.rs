//! Published data and the lookups that wait for them, separate for each user.
//!
//! Each server has a store with the data of its own procs. One of the servers, the holder, has those of
//! all servers that others may see ([`PublicationScope::is_shared`]), and answers lookups over them.
mod limits;
mod message;
mod request;
mod scope;
mod shared;
mod user_publications;

pub use self::{
    limits::{PublishAmounts, PublishLimit, PublishLimits, PublishRefusal, ReachedLimit},
    message::PublishedDataMessage,
    request::{DataRequester, ItemNumber, Publication, PublicationItem, PublishedLookup},
    scope::PublicationScope,
};
use crate::{
    group::ServerId,
    quota::{Quota, QuotaRefusals, QuotaReport, unreserved},
};
use peal_model::{Info, Key, Nspace, Pdata, Proc, Status, Text, code};
use request::keys_of;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use user_publications::{PublishedItem, SoughtItems, UserPublications};

/// Identifier of a waiting lookup; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct WaitId(u64);

/// A proc that looks up data, and its server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seeker {
    /// The proc.
    pub proc: Proc,
    /// The server; none for this one.
    pub server: Option<ServerId>,
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Debug)]
pub enum LookupResult {
    /// The found data.
    Found(Vec<Pdata>),
    /// The lookup waits.
    Waits(WaitId),
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
#[derive(Debug, Serialize, Deserialize)]
pub struct Published {
    #[serde(skip)]
    limits: PublishLimits,
    /// User of the server.
    server: u32,
    shelves: BTreeMap<u32, UserPublications>,
    refusals: QuotaRefusals,
    next_wait: u64,
    next_item: u64,
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
            next_item: 0,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: PublishLimits) {
        self.limits = limits;
    }

    /// Sets the user that the server runs as.
    pub fn set_server(&mut self, server: u32) {
        self.server = server;
    }

    /// Parses a publish request of a proc of this server, and numbers its items.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a request without data or with invalid directives, and
    /// `PMIX_ERR_NOT_SUPPORTED` for one with an access list.
    pub fn read(&mut self, by: &DataRequester, infos: Vec<Info>) -> Result<Publication, Status> {
        Publication::read(by, infos, &mut self.next_item)
    }

    /// Publishes the data of a proc of this server (none) or another one, all or none. A key may
    /// exist once in a range. Returns the waiting lookups that finish by this. They get data with
    /// persistence `PMIX_PERSIST_FIRST_READ` before other lookups.
    pub fn publish(
        &mut self,
        server: Option<ServerId>,
        publication: Publication,
    ) -> Result<Vec<FinishedLookup>, PublishRefusal> {
        // Checked first, so that a request is published as a whole or not at all.
        self.check_keys(&publication)?;
        let uid = publication.by.uid;
        self.check(uid, publication.amounts())?;
        let shelf = self.shelves.entry(uid).or_default();
        let ready = shelf.publish(server, publication);
        self.tidy(uid);
        Ok(ready)
    }

    /// Checks that no key of a publication exists in its range.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_DUPLICATE_KEY` otherwise.
    pub fn check_keys(&self, publication: &Publication) -> Result<(), Status> {
        let shelf = self.shelves.get(&publication.by.uid);
        if shelf.is_some_and(|shelf| shelf.has_any(publication)) || publication.repeats_a_key() {
            return Err(code::PMIX_ERR_DUPLICATE_KEY);
        }
        Ok(())
    }

    /// Charges a request that waits for another server to a user.
    pub fn hold(&mut self, uid: u32, amounts: PublishAmounts) -> Result<(), PublishRefusal> {
        self.check(uid, amounts)?;
        let shelf = self.shelves.entry(uid).or_default();
        shelf.held = shelf.held.plus(amounts);
        self.tidy(uid);
        Ok(())
    }

    /// Takes a charge back.
    pub fn release(&mut self, uid: u32, amounts: PublishAmounts) {
        if let Some(shelf) = self.shelves.get_mut(&uid) {
            shelf.held = shelf.held.minus(amounts);
        }
        self.tidy(uid);
    }

    /// Checks that a user may have so much more.
    fn check(&mut self, uid: u32, more: PublishAmounts) -> Result<(), PublishRefusal> {
        let own = self.shelves.get(&uid).map(UserPublications::amounts);
        let own = own.unwrap_or_default();
        let all = self.shelves.values().map(UserPublications::amounts);
        let all = all.fold(PublishAmounts::default(), PublishAmounts::plus);
        let PublishLimits {
            items,
            bytes,
            waits,
        } = self.limits;
        let is_site = uid == 0 || uid == self.server;
        let reached = [
            (
                Quota::PublishedItems,
                items,
                more.items,
                own.items,
                all.items,
            ),
            (
                Quota::PublishedBytes,
                bytes,
                more.bytes,
                own.bytes,
                all.bytes,
            ),
            (
                Quota::PendingLookups,
                waits,
                more.waits,
                own.waits,
                all.waits,
            ),
        ]
        .into_iter()
        .find_map(|(quota, limit, more, own, all)| {
            let for_users = if is_site {
                limit.total
            } else {
                unreserved(limit.total)
            };
            match () {
                () if more == 0 => None,
                () if own.saturating_add(more) > limit.user => Some((quota, ReachedLimit::User)),
                () if all.saturating_add(more) > for_users => Some((quota, ReachedLimit::Total)),
                () => None,
            }
        });
        let Some((quota, limit)) = reached else {
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
            let amounts = shelf.amounts();
            report.hold(Quota::PublishedItems, [(*uid, amounts.items)]);
            report.hold(Quota::PublishedBytes, [(*uid, amounts.bytes)]);
            report.hold(Quota::PendingLookups, [(*uid, amounts.waits)]);
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
        uid: u32,
        seeker: &Seeker,
        lookup: &PublishedLookup,
    ) -> Result<LookupResult, PublishRefusal> {
        match self.find(uid, seeker, lookup, SoughtItems::All) {
            // A lookup that waits finds `None` until its data are complete.
            Some(found) if found.is_empty() => Err(code::PMIX_ERR_NOT_FOUND.into()),
            Some(found) => Ok(LookupResult::Found(found)),
            None => {
                self.check(uid, lookup.amounts())?;
                self.next_wait += 1;
                let id = WaitId(self.next_wait);
                let shelf = self.shelves.entry(uid).or_default();
                shelf.wait(id, seeker.clone(), lookup.clone());
                Ok(LookupResult::Waits(id))
            }
        }
    }

    /// Returns the keys of a lookup by a proc of this server that exist in ranges which no other
    /// server sees.
    pub fn visible_unshared(&self, by: &DataRequester, lookup: &PublishedLookup) -> BTreeSet<Key> {
        let seeker = Seeker {
            proc: by.proc.clone(),
            server: None,
        };
        let shelf = self.shelves.get(&by.uid);
        shelf.map_or_else(BTreeSet::new, |shelf| {
            shelf.visible(&seeker, lookup, SoughtItems::Unshared)
        })
    }

    /// Reads the data of these keys; none if the lookup requires more of them.
    pub fn read_unshared(
        &mut self,
        by: &DataRequester,
        lookup: &PublishedLookup,
    ) -> Option<Vec<Pdata>> {
        let seeker = Seeker {
            proc: by.proc.clone(),
            server: None,
        };
        self.find(by.uid, &seeker, lookup, SoughtItems::Unshared)
    }

    fn find(
        &mut self,
        uid: u32,
        seeker: &Seeker,
        lookup: &PublishedLookup,
        among: SoughtItems,
    ) -> Option<Vec<Pdata>> {
        let shelf = self.shelves.entry(uid).or_default();
        let found = shelf.find(seeker, lookup, among);
        self.tidy(uid);
        found
    }

    /// Returns the items of each other server that were read and removed since the last call,
    /// because they persist until the first read.
    pub fn drain_taken(&mut self) -> BTreeMap<ServerId, BTreeSet<ItemNumber>> {
        let mut taken: BTreeMap<ServerId, BTreeSet<ItemNumber>> = BTreeMap::new();
        for shelf in self.shelves.values_mut() {
            for (server, number) in std::mem::take(&mut shelf.taken) {
                taken.entry(server).or_default().insert(number);
            }
        }
        self.shelves.retain(|_, shelf| !shelf.is_empty());
        taken
    }

    /// Returns true if a lookup still waits.
    pub fn awaits(&self, wait: WaitId) -> bool {
        self.shelves.values().any(|shelf| shelf.awaits(wait))
    }

    /// Removes a waiting lookup.
    pub fn give_up(&mut self, wait: WaitId) {
        self.each(|shelf| shelf.give_up(|id, _| id == wait));
    }

    /// Withdraws the data that a proc of this server has published under these keys; without keys,
    /// all of them. Returns those that other servers may see, as the functions below do.
    pub fn unpublish(
        &mut self,
        by: &DataRequester,
        keys: &[Text],
    ) -> Result<Vec<ItemNumber>, Status> {
        let keys = keys_of(keys)?;
        let shelf = self.shelves.get_mut(&by.uid);
        let withdrawn = shelf.map(|shelf| {
            shelf.withdraw(|key, item| {
                item.is_of(&by.proc) && (keys.is_empty() || keys.contains(key))
            })
        });
        self.tidy(by.uid);
        Ok(withdrawn.unwrap_or_default())
    }

    /// Handles the end of a proc of this server: removes its data that persist only as long, and its
    /// waiting lookups.
    pub fn proc_ended(&mut self, proc: &Proc) -> Vec<ItemNumber> {
        self.end(
            |item| item.is_of(proc) && item.ends_with_its_proc(),
            |seeker| seeker == proc,
        )
    }

    /// Handles the departure of a tool, which counts as its own job.
    pub fn tool_left(&mut self, tool: &Proc) -> Vec<ItemNumber> {
        self.end(
            |item| item.is_of(tool) && item.ends_with_its_job(),
            |seeker| seeker == tool,
        )
    }

    /// Handles the end of a job: data of its procs are removed unless their persistence is longer.
    pub fn job_ended(&mut self, nspace: &Nspace) -> Vec<ItemNumber> {
        self.end(
            |item| item.is_here() && item.by.nspace == *nspace && item.ends_with_its_job(),
            |seeker| seeker.nspace == *nspace,
        )
    }

    /// Handles the end of a user's last job: data that persist as long as the session are removed.
    pub fn session_ended(&mut self, uid: u32) -> Vec<ItemNumber> {
        let shelf = self.shelves.get_mut(&uid);
        let withdrawn = shelf
            .map(|shelf| shelf.withdraw(|_, item| item.is_here() && item.ends_with_its_session()));
        self.tidy(uid);
        withdrawn.unwrap_or_default()
    }

    /// Removes items and lookups of procs of this server.
    fn end(
        &mut self,
        is_meant: impl Fn(&PublishedItem) -> bool,
        has_ended: impl Fn(&Proc) -> bool,
    ) -> Vec<ItemNumber> {
        let mut withdrawn = Vec::new();
        self.each(|shelf| {
            withdrawn.extend(shelf.withdraw(|_, item| is_meant(item)));
            shelf.give_up(|_, seeker| seeker.server.is_none() && has_ended(&seeker.proc));
        });
        withdrawn
    }

    fn each(&mut self, change: impl FnMut(&mut UserPublications)) {
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
