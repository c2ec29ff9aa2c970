//! The ledger: every job-control request that was accepted or denied, who made it, how far it is, and how it ended.
use super::{
    Checkpoint, ControlState, JobAction, JobControlError, NotDone, RequestSelector, STATUS,
};
use crate::{MonotonicTime, policy, server::RequestId};
use peal_model::{DataArray, Info, KeyName, Proc, Status, UserIdentity, Value, code, key};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Under this key a query about requests (`PMIX_JOB_CTRL_ID`) tells of one: an array of infos.
pub const REQUEST: KeyName = KeyName("peal.jctrl.request");
/// In it: how far it is.
pub const STATE: KeyName = KeyName("peal.jctrl.state");
/// In it: what is being done.
pub const OPERATION: KeyName = KeyName("peal.jctrl.action");

/// The number of a request; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ControlId(pub u64);

/// What is being done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobControlOperation {
    /// The host environment does something to procs.
    Act(JobAction),
    /// Procs make a checkpoint of this name.
    Checkpoint(String),
    /// Procs make room for others; in the end this is done to them.
    Preempt(JobAction),
    /// Nodes are made ready.
    Provision {
        /// Which.
        nodes: String,
        /// With which image.
        image: Option<String>,
    },
}

impl fmt::Display for JobControlOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobControlOperation::Act(action) => action.fmt(f),
            JobControlOperation::Checkpoint(checkpoint) => write!(f, "checkpoint {checkpoint:?}"),
            JobControlOperation::Preempt(action) => write!(f, "preempt, then {action}"),
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

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobControlEnd {
    /// All of it is done.
    Done,
    /// Some of it, or nothing, is done.
    Failed,
    /// Whoever made it took it back.
    Cancelled,
    /// It was not permitted.
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

/// How far a request is.
#[derive(Debug)]
pub(crate) enum RequestStage {
    /// It is permitted and has not begun: somebody is still to say whether it can be done.
    Accepted,
    /// It has begun.
    Running(PendingWork),
    /// It is over.
    Ended(JobControlEnd),
}

/// What is being waited for.
#[derive(Debug)]
pub(crate) enum PendingWork {
    /// The host environment, which does it; whoever has not been answered yet is answered then.
    Host(Option<RequestId>),
    /// Procs that make a checkpoint.
    Checkpoint(Checkpoint),
    /// Procs that prepare to be preempted: those that make a checkpoint, or the end of the time they have.
    Grace {
        /// Those who make one.
        checkpoint: Checkpoint,
        /// Whether there are procs that can make none, whose time has not passed in full.
        unprepared: bool,
    },
}

/// Who made a request, and may take it back. Tools and modules come and go, so theirs are their user's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Requestor {
    /// A proc of a job.
    Proc(Proc),
    /// Tools and modules of a user.
    User(Option<u32>),
}

/// A request.
#[derive(Debug)]
pub(crate) struct LedgerEntry {
    /// What its requester calls it, or else we.
    pub(crate) name: String,
    pub(crate) requestor: Requestor,
    /// Who made it.
    pub(crate) requester: Option<Proc>,
    pub(crate) identity: Option<UserIdentity>,
    pub(crate) operation: JobControlOperation,
    pub(crate) targets: Vec<Proc>,
    pub(crate) directives: Vec<Info>,
    /// Whom to mail.
    pub(crate) mail: Option<Vec<Info>>,
    pub(crate) stage: RequestStage,
    /// To whom it was not done.
    pub(crate) not_done: Vec<NotDone>,
    /// The status with which somebody refused to do it.
    pub(crate) refusal: Option<Status>,
    /// What else there is to say: reasons, answers.
    pub(crate) infos: Vec<Info>,
}

impl LedgerEntry {
    /// How far it is.
    pub(crate) fn state(&self) -> ControlState {
        match &self.stage {
            RequestStage::Accepted => ControlState::Accepted,
            RequestStage::Running(_) => ControlState::Running,
            RequestStage::Ended(end) => (*end).into(),
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self.stage, RequestStage::Ended(_))
    }

    fn is_meant(&self, requestor: &Requestor, which: &RequestSelector) -> bool {
        let is_root = *requestor == Requestor::User(Some(0));
        match which {
            RequestSelector::All => self.requestor == *requestor,
            RequestSelector::Named(name) => {
                self.name == *name && (is_root || self.requestor == *requestor)
            }
        }
    }

    /// Why it cannot be taken back any more, if it cannot.
    fn commitment(&self) -> Option<String> {
        match (&self.stage, &self.operation) {
            (RequestStage::Ended(_), _) => Some(format!("it is {}", self.state())),
            (RequestStage::Running(PendingWork::Host(_)), operation) => {
                Some(format!("procs were already told to {operation}"))
            }
            _ => None,
        }
    }

    /// The checkpoint that is being made.
    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        match &self.stage {
            RequestStage::Running(
                PendingWork::Checkpoint(checkpoint) | PendingWork::Grace { checkpoint, .. },
            ) => Some(checkpoint),
            RequestStage::Accepted
            | RequestStage::Running(PendingWork::Host(_))
            | RequestStage::Ended(_) => None,
        }
    }

    /// The same, to be taken further.
    pub(crate) fn checkpoint_mut(&mut self) -> Option<&mut Checkpoint> {
        match &mut self.stage {
            RequestStage::Running(
                PendingWork::Checkpoint(checkpoint) | PendingWork::Grace { checkpoint, .. },
            ) => Some(checkpoint),
            RequestStage::Accepted
            | RequestStage::Running(PendingWork::Host(_))
            | RequestStage::Ended(_) => None,
        }
    }

    /// Time has passed.
    pub(crate) fn expire(&mut self, now: MonotonicTime) {
        let Some(checkpoint) = self.checkpoint_mut() else {
            return;
        };
        checkpoint.expire(now);
        let is_late = now >= checkpoint.deadline;
        if let RequestStage::Running(PendingWork::Grace { unprepared, .. }) = &mut self.stage {
            *unprepared &= !is_late;
        }
    }

    /// When it has something to do next.
    fn deadline(&self) -> Option<MonotonicTime> {
        self.checkpoint().map(|checkpoint| checkpoint.deadline)
    }

    /// That it is not cancelled, and why.
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

    /// As whoever may know of it is told.
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

/// The requests that a cancellation is about.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Those that may be taken back.
    pub(crate) free: Vec<ControlId>,
    /// Those that may not, as their requester is told, each a [`REQUEST`] with its reason.
    pub(crate) committed: Vec<Info>,
}

impl Cancellation {
    /// The status of a cancellation that takes back what may be.
    pub(crate) fn status(&self) -> Status {
        match (self.free.is_empty(), self.committed.is_empty()) {
            (_, true) => code::PMIX_SUCCESS,
            (false, false) => code::PMIX_ERR_PARTIAL_SUCCESS,
            (true, false) => code::PMIX_ERR_INVALID_OPERATION,
        }
    }
}

/// All requests that have not ended, and the last of those that have.
#[derive(Debug)]
pub(crate) struct JobControlLedger {
    entries: BTreeMap<ControlId, LedgerEntry>,
    /// Those that have not ended and wait until some time.
    timed: BTreeSet<(MonotonicTime, ControlId)>,
    open: usize,
    next: u64,
    max: usize,
}

impl JobControlLedger {
    /// At most so many have not ended, and as many that have are remembered.
    pub(crate) fn new(max: usize) -> JobControlLedger {
        JobControlLedger {
            entries: BTreeMap::new(),
            timed: BTreeSet::new(),
            open: 0,
            next: 0,
            max,
        }
    }

    /// Takes a request in, under its name or one that nobody else has; one user's requests leave room for others'.
    pub(crate) fn record(
        &mut self,
        name: Option<String>,
        entry: impl FnOnce(String) -> LedgerEntry,
    ) -> Result<ControlId, JobControlError> {
        let id = ControlId(self.next + 1);
        let entry = entry(name.unwrap_or_else(|| format!("peal-{}", id.0)));
        if entry.is_open() {
            let open = || self.entries.values().filter(|other| other.is_open());
            if open().any(|other| other.requestor == entry.requestor && other.name == entry.name) {
                return Err(JobControlError::NameTaken(entry.name));
            }
            let uid = |entry: &LedgerEntry| entry.identity.map(|identity| identity.uid);
            let own = open().filter(|other| uid(other) == uid(&entry)).count();
            if self.open >= self.max || own >= self.max.div_ceil(2) {
                return Err(JobControlError::Full { max: self.max });
            }
            self.open += 1;
            self.timed.extend(entry.deadline().map(|at| (at, id)));
        }
        self.next = id.0;
        self.entries.insert(id, entry);
        self.forget_oldest();
        Ok(id)
    }

    fn forget_oldest(&mut self) {
        if self.entries.len() - self.open > self.max {
            let oldest = self
                .entries
                .iter()
                .find(|(_, entry)| !entry.is_open())
                .map(|(id, _)| *id);
            oldest.and_then(|id| self.entries.remove(&id));
        }
    }

    /// A request.
    pub(crate) fn get(&self, id: ControlId) -> Option<&LedgerEntry> {
        self.entries.get(&id)
    }

    /// A request that has not ended, to be taken further by `change`.
    pub(crate) fn change<T>(
        &mut self,
        id: ControlId,
        change: impl FnOnce(&mut LedgerEntry) -> T,
    ) -> Option<T> {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.is_open())?;
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

    /// Sorts the requests that are meant into those that may be taken back and those that may not any more; one that is named must be
    /// of the first sort.
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
        // A name may have been used before: the last of that name is meant.
        let (id, entry) = meant
            .next_back()
            .ok_or_else(|| JobControlError::UnknownRequest(name.clone()))?;
        match entry.commitment() {
            Some(why) => Err(JobControlError::NotCancellable {
                name: name.clone(),
                why,
            }),
            None => Ok(Cancellation {
                free: vec![*id],
                committed: Vec::new(),
            }),
        }
    }

    /// Those that wait for procs to make a checkpoint.
    pub(crate) fn awaiting(&self, proc: &Proc) -> Vec<ControlId> {
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

    /// Those whose time is over.
    pub(crate) fn late(&self, now: MonotonicTime) -> Vec<ControlId> {
        self.timed
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, id)| *id)
            .collect()
    }

    /// When the next one's time is over.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.timed.first().map(|(at, _)| *at)
    }

    /// What somebody who runs as this may know: of the requests of this name, or of all.
    pub(crate) fn told(&self, identity: UserIdentity, name: Option<&str>) -> Vec<Info> {
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
