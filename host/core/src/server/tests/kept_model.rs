//! Random lives of jobs, connections and events, compared with a model of required and forbidden
//! deliveries.
use super::*;
use crate::class::{Class, ClassFilter};
use crate::retained::RetentionLimits;
use peal_model::Infos;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const CODES: i32 = 3;
const RING: usize = 4;
const BATCH: usize = 3;
const MEMORY: usize = 1500;

/// An event that was spread. Its number is its index, which its text says.
struct Told {
    event: Event,
    class: Class,
    reach: Option<u32>,
}

#[derive(Clone)]
struct Asked {
    all: bool,
    codes: BTreeSet<i32>,
    levels: ClassFilter,
    affecting: Option<Proc>,
}

impl Asked {
    fn wants(&self, told: &Told) -> bool {
        let affected = told.event.affected();
        self.levels.include(told.class)
            && (self.codes.contains(&told.event.code.0)
                || (self.all && !told.event.is_non_default()))
            && (affected.is_empty()
                || self
                    .affecting
                    .as_ref()
                    .is_none_or(|proc| affected.iter().any(|one| one.overlaps(proc))))
    }
}

#[derive(PartialEq, Debug)]
enum Open {
    Nothing,
    Pause,
    Recall(Vec<Seq>),
}

struct Client {
    id: PeerId,
    proc: Proc,
    asked: Vec<Asked>,
    heard: BTreeSet<usize>,
    /// The last one received since it last registered.
    last: Option<usize>,
    /// Distributed while it was registered for them.
    due: BTreeSet<usize>,
    /// Events among them that it has been registered for ever since.
    must: BTreeSet<usize>,
    open: Open,
}

struct World {
    server: ServerState,
    told: Vec<Told>,
    clients: Vec<Client>,
    owed: BTreeMap<Proc, BTreeSet<usize>>,
    store: BTreeMap<Seq, Event>,
    tag: u32,
}

const JOBS: [(&str, u32, u32); 3] = [("a", 3, 1000), ("b", 2, 1000), ("c", 1, 2000)];

fn job(index: u8) -> (Nspace, u32, UserIdentity) {
    let (name, size, uid) = JOBS[index as usize % JOBS.len()];
    (
        Nspace::new(name).unwrap(),
        size,
        UserIdentity { uid, gid: 100 },
    )
}

fn some_proc(index: u8) -> (Proc, UserIdentity) {
    let all: Vec<(Proc, UserIdentity)> = (0..3)
        .map(job)
        .flat_map(|(nspace, size, who)| {
            (0..size).map(move |rank| (Proc::new(nspace.clone(), Rank(rank)), who))
        })
        .collect();
    all[index as usize % all.len()].clone()
}

/// Returns true if an event is for a proc, by the words of the Standard.
fn is_for(event: &Event, proc: &Proc) -> bool {
    if event.source.as_ref() == Some(proc) {
        return false;
    }
    match event.range {
        Range::Custom => event
            .custom_targets()
            .unwrap()
            .iter()
            .any(|target| target.covers(proc)),
        Range::Namespace => match &event.source {
            Some(source) => source.nspace == proc.nspace,
            None => event
                .affected()
                .first()
                .is_some_and(|affected| affected.nspace == proc.nspace),
        },
        _ => true,
    }
}

/// Puts in the place of the delivery of events the one that another process reads from its bytes. To compile
/// this for the format of the handover would take longer than all else in these tests; those of
/// `tests/one_server` have it.
fn hand_over_events(server: &mut ServerState) {
    let bytes = postcard::to_allocvec(&server.events).unwrap();
    server.events = postcard::from_bytes(&bytes).unwrap();
    assert!(postcard::to_allocvec(&server.events).unwrap() == bytes);
    server.events.set_limits(&server.settings);
}

impl World {
    fn new() -> World {
        let settings = StateSettings {
            retention: RetentionLimits {
                ring: RING,
                memory: MEMORY,
                ..RetentionLimits::default()
            },
            event_batch: BATCH,
            event_batch_bytes: 2000,
            max_connections_per_proc: 2,
            ..StateSettings::default()
        };
        let server = ServerState::new(settings);
        let mut world = World {
            server,
            told: Vec::new(),
            clients: Vec::new(),
            owed: BTreeMap::new(),
            store: BTreeMap::new(),
            tag: 100,
        };
        (0..3).for_each(|index| world.add_job(index));
        world
    }

    fn add_job(&mut self, index: u8) {
        let (nspace, size, UserIdentity { uid, gid }) = job(index);
        if self
            .server
            .jobs()
            .all(|census| census.spec.nspace != nspace)
        {
            let actions = self.server.add_job(JobSpec::new(
                nspace,
                size,
                "node",
                UserIdentity { uid, gid },
            ));
            self.carry_out(actions);
        }
    }

    fn remove_job(&mut self, index: u8) {
        let (nspace, ..) = job(index);
        self.clients.retain(|client| client.proc.nspace != nspace);
        self.owed.retain(|proc, _| proc.nspace != nspace);
        let actions = self.server.remove_job(&nspace);
        self.carry_out(actions);
    }

    fn pick(&self, index: u8) -> Option<usize> {
        (!self.clients.is_empty()).then(|| index as usize % self.clients.len())
    }

    fn ask(&mut self, client: usize, request: Request) {
        self.tag += 1;
        let to = RequestId {
            peer: self.clients[client].id,
            tag: self.tag,
        };
        let registers = matches!(request, Request::RegisterEvents { .. });
        let actions = self.server.request(to, request, MonotonicTime(0));
        hand_over_events(&mut self.server);
        let actions = with_willing_host(&mut self.server, actions);
        if registers {
            let acknowledged = matches!(actions.first(), Some(Action::Reply { to: answered, .. }) if *answered == to);
            assert!(acknowledged, "the acknowledgement comes first: {actions:?}");
        }
        self.carry_out(actions);
    }

    /// Acts as a caller, and checks what clients receive.
    fn carry_out(&mut self, actions: Vec<Action>) {
        let actions = with_willing_host(&mut self.server, actions);
        let mut batch: BTreeMap<PeerId, usize> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Deliver { peer, event } => {
                    self.hear(peer, &event);
                    *batch.entry(peer).or_default() += 1;
                }
                Action::Pause { peer } => self.open(peer, Open::Pause),
                Action::Recall { peer, events } => {
                    assert_eq!(
                        batch.get(&peer),
                        None,
                        "what was delivered is to be written first"
                    );
                    assert!(!events.is_empty() && events.len() <= BATCH && events.is_sorted());
                    assert!(
                        events.iter().all(|at| self.store.contains_key(at)),
                        "only what is stored is recalled"
                    );
                    self.open(peer, Open::Recall(events));
                }
                Action::Spill { at, event, .. } => {
                    assert_eq!(
                        self.store.insert(at, (*event).clone()),
                        None,
                        "spilled once"
                    );
                }
                Action::Forget { first, last } => {
                    let gone: Vec<Seq> =
                        self.store.range(first..=last).map(|(at, _)| *at).collect();
                    assert!(gone.contains(&first) && gone.contains(&last));
                    gone.iter().for_each(|at| drop(self.store.remove(at)));
                }
                _ => {}
            }
        }
        assert!(batch.values().all(|count| *count <= BATCH), "{batch:?}");
        assert_eq!(self.server.counts().events_spilled, self.store.len());
        assert_eq!(self.server.counts().events_lost, 0);
        self.server.events.retained().check();
    }

    fn open(&mut self, peer: PeerId, open: Open) {
        let client = self
            .clients
            .iter_mut()
            .find(|client| client.id == peer)
            .unwrap();
        assert_eq!(client.open, Open::Nothing, "one at a time");
        client.open = open;
    }

    fn newest_in_ring(&self) -> BTreeSet<usize> {
        let rings = |told: &Told| told.class == Class::Environment && !told.event.is_do_not_cache();
        let numbers = (0..self.told.len())
            .rev()
            .filter(|number| rings(&self.told[*number]));
        numbers.take(RING).collect()
    }

    fn hear(&mut self, peer: PeerId, event: &Event) {
        let number = event
            .infos
            .value_of(key::PMIX_EVENT_TEXT_MESSAGE)
            .and_then(Value::as_str)
            .unwrap();
        let number: usize = number.trim().parse().unwrap();
        let ring = self.newest_in_ring();
        let told = &self.told[number];
        let client = self
            .clients
            .iter_mut()
            .find(|client| client.id == peer)
            .unwrap();
        assert!(is_for(&told.event, &client.proc), "meant for others");
        assert!(
            told.reach
                .is_none_or(|uid| uid == self.server.identity(&client.proc).unwrap().uid),
            "other users'"
        );
        assert!(
            client.asked.iter().any(|asked| asked.wants(told)),
            "not asked for"
        );
        assert_eq!(client.open, Open::Nothing, "it is to wait");
        assert!(client.heard.insert(number), "told twice");
        assert!(client.last.is_none_or(|last| last < number), "out of order");
        client.last = Some(number);
        let is_owed = self
            .owed
            .get_mut(&client.proc)
            .is_some_and(|owed| owed.remove(&number));
        assert!(
            client.due.contains(&number) || is_owed || ring.contains(&number),
            "kept for nobody"
        );
    }

    fn raise(&mut self, by: Option<usize>, a: u8, b: u8, c: u8) {
        let number = self.told.len();
        // Some are large.
        let text = format!(
            "{number:>width$}",
            width = if c.is_multiple_of(7) { 600 } else { 1 }
        );
        let mut infos = vec![Info::new(
            key::PMIX_EVENT_TEXT_MESSAGE,
            Value::string(&text),
        )];
        let named = some_proc(b).0;
        let range = match a % 6 {
            0 => Range::Local,
            1 => Range::Global,
            2 if by.is_some() => Range::Namespace,
            2 | 3 => {
                infos.push(Info::new(
                    key::PMIX_EVENT_AFFECTED_PROC,
                    Value::Proc(named.clone()),
                ));
                if a.is_multiple_of(2) {
                    Range::Namespace
                } else {
                    Range::Session
                }
            }
            4 => {
                infos.push(Info::new(
                    key::PMIX_EVENT_CUSTOM_RANGE,
                    Value::procs([named.clone()]),
                ));
                Range::Custom
            }
            _ => {
                let all = Proc::all(named.nspace.clone());
                infos.push(Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs([all])));
                Range::Custom
            }
        };
        for (key, when) in [
            (key::PMIX_EVENT_DO_NOT_CACHE, 5),
            (key::PMIX_EVENT_NON_DEFAULT, 4),
        ] {
            if c.is_multiple_of(when) {
                infos.push(Info::new(key, Value::Bool(true)));
            }
        }
        let code = Status(-3000 - i32::from(c) % CODES);
        let source = by.map(|by| self.clients[by].proc.clone());
        let reach = source
            .as_ref()
            .and_then(|source| self.server.identity(source))
            .map(|who| who.uid);
        let names = infos.len() > 1 && infos[1].value.as_procs().is_some();
        let class = if range == Range::Namespace || names {
            Class::JobSpecific
        } else {
            Class::Environment
        };
        let event = Event {
            code,
            source,
            range,
            infos: infos.clone(),
        };
        let told = Told {
            event: event.clone(),
            class,
            reach,
        };
        let reaches = |proc: &Proc| {
            is_for(&event, proc)
                && reach
                    .is_none_or(|uid| self.server.identity(proc).is_some_and(|who| who.uid == uid))
        };
        for client in &mut self.clients {
            if reaches(&client.proc) && client.asked.iter().any(|asked| asked.wants(&told)) {
                client.due.insert(number);
                client.must.insert(number);
            }
        }
        if class == Class::JobSpecific && !event.is_do_not_cache() {
            for proc in (0..6).map(|index| some_proc(index).0) {
                let alive = matches!(
                    self.server.life(&proc),
                    Some(ProcPhase::Expected | ProcPhase::Connected(_))
                );
                if alive && reaches(&proc) {
                    self.owed.entry(proc).or_default().insert(number);
                }
            }
        }
        self.told.push(told);
        match by {
            Some(by) => self.ask(by, Request::Notify { code, range, infos }),
            None => {
                let actions = self.server.notify(event).unwrap();
                self.carry_out(actions);
            }
        }
    }

    fn register(&mut self, client: usize, b: u8, c: u8) {
        let codes: BTreeSet<i32> = (0..CODES)
            .filter(|bit| b & (1 << bit) != 0)
            .map(|code| -3000 - code)
            .collect();
        let yes_no = |job, environment| {
            vec![
                Info::new(key::PMIX_EVENT_JOB_LEVEL, Value::Bool(job)),
                Info::new(key::PMIX_EVENT_ENVIRO_LEVEL, Value::Bool(environment)),
            ]
        };
        let (levels, mut infos) = match c % 8 {
            0 => (ClassFilter::JobSpecific, yes_no(true, false)),
            1 => (ClassFilter::Environment, yes_no(false, true)),
            2 => (ClassFilter::Neither, yes_no(false, false)),
            _ => (ClassFilter::Both, Vec::new()),
        };
        let affecting = (c > 160).then(|| some_proc(c).0);
        if let Some(proc) = &affecting {
            infos.push(Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(proc.clone()),
            ));
        }
        let request = Request::RegisterEvents {
            codes: codes.iter().map(|code| Status(*code)).collect(),
            infos,
        };
        let known = &mut self.clients[client];
        known.asked.push(Asked {
            all: codes.is_empty(),
            codes,
            levels,
            affecting,
        });
        known.last = None;
        self.ask(client, request);
    }

    fn deregister(&mut self, client: usize, code: i32) {
        let known = &mut self.clients[client];
        for asked in &mut known.asked {
            asked.codes.remove(&code);
            asked.all &= code != Status::DEFAULT_HANDLER.0;
        }
        let told = &self.told;
        known
            .must
            .retain(|number| known.asked.iter().any(|asked| asked.wants(&told[*number])));
        self.ask(
            client,
            Request::DeregisterEvents {
                codes: vec![Status(code)],
            },
        );
    }

    fn go_on(&mut self, client: usize) {
        let known = &mut self.clients[client];
        let actions = match std::mem::replace(&mut known.open, Open::Nothing) {
            Open::Nothing => return,
            Open::Pause => self.server.resume(known.id),
            Open::Recall(events) => {
                let contents = events
                    .iter()
                    .map(|at| (*at, self.store.get(at).cloned()))
                    .collect();
                self.server.recalled(known.id, contents)
            }
        };
        self.carry_out(actions);
    }

    fn step(&mut self, (kind, a, b, c): (u8, u8, u8, u8)) {
        let client = self.pick(a);
        let often = [
            0, 0, 0, 1, 1, 2, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 7, 8, 9, 9, 10, 11, 12,
        ];
        match (often[kind as usize % often.len()], client) {
            (0, _) => {
                let (proc, who) = some_proc(a);
                if let Ok((id, actions)) = self.server.admit(&proc, who) {
                    let heard = BTreeSet::new();
                    let due = BTreeSet::new();
                    let must = BTreeSet::new();
                    let asked = Vec::new();
                    let last = None;
                    let open = Open::Nothing;
                    self.clients.push(Client {
                        id,
                        proc,
                        asked,
                        heard,
                        last,
                        due,
                        must,
                        open,
                    });
                    self.carry_out(actions);
                }
            }
            (1 | 2, Some(client)) => self.register(client, b, c),
            (3, Some(client)) if b < 40 => self.deregister(client, Status::DEFAULT_HANDLER.0),
            (3, Some(client)) => self.deregister(client, -3000 - i32::from(b) % CODES),
            (4..=6, client) => self.raise(client.filter(|_| kind > 4), a, b, c),
            (7 | 8, Some(client)) => self.go_on(client),
            (9, Some(client)) => {
                let actions = self.server.mark_lagging(self.clients[client].id);
                self.carry_out(actions);
            }
            (10, Some(client)) if b < 128 => {
                let gone = self.clients.remove(client);
                let to = RequestId {
                    peer: gone.id,
                    tag: 99,
                };
                let actions = self.server.request(to, Request::Finalize, MonotonicTime(0));
                self.forget_if_gone(&gone.proc);
                self.carry_out(actions);
                let actions = self.server.disconnected(gone.id, MonotonicTime(0));
                self.carry_out(actions);
            }
            (10, Some(client)) => {
                let gone = self.clients.remove(client);
                let actions = self.server.disconnected(gone.id, MonotonicTime(0));
                self.forget_if_gone(&gone.proc);
                self.carry_out(actions);
            }
            (11, _) if b < 30 => {
                let (proc, _) = some_proc(a);
                let actions = self.server.proc_ended(&proc, None, MonotonicTime(0));
                self.forget_if_gone(&proc);
                self.carry_out(actions);
            }
            (12, _) if b < 30 => self.remove_job(a),
            (12, _) => self.add_job(a),
            _ => {}
        }
    }

    fn forget_if_gone(&mut self, proc: &Proc) {
        if !matches!(
            self.server.life(proc),
            Some(ProcPhase::Connected(_) | ProcPhase::Expected)
        ) {
            self.owed.remove(proc);
        }
    }

    /// Lets all connections catch up, then checks that none lacks an event.
    fn settle(&mut self) {
        for round in 0.. {
            if self
                .clients
                .iter()
                .all(|client| client.open == Open::Nothing)
            {
                break;
            }
            assert!(round < 10_000, "it comes to an end");
            (0..self.clients.len()).for_each(|client| self.go_on(client));
        }
        let ring = self.newest_in_ring();
        for client in &self.clients {
            let uid = self.server.identity(&client.proc).unwrap().uid;
            let wanted = |number: &&usize| {
                client
                    .asked
                    .iter()
                    .any(|asked| asked.wants(&self.told[**number]))
            };
            let is_for = |number: &&usize| {
                let told = &self.told[**number];
                is_for(&told.event, &client.proc) && told.reach.is_none_or(|reach| reach == uid)
            };
            assert!(
                client.must.is_subset(&client.heard),
                "{:?} {:?}",
                client.must,
                client.heard
            );
            let unheard = |number: &&usize| !client.heard.contains(*number);
            let lacking: Vec<&usize> = ring
                .iter()
                .filter(is_for)
                .filter(wanted)
                .filter(unheard)
                .collect();
            assert!(lacking.is_empty(), "of the ring: {lacking:?}");
            let owed = self.owed.get(&client.proc).into_iter().flatten();
            let lacking: Vec<&usize> = owed.filter(wanted).collect();
            assert!(lacking.is_empty(), "owed: {lacking:?}");
        }
    }

    /// Ends all procs and checks that nothing is left.
    fn end(mut self) {
        for client in std::mem::take(&mut self.clients) {
            let actions = self.server.disconnected(client.id, MonotonicTime(0));
            self.forget_if_gone(&client.proc);
            self.carry_out(actions);
        }
        for index in 0..6 {
            let (proc, _) = some_proc(index);
            let actions = self.server.proc_ended(&proc, None, MonotonicTime(0));
            self.carry_out(actions);
        }
        let counts = self.server.counts();
        assert_eq!(
            (
                counts.events_kept,
                counts.events_spilled,
                counts.events_lost
            ),
            (0, 0, 0)
        );
        assert!(self.store.is_empty());
        self.server.events.retained().check_empty();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn each_recipient_gets_its_events_once_in_order(
        steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>()), 0..150),
        pauses in prop::collection::vec(0..150usize, 0..4),
    ) {
        let mut world = World::new();
        for (index, step) in steps.into_iter().enumerate() {
            world.step(step);
            if pauses.contains(&index) {
                world.settle();
            }
        }
        world.settle();
        world.end();
    }
}
