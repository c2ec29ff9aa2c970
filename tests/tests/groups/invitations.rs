//! Invitations to groups among Peal's own clients, of several jobs of one server: acceptance,
//! absence, and decisions about absent procs.
use peal_client::{
    Absence, AbsenceDecision, Client, ClientError, Group, Handler, HandlerOutcome, Invite, Invited,
    Join, NotFormed,
};
use peal_model::{Info, Infos, KeyName, Proc, Scope, Status, Value, code, key};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_tests::{
    group_jobs::{EXTRA, NOTE, destruct, joins, note, proc, procs_of, two_jobs},
    guest,
    in_process::{everything, listener, next, soon},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::{self, UnboundedReceiver};

#[tokio::test(flavor = "multi_thread")]
async fn invited_proc_may_wait_inside_its_handler() {
    let (_node, clients) = two_jobs().await;
    let mut joined = Vec::new();
    for client in &clients[1..] {
        joined.push(joins(client).await);
    }
    clients[2].put(
        Scope::Remote,
        NOTE.into(),
        Value::string("for members alone"),
    );
    let (handler, mut heard) = listener();
    clients[0]
        .register(
            &[code::PMIX_GROUP_CONSTRUCT_COMPLETE],
            everything(),
            handler,
        )
        .await
        .unwrap();
    let invite = Invite::new()
        .context_id()
        .saying([note("said by the leader")]);
    let invited = procs_of(&clients[1..]);
    let group = soon(
        "all accept",
        clients[0].group_invite("crew", &invited, invite),
    )
    .await
    .unwrap();
    assert_eq!(group.members, procs_of(&clients));
    assert!(group.context_id.is_some());
    for joined in &mut joined {
        let joined = soon("a join ends", joined.recv()).await.unwrap().unwrap();
        assert_eq!(
            (&joined.name, &joined.members, joined.context_id),
            (&group.name, &group.members, group.context_id)
        );
        assert_eq!(
            joined.infos_of(clients[0].me()),
            [note("said by the leader")]
        );
        assert_eq!(joined.infos_of(clients[3].me()), [note("said by right:1")]);
    }
    let value = clients[1].get(clients[2].me(), NOTE, &[]).await.unwrap();
    assert_eq!(value, Value::string("for members alone"));
    assert_eq!(
        next(&mut heard).await.code,
        code::PMIX_GROUP_CONSTRUCT_COMPLETE
    );
    assert_eq!(
        clients[3].group_members("crew").await.unwrap(),
        group.members
    );
    destruct("crew", &clients).await;
}

/// Makes a client decline every invitation.
async fn declines(client: &Client) {
    let handler = Handler::non_blocking(|call| {
        call.decline(&Invited::of(call.event()).unwrap());
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client
        .register(&[code::PMIX_GROUP_INVITED], &[], handler)
        .await
        .unwrap();
}

/// Makes a client receive invitations without answering. Returns the events.
async fn hesitates(client: &Client) -> UnboundedReceiver<peal_model::Event> {
    let (handler, heard) = listener();
    client
        .register(&[code::PMIX_GROUP_INVITED], everything(), handler)
        .await
        .unwrap();
    heard
}

/// Makes the leader decide in this way about every absent proc. Returns the procs that it decides
/// about.
async fn decides(leader: &Client, decision: AbsenceDecision) -> UnboundedReceiver<Proc> {
    let (tell, told) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        tell.send(call.event().affected()[0].clone()).unwrap();
        call.decide("crew", &decision);
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    leader
        .register(&[code::PMIX_GROUP_INVITE_FAILED], &[], handler)
        .await
        .unwrap();
    told
}

#[track_caller]
fn absent(ended: Result<Group, ClientError>) -> Vec<(Proc, Absence)> {
    match ended.unwrap_err() {
        ClientError::NotFormed {
            reason: NotFormed::Absent(absent),
            ..
        } => absent,
        error => panic!("{error}"),
    }
}

/// Returns the status with which a failed join ended.
async fn status(joined: &mut UnboundedReceiver<Result<Group, ClientError>>) -> Status {
    soon("a join ends", joined.recv())
        .await
        .unwrap()
        .unwrap_err()
        .status()
}

#[tokio::test(flavor = "multi_thread")]
async fn declined_invitation_fails_and_all_are_notified() {
    let (_node, clients) = two_jobs().await;
    let mut joined = joins(&clients[1]).await;
    declines(&clients[2]).await;
    let (handler, mut heard) = listener();
    let codes = [code::PMIX_GROUP_CONSTRUCT_ABORT];
    clients[0]
        .register(&codes, everything(), handler)
        .await
        .unwrap();
    let ended = soon(
        "it ends",
        clients[0].group_invite("crew", &procs_of(&clients[1..3]), Invite::new()),
    )
    .await;
    let text = ended.as_ref().unwrap_err().to_string();
    assert_eq!(text, "group \"crew\" is not formed: right:0 has declined");
    assert_eq!(absent(ended), [(proc("right", 0), Absence::Declined)]);
    assert_eq!(status(&mut joined).await, code::PMIX_GROUP_CONSTRUCT_ABORT);
    let aborted = next(&mut heard).await;
    assert_eq!(
        aborted
            .infos
            .value_of(key::PMIX_GROUP_ID)
            .and_then(Value::as_str),
        Some("crew")
    );
    let error = clients[0].group_members("crew").await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn group_is_formed_without_optional_or_ignored_decliners() {
    let (_node, clients) = two_jobs().await;
    let mut joined = joins(&clients[1]).await;
    declines(&clients[2]).await;
    let invited = procs_of(&clients[1..3]);
    let group = soon(
        "it ends",
        clients[0].group_invite("crew", &invited, Invite::new().optional()),
    )
    .await
    .unwrap();
    assert_eq!(group.members, procs_of(&clients[..2]));
    soon("the join ends", joined.recv()).await.unwrap().unwrap();
    destruct("crew", &clients[..2]).await;

    let mut asked = decides(&clients[0], AbsenceDecision::GoOn).await;
    let group = soon(
        "it ends",
        clients[0].group_invite("crew", &invited, Invite::new()),
    )
    .await
    .unwrap();
    assert_eq!(group.members, procs_of(&clients[..2]));
    assert_eq!(asked.recv().await, Some(proc("right", 0)));
    assert_eq!(
        soon("the join ends", joined.recv())
            .await
            .unwrap()
            .unwrap()
            .members,
        group.members
    );
    destruct("crew", &clients[..2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decliner_is_replaced_by_another() {
    let (_node, clients) = two_jobs().await;
    let mut first = joins(&clients[1]).await;
    let mut second = joins(&clients[3]).await;
    declines(&clients[2]).await;
    let mut asked = decides(
        &clients[0],
        AbsenceDecision::Replace(vec![proc("right", 1)]),
    )
    .await;
    let invited = procs_of(&clients[1..3]);
    let group = soon(
        "it ends",
        clients[0].group_invite("crew", &invited, Invite::new()),
    )
    .await
    .unwrap();
    assert_eq!(
        group.members,
        [proc("left", 0), proc("left", 1), proc("right", 1)]
    );
    assert_eq!(asked.recv().await, Some(proc("right", 0)));
    for joined in [&mut first, &mut second] {
        assert_eq!(
            soon("a join ends", joined.recv())
                .await
                .unwrap()
                .unwrap()
                .members,
            group.members
        );
    }
    let members = [clients[0].clone(), clients[1].clone(), clients[3].clone()];
    destruct("crew", &members).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_cancels_on_request_or_by_leaving() {
    let (_node, clients) = two_jobs().await;
    let mut joined = joins(&clients[1]).await;
    declines(&clients[2]).await;
    let mut silent = hesitates(&clients[3]).await;
    let mut asked = decides(&clients[0], AbsenceDecision::CallOff).await;
    let invited = procs_of(&clients[1..3]);
    let error = soon(
        "it ends",
        clients[0].group_invite("crew", &invited, Invite::new()),
    )
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "group \"crew\" is not formed: leader left:0 has aborted the construct"
    );
    assert_eq!(asked.recv().await, Some(proc("right", 0)));
    assert_eq!(status(&mut joined).await, code::PMIX_GROUP_CONSTRUCT_ABORT);

    let leader = clients[0].clone();
    let invited = [proc("left", 1), proc("right", 1)];
    let inviting =
        tokio::spawn(async move { leader.group_invite("other", &invited, Invite::new()).await });
    next(&mut silent).await;
    inviting.abort();
    assert_eq!(status(&mut joined).await, code::PMIX_GROUP_CONSTRUCT_ABORT);

    // An acceptance at that time is too late.
    let late = Invited {
        group: "other".to_owned(),
        leader: proc("left", 0),
        leader_infos: Vec::new(),
    };
    let error = soon(
        "a late join ends",
        clients[3].group_join(&late, Join::new()),
    )
    .await
    .unwrap_err();
    assert_eq!(error.status(), code::PMIX_GROUP_CONSTRUCT_ABORT, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_or_silent_procs_are_missing() {
    let (_node, mut clients) = two_jobs().await;
    let mut joined = joins(&clients[1]).await;
    let mut dying = hesitates(&clients[2]).await;
    let _silent = hesitates(&clients[3]).await;
    let invite = Invite::new().timeout(Duration::from_secs(3));
    let leader = clients[0].clone();
    let invited = procs_of(&clients[1..]);
    let all = invite.clone();
    let inviting =
        tokio::spawn(async move { leader.group_invite("crew", &invited, all.optional()).await });
    next(&mut dying).await;
    drop(clients.remove(2));
    let group = soon("it ends", inviting).await.unwrap().unwrap();
    assert_eq!(group.members, procs_of(&clients[..2]));
    assert_eq!(
        soon("the join ends", joined.recv())
            .await
            .unwrap()
            .unwrap()
            .members,
        group.members
    );
    destruct("crew", &clients[..2]).await;

    let invited = [proc("left", 1), proc("right", 1)];
    let ended = soon("it ends", clients[0].group_invite("crew", &invited, invite)).await;
    assert_eq!(absent(ended), [(proc("right", 1), Absence::Silent)]);
    assert_eq!(status(&mut joined).await, code::PMIX_GROUP_CONSTRUCT_ABORT);
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_member_receives_leader_death() {
    let (node, clients) = two_jobs().await;
    let mut joined = joins(&clients[1]).await;
    let mut silent = hesitates(&clients[2]).await;
    let (accepted, mut acceptance) = listener();
    clients[0]
        .register(&[code::PMIX_GROUP_INVITE_ACCEPTED], everything(), accepted)
        .await
        .unwrap();
    let leader = clients[0].clone();
    let invited = procs_of(&clients[1..3]);
    let _inviting =
        tokio::spawn(async move { leader.group_invite("crew", &invited, Invite::new()).await });
    next(&mut silent).await;
    next(&mut acceptance).await;
    // Its process has ended before it could call the invitation off.
    node.server.handle().proc_ended(proc("left", 0), None);
    assert_eq!(status(&mut joined).await, code::PMIX_GROUP_LEADER_FAILED);
}

/// Returns the status with which a construct ended, from an event.
fn status_in(event: &peal_model::Event) -> Option<Status> {
    match event.infos.value_of(key::PMIX_LOCAL_COLLECTIVE_STATUS) {
        Some(Value::Status(status)) => Some(*status),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_receives_final_status_of_construct() {
    let (_node, clients) = two_jobs().await;
    let mut joined = joins(&clients[1]).await;
    declines(&clients[2]).await;
    let mut heard = Vec::new();
    let codes = [code::PMIX_GROUP_CONSTRUCT_COMPLETE];
    for client in &clients[..2] {
        let (handler, hears) = listener();
        client
            .register(&codes, everything(), handler)
            .await
            .unwrap();
        heard.push(hears);
    }
    let invited = procs_of(&clients[1..3]);
    let error = soon(
        "it ends",
        clients[0].group_invite("crew", &invited, Invite::new()),
    )
    .await
    .unwrap_err();
    let failed = next(&mut heard[0]).await;
    assert_eq!(status_in(&failed), Some(error.status()));
    assert_eq!(
        failed
            .infos
            .value_of(key::PMIX_GROUP_ID)
            .and_then(Value::as_str),
        Some("crew")
    );
    assert_eq!(failed.infos.value_of(key::PMIX_GROUP_MEMBERSHIP), None);
    assert_eq!(status(&mut joined).await, code::PMIX_GROUP_CONSTRUCT_ABORT);

    let group = soon(
        "it ends",
        clients[0].group_invite("crew", &procs_of(&clients[1..2]), Invite::new()),
    )
    .await
    .unwrap();
    for hears in &mut heard {
        let formed = next(hears).await;
        assert_eq!(status_in(&formed), Some(code::PMIX_SUCCESS));
        assert_eq!(
            formed
                .infos
                .value_of(key::PMIX_GROUP_MEMBERSHIP)
                .unwrap()
                .as_procs()
                .unwrap(),
            group.members
        );
    }
}

/// Returns the infos that one proc contributed to a group under a key.
fn brought(infos: &[Info], whose: &Client, under: KeyName) -> Vec<Info> {
    let arrays = infos
        .iter()
        .filter(|info| info.key == under)
        .map(|info| match &info.value {
            Value::DataArray(array) => array
                .as_infos()
                .unwrap()
                .into_iter()
                .cloned()
                .collect::<Vec<Info>>(),
            value => panic!("{value:?}"),
        });
    let theirs = arrays.filter(|infos| infos[0].value == Value::Proc(whose.me().clone()));
    theirs.flat_map(|infos| infos[1..].to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn invitation_and_answers_carry_infos_of_procs() {
    let (_node, clients) = two_jobs().await;
    for (client, text) in [
        (&clients[0], "put by the leader"),
        (&clients[1], "put by a member"),
    ] {
        client.put(Scope::Remote, NOTE.into(), Value::string(text));
        client.commit().await.unwrap();
    }
    let mut heard = Vec::new();
    for (client, code) in [
        (&clients[1], code::PMIX_GROUP_INVITED),
        (&clients[0], code::PMIX_GROUP_INVITE_ACCEPTED),
        (&clients[1], code::PMIX_GROUP_CONSTRUCT_COMPLETE),
    ] {
        let (handler, hears) = listener();
        client
            .register(&[code], everything(), handler)
            .await
            .unwrap();
        heard.push(hears);
    }
    let _joined = joins(&clients[1]).await;
    let invite = Invite::new()
        .optional()
        .timeout(Duration::from_secs(20))
        .saying([note("said by the leader")]);
    // The caller must not pass the name of the group again.
    let wrong = Info::new(key::PMIX_GROUP_ID, Value::string("other"));
    let invite = invite.with(Info::new(EXTRA, Value::Uint32(7))).with(wrong);
    let invited = procs_of(&clients[1..2]);
    soon("it ends", clients[0].group_invite("crew", &invited, invite))
        .await
        .unwrap();

    let invitation = next(&mut heard[0]).await;
    let names = |infos: &[Info]| {
        infos
            .iter()
            .filter(|info| info.key == key::PMIX_GROUP_ID)
            .count()
    };
    assert_eq!(
        invitation
            .infos
            .value_of(key::PMIX_GROUP_ID)
            .and_then(Value::as_str),
        Some("crew")
    );
    assert_eq!(names(&invitation.infos), 1);
    assert_eq!(invitation.infos.value_of(EXTRA), Some(&Value::Uint32(7)));
    assert_eq!(
        invitation.infos.value_of(key::PMIX_TIMEOUT),
        Some(&Value::Int(20))
    );
    assert_eq!(
        invitation.infos.value_of(key::PMIX_GROUP_OPTIONAL),
        Some(&Value::Bool(true))
    );
    assert_eq!(
        brought(&invitation.infos, &clients[0], key::PMIX_GROUP_INFO),
        [note("said by the leader")]
    );
    let put = brought(&invitation.infos, &clients[0], key::PMIX_PROC_INFO_ARRAY);
    assert!(put.contains(&note("put by the leader")), "{put:?}");

    let accepted = next(&mut heard[1]).await;
    assert_eq!(accepted.infos.value_of(EXTRA), Some(&Value::Bool(true)));
    let complete = next(&mut heard[2]).await;
    assert_eq!(
        complete.infos.value_of(EXTRA),
        Some(&Value::Uint32(7)),
        "that of the leader"
    );
    for (client, said, text) in [
        (&clients[0], "said by the leader", "put by the leader"),
        (&clients[1], "said by left:1", "put by a member"),
    ] {
        assert_eq!(
            brought(&complete.infos, client, key::PMIX_GROUP_INFO),
            [note(said)]
        );
        assert!(brought(&complete.infos, client, key::PMIX_PROC_INFO_ARRAY).contains(&note(text)));
    }
}

/// Makes a client answer invitations by a component with these rules.
async fn goes_by(client: &Client, rules: &str) {
    let bytes = std::fs::read(guest("join-by-rule")).unwrap();
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    let module = Module::load(
        &engine,
        "join-by-rule",
        &bytes,
        &Grants::tenant(),
        limits,
        Services::default(),
    )
    .unwrap();
    let wishes = module
        .init(&[Info::new(KeyName("rules"), Value::string(rules))])
        .unwrap();
    client
        .register(&wishes[0].codes, &[], Handler::component(Arc::new(module)))
        .await
        .unwrap();
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_component_in_a_client_has_it_come_or_decline_by_rule() {
    let (_node, clients) = two_jobs().await;
    for client in &clients[1..] {
        goes_by(client, "crew-*/left=accept, *=decline").await;
    }
    clients[2].put(
        Scope::Remote,
        NOTE.into(),
        Value::string("for members alone"),
    );
    let invited = procs_of(&clients[1..]);
    let group = soon(
        "all accept",
        clients[0].group_invite("crew-1", &invited, Invite::new()),
    )
    .await
    .unwrap();
    assert_eq!(group.members, procs_of(&clients));
    let value = clients[0].get(clients[2].me(), NOTE, &[]).await.unwrap();
    assert_eq!(value, Value::string("for members alone"));
    destruct("crew-1", &clients).await;

    let ended = soon(
        "no proc accepts",
        clients[0].group_invite("others", &invited[..1], Invite::new()),
    )
    .await;
    assert_eq!(absent(ended), [(invited[0].clone(), Absence::Declined)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn procs_ended_or_left_before_invitation_are_missing_at_once() {
    let (_node, mut clients) = two_jobs().await;
    let died = clients.remove(2);
    let left = clients.remove(1);
    let absentees = [left.me().clone(), died.me().clone()];
    soon("one leaves", left.finalize()).await.unwrap();
    let (handler, mut hears) = listener();
    clients[0]
        .register(&[code::PMIX_PROC_TERMINATED], everything(), handler)
        .await
        .unwrap();
    drop(died);
    // The end must be known before.
    next(&mut hears).await;
    // The first absent proc ends an invitation. The cancellation must not end the next invitation
    // to the same group.
    for absent_one in absentees {
        let invited =
            clients[0].group_invite("crew", std::slice::from_ref(&absent_one), Invite::new());
        assert_eq!(
            absent(soon("it ends", invited).await),
            [(absent_one, Absence::Ended)]
        );
    }
}
