//! Published data, compared with a model: a list of all publications, filtered for each lookup.
use peal_core::{
    published::{
        DataRequester, FinishedLookup, LookupResult, PublishLimit, PublishLimits, PublishRefusal,
        Published, PublishedLookup, ReachedLimit, Seeker, WaitId,
    },
    quota::Quota,
};
use peal_model::{Info, KeyName, Nspace, Persistence, Proc, Range, Rank, Text, Value, code, key};
use proptest::prelude::*;
use std::time::Duration;

const KEYS: [KeyName; 3] = [KeyName("test.a"), KeyName("test.b"), KeyName("test.c")];
const LIMITS: PublishLimits = PublishLimits {
    items: PublishLimit { user: 4, total: 6 },
    bytes: PublishLimit {
        user: 1 << 20,
        total: 1 << 22,
    },
    waits: PublishLimit { user: 4, total: 5 },
};
/// User of the server, which has no procs here.
const SERVER: u32 = 500;

/// The procs: two jobs of one user, of two procs each, and one of another user.
const WHO: [(&str, u32, u32); 5] = [
    ("one", 0, 1000),
    ("one", 1, 1000),
    ("two", 0, 1000),
    ("two", 1, 1000),
    ("foreign", 0, 1001),
];

fn party(who: usize) -> DataRequester {
    let (job, rank, uid) = WHO[who];
    DataRequester {
        proc: Proc::new(Nspace::new(job).unwrap(), Rank(rank)),
        uid,
    }
}

/// Publishes as a proc of this server.
fn publish(
    published: &mut Published,
    by: &DataRequester,
    infos: Vec<Info>,
) -> Result<Vec<FinishedLookup>, PublishRefusal> {
    let publication = published.read(by, infos)?;
    published.publish(None, publication)
}

/// Looks up as a proc of this server. A lookup that waits returns its time-out, too.
fn look_up(
    published: &mut Published,
    by: &DataRequester,
    keys: &[Text],
    infos: &[Info],
) -> Result<(LookupResult, Option<Duration>), PublishRefusal> {
    let (lookup, timeout) = PublishedLookup::read(&by.proc, keys, infos)?;
    let seeker = Seeker {
        proc: by.proc.clone(),
        server: None,
    };
    let result = published.lookup(by.uid, &seeker, &lookup)?;
    Ok((result, timeout))
}

#[derive(Clone, Debug)]
enum Op {
    Publish {
        who: usize,
        keys: Vec<usize>,
        range: Range,
        persistence: Persistence,
    },
    Lookup {
        who: usize,
        keys: Vec<usize>,
        range: Range,
        wait: Option<usize>,
    },
    GiveUp,
    Unpublish {
        who: usize,
        keys: Vec<usize>,
    },
    ProcEnds(usize),
    JobEnds(usize),
    SessionEnds(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let who = || 0..WHO.len();
    let keys = |least| {
        proptest::collection::btree_set(0..KEYS.len(), least..=2)
            .prop_map(|set| set.into_iter().collect())
    };
    let range = || {
        prop::sample::select(vec![
            Range::Rm,
            Range::ProcLocal,
            Range::Local,
            Range::Namespace,
            Range::Session,
            Range::Global,
            Range::Custom,
        ])
    };
    let persistence = prop::sample::select(vec![
        Persistence::Indefinite,
        Persistence::FirstRead,
        Persistence::Proc,
        Persistence::App,
        Persistence::Session,
    ]);
    prop_oneof![
        6 => (who(), keys(1), range(), persistence)
            .prop_map(|(who, keys, range, persistence)| Op::Publish { who, keys, range, persistence }),
        6 => (who(), keys(1), range(), prop::option::of(0..3usize))
            .prop_map(|(who, keys, range, wait)| Op::Lookup { who, keys, range, wait }),
        1 => Just(Op::GiveUp),
        1 => (who(), keys(0)).prop_map(|(who, keys)| Op::Unpublish { who, keys }),
        1 => who().prop_map(Op::ProcEnds),
        1 => who().prop_map(Op::JobEnds),
        1 => who().prop_map(Op::SessionEnds),
    ]
}

/// One publication. A custom range means the second proc of each job.
#[derive(Clone, Debug)]
struct Was {
    who: usize,
    key: usize,
    range: Range,
    persistence: Persistence,
    value: u32,
}

fn within(range: Range, from: usize, whom: usize) -> bool {
    match range {
        Range::Rm => false,
        Range::ProcLocal => from == whom,
        Range::Namespace => WHO[from].0 == WHO[whom].0,
        Range::Custom => WHO[whom].1 == 1,
        _ => true,
    }
}

fn custom() -> Info {
    let second = |job| Proc::new(Nspace::new(job).unwrap(), Rank(1));
    Info::new(
        key::PMIX_EVENT_CUSTOM_RANGE,
        Value::procs(["one", "two", "foreign"].map(second)),
    )
}

fn infos(range: Range, more: Info) -> Vec<Info> {
    vec![
        Info::new(key::PMIX_RANGE, Value::Range(range)),
        custom(),
        more,
    ]
}

#[derive(Default)]
struct Model {
    there: Vec<Was>,
    waiting: Vec<(WaitId, Op)>,
}

impl Model {
    /// Returns the result of a lookup by key, none if it has to wait. Data for the first read are
    /// removed.
    fn find(&mut self, lookup: &Op) -> Option<Vec<u32>> {
        let Op::Lookup {
            who,
            keys,
            range,
            wait,
        } = lookup
        else {
            panic!()
        };
        let found: Vec<Was> = keys
            .iter()
            .filter_map(|key| {
                let same_user = |was: &&Was| WHO[was.who].2 == WHO[*who].2;
                let seen =
                    |was: &&Was| within(was.range, was.who, *who) && within(*range, *who, was.who);
                self.there
                    .iter()
                    .filter(same_user)
                    .filter(seen)
                    .find(|was| was.key == *key)
                    .cloned()
            })
            .collect();
        let wanted = match wait {
            None => 0,
            Some(0) => keys.len(),
            Some(n) => keys.len().min(*n),
        };
        if found.len() < wanted {
            return None;
        }
        let read = |was: &Was| found.iter().any(|found| found.value == was.value);
        self.there
            .retain(|was| was.persistence != Persistence::FirstRead || !read(was));
        Some(found.iter().map(|was| was.value).collect())
    }

    fn publish(&mut self, new: Vec<Was>) -> Result<Vec<(WaitId, Vec<u32>)>, PublishRefusal> {
        let same_place = |one: &Was, other: &Was| {
            one.range == other.range
                && match one.range {
                    Range::ProcLocal => one.who == other.who,
                    Range::Namespace => WHO[one.who].0 == WHO[other.who].0,
                    _ => WHO[one.who].2 == WHO[other.who].2,
                }
        };
        if new.iter().any(|new| {
            self.there
                .iter()
                .any(|was| was.key == new.key && same_place(was, new))
        }) {
            return Err(code::PMIX_ERR_DUPLICATE_KEY.into());
        }
        let uid = WHO[new[0].who].2;
        let theirs = self.there.iter().filter(|was| WHO[was.who].2 == uid);
        let after = (theirs.count() + new.len(), self.there.len() + new.len());
        reached(LIMITS.items, after, Quota::PublishedItems)?;
        self.there.extend(new);
        let mut ready = Vec::new();
        for (id, lookup) in std::mem::take(&mut self.waiting) {
            let Op::Lookup { who, .. } = &lookup else {
                panic!()
            };
            match if WHO[*who].2 == uid {
                self.find(&lookup)
            } else {
                None
            } {
                Some(found) => ready.push((id, found)),
                None => self.waiting.push((id, lookup)),
            }
        }
        Ok(ready)
    }

    fn ends(&mut self, whose: impl Fn(usize) -> bool, with: &[Persistence]) {
        self.there
            .retain(|was| !whose(was.who) || !with.contains(&was.persistence));
    }

    fn wait_no_more(&mut self, whose: impl Fn(usize) -> bool) {
        self.waiting
            .retain(|(_, lookup)| matches!(lookup, Op::Lookup { who, .. } if !whose(*who)));
    }
}

/// Returns the limit that the amounts of a user and of all users are beyond.
fn reached(
    limit: PublishLimit,
    (of_user, of_all): (usize, usize),
    quota: Quota,
) -> Result<(), PublishRefusal> {
    let limit = match () {
        () if of_user > limit.user => ReachedLimit::User,
        () if of_all > limit.total => ReachedLimit::Total,
        () => return Ok(()),
    };
    Err(PublishRefusal::Limit { quota, limit })
}

fn texts(keys: &[usize]) -> Vec<Text> {
    keys.iter().map(|key| KEYS[*key].0.into()).collect()
}

fn values(found: &[peal_model::Pdata]) -> Vec<u32> {
    found
        .iter()
        .map(|data| u32::try_from(data.value.as_u64().unwrap()).unwrap())
        .collect()
}

/// Applies a step to both, and compares the results.
fn step(published: &mut Published, model: &mut Model, number: u32, op: Op) {
    match op {
        Op::Publish {
            who,
            keys,
            range,
            persistence,
        } => {
            let value = |key: usize| number * 10 + u32::try_from(key).unwrap();
            let mut given = infos(
                range,
                Info::new(key::PMIX_PERSISTENCE, Value::Persistence(persistence)),
            );
            given.extend(
                keys.iter()
                    .map(|key| Info::new(KEYS[*key], Value::Uint32(value(*key)))),
            );
            let new = keys
                .iter()
                .map(|key| Was {
                    who,
                    key: *key,
                    range,
                    persistence,
                    value: value(*key),
                })
                .collect();
            let ready = publish(published, &party(who), given);
            let ready = ready.map(|ready| {
                ready
                    .iter()
                    .map(|ready| (ready.wait, values(&ready.found)))
                    .collect()
            });
            assert_eq!(ready, model.publish(new));
        }
        Op::Lookup {
            who,
            ref keys,
            range,
            wait,
        } => {
            let more = wait.map_or(Info::new(KeyName("test.nothing"), Value::Undef), |wait| {
                Info::new(key::PMIX_WAIT, Value::Int(i32::try_from(wait).unwrap()))
            });
            let looked = look_up(published, &party(who), &texts(keys), &infos(range, more));
            match model.find(&op) {
                Some(found) if found.is_empty() => {
                    assert_eq!(looked, Err(code::PMIX_ERR_NOT_FOUND.into()))
                }
                Some(found) => {
                    let Ok((LookupResult::Found(data), _)) = looked else {
                        panic!("{looked:?}")
                    };
                    assert_eq!(values(&data), found);
                }
                None => {
                    let awaited = |whose: &dyn Fn(usize) -> bool| {
                        let lookups = model.waiting.iter().map(|(_, lookup)| lookup);
                        let keys = lookups.map(|lookup| match lookup {
                            Op::Lookup { who, keys, .. } if whose(*who) => keys.len(),
                            _ => 0,
                        });
                        keys.sum::<usize>()
                    };
                    let of_user = awaited(&|other| WHO[other].2 == WHO[who].2);
                    let after = (of_user + keys.len(), awaited(&|_| true) + keys.len());
                    match (looked, reached(LIMITS.waits, after, Quota::PendingLookups)) {
                        (Err(refusal), Err(wanted)) => assert_eq!(refusal, wanted),
                        (Ok((LookupResult::Waits(id), None)), Ok(())) => {
                            model.waiting.push((id, op));
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        Op::GiveUp => {
            if let Some((id, _)) = model.waiting.pop() {
                published.give_up(id);
            }
        }
        Op::Unpublish { who, keys } => {
            published.unpublish(&party(who), &texts(&keys)).unwrap();
            model
                .there
                .retain(|was| was.who != who || !(keys.is_empty() || keys.contains(&was.key)));
        }
        Op::ProcEnds(who) => {
            published.proc_ended(&party(who).proc);
            model.ends(|other| other == who, &[Persistence::Proc]);
            model.wait_no_more(|other| other == who);
        }
        Op::JobEnds(who) => {
            published.job_ended(&party(who).proc.nspace);
            let of_job = |other: usize| WHO[other].0 == WHO[who].0;
            model.ends(
                of_job,
                &[Persistence::Proc, Persistence::App, Persistence::FirstRead],
            );
            model.wait_no_more(of_job);
        }
        Op::SessionEnds(who) => {
            published.session_ended(WHO[who].2);
            model.ends(|other| WHO[other].2 == WHO[who].2, &[Persistence::Session]);
        }
    }
}

proptest! {
    #[test]
    fn published_data_agree_with_model(ops in proptest::collection::vec(op(), 1..60)) {
        let mut published = Published::new(LIMITS, SERVER);
        let mut model = Model::default();
        for (number, op) in (1..).zip(ops) {
            step(&mut published, &mut model, number, op);
        }
    }
}

#[test]
fn invalid_or_ambiguous_publications_are_refused() {
    let limits = PublishLimits {
        bytes: PublishLimit {
            user: 1000,
            total: 1 << 20,
        },
        ..PublishLimits::default()
    };
    let mut published = Published::new(limits, SERVER);
    let me = party(0);
    let mut publish = |infos: &[Info]| {
        let refusal = publish(&mut published, &me, infos.to_vec()).unwrap_err();
        refusal.status()
    };
    let data = Info::new(KEYS[0], Value::Bool(true));
    let with = |key: KeyName, value: Value| [data.clone(), Info::new(key, value)];
    assert_eq!(publish(&[custom()]), code::PMIX_ERR_BAD_PARAM, "no data");
    assert_eq!(
        publish(&[data.clone(), data.clone()]),
        code::PMIX_ERR_DUPLICATE_KEY
    );
    assert_eq!(
        publish(&with(key::PMIX_RANGE, Value::Range(Range::Custom))),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        publish(&with(key::PMIX_RANGE, Value::Bool(true))),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        publish(&with(
            key::PMIX_PERSISTENCE,
            Value::Persistence(Persistence::Invalid)
        )),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        publish(&with(key::PMIX_ACCESS_USERIDS, Value::Uint32(7))),
        code::PMIX_ERR_NOT_SUPPORTED
    );
    assert_eq!(
        publish(&with(KEYS[1], Value::string(&"x".repeat(2000)))),
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    assert_eq!(
        look_up(&mut published, &me, &[], &[]),
        Err(code::PMIX_ERR_BAD_PARAM.into())
    );
    assert_eq!(
        look_up(&mut published, &me, &texts(&[0]), &[]),
        Err(code::PMIX_ERR_NOT_FOUND.into()),
        "all or nothing"
    );
    let wait = [
        Info::new(key::PMIX_WAIT, Value::Bool(true)),
        Info::new(key::PMIX_TIMEOUT, Value::Int(3)),
    ];
    let waits = look_up(&mut published, &me, &texts(&[0]), &wait);
    assert!(
        matches!(waits, Ok((LookupResult::Waits(_), Some(limit))) if limit == Duration::from_secs(3)),
        "{waits:?}"
    );
}

#[test]
fn site_publishes_when_users_have_used_up_their_part() {
    let limits = PublishLimits {
        items: PublishLimit { user: 7, total: 16 },
        ..PublishLimits::default()
    };
    let mut published = Published::new(limits, SERVER);
    let mut publish_as = |uid: u32, number: u32| {
        let proc = Proc::new(Nspace::new(&format!("job-{uid}")).unwrap(), Rank(number));
        let datum = Info::new(KEYS[0], Value::Uint32(number));
        let range = Info::new(key::PMIX_RANGE, Value::Range(Range::ProcLocal));
        publish(
            &mut published,
            &DataRequester { proc, uid },
            vec![range, datum],
        )
    };
    let count = |uid, publish: &mut dyn FnMut(u32, u32) -> Result<Vec<_>, PublishRefusal>| {
        (0..20)
            .take_while(|number| publish(uid, *number).is_ok())
            .count()
    };
    assert_eq!(
        [1000, 1001, 1002].map(|uid| count(uid, &mut publish_as)),
        [7, 7, 0]
    );
    let refusal = publish_as(1002, 0).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "published data are at a limit (publish.max_items_total)"
    );
    let refusal = publish_as(1000, 8).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "published data are at a limit (publish.max_items_per_user)"
    );
    assert_eq!([0, SERVER].map(|uid| count(uid, &mut publish_as)), [2, 0]);
}
