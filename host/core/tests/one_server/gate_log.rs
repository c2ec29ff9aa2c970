//! Log requests at the policy gate: their requester, the policies' view of them, and amendments.
use peal_core::{
    MonotonicTime,
    defaults::{Defaults, HookDefault},
    job::JobSpec,
    policy::{DecidedBy, DeniedVerdict, REASON, Verdict},
    server::{Action, DecisionLimits, PeerId, RequestId, ServerState, StateSettings},
};
use peal_model::{
    Hook, Info, Nspace, Proc, Rank, Reply, Request, Status, UserIdentity, Value, code, key,
};

const ALICE: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const TO: u32 = 101;

fn proc(nspace: &str) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(0))
}

/// A server with a job of Alice's, and its one proc.
fn stage(settings: StateSettings, policed: &[Hook]) -> (ServerState, PeerId) {
    let mut server = ServerState::new(settings);
    server.guard(UserIdentity { uid: 500, gid: 500 }, policed.iter().copied());
    let nspace = Nspace::new("alice").unwrap();
    let hostname = "node".to_owned();
    server.add_job(JobSpec::new(nspace, 1, hostname, ALICE));
    let (peer, _) = server.admit(&proc("alice"), ALICE).unwrap();
    (server, peer)
}

fn line(text: &str) -> Vec<Info> {
    vec![Info::new(key::PMIX_LOG_STDOUT, Value::string(text))]
}

fn priority() -> Vec<Info> {
    vec![Info::new(key::PMIX_LOG_SYSLOG_PRI, Value::Int(3))]
}

fn log(server: &mut ServerState, peer: PeerId, directives: Vec<Info>) -> Vec<Action> {
    let request = Request::Log {
        timestamp: 7,
        data: line("text"),
        directives,
    };
    server.request(RequestId { peer, tag: TO }, request, MonotonicTime(0))
}

#[test]
fn log_requests_carry_real_requester_unless_site_drops_it() {
    let forged = Info::new(key::PMIX_LOG_SOURCE, Value::Proc(proc("bob")));
    let (mut server, peer) = stage(StateSettings::default(), &[]);
    let actions = log(&mut server, peer, [vec![forged], priority()].concat());
    let [
        Action::Log {
            to: Some(RequestId { tag: TO, .. }),
            request,
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (&request.source, request.identity),
        (&Some(proc("alice")), Some(ALICE))
    );
    assert_eq!(
        (request.timestamp, &request.data, &request.directives),
        (Some(7), &line("text"), &priority())
    );
    let mut defaults = Defaults::default();
    defaults.set(Hook::Log, HookDefault::Deny);
    let (mut server, peer) = stage(
        StateSettings {
            defaults,
            ..StateSettings::default()
        },
        &[],
    );
    let actions = log(&mut server, peer, Vec::new());
    let [Action::Denied(denial), Action::Reply { reply, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (reply.status(), &denial.by),
        (code::PMIX_ERR_NO_PERMISSIONS, &DecidedBy::Default)
    );
}

#[test]
fn log_waits_for_policies_and_uses_their_rewrite() {
    let (mut server, peer) = stage(StateSettings::default(), &[Hook::Log]);
    let actions = log(&mut server, peer, priority());
    let [Action::Decide { id, request }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (request.subject.hook(), &request.requester, request.identity),
        (Hook::Log, &Some(proc("alice")), Some(ALICE))
    );
    assert_eq!(
        (request.subject.infos(), request.subject.directives()),
        (&line("text")[..], &priority()[..])
    );
    assert_eq!(server.counts().decisions_awaited, 1);
    let by = DecidedBy::Policy("redacts".to_owned());
    let verdict = Verdict::Granted {
        by,
        amended: Vec::new(),
        range: None,
        data: Some(line("***")),
        answer: Vec::new(),
    };
    let actions = server.decided(*id, verdict);
    let [
        Action::Log {
            to: Some(RequestId { tag: TO, .. }),
            request,
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (&request.data, &request.directives),
        (&line("***"), &Vec::new())
    );
    // Who asks, and when, no policy can change.
    assert_eq!(
        (&request.source, request.identity, request.timestamp),
        (&Some(proc("alice")), Some(ALICE), Some(7))
    );
    assert_eq!(server.counts().decisions_awaited, 0);
}

#[test]
fn denied_log_gets_status_and_trace_gets_reason() {
    let (mut server, peer) = stage(StateSettings::default(), &[Hook::Log]);
    let actions = log(&mut server, peer, Vec::new());
    let [Action::Decide { id, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    let reasons = vec![Info::new(REASON, Value::string("not today"))];
    let by = DecidedBy::Policy("no".to_owned());
    let actions = server.decided(
        *id,
        Verdict::Denied(DeniedVerdict {
            by,
            status: Status(-3100),
            reasons,
        }),
    );
    let [
        Action::Denied(denial),
        Action::Reply {
            reply: Reply::Status(Status(-3100)),
            ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert!(
        denial.to_string().ends_with("-3100, \"not today\""),
        "{denial}"
    );
    // What waits is bounded as for any other hook.
    let (mut server, peer) = stage(
        StateSettings {
            decisions: DecisionLimits {
                requests: 2,
                user_requests: 1,
                ..DecisionLimits::default()
            },
            ..StateSettings::default()
        },
        &[Hook::Log],
    );
    assert!(matches!(
        log(&mut server, peer, Vec::new())[..],
        [Action::Decide { .. }]
    ));
    let actions = log(&mut server, peer, Vec::new());
    let [Action::Denied(_), Action::Reply { reply, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(reply.status(), code::PMIX_ERR_OUT_OF_RESOURCE);
}
