//! One server in the deployment of its cluster.
use super::{
    decision::{RolloutTime, decide},
    proposal::{self, ProposalError, SetProposal},
    record::{
        DeployedSet, DeploymentRecord, NodeReport, ObjectId, SetAnswer, SetNumber, SetRollout,
        bounded_reason,
    },
};
use crate::RecordPosition;
use peal_core::MonotonicTime;
use peal_model::NodeName;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Time after which a set is prepared again that could not be fetched.
const RETRY: Duration = Duration::from_secs(2);
/// Tries of which the asked nodes are still sources of an object.
const LAST_ASKED: u32 = 3;

/// Result of preparing a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PreparedSet {
    /// The set is verified and compiled.
    Ready,
    /// The node does not run it, for this reason.
    Refused(String),
    /// An object of it was not found.
    Lacks(ObjectId),
    /// The connection was lost meanwhile.
    Interrupted,
}

/// Result of writing a record or report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteResult {
    /// It is stored.
    Stored(RecordPosition),
    /// It is not stored: a later one came first, or the connection was lost.
    Refused,
    /// The key of this node may not store it.
    Forbidden,
}

/// Record to be written, if the last one in the store has this position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingRecord {
    /// Record.
    pub record: DeploymentRecord,
    /// Position of the last record; 0 without one.
    pub after: RecordPosition,
}

/// Action that a server has to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeploymentOutput {
    /// Fetch, verify and compile a set; [`ClusterDeployment::prepared`] takes the result.
    Prepare(DeployedSet),
    /// Run a prepared set, or no modules of the cluster; [`ClusterDeployment::ran`] takes the result.
    Run(Option<DeployedSet>),
    /// Store the report of this node; [`ClusterDeployment::reported`] takes the result.
    Report(NodeReport),
    /// Store a record; [`ClusterDeployment::wrote`] takes the result.
    Write(PendingRecord),
    /// Store an object again, which another node lacks.
    Provide(ObjectId),
}

/// Set that this server runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunningSet {
    /// The server has begun with modules of which the set is not known.
    Unknown,
    Known(Option<SetIdentity>),
}

/// Number and contents of a set. If all records are lost, a number may come again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SetIdentity {
    number: SetNumber,
    object: ObjectId,
}

impl From<&DeployedSet> for SetIdentity {
    fn from(set: &DeployedSet) -> SetIdentity {
        SetIdentity {
            number: set.number,
            object: set.object,
        }
    }
}

/// Record or report of which the storing is awaited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Storing {
    #[default]
    Nothing,
    Awaited,
}

/// Permission of this node to store records. Only an attempt shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordPermission {
    Unknown,
    Denied,
}

/// Work on a set that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SetWork {
    Prepare(SetNumber),
    Run(Option<SetNumber>),
}

/// One server in the deployment of its cluster.
#[derive(Debug)]
pub struct ClusterDeployment {
    node: NodeName,
    members: BTreeSet<NodeName>,
    /// Position of the last stored record or report that is known.
    position: RecordPosition,
    /// True if all that is stored is known.
    is_following: bool,
    /// The latest record that was ever seen.
    record: Option<DeploymentRecord>,
    /// Position and revision of the record in the store.
    stored: Option<(RecordPosition, u64)>,
    reports: BTreeMap<NodeName, NodeReport>,
    /// Objects that other nodes lack and that this one is to store.
    requested: BTreeSet<ObjectId>,
    runs: RunningSet,
    answers: BTreeMap<SetNumber, SetAnswer>,
    work: Option<SetWork>,
    /// Time before which nothing is prepared.
    retry_at: MonotonicTime,
    /// Revision and time at which a rollout of this server was first seen.
    rollout_since: Option<(u64, MonotonicTime)>,
    report_storing: Storing,
    record_storing: Storing,
    permission: RecordPermission,
    write_at: MonotonicTime,
}

impl ClusterDeployment {
    /// Creates the state of the server of a node.
    pub fn new(node: NodeName) -> ClusterDeployment {
        ClusterDeployment {
            node,
            members: BTreeSet::new(),
            position: RecordPosition::default(),
            is_following: false,
            record: None,
            stored: None,
            reports: BTreeMap::new(),
            requested: BTreeSet::new(),
            runs: RunningSet::Unknown,
            answers: BTreeMap::new(),
            work: None,
            retry_at: MonotonicTime(0),
            rollout_since: None,
            report_storing: Storing::Nothing,
            record_storing: Storing::Nothing,
            permission: RecordPermission::Unknown,
            write_at: MonotonicTime(0),
        }
    }

    /// Returns the position up to which stored records and reports are known.
    pub fn position(&self) -> RecordPosition {
        self.position
    }

    /// Returns the record; `None` if there was never one.
    pub fn record(&self) -> Option<&DeploymentRecord> {
        self.record.as_ref()
    }

    /// Returns true if all that is stored is known.
    pub fn is_following(&self) -> bool {
        self.is_following
    }

    /// Returns the reports of all nodes that have written one.
    pub fn reports(&self) -> &BTreeMap<NodeName, NodeReport> {
        &self.reports
    }

    /// Returns the nodes of the cluster.
    pub fn members(&self) -> &BTreeSet<NodeName> {
        &self.members
    }

    /// Sets the nodes of the cluster; none as long as this server is no member.
    pub fn set_members(&mut self, members: BTreeSet<NodeName>) {
        self.members = members;
    }

    /// Notes that the store was lost and made anew: everything in it is read again.
    pub fn restarted(&mut self) {
        self.position = RecordPosition::default();
        self.stored = None;
        self.reports.clear();
        self.disconnected();
    }

    /// Notes that the connection was lost.
    pub fn disconnected(&mut self) {
        self.is_following = false;
        self.report_storing = Storing::Nothing;
        self.record_storing = Storing::Nothing;
        // The NATS servers may have another configuration next time.
        self.permission = RecordPermission::Unknown;
    }

    /// Notes that everything up to a position is known.
    pub fn caught_up(&mut self, last: RecordPosition) {
        self.position = self.position.max(last);
        self.is_following = true;
    }

    /// Applies a stored record. One that is older than a known one changes nothing: the store was lost. Of
    /// two with the same revision the stored one counts.
    pub fn apply_record(&mut self, at: RecordPosition, record: DeploymentRecord) {
        self.position = self.position.max(at);
        if self.stored.is_some_and(|(last, _)| last >= at) {
            return;
        }
        self.stored = Some((at, record.revision));
        if self
            .record
            .as_ref()
            .is_none_or(|known| known.revision <= record.revision)
        {
            let known = self.record.take();
            self.answers.retain(|set, _| {
                let known = known.as_ref().and_then(|known| known.set(*set));
                let new = record.set(*set);
                known.map(SetIdentity::from) == new.map(SetIdentity::from)
            });
            self.record = Some(record);
        }
    }

    /// Applies the stored report of a node about itself.
    pub fn apply_report(&mut self, at: RecordPosition, node: NodeName, report: NodeReport) {
        self.position = self.position.max(at);
        for answer in &report.answers {
            if let SetAnswer::Lacks { set, object, tries } = answer
                && self.is_provider(&node, *set, *tries)
            {
                self.requested.insert(*object);
            }
        }
        self.reports.insert(node, report);
    }

    /// Passes over a position whose contents count for nothing.
    pub fn skip(&mut self, at: RecordPosition) {
        self.position = self.position.max(at);
    }

    /// Returns the nodes that may have a set: first those that say so, then the others, which may have run it
    /// before.
    fn holders(&self, lacking: &NodeName, set: SetNumber) -> Vec<&NodeName> {
        let others = self.reports.iter().filter(|(node, _)| *node != lacking);
        let (has, may_have): (Vec<_>, Vec<_>) = others.partition(|(_, report)| report.has(set));
        has.into_iter()
            .chain(may_have)
            .map(|(node, _)| node)
            .collect()
    }

    /// Returns true if this node is the one that stores again what another one lacks: each time the next one
    /// of those that may have the set.
    fn is_provider(&self, lacking: &NodeName, set: SetNumber, tries: u32) -> bool {
        let holders = self.holders(lacking, set);
        asked(&holders, tries) == Some(&self.node)
    }

    /// Returns the nodes that may have stored the objects of a set: the one that deployed it, and those that
    /// were asked last.
    pub fn sources(&self, set: &DeployedSet) -> Vec<NodeName> {
        let tries = match self.answers.get(&set.number) {
            Some(SetAnswer::Lacks { tries, .. }) => *tries,
            _ => 0,
        };
        let holders = self.holders(&self.node, set.number);
        let last = (0..=LAST_ASKED).filter_map(|back| asked(&holders, tries.saturating_sub(back)));
        let mut sources = vec![set.by.clone()];
        for node in last {
            if !sources.contains(node) {
                sources.push(node.clone());
            }
        }
        sources
    }

    /// Forgets answers, since the configuration of this node has changed.
    pub fn reconsider(&mut self) {
        self.answers.clear();
    }

    /// Takes the result of preparing a set.
    pub fn prepared(&mut self, set: SetNumber, result: PreparedSet, now: MonotonicTime) {
        if self.work == Some(SetWork::Prepare(set)) {
            self.work = None;
        }
        let tries = match self.answers.get(&set) {
            Some(SetAnswer::Lacks { tries, .. }) => tries.saturating_add(1),
            _ => 0,
        };
        let answer = match result {
            PreparedSet::Ready => SetAnswer::Ready(set),
            PreparedSet::Refused(reason) => SetAnswer::Refused {
                set,
                reason: bounded_reason(&reason),
            },
            PreparedSet::Lacks(object) => {
                self.retry_at = now + RETRY;
                SetAnswer::Lacks { set, object, tries }
            }
            PreparedSet::Interrupted => {
                self.retry_at = now + RETRY;
                return;
            }
        };
        let is_known = self
            .record
            .as_ref()
            .is_some_and(|record| record.set(set).is_some());
        if is_known {
            self.answers.insert(set, answer);
        }
    }

    /// Takes the result of running a set: an error is the reason for which the node keeps its own.
    pub fn ran(&mut self, set: Option<&DeployedSet>, result: Result<(), String>) {
        self.work = None;
        match (result, set) {
            (Ok(()), set) => self.runs = RunningSet::Known(set.map(SetIdentity::from)),
            (Err(reason), Some(set)) => {
                let set = set.number;
                let reason = bounded_reason(&reason);
                self.answers.insert(set, SetAnswer::Refused { set, reason });
            }
            // Only a server that ends cannot remove modules.
            (Err(_), None) => self.runs = RunningSet::Known(None),
        }
    }

    /// Takes the result of storing a report.
    pub fn reported(&mut self, report: NodeReport, result: WriteResult, now: MonotonicTime) {
        self.report_storing = Storing::Nothing;
        match result {
            WriteResult::Stored(_) => {
                self.reports.insert(self.node.clone(), report);
            }
            WriteResult::Refused | WriteResult::Forbidden => self.write_at = now + RETRY,
        }
    }

    /// Takes the result of storing a record.
    pub fn wrote(&mut self, record: DeploymentRecord, result: WriteResult, now: MonotonicTime) {
        self.record_storing = Storing::Nothing;
        match result {
            // The position stays: what was stored before this record may not be known yet.
            WriteResult::Stored(at) => {
                let position = self.position;
                self.apply_record(at, record);
                self.position = position;
            }
            WriteResult::Refused => self.write_at = now + RETRY,
            WriteResult::Forbidden => self.permission = RecordPermission::Denied,
        }
    }

    /// Returns the record for a set that an administrator deploys here.
    ///
    /// # Errors
    ///
    /// Fails if the last record is not known, or another set is on its way.
    pub fn propose(&self, proposal: SetProposal) -> Result<PendingRecord, ProposalError> {
        self.check_member()?;
        let record = self.record.clone().unwrap_or_default();
        proposal::propose(&record, &self.reports, &self.members, &self.node, proposal)
            .map(|record| self.pending(record))
    }

    /// Returns the record by which the set of the canary goes to all nodes.
    ///
    /// # Errors
    ///
    /// Fails if the last record is not known, or there is no canary.
    pub fn promote(&self) -> Result<PendingRecord, ProposalError> {
        self.check_member()?;
        let record = self.record.as_ref().ok_or(ProposalError::NoCanary)?;
        proposal::promote(record, &self.node).map(|record| self.pending(record))
    }

    /// Returns the record without the set on its way, or with an earlier one as that of all nodes.
    ///
    /// # Errors
    ///
    /// Fails if the last record is not known, or there is no such set.
    pub fn roll_back(&self, to: Option<SetNumber>) -> Result<PendingRecord, ProposalError> {
        self.check_member()?;
        let record = self.record.as_ref().ok_or(ProposalError::NoPrevious)?;
        proposal::roll_back(record, &self.node, to).map(|record| self.pending(record))
    }

    fn check_member(&self) -> Result<(), ProposalError> {
        if !self.is_following {
            return Err(ProposalError::Away);
        }
        if !self.members.contains(&self.node) {
            return Err(ProposalError::NoMember);
        }
        Ok(())
    }

    fn pending(&self, record: DeploymentRecord) -> PendingRecord {
        PendingRecord {
            record,
            after: self.stored.map(|(at, _)| at).unwrap_or_default(),
        }
    }

    /// Returns the next thing to do; `None` until something happens or the time of [`Self::due_at`].
    pub fn next_output(&mut self, now: MonotonicTime) -> Option<DeploymentOutput> {
        self.next_work(now)
            .or_else(|| self.next_write(now))
            .or_else(|| {
                let object = self.requested.pop_first()?;
                Some(DeploymentOutput::Provide(object))
            })
    }

    /// Returns the time at which there may be something to do.
    pub fn due_at(&self, now: MonotonicTime) -> Option<MonotonicTime> {
        let deadline = self.record.as_ref().and_then(|record| {
            let (_, since) = self.rollout_since?;
            Some(since + patience(record.rollout.as_ref()?))
        });
        [Some(self.retry_at), Some(self.write_at), deadline]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min()
    }

    fn next_work(&mut self, now: MonotonicTime) -> Option<DeploymentOutput> {
        if self.work.is_some() {
            return None;
        }
        let record = self.record.as_ref()?;
        let target = record.target(&self.node);
        let runs = |set: SetNumber| {
            let set = record.set(set).map(SetIdentity::from);
            set.is_some() && self.runs == RunningSet::Known(set)
        };
        let is_running = match target {
            Some(set) => runs(set),
            None => self.runs == RunningSet::Known(None),
        };
        let answer = |set: SetNumber| self.answers.get(&set);
        let wanted = match target {
            None if !is_running => {
                self.work = Some(SetWork::Run(None));
                return Some(DeploymentOutput::Run(None));
            }
            Some(set) if !is_running => match answer(set) {
                Some(SetAnswer::Ready(_)) => {
                    let set = record.set(set)?.clone();
                    self.work = Some(SetWork::Run(Some(set.number)));
                    return Some(DeploymentOutput::Run(Some(set)));
                }
                Some(SetAnswer::Refused { .. }) => None,
                _ => Some(set),
            },
            _ => None,
        };
        let next = record.rollout.as_ref().map(|rollout| rollout.set);
        let next = next.filter(|set| {
            !runs(*set)
                && !matches!(
                    answer(*set),
                    Some(SetAnswer::Ready(_) | SetAnswer::Refused { .. })
                )
        });
        let set = wanted.or(next).filter(|_| now >= self.retry_at)?;
        let set = record.set(set)?.clone();
        self.work = Some(SetWork::Prepare(set.number));
        Some(DeploymentOutput::Prepare(set))
    }

    /// Returns the report of this node as it should be.
    fn own_report(&self) -> NodeReport {
        let runs = match self.runs {
            RunningSet::Unknown => None,
            RunningSet::Known(set) => set.map(|set| set.number),
        };
        let record = self.record.as_ref();
        let target = record.and_then(|record| record.target(&self.node));
        let next = record.and_then(|record| record.rollout.as_ref().map(|rollout| rollout.set));
        let about: BTreeSet<SetNumber> = [next, target].into_iter().flatten().collect();
        let answers = about
            .into_iter()
            .filter(|set| runs != Some(*set))
            .filter_map(|set| self.answers.get(&set).cloned())
            .collect();
        let newer = record
            .map(|record| record.revision)
            .filter(|revision| self.stored.is_some_and(|(_, stored)| stored < *revision))
            .filter(|_| self.permission == RecordPermission::Denied);
        NodeReport {
            runs,
            answers,
            newer,
        }
    }

    fn next_write(&mut self, now: MonotonicTime) -> Option<DeploymentOutput> {
        if !self.is_following || now < self.write_at {
            return None;
        }
        let record = self.record.clone()?;
        let own = self.own_report();
        let is_stored = self.reports.get(&self.node) == Some(&own);
        if !is_stored && self.report_storing == Storing::Nothing {
            self.report_storing = Storing::Awaited;
            return Some(DeploymentOutput::Report(own));
        }
        if self.record_storing == Storing::Awaited {
            return None;
        }
        let in_store = self.stored.map(|(_, revision)| revision);
        let may_store = self.permission == RecordPermission::Unknown;
        let newer = self.reports.values().filter_map(|report| report.newer);
        let newer = newer.max().filter(|newer| *newer > record.revision);
        let pending = if in_store.is_none_or(|revision| revision < record.revision) {
            // The store was lost. Those that may write records put the last one back.
            may_store.then_some(record)
        } else if let Some(newer) = newer {
            // Nodes that have seen later records would pass over this one.
            may_store.then(|| DeploymentRecord {
                revision: newer.saturating_add(1),
                ..record
            })
        } else {
            self.decision(&record, now)
        };
        let pending = self.pending(pending?);
        self.record_storing = Storing::Awaited;
        Some(DeploymentOutput::Write(pending))
    }

    /// Returns the decision of this server about the set that it has deployed.
    fn decision(
        &mut self,
        record: &DeploymentRecord,
        now: MonotonicTime,
    ) -> Option<DeploymentRecord> {
        let rollout = record.rollout.as_ref();
        let Some(rollout) = rollout.filter(|rollout| rollout.by == self.node) else {
            self.rollout_since = None;
            return None;
        };
        // A server that is no member does not know the others.
        if !self.members.contains(&self.node) {
            return None;
        }
        let since = match self.rollout_since {
            Some((revision, since)) if revision == record.revision => since,
            _ => now,
        };
        self.rollout_since = Some((record.revision, since));
        let time = if now >= since + patience(rollout) {
            RolloutTime::Over
        } else {
            RolloutTime::Left
        };
        decide(record, &self.members, &self.reports, time)
    }
}

/// Returns the node that is asked after this number of tries.
fn asked<'a>(holders: &[&'a NodeName], tries: u32) -> Option<&'a NodeName> {
    let tries = usize::try_from(tries).ok()?;
    holders.get(tries.checked_rem(holders.len())?).copied()
}

fn patience(rollout: &SetRollout) -> Duration {
    Duration::from_millis(rollout.patience_ms)
}
