//! Servers with their groups in one thread: links that keep the order of messages, deaths, and a clock that goes on when nothing moves.
use super::random::Random;
use crate::carried::{carried, groups_continued};
use peal_core::{
    MonotonicTime,
    group::{
        AnnouncedGroup, ConstructRequest, DecisionSeq, FailureResponse, GroupAction, GroupCall,
        GroupCallResult, GroupKey, GroupMessage, GroupName, GroupRefusal, GroupSettings, Groups,
        JobSummary, ServerId,
    },
    job::NodeRoute,
    quota::QuotaReport,
    rank_ranges::RankRanges,
    server::{PeerId, RequestId},
};
use peal_model::{Info, Nspace, Proc, Rank, Status, Text, UserIdentity, Value, code, key};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

pub const UID: u32 = 1000;

/// Number of steps of all servers after which the process of one is replaced.
const STEPS_OF_PROCESS: u64 = 499;

/// Largest number of servers among which messages are carried as bytes, and whose processes are replaced.
const MAX_ENCODING: usize = 16;

/// A message in transit.
#[derive(Debug)]
enum Parcel {
    Message(GroupMessage),
    /// No message follows, because the sender is gone.
    Left,
}

/// A call and its result.
#[derive(Debug, Clone)]
pub struct Made {
    pub proc: Proc,
    pub group: String,
    pub construct: Option<Arc<ConstructRequest>>,
    /// True if the same proc waited for the same operation already.
    pub is_second: bool,
    pub is_refused: bool,
    pub answers: Vec<GroupCallResult>,
}

/// An event of a group that a proc received.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub proc: Proc,
    pub code: Status,
    pub group: String,
    /// The affected proc.
    pub about: Proc,
    /// The members after the event, if it names them.
    pub members: Vec<Proc>,
}

/// The choice of the message that arrives next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Any.
    Random,
    /// The message of the last link.
    Reversed,
    /// The message of the first link.
    First,
}

pub struct Sim {
    pub random: Random,
    pub now: u64,
    pub servers: BTreeMap<ServerId, Groups>,
    pub alive: BTreeSet<Proc>,
    /// The server of each job.
    pub homes: BTreeMap<Nspace, ServerId>,
    links: BTreeMap<(ServerId, ServerId), VecDeque<Parcel>>,
    pub made: Vec<Made>,
    /// The last call of each kind of each proc.
    last: BTreeMap<(Proc, String, bool), usize>,
    pub sent: usize,
    /// Number of steps of all servers.
    steps: u64,
    /// The last decision that each server received from each.
    told: BTreeMap<(ServerId, ServerId), DecisionSeq>,
    order: Order,
    /// Deaths of procs that their server does not notice: a fault that is to be found.
    pub overlooks_deaths: bool,
    pub heard: Vec<Heard>,
    /// Of which other servers' jobs each server has learnt something.
    learnt: BTreeMap<ServerId, BTreeSet<Nspace>>,
}

pub fn settings() -> GroupSettings {
    let seconds = Duration::from_secs;
    GroupSettings {
        timeout: seconds(60),
        decision_timeout: seconds(5),
        result_retention: seconds(120),
        max_per_user: 16,
    }
}

pub fn nspace(server: u32) -> Nspace {
    Nspace::new(&format!("job{server}")).unwrap()
}

pub fn proc(server: u32, rank: u32) -> Proc {
    Proc::new(nspace(server), Rank(rank))
}

/// A refusal with a status that nothing else uses.
pub fn refusal(proc: &Proc) -> GroupRefusal {
    GroupRefusal {
        proc: proc.clone(),
        status: code::PMIX_ERR_NO_PERMISSIONS,
        reasons: Vec::new(),
    }
}

pub fn group_key(name: &str) -> GroupKey {
    GroupKey {
        uid: UID,
        name: GroupName::Called(Text::from(name)),
    }
}

impl Sim {
    /// Creates servers with one job of this number of procs each.
    pub fn new(servers: u32, procs: u32, seed: u64, order: Order) -> Sim {
        let mut sim = Sim {
            random: Random(seed),
            now: 0,
            servers: BTreeMap::new(),
            alive: BTreeSet::new(),
            homes: BTreeMap::new(),
            links: BTreeMap::new(),
            made: Vec::new(),
            last: BTreeMap::new(),
            sent: 0,
            steps: 0,
            told: BTreeMap::new(),
            order,
            overlooks_deaths: false,
            heard: Vec::new(),
            learnt: BTreeMap::new(),
        };
        for number in 1..=servers {
            let id = ServerId(number);
            sim.servers.insert(id, Groups::new(id, settings()));
            let others: Vec<ServerId> = sim
                .servers
                .keys()
                .copied()
                .filter(|other| *other != id)
                .collect();
            for other in others {
                sim.step(other, |groups, _| groups.server_joined(id));
                sim.step(id, |groups, _| groups.server_joined(other));
            }
            sim.job_added(number, number, procs);
        }
        sim.deliver_all();
        sim.sent = 0;
        sim
    }

    /// Adds a server that knows no other one, with a job of its number.
    pub fn server_alone(&mut self, number: u32, procs: u32) {
        let id = ServerId(number);
        self.servers.insert(id, Groups::new(id, settings()));
        self.job_added(number, number, procs);
    }

    /// Joins a server that was alone, under another number.
    pub fn join(&mut self, alone: u32, number: u32) {
        let (old, id) = (ServerId(alone), ServerId(number));
        let mut groups = self.servers.remove(&old).unwrap();
        groups.enroll(id);
        for home in self.homes.values_mut().filter(|home| **home == old) {
            *home = id;
        }
        let others: Vec<ServerId> = self.servers.keys().copied().collect();
        self.servers.insert(id, groups);
        for other in others {
            self.step(other, |groups, _| groups.server_joined(id));
            self.step(id, |groups, _| groups.server_joined(other));
        }
    }

    /// Cuts a server off: it and the others count each other as left.
    pub fn part(&mut self, id: ServerId) {
        let others: Vec<ServerId> = self.servers.keys().copied().collect();
        for other in others.into_iter().filter(|other| *other != id) {
            self.step(other, |groups, now| groups.server_left(id, now));
            self.step(id, |groups, now| groups.server_left(other, now));
        }
        self.links.retain(|(from, to), _| *from != id && *to != id);
    }

    fn step(
        &mut self,
        at: ServerId,
        action: impl FnOnce(&mut Groups, MonotonicTime) -> Vec<GroupAction>,
    ) {
        let few_servers = self.servers.len() <= MAX_ENCODING;
        let Some(groups) = self.servers.get_mut(&at) else {
            return;
        };
        let steps = action(groups, MonotonicTime(self.now));
        self.steps += 1;
        if few_servers && self.steps.is_multiple_of(STEPS_OF_PROCESS) {
            *groups = groups_continued(groups);
            groups.set_settings(settings());
        }
        for step in steps {
            match step {
                GroupAction::Send { to, message } => {
                    assert_ne!(to, at, "nobody sends anything to itself");
                    self.tells_in_order(at, to, &message);
                    self.sent += 1;
                    if self.servers.contains_key(&to) {
                        // Among hundreds of servers the encoding would take minutes.
                        let is_encoded = self.servers.len() <= MAX_ENCODING;
                        let message = if is_encoded {
                            carried(&message)
                        } else {
                            message
                        };
                        self.links
                            .entry((at, to))
                            .or_default()
                            .push_back(Parcel::Message(message));
                    }
                }
                GroupAction::Answer { to, answer } => {
                    self.made[to.tag as usize].answers.push(answer)
                }
                GroupAction::Learn(formed) => {
                    let elsewhere = formed
                        .members
                        .jobs()
                        .filter(|nspace| self.homes.get(nspace) != Some(&at))
                        .cloned();
                    self.learnt.entry(at).or_default().extend(elsewhere);
                }
                GroupAction::AskHost(_) => panic!("no job is on other nodes"),
                GroupAction::RefuseMessage { from, refusal } => {
                    panic!("{from:?} lies to {at:?}: {refusal}")
                }
                GroupAction::Lost { .. } => panic!("nobody is invited"),
                GroupAction::Forget(jobs) => {
                    let learnt = self.learnt.entry(at).or_default();
                    jobs.iter()
                        .for_each(|nspace| assert!(learnt.remove(nspace), "{nspace} was learnt"));
                }
                GroupAction::Notify { procs, code, infos } => self.hear(&procs, code, &infos),
            }
        }
    }

    /// Checks that servers receive the decisions of a coordinator in order. A new coordinator sends
    /// some of them again.
    fn tells_in_order(&mut self, at: ServerId, to: ServerId, message: &GroupMessage) {
        let GroupMessage::Down(outcome) = message else {
            return;
        };
        let before = self.told.insert((at, to), outcome.instance);
        let is_first = at == ServerId(1);
        assert!(
            !is_first || before.is_none_or(|before| before < outcome.instance),
            "{to:?} hears {outcome:?} late"
        );
    }

    fn hear(&mut self, procs: &[Proc], code: Status, infos: &[Info]) {
        let value = |key| {
            infos
                .iter()
                .find(|info| info.key == key)
                .map(|info| &info.value)
        };
        let group = value(key::PMIX_GROUP_ID)
            .and_then(Value::as_str)
            .expect("every event of a group names it");
        let Some(Value::Proc(about)) = value(key::PMIX_EVENT_AFFECTED_PROC) else {
            panic!("and whom it is about")
        };
        let members = match value(key::PMIX_GROUP_MEMBERSHIP) {
            Some(Value::DataArray(array)) => array.as_procs().unwrap(),
            _ => Vec::new(),
        };
        let group = group.to_owned();
        let about = about.clone();
        self.heard.extend(procs.iter().map(|proc| Heard {
            proc: proc.clone(),
            code,
            group: group.clone(),
            about: about.clone(),
            members: members.clone(),
        }));
    }

    /// Adds a job.
    pub fn job_added(&mut self, server: u32, job: u32, procs: u32) {
        self.step(ServerId(server), |groups, _| {
            groups.job_added(
                &nspace(job),
                JobSummary {
                    size: procs,
                    owner: UserIdentity { uid: UID, gid: UID },
                },
                RankRanges::below(procs),
                NodeRoute::Servers,
            )
        });
        self.homes.insert(nspace(job), ServerId(server));
        self.alive.extend((0..procs).map(|rank| proc(job, rank)));
    }

    fn home(&self, proc: &Proc) -> ServerId {
        self.homes[&proc.nspace]
    }

    pub fn construct(
        &mut self,
        proc: &Proc,
        group: &str,
        construct: ConstructRequest,
        timeout: Option<u64>,
    ) {
        self.call(proc, group, Some(Arc::new(construct)), timeout, None);
    }

    /// Makes a call that policies refuse.
    pub fn refuse(&mut self, proc: &Proc, group: &str, construct: Option<ConstructRequest>) {
        self.call(
            proc,
            group,
            construct.map(Arc::new),
            None,
            Some(refusal(proc)),
        );
    }

    pub fn destruct(&mut self, proc: &Proc, group: &str, timeout: Option<u64>) {
        self.call(proc, group, None, timeout, None);
    }

    fn call(
        &mut self,
        proc: &Proc,
        group: &str,
        construct: Option<Arc<ConstructRequest>>,
        timeout: Option<u64>,
        refusal: Option<GroupRefusal>,
    ) {
        if !self.alive.contains(proc) {
            return;
        }
        let to = RequestId {
            peer: PeerId(1),
            tag: self.made.len() as u32,
        };
        let same = (proc.clone(), group.to_owned(), construct.is_some());
        let before = self.last.insert(same, self.made.len());
        let is_second = before.is_some_and(|before| self.made[before].answers.is_empty());
        let answers = Vec::new();
        let is_refused = refusal.is_some();
        self.made.push(Made {
            proc: proc.clone(),
            group: group.to_owned(),
            construct: construct.clone(),
            is_second,
            is_refused,
            answers,
        });
        let timeout = timeout.map(Duration::from_millis);
        let call = GroupCall {
            to,
            key: group_key(group),
            proc: proc.clone(),
            construct,
            infos: Vec::new(),
            timeout,
            refusal,
        };
        self.step(self.home(proc), |groups, now| groups.call(call, now));
    }

    pub fn leave(&mut self, proc: &Proc, group: &str) {
        if self.alive.contains(proc) {
            let to = RequestId {
                peer: PeerId(1),
                tag: self.made.len() as u32,
            };
            let made = Made {
                proc: proc.clone(),
                group: format!("leave {group}"),
                construct: None,
                is_second: false,
                is_refused: false,
                answers: Vec::new(),
            };
            self.made.push(made);
            self.step(self.home(proc), |groups, now| {
                groups.leave(to, &group_key(group), proc, now)
            });
        }
    }

    /// Lets a proc leave that has notified these members by an event of its own.
    pub fn depart(&mut self, proc: &Proc, group: &str, notified: &[Proc]) {
        let notified = notified.iter().cloned().collect();
        self.step(self.home(proc), |groups, now| {
            groups.part(&group_key(group), proc, notified, now)
        });
    }

    /// A proc of this server says that these have formed a group by themselves.
    pub fn announce(&mut self, server: u32, group: &str, members: &[Proc]) {
        let announced = AnnouncedGroup {
            members: members.to_vec(),
            context_id: None,
        };
        self.step(ServerId(server), |groups, now| {
            groups.announce(&group_key(group), &proc(server, 0), announced, now)
        });
    }

    pub fn say(&mut self, proc: &Proc, group: &str, saying: FailureResponse) {
        if self.alive.contains(proc) {
            self.step(self.home(proc), |groups, now| {
                groups.resolve_failure(&group_key(group), proc, saying, now)
            });
        }
    }

    pub fn die(&mut self, proc: &Proc) {
        if self.alive.remove(proc) && !self.overlooks_deaths {
            self.step(self.home(proc), |groups, now| groups.ended(proc, now));
        }
    }

    pub fn server_dies(&mut self, server: ServerId) {
        if self.servers.remove(&server).is_none() {
            return;
        }
        let homes = &self.homes;
        self.alive.retain(|proc| homes[&proc.nspace] != server);
        self.links.retain(|(_, to), _| *to != server);
        // It has died while it sent: of what is on its way the last may never have left.
        for ((_, _), parcels) in self
            .links
            .iter_mut()
            .filter(|((from, _), _)| *from == server)
        {
            parcels.truncate(self.random.below(parcels.len() + 1));
        }
        for other in self.servers.keys() {
            self.links
                .entry((server, *other))
                .or_default()
                .push_back(Parcel::Left);
        }
    }

    /// Delivers one message, if any is on its way.
    pub fn deliver(&mut self) -> bool {
        let link = match self.order {
            Order::First => self.links.keys().next(),
            Order::Reversed => self.links.keys().next_back(),
            Order::Random => self.links.keys().nth(self.random.below(self.links.len())),
        };
        let Some((from, to)) = link.copied() else {
            return false;
        };
        let parcels = self.links.get_mut(&(from, to)).unwrap();
        let parcel = parcels.pop_front().unwrap();
        if parcels.is_empty() {
            self.links.remove(&(from, to));
        }
        match parcel {
            Parcel::Message(message) => {
                self.step(to, |groups, now| groups.received(from, message, now))
            }
            Parcel::Left => self.step(to, |groups, now| groups.server_left(from, now)),
        }
        true
    }

    pub fn deliver_all(&mut self) {
        while self.deliver() {}
    }

    /// Advances the time.
    pub fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        let due: Vec<ServerId> = self
            .servers
            .iter()
            .filter(|(_, groups)| groups.deadline().is_some_and(|at| at.0 <= self.now))
            .map(|(id, _)| *id)
            .collect();
        due.into_iter().for_each(|id| self.step(id, Groups::tick));
    }

    /// Delivers messages until none is in transit and no living proc waits for an answer. Returns
    /// an error if some wait for ever.
    pub fn come_to_rest(&mut self) -> Result<(), String> {
        let until = self.now + 2 * 60_000 + 10 * 5_000;
        loop {
            self.deliver_all();
            if self.waiting().next().is_none() {
                return Ok(());
            }
            let next = self.servers.values().filter_map(Groups::deadline).min();
            let Some(next) = next.filter(|next| next.0 <= until) else {
                return Err(format!("{:?} waits for ever", self.waiting().next()));
            };
            let later = next.0.saturating_sub(self.now).max(1);
            self.pass(later);
        }
    }

    fn waiting(&self) -> impl Iterator<Item = &Made> {
        self.made
            .iter()
            .filter(|made| made.answers.is_empty() && self.alive.contains(&made.proc))
    }

    /// Ends all procs and checks that nothing is left.
    pub fn ends(mut self) -> Result<(), String> {
        self.overlooks_deaths = false;
        self.alive.clone().iter().for_each(|proc| self.die(proc));
        self.deliver_all();
        self.pass(200_000);
        self.deliver_all();
        self.pass(200_000);
        for (id, groups) in &self.servers {
            if let Some(left) = groups.leftovers() {
                return Err(format!("server {id:?} still has {left}"));
            }
            if let Some(learnt) = self.learnt.get(id).filter(|learnt| !learnt.is_empty()) {
                return Err(format!("server {id:?} still knows something of {learnt:?}"));
            }
        }
        Ok(())
    }

    /// Returns what the users hold at a server.
    pub fn quotas(&self, server: u32) -> QuotaReport {
        let mut report = QuotaReport::default();
        self.servers[&ServerId(server)].report_quotas(&mut report);
        report
    }

    pub fn status(answer: &GroupCallResult) -> Status {
        match answer {
            GroupCallResult::Formed(_) | GroupCallResult::Connected(_) | GroupCallResult::Done => {
                code::PMIX_SUCCESS
            }
            GroupCallResult::Failed(failure) => failure.status,
            GroupCallResult::NotConnected(status) => *status,
        }
    }
}
