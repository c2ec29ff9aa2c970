//! Inviting others to a group (`PMIx_Group_invite`): on events alone, which one who leads sends and gathers.
use super::{
    AbsenceDecision, Group, NotFormed, contribution,
    ended::EndedInvitation,
    event_waiter::EventWaiter,
    events,
    invitation::{AbsenceRule, Deciding, Invitation, Todo},
};
use crate::{
    Call, Client, ClientError, control::signed, observers::Observer, queue::QueuedItem,
    session::ClientSession,
};
use peal_model::{
    CommandCode, Event, Info, Infos, KeyName, Proc, Range, Rank, Request, Status, Value, code, key,
    rank,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// How long those who are invited have where nobody says so.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// How many procs may be invited at once by the name of their job.
const MOST: u64 = 1 << 20;
/// How long our handlers have to decide about somebody who does not come.
const DECISION: Duration = Duration::from_secs(10);

/// What is wanted of a group to which others are invited.
///
/// ```no_run
/// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
/// use peal_client::{AbsenceDecision, Handler, Invite, HandlerOutcome};
/// use peal_model::{code, key, Infos};
/// use std::time::Duration;
///
/// // Whoever does not come is not missed.
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
    says: Vec<Info>,
    infos: Vec<Info>,
}

/// Whether a number is wanted.
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
    /// All are to come.
    pub fn new() -> Invite {
        let (context_id, attendance) = (ContextId::Unwanted, AbsenceRule::Needed);
        Invite {
            context_id,
            attendance,
            timeout: None,
            says: Vec::new(),
            infos: Vec::new(),
        }
    }

    /// The group gets a number that no other has (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub fn context_id(self) -> Invite {
        Invite {
            context_id: ContextId::Wanted,
            ..self
        }
    }

    /// The group is formed without those who do not come (`PMIX_GROUP_OPTIONAL`).
    pub fn optional(self) -> Invite {
        Invite {
            attendance: AbsenceRule::Optional,
            ..self
        }
    }

    /// How long those who are invited have (`PMIX_TIMEOUT`); without it, as long as the call may take ([`Client::within`]), or five
    /// minutes.
    pub fn timeout(self, timeout: Duration) -> Invite {
        Invite {
            timeout: Some(timeout),
            ..self
        }
    }

    /// What the others are to know of the caller (`PMIX_GROUP_INFO`), from the invitation on.
    pub fn saying(mut self, infos: impl IntoIterator<Item = Info>) -> Invite {
        self.says.extend(infos);
        self
    }

    /// Adds an info that has no word here. It goes along in the invitation, and in the event that all members hear in the end.
    pub fn with(mut self, info: Info) -> Invite {
        self.infos.push(info);
        self
    }

    /// Directives that have a word here, as they go along in the invitation.
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

/// The invitation, where events find it.
type Led = EventWaiter<Invitation>;

impl Observer for Led {
    fn see(&self, arrival: &QueuedItem) {
        self.note(arrival, Invitation::see);
    }
}

impl Client {
    /// Invites these to a group that we lead, and waits until all have answered (`PMIx_Group_invite`).
    ///
    /// Whoever declines, ends or does not answer in time does not come. Our handlers hear of each as `PMIX_GROUP_INVITE_FAILED`, and decide
    /// within ten seconds what is to become of it ([`AbsenceDecision`]); where none listens or decides, nothing comes of the group unless it is
    /// [`Invite::optional`]. In the end the members hear `PMIX_GROUP_CONSTRUCT_COMPLETE`, or all who were invited
    /// `PMIX_GROUP_CONSTRUCT_ABORT`. Our own handlers hear `PMIX_GROUP_CONSTRUCT_COMPLETE` in either case, with the status
    /// (`PMIX_LOCAL_COLLECTIVE_STATUS`). It is called off when what this returns is dropped before its end, or by [`Client::group_decide`].
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
            says,
            infos: provided,
        } = invite;
        let deadline = Instant::now() + timeout.unwrap_or(self.limit().unwrap_or(PATIENCE));
        let procs = self.each(procs).await?;
        let context_id = match context_id {
            ContextId::Wanted => Some(self.new_context_id(group).await?),
            ContextId::Unwanted => None,
        };
        let answers = [
            code::PMIX_GROUP_INVITE_ACCEPTED,
            code::PMIX_GROUP_INVITE_DECLINED,
            code::PMIX_PROC_TERMINATED,
        ];
        self.want(&answers).await?;
        let listened = self
            .session()
            .handlers
            .listen_to(code::PMIX_GROUP_INVITE_FAILED);
        let deciding = if listened {
            Deciding::Asked
        } else {
            Deciding::Nobody
        };
        let invitation = Invitation::new(self.me().clone(), group, procs, attendance, deciding);
        let led = Arc::new(Led::new(invitation, self.server()));
        self.session().queue.observers.add(&led);
        self.session().over.begin(group);
        let why = code::PMIX_GROUP_CONSTRUCT_ABORT;
        let mut leading = Leading {
            session: self.session(),
            group,
            led: &led,
            members: None,
            why,
        };
        let carried = [
            directives,
            provided.clone(),
            self.contribution(says.clone()),
        ]
        .concat();
        let led_to = self.lead(group, &led, &carried, deadline).await;
        let members = led_to.inspect_err(|error| leading.why = error.status())?;

        let mut infos = events::to(&members, group);
        infos.push(Info::new(
            key::PMIX_GROUP_MEMBERSHIP,
            Value::procs(members.iter().cloned()),
        ));
        infos.push(events::status(code::PMIX_SUCCESS));
        infos.extend(context_id.map(|id| Info::new(key::PMIX_GROUP_CONTEXT_ID, Value::Size(id))));
        let brought = led.with(|invitation| invitation.brought());
        let infos =
            events::with_provided(infos, [provided, self.contribution(says), brought].concat());
        // From here on it is there, whether or not the caller still waits: what is half announced cannot be called off.
        let announced = tokio::spawn({
            let (client, group, members, infos) = (
                self.clone(),
                group.to_owned(),
                members.clone(),
                infos.clone(),
            );
            async move { client.announce(&group, &members, infos).await }
        });
        leading.formed(&members);
        let call = Call(CommandCode::Notify);
        announced
            .await
            .unwrap_or(Err(ClientError::NoConnection { call }))?;
        let said = contribution::all_said(&members, &infos);
        let group = Group {
            name: group.to_owned(),
            members,
            context_id,
            said,
        };
        Ok(self.joined(group, &infos))
    }

    /// Decides what becomes of an invitation of ours that somebody does not follow, or calls it off. A handler does so by
    /// [`crate::HandlerCall::decide`].
    pub async fn group_decide(
        &self,
        group: &str,
        decision: &AbsenceDecision,
    ) -> Result<(), ClientError> {
        let (code, infos) = decision.event(group);
        self.notify(code, Range::ProcLocal, infos).await
    }

    /// Goes on with an invitation until it is decided who comes.
    async fn lead(
        &self,
        group: &str,
        led: &Led,
        carried: &[Info],
        end: Instant,
    ) -> Result<Vec<Proc>, ClientError> {
        let mut decided_by = None;
        loop {
            let todo = led.look(Invitation::next)?;
            let waits_for = match todo {
                Todo::Invite(procs) => {
                    let infos =
                        events::with_provided(events::to(&procs, group), carried.iter().cloned());
                    self.notify(code::PMIX_GROUP_INVITED, Range::Custom, infos)
                        .await?;
                    continue;
                }
                Todo::Tell(proc) => {
                    self.tell_of_absence(group, proc).await?;
                    continue;
                }
                Todo::End(end) => return end.map_err(|why| not_formed(group, why)),
                Todo::Wait(deciding) => deciding,
            };
            decided_by = match waits_for {
                Deciding::Asked => decided_by.or(Some(Instant::now() + DECISION)),
                Deciding::Nobody => None,
            };
            let until = decided_by.unwrap_or(end).min(end);
            if timeout_at(until, led.changed()).await.is_err() {
                led.with(|invitation| {
                    if until == end {
                        invitation.is_late()
                    } else {
                        invitation.is_undecided()
                    }
                });
            }
        }
    }

    /// Announces the group to its members, and to our own handlers when the server has taken that, or the error.
    async fn announce(
        &self,
        group: &str,
        members: &[Proc],
        infos: Vec<Info>,
    ) -> Result<(), ClientError> {
        let (code, range) = (code::PMIX_GROUP_CONSTRUCT_COMPLETE, Range::Custom);
        let told = self
            .ask(Request::Notify {
                code,
                range,
                infos: infos.clone(),
            })
            .await;
        let me = self.me();
        let events = match &told {
            Ok(_) => vec![Event {
                code,
                source: Some(me.clone()),
                range: Range::ProcLocal,
                infos,
            }],
            Err(error) => vec![
                events::abort(me, group, members),
                events::failure(me, group, error.status()),
            ],
        };
        self.session().announce(events);
        told.map(drop)
    }

    async fn tell_of_absence(&self, group: &str, proc: Proc) -> Result<(), ClientError> {
        let infos = vec![
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc)),
            Info::new(key::PMIX_GROUP_ID, Value::string(group)),
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        ];
        self.notify(code::PMIX_GROUP_INVITE_FAILED, Range::ProcLocal, infos)
            .await
    }

    /// A number for a group that a server does not form.
    async fn new_context_id(&self, group: &str) -> Result<u64, ClientError> {
        let directives = [
            Info::new(key::PMIX_GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true)),
            Info::new(key::PMIX_GROUP_ID, Value::string(group)),
        ];
        let told = self.job_control(&[], &directives).await?;
        let id = told
            .value_of(key::PMIX_GROUP_CONTEXT_ID)
            .and_then(Value::as_u64);
        id.ok_or(ClientError::UnfitAnswer {
            call: Call(CommandCode::JobControl),
        })
    }

    /// Each of these procs by its rank.
    pub(super) async fn each(&self, procs: &[Proc]) -> Result<Vec<Proc>, ClientError> {
        let mut each = Vec::new();
        for proc in procs {
            if proc.rank != rank::PMIX_RANK_WILDCARD {
                each.push(proc.clone());
                continue;
            }
            let size = self
                .get(proc, key::PMIX_JOB_SIZE, &[])
                .await?
                .as_u64()
                .filter(|size| *size <= MOST);
            let size = size.and_then(|size| u32::try_from(size).ok());
            let ranks = 0..size.ok_or(ClientError::UnfitAnswer {
                call: Call(CommandCode::Get),
            })?;
            each.extend(ranks.map(|rank| Proc::new(proc.nspace.clone(), Rank(rank))));
        }
        Ok(each)
    }
}

fn not_formed(group: &str, why: NotFormed) -> ClientError {
    ClientError::NotFormed {
        group: group.to_owned(),
        why,
    }
}

/// An invitation that is called off unless it ends well.
struct Leading<'a> {
    session: &'a Arc<ClientSession>,
    group: &'a str,
    led: &'a Led,
    members: Option<&'a [Proc]>,
    /// Why there is no group, unless there is one.
    why: Status,
}

impl<'a> Leading<'a> {
    fn formed(mut self, members: &'a [Proc]) {
        self.members = Some(members);
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let members = self.members.unwrap_or_default().to_vec();
        self.session.over.end(
            EndedInvitation::new(self.session, self.group, members),
            &self.session.queue.observers,
        );
        // Who comes late is told by that from here on.
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
                let invited = self.led.with(|invitation| invitation.everybody().to_vec());
                vec![
                    events::abort(me, self.group, &invited),
                    events::failure(me, self.group, self.why),
                ]
            }
        };
        self.session.announce(events);
    }
}
