//! Policies of the site in a running server: their denials with reasons, the rules without
//! policies, and the effect of a failing policy.
use peal_client::{Client, ClientError};
use peal_core::{
    class::ClassFilter,
    defaults::HookDefault,
    job::JobSpec,
    job_control::{JobAction, JobControl, NotDone},
    owner::Owner,
    policy::{OnFailure, REASON},
    registration::{ChainPlacement, EventCodes, HandlerRegistration, Mode},
};
use peal_model::{
    CommandCode, Event, Hook, Info, Infos, KeyName, Nspace, Proc, Range, Rank, Reply, Request,
    Status, UserIdentity, Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{
    HostEnvironment, Hosted, HostedChains, HostedHandler, HostedPolicies, HostedPolicy,
    InProcessNetwork, ListenerItem, Notice, Notices, PolicyError, ServerSettings, UpcallFuture,
};
use peal_tests::{
    guest,
    in_process::{Modules, Node, listener, next, soon},
    raw_client::{Peer, RawClient, hello},
};
use peal_wire::Tag;
use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

const NEWS: Status = Status(-3101);
const RM_NEWS: Status = Status(-3102);
const NUMBER: KeyName = KeyName("test.number");

/// Host environment that carries out every request, and records it.
#[derive(Default)]
struct Obedient(Mutex<Vec<JobControl>>);

impl HostEnvironment for Obedient {
    fn job_control(
        &self,
        _requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        self.0.lock().unwrap().push(control);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

fn load(name: &str, bytes: &[u8], limits: ModuleLimits) -> Arc<Module> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::new(&EngineSettings::default()).unwrap());
    Arc::new(
        Module::load(
            engine,
            name,
            bytes,
            &Grants::none(),
            limits,
            Services::default(),
        )
        .unwrap(),
    )
}

/// Loads a component that ships with Peal, with limits that do not depend on the speed of the
/// machine.
fn shipped(name: &str) -> Arc<Module> {
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    load(name, &std::fs::read(guest(name)).unwrap(), limits)
}

/// Starts a server whose hooks have these policies, with two jobs: "job" of two procs of the test's
/// user, and "theirs".
async fn node(settings: ServerSettings, policies: HostedPolicies) -> (Node, Arc<Obedient>) {
    node_with(
        settings,
        Modules {
            hosted: Hosted {
                policies,
                ..Hosted::default()
            },
            ..Modules::default()
        },
    )
    .await
}

async fn node_with(settings: ServerSettings, modules: Modules) -> (Node, Arc<Obedient>) {
    let host = Arc::new(Obedient::default());
    let node = Node::with(
        modules,
        host.clone(),
        settings,
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let uid = rustix::process::geteuid().as_raw() + 1;
    let nspace = Nspace::new("theirs").unwrap();
    node.server
        .handle()
        .add_job(JobSpec::new(
            nspace,
            1,
            "node",
            UserIdentity { uid, gid: 0 },
        ))
        .await
        .unwrap();
    (node, host)
}

fn policies(
    hooks: &[Hook],
    name: &str,
    on_failure: OnFailure,
    module: &Arc<Module>,
) -> HostedPolicies {
    let mut policies = HostedPolicies::default();
    for hook in hooks {
        policies
            .register(
                *hook,
                name,
                ChainPlacement::Append,
                on_failure,
                module.clone(),
            )
            .unwrap();
    }
    policies
}

fn kill(job: &str) -> Request {
    let targets = vec![Proc::new(Nspace::new(job).unwrap(), Rank(0))];
    Request::JobControl {
        targets,
        directives: vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))],
    }
}

/// Returns the answer to a KILL of rank 0 of a job, and the reason if there is one.
async fn ask_to_kill(peer: &mut Peer, job: &str) -> (Status, Option<String>) {
    peer.request(200, &kill(job)).await;
    answer(peer, 200).await
}

/// Returns the next answer to a job-control request, which must have that tag.
async fn answer(peer: &mut Peer, tag: u32) -> (Status, Option<String>) {
    let frame = peer.next().await.expect("the connection is still there");
    assert_eq!(frame.tag, Tag(tag));
    match peer
        .codec
        .decode_reply(CommandCode::JobControl, &frame.payload)
        .unwrap()
    {
        Reply::Infos { status, infos } => {
            let words = infos.value_of(REASON).and_then(Value::as_str);
            (status, words.map(str::to_owned))
        }
        reply => (reply.status(), None),
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn policy_denies_kill_of_foreign_or_unknown_job_with_reason() {
    let same_user = shipped("same-user");
    let (node, host) = node(
        ServerSettings::default(),
        policies(
            &[Hook::JobControl],
            "same-user",
            OnFailure::Deny,
            &same_user,
        ),
    )
    .await;
    let mut peer = Peer::connect(&node, 0).await;
    let uid = rustix::process::geteuid().as_raw();
    let other = rustix::process::geteuid().as_raw() + 1;
    let foreign = format!("uid {uid} may not control job theirs of uid {other}");
    let denied = (code::PMIX_ERR_NO_PERMISSIONS, Some(foreign));
    assert_eq!(ask_to_kill(&mut peer, "theirs").await, denied);
    let unknown = (
        code::PMIX_ERR_NOT_FOUND,
        Some("job gone is not known here".to_owned()),
    );
    assert_eq!(ask_to_kill(&mut peer, "gone").await, unknown);
    assert!(host.0.lock().unwrap().is_empty(), "nothing happened");
    assert_eq!(
        ask_to_kill(&mut peer, "job").await,
        (code::PMIX_SUCCESS, None)
    );
    let asked = host.0.lock().unwrap().pop().unwrap();
    assert_eq!(
        (asked.action, asked.targets),
        (JobAction::Kill, vec![node.proc(0)])
    );
    let counters = node.server.counters();
    assert_eq!(
        (counters.requests_denied.get(), counters.decisions.get()),
        (2, 3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_it_the_table_of_defaults_decides() {
    let (node, host) = node(ServerSettings::default(), HostedPolicies::default()).await;
    let mut peer = Peer::connect(&node, 0).await;
    let (status, reason) = ask_to_kill(&mut peer, "theirs").await;
    assert_eq!(status, code::PMIX_ERR_NO_PERMISSIONS);
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(
        reason.unwrap(),
        format!("theirs:0 belongs to user {}, job:0 to user {uid}", uid + 1)
    );
    let (status, reason) = ask_to_kill(&mut peer, "gone").await;
    assert_eq!(
        (status, reason.unwrap().as_str()),
        (code::PMIX_ERR_NOT_FOUND, "gone:0 is not known here")
    );
    assert_eq!(ask_to_kill(&mut peer, "job").await.0, code::PMIX_SUCCESS);
    assert_eq!(host.0.lock().unwrap().len(), 1);
    let counters = node.server.counters();
    assert_eq!(
        (counters.requests_denied.get(), counters.decisions.get()),
        (2, 0)
    );

    let mut settings = ServerSettings::default();
    settings
        .core
        .defaults
        .set(Hook::JobControl, HookDefault::Deny);
    let (node, _) = self::node(settings, HostedPolicies::default()).await;
    let mut peer = Peer::connect(&node, 0).await;
    assert_eq!(
        ask_to_kill(&mut peer, "job").await.0,
        code::PMIX_ERR_NO_PERMISSIONS
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_traps_counts_as_its_on_failure() {
    let trap = shipped("trap-policy");
    let denies = policies(&[Hook::JobControl], "broken", OnFailure::Deny, &trap);
    let (node, _) = node(ServerSettings::default(), denies).await;
    let (status, reason) = ask_to_kill(&mut Peer::connect(&node, 0).await, "job").await;
    assert_eq!(status, Status::PEAL_ERR_MODULE_TRAPPED);
    let reason = reason.unwrap();
    assert!(
        reason.starts_with("policy \"broken\" failed: ")
            && reason.contains("asked to fail on JobControl"),
        "{reason}"
    );
    let counters = node.server.counters();
    assert_eq!(
        (
            counters.policy_failures.get(),
            counters.requests_denied.get()
        ),
        (1, 1)
    );

    let mut passes = policies(&[Hook::JobControl], "broken", OnFailure::Pass, &trap);
    passes
        .register(
            Hook::JobControl,
            "then",
            ChainPlacement::Append,
            OnFailure::Deny,
            shipped("same-user"),
        )
        .unwrap();
    let (node, host) = self::node(ServerSettings::default(), passes).await;
    let mut peer = Peer::connect(&node, 0).await;
    assert_eq!(ask_to_kill(&mut peer, "job").await.0, code::PMIX_SUCCESS);
    assert_eq!(
        ask_to_kill(&mut peer, "gone").await.1.unwrap(),
        "job gone is not known here"
    );
    assert_eq!(
        (
            host.0.lock().unwrap().len(),
            node.server.counters().policy_failures.get()
        ),
        (1, 2)
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn denied_connection_gets_no_byte_and_granted_one_is_served() {
    let trap = shipped("trap-policy");
    let (node, _) = node(
        ServerSettings::default(),
        policies(&[Hook::Connection], "broken", OnFailure::Deny, &trap),
    )
    .await;
    let mut raw = RawClient::connect(&node).await;
    raw.say(&peal_tests::raw_client::encoded(&hello(node.proc(0))))
        .await;
    assert!(raw.is_closed_without_a_byte().await);
    let counters = node.server.counters();
    assert_eq!(
        (
            counters.connections_refused.get(),
            counters.requests_denied.get()
        ),
        (1, 1)
    );

    let same_user = shipped("same-user");
    let all = [Hook::Connection, Hook::Event, Hook::JobControl];
    let (node, _) = self::node(
        ServerSettings::default(),
        policies(&all, "same-user", OnFailure::Deny, &same_user),
    )
    .await;
    let client = node.client(0).await;
    client.fence(&[client.me().clone()], &[]).await.unwrap();
    assert_eq!(node.server.counters().decisions.get(), 1);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn decided_events_keep_order_and_denied_one_gets_status() {
    let same_user = shipped("same-user");
    let (node, _) = node(
        ServerSettings::default(),
        policies(&[Hook::Event], "same-user", OnFailure::Deny, &same_user),
    )
    .await;
    let source = node.client(0).await;
    let listening = node.client(1).await;
    let (handler, mut heard) = listener();
    listening.register(&[NEWS], &[], handler).await.unwrap();
    let notify = |number: u32| {
        let infos = vec![Info::new(NUMBER, Value::Uint32(number))];
        source.notify(NEWS, Range::Namespace, infos)
    };
    // All requests are under way at once.
    let sent = futures_of((0..50).map(notify)).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let mut numbers = Vec::new();
    for _ in 0..50 {
        numbers.push(
            next(&mut heard)
                .await
                .infos
                .value_of(NUMBER)
                .cloned()
                .unwrap(),
        );
    }
    assert_eq!(numbers, (0..50).map(Value::Uint32).collect::<Vec<_>>());

    let proxy = Info::new(key::PMIX_EVENT_PROXY, Value::Proc(node.proc(1)));
    let refused = source.notify(NEWS, Range::Namespace, vec![proxy]).await;
    assert!(
        matches!(refused, Err(ref error) if error.status() == code::PMIX_ERR_NO_PERMISSIONS),
        "{refused:?}"
    );
}

/// Returns the owners of the chains that handled an event of the procs, and of those that handled a
/// later one of the resource manager.
async fn who_handles(policies: HostedPolicies) -> Vec<(Status, Owner)> {
    let complete = shipped("complete");
    let mut chains = HostedChains::default();
    let namespace = |name| Owner::Namespace(Nspace::new(name).unwrap());
    for owner in [Owner::Site, namespace("job"), namespace("theirs")] {
        let handler = HostedHandler::new(complete.clone());
        let registration = HandlerRegistration {
            levels: ClassFilter::Both,
            ..HandlerRegistration::new("complete", EventCodes::Default)
        };
        chains.register(owner, registration, handler).unwrap();
    }
    let notices = Notices::default();
    let mut told = notices.listen(Notice::is_passed);
    let modules = Modules {
        hosted: Hosted {
            policies,
            chains,
            ..Hosted::default()
        },
        notices,
    };
    let (node, _) = node_with(ServerSettings::default(), modules).await;
    node.client(0)
        .await
        .notify(NEWS, Range::Global, Vec::new())
        .await
        .unwrap();
    node.server.handle().notify(Event {
        code: RM_NEWS,
        source: None,
        range: Range::Global,
        infos: Vec::new(),
    });
    let mut handled = Vec::new();
    // The last chain to handle the second event handled the first one before, if at all.
    while !handled.contains(&(RM_NEWS, namespace("theirs"))) {
        let heard = soon("an event has passed", told.recv()).await.unwrap();
        if let ListenerItem::Notice(Notice::Passed { event, results, .. }) = heard
            && [NEWS, RM_NEWS].contains(&event.code)
        {
            handled.extend(
                results
                    .iter()
                    .map(|chain| (event.code, chain.owner.clone())),
            );
        }
    }
    handled
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn cross_user_events_pass_chains_only_by_policy() {
    let reached = |handled: &[(Status, Owner)], code| {
        let of_code = handled.iter().filter(|(handled, _)| *handled == code);
        of_code
            .map(|(_, owner)| owner.to_string())
            .collect::<Vec<_>>()
    };
    let handled = who_handles(HostedPolicies::default()).await;
    assert_eq!(reached(&handled, NEWS), ["site", "namespace job"]);
    assert_eq!(
        reached(&handled, RM_NEWS),
        ["site", "namespace job", "namespace theirs"]
    );
    let grants = load(
        "grants",
        &wat::parse_str(GRANTS).unwrap(),
        ModuleLimits::default(),
    );
    let handled = who_handles(policies(&[Hook::Event], "grants", OnFailure::Deny, &grants)).await;
    assert_eq!(
        reached(&handled, NEWS),
        ["site", "namespace job", "namespace theirs"]
    );
}

/// Event policy in text form that grants everything.
const GRANTS: &str = include_str!("../../wat/event-grants.wat");

/// Waits for all of these, which begin in their order.
async fn futures_of<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_pending_requests_are_denied_and_abandoned_ones_freed() {
    // The policy loops for ever. The requester waits until the time limit, in which the next
    // request comes.
    let looping = wat::parse_str(LOOPS).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(2),
        ..ModuleLimits::default()
    };
    let mut settings = ServerSettings::default();
    settings.core.decisions.requests = 1;
    let slow = load("slow", &looping, limits);
    let (node, _) = node(
        settings,
        policies(&[Hook::JobControl], "slow", OnFailure::Deny, &slow),
    )
    .await;
    let mut peer = Peer::connect(&node, 0).await;
    for tag in [200, 201] {
        peer.request(tag, &kill("job")).await;
    }
    assert_eq!(
        peer.reply(201, CommandCode::JobControl).await.status(),
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    assert_eq!(
        peer.reply(200, CommandCode::JobControl).await.status(),
        Status::PEAL_ERR_MODULE_TIMEOUT
    );
    // The requester leaves while the policy runs.
    peer.request(202, &kill("job")).await;
    peer.request(203, &kill("job")).await;
    assert_eq!(
        peer.reply(203, CommandCode::JobControl).await.status(),
        code::PMIX_ERR_OUT_OF_RESOURCE,
        "the one before it is waiting"
    );
    drop(peer);
    soon("the decision is forgotten", async {
        while node.server.counters().decisions_pending.get() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon("the server stops", node.server.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn observing_policies_delay_and_deny_nothing() {
    let limits = ModuleLimits {
        call_time: Duration::from_millis(300),
        ..ModuleLimits::default()
    };
    let mut settings = ServerSettings::default();
    settings.core.decisions.requests = 1;
    let slow = load("slow", &wat::parse_str(LOOPS).unwrap(), limits);
    let mut policies = HostedPolicies::default();
    let shadow = HostedPolicy {
        module: slow,
        mode: Mode::Shadow,
    };
    policies
        .register(
            Hook::JobControl,
            "slow",
            ChainPlacement::First,
            OnFailure::Deny,
            shadow,
        )
        .unwrap();
    let (node, _) = node(settings, policies).await;
    let mut peer = Peer::connect(&node, 0).await;
    for tag in 200..300 {
        peer.request(tag, &kill("job")).await;
    }
    for tag in 200..300 {
        assert_eq!(
            peer.reply(tag, CommandCode::JobControl).await.status(),
            code::PMIX_SUCCESS
        );
    }
    assert_eq!(
        ask_to_kill(&mut peer, "theirs").await.0,
        code::PMIX_ERR_NO_PERMISSIONS,
        "by the default"
    );
    let counters = node.server.counters();
    let seen = || counters.shadow_calls.get() + counters.shadow_calls_skipped.get();
    soon("the shadow is shown each of them", async {
        while seen() < 101 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon("the server stops", node.server.shutdown()).await;
}

/// Job-control policy in text form that never answers.
const LOOPS: &str = include_str!("../../wat/policy-loops.wat");

#[needs(prepared)]
#[test]
fn hooks_with_unused_policies_have_none() {
    let mut policies = HostedPolicies::default();
    let refused = policies.register(
        Hook::Publish,
        "early",
        ChainPlacement::Append,
        OnFailure::Deny,
        shipped("same-user"),
    );
    assert!(matches!(
        refused,
        Err(PolicyError::NoPolicies(Hook::Publish))
    ));
    let mut add = |name| {
        policies.register(
            Hook::Event,
            name,
            ChainPlacement::First,
            OnFailure::Deny,
            shipped("same-user"),
        )
    };
    add("one").unwrap();
    assert_eq!(
        add("two").unwrap_err().to_string(),
        "FIRST is held by \"one\"; only one handler may hold it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gets_denial_with_reason() {
    let (node, _) = node(ServerSettings::default(), HostedPolicies::default()).await;
    let client: Client = node.client(0).await;
    let theirs = [Proc::new(Nspace::new("theirs").unwrap(), Rank(0))];
    let kill = [Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))];
    let refused = client.job_control(&theirs, &kill).await.unwrap_err();
    let ClientError::Refused { status, infos, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(status, code::PMIX_ERR_NO_PERMISSIONS);
    let reason = infos.value_of(REASON).and_then(Value::as_str).unwrap();
    assert!(reason.starts_with("theirs:0 belongs to user"), "{reason}");
}
