//! The coordinator's board: every group that is there or being formed, and what is decided of them.
use super::{
    Announced, Change, Contribution, Earliest, Failure, Formed, GroupKey, Instance, Members,
    Operation, Outcome, Part, Role, Saying, Scene, ServerId, What,
    directory::Whereabouts,
    forming::{Forming, News},
    message::about,
    refusal::Refused,
    sent::SentDecisions,
    standing::{Dissolving, Standing},
};
use crate::Time;
use peal_model::{Info, NamedProcs, Nspace, Proc, Status, code};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::Arc,
};

/// How far a group is.
#[derive(Debug)]
enum Seat {
    Forming(Box<Forming>),
    Standing(Standing),
}

/// Something that the coordinator has to say.
#[derive(Debug)]
pub(super) enum Decided {
    /// To these servers, or to all.
    Outcome(Option<BTreeSet<ServerId>>, Outcome),
    /// To this one: these calls have no part in anything.
    Refuse(
        ServerId,
        GroupKey,
        Operation,
        Vec<(Proc, Instance)>,
        Failure,
    ),
    /// An event for these procs, wherever they are.
    Tell(Vec<Proc>, Status, Vec<Info>),
}

impl Decided {
    /// An event about a group, which has these members.
    fn news<'a>(key: &GroupKey, news: News, members: impl Iterator<Item = &'a Proc>) -> Decided {
        Decided::Tell(news.whom, news.code, about(key, &news.about, members))
    }
}

/// Groups and what is being formed.
#[derive(Debug)]
pub(super) struct Board {
    me: ServerId,
    seats: BTreeMap<GroupKey, Seat>,
    told: BTreeMap<GroupKey, SentDecisions>,
    /// Of which groups what was told is forgotten next, unless more has been told since.
    fading: VecDeque<(Time, GroupKey)>,
    /// When time is over for somebody at the earliest.
    due: Earliest,
    refused: Refused,
    next: u64,
    next_context: u64,
    decided: Vec<Decided>,
}

impl Board {
    pub(super) fn new(me: ServerId) -> Board {
        let (seats, told, fading, due) = (
            BTreeMap::new(),
            BTreeMap::new(),
            VecDeque::new(),
            Earliest::default(),
        );
        let (refused, decided) = (Refused::default(), Vec::new());
        Board {
            me,
            seats,
            told,
            fading,
            due,
            refused,
            next: 0,
            next_context: 0,
            decided,
        }
    }

    fn taken(&mut self) -> Vec<Decided> {
        std::mem::take(&mut self.decided)
    }

    /// Procs of a server bring something.
    pub(super) fn contribute(
        &mut self,
        from: ServerId,
        contribution: Contribution,
        at: &Scene<'_>,
    ) -> Vec<Decided> {
        let Contribution {
            key,
            mut parts,
            left,
            ..
        } = contribution;
        let deadline = at.now + left.unwrap_or(at.settings.timeout);
        let refused: Vec<Part> = parts
            .extract_if(.., |part| part.refusal.is_some())
            .collect();
        for part in refused {
            if self.is_open(from, &key, &part) {
                self.refused(from, &key, part, deadline, at);
            }
        }
        parts.retain(|part| self.is_open(from, &key, part));
        let destructs: Vec<Part> = parts
            .extract_if(.., |part| part.construct.is_none())
            .collect();
        let constructs = parts;
        if !constructs.is_empty() {
            self.construct(from, &key, constructs, deadline, at);
        }
        if !destructs.is_empty() {
            self.destruct(from, &key, destructs, deadline);
        }
        self.settle(&key, at);
        self.taken()
    }

    /// Whether nothing that the call's server was told answers it.
    fn is_open(&self, from: ServerId, key: &GroupKey, part: &Part) -> bool {
        self.told
            .get(key)
            .is_none_or(|told| !told.answers(from, part))
    }

    /// A call that may not be made: whoever counts on its caller is told the same, as long as there are not too many.
    fn refused(
        &mut self,
        from: ServerId,
        key: &GroupKey,
        part: Part,
        deadline: Time,
        at: &Scene<'_>,
    ) {
        let Some(refusal) = part.refusal.clone() else {
            return;
        };
        let failure = refusal.failure();
        let is_member = part
            .construct
            .as_ref()
            .is_some_and(|construct| construct.role == Role::Member);
        let is_full = self.is_full(key, at);
        match (&part.construct, self.seats.get_mut(key)) {
            // Who was added learns how it ends with those who add it.
            (Some(_), None) if is_member && !is_full => {
                let mut forming = Forming::new(deadline);
                forming.refuse(refusal);
                self.seats
                    .insert(key.clone(), Seat::Forming(Box::new(forming)));
            }
            (Some(construct), Some(Seat::Forming(forming)))
                if is_member || forming.concerns(&part.proc, construct) =>
            {
                forming.refuse(refusal);
                self.settle(key, at);
            }
            // Others form it without. As long as nobody leads, those who were added go by its name alone.
            (Some(_), Some(Seat::Forming(forming))) if forming.is_led() => {
                self.refuse(from, key, vec![part], failure)
            }
            (Some(_), None | Some(Seat::Forming(_)))
                if !is_member && self.refused.one_more(key.uid, at.now) =>
            {
                let mut called: BTreeSet<Proc> = [part.proc].into();
                if let Some(Seat::Forming(forming)) = self.seats.remove(key) {
                    called.extend(forming.called().cloned());
                }
                self.decide(
                    at,
                    key,
                    None,
                    What::NotFormed {
                        failure,
                        late: Some(BTreeSet::new()),
                        called,
                    },
                );
            }
            (None, Some(Seat::Standing(standing)))
                if standing.members.has(&part.proc) && self.refused.one_more(key.uid, at.now) =>
            {
                standing.dissolving = None;
                let servers = standing.servers(at.directory);
                self.decide(at, key, Some(servers), What::NotDissolved(failure));
            }
            _ => self.refuse(from, key, vec![part], failure),
        }
    }

    fn construct(
        &mut self,
        from: ServerId,
        key: &GroupKey,
        parts: Vec<Part>,
        deadline: Time,
        at: &Scene<'_>,
    ) {
        if self.is_full(key, at) {
            let reason = format_args!(
                "there are {} groups, more are not allowed",
                at.settings.max_per_user
            );
            let failure = Failure::new(code::PMIX_ERR_OUT_OF_RESOURCE, reason);
            return self.refuse(from, key, parts, failure);
        }
        match self
            .seats
            .entry(key.clone())
            .or_insert_with(|| Seat::forming(deadline))
        {
            Seat::Forming(forming) => {
                forming.deadline = forming.deadline.min(deadline);
                forming.note_wishes(&parts);
                for part in parts {
                    forming.join(part, at);
                }
            }
            Seat::Standing(_) => self.refuse(from, key, parts, Failure::exists(key)),
        }
    }

    /// Whether a user has as many groups as he may, and none of this name.
    fn is_full(&self, key: &GroupKey, at: &Scene<'_>) -> bool {
        let own = || {
            self.seats
                .keys()
                .filter(|other| other.uid == key.uid)
                .count()
        };
        !self.seats.contains_key(key) && own() >= at.settings.max_per_user
    }

    fn destruct(&mut self, from: ServerId, key: &GroupKey, parts: Vec<Part>, deadline: Time) {
        match self.seats.get_mut(key) {
            Some(Seat::Standing(standing)) => {
                let Standing {
                    members,
                    dissolving,
                    ..
                } = standing;
                let dissolving = dissolving.get_or_insert_with(|| Dissolving {
                    missing: members.clone(),
                    deadline,
                });
                dissolving.deadline = dissolving.deadline.min(deadline);
                for part in parts {
                    dissolving.missing.tick(&part.proc);
                }
            }
            _ => self.refuse(from, key, parts, Failure::unknown(key)),
        }
    }

    fn refuse(&mut self, from: ServerId, key: &GroupKey, parts: Vec<Part>, failure: Failure) {
        let operation = Operation::of(parts.first().and_then(|part| part.construct.as_deref()));
        let calls = parts
            .into_iter()
            .map(|part| (part.proc, part.after))
            .collect();
        self.decided.push(Decided::Refuse(
            from,
            key.clone(),
            operation,
            calls,
            failure,
        ));
    }

    /// Procs have formed a group by themselves, if there is none of that name.
    pub(super) fn announce(
        &mut self,
        key: &GroupKey,
        announced: Announced,
        at: &Scene<'_>,
    ) -> Vec<Decided> {
        let Announced {
            members,
            context_id,
        } = announced;
        let living = members
            .into_iter()
            .filter(|member| at.directory.whereabouts(member) == Whereabouts::Lives);
        let members: Vec<Proc> = living.collect();
        if members.is_empty() || self.seats.contains_key(key) || self.is_full(key, at) {
            return Vec::new();
        }
        let servers = at.directory.homes(members.iter());
        let formed = Formed {
            members: Members::new(members),
            context_id,
            ..Formed::default()
        };
        self.stand(key, formed, servers, at);
        self.taken()
    }

    /// A group is there, as these servers learn.
    fn stand(
        &mut self,
        key: &GroupKey,
        formed: Formed,
        servers: BTreeSet<ServerId>,
        at: &Scene<'_>,
    ) {
        let formed = Arc::new(formed);
        let instance = self.decide(at, key, Some(servers), What::Formed(formed.clone()));
        let standing = Standing::new(instance, formed.members.named().clone());
        self.seats.insert(key.clone(), Seat::Standing(standing));
    }

    /// A job has become known.
    pub(super) fn knows_job(&mut self, nspace: &Nspace, at: &Scene<'_>) -> Vec<Decided> {
        for key in self.keys() {
            if let Some(Seat::Forming(forming)) = self.seats.get_mut(&key) {
                forming.knows_job(nspace, at);
                self.settle(&key, at);
            }
        }
        self.taken()
    }

    /// Procs have ended.
    pub(super) fn bury(&mut self, procs: &[Proc], at: &Scene<'_>) -> Vec<Decided> {
        for key in self.keys() {
            for proc in procs {
                match self.seats.get_mut(&key) {
                    Some(Seat::Forming(forming)) => forming.bury(proc, at),
                    Some(Seat::Standing(_)) => self.lose(&key, proc, Change::Failed, at),
                    None => {}
                }
            }
            self.settle(&key, at);
        }
        self.taken()
    }

    /// A proc leaves a group.
    pub(super) fn leave(
        &mut self,
        key: &GroupKey,
        proc: &Proc,
        notified: NamedProcs,
        at: &Scene<'_>,
    ) -> Vec<Decided> {
        self.lose(key, proc, Change::Left(notified), at);
        self.settle(key, at);
        self.taken()
    }

    fn lose(&mut self, key: &GroupKey, proc: &Proc, change: Change, at: &Scene<'_>) {
        let Some(Seat::Standing(standing)) = self.seats.get_mut(key) else {
            return;
        };
        // Whoever leaves hears of it too.
        let mut servers = standing.servers(at.directory);
        if !standing.members.tick(proc) {
            return;
        }
        if let Some(dissolving) = &mut standing.dissolving {
            dissolving.missing.tick(proc);
        }
        servers.extend(at.directory.home(&proc.nspace));
        let is_empty = standing.members.is_empty();
        let instance = self.decide(at, key, Some(servers), What::Changed(proc.clone(), change));
        match self.seats.get_mut(key) {
            _ if is_empty => drop(self.seats.remove(key)),
            Some(Seat::Standing(standing)) => standing.instance = instance,
            _ => {}
        }
    }

    /// Somebody says what is to become of a construct.
    pub(super) fn say(
        &mut self,
        key: &GroupKey,
        by: &Proc,
        saying: Saying,
        at: &Scene<'_>,
    ) -> Vec<Decided> {
        if let Some(Seat::Forming(forming)) = self.seats.get_mut(key) {
            forming.say(by, saying);
        }
        self.settle(key, at);
        self.taken()
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, at: &Scene<'_>) -> Vec<Decided> {
        while let Some((_, key)) = self.fading.pop_front_if(|(until, _)| *until <= at.now) {
            self.fade(key, at.now);
        }
        self.refused.forget(at.settings.told_for(), at.now);
        for key in self.keys() {
            self.settle(&key, at);
        }
        self.due = self.seats.values().filter_map(Seat::due).collect();
        self.taken()
    }

    /// What was told of a group is forgotten, or later.
    fn fade(&mut self, key: GroupKey, now: Time) {
        let Entry::Occupied(mut told) = self.told.entry(key) else {
            return;
        };
        told.get_mut().refusals.retain(|(until, ..)| *until > now);
        let until = told.get().until;
        if until > now {
            self.fading.push_back((until, told.key().clone()));
        } else {
            told.remove();
        }
    }

    /// When the next thing is over.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
            .at()
            .into_iter()
            .chain(self.fading.front().map(|(until, _)| *until))
            .min()
    }

    /// Ends what has come to its end.
    fn settle(&mut self, key: &GroupKey, at: &Scene<'_>) {
        self.end_if_settled(key, at);
        if let Some(due) = self.seats.get(key).and_then(Seat::due) {
            self.due.lower(due);
        }
    }

    fn end_if_settled(&mut self, key: &GroupKey, at: &Scene<'_>) {
        match self.seats.get_mut(key) {
            Some(Seat::Forming(forming)) => {
                let prospects = if forming.news.is_empty() {
                    BTreeSet::new()
                } else {
                    forming.prospects()
                };
                let news = std::mem::take(&mut forming.news).into_iter();
                self.decided
                    .extend(news.map(|news| Decided::news(key, news, prospects.iter())));
                self.settle_forming(key, at);
            }
            Some(Seat::Standing(standing)) => {
                let is_late = standing
                    .dissolving
                    .as_ref()
                    .is_some_and(|dissolving| dissolving.deadline <= at.now);
                if standing.is_dissolved() {
                    let servers = Some(standing.servers(at.directory));
                    self.seats.remove(key);
                    self.decide(at, key, servers, What::Dissolved);
                } else if is_late {
                    let servers = Some(standing.servers(at.directory));
                    let dissolving = standing.dissolving.take();
                    let missing = dissolving
                        .iter()
                        .flat_map(|dissolving| dissolving.missing.iter());
                    let missing: Vec<String> = missing.take(8).map(Proc::to_string).collect();
                    let reason = format_args!("these have not called: {}", missing.join(", "));
                    let failure = Failure::new(code::PMIX_ERR_TIMEOUT, reason);
                    self.decide(at, key, servers, What::NotDissolved(failure));
                }
            }
            None => {}
        }
    }

    fn settle_forming(&mut self, key: &GroupKey, at: &Scene<'_>) {
        let Some(Seat::Forming(forming)) = self.seats.get(key) else {
            return;
        };
        if forming.is_deserted() {
            self.seats.remove(key);
            return;
        }
        let Some(settled) = forming.settled(at.now) else {
            return;
        };
        match settled {
            Ok(mut formed) => {
                // Those who called without being in it are told as well.
                let servers = at.directory.homes(forming.called());
                let losses = forming.losses(&formed.members).into_iter();
                let losses: Vec<Decided> = losses
                    .map(|news| Decided::news(key, news, formed.members.iter()))
                    .collect();
                if forming.wants_context_id() {
                    formed.context_id = Some(self.context_id());
                }
                self.stand(key, formed, servers, at);
                self.decided.extend(losses);
            }
            Err(failure) => {
                let (called, late) = (forming.called().cloned().collect(), forming.late_ones());
                self.seats.remove(key);
                self.decide(
                    at,
                    key,
                    None,
                    What::NotFormed {
                        failure,
                        late,
                        called,
                    },
                );
            }
        }
    }

    /// A number that no group has had, of any server: each counts in a range of its own.
    pub(super) fn context_id(&mut self) -> u64 {
        self.next_context += 1;
        u64::from(self.me.0.saturating_sub(1)) << 32 | self.next_context
    }

    fn decide(
        &mut self,
        at: &Scene<'_>,
        key: &GroupKey,
        servers: Option<BTreeSet<ServerId>>,
        what: What,
    ) -> Instance {
        self.next += 1;
        let instance = Instance {
            by: self.me,
            number: self.next,
        };
        let outcome = Outcome {
            key: key.clone(),
            instance,
            what,
        };
        self.tells(&outcome, servers.as_ref(), at.now + at.settings.told_for());
        self.decided.push(Decided::Outcome(servers, outcome));
        instance
    }

    /// These servers, or all, are told this: calls that it answers there need no other answer, until that is forgotten.
    pub(super) fn tells(
        &mut self,
        outcome: &Outcome,
        servers: Option<&BTreeSet<ServerId>>,
        until: Time,
    ) {
        let Outcome {
            key,
            instance,
            what,
        } = outcome;
        if matches!(what, What::Changed(..)) {
            return;
        }
        let told = match self.told.get_mut(key) {
            Some(told) => told,
            None => {
                self.fading.push_back((until, key.clone()));
                self.told.entry(key.clone()).or_default()
            }
        };
        told.until = until;
        match servers {
            _ if what.is_refusal() => {
                told.refusals
                    .push((until, servers.cloned(), outcome.clone()))
            }
            Some(servers) => told
                .each
                .extend(servers.iter().map(|server| (*server, *instance))),
            None => told.all = *instance,
        }
    }

    /// A group that was there before we were.
    pub(super) fn inherit(&mut self, key: GroupKey, standing: Standing) {
        self.seats.insert(key, Seat::Standing(standing));
    }

    /// Buries who has ended among those who are in groups that were there before.
    pub(super) fn bury_ended(&mut self, at: &Scene<'_>) -> Vec<Decided> {
        for key in self.keys() {
            let Some(Seat::Standing(standing)) = self.seats.get(&key) else {
                continue;
            };
            let gone = |member: &&Proc| at.directory.whereabouts(member) != Whereabouts::Lives;
            let gone: Vec<Proc> = standing.members.iter().filter(gone).cloned().collect();
            gone.iter()
                .for_each(|proc| self.lose(&key, proc, Change::Failed, at));
        }
        self.taken()
    }

    fn keys(&self) -> Vec<GroupKey> {
        self.seats.keys().cloned().collect()
    }

    /// Whether nothing is there and nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.told.is_empty() && self.refused.is_empty()
    }
}

impl Seat {
    fn forming(deadline: Time) -> Seat {
        Seat::Forming(Box::new(Forming::new(deadline)))
    }

    /// When its time is over.
    fn due(&self) -> Option<Time> {
        match self {
            Seat::Forming(forming) => Some(forming.due()),
            Seat::Standing(standing) => standing
                .dissolving
                .as_ref()
                .map(|dissolving| dissolving.deadline),
        }
    }
}
