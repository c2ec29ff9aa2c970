//! Denials, and how the requester is answered.
use super::DecisionId;
use crate::{
    policy::{DecidedBy, DeniedVerdict},
    server::{Action, RequestId, reply},
};
use peal_model::{Hook, Info, PolicyRequest, Proc, Reply, Status, TargetProc, UserIdentity};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of procs that a denial names.
const MOST_TARGETS: usize = 8;

/// A denied request, to be counted and traced.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Denial {
    /// The hook.
    pub hook: Hook,
    /// The requester; none for a tool without a name.
    pub requester: Option<Proc>,
    /// The user that the requester runs as.
    pub identity: Option<UserIdentity>,
    /// The first procs that the request concerns.
    pub targets: Vec<Proc>,
    /// The decision that led to the denial; none if no policy was called or no policy denied.
    pub decision: Option<DecisionId>,
    /// The policy or built-in rule that denied.
    pub by: DecidedBy,
    /// The status in the reply.
    pub status: Status,
    /// The reasons in the reply.
    pub reasons: Vec<Info>,
}

impl Denial {
    /// Returns the denial of a connection by its policies.
    pub fn of_connection(
        requester: Proc,
        identity: UserIdentity,
        decision: DecisionId,
        verdict: DeniedVerdict,
    ) -> Denial {
        let recipient = DenialRecipient {
            decision: Some(decision),
            ..DenialRecipient::new(
                Hook::Connection,
                Some(requester),
                Some(identity),
                DenialReply::Silent,
            )
        };
        recipient.denial(verdict)
    }
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
            // Tools choose their names, so the name is escaped.
            Some(proc) => write!(f, "{:?}", proc.to_string())?,
            None => f.write_str("a tool without a name")?,
        }
        match identity {
            Some(identity) => write!(f, " of {identity}")?,
            None => f.write_str(" of an unknown user")?,
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

/// The requester of a gated request, and how a denial is reported to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DenialRecipient {
    pub(super) hook: Hook,
    pub(super) requester: Option<Proc>,
    pub(super) identity: Option<UserIdentity>,
    pub(super) reply: DenialReply,
    /// The first procs that the request concerns.
    pub(super) targets: Vec<Proc>,
    /// The pending decision.
    pub(super) decision: Option<DecisionId>,
}

impl DenialRecipient {
    pub(super) fn new(
        hook: Hook,
        requester: Option<Proc>,
        identity: Option<UserIdentity>,
        reply: DenialReply,
    ) -> DenialRecipient {
        DenialRecipient {
            hook,
            requester,
            identity,
            reply,
            targets: Vec::new(),
            decision: None,
        }
    }

    /// Returns the recipient of a denial of this request.
    pub(super) fn of(request: &PolicyRequest, reply: DenialReply) -> DenialRecipient {
        DenialRecipient::new(
            request.subject.hook(),
            request.requester.clone(),
            request.identity,
            reply,
        )
    }

    /// Returns the recipient with the procs that its request concerns.
    pub(super) fn about(self, targets: &[TargetProc]) -> DenialRecipient {
        let targets = targets
            .iter()
            .take(MOST_TARGETS)
            .map(|target| target.proc.clone())
            .collect();
        DenialRecipient { targets, ..self }
    }

    /// Returns the denial of the request.
    pub(super) fn denial(self, verdict: DeniedVerdict) -> Denial {
        let DeniedVerdict {
            by,
            status,
            reasons,
        } = verdict;
        let DenialRecipient {
            hook,
            requester,
            identity,
            targets,
            decision,
            ..
        } = self;
        Denial {
            hook,
            requester,
            identity,
            targets,
            decision,
            by,
            status,
            reasons,
        }
    }

    pub(super) fn uid(&self) -> Option<u32> {
        self.identity.map(|identity| identity.uid)
    }
}

/// The form of the reply to a denied request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DenialReply {
    /// A reply with the reasons.
    Infos(RequestId),
    /// A spawn reply. libpmix parses the namespace of a spawn reply even if the status is an error.
    Spawned(RequestId),
    /// A reply with the status only.
    Status(RequestId),
    /// No reply, because nothing waits for one.
    Silent,
}

/// Records a denial and answers the requester, if it waits.
pub(super) fn deny(recipient: DenialRecipient, verdict: DeniedVerdict) -> Vec<Action> {
    let status = verdict.status;
    let answer = match recipient.reply {
        DenialReply::Infos(to) => Some(Action::Reply {
            to,
            reply: Reply::Infos {
                status,
                infos: verdict.reasons.clone(),
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
    // The denial must be recorded before the requester can react to it.
    std::iter::once(Action::Denied(recipient.denial(verdict)))
        .chain(answer)
        .collect()
}
