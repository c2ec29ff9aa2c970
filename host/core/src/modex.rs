//! Values that procs have put, and pending gets for them: direct modex on one node.
use crate::{
    MonotonicTime,
    deadlines::Deadlines,
    put_values::{PutValues, SoughtValue},
    request_id::{PeerId, RequestId},
    user_bytes::{OverShare, UserBytes},
};
use peal_model::{Commit, Kval, Nspace, Proc, RankData, Scope, SharedData, rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The reason for refused values of a proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum PutRefusal {
    /// One key has too many values that differ by their qualifiers.
    #[error("one key has too many values with different qualifiers")]
    Qualified,
    /// The values of the proc exceed their memory.
    #[error("the values of one proc exceed {max} bytes (server.max_put_bytes)")]
    Proc {
        /// The limit, in bytes.
        max: usize,
    },
    /// The values of the user exceed their memory.
    #[error("the values of user {uid} exceed {max} bytes (server.max_put_bytes_per_user)")]
    User {
        /// The user.
        uid: u32,
        /// The limit, in bytes.
        max: usize,
    },
    /// The values of all users together exceed their limit.
    #[error(
        "the values of all users take {max} bytes, which is the limit (server.max_put_bytes_total)"
    )]
    Total {
        /// The user of the proc.
        uid: u32,
        /// The limit, in bytes.
        max: usize,
    },
}

/// Order of the commits of one proc, as its server counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PutVersion(pub u64);

/// The values that a proc has put for procs of other nodes, as they were at one time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PutSnapshot {
    /// The values.
    pub values: RankData,
    /// Tells a later snapshot from an earlier one, which may arrive after it; none where no order is
    /// known.
    pub version: Option<PutVersion>,
}

impl From<RankData> for PutSnapshot {
    /// Returns values whose order is not known.
    fn from(values: RankData) -> PutSnapshot {
        PutSnapshot {
            values,
            version: None,
        }
    }
}

/// The committed values of a proc. Values of global scope are in both sets.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Committed {
    /// Values for procs of this node.
    local: PutValues,
    /// Values for procs of other nodes, and for those of this node that share a group with the
    /// proc.
    remote: PutValues,
    audience: PutVisibility,
    /// The last commit, or the latest snapshot of another server.
    version: Option<PutVersion>,
    /// Memory of both, in bytes.
    bytes: usize,
    /// The user that is charged.
    uid: u32,
    /// The cached answer to gets, the same for all requesters.
    answer: Option<SharedData>,
}

/// The values of a proc that other procs of this node may see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
enum PutVisibility {
    /// Values for this node.
    #[default]
    Node,
    /// All values, because the proc was in a group with procs of this node.
    Group,
}

impl Committed {
    /// Returns true if procs of this node may see a value.
    fn shows(&self, sought: &SoughtValue) -> bool {
        self.local.has(sought) || (self.audience == PutVisibility::Group && self.remote.has(sought))
    }

    /// Returns all values that procs of this node may see.
    fn visible_values(&self) -> impl Iterator<Item = Kval> {
        let remote = self
            .remote
            .kvals_beside(&self.local)
            .filter(|_| self.audience == PutVisibility::Group);
        self.local.kvals().chain(remote)
    }
}

/// A get that waits for its value.
#[derive(Debug, Serialize, Deserialize)]
struct PendingGet {
    request: RequestId,
    sought: Option<SoughtValue>,
    deadline: MonotonicTime,
}

/// All values, and all pending gets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Modex {
    committed: BTreeMap<Proc, Committed>,
    /// Procs that are or were in a group with procs of this node.
    shared: BTreeSet<Proc>,
    pending_gets: BTreeMap<Proc, Vec<PendingGet>>,
    /// Number of pending gets of each connection.
    held_by: BTreeMap<PeerId, usize>,
    deadlines: Deadlines,
    #[serde(skip)]
    max_bytes: usize,
    charged: UserBytes,
    /// Number of commits of all procs.
    commits: u64,
}

/// The user that is charged for values, and the limits on the bytes of that user's values and of all
/// values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PutShare {
    pub(crate) uid: u32,
    pub(crate) max_bytes: usize,
    pub(crate) max_total_bytes: usize,
}

impl Modex {
    pub(crate) fn new(max_bytes: usize) -> Modex {
        let committed = BTreeMap::new();
        let pending_gets = BTreeMap::new();
        let held_by = BTreeMap::new();
        let shared = BTreeSet::new();
        let deadlines = Deadlines::default();
        Modex {
            committed,
            shared,
            pending_gets,
            held_by,
            deadlines,
            max_bytes,
            charged: UserBytes::default(),
            commits: 0,
        }
    }

    pub(crate) fn set_limit(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Adds the values of a commit. A value replaces one with the same key and qualifiers. Returns
    /// the gets that are answered by that.
    ///
    /// # Errors
    ///
    /// Fails if a limit is exceeded; then no value is added.
    pub(crate) fn commit(
        &mut self,
        proc: &Proc,
        share: PutShare,
        commits: Vec<Commit>,
    ) -> Result<Vec<RequestId>, PutRefusal> {
        let mut local = PutValues::default();
        let mut remote = PutValues::default();
        for Commit { scope, kvals } in commits {
            // A client sends values of global scope twice, as local and as remote ones. So only
            // remote values are invisible on this node.
            let values = if scope == Scope::Remote {
                &mut remote
            } else {
                &mut local
            };
            kvals
                .into_iter()
                .try_for_each(|kval| values.insert(kval))
                .map_err(|_| PutRefusal::Qualified)?;
        }
        // A refused commit must not leave an entry: the proc would count as one that has committed.
        let none = Committed::default();
        let before = self.committed.get(proc).unwrap_or(&none);
        let mut after = before.bytes;
        for (new, old) in [(&local, &before.local), (&remote, &before.remote)] {
            if !old.has_room_for(new) {
                return Err(PutRefusal::Qualified);
            }
            after = after
                .saturating_sub(old.bytes_replaced_by(new))
                .saturating_add(new.bytes());
        }
        if after > self.max_bytes {
            return Err(PutRefusal::Proc {
                max: self.max_bytes,
            });
        }
        let PutShare {
            uid,
            max_bytes: max,
            max_total_bytes,
        } = share;
        let beside = |held: usize| held.saturating_sub(before.bytes).saturating_add(after);
        // The error names the share of the user if both limits are exceeded.
        if after > before.bytes
            && beside(self.charged.of(uid)) <= max
            && beside(self.charged.total()) > max_total_bytes
        {
            return Err(PutRefusal::Total {
                uid,
                max: max_total_bytes,
            });
        }
        self.charged
            .replace(uid, before.bytes, after, max)
            .map_err(|OverShare| PutRefusal::User { uid, max })?;
        // Nothing below can fail, so a commit is added as a whole or not at all.
        let committed = self.committed.entry(proc.clone()).or_default();
        if self.shared.contains(proc) {
            // The proc may have joined a group before it committed anything.
            committed.audience = PutVisibility::Group;
        }
        // Counted for all procs together: a proc that restarts goes on from its former values.
        self.commits += 1;
        committed.version = Some(PutVersion(self.commits));
        committed.uid = uid;
        committed.local.extend(local);
        committed.remote.extend(remote);
        (committed.bytes, committed.answer) = (after, None);
        Ok(self.answered(proc))
    }

    /// Shows a proc's values for other nodes to procs of this node, because it is in a group with
    /// some. Returns the gets that are answered by that.
    pub(crate) fn share(&mut self, proc: &Proc) -> Vec<RequestId> {
        // Shared before, and the gets were answered then.
        if !self.shared.insert(proc.clone()) {
            return Vec::new();
        }
        if let Some(committed) = self.committed.get_mut(proc) {
            (committed.audience, committed.answer) = (PutVisibility::Group, None);
        }
        self.answered(proc)
    }

    /// Takes the pending gets that the current values of a proc answer.
    pub(crate) fn answered(&mut self, proc: &Proc) -> Vec<RequestId> {
        let Some(committed) = self.committed.get(proc) else {
            return Vec::new();
        };
        let answered = |held: &PendingGet| {
            held.sought
                .as_ref()
                .is_none_or(|sought| committed.shows(sought))
        };
        // A get with the undefined rank takes the value of any proc of the job.
        let any_rank = Proc::new(proc.nspace.clone(), rank::PMIX_RANK_UNDEF);
        let taken = [proc, &any_rank].map(|proc| take_held(&mut self.pending_gets, proc, answered));
        taken
            .into_iter()
            .flat_map(|taken| self.release(taken))
            .collect()
    }

    /// Returns true if a proc has committed anything and, if a value is sought, has that value.
    pub(crate) fn has(&self, proc: &Proc, sought: Option<&SoughtValue>) -> bool {
        let has = |committed: &Committed| sought.is_none_or(|sought| committed.shows(sought));
        self.committed.get(proc).is_some_and(has)
    }

    /// Returns all data of a proc that procs of this node may see, the host environment's first.
    /// The answer is cached.
    pub(crate) fn answer(&mut self, proc: &Proc, of_host: impl FnOnce() -> RankData) -> SharedData {
        let Some(committed) = self.committed.get_mut(proc) else {
            // Without committed values there is no entry that could keep the answer.
            return of_host().into();
        };
        if let Some(answer) = &committed.answer {
            return answer.clone();
        }
        let mut all = of_host();
        all.kvals.extend(committed.visible_values());
        committed.answer.insert(all.into()).clone()
    }

    /// Drops the cached answer because the host environment's data of a proc have changed.
    pub(crate) fn host_data_changed(&mut self, proc: &Proc) {
        if let Some(committed) = self.committed.get_mut(proc) {
            committed.answer = None;
        }
    }

    /// Returns true if a proc has put a value for other nodes only, so that local gets need not
    /// wait for it.
    pub(crate) fn hides(&self, proc: &Proc, sought: &SoughtValue) -> bool {
        let hides =
            |committed: &Committed| committed.remote.has(sought) && !committed.shows(sought);
        self.committed.get(proc).is_some_and(hides)
    }

    /// Returns the values that a proc has put for other nodes, to be exchanged in a fence.
    pub(crate) fn for_others(&self, proc: &Proc) -> Option<PutSnapshot> {
        let committed = self.committed.get(proc)?;
        Some(PutSnapshot {
            values: RankData {
                proc: proc.clone(),
                kvals: committed.remote.kvals().collect(),
            },
            version: committed.version,
        })
    }

    /// Returns the values that a proc has put for other nodes, if the sought one is among them.
    pub(crate) fn sought_for_others(
        &self,
        proc: &Proc,
        sought: Option<&SoughtValue>,
    ) -> Option<PutSnapshot> {
        if self.has_for_others(proc, sought) {
            self.for_others(proc)
        } else {
            None
        }
    }

    /// Returns true if a proc has put a value for procs of other nodes; without a value that is
    /// sought, if it has put any.
    pub(crate) fn has_for_others(&self, proc: &Proc, sought: Option<&SoughtValue>) -> bool {
        let has = |committed: &Committed| sought.is_none_or(|sought| committed.remote.has(sought));
        self.committed.get(proc).is_some_and(has)
    }

    /// Returns true if a proc has put a value for procs of its own node only, so that those of other
    /// nodes need not wait for it.
    pub(crate) fn has_for_node_only(&self, proc: &Proc, sought: Option<&SoughtValue>) -> bool {
        let has = |committed: &Committed| {
            sought
                .is_some_and(|sought| committed.local.has(sought) && !committed.remote.has(sought))
        };
        self.committed.get(proc).is_some_and(has)
    }

    /// Takes the gets that wait for a value of a proc.
    pub(crate) fn give_up_sought(
        &mut self,
        proc: &Proc,
        sought: Option<&SoughtValue>,
    ) -> Vec<RequestId> {
        let is_same = |held: &PendingGet| held.sought.as_ref() == sought;
        let taken = take_held(&mut self.pending_gets, proc, is_same);
        self.release(taken)
    }

    /// Stores values from another server. An earlier snapshot than the one that is known changes
    /// nothing: fences of one proc may end in any order.
    pub(crate) fn learn(&mut self, PutSnapshot { values, version }: PutSnapshot) {
        let RankData { proc, kvals } = values;
        let committed = self.committed.entry(proc).or_default();
        if version.is_some() && version < committed.version {
            return;
        }
        committed.version = version.or(committed.version);
        committed.answer = None;
        for kval in kvals {
            // The other server has checked the limits as this one does.
            let _ = committed.local.insert(kval);
        }
    }

    /// Adds a pending get. It ends when the value is put, the proc ends or the deadline passes.
    pub(crate) fn hold(
        &mut self,
        proc: &Proc,
        sought: Option<SoughtValue>,
        request: RequestId,
        deadline: MonotonicTime,
    ) {
        // Counted, because a connection may have only so many (`max_pending_gets`).
        *self.held_by.entry(request.peer).or_default() += 1;
        self.deadlines.add(deadline);
        self.pending_gets
            .entry(proc.clone())
            .or_default()
            .push(PendingGet {
                request,
                sought,
                deadline,
            });
    }

    /// Returns the number of pending gets of a connection.
    pub(crate) fn held_by(&self, peer: PeerId) -> usize {
        self.held_by.get(&peer).copied().unwrap_or_default()
    }

    /// Takes the gets that wait for a proc that will not put anything any more.
    pub(crate) fn give_up(&mut self, proc: &Proc) -> Vec<RequestId> {
        let taken = take_held(&mut self.pending_gets, proc, |_| true);
        self.release(taken)
    }

    /// Takes the gets that wait for procs of a removed job.
    pub(crate) fn give_up_job(&mut self, nspace: &Nspace) -> Vec<RequestId> {
        let procs: Vec<Proc> = self
            .pending_gets
            .keys()
            .filter(|proc| proc.nspace == *nspace)
            .cloned()
            .collect();
        procs.iter().flat_map(|proc| self.give_up(proc)).collect()
    }

    /// Removes the gets of a closed connection.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        // The count spares a search among the gets of all connections.
        if self.held_by(peer) > 0 {
            self.take_all(|held| held.request.peer == peer);
        }
    }

    /// Takes the gets that are past their deadline.
    pub(crate) fn expire(&mut self, now: MonotonicTime) -> Vec<RequestId> {
        if self.deadlines.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.take_all(|held| held.deadline <= now)
    }

    fn take_all(&mut self, taken: impl Fn(&PendingGet) -> bool + Copy) -> Vec<RequestId> {
        let procs: Vec<Proc> = self.pending_gets.keys().cloned().collect();
        let taken = procs
            .iter()
            .flat_map(|proc| take_held(&mut self.pending_gets, proc, taken))
            .collect();
        self.release(taken)
    }

    /// Removes the accounting of gets that are no longer pending.
    fn release(&mut self, taken: Vec<PendingGet>) -> Vec<RequestId> {
        for PendingGet {
            request, deadline, ..
        } in &taken
        {
            self.deadlines.remove(*deadline);
            if let Some(count) = self.held_by.get_mut(&request.peer) {
                *count -= 1;
                if *count == 0 {
                    self.held_by.remove(&request.peer);
                }
            }
        }
        taken.into_iter().map(|held| held.request).collect()
    }

    /// Returns the next deadline.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.deadlines.next()
    }

    /// Returns the memory of each user's values, in bytes.
    pub(crate) fn bytes_by_user(&self) -> impl Iterator<Item = (u32, usize)> {
        self.charged.by_user()
    }

    /// Returns the memory of the values that users are charged for, in bytes.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.charged.total()
    }

    /// Drops the values of a proc. Pending gets go on waiting.
    pub(crate) fn drop_proc(&mut self, proc: &Proc) {
        if let Some(Committed { uid, bytes, .. }) = self.committed.remove(proc) {
            self.charged.give_back(uid, bytes);
        }
        self.shared.remove(proc);
    }

    /// Drops the values of all procs of a namespace.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) {
        for (_, Committed { uid, bytes, .. }) in self
            .committed
            .extract_if(.., |proc, _| proc.nspace == *nspace)
        {
            self.charged.give_back(uid, bytes);
        }
        self.shared.retain(|proc| proc.nspace != *nspace);
    }
}

fn take_held(
    held: &mut BTreeMap<Proc, Vec<PendingGet>>,
    proc: &Proc,
    taken: impl Fn(&PendingGet) -> bool,
) -> Vec<PendingGet> {
    let Some(list) = held.get_mut(proc) else {
        return Vec::new();
    };
    let (out, stay): (Vec<PendingGet>, Vec<PendingGet>) = std::mem::take(list)
        .into_iter()
        .partition(|held| taken(held));
    if stay.is_empty() {
        held.remove(proc);
    } else {
        *list = stay;
    }
    out
}
