//! The job-control ledger: every accepted or denied request with its requester, its stage and its
//! end.
use super::{
    Checkpoint, CheckpointOrder, ControlState, JobAction, JobControl, JobControlError, NotDone,
    PreemptionOrder, RequestSelector, STATUS, ServerWork,
};
use crate::{
    MonotonicTime, policy,
    quota::{Quota, QuotaRefusals, QuotaReport},
    request_id::RequestId,
    server::ServerReply,
    targets::ResolvedTargets,
};
use peal_model::{DataArray, Info, KeyName, Proc, Status, UserIdentity, Value, code, key};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Key of an info that describes one request, in the answer to a query (`PMIX_JOB_CTRL_ID`): an
/// array of infos.
pub const REQUEST: KeyName = KeyName("peal.jctrl.request");
/// Key of the state, in a [`REQUEST`].
pub const STATE: KeyName = KeyName("peal.jctrl.state");
/// Key of the operation, in a [`REQUEST`].
pub const OPERATION: KeyName = KeyName("peal.jctrl.action");

/// Largest number of infos of an event about the end of a request. A query has all of them.
const MAX_EVENT_INFOS: usize = 256;

/// Identifier of a request; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ControlId(pub u64);

/// Identifier of a call of the host environment for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControlUpcallId {
    /// The request.
    pub request: ControlId,
    /// The part of the request that the call carries out.
    pub part: ControlPart,
}

/// Part of a job-control request that the host environment carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ControlPart {
    /// The action of the request. That of a preemption is its last part.
    Action,
    /// A signal that requests checkpoints.
    CheckpointSignal,
}

impl ControlId {
    /// Returns the identifier of the call for this part of the request.
    pub(crate) fn part(self, part: ControlPart) -> ControlUpcallId {
        ControlUpcallId {
            request: self,
            part,
        }
    }
}

/// The operation of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobControlOperation {
    /// The host environment acts on procs.
    Act(JobAction),
    /// Procs make a checkpoint.
    Checkpoint(CheckpointOrder),
    /// Procs are preempted.
    Preempt(PreemptionOrder),
    /// Nodes are provisioned.
    Provision {
        /// The description of the nodes.
        nodes: String,
        /// The image.
        image: Option<String>,
    },
}

impl JobControlOperation {
    /// Returns true if it depends on what procs have declared.
    pub(crate) fn needs_declarations(&self) -> bool {
        match self {
            JobControlOperation::Checkpoint(order) => order.method.is_none(),
            JobControlOperation::Preempt(_) => true,
            JobControlOperation::Act(_) | JobControlOperation::Provision { .. } => false,
        }
    }
}

impl fmt::Display for JobControlOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobControlOperation::Act(action) => action.fmt(f),
            JobControlOperation::Checkpoint(order) => {
                write!(f, "checkpoint {:?}", order.checkpoint)
            }
            JobControlOperation::Preempt(order) => write!(f, "preempt, then {}", order.action),
            JobControlOperation::Provision { nodes, image: None } => {
                write!(f, "provision {nodes:?}")
            }
            JobControlOperation::Provision {
                nodes,
                image: Some(image),
            } => write!(f, "provision {nodes:?} with {image:?}"),
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobControlEnd {
    /// The whole operation is done.
    Done,
    /// The operation is done in part or not at all.
    Failed,
    /// The requester cancelled the request.
    Cancelled,
    /// The request was denied.
    Denied,
}

impl From<JobControlEnd> for ControlState {
    fn from(end: JobControlEnd) -> ControlState {
        match end {
            JobControlEnd::Done => ControlState::Done,
            JobControlEnd::Failed => ControlState::Failed,
            JobControlEnd::Cancelled => ControlState::Cancelled,
            JobControlEnd::Denied => ControlState::Denied,
        }
    }
}

/// The stage of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RequestStage {
    /// Not begun: a policy has still to decide whether it can be done, or a server has still to answer.
    Accepted,
    /// Begun.
    Running(PendingWork),
    /// Ended.
    Ended(JobControlEnd),
}

/// The pending work of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PendingWork {
    /// An operation for another server is written into the audit trail.
    Record(ServerWork),
    /// The launcher is asked to carry out this operation on all nodes.
    Launcher(JobControlOperation),
    /// The host environment acts on the procs of this node.
    Host,
    /// None on this node: servers of other nodes may still act.
    Elsewhere,
    /// Procs make a checkpoint.
    Checkpoint(Checkpoint),
    /// Procs prepare for a preemption: until their checkpoints are made or the grace period is
    /// over.
    Grace {
        /// The checkpoint of procs that can make one.
        checkpoint: Checkpoint,
        /// True while procs that cannot make one have time left.
        unprepared: bool,
    },
}

/// The answer at the end of a request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum ControlReply {
    /// None: the requester was answered when the request was accepted.
    Given,
    /// That to the request of a client.
    Client(RequestId),
    /// That to another server, for which this one carries out the operation.
    Server(ServerReply),
}

/// The owner of a request, which may cancel it. Tools and modules are transient, so their requests
/// belong to their user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Requestor {
    /// A proc of a job.
    Proc(Proc),
    /// Tools and modules of a user.
    User(Option<u32>),
    /// Another server, by its order.
    Server(ServerReply),
}

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LedgerEntry {
    /// The name that the requester or else the server gave it.
    pub(crate) name: String,
    pub(crate) requestor: Requestor,
    /// The requester.
    pub(crate) requester: Option<Proc>,
    pub(crate) identity: Option<UserIdentity>,
    pub(crate) operation: JobControlOperation,
    pub(crate) targets: ResolvedTargets,
    pub(crate) directives: Vec<Info>,
    /// Infos for the mail about the request.
    pub(crate) mail: Option<Vec<Info>>,
    pub(crate) stage: RequestStage,
    /// True while servers of other nodes have to answer.
    pub(crate) awaits_servers: bool,
    pub(crate) reply: ControlReply,
    /// Targets for which the operation was not done.
    pub(crate) not_done: Vec<NotDone>,
    /// The status of a refusal, or of the launcher that acted on procs of other nodes.
    pub(crate) answer: Option<Status>,
    /// Further infos for the requester: reasons, answers.
    pub(crate) infos: Vec<Info>,
}

impl LedgerEntry {
    /// Returns the state of the request.
    pub(crate) fn state(&self) -> ControlState {
        match &self.stage {
            RequestStage::Accepted => ControlState::Accepted,
            RequestStage::Running(_) => ControlState::Running,
            RequestStage::Ended(end) => (*end).into(),
        }
    }

    /// Returns an action on procs of this node, for the host environment.
    ///
    /// The directives are those of the request also where the action is a part of a checkpoint or a
    /// preemption: of a signal alone a launcher could make one to the whole job, as PRRTE does.
    pub(crate) fn control(&self, action: JobAction, targets: Vec<Proc>) -> JobControl {
        JobControl {
            action,
            targets,
            directives: self.directives.clone(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.stage, RequestStage::Ended(_))
    }

    fn is_meant(&self, requestor: &Requestor, which: &RequestSelector) -> bool {
        let is_root = *requestor == Requestor::User(Some(0));
        match which {
            // RFC "Job control and monitoring": without an id, the requests of the requester are
            // cancelled. That holds for root as well, who would otherwise end those of all users.
            RequestSelector::All => self.requestor == *requestor,
            RequestSelector::Named(name) => {
                self.name == *name && (is_root || self.requestor == *requestor)
            }
        }
    }

    /// Returns the reason why the request can no longer be cancelled, if so.
    fn commitment(&self) -> Option<String> {
        match (&self.stage, &self.operation) {
            (RequestStage::Ended(_), _) => Some(format!("it is {}", self.state())),
            // No upcall takes an action back.
            (
                RequestStage::Running(
                    PendingWork::Launcher(_) | PendingWork::Host | PendingWork::Elsewhere,
                ),
                operation,
            ) => Some(format!(
                "the request to {operation} was already sent to procs"
            )),
            _ => None,
        }
    }

    /// Returns the checkpoint in progress.
    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        match &self.stage {
            RequestStage::Running(
                PendingWork::Checkpoint(checkpoint) | PendingWork::Grace { checkpoint, .. },
            ) => Some(checkpoint),
            _ => None,
        }
    }

    /// Returns the checkpoint in progress, mutable.
    pub(crate) fn checkpoint_mut(&mut self) -> Option<&mut Checkpoint> {
        match &mut self.stage {
            RequestStage::Running(
                PendingWork::Checkpoint(checkpoint) | PendingWork::Grace { checkpoint, .. },
            ) => Some(checkpoint),
            _ => None,
        }
    }

    /// Advances the time.
    pub(crate) fn expire(&mut self, now: MonotonicTime) {
        let Some(checkpoint) = self.checkpoint_mut() else {
            return;
        };
        checkpoint.expire(now);
        let is_late = now >= checkpoint.deadline;
        // Procs that make no checkpoint have the same time to prepare as those that make one.
        if let RequestStage::Running(PendingWork::Grace { unprepared, .. }) = &mut self.stage {
            *unprepared &= !is_late;
        }
    }

    /// Returns the time at which `expire` has something to do next. A request that waits for other
    /// servers alone has none.
    fn deadline(&self) -> Option<MonotonicTime> {
        let RequestStage::Running(work) = &self.stage else {
            return None;
        };
        match work {
            PendingWork::Checkpoint(checkpoint) => (!checkpoint.is_over()).then_some(checkpoint),
            PendingWork::Grace {
                checkpoint,
                unprepared,
            } => (*unprepared || !checkpoint.is_over()).then_some(checkpoint),
            _ => None,
        }
        .map(|checkpoint| checkpoint.deadline)
    }

    /// Returns a [`REQUEST`] info with the reason why the request is not cancelled.
    fn not_cancelled(&self, why: &str) -> Info {
        let why = [
            Info::new(STATUS, Value::Status(code::PMIX_ERR_INVALID_OPERATION)),
            policy::reason(why),
        ];
        Info::new(
            REQUEST,
            Value::DataArray(DataArray::infos(self.infos().into_iter().chain(why))),
        )
    }

    /// Returns the infos that describe the request to its requester. An event has room for some procs
    /// only.
    pub(crate) fn infos_for_event(&self) -> Vec<Info> {
        let mut infos = self.infos();
        infos.truncate(MAX_EVENT_INFOS);
        infos
    }

    /// Returns the infos that describe the request to its requester.
    pub(crate) fn infos(&self) -> Vec<Info> {
        let mut infos = vec![
            Info::new(key::PMIX_JOB_CTRL_ID, Value::string(&self.name)),
            Info::new(STATE, Value::string(self.state().name())),
            Info::new(OPERATION, Value::string(&self.operation.to_string())),
        ];
        infos.extend(self.infos.iter().cloned());
        infos.extend(self.not_done.iter().map(NotDone::info));
        infos
    }
}

/// The requests that a cancellation applies to.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Requests that can be cancelled.
    pub(crate) free: Vec<ControlId>,
    /// Requests that cannot, each as a [`REQUEST`] info with the reason.
    pub(crate) committed: Vec<Info>,
}

impl Cancellation {
    /// Returns the status of the cancellation.
    pub(crate) fn status(&self) -> Status {
        match (self.free.is_empty(), self.committed.is_empty()) {
            // Without an open request there is nothing that could fail.
            (_, true) => code::PMIX_SUCCESS,
            (false, false) => code::PMIX_ERR_PARTIAL_SUCCESS,
            (true, false) => code::PMIX_ERR_INVALID_OPERATION,
        }
    }
}

/// All open requests, and the last of the ended ones.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobControlLedger {
    entries: BTreeMap<ControlId, LedgerEntry>,
    /// Open requests with a deadline.
    timed: BTreeSet<(MonotonicTime, ControlId)>,
    open: usize,
    next: u64,
    #[serde(skip)]
    max: usize,
    refusals: QuotaRefusals,
}

impl JobControlLedger {
    /// Creates a ledger for at most `max` open requests. The same number of ended ones is
    /// remembered.
    pub(crate) fn new(max: usize) -> JobControlLedger {
        JobControlLedger {
            entries: BTreeMap::new(),
            timed: BTreeSet::new(),
            open: 0,
            next: 0,
            max,
            refusals: QuotaRefusals::default(),
        }
    }

    pub(crate) fn set_limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Records a request under its name or a generated one. One user may have half of the open
    /// requests, so that others can make some.
    pub(crate) fn record(
        &mut self,
        name: Option<String>,
        entry: impl FnOnce(String) -> LedgerEntry,
    ) -> Result<ControlId, JobControlError> {
        let (id, name) = match name {
            Some(name) => (self.next_id(), name),
            None => self.generate_name(),
        };
        let entry = entry(name);
        // A denied request has ended already, so it takes no room from open ones.
        if entry.is_open() {
            let uid = entry.identity.map(|identity| identity.uid);
            self.check(&entry.requestor, uid, Some(&entry.name))
                .inspect_err(|error| {
                    if let (JobControlError::Full { .. }, Some(uid)) = (error, uid) {
                        self.refusals.count(uid, Quota::JobControlRequests);
                    }
                })?;
            self.open += 1;
            self.timed.extend(entry.deadline().map(|at| (at, id)));
        }
        // A request that is not recorded uses up no id.
        self.next = id.0;
        self.entries.insert(id, entry);
        self.forget_oldest();
        Ok(id)
    }

    /// Checks that an open request of a user can be recorded under this name, or under a generated one.
    pub(crate) fn check(
        &self,
        requestor: &Requestor,
        uid: Option<u32>,
        name: Option<&str>,
    ) -> Result<(), JobControlError> {
        let open = || self.entries.values().filter(|entry| entry.is_open());
        let is_taken =
            |name: &str| open().any(|entry| entry.requestor == *requestor && entry.name == name);
        if let Some(name) = name.filter(|name| is_taken(name)) {
            return Err(JobControlError::NameTaken(name.to_owned()));
        }
        let of_user = |entry: &&LedgerEntry| entry.identity.map(|identity| identity.uid) == uid;
        // Rounded up, so that a limit of one leaves each user able to make a request.
        if self.open >= self.max || open().filter(of_user).count() >= self.max.div_ceil(2) {
            return Err(JobControlError::Full { max: self.max });
        }
        Ok(())
    }

    /// Adds the open requests of each user, and how often one was refused, to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        report.limit(
            Quota::JobControlRequests,
            self.max.div_ceil(2),
            Some(self.max),
        );
        let open = self.entries.values().filter(|entry| entry.is_open());
        report.hold(
            Quota::JobControlRequests,
            open.filter_map(|entry| Some((entry.identity?.uid, 1))),
        );
        report.refuse(&self.refusals);
    }

    /// Returns an id that no request has had. Later requests have this id or higher ones.
    pub(crate) fn next_id(&self) -> ControlId {
        ControlId(self.next + 1)
    }

    /// Returns the next id whose generated name no known request has: a requester may have chosen a
    /// name of the same form.
    fn generate_name(&self) -> (ControlId, String) {
        let known: BTreeSet<&str> = self
            .entries
            .values()
            .map(|entry| entry.name.as_str())
            .collect();
        let mut id = self.next_id();
        loop {
            let name = format!("peal-{}", id.0);
            if !known.contains(name.as_str()) {
                return (id, name);
            }
            id.0 += 1;
        }
    }

    fn forget_oldest(&mut self) {
        if self.entries.len() - self.open > self.max {
            let oldest = self
                .entries
                .iter()
                // Ids increase, so the first request that has ended is the oldest.
                .find(|(_, entry)| !entry.is_open())
                .map(|(id, _)| *id);
            oldest.and_then(|id| self.entries.remove(&id));
        }
    }

    /// Returns the open requests of other servers that fulfil a condition and can still be cancelled.
    pub(crate) fn orders(&self, is_meant: impl Fn(ServerReply) -> bool) -> Vec<ControlId> {
        let entries = self.entries.iter();
        let meant = entries.filter(|(_, entry)| match entry.requestor {
            Requestor::Server(order) => is_meant(order) && entry.commitment().is_none(),
            _ => false,
        });
        meant.map(|(id, _)| *id).collect()
    }

    /// Returns a request.
    pub(crate) fn get(&self, id: ControlId) -> Option<&LedgerEntry> {
        self.entries.get(&id)
    }

    /// Changes an open request.
    pub(crate) fn change<T>(
        &mut self,
        id: ControlId,
        change: impl FnOnce(&mut LedgerEntry) -> T,
    ) -> Option<T> {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.is_open())?;
        // Without a deadline the entry is not in the set, and nothing is removed.
        self.timed
            .remove(&(entry.deadline().unwrap_or_default(), id));
        let changed = change(entry);
        self.timed.extend(entry.deadline().map(|at| (at, id)));
        if !entry.is_open() {
            self.open -= 1;
            self.forget_oldest();
        }
        Some(changed)
    }

    /// Sorts the selected requests into those that can be cancelled and those that cannot. A named
    /// request must be of the first kind.
    ///
    /// # Errors
    ///
    /// Fails if the named request does not exist or cannot be cancelled.
    pub(crate) fn cancellable(
        &self,
        by: &Requestor,
        which: &RequestSelector,
    ) -> Result<Cancellation, JobControlError> {
        let mut meant = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_meant(by, which));
        let RequestSelector::Named(name) = which else {
            let mut sorted = Cancellation::default();
            for (id, entry) in meant.filter(|(_, entry)| entry.is_open()) {
                match entry.commitment() {
                    None => sorted.free.push(*id),
                    Some(why) => sorted.committed.push(entry.not_cancelled(&why)),
                }
            }
            return Ok(sorted);
        };
        // Names may be reused after the end of a request: the last one is meant.
        let (id, entry) = meant
            .next_back()
            .ok_or_else(|| JobControlError::UnknownRequest(name.clone()))?;
        match entry.commitment() {
            Some(reason) => Err(JobControlError::NotCancellable {
                name: name.clone(),
                reason,
            }),
            None => Ok(Cancellation {
                free: vec![*id],
                committed: Vec::new(),
            }),
        }
    }

    /// Returns the requests that wait for the checkpoint of a proc.
    pub(crate) fn awaiting(&self, proc: &Proc) -> Vec<ControlId> {
        // Each checkpoint has a deadline, so the requests with one are all that may wait.
        let awaits = |entry: &LedgerEntry| {
            entry
                .checkpoint()
                .is_some_and(|checkpoint| checkpoint.awaits(proc))
        };
        self.timed
            .iter()
            .map(|(_, id)| *id)
            .filter(|id| self.get(*id).is_some_and(awaits))
            .collect()
    }

    /// Returns the requests that are past their deadline.
    pub(crate) fn late(&self, now: MonotonicTime) -> Vec<ControlId> {
        self.timed
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, id)| *id)
            .collect()
    }

    /// Returns the next deadline.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.timed.first().map(|(at, _)| *at)
    }

    /// Describes the requests that a user may see: those of this name, or all.
    pub(crate) fn describe(&self, identity: UserIdentity, name: Option<&str>) -> Vec<Info> {
        let theirs = |entry: &&LedgerEntry| {
            identity.uid == 0 || entry.identity.is_some_and(|own| own.uid == identity.uid)
        };
        let meant = |entry: &&LedgerEntry| name.is_none_or(|name| name == entry.name);
        let entries = self.entries.values().filter(theirs).filter(meant);
        entries
            .map(|entry| Info::new(REQUEST, Value::DataArray(DataArray::infos(entry.infos()))))
            .collect()
    }
}
