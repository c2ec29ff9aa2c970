//! Who asks for something, and how they are told that they may not have it.
use super::{Action, DecisionId, RequestId, reply};
use crate::policy::{DecidedBy, Verdict};
use peal_model::{Hook, Info, Proc, Reply, Status, TargetProc, UserIdentity};
use std::fmt;

/// How many of the procs that a request is about a denial names.
const MOST_TARGETS: usize = 8;

/// Something was denied: to be counted and traced.
#[derive(Clone, PartialEq, Debug)]
pub struct Denial {
    /// Which hook.
    pub hook: Hook,
    /// To whom; none for a tool that has no name yet.
    pub requester: Option<Proc>,
    /// As whom that runs.
    pub identity: Option<UserIdentity>,
    /// Procs that it is about, the first of them.
    pub targets: Vec<Proc>,
    /// The decision that led to it; none where no policies were asked, or what they said is not why.
    pub decision: Option<DecisionId>,
    /// Who said no.
    pub by: DecidedBy,
    /// What the requester is told.
    pub status: Status,
    /// And why.
    pub reasons: Vec<Info>,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denial {
            hook,
            requester,
            identity,
            by,
            status,
            reasons,
            ..
        } = self;
        write!(f, "{by} denies {hook} to ")?;
        match requester {
            // Tools choose their names.
            Some(proc) => write!(f, "{:?}", proc.to_string())?,
            None => f.write_str("a tool without a name")?,
        }
        match identity {
            Some(identity) => write!(f, " of {identity}")?,
            None => f.write_str(" of nobody known")?,
        }
        write!(f, ": {status}")?;
        reasons
            .iter()
            .try_for_each(|info| match info.value.as_str() {
                Some(words) => write!(f, ", {words:?}"),
                None => write!(f, ", {info}"),
            })
    }
}

/// Who asks for something, and how they are refused.
#[derive(Debug)]
pub(super) struct DenialRecipient {
    pub(super) hook: Hook,
    pub(super) requester: Option<Proc>,
    pub(super) identity: Option<UserIdentity>,
    pub(super) refusal: DenialReply,
    /// Procs that the request is about, the first of them.
    pub(super) targets: Vec<Proc>,
    /// The decision that is awaited.
    pub(super) decision: Option<DecisionId>,
}

impl DenialRecipient {
    pub(super) fn new(
        hook: Hook,
        requester: Option<Proc>,
        identity: Option<UserIdentity>,
        refusal: DenialReply,
    ) -> DenialRecipient {
        DenialRecipient {
            hook,
            requester,
            identity,
            refusal,
            targets: Vec::new(),
            decision: None,
        }
    }

    /// The same of a request about these.
    pub(super) fn about(self, targets: &[TargetProc]) -> DenialRecipient {
        let targets = targets
            .iter()
            .take(MOST_TARGETS)
            .map(|target| target.proc.clone())
            .collect();
        DenialRecipient { targets, ..self }
    }

    pub(super) fn uid(&self) -> Option<u32> {
        self.identity.map(|identity| identity.uid)
    }
}

/// How.
#[derive(Debug)]
pub(super) enum DenialReply {
    /// By an answer that holds the reasons.
    Infos(RequestId),
    /// By one that would tell of a job, which libpmix reads of an error, too.
    Spawned(RequestId),
    /// By an answer that has room for the status only.
    Status(RequestId),
    /// Nobody waits for an answer.
    Silent,
}

/// Tells whoever asked, as far as there is somebody to be told.
pub(super) fn deny(asker: DenialRecipient, verdict: Verdict) -> Vec<Action> {
    let Verdict::Denied {
        by,
        status,
        reasons,
    } = verdict
    else {
        return Vec::new();
    };
    let DenialRecipient {
        hook,
        requester,
        identity,
        refusal,
        targets,
        decision,
    } = asker;
    let answer = match refusal {
        DenialReply::Infos(to) => Some(Action::Reply {
            to,
            reply: Reply::Infos {
                status,
                infos: reasons.clone(),
            },
        }),
        DenialReply::Spawned(to) => Some(Action::Reply {
            to,
            reply: Reply::Spawned {
                status,
                nspace: None,
                kvals: Vec::new(),
            },
        }),
        DenialReply::Status(to) => Some(reply(to, status)),
        DenialReply::Silent => None,
    };
    let denial = Denial {
        hook,
        requester,
        identity,
        targets,
        decision,
        by,
        status,
        reasons,
    };
    // It is on record before the requester is told.
    std::iter::once(Action::Denied(denial))
        .chain(answer)
        .collect()
}
