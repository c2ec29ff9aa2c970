//! What procs have put for each other, and those who wait for it: direct modex on one node.
use crate::{
    MonotonicTime,
    deadlines::Deadlines,
    put_values::{PutValues, SoughtValue},
    server::{PeerId, PutRefusal, RequestId},
    user_bytes::{OverShare, UserBytes},
};
use peal_model::{Commit, Kval, Nspace, Proc, RankData, Scope, SharedData, rank};
use std::collections::{BTreeMap, BTreeSet};

/// What one proc has committed. A value put with global scope is in both.
#[derive(Debug, Default)]
struct Committed {
    /// For procs of this node.
    local: PutValues,
    /// For procs of other nodes, and for those of this one once they are in a group together.
    remote: PutValues,
    audience: PutVisibility,
    /// The memory that both take, in bytes.
    bytes: usize,
    /// The user who is charged for it.
    uid: u32,
    /// What gets are answered with, once one was; the same for all of them.
    answer: Option<SharedData>,
}

/// For whom of this node what a proc has put is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PutVisibility {
    /// What it has put for this node.
    #[default]
    Node,
    /// All that it has put: it was in a group with others here.
    Group,
}

impl Committed {
    /// Whether procs of this node may see such a value.
    fn shows(&self, sought: &SoughtValue) -> bool {
        self.local.has(sought) || (self.audience == PutVisibility::Group && self.remote.has(sought))
    }

    /// All that they may see.
    fn seen(&self) -> impl Iterator<Item = Kval> {
        let remote = self
            .remote
            .kvals_beside(&self.local)
            .filter(|_| self.audience == PutVisibility::Group);
        self.local.kvals().chain(remote)
    }
}

/// A get that is held until its key is there.
#[derive(Debug)]
struct PendingGet {
    request: RequestId,
    sought: Option<SoughtValue>,
    deadline: MonotonicTime,
}

/// All that was put, and the gets that wait for more.
#[derive(Debug)]
pub(crate) struct Modex {
    committed: BTreeMap<Proc, Committed>,
    /// Who is or was in a group with others of this node.
    shared: BTreeSet<Proc>,
    held: BTreeMap<Proc, Vec<PendingGet>>,
    /// How many are held for each connection.
    held_by: BTreeMap<PeerId, usize>,
    deadlines: Deadlines,
    max_bytes: usize,
    charged: UserBytes,
}

/// The user who is charged for values, and the bytes that the values of all of that user's procs may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PutShare {
    pub(crate) uid: u32,
    pub(crate) max_bytes: usize,
}

impl Modex {
    pub(crate) fn new(max_bytes: usize) -> Modex {
        let (committed, held, held_by) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (shared, deadlines) = (BTreeSet::new(), Deadlines::default());
        Modex {
            committed,
            shared,
            held,
            held_by,
            deadlines,
            max_bytes,
            charged: UserBytes::default(),
        }
    }

    /// Adds what a proc commits; the same key with the same qualifiers replaces. All of it, or nothing if that is too much. Returns the gets that this
    /// answers.
    pub(crate) fn commit(
        &mut self,
        proc: &Proc,
        share: PutShare,
        commits: Vec<Commit>,
    ) -> Result<Vec<RequestId>, PutRefusal> {
        let committed = self.committed.entry(proc.clone()).or_default();
        if self.shared.contains(proc) {
            committed.audience = PutVisibility::Group;
        }
        let (mut local, mut remote) = (PutValues::default(), PutValues::default());
        for Commit { scope, kvals } in commits {
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
        let mut after = committed.bytes;
        for (new, old) in [(&local, &committed.local), (&remote, &committed.remote)] {
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
        } = share;
        self.charged
            .replace(uid, committed.bytes, after, max)
            .map_err(|OverShare| PutRefusal::User { uid, max })?;
        committed.uid = uid;
        committed.local.extend(local);
        committed.remote.extend(remote);
        (committed.bytes, committed.answer) = (after, None);
        Ok(self.answered(proc))
    }

    /// A proc is in a group with others of this node: what it has put, and will put, for other nodes is for them, too. Returns the gets
    /// that this answers.
    pub(crate) fn share(&mut self, proc: &Proc) -> Vec<RequestId> {
        if !self.shared.insert(proc.clone()) {
            return Vec::new();
        }
        if let Some(committed) = self.committed.get_mut(proc) {
            (committed.audience, committed.answer) = (PutVisibility::Group, None);
        }
        self.answered(proc)
    }

    /// The gets that wait for what is there now of a proc.
    fn answered(&mut self, proc: &Proc) -> Vec<RequestId> {
        let Some(committed) = self.committed.get(proc) else {
            return Vec::new();
        };
        let answered = |held: &PendingGet| {
            held.sought
                .as_ref()
                .is_none_or(|sought| committed.shows(sought))
        };
        let anybody = Proc::new(proc.nspace.clone(), rank::PMIX_RANK_UNDEF);
        let taken = [proc, &anybody].map(|proc| take_held(&mut self.held, proc, answered));
        taken
            .into_iter()
            .flat_map(|taken| self.release(taken))
            .collect()
    }

    /// Whether a proc has committed at all, and such a value if one is asked for.
    pub(crate) fn has(&self, proc: &Proc, sought: Option<&SoughtValue>) -> bool {
        let has = |committed: &Committed| sought.is_none_or(|sought| committed.shows(sought));
        self.committed.get(proc).is_some_and(has)
    }

    /// All that a proc of this node may see of another one, behind what the host said of it. Made once, however often it is
    /// asked for.
    pub(crate) fn answer(&mut self, proc: &Proc, of_host: impl FnOnce() -> RankData) -> SharedData {
        let Some(committed) = self.committed.get_mut(proc) else {
            return of_host().into();
        };
        if let Some(answer) = &committed.answer {
            return answer.clone();
        }
        let mut all = of_host();
        all.kvals.extend(committed.seen());
        committed.answer.insert(all.into()).clone()
    }

    /// The host says something else of a proc from now on.
    pub(crate) fn host_says_more(&mut self, proc: &Proc) {
        if let Some(committed) = self.committed.get_mut(proc) {
            committed.answer = None;
        }
    }

    /// Whether a proc has put such a value for other nodes only: then procs of this one need not wait for it.
    pub(crate) fn hides(&self, proc: &Proc, sought: &SoughtValue) -> bool {
        let hides =
            |committed: &Committed| committed.remote.has(sought) && !committed.shows(sought);
        self.committed.get(proc).is_some_and(hides)
    }

    /// What a proc has put for other nodes, to be handed round with a fence.
    pub(crate) fn for_others(&self, proc: &Proc) -> Option<RankData> {
        let committed = self.committed.get(proc)?;
        Some(RankData {
            proc: proc.clone(),
            kvals: committed.remote.kvals().collect(),
        })
    }

    /// Stores what another server handed round.
    pub(crate) fn learn(&mut self, data: RankData) {
        let committed = self.committed.entry(data.proc).or_default();
        committed.answer = None;
        for kval in data.kvals {
            // The other server has seen to it that there is room, as this one does.
            let _ = committed.local.insert(kval);
        }
    }

    /// Holds a get until what it asks for is there, its proc is gone, or time is over.
    pub(crate) fn hold(
        &mut self,
        proc: &Proc,
        sought: Option<SoughtValue>,
        request: RequestId,
        deadline: MonotonicTime,
    ) {
        *self.held_by.entry(request.peer).or_default() += 1;
        self.deadlines.add(deadline);
        self.held.entry(proc.clone()).or_default().push(PendingGet {
            request,
            sought,
            deadline,
        });
    }

    /// How many gets are held for one requester's connection.
    pub(crate) fn held_by(&self, peer: PeerId) -> usize {
        self.held_by.get(&peer).copied().unwrap_or_default()
    }

    /// The proc is gone and will not put anything more: the gets that wait for it.
    pub(crate) fn give_up(&mut self, proc: &Proc) -> Vec<RequestId> {
        let taken = take_held(&mut self.held, proc, |_| true);
        self.release(taken)
    }

    /// The job is gone: the gets that wait for any of its procs.
    pub(crate) fn give_up_job(&mut self, nspace: &Nspace) -> Vec<RequestId> {
        let procs: Vec<Proc> = self
            .held
            .keys()
            .filter(|proc| proc.nspace == *nspace)
            .cloned()
            .collect();
        procs.iter().flat_map(|proc| self.give_up(proc)).collect()
    }

    /// The requester is gone: its gets are forgotten.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        if self.held_by(peer) > 0 {
            self.take_all(|held| held.request.peer == peer);
        }
    }

    /// The gets whose time is over.
    pub(crate) fn expire(&mut self, now: MonotonicTime) -> Vec<RequestId> {
        if self.deadlines.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.take_all(|held| held.deadline <= now)
    }

    fn take_all(&mut self, taken: impl Fn(&PendingGet) -> bool + Copy) -> Vec<RequestId> {
        let procs: Vec<Proc> = self.held.keys().cloned().collect();
        let taken = procs
            .iter()
            .flat_map(|proc| take_held(&mut self.held, proc, taken))
            .collect();
        self.release(taken)
    }

    /// Those that are held no more.
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

    /// When the next held get's time is over.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.deadlines.next()
    }

    /// The memory that values take for which users are charged, in bytes.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.charged.total()
    }

    /// Drops all that a proc put. Gets that wait for it go on waiting, until it puts what they want or their time is over.
    pub(crate) fn drop_proc(&mut self, proc: &Proc) {
        if let Some(Committed { uid, bytes, .. }) = self.committed.remove(proc) {
            self.charged.give_back(uid, bytes);
        }
        self.shared.remove(proc);
    }

    /// Drops all that the procs of a namespace put.
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
