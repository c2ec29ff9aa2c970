//! The order of a chain, as a table that reads like the RFC, and against an independent model.
use peal_core::{
    audience::ProcSet,
    chain::{HandlerOutcome, NextHandler},
    class::ClassFilter,
    order::Registrations,
    registration::{
        Category, ChainPlacement, EventCodes, HandlerRegistration, Lifetime, Mode,
        RegistrationError, RegistrationId, SourceFilter,
    },
};
use peal_model::{Event, Info, Nspace, Proc, Range, Rank, Status, Value, code, key};
use proptest::prelude::*;
use std::sync::Arc;

fn event(number: i32) -> Arc<Event> {
    Arc::new(Event {
        code: Status(number),
        source: None,
        range: Range::Namespace,
        infos: Vec::new(),
    })
}

fn add(
    chain: &mut Registrations<()>,
    name: &str,
    codes: &[i32],
    place: ChainPlacement,
) -> Result<RegistrationId, RegistrationError> {
    chain.register(
        HandlerRegistration {
            place,
            ..HandlerRegistration::new(name, codes_of(codes))
        },
        (),
    )
}

fn codes_of(codes: &[i32]) -> EventCodes {
    EventCodes::of(&codes.iter().map(|code| Status(*code)).collect::<Vec<_>>())
}

fn order(chain: &Registrations<()>, number: i32) -> Vec<String> {
    order_of(chain, event(number))
}

fn order_of(chain: &Registrations<()>, event: Arc<Event>) -> Vec<String> {
    let mut names = Vec::new();
    let mut run = chain.run(event);
    while let NextHandler::Call(call) = run.advance() {
        names.push(call.member().registration.name.to_string());
        run = call.finish(HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN));
    }
    names
}

#[test]
fn the_order_of_rfc_0002_and_its_placement_words() {
    let mut chain = Registrations::default();
    for (name, codes, place) in [
        ("last", &[-1][..], ChainPlacement::Last),
        ("default", &[][..], ChainPlacement::Append),
        ("default-first", &[][..], ChainPlacement::FirstInCategory),
        ("multi", &[-1, -2][..], ChainPlacement::Append),
        ("multi-last", &[-1, -2][..], ChainPlacement::LastInCategory),
        (
            "multi-before",
            &[-1, -2][..],
            ChainPlacement::Before("multi".into()),
        ),
        ("single", &[-1][..], ChainPlacement::Append),
        (
            "single-after",
            &[-1][..],
            ChainPlacement::After("single".into()),
        ),
        ("single-second", &[-1][..], ChainPlacement::Append),
        ("single-prepended", &[-1][..], ChainPlacement::Prepend),
        ("single-first", &[-1][..], ChainPlacement::FirstInCategory),
        ("first", &[][..], ChainPlacement::First),
    ] {
        add(&mut chain, name, codes, place).unwrap();
    }
    assert_eq!(
        order(&chain, -1),
        [
            "first",
            "single-first",
            "single-prepended",
            "single",
            "single-after",
            "single-second",
            "multi-before",
            "multi",
            "multi-last",
            "default-first",
            "default",
            "last"
        ]
    );
    assert_eq!(
        order(&chain, -2),
        [
            "first",
            "multi-before",
            "multi",
            "multi-last",
            "default-first",
            "default"
        ]
    );
    assert_eq!(order(&chain, -9), ["first", "default-first", "default"]);
}

#[test]
fn every_conflict_names_holder_of_placement() {
    let mut chain = Registrations::default();
    add(&mut chain, "a", &[-1], ChainPlacement::First).unwrap();
    add(&mut chain, "m", &[-1, -2], ChainPlacement::FirstInCategory).unwrap();
    add(&mut chain, "", &[], ChainPlacement::LastInCategory).unwrap();
    for (codes, place, says) in [
        (
            &[-9][..],
            ChainPlacement::First,
            "FIRST is held by \"a\"; only one handler may hold it",
        ),
        (
            &[-9, -8][..],
            ChainPlacement::FirstInCategory,
            "FIRST_IN_CATEGORY is held by \"m\"; only one handler may hold it",
        ),
        (
            &[][..],
            ChainPlacement::LastInCategory,
            "LAST_IN_CATEGORY is held by a handler without a name; only one handler may hold it",
        ),
        (
            &[-9][..],
            ChainPlacement::Before("x".into()),
            "no handler is called \"x\", so none can be placed before or after it",
        ),
        (
            &[-9][..],
            ChainPlacement::After("m".into()),
            "\"m\" is a multi-code handler; a single-code handler cannot be placed next to it",
        ),
        (
            &[-9, -8][..],
            ChainPlacement::Before("m".into()),
            "\"m\" holds FIRST_IN_CATEGORY, so nothing can be placed beyond it",
        ),
        (
            &[-9][..],
            ChainPlacement::After("a".into()),
            "\"a\" holds FIRST, so nothing can be placed beyond it",
        ),
    ] {
        let error = add(&mut chain, "new", codes, place).unwrap_err();
        assert_eq!(error.to_string(), says);
        assert_eq!(error.status(), code::PMIX_ERR_EVENT_REGISTRATION);
    }
    let infos = [key::PMIX_EVENT_HDLR_FIRST, key::PMIX_EVENT_HDLR_LAST]
        .map(|key| Info::new(key, Value::Bool(true)));
    let error = HandlerRegistration::from_directives(&[], &infos, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pmix.evfirst and pmix.evlast exclude each other; give one place"
    );
}

#[test]
fn shadow_is_placed_as_if_active_and_excludes_no_other() {
    let places = [
        ChainPlacement::First,
        ChainPlacement::Last,
        ChainPlacement::FirstInCategory,
        ChainPlacement::LastInCategory,
    ];
    let mut chain = Registrations::default();
    let mut add = |name: &str, place: &ChainPlacement, mode| {
        let registration = HandlerRegistration {
            place: place.clone(),
            mode,
            ..HandlerRegistration::new(name, codes_of(&[-1]))
        };
        chain.register(registration, ())
    };
    for place in &places {
        let ids = [
            ("shadow", Mode::Shadow),
            ("active", Mode::Active),
            ("late shadow", Mode::Shadow),
        ]
        .map(|(name, mode)| add(name, place, mode).unwrap());
        assert!(
            matches!(add("second", place, Mode::Active), Err(RegistrationError::Taken { holder, .. }) if holder == "active")
        );
        assert!(ids.is_sorted());
    }
    let each = ["shadow", "active", "late shadow"];
    assert_eq!(order(&chain, -1), [each; 4].concat());
    for id in chain.iter().map(|member| member.id).collect::<Vec<_>>() {
        assert!(chain.deregister(id).is_some());
    }
    assert!(chain.is_empty());
}

#[test]
fn directives_become_a_registration() {
    let infos = [
        Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string("me")),
        Info::new(key::PMIX_EVENT_HDLR_AFTER, Value::string("you")),
        Info::new(key::PMIX_EVENT_HDLR_FIRST, Value::Bool(false)),
        Info::new(key::PMIX_EVENT_ONESHOT, Value::Bool(true)),
    ];
    let registration = HandlerRegistration::from_directives(&[Status(-1)], &infos, None).unwrap();
    assert_eq!(registration.place, ChainPlacement::After("you".into()));
    assert_eq!(
        (&*registration.name, registration.lifetime),
        ("me", Lifetime::OneShot)
    );
    let wrong = [Info::new(key::PMIX_EVENT_HDLR_NAME, Value::Bool(true))];
    assert_eq!(
        HandlerRegistration::from_directives(&[], &wrong, None)
            .unwrap_err()
            .to_string(),
        "pmix.evname must be a PMIX_STRING"
    );
}

#[test]
fn handlers_see_earlier_results_and_completion_ends_chain() {
    let mut chain = Registrations::default();
    for name in ["one", "two", "three"] {
        add(&mut chain, name, &[-1], ChainPlacement::Append).unwrap();
    }
    let NextHandler::Call(one) = chain.run(event(-1)).advance() else {
        panic!()
    };
    assert!(one.steps().is_empty());
    let seen = Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string("seen"));
    let run = one.finish(HandlerOutcome {
        status: Status::PEAL_ERR_MODULE_TRAPPED,
        infos: vec![seen.clone()],
    });
    let NextHandler::Call(two) = run.advance() else {
        panic!()
    };
    assert_eq!(
        (&*two.steps()[0].name, two.steps()[0].status),
        ("one", Status::PEAL_ERR_MODULE_TRAPPED)
    );
    assert_eq!(two.steps()[0].infos, [seen]);
    let NextHandler::Done(end) = two
        .finish(HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE))
        .advance()
    else {
        panic!()
    };
    assert_eq!(end.steps.len(), 2, "three is not called");
}

#[test]
fn one_shot_handlers_run_once_and_default_ones_skip_others() {
    let mut chain = Registrations::default();
    let once = HandlerRegistration {
        lifetime: Lifetime::OneShot,
        ..HandlerRegistration::new("once", EventCodes::Default)
    };
    let id = chain.register(once, ()).unwrap();
    let marked = Event {
        infos: vec![Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true))],
        ..(*event(-1)).clone()
    };
    assert!(chain.run(Arc::new(marked)).is_empty());
    let NextHandler::Call(call) = chain.run(event(-1)).advance() else {
        panic!()
    };
    let NextHandler::Done(end) = call
        .finish(HandlerOutcome::status(code::PMIX_SUCCESS))
        .advance()
    else {
        panic!()
    };
    assert_eq!(end.spent, [id]);
    assert!(chain.deregister(id).is_some() && chain.is_empty());
    assert_ne!(
        add(&mut chain, "next", &[], ChainPlacement::Append).unwrap(),
        id,
        "numbers are not used twice"
    );
}

#[test]
fn affected_proc_filter_applies_to_events_naming_procs() {
    let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
    let infos = [Info::new(
        key::PMIX_EVENT_AFFECTED_PROCS,
        Value::procs([proc(1), proc(2)]),
    )];
    let mut chain = Registrations::default();
    chain
        .register(
            HandlerRegistration::from_directives(&[], &infos, None).unwrap(),
            (),
        )
        .unwrap();
    let affecting = |rank| {
        let infos = vec![Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(proc(rank)),
        )];
        Arc::new(Event {
            infos,
            ..(*event(-1)).clone()
        })
    };
    assert!(!chain.run(affecting(2)).is_empty() && chain.run(affecting(3)).is_empty());
    assert!(!chain.run(event(-1)).is_empty());
}

/// The directives of a handler of the model, beside its codes.
#[derive(Clone, Copy, Debug)]
struct Filter {
    levels: ClassFilter,
    /// The rank of job `j` whose events it is for, if any; 9 means all of that job.
    source: Option<u32>,
    /// If any, the rank of job `j` that must be affected; 9 means any of that job.
    affected: Option<u32>,
}

const NO_FILTER: Filter = Filter {
    levels: ClassFilter::JobSpecific,
    source: None,
    affected: None,
};

/// An event of the model.
#[derive(Clone, Copy, Debug)]
struct Happening {
    code: i32,
    is_marked: bool,
    /// In range NAMESPACE, or in range LOCAL.
    is_about_the_job: bool,
    source: Option<u32>,
    affected: Option<u32>,
}

fn proc(rank: u32) -> Proc {
    let nspace = Nspace::new("j").unwrap();
    if rank == 9 {
        Proc::all(nspace)
    } else {
        Proc::new(nspace, Rank(rank))
    }
}

impl Happening {
    fn event(self) -> Arc<Event> {
        let affected = self
            .affected
            .map(|rank| Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc(rank))));
        let marking = self
            .is_marked
            .then(|| Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)));
        Arc::new(Event {
            code: Status(self.code),
            source: self.source.map(proc),
            range: if self.is_about_the_job {
                Range::Namespace
            } else {
                Range::Local
            },
            infos: affected.into_iter().chain(marking).collect(),
        })
    }

    fn is_for(self, codes: &[i32], filter: Filter) -> bool {
        let code = if codes.is_empty() {
            !self.is_marked
        } else {
            codes.contains(&self.code)
        };
        let class = if self.is_about_the_job || self.affected.is_some() {
            matches!(filter.levels, ClassFilter::Both | ClassFilter::JobSpecific)
        } else {
            matches!(filter.levels, ClassFilter::Both | ClassFilter::Environment)
        };
        let source = filter.source.is_none_or(|wanted| {
            self.source
                .is_some_and(|rank| wanted == 9 || rank == wanted)
        });
        let affected = match (filter.affected, self.affected) {
            (Some(wanted), Some(rank)) => wanted == 9 || rank == 9 || wanted == rank,
            _ => true,
        };
        code && class && source && affected
    }
}

/// The model: one flat list, each entry with its section.
#[derive(Default)]
struct Model {
    entries: Vec<(u8, String, u64, Vec<i32>, Filter)>,
    next: u64,
}

impl Model {
    fn register(
        &mut self,
        name: &str,
        codes: &[i32],
        place: &ChainPlacement,
        filter: Filter,
    ) -> Option<u64> {
        let base = match codes.len() {
            0 => 7,
            1 => 1,
            _ => 4,
        };
        let (section, at) = match place {
            ChainPlacement::First => (0, None),
            ChainPlacement::Last => (10, None),
            ChainPlacement::FirstInCategory => (base, None),
            ChainPlacement::LastInCategory => (base + 2, None),
            ChainPlacement::Prepend => (
                base + 1,
                self.entries.iter().position(|entry| entry.0 > base),
            ),
            ChainPlacement::Append => (
                base + 1,
                self.entries.iter().position(|entry| entry.0 > base + 1),
            ),
            ChainPlacement::Before(other) => {
                let at = self
                    .entries
                    .iter()
                    .position(|e| e.1 == *other && (base..=base + 2).contains(&e.0))?;
                if self.entries.get(at)?.0 == base {
                    return None;
                }
                (base + 1, Some(at))
            }
            ChainPlacement::After(other) => {
                let at = self
                    .entries
                    .iter()
                    .position(|e| e.1 == *other && (base..=base + 2).contains(&e.0))?;
                if self.entries.get(at)?.0 == base + 2 {
                    return None;
                }
                (base + 1, Some(at + 1))
            }
        };
        let unique = matches!(section, 0 | 10) || section == base || section == base + 2;
        if unique && self.entries.iter().any(|entry| entry.0 == section) {
            return None;
        }
        let at = at.unwrap_or_else(|| {
            self.entries
                .iter()
                .position(|e| e.0 > section)
                .unwrap_or(self.entries.len())
        });
        self.next += 1;
        self.entries.insert(
            at,
            (section, name.into(), self.next, codes.to_vec(), filter),
        );
        Some(self.next)
    }

    fn order(&self, happening: Happening) -> Vec<String> {
        let met = self
            .entries
            .iter()
            .filter(|entry| happening.is_for(&entry.3, entry.4));
        met.map(|entry| entry.1.clone()).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Register(String, Vec<i32>, ChainPlacement, Filter),
    Deregister(u64),
}

/// Mostly none; 9 means a whole job.
fn rank() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![3 => Just(None), 2 => (0..2_u32).prop_map(Some), 1 => Just(Some(9))]
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let source = prop_oneof![1 => Just(None), 3 => (0..3_u32).prop_map(Some)];
    let one = (
        -3..0_i32,
        prop::bool::weighted(0.2),
        any::<bool>(),
        source,
        rank(),
    );
    let one = one.prop_map(
        |(code, is_marked, is_about_the_job, source, affected)| Happening {
            code,
            is_marked,
            is_about_the_job,
            source,
            affected,
        },
    );
    prop::collection::vec(one, 8)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let name = || "[abcd]".prop_map(String::from);
    let place = prop_oneof![
        1 => Just(ChainPlacement::First),
        1 => Just(ChainPlacement::Last),
        1 => Just(ChainPlacement::FirstInCategory),
        1 => Just(ChainPlacement::LastInCategory),
        3 => Just(ChainPlacement::Prepend),
        4 => Just(ChainPlacement::Append),
        3 => name().prop_map(ChainPlacement::Before),
        3 => name().prop_map(ChainPlacement::After),
    ];
    let codes = prop_oneof![
        Just(vec![]),
        Just(vec![-1]),
        Just(vec![-2]),
        Just(vec![-1, -2])
    ];
    let levels = prop_oneof![
        3 => Just(ClassFilter::JobSpecific),
        1 => Just(ClassFilter::Environment),
        2 => Just(ClassFilter::Both),
        1 => Just(ClassFilter::Neither),
    ];
    let filter = (levels, rank(), rank()).prop_map(|(levels, source, affected)| Filter {
        levels,
        source,
        affected,
    });
    let filter = prop_oneof![Just(NO_FILTER), filter];
    let register = (name(), codes, place, filter)
        .prop_map(|(name, codes, place, filter)| Op::Register(name, codes, place, filter));
    prop::collection::vec(
        prop_oneof![4 => register, 1 => (1..20_u64).prop_map(Op::Deregister)],
        0..40,
    )
}

proptest! {
    #[test]
    fn random_registrations_give_order_of_model(ops in ops(), happenings in happenings()) {
        let mut chain = Registrations::default();
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Register(name, codes, place, filter) => {
                    let registration = HandlerRegistration {
                        place: place.clone(),
                        levels: filter.levels,
                        sources: filter.source.map_or(SourceFilter::Any, |rank| {
                            SourceFilter::These(ProcSet::of(vec![proc(rank)]))
                        }),
                        affected: filter.affected.into_iter().map(proc).collect(),
                        ..HandlerRegistration::new(&name, codes_of(&codes))
                    };
                    let ours = chain.register(registration, ()).ok().map(|id| id.0);
                    let theirs = model.register(&name, &codes, &place, filter);
                    prop_assert_eq!(ours, theirs, "{} {:?} {:?}", name, codes, place);
                }
                Op::Deregister(id) => {
                    let there = model.entries.iter().position(|entry| entry.2 == id);
                    prop_assert_eq!(chain.deregister(RegistrationId(id)).is_some(), there.is_some());
                    there.map(|at| model.entries.remove(at));
                }
            }
            for happening in &happenings {
                let ours = order_of(&chain, happening.event());
                let theirs = model.order(*happening);
                prop_assert_eq!(ours, theirs, "{:?}", happening);
            }
        }
    }
}

#[test]
fn categories_follow_from_the_codes() {
    let of = |codes: &[i32]| codes_of(codes).category();
    assert_eq!(
        [of(&[-1]), of(&[-1, -2]), of(&[])],
        [Category::Single, Category::Multi, Category::Default]
    );
}
