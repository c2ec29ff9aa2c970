//! Order and selection of the handlers of a `peal-client` program for an event (RFC 0002). The
//! tests cover, end to end, the faults of C library releases. All events are job-specific, so that
//! every handler receives them.
use peal_client::{Client, ClientError, Handler, HandlerOutcome};
use peal_core::registration::{Category, RegistrationError, RegistrationId};
use peal_model::{Info, Infos, KeyName, Nspace, Proc, Range, Rank, Status, Value, code, key};
use peal_server::ServerSettings;
use peal_tests::in_process::{Node, soon};
use tokio::sync::mpsc;

const A: Status = Status(-3701);
const B: Status = Status(-3702);
/// Code of an event that follows the events of a test: a handler that receives it has received the
/// others.
const END: Status = Status(-3799);
const NOTE: KeyName = KeyName("test.note");

/// Codes that give a registration each category. All of them include `A`.
const CATEGORIES: [(Category, &[Status]); 3] = [
    (Category::Single, &[A]),
    (Category::Multi, &[A, B]),
    (Category::Default, &[]),
];

/// A job of two procs: one has handlers, the other raises events.
struct Pair {
    node: Node,
    listener: Client,
    raiser: Client,
    tell: mpsc::UnboundedSender<String>,
    told: mpsc::UnboundedReceiver<String>,
}

impl Pair {
    async fn start() -> Pair {
        let node = Node::alone(ServerSettings::default(), 2).await;
        let listener = node.client(0).await;
        let raiser = node.client(1).await;
        let (tell, told) = mpsc::unbounded_channel();
        let pair = Pair {
            node,
            listener,
            raiser,
            tell,
            told,
        };
        let tell = pair.tell.clone();
        let end = Handler::native(move |_| {
            tell.send(String::new()).unwrap();
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        pair.listener.register(&[END], &[], end).await.unwrap();
        pair
    }

    /// Registers a handler that records its name, and the event's note if there is one.
    async fn register(
        &self,
        name: &str,
        codes: &[Status],
        more: &[Info],
    ) -> Result<RegistrationId, ClientError> {
        self.register_with(name, codes, more, code::PMIX_EVENT_NO_ACTION_TAKEN)
            .await
    }

    /// Registers such a handler with this outcome for all events but the last one of a test.
    async fn register_with(
        &self,
        name: &str,
        codes: &[Status],
        more: &[Info],
        answer: Status,
    ) -> Result<RegistrationId, ClientError> {
        let tell = self.tell.clone();
        let own_name = name.to_owned();
        let handler = Handler::native(move |call| {
            if call.event().code == END {
                return HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN);
            }
            let note = call.event().infos.value_of(NOTE).and_then(Value::as_str);
            tell.send(note.map_or(own_name.clone(), |note| format!("{own_name} {note}")))
                .unwrap();
            HandlerOutcome::status(answer)
        });
        let mut directives = vec![Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string(name))];
        directives.extend_from_slice(more);
        self.listener.register(codes, &directives, handler).await
    }

    /// Registers handlers with these names, codes and directives. All registrations must succeed.
    async fn register_all(&self, handlers: &[(&str, &[Status], &[Info])]) {
        for (name, codes, more) in handlers {
            self.register(name, codes, more).await.unwrap();
        }
    }

    /// Raises an event, and returns the names of its handlers in their order. Handlers that
    /// register later do not receive it.
    async fn chain(&mut self, code: Status, mut infos: Vec<Info>) -> Vec<String> {
        infos.push(yes(key::PMIX_EVENT_DO_NOT_CACHE));
        self.raiser
            .notify(code, Range::Namespace, infos)
            .await
            .unwrap();
        self.heard().await
    }

    /// Returns the names that were recorded since the last call.
    async fn heard(&mut self) -> Vec<String> {
        self.raiser
            .notify(END, Range::Namespace, Vec::new())
            .await
            .unwrap();
        let mut heard = Vec::new();
        loop {
            match soon("the last event is received", self.told.recv())
                .await
                .unwrap()
            {
                end if end.is_empty() => return heard,
                name => heard.push(name),
            }
        }
    }

    /// Returns an info with these procs of the job: the affected procs of an event, or a filter for
    /// them.
    fn affected(&self, ranks: &[u32]) -> Info {
        Info::new(
            key::PMIX_EVENT_AFFECTED_PROCS,
            Value::procs(ranks.iter().map(|rank| self.node.proc(*rank))),
        )
    }
}

fn yes(key: KeyName) -> Info {
    Info::new(key, Value::Bool(true))
}

fn beside(key: KeyName, name: &str) -> Info {
    Info::new(key, Value::string(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn categories_run_in_order_and_each_in_registration_order() {
    let mut pair = Pair::start().await;
    pair.register_all(&[
        ("d1", &[], &[]),
        ("m1", &[A, B], &[]),
        ("s1", &[A], &[]),
        ("other", &[B], &[]),
        ("d2", &[], &[]),
        ("s2", &[A], &[]),
        ("m2", &[B, A], &[]),
    ])
    .await;
    assert_eq!(
        pair.chain(A, Vec::new()).await,
        ["s1", "s2", "m1", "m2", "d1", "d2"]
    );
    assert_eq!(
        pair.chain(B, Vec::new()).await,
        ["other", "m1", "m2", "d1", "d2"]
    );
    assert_eq!(
        pair.chain(A, vec![yes(key::PMIX_EVENT_NON_DEFAULT)]).await,
        ["s1", "s2", "m1", "m2"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_placement_word_holds_in_every_category() {
    for (category, codes) in CATEGORIES {
        let mut pair = Pair::start().await;
        pair.register_all(&[
            ("x", codes, &[]),
            ("last", codes, &[yes(key::PMIX_EVENT_HDLR_LAST)]),
            (
                "last of all x",
                codes,
                &[yes(key::PMIX_EVENT_HDLR_LAST_IN_CATEGORY)],
            ),
            ("y", codes, &[]),
            (
                "first of all x",
                codes,
                &[yes(key::PMIX_EVENT_HDLR_FIRST_IN_CATEGORY)],
            ),
            ("front", codes, &[yes(key::PMIX_EVENT_HDLR_PREPEND)]),
            (
                "before y",
                codes,
                &[beside(key::PMIX_EVENT_HDLR_BEFORE, "y")],
            ),
            ("after x", codes, &[beside(key::PMIX_EVENT_HDLR_AFTER, "x")]),
            ("first", codes, &[yes(key::PMIX_EVENT_HDLR_FIRST)]),
            ("back", codes, &[yes(key::PMIX_EVENT_HDLR_APPEND)]),
            ("new front", codes, &[yes(key::PMIX_EVENT_HDLR_PREPEND)]),
            (
                "after the first",
                codes,
                &[beside(key::PMIX_EVENT_HDLR_AFTER, "first of all x")],
            ),
            (
                "before the last",
                codes,
                &[beside(key::PMIX_EVENT_HDLR_BEFORE, "last of all x")],
            ),
        ])
        .await;
        let expected = [
            "first",
            "first of all x",
            "after the first",
            "new front",
            "front",
            "x",
            "after x",
            "before y",
            "y",
            "back",
            "before the last",
            "last of all x",
            "last",
        ];
        assert_eq!(pair.chain(A, Vec::new()).await, expected, "{category}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_and_after_mean_the_first_of_a_name_that_is_there() {
    let mut pair = Pair::start().await;
    pair.register_all(&[
        ("twin", &[A], &[]),
        ("between", &[A], &[]),
        ("twin", &[A], &[]),
        ("list", &[A, B], &[]),
    ])
    .await;
    pair.register("after", &[A], &[beside(key::PMIX_EVENT_HDLR_AFTER, "twin")])
        .await
        .unwrap();
    pair.register(
        "before",
        &[A],
        &[beside(key::PMIX_EVENT_HDLR_BEFORE, "twin")],
    )
    .await
    .unwrap();
    pair.register("head", &[A], &[yes(key::PMIX_EVENT_HDLR_FIRST_IN_CATEGORY)])
        .await
        .unwrap();
    let chain = ["head", "before", "twin", "after", "between", "twin", "list"];
    assert_eq!(pair.chain(A, Vec::new()).await, chain);
    let no_name = RegistrationError::NoSuchName {
        name: "nobody".to_owned(),
    };
    let elsewhere = RegistrationError::OtherCategory {
        name: "list".to_owned(),
        existing: Category::Multi,
        requested: Category::Single,
    };
    let beyond = RegistrationError::Beyond {
        name: "head".to_owned(),
        place: "FIRST_IN_CATEGORY",
    };
    let taken = RegistrationError::Taken {
        place: "FIRST_IN_CATEGORY",
        holder: "head".to_owned(),
    };
    for (place, wrong) in [
        (beside(key::PMIX_EVENT_HDLR_BEFORE, "nobody"), no_name),
        (beside(key::PMIX_EVENT_HDLR_AFTER, "list"), elsewhere),
        (beside(key::PMIX_EVENT_HDLR_BEFORE, "head"), beyond),
        (yes(key::PMIX_EVENT_HDLR_FIRST_IN_CATEGORY), taken),
    ] {
        let error = pair.register("refused", &[A], &[place]).await.unwrap_err();
        assert_eq!(error.status(), code::PMIX_ERR_EVENT_REGISTRATION);
        assert!(
            matches!(&error, ClientError::Registration(found) if *found == wrong),
            "{error} is not {wrong}"
        );
    }
    // A refused handler is not in the chain.
    assert_eq!(pair.chain(A, Vec::new()).await, chain);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_category_is_passed_over_behind_a_first_of_any_kind() {
    for (category, codes) in CATEGORIES {
        let mut pair = Pair::start().await;
        pair.register("first", codes, &[yes(key::PMIX_EVENT_HDLR_FIRST)])
            .await
            .unwrap();
        pair.register("last", codes, &[yes(key::PMIX_EVENT_HDLR_LAST)])
            .await
            .unwrap();
        for (name, codes) in [("s", &[A][..]), ("m", &[B, A]), ("d", &[])] {
            pair.register(name, codes, &[]).await.unwrap();
        }
        assert_eq!(
            pair.chain(A, Vec::new()).await,
            ["first", "s", "m", "d", "last"],
            "{category}"
        );
        // A category without a matching handler does not hide the ones after it.
        let others: &[&str] = match category {
            Category::Single => &["m", "d"],
            Category::Multi | Category::Default => &["first", "m", "d", "last"],
        };
        assert_eq!(pair.chain(B, Vec::new()).await, others, "{category}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scan_goes_on_behind_a_handler_that_does_not_match() {
    for (category, codes) in CATEGORIES {
        let mut pair = Pair::start().await;
        let of_another = [pair.affected(&[1])];
        pair.register("x", codes, &[]).await.unwrap();
        pair.register("not this", codes, &of_another).await.unwrap();
        pair.register("nor this", codes, &of_another).await.unwrap();
        pair.register("y", codes, &[]).await.unwrap();
        pair.register("last", &[A], &[yes(key::PMIX_EVENT_HDLR_LAST)])
            .await
            .unwrap();
        let about = vec![pair.affected(&[0])];
        assert_eq!(pair.chain(A, about).await, ["x", "y", "last"], "{category}");
        let all = ["x", "not this", "nor this", "y", "last"];
        assert_eq!(pair.chain(A, of_another.to_vec()).await, all, "{category}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_by_affected_procs_hold_at_every_place() {
    let places = [
        None,
        Some(key::PMIX_EVENT_HDLR_FIRST),
        Some(key::PMIX_EVENT_HDLR_FIRST_IN_CATEGORY),
        Some(key::PMIX_EVENT_HDLR_LAST_IN_CATEGORY),
        Some(key::PMIX_EVENT_HDLR_LAST),
    ];
    for (category, codes) in CATEGORIES {
        for place in places {
            let mut pair = Pair::start().await;
            let job = Value::Proc(Proc::all(pair.node.proc(0).nspace));
            let stranger = Value::Proc(Proc::new(Nspace::new("another").unwrap(), Rank(1)));
            let mut directives = vec![pair.affected(&[1, 2])];
            directives.extend(place.map(yes));
            pair.register("filtered", codes, &directives).await.unwrap();
            for (infos, hears) in [
                (Vec::new(), true),
                (vec![pair.affected(&[1])], true),
                (vec![pair.affected(&[0, 2])], true),
                (vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, job)], true),
                (vec![pair.affected(&[0])], false),
                (
                    vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, stranger)],
                    false,
                ),
            ] {
                let heard = pair.chain(A, infos.clone()).await;
                assert_eq!(!heard.is_empty(), hears, "{category}, {place:?}: {infos:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_complete_action_ends_chain_at_any_position() {
    let complete = code::PMIX_EVENT_ACTION_COMPLETE;
    for (category, codes) in CATEGORIES {
        let mut pair = Pair::start().await;
        pair.register("before", codes, &[]).await.unwrap();
        let id = pair
            .register_with("ends it", codes, &[], complete)
            .await
            .unwrap();
        pair.register("behind", codes, &[]).await.unwrap();
        pair.register("last", codes, &[yes(key::PMIX_EVENT_HDLR_LAST)])
            .await
            .unwrap();
        assert_eq!(
            pair.chain(A, Vec::new()).await,
            ["before", "ends it"],
            "{category}"
        );
        pair.listener.deregister(id).await.unwrap();
        assert_eq!(
            pair.chain(A, Vec::new()).await,
            ["before", "behind", "last"],
            "{category}"
        );
        pair.register_with("first", codes, &[yes(key::PMIX_EVENT_HDLR_FIRST)], complete)
            .await
            .unwrap();
        assert_eq!(pair.chain(A, Vec::new()).await, ["first"], "{category}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deregistered_handler_gets_nothing_and_number_is_not_reused() {
    let mut pair = Pair::start().await;
    let tell = pair.tell.clone();
    let leaves = Handler::native(move |call| {
        call.deregister(call.registration());
        tell.send("leaves".to_owned()).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    let mut ids = vec![pair.listener.register(&[A], &[], leaves).await.unwrap()];
    ids.push(
        pair.register("once", &[A], &[yes(key::PMIX_EVENT_ONESHOT)])
            .await
            .unwrap(),
    );
    ids.push(pair.register("stays", &[A], &[]).await.unwrap());
    assert_eq!(pair.chain(A, Vec::new()).await, ["leaves", "once", "stays"]);
    assert_eq!(pair.chain(A, Vec::new()).await, ["stays"]);
    for gone in &ids[..2] {
        assert_eq!(
            pair.listener.deregister(*gone).await.unwrap_err().status(),
            code::PMIX_ERR_NOT_FOUND
        );
    }
    pair.listener.deregister(ids[2]).await.unwrap();
    let next = pair.register("next", &[A], &[]).await.unwrap();
    assert!(!ids.contains(&next), "{next:?} is one of {ids:?}");
    assert_eq!(pair.chain(A, Vec::new()).await, ["next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_handler_gets_cached_events_once_and_in_order() {
    let mut pair = Pair::start().await;
    for (code, text) in [(A, "1"), (B, "2"), (A, "3"), (B, "4")] {
        pair.raiser
            .notify(
                code,
                Range::Namespace,
                vec![Info::new(NOTE, Value::string(text))],
            )
            .await
            .unwrap();
    }
    let first = pair.register("a", &[A], &[]).await.unwrap();
    assert_eq!(pair.heard().await, ["a 1", "a 3"]);
    pair.register("again", &[A], &[]).await.unwrap();
    assert_eq!(pair.heard().await, ["again 1", "again 3"]);
    // Events that came to the process come first, then those that the server has retained.
    pair.register("both", &[A, B], &[]).await.unwrap();
    assert_eq!(pair.heard().await, ["both 1", "both 3", "both 2", "both 4"]);
    pair.register("all", &[], &[]).await.unwrap();
    assert_eq!(pair.heard().await, ["all 1", "all 3", "all 2", "all 4"]);
    assert_eq!(pair.heard().await, [""; 0]);
    pair.listener.deregister(first).await.unwrap();
    pair.register("a", &[A], &[]).await.unwrap();
    assert_eq!(pair.heard().await, ["a 1", "a 3"]);
}
