//! Steps of a request through the policies of its hook. Each policy may amend the request for those
//! after it. The first grant or denial decides; where all pass, the hook's default does.
use crate::{
    decision_limits::DecisionLimit,
    defaults::{self, HookDefault, RuleDenial, RuleRequest},
    order::Registrations,
    registration::{ChainPlacement, EventCodes, HandlerRegistration, Mode, RegistrationError},
};
use peal_model::{
    Amendment, ChainResult, Info, KeyName, PolicyOutcome, PolicyRequest, Range, Status, Value, code,
};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, fmt, sync::Arc};

/// Key of the reason, as text, for a request that Peal itself refuses.
pub const REASON: KeyName = KeyName("peal.reason");

/// Returns a reason as an info.
pub fn reason(words: impl fmt::Display) -> Info {
    Info::new(REASON, Value::string(&words.to_string()))
}

/// The effect of a policy's failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// The request is denied.
    #[default]
    Deny,
    /// The policy passes, and those after it decide.
    Pass,
}

/// The origin of a verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DecidedBy {
    /// The policy of this name.
    Policy(String),
    /// The hook's default, because all policies passed or none exist.
    Default,
    /// The server, because of a limit of pending decisions.
    Overload(DecisionLimit),
    /// The server, because it has no thread for policies.
    Unavailable,
    /// The server, because the requester has lost its name to a job.
    Eviction,
    /// The server, because the decision could not be recorded.
    Unrecorded,
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecidedBy::Policy(name) => write!(f, "policy {name:?}"),
            DecidedBy::Default => f.write_str("the default"),
            DecidedBy::Overload(_) => f.write_str("the server, with too many decisions pending,"),
            DecidedBy::Unavailable => f.write_str("the server, without a thread for policies,"),
            DecidedBy::Eviction => f.write_str("the server, because a job has that name now,"),
            DecidedBy::Unrecorded => {
                f.write_str("the server, because its decision cannot be recorded,")
            }
        }
    }
}

/// The conclusion of a policy chain.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// The request is granted.
    Granted {
        /// The origin.
        by: DecidedBy,
        /// The directives, or of an event the infos, with the amendments.
        amended: Vec<Info>,
        /// The range of an event, with the amendments; none for other subjects.
        range: Option<Range>,
        /// The data of a log request, with the amendments; none for other subjects.
        data: Option<Vec<Info>>,
        /// The provisioner's infos for the requester; empty for other subjects.
        answer: Vec<Info>,
    },
    /// The request is denied.
    Denied(DeniedVerdict),
}

/// A denial.
#[derive(Clone, PartialEq, Debug)]
pub struct DeniedVerdict {
    /// The origin.
    pub by: DecidedBy,
    /// The status for the requester.
    pub status: Status,
    /// The reasons.
    pub reasons: Vec<Info>,
}

impl DeniedVerdict {
    /// Returns the denial of a request when decisions are pending up to this limit.
    pub fn overload(limit: DecisionLimit) -> DeniedVerdict {
        let reasons = vec![reason(format_args!(
            "too many requests are waiting for the site's policies ({limit}); try again"
        ))];
        DeniedVerdict {
            by: DecidedBy::Overload(limit),
            status: code::PMIX_ERR_OUT_OF_RESOURCE,
            reasons,
        }
    }

    /// Returns the denial of a request whose policies cannot be called.
    pub fn unavailable() -> DeniedVerdict {
        let reasons = vec![reason("the site's policies cannot be called; try again")];
        DeniedVerdict {
            by: DecidedBy::Unavailable,
            status: code::PMIX_ERR_OUT_OF_RESOURCE,
            reasons,
        }
    }

    /// Returns the denial of a granted request that could not be recorded.
    pub fn unrecorded() -> DeniedVerdict {
        let reasons = vec![reason(
            "the decision cannot be recorded; notify the administrators",
        )];
        DeniedVerdict {
            by: DecidedBy::Unrecorded,
            status: code::PMIX_ERR_NOT_AVAILABLE,
            reasons,
        }
    }

    /// Returns the denial of a request whose requester has lost its name to a job.
    pub(crate) fn evicted() -> DeniedVerdict {
        let reasons = vec![reason("your name belongs to a job now")];
        DeniedVerdict {
            by: DecidedBy::Eviction,
            status: code::PMIX_ERR_NO_PERMISSIONS,
            reasons,
        }
    }
}

impl From<RuleDenial> for DeniedVerdict {
    fn from(refused: RuleDenial) -> DeniedVerdict {
        DeniedVerdict {
            by: DecidedBy::Default,
            status: refused.status(),
            reasons: vec![reason(refused)],
        }
    }
}

/// The answer of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyAnswer {
    /// The outcome, or the failure.
    pub outcome: Result<PolicyOutcome, PolicyFailure>,
    /// The reasons that the policy added.
    pub infos: Vec<Info>,
    /// The policy's amendment of the request.
    pub amendment: Amendment,
}

/// The failure of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFailure {
    /// The status, one of Peal's own.
    pub status: Status,
    /// The reason, as text.
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
    /// Adds a policy at its placement. All policies of a hook are of one category.
    ///
    /// # Errors
    ///
    /// Fails if the placement is taken or impossible.
    pub fn register(
        &mut self,
        name: &str,
        (place, mode): (ChainPlacement, Mode),
        on_failure: OnFailure,
        policy: P,
    ) -> Result<(), RegistrationError> {
        let registration = HandlerRegistration {
            place,
            mode,
            ..HandlerRegistration::new(name, EventCodes::Default)
        };
        self.policies
            .register(registration, Policy { on_failure, policy })
            .map(|_| ())
    }

    /// Returns the policies, in the order in which they are called.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.policies.iter().map(|entry| &entry.handler.policy)
    }
}

impl<P: Clone> PolicyChain<P> {
    /// Returns the run of a request through the policies. Where all pass, `default` decides.
    pub fn run(&self, request: Arc<PolicyRequest>, default: HookDefault) -> PolicyRun<P> {
        let members = self.policies.iter().map(|entry| HookMember {
            name: entry.registration.name.clone(),
            on_failure: entry.handler.on_failure,
            policy: entry.handler.policy.clone(),
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

/// A request in a policy chain, between two policies.
#[derive(Clone, Debug)]
pub struct PolicyRun<P> {
    request: Arc<PolicyRequest>,
    waiting: VecDeque<HookMember<P>>,
    steps: Arc<Vec<ChainResult>>,
    default: HookDefault,
    verdict: Option<Verdict>,
}

/// The next step of a run.
#[derive(Clone, Debug)]
pub enum NextPolicy<P> {
    /// Calls this policy.
    Call(PendingPolicy<P>),
    /// Ends the run.
    Done(ConcludedRun),
}

/// A policy that is to be called, or is being called.
#[derive(Clone, Debug)]
pub struct PendingPolicy<P> {
    run: PolicyRun<P>,
    member: HookMember<P>,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct ConcludedRun {
    /// The verdict.
    pub verdict: Verdict,
    /// One entry for every policy that was called, in order.
    pub steps: Vec<ChainResult>,
}

impl<P> PolicyRun<P> {
    /// Advances to the next policy or to the end.
    pub fn advance(mut self) -> NextPolicy<P> {
        let verdict = match self.verdict.take() {
            Some(verdict) => verdict,
            None => match self.waiting.pop_front() {
                Some(member) => return NextPolicy::Call(PendingPolicy { run: self, member }),
                None => by_default(self.default, &self.request),
            },
        };
        NextPolicy::Done(ConcludedRun {
            verdict,
            steps: Arc::unwrap_or_clone(self.steps),
        })
    }
}

/// Returns the verdict of a hook's default.
pub fn by_default(default: HookDefault, request: &PolicyRequest) -> Verdict {
    match defaults::decide(default, &RuleRequest::of(request)) {
        Ok(()) => granted(DecidedBy::Default, request, &[]),
        Err(refused) => Verdict::Denied(refused.into()),
    }
}

impl<P> PendingPolicy<P> {
    /// Returns the name of the policy.
    pub fn name(&self) -> &Arc<str> {
        &self.member.name
    }

    /// Returns the policy to call.
    pub fn policy(&self) -> &P {
        &self.member.policy
    }

    /// Returns the request with the amendments so far.
    pub fn request(&self) -> &Arc<PolicyRequest> {
        &self.run.request
    }

    /// Returns the answers of earlier policies, oldest first.
    pub fn steps(&self) -> &Arc<Vec<ChainResult>> {
        &self.run.steps
    }

    /// Continues as if the policy did not exist.
    pub fn pass_over(self) -> PolicyRun<P> {
        self.run
    }

    /// Records the policy's answer.
    pub fn finish(self, answer: PolicyAnswer) -> PolicyRun<P> {
        let PendingPolicy { mut run, member } = self;
        let by = DecidedBy::Policy(member.name.to_string());
        let (status, infos) = match answer.outcome {
            Ok(PolicyOutcome::Pass) => {
                run.amend(answer.amendment);
                (code::PMIX_SUCCESS, answer.infos)
            }
            Ok(PolicyOutcome::Grant) => {
                run.amend(answer.amendment);
                run.verdict = Some(granted(by, &run.request, &answer.infos));
                (code::PMIX_SUCCESS, answer.infos)
            }
            Ok(PolicyOutcome::Deny(status)) => {
                // A requester must not take a denial for a success.
                let status = if status.is_success() {
                    code::PMIX_ERR_NO_PERMISSIONS
                } else {
                    status
                };
                run.verdict = Some(Verdict::Denied(DeniedVerdict {
                    by,
                    status,
                    reasons: answer.infos.clone(),
                }));
                (status, answer.infos)
            }
            // The amendment of a policy that failed is dropped with its answer.
            Err(PolicyFailure {
                status,
                reason: why,
            }) => {
                let infos = vec![reason(format_args!(
                    "policy {:?} failed: {why}",
                    member.name
                ))];
                if member.on_failure == OnFailure::Deny {
                    run.verdict = Some(Verdict::Denied(DeniedVerdict {
                        by,
                        status,
                        reasons: infos.clone(),
                    }));
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
        Arc::make_mut(&mut self.request).subject.amend(amendment);
    }
}

/// Returns the verdict that grants a request with its amendments, and the infos of the granting
/// policy.
fn granted(by: DecidedBy, request: &PolicyRequest, infos: &[Info]) -> Verdict {
    let subject = &request.subject;
    let answer = if subject.is_answered_by_policy() {
        infos.to_vec()
    } else {
        Vec::new()
    };
    Verdict::Granted {
        by,
        amended: subject.granted().to_vec(),
        range: subject.range(),
        data: subject.log_data().map(<[Info]>::to_vec),
        answer,
    }
}
