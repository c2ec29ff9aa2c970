//! Events that a handler of `peal-client` receives by class and source (RFC 0002), and the infos
//! passed with them.
use peal_client::{Handler, HandlerOutcome};
use peal_model::{Event, Info, Nspace, Proc, Range, Rank, Status, Value, code, key};
use peal_server::ServerSettings;
use peal_tests::in_process::{Node, everything, listener, next, soon};
use tokio::sync::mpsc;

const NEWS: Status = Status(-3801);
/// Code of an event that follows the events of a test: a handler that receives it has received the
/// others.
const END: Status = Status(-3899);

fn affected(proc: Proc) -> Vec<Info> {
    vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc))]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_level_words_chooses_its_classes() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let words = [None, Some(false), Some(true)];
    let pairs: Vec<(Option<bool>, Option<bool>)> = words
        .iter()
        .flat_map(|job| words.iter().map(|environment| (*job, *environment)))
        .collect();
    for (job, environment) in pairs.clone() {
        let word = |key, word: Option<bool>| word.map(|truth| Info::new(key, Value::Bool(truth)));
        let directives = [
            word(key::PMIX_EVENT_JOB_LEVEL, job),
            word(key::PMIX_EVENT_ENVIRO_LEVEL, environment),
        ];
        let directives: Vec<Info> = directives.into_iter().flatten().collect();
        let tell = tell.clone();
        let handler = Handler::native(move |call| {
            tell.send(Some((call.event().range, (job, environment))))
                .unwrap();
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        client
            .register(&[NEWS], &directives, handler)
            .await
            .unwrap();
    }
    let end = Handler::native(move |_| {
        tell.send(None).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client.register(&[END], &[], end).await.unwrap();
    let custom = vec![Info::new(
        key::PMIX_EVENT_CUSTOM_RANGE,
        Value::Proc(node.proc(0)),
    )];
    for (range, infos, is_job_specific) in [
        (Range::Namespace, Vec::new(), true),
        (Range::Custom, custom, true),
        (Range::Global, affected(node.proc(1)), true),
        (Range::Local, Vec::new(), false),
        (Range::Session, Vec::new(), false),
        (Range::Global, Vec::new(), false),
    ] {
        other.notify(NEWS, range, infos).await.unwrap();
        other
            .notify(END, Range::Namespace, Vec::new())
            .await
            .unwrap();
        let mut heard = Vec::new();
        while let Some((heard_range, pair)) = soon("the last event is received", told.recv())
            .await
            .unwrap()
        {
            assert_eq!(heard_range, range);
            heard.push(pair);
        }
        let hears = |(job, environment): &(Option<bool>, Option<bool>)| match (job, environment) {
            // Without a level: job-specific events only.
            (None, None) => is_job_specific,
            // One level alone: true for only that class, false for all but that class.
            (Some(wanted), None) => *wanted == is_job_specific,
            (None, Some(wanted)) => *wanted != is_job_specific,
            (Some(job), Some(environment)) => {
                if is_job_specific {
                    *job
                } else {
                    *environment
                }
            }
        };
        let expected: Vec<_> = pairs.iter().filter(|pair| hears(pair)).copied().collect();
        assert_eq!(heard, expected, "{range}, job-specific: {is_job_specific}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_range_of_a_registration_is_about_the_source() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let stranger = Proc::new(Nspace::new("elsewhere").unwrap(), Rank(0));
    let (tell, mut told) = mpsc::unbounded_channel();
    let range = |range| vec![Info::new(key::PMIX_RANGE, Value::Range(range))];
    let custom = |proc| Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(proc));
    for (name, mut directives) in [
        ("nothing", Vec::new()),
        ("proc-local", range(Range::ProcLocal)),
        ("namespace", range(Range::Namespace)),
        ("rm", range(Range::Rm)),
        ("session", range(Range::Session)),
        (
            "custom: the other",
            [range(Range::Custom), vec![custom(node.proc(1))]].concat(),
        ),
        ("custom: a stranger", vec![custom(stranger)]),
        ("custom: all", vec![custom(Proc::all(node.proc(0).nspace))]),
    ] {
        let tell = tell.clone();
        let handler = Handler::native(move |_| {
            tell.send(name).unwrap();
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        directives.extend_from_slice(everything());
        client
            .register(&[NEWS], &directives, handler)
            .await
            .unwrap();
    }
    let last = Handler::native(move |_| {
        tell.send("").unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    let at_the_end = [Info::new(key::PMIX_EVENT_HDLR_LAST, Value::Bool(true))];
    client
        .register(&[NEWS], &[&at_the_end, everything()].concat(), last)
        .await
        .unwrap();
    let mut heard = async || {
        let mut names = Vec::new();
        loop {
            match soon("the last handler is called", told.recv())
                .await
                .unwrap()
            {
                "" => return names,
                name => names.push(name),
            }
        }
    };
    client
        .notify(NEWS, Range::ProcLocal, Vec::new())
        .await
        .unwrap();
    assert_eq!(
        heard().await,
        [
            "nothing",
            "proc-local",
            "namespace",
            "session",
            "custom: all"
        ]
    );
    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    assert_eq!(
        heard().await,
        [
            "nothing",
            "namespace",
            "session",
            "custom: the other",
            "custom: all"
        ]
    );
    let of_the_manager = Event {
        code: NEWS,
        source: None,
        range: Range::Global,
        infos: Vec::new(),
    };
    node.server.handle().notify(of_the_manager);
    assert_eq!(heard().await, ["nothing", "rm", "session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_directives_are_refused_before_any_request() {
    let node = Node::alone(ServerSettings::default(), 1).await;
    let client = node.client(0).await;
    let procs = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(node.proc(0)));
    for (directives, says) in [
        (
            vec![Info::new(key::PMIX_RANGE, Value::Range(Range::Custom))],
            "belong together",
        ),
        (
            vec![
                Info::new(key::PMIX_RANGE, Value::Range(Range::Local)),
                procs,
            ],
            "belong together",
        ),
        (
            vec![Info::new(key::PMIX_RANGE, Value::Uint32(300))],
            "pmix.range must be a PMIX_DATA_RANGE",
        ),
        (
            vec![Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Bool(true))],
            "pmix.evrange must be a PMIX_PROC",
        ),
        (
            vec![Info::new(
                key::PMIX_EVENT_ENVIRO_LEVEL,
                Value::Proc(node.proc(0)),
            )],
            "pmix.evenv must be a PMIX_BOOL",
        ),
        (
            vec![Info::new(key::PMIX_EVENT_ONESHOT, Value::string("perhaps"))],
            "pmix.evone must be a PMIX_BOOL",
        ),
    ] {
        let error = client
            .register(&[NEWS], &directives, listener().0)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_given_its_object_and_may_wait_for_its_server() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Handle::current();
    let own = client.clone();
    let waits = Handler::native(move |call| {
        let named = (call.name().to_owned(), call.object().cloned());
        // This does not run on the task that reads the server's messages, so each of these requests
        // is answered.
        runtime.block_on(async {
            own.fence(&[own.me().clone()], &[]).await.unwrap();
            own.notify(END, Range::Namespace, Vec::new()).await.unwrap();
            own.register(&[Status(-3802)], &[], listener().0)
                .await
                .unwrap();
            own.deregister(call.registration()).await.unwrap();
        });
        tell.send(named).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    let object = Value::string("mine");
    let directives = [
        Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string("waits")),
        Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone()),
    ];
    client.register(&[NEWS], &directives, waits).await.unwrap();
    let (end, mut ended) = listener();
    other.register(&[END], &[], end).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    assert_eq!(
        soon("the handler returns", told.recv()).await,
        Some(("waits".to_owned(), Some(object)))
    );
    assert_eq!(next(&mut ended).await.source, Some(node.proc(0)));
}
