//! Groups of procs of one or several jobs. A construct or destruct has the same result for all
//! participants.
//!
//! [`Groups`] is the part of one server. Calls of its own procs ([`Groups::call`]) form a local
//! collective. When all named local procs have called, their contribution goes to the coordinator:
//! the server with the lowest id. The coordinator alone decides and sends decisions to the servers
//! concerned, so an operation takes two hops. If the coordinator is lost, the next one collects
//! reports of the remaining servers about known decisions and pending calls, and continues.
//!
//! Messages between two servers must arrive in order. [`Groups::server_left`] must follow the last
//! message of the lost server.

mod apply;
mod call;
mod coordinator;
mod coordinator_state;
mod directory;
mod established;
mod forming;
mod host_calls;
mod job_homes;
mod key;
mod lifecycle;
mod local_collectives;
mod loss_watches;
mod members;
mod message;
mod message_size;
mod next_deadline;
mod over_nodes;
mod parse;
mod proc_selection;
mod recent_refusals;
mod refusal;
mod remaining;
mod sent;
mod shared;
mod takeover;
mod trust;

pub use call::{ConstructDirectives, ConstructRequest, ConstructRole, GroupCall};
pub use key::{GroupKey, GroupName};
pub use members::Members;
pub use message::{
    AnnouncedGroup, Contribution, CoordinatorRequest, DecisionSeq, DepartureReason,
    FailureResponse, Formed, GroupDecision, GroupFailure, GroupMessage, GroupOperation,
    GroupTransition, JobSummary, Participation, ReportedJob, TakeoverReport,
};
pub use over_nodes::{
    HostGroupAnswer, HostGroupRequest, NodeContribution, NodeFailure, NodeParticipant,
};
pub use parse::{GroupError, ParsedConstruct, name, read, timeout};
pub use refusal::GroupRefusal;

use crate::{
    MonotonicTime,
    message_refusal::MessageRefusal,
    quota::{Quota, QuotaRefusals, QuotaReport},
    request_id::RequestId,
};
use coordinator_state::CoordinatorState;
use directory::{JobDirectory, ProcLocation};
use established::LocalGroup;
use host_calls::HostCalls;
use local_collectives::{ArrivingCaller, LocalCollectives};
use loss_watches::LossWatches;
use next_deadline::Earliest;
use peal_model::{Info, NamedProcs, Nspace, Proc, Status};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use takeover::Takeover;

/// A server's number in its server transport. Servers that join later have higher numbers, and none
/// is reused.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ServerId(pub u32);

/// Times and limits of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSettings {
    /// Timeout of a construct or destruct whose callers give none.
    pub timeout: Duration,
    /// Time that procs have to respond to a failure in a construct.
    pub decision_timeout: Duration,
    /// Time for which failures are remembered for late callers.
    pub result_retention: Duration,
    /// Number of groups of one user, pending constructs included.
    pub max_per_user: usize,
}

impl Default for GroupSettings {
    fn default() -> GroupSettings {
        let seconds = Duration::from_secs;
        GroupSettings {
            timeout: seconds(300),
            decision_timeout: seconds(10),
            result_retention: seconds(60),
            max_per_user: 1024,
        }
    }
}

impl GroupSettings {
    /// Returns the time for which a coordinator remembers sent decisions: half of the servers'
    /// time, so that no server forgets a decision before the coordinator does.
    fn sent_retention(&self) -> Duration {
        self.result_retention / 2
    }
}

/// An action that the caller carries out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum GroupAction {
    /// Sends a message to another server.
    Send {
        /// The receiving server.
        to: ServerId,
        /// The message.
        message: GroupMessage,
    },
    /// Asks the host environment to carry out an operation with the servers of other nodes. The
    /// answer goes to [`Groups::host_answered`].
    AskHost(Box<HostGroupRequest>),
    /// Answers a request.
    Answer {
        /// The request.
        to: RequestId,
        /// The result.
        answer: GroupCallResult,
    },
    /// Stores the data of a group with local members, which local procs may get from now on.
    Learn(Arc<Formed>),
    /// Reports a lost proc of another server to local procs of the same user that registered for
    /// that.
    Lost {
        /// The lost proc.
        proc: Proc,
        /// The user that it ran as.
        uid: u32,
    },
    /// Drops the data of remote jobs that share no group with this server any more.
    Forget(Vec<Nspace>),
    /// Raises an event for procs of this server.
    Notify {
        /// The procs.
        procs: Vec<Proc>,
        /// The event code.
        code: Status,
        /// The infos of the event.
        infos: Vec<Info>,
    },
    /// Counts and traces a message of another server that is refused.
    RefuseMessage {
        /// The sender.
        from: ServerId,
        /// The reason.
        refusal: MessageRefusal,
    },
}

/// The result of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum GroupCallResult {
    /// The group is established.
    Formed(Arc<Formed>),
    /// The procs are connected.
    Connected(Arc<Formed>),
    /// The connect or disconnect has failed with this status.
    NotConnected(Status),
    /// The destruct or leave is done.
    Done,
    /// The operation on a group has failed.
    Failed(GroupFailure),
}

/// The groups as one server sees them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Groups {
    me: ServerId,
    #[serde(skip)]
    settings: GroupSettings,
    /// The latest time that a call brought.
    clock: MonotonicTime,
    /// All servers, this one included.
    servers: BTreeSet<ServerId>,
    directory: JobDirectory,
    collectives: LocalCollectives,
    /// Groups with local members.
    known: BTreeMap<GroupKey, LocalGroup>,
    /// Recent decisions, for the next coordinator.
    recent_decisions: BTreeMap<DecisionSeq, (MonotonicTime, GroupDecision)>,
    /// The last decision that was applied.
    last_applied: DecisionSeq,
    state: CoordinatorState,
    takeover: Option<Takeover>,
    /// Requests for a coordinator that this server is not yet.
    early: Vec<(ServerId, CoordinatorRequest)>,
    /// Messages from this server to itself, with their times.
    own: VecDeque<(GroupMessage, MonotonicTime)>,
    watches: LossWatches,
    host_calls: HostCalls,
    refusals: QuotaRefusals,
    steps: Vec<GroupAction>,
    /// The next deadline. It is queried far more often than it changes, so it is stored.
    due: Option<MonotonicTime>,
}

impl Groups {
    /// Creates the groups of a server without jobs that knows no other server.
    pub fn new(me: ServerId, settings: GroupSettings) -> Groups {
        Groups {
            me,
            settings,
            clock: MonotonicTime::default(),
            servers: [me].into(),
            directory: JobDirectory::default(),
            collectives: LocalCollectives::default(),
            known: BTreeMap::new(),
            recent_decisions: BTreeMap::new(),
            last_applied: DecisionSeq::default(),
            state: CoordinatorState::new(me),
            takeover: None,
            early: Vec::new(),
            own: VecDeque::new(),
            watches: LossWatches::default(),
            host_calls: HostCalls::default(),
            refusals: QuotaRefusals::default(),
            steps: Vec::new(),
            due: None,
        }
    }

    /// Sets the settings of groups that another process has formed.
    pub fn set_settings(&mut self, settings: GroupSettings) {
        self.settings = settings;
    }

    /// Handles a call of construct or destruct by a local proc.
    pub fn call(&mut self, call: GroupCall, now: MonotonicTime) -> Vec<GroupAction> {
        // A call that waited for policies brings the time of its arrival, which may be before the
        // last tick.
        self.clock = self.clock.max(now);
        let GroupCall {
            to,
            key,
            proc,
            construct,
            infos,
            timeout,
            refusal,
        } = call;
        let part = Participation {
            proc,
            // No decision up to this one can be the answer to the call.
            after: self.last_applied,
            construct,
            refusal: refusal.map(Arc::new),
        };
        if let Err(failure) = self.may_call(&key, &part, now) {
            self.fail(
                &key,
                GroupOperation::of(part.construct.as_deref()),
                vec![(to, part)],
                &failure,
            );
            return self.take_actions();
        }
        let deadline = now + timeout.unwrap_or(self.settings.timeout);
        let operation = GroupOperation::of(part.construct.as_deref());
        let Groups {
            collectives,
            directory,
            known,
            me,
            ..
        } = self;
        let arriving = ArrivingCaller { to, part, infos };
        collectives.add_call(&key, arriving, deadline, |part| {
            match (part.names(), known.get(&key)) {
                (Some(named), _) => directory.living_at(*me, named),
                (None, Some(known)) => directory.living_at(*me, &known.left()),
                (None, None) => NamedProcs::default(),
            }
        });
        let ready = self.collectives.ready(&key, operation);
        self.pass_on(ready, now);
        self.take_actions()
    }

    /// Handles a proc that leaves a group.
    pub fn leave(
        &mut self,
        to: RequestId,
        key: &GroupKey,
        proc: &Proc,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        let answer = if self.is_in(key, proc) {
            GroupCallResult::Done
        } else {
            GroupCallResult::Failed(GroupFailure::unknown(key))
        };
        // Leaving needs no agreement, so the caller does not wait for the coordinator.
        self.answer(to, answer);
        self.part(key, proc, NamedProcs::default(), now)
    }

    /// Removes a proc from a group without an answer, where the proc's own event has notified these
    /// members.
    pub fn part(
        &mut self,
        key: &GroupKey,
        proc: &Proc,
        notified: NamedProcs,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        // The group may have ended, or the proc have left it, in the meantime.
        let known = self.known.get_mut(key);
        if let Some(known) = known.filter(|known| known.stays(proc)) {
            known.leaving.insert(proc.clone(), notified.clone());
            self.up(
                CoordinatorRequest::Leave {
                    key: key.clone(),
                    proc: proc.clone(),
                    notified,
                },
                now,
            );
        }
        self.take_actions()
    }

    fn is_in(&self, key: &GroupKey, proc: &Proc) -> bool {
        self.known.get(key).is_some_and(|known| known.stays(proc))
    }

    /// Removes a finalized proc from its connections. Connected procs are not notified of its end.
    pub fn disconnect(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<GroupAction> {
        let connected = self
            .known
            .iter()
            .filter(|(key, known)| key.name.called().is_none() && known.has(proc));
        let keys: Vec<GroupKey> = connected.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.up(
                CoordinatorRequest::Leave {
                    key,
                    proc: proc.clone(),
                    // Connected procs are not notified, so the list of those that know is empty.
                    notified: NamedProcs::default(),
                },
                now,
            );
        }
        self.take_actions()
    }

    /// Announces a group that procs formed by invitation of a leader.
    pub fn announce(
        &mut self,
        key: &GroupKey,
        by: &Proc,
        announced: AnnouncedGroup,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        let named = announced
            .members
            .iter()
            .filter_map(|named| self.directory.procs(named))
            .flatten();
        // A proc may be named by its rank and by the wildcard rank. Its first mention determines
        // its position.
        let mut once = BTreeSet::new();
        let members: Vec<Proc> = named.filter(|member| once.insert(member.clone())).collect();
        if !self.known.contains_key(key) {
            self.up(
                CoordinatorRequest::Announce {
                    key: key.clone(),
                    by: by.clone(),
                    announced: AnnouncedGroup {
                        members,
                        ..announced
                    },
                },
                now,
            );
        }
        self.take_actions()
    }

    /// Returns an unused context id for a group that procs form by invitation.
    pub fn context_id(&mut self) -> u64 {
        self.state.context_id()
    }

    /// Passes on a proc's response to a failure in a construct.
    pub fn resolve_failure(
        &mut self,
        key: &GroupKey,
        by: &Proc,
        saying: FailureResponse,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        self.up(
            CoordinatorRequest::Respond {
                key: key.clone(),
                by: by.clone(),
                saying,
            },
            now,
        );
        self.take_actions()
    }

    /// Handles a message of another server.
    pub fn received(
        &mut self,
        from: ServerId,
        message: GroupMessage,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        self.clock = now;
        // A server that has left was removed with its procs, and must not bring any back.
        if self.servers.contains(&from) {
            match self.check_sender(from, &message) {
                Ok(()) => self.take(from, message, now),
                Err(refusal) => self.refuse_message(from, refusal),
            }
        }
        self.take_actions()
    }

    /// Advances the time.
    pub fn tick(&mut self, now: MonotonicTime) -> Vec<GroupAction> {
        self.clock = now;
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        // Expired calls go to the coordinator first, so that the failure that it decides below
        // answers them, too.
        self.collectives.expire(now);
        self.pass_all_on(now);
        self.collectives.forget(now);
        let memory = self.settings.result_retention;
        while let Some(first) = self
            .recent_decisions
            .first_entry()
            .filter(|first| first.get().0 + memory <= now)
        {
            first.remove();
        }
        if self.coordinates() {
            self.decide(now, CoordinatorState::tick);
        }
        self.take_actions()
    }

    /// Returns the time at which [`Groups::tick`] has something to do next.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.due
    }

    /// Returns the groups with local members, in the order of their keys.
    pub fn known(&self) -> impl Iterator<Item = (&GroupKey, &Arc<Formed>)> {
        self.known.iter().map(|(key, known)| (key, &known.formed))
    }

    /// Adds the groups of each user, and how often one was refused, to a report.
    pub fn report_quotas(&self, report: &mut QuotaReport) {
        report.limit(Quota::Groups, self.settings.max_per_user, None);
        report.hold(Quota::Groups, self.held().map(|key| (key.uid, 1)));
        report.refuse(&self.refusals);
    }

    /// Returns the members of a group with local members, in their order.
    pub fn members(&self, key: &GroupKey) -> Option<Vec<Proc>> {
        self.known
            .get(key)
            .map(|known| known.members().cloned().collect())
    }

    /// Describes remaining state, for tests that expect none.
    pub fn leftovers(&self) -> Option<String> {
        let left = [
            (!self.collectives.is_empty(), "calls"),
            (!self.state.is_empty(), "coordinator state"),
            (!self.known.is_empty(), "groups"),
            (!self.recent_decisions.is_empty(), "past decisions"),
            (!self.early.is_empty(), "messages for a coordinator"),
            (self.takeover.is_some(), "a takeover"),
            (!self.watches.is_empty(), "loss watches"),
            (!self.host_calls.is_empty(), "calls of the host environment"),
        ];
        let left: Vec<&str> = left
            .into_iter()
            .filter_map(|(is_left, what)| is_left.then_some(what))
            .collect();
        (!left.is_empty()).then(|| left.join(", "))
    }

    /// Returns the number of this server.
    pub(crate) fn me(&self) -> ServerId {
        self.me
    }

    /// Returns the other servers.
    pub(crate) fn others(&self) -> impl Iterator<Item = ServerId> {
        let servers = self.servers.iter().copied();
        servers.filter(|server| *server != self.me)
    }

    /// Returns the coordinator: the server with the lowest number.
    pub(crate) fn coordinator(&self) -> ServerId {
        self.servers.first().copied().unwrap_or(self.me)
    }

    /// Checks whether a call can wait for an operation.
    fn may_call(
        &mut self,
        key: &GroupKey,
        part: &Participation,
        now: MonotonicTime,
    ) -> Result<(), GroupFailure> {
        let operation = GroupOperation::of(part.construct.as_deref());
        // Policies may have decided only after the proc ended.
        if self.directory.whereabouts(&part.proc) == ProcLocation::Ended {
            return Err(GroupFailure::died(&part.proc));
        }
        let refused = part.refusal.as_ref().map(GroupFailure::refused);
        if self.collectives.holds(key, operation, &part.proc) {
            // A refused proc learns of the refusal first, whatever else is wrong with the call.
            return Err(refused.unwrap_or_else(|| GroupFailure::duplicate_call(key)));
        }
        // Before other checks: a late caller gets the result of the others, whatever holds now.
        self.collectives.reject_late(key, operation, part, now)?;
        let known = self.known.get(key);
        if let Some(failure) = refused {
            // Other participants wait for a refused proc if it could take part.
            let could = known.map_or(operation == GroupOperation::Construct, |known| {
                operation == GroupOperation::Destruct && known.stays(&part.proc)
            });
            return if could { Ok(()) } else { Err(failure) };
        }
        match (&part.construct, known) {
            (Some(_), Some(_)) => Err(GroupFailure::exists(key)),
            (None, Some(known)) if known.stays(&part.proc) => Ok(()),
            (None, _) => Err(GroupFailure::unknown(key)),
            // The same list was checked with the first caller's.
            (Some(_), None)
                if part
                    .names()
                    .is_some_and(|named| self.collectives.is_named(key, named)) =>
            {
                Ok(())
            }
            (Some(construct), None) => {
                self.check_possible(construct)?;
                self.check_room(key)
            }
        }
    }

    /// Refuses a further group of a user that has as many as it may have. The coordinator counts those
    /// whose local participants have all called; here the others count, too.
    fn check_room(&self, key: &GroupKey) -> Result<(), GroupFailure> {
        let max = self.settings.max_per_user;
        if !self.collectives.is_under_construction(key) && self.held_by(key.uid) >= max {
            Err(GroupFailure::full(max))
        } else {
            Ok(())
        }
    }

    /// Returns the number of a user's groups with local members, those under construction included.
    fn held_by(&self, uid: u32) -> usize {
        let held = self.held().filter(|key| key.uid == uid);
        held.count()
    }

    fn held(&self) -> impl Iterator<Item = &GroupKey> {
        self.known
            .keys()
            .chain(self.collectives.under_construction())
    }

    /// Refuses constructs that this server knows to be impossible.
    fn check_possible(&self, construct: &ConstructRequest) -> Result<(), GroupFailure> {
        let named: &[Proc] = match &construct.role {
            ConstructRole::Leader(named) => named,
            ConstructRole::Bootstrap(_) | ConstructRole::Member => &[],
        };
        for proc in named.iter().chain(&construct.additions) {
            // The construct would otherwise wait for a proc that can never call.
            if self.directory.is_no_rank(proc) {
                return Err(GroupFailure::unknown_proc(proc));
            }
            if construct.directives.local_only && !self.directory.is_at(proc, self.me) {
                return Err(GroupFailure::not_local(proc));
            }
        }
        Ok(())
    }

    /// Sends contributions to the coordinator.
    fn pass_on(&mut self, ready: impl IntoIterator<Item = Contribution>, now: MonotonicTime) {
        for contribution in ready {
            let contribution = contribution.with_time_left(now);
            self.up(CoordinatorRequest::Brings(contribution.clone()), now);
            self.ask_host(&contribution);
        }
    }

    /// Sends the contributions that are ready, of all groups, to the coordinator.
    fn pass_all_on(&mut self, now: MonotonicTime) {
        let ready = self.collectives.all_ready();
        self.pass_on(ready, now);
    }

    fn up(&mut self, upward: CoordinatorRequest, now: MonotonicTime) {
        match self.coordinator() {
            me if me == self.me => self.coordinate(me, upward, now),
            other => self.send(other, GroupMessage::Upward(upward)),
        }
    }

    fn send(&mut self, to: ServerId, message: GroupMessage) {
        self.steps.push(GroupAction::Send { to, message });
    }

    fn broadcast(&mut self, message: &GroupMessage) {
        let others: Vec<ServerId> = self
            .servers
            .iter()
            .copied()
            .filter(|server| *server != self.me)
            .collect();
        others
            .into_iter()
            .for_each(|other| self.send(other, message.clone()));
    }

    fn answer(&mut self, to: RequestId, answer: GroupCallResult) {
        self.steps.push(GroupAction::Answer { to, answer });
    }

    /// Processes the messages of this server to itself.
    fn process_own_messages(&mut self) {
        while let Some((message, now)) = self.own.pop_front() {
            self.take(self.me, message, now);
        }
    }

    /// Processes messages to this server and returns the collected actions. Called at the end of
    /// each public operation.
    fn take_actions(&mut self) -> Vec<GroupAction> {
        self.process_own_messages();
        let past = self
            .recent_decisions
            .first_key_value()
            .map(|(_, (at, _))| *at + self.settings.result_retention);
        self.due = [self.collectives.deadline(), self.state.deadline(), past]
            .into_iter()
            .flatten()
            .min();
        std::mem::take(&mut self.steps)
    }
}

/// The data that operations on the coordinator's state may read.
struct CoordinatorContext<'a> {
    directory: &'a JobDirectory,
    settings: &'a GroupSettings,
    now: MonotonicTime,
}
