//! What procs have put for each other, and those who wait for it: direct modex on one node.
use crate::{Time, server::RequestId};
use peal_model::{Commit, Key, Kval, Proc, RankData, Scope, Size, Value, rank};
use std::collections::BTreeMap;

type Values = BTreeMap<Key, Value>;

/// What one proc has committed. A value put with global scope is in both.
#[derive(Debug, Default)]
struct Committed {
    /// For procs of this node.
    local: Values,
    /// For procs of other nodes.
    remote: Values,
    /// The memory that both take, in bytes.
    bytes: usize,
}

/// A get that is held until its key is there.
#[derive(Debug)]
struct Held {
    request: RequestId,
    key: Option<Key>,
    deadline: Time,
}

/// All that was put, and the gets that wait for more.
#[derive(Debug)]
pub(crate) struct Modex {
    committed: BTreeMap<Proc, Committed>,
    held: BTreeMap<Proc, Vec<Held>>,
    max_bytes: usize,
}

/// A proc put more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl Modex {
    pub(crate) fn new(max_bytes: usize) -> Modex {
        Modex { committed: BTreeMap::new(), held: BTreeMap::new(), max_bytes }
    }

    /// Adds what a proc commits; the same key replaces. Returns the gets that this answers.
    pub(crate) fn commit(&mut self, proc: &Proc, commits: Vec<Commit>) -> Result<Vec<RequestId>, TooMuch> {
        let committed = self.committed.entry(proc.clone()).or_default();
        for Commit { scope, kvals } in commits {
            let values = if scope == Scope::Remote { &mut committed.remote } else { &mut committed.local };
            for kval in kvals {
                let replaced = values.get(&kval.key).map_or(0, |old| bytes(&kval.key, old));
                let after = (committed.bytes - replaced).saturating_add(bytes(&kval.key, &kval.value));
                if after > self.max_bytes {
                    return Err(TooMuch);
                }
                committed.bytes = after;
                values.insert(kval.key, kval.value);
            }
        }
        let local = &committed.local;
        let answered = |held: &Held| held.key.as_ref().is_none_or(|key| local.contains_key(key));
        let anybody = Proc::new(proc.nspace.clone(), rank::PMIX_RANK_UNDEF);
        let mut waiting = take_held(&mut self.held, proc, answered);
        waiting.extend(take_held(&mut self.held, &anybody, answered));
        Ok(waiting)
    }

    /// What a proc of this node may see of another one: all of it, if it has committed and has the key asked for.
    pub(crate) fn find(&self, proc: &Proc, key: Option<&Key>) -> Option<RankData> {
        let committed = self.committed.get(proc)?;
        if key.is_some_and(|key| !committed.local.contains_key(key)) {
            return None;
        }
        Some(rank_data(proc, &committed.local))
    }

    /// Whether a proc has put this key for other nodes only: then procs of this one need not wait for it.
    pub(crate) fn hides(&self, proc: &Proc, key: &Key) -> bool {
        let hides = |committed: &Committed| committed.remote.contains_key(key) && !committed.local.contains_key(key);
        self.committed.get(proc).is_some_and(hides)
    }

    /// What a proc has put for other nodes, to be handed round with a fence.
    pub(crate) fn for_others(&self, proc: &Proc) -> Option<RankData> {
        self.committed.get(proc).map(|committed| rank_data(proc, &committed.remote))
    }

    /// Stores what another server handed round.
    pub(crate) fn learn(&mut self, data: RankData) {
        let values = &mut self.committed.entry(data.proc).or_default().local;
        values.extend(data.kvals.into_iter().map(|kval| (kval.key, kval.value)));
    }

    /// Holds a get until the key is there, its proc is gone, or time is over.
    pub(crate) fn hold(&mut self, proc: &Proc, key: Option<Key>, request: RequestId, deadline: Time) {
        self.held.entry(proc.clone()).or_default().push(Held { request, key, deadline });
    }

    /// How many gets are held for one requester's connection.
    pub(crate) fn held_by(&self, peer: crate::server::PeerId) -> usize {
        self.held.values().flatten().filter(|held| held.request.peer == peer).count()
    }

    /// The proc is gone and will not put anything more: the gets that wait for it.
    pub(crate) fn give_up(&mut self, proc: &Proc) -> Vec<RequestId> {
        take_held(&mut self.held, proc, |_| true)
    }

    /// The requester is gone: its gets are forgotten.
    pub(crate) fn forget(&mut self, peer: crate::server::PeerId) {
        self.held.retain(|_, held| {
            held.retain(|held| held.request.peer != peer);
            !held.is_empty()
        });
    }

    /// The gets whose time is over.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<RequestId> {
        let procs: Vec<Proc> = self.held.keys().cloned().collect();
        procs.iter().flat_map(|proc| take_held(&mut self.held, proc, |held| held.deadline <= now)).collect()
    }

    /// When the next held get's time is over.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.held.values().flatten().map(|held| held.deadline).min()
    }

    /// Drops all that the procs of a namespace put.
    pub(crate) fn drop_job(&mut self, nspace: &peal_model::Nspace) {
        self.committed.retain(|proc, _| proc.nspace != *nspace);
    }
}

fn bytes(key: &Key, value: &Value) -> usize {
    Size::of(value).bytes.saturating_add(key.as_str().len())
}

fn rank_data(proc: &Proc, values: &Values) -> RankData {
    let kvals = values.iter().map(|(key, value)| Kval { key: key.clone(), value: value.clone() }).collect();
    RankData { proc: proc.clone(), kvals }
}

fn take_held(held: &mut BTreeMap<Proc, Vec<Held>>, proc: &Proc, taken: impl Fn(&Held) -> bool) -> Vec<RequestId> {
    let Some(list) = held.get_mut(proc) else { return Vec::new() };
    let (out, stay): (Vec<Held>, Vec<Held>) = std::mem::take(list).into_iter().partition(|held| taken(held));
    if stay.is_empty() {
        held.remove(proc);
    } else {
        *list = stay;
    }
    out.into_iter().map(|held| held.request).collect()
}
