//! Stepping a request through the policies of its hook: each may amend it for those after, the first grant or deny decides,
//! and where all pass the hook's default does.
use crate::{
    defaults::{self, HookDefault, RuleDenial, RuleRequest},
    order::Registrations,
    registration::{ChainPlacement, EventCodes, Mode, Registration, RegistrationError},
};
use peal_model::{
    Amendment, ChainResult, GroupOperationKind, Info, KeyName, PolicyOutcome, PolicyRequest,
    PolicySubject, Range, Status, Value, code,
};
use std::{collections::VecDeque, fmt, sync::Arc};

/// Under this key a requester is told in words why something was refused, where Peal itself refuses.
pub const REASON: KeyName = KeyName("peal.reason");

/// A reason in words.
pub fn reason(words: impl fmt::Display) -> Info {
    Info::new(REASON, Value::string(&words.to_string()))
}

/// What a policy that fails counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// A denial.
    #[default]
    Deny,
    /// Nothing: those after it decide.
    Pass,
}

/// Who has decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecidedBy {
    /// The policy of this name.
    Policy(String),
    /// The hook's default: all policies passed, or there are none.
    Default,
    /// Nobody: too many requests wait for policies.
    Overload,
    /// Nobody: whoever asked has lost its name to a job.
    Eviction,
    /// Nobody: what was decided could not be recorded.
    Unrecorded,
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecidedBy::Policy(name) => write!(f, "policy {name:?}"),
            DecidedBy::Default => f.write_str("the default"),
            DecidedBy::Overload => f.write_str("the server, which has too much to decide"),
            DecidedBy::Eviction => f.write_str("the server, since a job has that name now,"),
            DecidedBy::Unrecorded => f.write_str("the server, which cannot record what it grants,"),
        }
    }
}

/// What was concluded.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It may be done.
    Granted {
        /// Who says so.
        by: DecidedBy,
        /// The directives, of an event the infos, as they have become.
        amended: Vec<Info>,
        /// The range of an event, as it has become; none where it is about something else.
        range: Option<Range>,
        /// What is to be logged, as it has become; none where it is about something else.
        data: Option<Vec<Info>>,
        /// Of nodes that are provided: what the requester is told by whoever provides them. Nothing where it is about something
        /// else.
        answer: Vec<Info>,
    },
    /// It may not.
    Denied {
        /// Who says so.
        by: DecidedBy,
        /// What the requester is told.
        status: Status,
        /// And why.
        reasons: Vec<Info>,
    },
}

impl Verdict {
    /// Too many requests wait.
    pub fn overload() -> Verdict {
        let reasons = vec![reason(
            "too many requests wait for the site's policies; try again",
        )];
        Verdict::Denied {
            by: DecidedBy::Overload,
            status: code::PMIX_ERR_OUT_OF_RESOURCE,
            reasons,
        }
    }

    /// It was granted, and that could not be recorded.
    pub fn unrecorded() -> Verdict {
        let reasons = vec![reason(
            "what is granted cannot be recorded, as it must be; tell the administrators",
        )];
        Verdict::Denied {
            by: DecidedBy::Unrecorded,
            status: code::PMIX_ERR_NOT_AVAILABLE,
            reasons,
        }
    }

    /// Whoever asked is not any more who they were.
    pub(crate) fn evicted() -> Verdict {
        let reasons = vec![reason("your name belongs to a job now")];
        Verdict::Denied {
            by: DecidedBy::Eviction,
            status: code::PMIX_ERR_NO_PERMISSIONS,
            reasons,
        }
    }
}

impl From<RuleDenial> for Verdict {
    fn from(refused: RuleDenial) -> Verdict {
        Verdict::Denied {
            by: DecidedBy::Default,
            status: refused.status(),
            reasons: vec![reason(refused)],
        }
    }
}

/// What a policy said.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyAnswer {
    /// Its outcome, or how it failed.
    pub outcome: Result<PolicyOutcome, PolicyFailure>,
    /// What it pushed: its reasons.
    pub infos: Vec<Info>,
    /// How it changes the request.
    pub amendment: Amendment,
}

/// How a policy failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFailure {
    /// A status of Peal's own.
    pub status: Status,
    /// What happened, for people.
    pub reason: String,
}

#[derive(Clone, Debug)]
struct Policy<P> {
    on_failure: OnFailure,
    policy: P,
}

/// The policies of one hook.
#[derive(Clone, Debug)]
pub struct PolicyChain<P> {
    policies: Registrations<Policy<P>>,
}

impl<P> Default for PolicyChain<P> {
    fn default() -> Self {
        PolicyChain {
            policies: Registrations::default(),
        }
    }
}

impl<P> PolicyChain<P> {
    /// Adds a policy where it wants to stand, or says who is in the way. All policies of a hook are of one category.
    pub fn register(
        &mut self,
        name: &str,
        (place, mode): (ChainPlacement, Mode),
        on_failure: OnFailure,
        policy: P,
    ) -> Result<(), RegistrationError> {
        let registration = Registration {
            place,
            mode,
            ..Registration::new(name, EventCodes::Default)
        };
        self.policies
            .register(registration, Policy { on_failure, policy })
            .map(|_| ())
    }

    /// The policies, in the order in which they are asked.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.policies.iter().map(|(_, _, entry)| &entry.policy)
    }
}

impl<P: Clone> PolicyChain<P> {
    /// The run of this request through the policies; where all pass, `default` decides.
    pub fn run(&self, request: Arc<PolicyRequest>, default: HookDefault) -> PolicyRun<P> {
        let members = self
            .policies
            .iter()
            .map(|(_, registration, entry)| HookMember {
                name: registration.name.clone(),
                on_failure: entry.on_failure,
                policy: entry.policy.clone(),
            });
        PolicyRun {
            request,
            waiting: members.collect(),
            steps: Arc::default(),
            default,
            verdict: None,
        }
    }
}

#[derive(Clone, Debug)]
struct HookMember<P> {
    name: Arc<str>,
    on_failure: OnFailure,
    policy: P,
}

/// A request on its way, between two policies.
#[derive(Clone, Debug)]
pub struct PolicyRun<P> {
    request: Arc<PolicyRequest>,
    waiting: VecDeque<HookMember<P>>,
    steps: Arc<Vec<ChainResult>>,
    default: HookDefault,
    verdict: Option<Verdict>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum NextPolicy<P> {
    /// This policy is to be asked.
    Ask(PendingPolicy<P>),
    /// It is decided.
    Done(ConcludedRun),
}

/// A policy that is to be asked, or is being asked.
#[derive(Clone, Debug)]
pub struct PendingPolicy<P> {
    run: PolicyRun<P>,
    member: HookMember<P>,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct ConcludedRun {
    /// What was concluded.
    pub verdict: Verdict,
    /// One entry for every policy that was asked, in their order.
    pub steps: Vec<ChainResult>,
}

impl<P> PolicyRun<P> {
    /// Goes on to the next policy, or to the end.
    pub fn advance(mut self) -> NextPolicy<P> {
        let verdict = match self.verdict.take() {
            Some(verdict) => verdict,
            None => match self.waiting.pop_front() {
                Some(member) => return NextPolicy::Ask(PendingPolicy { run: self, member }),
                None => by_default(self.default, &self.request),
            },
        };
        NextPolicy::Done(ConcludedRun {
            verdict,
            steps: Arc::unwrap_or_clone(self.steps),
        })
    }
}

/// What a hook's default says.
pub fn by_default(default: HookDefault, request: &PolicyRequest) -> Verdict {
    match defaults::decide(default, &RuleRequest::of(request)) {
        Ok(()) => granted(DecidedBy::Default, request, &[]),
        Err(refused) => refused.into(),
    }
}

impl<P> PendingPolicy<P> {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.member.name
    }

    /// What is asked.
    pub fn policy(&self) -> &P {
        &self.member.policy
    }

    /// The request, as those before it amended it.
    pub fn request(&self) -> &Arc<PolicyRequest> {
        &self.run.request
    }

    /// What those before it said, oldest first.
    pub fn steps(&self) -> &Arc<Vec<ChainResult>> {
        &self.run.steps
    }

    /// Goes on as if it were not there.
    pub fn pass_over(self) -> PolicyRun<P> {
        self.run
    }

    /// Records what it said.
    pub fn finish(self, said: PolicyAnswer) -> PolicyRun<P> {
        let PendingPolicy { mut run, member } = self;
        let by = DecidedBy::Policy(member.name.to_string());
        let (status, infos) = match said.outcome {
            Ok(PolicyOutcome::Pass) => {
                run.amend(said.amendment);
                (code::PMIX_SUCCESS, said.infos)
            }
            Ok(PolicyOutcome::Grant) => {
                run.amend(said.amendment);
                run.verdict = Some(granted(by, &run.request, &said.infos));
                (code::PMIX_SUCCESS, said.infos)
            }
            Ok(PolicyOutcome::Deny(status)) => {
                // Whoever is refused must not take it for a success.
                let status = if status.is_success() {
                    code::PMIX_ERR_NO_PERMISSIONS
                } else {
                    status
                };
                run.verdict = Some(Verdict::Denied {
                    by,
                    status,
                    reasons: said.infos.clone(),
                });
                (status, said.infos)
            }
            Err(PolicyFailure {
                status,
                reason: why,
            }) => {
                let infos = vec![reason(format_args!(
                    "policy {:?} failed: {why}",
                    member.name
                ))];
                if member.on_failure == OnFailure::Deny {
                    run.verdict = Some(Verdict::Denied {
                        by,
                        status,
                        reasons: infos.clone(),
                    });
                }
                (status, infos)
            }
        };
        Arc::make_mut(&mut run.steps).push(ChainResult {
            name: member.name,
            status,
            infos,
        });
        run
    }
}

impl<P> PolicyRun<P> {
    fn amend(&mut self, amendment: Amendment) {
        if amendment == Amendment::default() {
            return;
        }
        let Amendment { infos, range, data } = amendment;
        let request = Arc::make_mut(&mut self.request);
        if let Some(amended) = infos {
            match request.matter {
                PolicySubject::JobControl
                | PolicySubject::Monitor
                | PolicySubject::Registration
                | PolicySubject::Log
                | PolicySubject::Spawn
                | PolicySubject::Group(
                    GroupOperationKind::Construct | GroupOperationKind::Destruct,
                ) => request.directives = amended,
                // They are those of a request for job control, or of an event, which was decided about before.
                PolicySubject::Provision
                | PolicySubject::Group(GroupOperationKind::Invite | GroupOperationKind::Join) => {}
                PolicySubject::Event { .. } | PolicySubject::Connection(_) => {
                    request.infos = amended
                }
            }
        }
        if let (PolicySubject::Event { range, .. }, Some(amended)) = (&mut request.matter, range)
            && amended.is_within(*range)
        {
            *range = amended;
        }
        if let (PolicySubject::Log, Some(rewritten)) = (&request.matter, data) {
            request.infos = rewritten;
        }
    }
}

/// The request as it has become, and what whoever granted it said.
fn granted(by: DecidedBy, request: &PolicyRequest, said: &[Info]) -> Verdict {
    let range = if let PolicySubject::Event { range, .. } = request.matter {
        Some(range)
    } else {
        None
    };
    let data = (request.matter == PolicySubject::Log).then(|| request.infos.clone());
    let amended = match request.matter {
        PolicySubject::JobControl
        | PolicySubject::Monitor
        | PolicySubject::Provision
        | PolicySubject::Registration
        | PolicySubject::Log
        | PolicySubject::Spawn
        | PolicySubject::Group(_) => &request.directives,
        PolicySubject::Event { .. } | PolicySubject::Connection(_) => &request.infos,
    };
    let answer = if request.matter == PolicySubject::Provision {
        said.to_vec()
    } else {
        Vec::new()
    };
    Verdict::Granted {
        by,
        amended: amended.clone(),
        range,
        data,
        answer,
    }
}
