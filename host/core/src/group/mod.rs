//! Groups: procs of one or several jobs that act as one. A construct or destruct ends in the same way for everybody who takes part.
//!
//! [`Groups`] is the part of one server in it, stepped by hand: what its own procs call ([`Groups::call`]) waits in the lobby until all
//! of them that are named have called, and goes to the *coordinator*, the first of the servers there are. The coordinator alone decides, and
//! tells the servers concerned: two hops. Where it dies, the next one learns from everybody who is left what they were told and what
//! they wait for, and goes on from there.
//!
//! Messages from one server to another must arrive in their order, and [`Groups::server_left`] only behind the last message of the one
//! that is gone.

mod apply;
mod call;
mod coordinator;
mod coordinator_state;
mod directory;
mod established;
mod forming;
mod key;
mod lifecycle;
mod local_collectives;
mod loss_watches;
mod members;
mod message;
mod next_deadline;
mod parse;
mod refusal;
mod remaining;
mod sent;
mod shared;
mod takeover;

pub use call::{ConstructDirectives, ConstructRequest, ConstructRole, GroupCall};
pub use key::{GroupKey, GroupName};
pub use members::Members;
pub use message::{
    AnnouncedGroup, Contribution, CoordinatorRequest, DecisionSeq, DepartureReason,
    FailureResponse, Formed, GroupDecision, GroupFailure, GroupMessage, GroupOperation,
    GroupTransition, JobSummary, Participation, TakeoverReport,
};
pub use parse::{GroupError, ParsedConstruct, name, read, timeout};
pub use refusal::GroupRefusal;

use crate::{MonotonicTime, server::RequestId};
use coordinator_state::CoordinatorState;
use directory::{JobDirectory, ProcLocation};
use established::LocalGroup;
use local_collectives::LocalCollectives;
use loss_watches::LossWatches;
use next_deadline::Earliest;
use peal_model::{Info, NamedProcs, Nspace, Proc, Status};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use takeover::Takeover;

/// A server's number in its fabric. Whoever joins later has a higher one, and none is given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ServerId(pub u32);

/// How long things may take, and how many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSettings {
    /// How long a construct or destruct may take that came without a time-out.
    pub timeout: Duration,
    /// How long procs have to say what is to become of a construct in which somebody failed.
    pub decision_timeout: Duration,
    /// For how long whoever comes late learns how it ended.
    pub result_retention: Duration,
    /// How many groups a user may have, with those that are being formed.
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
    /// For how long a coordinator remembers what it has told: half as long as servers do, so that none of them forgets before it.
    fn told_for(&self) -> Duration {
        self.result_retention / 2
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupAction {
    /// Send this to another server.
    Send {
        /// Which.
        to: ServerId,
        /// What.
        message: GroupMessage,
    },
    /// Answer a request.
    Answer {
        /// Which.
        to: RequestId,
        /// With this.
        answer: GroupCallResult,
    },
    /// A group with members here is there: what the others have put is to be had from now on.
    Learn(Arc<Formed>),
    /// A proc of another server is lost, for those here who run as this and want to hear of that.
    Lost {
        /// Who.
        proc: Proc,
        /// As which user it ran.
        uid: u32,
    },
    /// What was learnt of these jobs is nobody's business here any more.
    Forget(Vec<Nspace>),
    /// Raise an event for procs of this server.
    Tell {
        /// Whom.
        procs: Vec<Proc>,
        /// What.
        code: Status,
        /// About what.
        infos: Vec<Info>,
    },
}

/// How a call ended.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupCallResult {
    /// The group is there.
    Formed(Arc<Formed>),
    /// The procs are connected.
    Connected(Arc<Formed>),
    /// They are not, because of this.
    NotConnected(Status),
    /// It is done.
    Done,
    /// It is not, and why.
    Failed(GroupFailure),
}

/// The groups as one server sees them.
#[derive(Debug)]
pub struct Groups {
    me: ServerId,
    settings: GroupSettings,
    /// The last time that is known.
    clock: MonotonicTime,
    /// Who is there, with us.
    servers: BTreeSet<ServerId>,
    directory: JobDirectory,
    lobby: LocalCollectives,
    /// The groups with members here.
    known: BTreeMap<GroupKey, LocalGroup>,
    /// What was told last, for a coordinator that does not know.
    past: BTreeMap<DecisionSeq, (MonotonicTime, GroupDecision)>,
    /// The last thing that was told.
    seen: DecisionSeq,
    board: CoordinatorState,
    takeover: Option<Takeover>,
    /// What came for a coordinator that we are not yet.
    early: Vec<(ServerId, CoordinatorRequest)>,
    /// What we tell ourselves, and when.
    own: VecDeque<(GroupMessage, MonotonicTime)>,
    watches: LossWatches,
    steps: Vec<GroupAction>,
    /// When there is something to do next: asked for far more often than it changes.
    due: Option<MonotonicTime>,
}

impl Groups {
    /// A server without jobs that knows of no other.
    pub fn new(me: ServerId, settings: GroupSettings) -> Groups {
        Groups {
            me,
            settings,
            clock: MonotonicTime::default(),
            servers: [me].into(),
            directory: JobDirectory::default(),
            lobby: LocalCollectives::default(),
            known: BTreeMap::new(),
            past: BTreeMap::new(),
            seen: DecisionSeq::default(),
            board: CoordinatorState::new(me),
            takeover: None,
            early: Vec::new(),
            own: VecDeque::new(),
            watches: LossWatches::default(),
            steps: Vec::new(),
            due: None,
        }
    }

    /// A proc of this server calls construct or destruct.
    pub fn call(&mut self, call: GroupCall, now: MonotonicTime) -> Vec<GroupAction> {
        self.clock = self.clock.max(now);
        let GroupCall {
            to,
            key,
            proc,
            what,
            timeout,
            refusal,
        } = call;
        let part = Participation {
            proc,
            after: self.seen,
            construct: what,
            refusal: refusal.map(Arc::new),
        };
        if let Err(failure) = self.may_call(&key, &part, now) {
            self.fail(
                &key,
                GroupOperation::of(part.construct.as_deref()),
                vec![(to, part)],
                &failure,
            );
            return self.taken();
        }
        let deadline = now + timeout.unwrap_or(self.settings.timeout);
        let operation = GroupOperation::of(part.construct.as_deref());
        let Groups {
            lobby,
            directory,
            known,
            me,
            ..
        } = self;
        lobby.add_call(&key, to, part, deadline, |part| {
            match (part.names(), known.get(&key)) {
                (Some(named), _) => directory.living_at(*me, named),
                (None, Some(known)) => directory.living_at(*me, &known.left()),
                (None, None) => NamedProcs::default(),
            }
        });
        let ready = self.lobby.ready(&key, operation);
        self.pass_on(ready, now);
        self.taken()
    }

    /// A proc leaves a group.
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
        self.answer(to, answer);
        self.part(key, proc, NamedProcs::default(), now)
    }

    /// The same for one that needs no answer, and has told these members by an event.
    pub fn part(
        &mut self,
        key: &GroupKey,
        proc: &Proc,
        notified: NamedProcs,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        if self.is_in(key, proc) {
            self.up(
                CoordinatorRequest::Leave {
                    key: key.clone(),
                    proc: proc.clone(),
                    notified,
                },
                now,
            );
        }
        self.taken()
    }

    fn is_in(&self, key: &GroupKey, proc: &Proc) -> bool {
        self.known.get(key).is_some_and(|known| known.has(proc))
    }

    /// A proc leaves in order: who is connected with it does not hear of its end.
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
                    notified: NamedProcs::default(),
                },
                now,
            );
        }
        self.taken()
    }

    /// Procs have formed a group by themselves.
    pub fn announce(
        &mut self,
        key: &GroupKey,
        announced: AnnouncedGroup,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        let named = announced
            .members
            .iter()
            .filter_map(|named| self.directory.procs(named))
            .flatten();
        let mut once = BTreeSet::new();
        let members: Vec<Proc> = named.filter(|member| once.insert(member.clone())).collect();
        if !self.known.contains_key(key) {
            self.up(
                CoordinatorRequest::Announce {
                    key: key.clone(),
                    announced: AnnouncedGroup {
                        members,
                        ..announced
                    },
                },
                now,
            );
        }
        self.taken()
    }

    /// A number for a group that procs form by themselves; no other group has it.
    pub fn context_id(&mut self) -> u64 {
        self.board.context_id()
    }

    /// A proc says what is to become of a construct in which somebody failed.
    pub fn resolve_failure(
        &mut self,
        key: &GroupKey,
        by: &Proc,
        saying: FailureResponse,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        self.up(
            CoordinatorRequest::Say {
                key: key.clone(),
                by: by.clone(),
                saying,
            },
            now,
        );
        self.taken()
    }

    /// Something came from another server.
    pub fn received(
        &mut self,
        from: ServerId,
        message: GroupMessage,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        self.clock = now;
        if self.servers.contains(&from) {
            self.take(from, message, now);
        }
        self.taken()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: MonotonicTime) -> Vec<GroupAction> {
        self.clock = now;
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.lobby.expire(now);
        self.pass_all_on(now);
        self.lobby.forget(now);
        let memory = self.settings.result_retention;
        while let Some(first) = self
            .past
            .first_entry()
            .filter(|first| first.get().0 + memory <= now)
        {
            first.remove();
        }
        if self.coordinates() {
            self.decide(now, CoordinatorState::tick);
        }
        self.taken()
    }

    /// When [`Groups::tick`] has something to do next.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.due
    }

    /// The groups with members here, in the order of their keys.
    pub fn known(&self) -> impl Iterator<Item = (&GroupKey, &Arc<Formed>)> {
        self.known.iter().map(|(key, known)| (key, &known.formed))
    }

    /// Who is in a group that has members here, in their order.
    pub fn members(&self, key: &GroupKey) -> Option<Vec<Proc>> {
        self.known
            .get(key)
            .map(|known| known.members().cloned().collect())
    }

    /// What is still there of anything, in words, for whoever wants to see that nothing is.
    pub fn leftovers(&self) -> Option<String> {
        let left = [
            (!self.lobby.is_empty(), "calls"),
            (!self.board.is_empty(), "a board"),
            (!self.known.is_empty(), "groups"),
            (!self.past.is_empty(), "a past"),
            (!self.early.is_empty(), "messages for a coordinator"),
            (self.takeover.is_some(), "a takeover"),
            (!self.watches.is_empty(), "somebody who watches"),
        ];
        let left: Vec<&str> = left
            .into_iter()
            .filter_map(|(is_left, what)| is_left.then_some(what))
            .collect();
        (!left.is_empty()).then(|| left.join(", "))
    }

    /// Who decides.
    fn coordinator(&self) -> ServerId {
        self.servers.first().copied().unwrap_or(self.me)
    }

    /// Whether there is anything to wait for.
    fn may_call(
        &mut self,
        key: &GroupKey,
        part: &Participation,
        now: MonotonicTime,
    ) -> Result<(), GroupFailure> {
        let operation = GroupOperation::of(part.construct.as_deref());
        // Policies may have taken so long that it has ended meanwhile.
        if self.directory.whereabouts(&part.proc) == ProcLocation::Ended {
            return Err(GroupFailure::died(&part.proc));
        }
        let refused = part.refusal.as_ref().map(GroupRefusal::failure);
        if self.lobby.holds(key, operation, &part.proc) {
            return Err(refused.unwrap_or_else(|| GroupFailure::duplicate_call(key)));
        }
        self.lobby.reject_late(key, operation, part, now)?;
        let known = self.known.get(key);
        if let Some(failure) = refused {
            // Others wait for it where it could take part.
            let could = known.map_or(operation == GroupOperation::Construct, |known| {
                operation == GroupOperation::Destruct && known.has(&part.proc)
            });
            return if could { Ok(()) } else { Err(failure) };
        }
        match (&part.construct, known) {
            (Some(_), Some(_)) => Err(GroupFailure::exists(key)),
            (None, Some(known)) if known.has(&part.proc) => Ok(()),
            (None, _) => Err(GroupFailure::unknown(key)),
            // What the first of them names was looked at then.
            (Some(_), None)
                if part
                    .names()
                    .is_some_and(|named| self.lobby.is_named(key, named)) =>
            {
                Ok(())
            }
            (Some(construct), None) => self.makes_sense(construct),
        }
    }

    /// What this server knows to be impossible is refused at once.
    fn makes_sense(&self, construct: &ConstructRequest) -> Result<(), GroupFailure> {
        let named: &[Proc] = match &construct.role {
            ConstructRole::Leader(named) => named,
            ConstructRole::Bootstrap(_) | ConstructRole::Member => &[],
        };
        for proc in named.iter().chain(&construct.additions) {
            if self.directory.is_no_rank(proc) {
                return Err(GroupFailure::unknown_proc(proc));
            }
            if construct.wishes.local_only && !self.directory.is_at(&proc.nspace, self.me) {
                return Err(GroupFailure::not_local(proc));
            }
        }
        Ok(())
    }

    /// Hands what is complete here to the coordinator.
    fn pass_on(&mut self, ready: impl IntoIterator<Item = Contribution>, now: MonotonicTime) {
        for contribution in ready {
            self.up(
                CoordinatorRequest::Brings(contribution.with_time_left(now)),
                now,
            );
        }
    }

    /// The same for all groups.
    fn pass_all_on(&mut self, now: MonotonicTime) {
        let ready = self.lobby.all_ready();
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

    /// What is to be done, at the end of everything that is.
    fn taken(&mut self) -> Vec<GroupAction> {
        while let Some((message, now)) = self.own.pop_front() {
            self.take(self.me, message, now);
        }
        let past = self
            .past
            .first_key_value()
            .map(|(_, (at, _))| *at + self.settings.result_retention);
        self.due = [self.lobby.deadline(), self.board.deadline(), past]
            .into_iter()
            .flatten()
            .min();
        std::mem::take(&mut self.steps)
    }
}

/// What is to be seen from the coordinator's board.
struct CoordinatorContext<'a> {
    directory: &'a JobDirectory,
    settings: &'a GroupSettings,
    now: MonotonicTime,
}
