//! What happens to what is decided: it goes to those concerned, and is kept for whoever decides next.
use super::{
    Answer, Contribution, GroupKey, Groups, Instance, Message, Operation, Outcome, Part, Report, Scene, ServerId, What,
    board::{Board, Decided},
    lobby::Latecomers,
    standing::{Known, Standing},
};
use crate::Time;
use peal_model::{Info, Nspace, Proc, Status, Value, code, key};
use std::collections::{BTreeMap, BTreeSet};

/// A coordinator that begins, and waits for what the others know.
#[derive(Debug, Default)]
pub(super) struct Takeover {
    reports: BTreeMap<ServerId, Report>,
}

impl Groups {
    /// Something came from a server, or from ourselves.
    pub(super) fn take(&mut self, from: ServerId, message: Message, now: Time) {
        match message {
            Message::Job { nspace, size } => {
                self.directory.add(nspace.clone(), from, size);
                self.board_knows_job(&nspace, now);
            }
            Message::JobGone(nspace) => {
                let procs = self.directory.remove(&nspace);
                self.bury(&procs, now);
            }
            Message::Down(outcome) => self.apply(outcome, now),
            Message::Refuse { key, operation, calls, failure } => {
                let meant = |part: &Part| calls.iter().any(|(proc, after)| part.proc == *proc && part.after == *after);
                for (to, _) in self.lobby.answered(&key, operation, meant) {
                    self.answer(to, Answer::Failed(failure.clone()));
                }
            }
            Message::Tell { procs, code, infos } => self.tell(procs, code, infos),
            message => self.coordinate(from, message, now),
        }
    }

    /// What is for the coordinator. Whoever sends it knows already that we are that.
    fn coordinate(&mut self, from: ServerId, message: Message, now: Time) {
        if let Message::Report(report) = message {
            self.takeover.get_or_insert_default().reports.insert(from, report);
            return self.take_over(now);
        }
        if self.coordinator() != self.me || self.takeover.is_some() {
            self.early.push((from, message));
            return;
        }
        match &message {
            Message::Ended(proc) => drop(self.directory.end(proc)),
            Message::Back(proc) => drop(self.directory.unend(proc)),
            _ => {}
        }
        let (board, at) = self.at_board(now);
        let decided = match message {
            Message::Ended(proc) => board.bury(&[proc], &at),
            Message::Up(contribution) => board.contribute(from, contribution, &at),
            Message::Announce { key, members } => board.announce(&key, members, &at),
            Message::Leave { key, proc } => board.leave(&key, &proc, &at),
            Message::Say { key, by, saying } => board.say(&key, &by, saying, &at),
            Message::Back(_)
            | Message::Job { .. }
            | Message::JobGone(_)
            | Message::Report(_)
            | Message::Down(_)
            | Message::Refuse { .. }
            | Message::Tell { .. } => Vec::new(),
        };
        self.carry_out(decided, now);
    }

    /// The board, and what is to be seen from there.
    pub(super) fn at_board(&mut self, now: Time) -> (&mut Board, Scene<'_>) {
        let Groups { board, directory, settings, .. } = self;
        (board, Scene { directory, settings, now })
    }

    pub(super) fn board_knows_job(&mut self, nspace: &Nspace, now: Time) {
        if self.coordinator() == self.me && self.takeover.is_none() {
            let (board, at) = self.at_board(now);
            let decided = board.knows_job(nspace, &at);
            self.carry_out(decided, now);
        }
    }

    /// Procs are gone with their job or server.
    pub(super) fn bury(&mut self, procs: &[Proc], now: Time) {
        if self.coordinator() == self.me && self.takeover.is_none() {
            let (board, at) = self.at_board(now);
            let decided = board.bury(procs, &at);
            self.carry_out(decided, now);
        }
    }

    /// Tells those concerned what was decided.
    pub(super) fn carry_out(&mut self, decided: Vec<Decided>, now: Time) {
        for decided in decided {
            match decided {
                Decided::Outcome(servers, outcome) => {
                    let to = servers.unwrap_or_else(|| self.servers.clone());
                    for server in to {
                        self.hand(server, Message::Down(outcome.clone()), now);
                    }
                }
                Decided::Refuse(to, key, operation, calls, failure) => {
                    self.hand(to, Message::Refuse { key, operation, calls, failure }, now);
                }
                Decided::Tell(procs, code, infos) => {
                    let mut at: BTreeMap<ServerId, Vec<Proc>> = BTreeMap::new();
                    for proc in procs {
                        if let Some(server) = self.directory.home(&proc.nspace) {
                            at.entry(server).or_default().push(proc);
                        }
                    }
                    for (server, procs) in at {
                        self.hand(server, Message::Tell { procs, code, infos: infos.clone() }, now);
                    }
                }
            }
        }
    }

    fn hand(&mut self, to: ServerId, message: Message, now: Time) {
        if to == self.me {
            self.take(to, message, now);
        } else if self.servers.contains(&to) {
            self.send(to, message);
        }
    }

    /// Something is decided: those who wait for it here are answered.
    fn apply(&mut self, outcome: Outcome, now: Time) {
        let Outcome { key, instance, what } = &outcome;
        // A coordinator that begins tells some of it again.
        let is_known = self.known.get(key).is_some_and(|known| known.instance >= *instance);
        if is_known || self.past.contains_key(instance) {
            return;
        }
        self.seen = self.seen.max(*instance);
        self.past.insert(*instance, (now, outcome.clone()));
        let before = |part: &Part| part.after < *instance;
        let until = now + self.settings.memory;
        match what {
            What::Formed(formed) => {
                self.lobby.nobody_is_late(key, Operation::Construct);
                let known = Known { instance: *instance, formed: formed.clone(), gone: BTreeSet::new() };
                if !known.members_at(self.me, &self.directory).is_empty() {
                    self.steps.push(super::Step::Learn(formed.clone()));
                    self.known.insert(key.clone(), known);
                }
                for (to, proc) in self.lobby.answered(key, Operation::Construct, before) {
                    let answer = if formed.members.contains(&proc) {
                        Answer::Formed(formed.clone())
                    } else {
                        Answer::Failed(super::Failure::exists(key))
                    };
                    self.answer(to, answer);
                }
            }
            What::NotFormed { failure, late, called } => {
                let answered = self.lobby.answered(key, Operation::Construct, before);
                let had: BTreeSet<Proc> = answered.iter().map(|(_, proc)| proc).chain(called).cloned().collect();
                let awaited = late.as_ref().map(|late| late.difference(&had).cloned().collect());
                let whom = Latecomers { awaited, answered: had };
                self.lobby.remember(key, Operation::Construct, failure.clone(), whom, until);
                for (to, _) in answered {
                    self.answer(to, Answer::Failed(failure.clone()));
                }
            }
            What::Dissolved => {
                self.known.remove(key);
                for (to, _) in self.lobby.answered(key, Operation::Destruct, before) {
                    self.answer(to, Answer::Done);
                }
            }
            What::NotDissolved(failure) => {
                let answered = self.lobby.answered(key, Operation::Destruct, before);
                if let Some(known) = self.known.get_mut(key) {
                    known.instance = *instance;
                    let had: BTreeSet<Proc> = answered.iter().map(|(_, proc)| proc.clone()).collect();
                    let members = known.members_at(self.me, &self.directory);
                    let awaited = Some(members.difference(&had).cloned().collect());
                    let whom = Latecomers { awaited, answered: had };
                    self.lobby.remember(key, Operation::Destruct, failure.clone(), whom, until);
                }
                for (to, _) in answered {
                    self.answer(to, Answer::Failed(failure.clone()));
                }
            }
            What::Changed(proc, change) => self.changed(key, *instance, proc, *change, now),
        }
    }

    fn changed(&mut self, key: &GroupKey, instance: Instance, proc: &Proc, change: super::Change, now: Time) {
        let Some(known) = self.known.get_mut(key) else { return };
        known.instance = instance;
        known.gone.insert(proc.clone());
        self.lobby.left(key, proc);
        let code = match change {
            super::Change::Left => Some(code::PMIX_GROUP_LEFT),
            super::Change::Failed => known.formed.notifies.then_some(code::PMIX_GROUP_MEMBER_FAILED),
        };
        let here: Vec<Proc> = known.members_at(self.me, &self.directory).into_iter().collect();
        let infos = vec![
            Info::new(key::PMIX_GROUP_ID, Value::String(Some(key.name.clone()))),
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
            Info::new(key::PMIX_GROUP_MEMBERSHIP, Value::procs(known.members().cloned())),
        ];
        if here.is_empty() {
            self.known.remove(key);
        } else if let Some(code) = code {
            self.tell(here, code, infos);
        }
        // Who waited for them to call for its end does not any more.
        self.pass_on(now);
    }

    fn tell(&mut self, procs: Vec<Proc>, code: Status, infos: Vec<Info>) {
        self.steps.push(super::Step::Tell { procs, code, infos });
    }

    /// The coordinator is gone: the next one learns what we know.
    pub(super) fn report(&mut self, now: Time) {
        let jobs = self.directory.of(self.me).map(|(nspace, size)| {
            let ended = self.directory.ended_of(&nspace);
            (nspace, (size, ended))
        });
        let known = self.known.iter();
        let report = Report {
            jobs: jobs.collect(),
            known: known.map(|(k, v)| (k.clone(), (v.instance, v.formed.clone(), v.gone.clone()))).collect(),
            past: self.past.values().map(|(_, outcome)| outcome.clone()).collect(),
            open: self.lobby.open().into_iter().map(|open| open.with_time_left(now)).collect(),
        };
        if self.coordinator() == self.me {
            self.takeover.get_or_insert_default();
        }
        self.up(Message::Report(report), now);
    }

    /// Goes on from where the last coordinator was, once everybody who is left has said what they know.
    pub(super) fn take_over(&mut self, now: Time) {
        let all = self.coordinator() == self.me
            && self
                .takeover
                .as_ref()
                .is_some_and(|takeover| self.servers.iter().all(|server| takeover.reports.contains_key(server)));
        if !all {
            return;
        }
        let Some(Takeover { mut reports }) = self.takeover.take() else { return };
        reports.retain(|server, _| self.servers.contains(server));
        self.board = Board::new(self.me, self.settings.memory);
        for (server, report) in &reports {
            for (nspace, (size, ended)) in &report.jobs {
                self.directory.add(nspace.clone(), *server, *size);
                for rank in ended {
                    self.directory.end(&Proc::new(nspace.clone(), *rank));
                }
            }
        }
        let past = all_past(&reports);
        for (key, standing) in standing(&reports, &past) {
            self.board.inherit(key, standing);
        }
        self.tell_again(&reports, &past, now);
        let (board, at) = self.at_board(now);
        let decided = board.bury_ended(&at);
        self.carry_out(decided, now);
        for (server, report) in reports {
            for open in report.open {
                self.resume(server, open, now);
            }
        }
        for (from, message) in std::mem::take(&mut self.early) {
            self.coordinate(from, message, now);
        }
    }

    fn resume(&mut self, server: ServerId, open: Contribution, now: Time) {
        let (board, at) = self.at_board(now);
        let decided = board.contribute(server, open, &at);
        self.carry_out(decided, now);
    }

    /// Servers that wait for something, or have a group, of which others were told more, are told the same.
    fn tell_again(&mut self, reports: &BTreeMap<ServerId, Report>, past: &BTreeMap<Instance, Outcome>, now: Time) {
        for (server, report) in reports {
            let concerned: BTreeSet<&GroupKey> =
                report.open.iter().map(|open| &open.key).chain(report.known.keys()).collect();
            let had: BTreeSet<Instance> = report.past.iter().map(|outcome| outcome.instance).collect();
            for outcome in past.values().filter(|outcome| concerned.contains(&outcome.key)) {
                self.board.tells(outcome, Some(&[*server].into()), now);
                if !had.contains(&outcome.instance) {
                    self.hand(*server, Message::Down(outcome.clone()), now);
                }
            }
        }
    }
}

/// What was decided, in its order, by what any server knows.
fn all_past(reports: &BTreeMap<ServerId, Report>) -> BTreeMap<Instance, Outcome> {
    let all = reports.values().flat_map(|report| &report.past);
    all.map(|outcome| (outcome.instance, outcome.clone())).collect()
}

/// The groups that there are: as whoever knows most of each has it, and what was decided since.
fn standing(reports: &BTreeMap<ServerId, Report>, past: &BTreeMap<Instance, Outcome>) -> BTreeMap<GroupKey, Standing> {
    let mut groups: BTreeMap<GroupKey, Standing> = BTreeMap::new();
    for (key, (instance, formed, gone)) in reports.values().flat_map(|report| &report.known) {
        let left = formed.members.iter().filter(|member| !gone.contains(member)).cloned();
        let known = Standing::new(*instance, left);
        match groups.get(key) {
            Some(other) if other.instance >= known.instance => {}
            _ => drop(groups.insert(key.clone(), known)),
        }
    }
    for (instance, Outcome { key, what, .. }) in past {
        if groups.get(key).is_some_and(|known| known.instance >= *instance) {
            continue;
        }
        match what {
            What::Formed(formed) => {
                groups.insert(key.clone(), Standing::new(*instance, formed.members.iter().cloned()));
            }
            What::NotFormed { .. } | What::Dissolved => drop(groups.remove(key)),
            What::NotDissolved(_) => {
                groups.entry(key.clone()).and_modify(|known| known.instance = *instance);
            }
            What::Changed(proc, _) => {
                groups.entry(key.clone()).and_modify(|known| {
                    known.instance = *instance;
                    known.members.remove(proc);
                });
            }
        }
    }
    groups.retain(|_, standing| !standing.members.is_empty());
    groups
}
