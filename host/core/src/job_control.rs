//! What a job-control request asks for: read and checked whole before anything happens to any proc.
use peal_model::{Info, InfoFlags, Key, KeyName, Nspace, Proc, Rank, Status, Value, code, key, rank};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What is to be done to the targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobAction {
    /// Ask them to end, and end them if they do not (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// End them at once (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// Send them a signal of this number, 1 to 64 (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(u8),
}

/// A job-control request that makes sense. RFC "Job control and monitoring".
#[derive(Clone, PartialEq, Debug)]
pub struct JobControl {
    /// What the requester calls it (`PMIX_JOB_CTRL_ID`).
    pub id: Option<String>,
    /// What is to be done.
    pub action: JobAction,
    /// To whom: single procs, each once and known, in their order.
    pub targets: Vec<Proc>,
    /// All directives, for hosts that know more of the optional ones.
    pub directives: Vec<Info>,
}

/// Why a request is refused. Each names what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobControlError {
    /// It asks for nothing.
    #[error("no action is asked for; give one of pmix.jctrl.term, pmix.jctrl.kill or pmix.jctrl.sig")]
    Nothing,
    /// It asks for two things.
    #[error("{first} and {second} are asked for at once; give one action")]
    Several {
        /// One of them.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// A directive of the wrong type or out of its bounds.
    #[error("{key} should be {wanted}")]
    BadDirective {
        /// Its key string.
        key: &'static str,
        /// What would be right.
        wanted: &'static str,
    },
    /// Something that Peal does not do.
    #[error("{0} is not supported")]
    Unsupported(Key),
    /// A job that is not there.
    #[error("there is no namespace {0:?} here")]
    UnknownNspace(Nspace),
    /// A rank that its job does not have.
    #[error("{0} does not exist")]
    UnknownRank(Proc),
}

impl JobControlError {
    /// The status that tells a program of it.
    pub fn status(&self) -> Status {
        match self {
            JobControlError::Nothing | JobControlError::Several { .. } | JobControlError::BadDirective { .. } => {
                code::PMIX_ERR_BAD_PARAM
            }
            JobControlError::Unsupported(_) => code::PMIX_ERR_NOT_SUPPORTED,
            JobControlError::UnknownNspace(_) | JobControlError::UnknownRank(_) => code::PMIX_ERR_NOT_FOUND,
        }
    }
}

/// Actions and declarations of the Standard that are not done yet; passing them by would leave a request that does nothing.
const UNSERVED: [KeyName; 11] = [
    key::PMIX_JOB_CTRL_PAUSE,
    key::PMIX_JOB_CTRL_RESUME,
    key::PMIX_JOB_CTRL_CANCEL,
    key::PMIX_JOB_CTRL_RESTART,
    key::PMIX_JOB_CTRL_CHECKPOINT,
    key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
    key::PMIX_JOB_CTRL_PROVISION,
    key::PMIX_JOB_CTRL_PREEMPTIBLE,
    key::PMIX_JOB_CTRL_DEFINE_PSET,
    key::PMIX_REGISTER_CLEANUP,
    key::PMIX_REGISTER_CLEANUP_DIR,
];

/// Reads a request of `caller`; `ranks` are those of a job, if it is known.
pub fn read(
    caller: &Proc,
    targets: &[Proc],
    directives: Vec<Info>,
    ranks: impl Fn(&Nspace) -> Option<BTreeSet<Rank>>,
) -> Result<JobControl, JobControlError> {
    let (mut action, mut id) = (None, None);
    for info in &directives {
        let asked = if info.key == key::PMIX_JOB_CTRL_TERMINATE {
            flag(info, key::PMIX_JOB_CTRL_TERMINATE)?.then_some((key::PMIX_JOB_CTRL_TERMINATE.0, JobAction::Terminate))
        } else if info.key == key::PMIX_JOB_CTRL_KILL {
            flag(info, key::PMIX_JOB_CTRL_KILL)?.then_some((key::PMIX_JOB_CTRL_KILL.0, JobAction::Kill))
        } else if info.key == key::PMIX_JOB_CTRL_SIGNAL {
            Some((key::PMIX_JOB_CTRL_SIGNAL.0, JobAction::Signal(signal(&info.value)?)))
        } else {
            if info.key == key::PMIX_JOB_CTRL_ID {
                id = Some(text(&info.value)?);
            } else if info.flags.contains(InfoFlags::REQUIRED) || UNSERVED.iter().any(|key| info.key == *key) {
                return Err(JobControlError::Unsupported(info.key.clone()));
            }
            None
        };
        match (action, asked) {
            (Some((first, one)), Some((second, other))) if one != other => {
                return Err(JobControlError::Several { first, second });
            }
            (_, Some(_)) => action = asked,
            (_, None) => {}
        }
    }
    let (_, action) = action.ok_or(JobControlError::Nothing)?;
    let targets = expand(caller, targets, ranks)?;
    Ok(JobControl { id, action, targets, directives })
}

/// Who is meant: nobody named is the caller's namespace, and ranks that stand for several become those.
fn expand(
    caller: &Proc,
    targets: &[Proc],
    ranks: impl Fn(&Nspace) -> Option<BTreeSet<Rank>>,
) -> Result<Vec<Proc>, JobControlError> {
    let own = [Proc::all(caller.nspace.clone())];
    let mut named: BTreeMap<&Nspace, BTreeSet<Rank>> = BTreeMap::new();
    for target in if targets.is_empty() { &own } else { targets } {
        named.entry(&target.nspace).or_default().insert(target.rank);
    }
    let mut procs = Vec::new();
    for (nspace, mut wanted) in named {
        let known = ranks(nspace).ok_or_else(|| JobControlError::UnknownNspace(nspace.clone()))?;
        // All procs of a job are on this node.
        let whole = [rank::PMIX_RANK_WILDCARD, rank::PMIX_RANK_LOCAL_PEERS, rank::PMIX_RANK_LOCAL_NODE];
        let all = whole.iter().filter(|rank| wanted.remove(rank)).count() > 0;
        if let Some(unknown) = wanted.difference(&known).next() {
            return Err(JobControlError::UnknownRank(Proc::new(nspace.clone(), *unknown)));
        }
        let wanted = if all { known } else { wanted };
        procs.extend(wanted.into_iter().map(|rank| Proc::new(nspace.clone(), rank)));
    }
    Ok(procs)
}

fn flag(info: &Info, key: KeyName) -> Result<bool, JobControlError> {
    info.value.as_bool().ok_or(JobControlError::BadDirective { key: key.0, wanted: "a PMIX_BOOL" })
}

fn signal(value: &Value) -> Result<u8, JobControlError> {
    let number = value.as_u64().and_then(|number| u8::try_from(number).ok()).filter(|number| (1..=64).contains(number));
    let wanted = "the number of a signal, a PMIX_INT from 1 to 64";
    number.ok_or(JobControlError::BadDirective { key: key::PMIX_JOB_CTRL_SIGNAL.0, wanted })
}

fn text(value: &Value) -> Result<String, JobControlError> {
    let wrong = JobControlError::BadDirective { key: key::PMIX_JOB_CTRL_ID.0, wanted: "a PMIX_STRING" };
    value.as_str().map(str::to_owned).ok_or(wrong)
}
