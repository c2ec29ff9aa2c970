//! Invitation of procs to a group (`PMIx_Group_invite`). It uses events alone, which the leader
//! sends and collects.
use super::{
    AbsenceDecision, Group, NotFormed, contribution,
    ended::EndedInvitation,
    event_waiter::EventWaiter,
    events,
    invitation::{Abandoned, AbsenceRule, DecisionHandler, Invitation, LeaderStep},
};
use crate::{
    Call, Client, ClientError, control::signed, observers::Observer, queued_item::QueuedItem,
    session::ClientSession,
};
use peal_model::{
    CommandCode, Event, Info, Infos, KeyName, Proc, Range, Rank, Request, Status, Value, code, key,
    rank,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Default time limit for the answers of invited procs.
pub(super) const DEFAULT_INVITATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Limit of procs that may be invited at once by the wildcard rank of their job.
const MAX_WILDCARD_PROCS: u64 = 1 << 20;
/// Time limit of the handlers for a decision about an absent proc.
const DECISION: Duration = Duration::from_secs(10);

/// Options of a group by invitation.
///
/// ```no_run
/// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
/// use peal_client::{AbsenceDecision, Handler, HandlerOutcome, Invite};
/// use peal_model::{code, key, Infos};
/// use std::time::Duration;
///
/// // The group is formed without procs that do not join.
/// let handler = Handler::native(|call| {
///     call.decide("crew", &AbsenceDecision::GoOn);
///     HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
/// });
/// client.register(&[code::PMIX_GROUP_INVITE_FAILED], &[], handler).await?;
/// let invite = Invite::new().context_id().timeout(Duration::from_secs(30));
/// let group = client.group_invite("crew", &client.peers(), invite).await?;
/// println!("{:?}", group.members);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Invite {
    context_id: ContextId,
    attendance: AbsenceRule,
    timeout: Option<Duration>,
    contributed: Vec<Info>,
    infos: Vec<Info>,
}

/// Request for a context id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ContextId {
    Wanted,
    Unwanted,
}

impl Default for Invite {
    fn default() -> Invite {
        Invite::new()
    }
}

impl Invite {
    /// Creates the default options: all invited procs must join.
    pub fn new() -> Invite {
        let context_id = ContextId::Unwanted;
        let attendance = AbsenceRule::Needed;
        Invite {
            context_id,
            attendance,
            timeout: None,
            contributed: Vec::new(),
            infos: Vec::new(),
        }
    }

    /// Requests a context id that no other group has (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub fn context_id(self) -> Invite {
        Invite {
            context_id: ContextId::Wanted,
            ..self
        }
    }

    /// Forms the group without procs that do not join (`PMIX_GROUP_OPTIONAL`).
    pub fn optional(self) -> Invite {
        Invite {
            attendance: AbsenceRule::Optional,
            ..self
        }
    }

    /// Sets the time limit for answers (`PMIX_TIMEOUT`). The default is the limit of the call
    /// ([`Client::within`]), or five minutes.
    pub fn timeout(self, timeout: Duration) -> Invite {
        Invite {
            timeout: Some(timeout),
            ..self
        }
    }

    /// Adds infos about the caller for the other members (`PMIX_GROUP_INFO`), which the invitation
    /// carries too.
    pub fn saying(mut self, infos: impl IntoIterator<Item = Info>) -> Invite {
        self.contributed.extend(infos);
        self
    }

    /// Adds an info for which there is no method. The invitation and the final event to all members
    /// carry it.
    pub fn with(mut self, info: Info) -> Invite {
        self.infos.push(info);
        self
    }

    /// Returns the directives of the options, which the invitation carries.
    fn directives(&self) -> impl Iterator<Item = Info> + use<> {
        let flag = |key: KeyName| Info::new(key, Value::Bool(true));
        let directives = [
            (self.context_id == ContextId::Wanted).then(|| flag(key::PMIX_GROUP_ASSIGN_CONTEXT_ID)),
            (self.attendance == AbsenceRule::Optional).then(|| flag(key::PMIX_GROUP_OPTIONAL)),
            self.timeout
                .map(|timeout| Info::new(key::PMIX_TIMEOUT, Value::Int(signed(timeout)))),
        ];
        directives.into_iter().flatten()
    }
}

/// Invitation that the events of the queue update.
pub(super) type Led = EventWaiter<Invitation>;

impl Observer for Led {
    fn observe(&self, arrival: &QueuedItem) {
        self.note(arrival, Invitation::see);
    }
}

impl Client {
    /// Invites procs to a group that the caller leads, and waits until all have answered
    /// (`PMIx_Group_invite`).
    ///
    /// A proc that declines, ends or does not answer in time is absent. The caller's handlers
    /// receive `PMIX_GROUP_INVITE_FAILED` for each, and have ten seconds to decide
    /// ([`AbsenceDecision`]). If no handler is registered or decides, the group is not formed
    /// unless it is [`Invite::optional`].
    ///
    /// At the end the members receive `PMIX_GROUP_CONSTRUCT_COMPLETE`, or all invited procs
    /// `PMIX_GROUP_CONSTRUCT_ABORT`. The caller's own handlers receive
    /// `PMIX_GROUP_CONSTRUCT_COMPLETE` in either case, with the status
    /// (`PMIX_LOCAL_COLLECTIVE_STATUS`).
    ///
    /// [`Client::group_decide`] can abort the construct. The drop of the returned future before its
    /// end aborts it too.
    pub async fn group_invite(
        &self,
        group: &str,
        procs: &[Proc],
        invite: Invite,
    ) -> Result<Group, ClientError> {
        let directives: Vec<Info> = invite.directives().collect();
        let Invite {
            context_id,
            attendance,
            timeout,
            contributed,
            infos: provided,
        } = invite;
        let deadline =
            Instant::now() + timeout.unwrap_or(self.limit().unwrap_or(DEFAULT_INVITATION_TIMEOUT));
        // Each rank answers for itself, so that a wildcard rank cannot be awaited.
        let procs = self.resolve_wildcards(procs).await?;
        let context_id = match context_id {
            ContextId::Wanted => Some(self.new_context_id(group).await?),
            ContextId::Unwanted => None,
        };
        let answers = [
            code::PMIX_GROUP_INVITE_ACCEPTED,
            code::PMIX_GROUP_INVITE_DECLINED,
            code::PMIX_PROC_TERMINATED,
        ];
        // Before the invitation: an answer may come before the call that invites returns.
        self.register_codes(&answers).await?;
        let listened = self
            .session()
            .handlers
            .has_explicit_handler(code::PMIX_GROUP_INVITE_FAILED);
        let deciding = if listened {
            DecisionHandler::Present
        } else {
            DecisionHandler::Absent
        };
        let invitation = Invitation::new(self.me().clone(), group, procs, attendance, deciding);
        let led = Arc::new(Led::new(invitation, self.server()));
        self.session().queue.observers.add(&led);
        // An ended invitation of the same name would answer acceptances of this one with an abort.
        self.session().led_invitations.begin(group, &led);
        let why = code::PMIX_GROUP_CONSTRUCT_ABORT;
        let mut leading = Leading {
            session: self.session(),
            group,
            led: &led,
            members: None,
            failure_status: why,
        };
        let carried = [
            directives,
            provided.clone(),
            self.contribution(contributed.clone()),
        ]
        .concat();
        let led_to = self.lead(group, &led, &carried, deadline).await;
        let members = led_to.inspect_err(|error| leading.failure_status = error.status())?;

        let mut infos = events::to(&members, group);
        infos.push(Info::new(
            key::PMIX_GROUP_MEMBERSHIP,
            Value::procs(members.iter().cloned()),
        ));
        infos.push(events::status(code::PMIX_SUCCESS));
        infos.extend(context_id.map(|id| Info::new(key::PMIX_GROUP_CONTEXT_ID, Value::Size(id))));
        let contributions = led.with(|invitation| invitation.contributions());
        let infos = events::with_provided(
            infos,
            [provided, self.contribution(contributed), contributions].concat(),
        );
        // The announcement must complete even if the caller drops this future: a group that some
        // members know of cannot be aborted.
        let announced = tokio::spawn({
            let client = self.clone();
            let group = group.to_owned();
            let members = members.clone();
            let infos = infos.clone();
            async move { client.announce(&group, &members, infos).await }
        });
        // From here on the task announces the result, so that neither the drop nor a finalize may
        // announce a failure.
        led.with(Invitation::conclude);
        leading.formed(&members);
        let call = Call(CommandCode::Notify);
        announced
            .await
            .unwrap_or(Err(ClientError::NoConnection { call }))?;
        let member_infos = contribution::member_infos(&members, &infos);
        let group = Group {
            name: group.to_owned(),
            members,
            context_id,
            member_infos,
        };
        Ok(self.joined(group, &infos))
    }

    /// Decides about an absent proc of the caller's invitation, or aborts the construct. A handler
    /// decides by [`crate::HandlerCall::decide`].
    pub async fn group_decide(
        &self,
        group: &str,
        decision: &AbsenceDecision,
    ) -> Result<(), ClientError> {
        let (code, infos) = decision.event(group);
        self.notify(code, Range::ProcLocal, infos).await
    }

    /// Aborts the open invitations of this proc. The invited procs would wait for a result that cannot
    /// come any more.
    pub(crate) async fn abort_invitations(&self) {
        for led in self.session().led_invitations.take_open() {
            let Some(Abandoned { group, invited }) = led.with(Invitation::abandon) else {
                continue;
            };
            let aborted = Request::Notify {
                code: code::PMIX_GROUP_CONSTRUCT_ABORT,
                range: Range::Custom,
                infos: events::to(&invited, &group),
            };
            if let Err(error) = self.ask(aborted).await {
                tracing::debug!(group, %error, "abort of an open invitation not sent");
            }
        }
    }

    /// Carries out the steps of an invitation until its members are decided.
    async fn lead(
        &self,
        group: &str,
        led: &Led,
        carried: &[Info],
        end: Instant,
    ) -> Result<Vec<Proc>, ClientError> {
        let mut decided_by = None;
        loop {
            let todo = led.with_state(Invitation::next)?;
            let waits_for = match todo {
                LeaderStep::Invite(procs) => {
                    let infos =
                        events::with_provided(events::to(&procs, group), carried.iter().cloned());
                    self.notify(code::PMIX_GROUP_INVITED, Range::Custom, infos)
                        .await?;
                    continue;
                }
                LeaderStep::NotifyAbsence(proc) => {
                    self.report_absence(group, proc).await?;
                    continue;
                }
                LeaderStep::End(end) => return end.map_err(|reason| not_formed(group, reason)),
                LeaderStep::Wait(deciding) => deciding,
            };
            decided_by = match waits_for {
                // The time runs from the first wait, and is not extended by events in between.
                DecisionHandler::Present => decided_by.or(Some(Instant::now() + DECISION)),
                DecisionHandler::Absent => None,
            };
            let until = decided_by.unwrap_or(end).min(end);
            if timeout_at(until, led.changed()).await.is_err() {
                led.with(|invitation| {
                    if until == end {
                        invitation.expire_answers()
                    } else {
                        invitation.expire_decision()
                    }
                });
            }
        }
    }

    /// Announces the group to its members. When the server has accepted the announcement or refused
    /// it, the caller's own handlers receive the result.
    async fn announce(
        &self,
        group: &str,
        members: &[Proc],
        infos: Vec<Info>,
    ) -> Result<(), ClientError> {
        let code = code::PMIX_GROUP_CONSTRUCT_COMPLETE;
        let range = Range::Custom;
        let outcome = self
            .ask(Request::Notify {
                code,
                range,
                infos: infos.clone(),
            })
            .await;
        let me = self.me();
        let events = match &outcome {
            Ok(_) => vec![Event {
                code,
                source: Some(me.clone()),
                range: Range::ProcLocal,
                infos,
            }],
            // Members that wait for the announcement would wait until their own time limit.
            Err(error) => vec![
                events::abort(me, group, members),
                events::failure(me, group, error.status()),
            ],
        };
        self.session().announce(events);
        outcome.map(drop)
    }

    async fn report_absence(&self, group: &str, proc: Proc) -> Result<(), ClientError> {
        let infos = vec![
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc)),
            Info::new(key::PMIX_GROUP_ID, Value::string(group)),
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        ];
        self.notify(code::PMIX_GROUP_INVITE_FAILED, Range::ProcLocal, infos)
            .await
    }

    /// Requests a context id for a group that the server does not form.
    async fn new_context_id(&self, group: &str) -> Result<u64, ClientError> {
        let directives = [
            Info::new(key::PMIX_GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true)),
            Info::new(key::PMIX_GROUP_ID, Value::string(group)),
        ];
        let outcome = self.job_control(&[], &directives).await?;
        let id = outcome
            .value_of(key::PMIX_GROUP_CONTEXT_ID)
            .and_then(Value::as_u64);
        id.ok_or(ClientError::UnfitAnswer {
            call: Call(CommandCode::JobControl),
        })
    }

    /// Replaces wildcard ranks by the ranks of the job.
    pub(super) async fn resolve_wildcards(&self, procs: &[Proc]) -> Result<Vec<Proc>, ClientError> {
        let mut each = Vec::new();
        for proc in procs {
            if proc.rank != rank::PMIX_RANK_WILDCARD {
                each.push(proc.clone());
                continue;
            }
            // The size is what a server states; the bound keeps it from exhausting this client's
            // memory.
            let size = self
                .get(proc, key::PMIX_JOB_SIZE, &[])
                .await?
                .as_u64()
                .filter(|size| *size <= MAX_WILDCARD_PROCS);
            let size = size.and_then(|size| u32::try_from(size).ok());
            let ranks = 0..size.ok_or(ClientError::UnfitAnswer {
                call: Call(CommandCode::Get),
            })?;
            each.extend(ranks.map(|rank| Proc::new(proc.nspace.clone(), Rank(rank))));
        }
        Ok(each)
    }
}

fn not_formed(group: &str, reason: NotFormed) -> ClientError {
    ClientError::NotFormed {
        group: group.to_owned(),
        reason,
    }
}

/// Invitation in progress. The drop announces its end, as a failure unless members were set.
struct Leading<'a> {
    session: &'a Arc<ClientSession>,
    group: &'a str,
    led: &'a Led,
    members: Option<&'a [Proc]>,
    /// Reason for the failure event.
    failure_status: Status,
}

impl<'a> Leading<'a> {
    fn formed(mut self, members: &'a [Proc]) {
        self.members = Some(members);
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if self.led.with(|invitation| invitation.is_abandoned()) {
            return;
        }
        let members = self.members.unwrap_or_default().to_vec();
        self.session.led_invitations.end(
            EndedInvitation::new(self.session, self.group, members),
            &self.session.queue.observers,
        );
        // The ended invitation is registered as an observer first, so that a late acceptance is
        // answered either here or there.
        let me = &self.session.me;
        let events = match self.members {
            Some(_) => {
                let late = self.led.with(|invitation| invitation.late());
                if late.is_empty() {
                    Vec::new()
                } else {
                    vec![events::abort(me, self.group, &late)]
                }
            }
            None => {
                let invited = self
                    .led
                    .with(|invitation| invitation.all_invited().to_vec());
                vec![
                    events::abort(me, self.group, &invited),
                    events::failure(me, self.group, self.failure_status),
                ]
            }
        };
        self.session.announce(events);
    }
}
