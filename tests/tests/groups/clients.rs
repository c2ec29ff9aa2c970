//! Groups of Peal's own clients of several jobs of one server: collective, by bootstrap, and with
//! added members. The tests also cover members that are late, die or leave.
use peal_client::{ClientError, ConstructOptions};
use peal_model::{Info, Infos, Scope, Value, code, key};
use peal_tests::{
    group_jobs::{NOTE, alike, construct, destruct, note, proc, procs_of, refused, two_jobs},
    in_process::{everything, listener, next, soon},
};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn group_of_two_jobs_shares_infos_and_puts() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    clients[0].put(
        Scope::Global,
        NOTE.into(),
        Value::string("put by the first"),
    );
    clients[0].commit().await.unwrap();
    let calls = clients.iter().enumerate().map(|(at, client)| {
        let mut named = everybody.clone();
        named.rotate_left(at);
        (
            client,
            ConstructOptions::of(&named)
                .context_id()
                .saying([note(&format!("said by {at}"))]),
        )
    });
    let group = alike(construct("crew", calls.collect()).await);
    assert_eq!((group.name.as_str(), &group.members), ("crew", &everybody));
    assert!(group.context_id.is_some());
    let last = &clients[3];
    assert_eq!(group.infos_of(&everybody[1]), [note("said by 1")]);
    let qualifier = group.qualifier().unwrap();
    let said = last
        .get(&everybody[0], NOTE, std::slice::from_ref(&qualifier))
        .await
        .unwrap();
    assert_eq!(said, Value::string("said by 0"));
    assert_eq!(
        last.get(&everybody[0], NOTE, &[]).await.unwrap(),
        Value::string("put by the first")
    );
    // Members that did not get the values with the construct request them from the server.
    let refresh = Info::new(key::PMIX_GET_REFRESH_CACHE, Value::Bool(true));
    let asked = last
        .get(&everybody[2], NOTE, &[qualifier, refresh])
        .await
        .unwrap();
    assert_eq!(asked, Value::string("said by 2"));
    assert_eq!(last.group_members("crew").await.unwrap(), everybody);

    let fences = clients.iter().map(|client| {
        let client = client.clone();
        let all = group.all().unwrap();
        tokio::spawn(async move { client.fence(&[all], &[]).await })
    });
    for fence in fences.collect::<Vec<_>>() {
        soon("the group's fence ends", fence)
            .await
            .unwrap()
            .unwrap();
    }
    destruct("crew", &clients).await;
    let error = last.group_members("crew").await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");
    let error = last.group_destruct("crew", &[]).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_one_server_see_remote_puts_of_others() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    clients[1].put(Scope::Remote, NOTE.into(), Value::string("committed"));
    clients[1].commit().await.unwrap();
    clients[2].put(Scope::Remote, NOTE.into(), Value::string("only put"));
    let at_once = Info::new(key::PMIX_IMMEDIATE, Value::Bool(true));
    let error = clients[0]
        .get(&everybody[1], NOTE, &[at_once])
        .await
        .unwrap_err();
    assert_eq!(
        error.status(),
        code::PMIX_ERR_NOT_FOUND,
        "it is for other nodes: {error}"
    );
    let calls = clients[..3]
        .iter()
        .map(|client| (client, ConstructOptions::of(&everybody[..3])));
    alike(construct("crew", calls.collect()).await);
    for (of, value) in [(1, "committed"), (2, "only put")] {
        let found = soon(
            "a get is answered",
            clients[0].get(&everybody[of], NOTE, &[]),
        )
        .await
        .unwrap();
        assert_eq!(found, Value::string(value));
    }
    clients[1].put(Scope::Remote, NOTE.into(), Value::string("later"));
    clients[1].commit().await.unwrap();
    let refresh = Info::new(key::PMIX_GET_REFRESH_CACHE, Value::Bool(true));
    assert_eq!(
        clients[0]
            .get(&everybody[1], NOTE, &[refresh])
            .await
            .unwrap(),
        Value::string("later")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_leaders_and_added_members_need_no_names() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    // There are two leaders, one of each job. Each adds the other proc of its own job.
    let calls = vec![
        (
            &clients[0],
            ConstructOptions::bootstrap(2)
                .adding(&everybody[1..2])
                .context_id()
                .saying([note("said by left:0")]),
        ),
        (
            &clients[1],
            ConstructOptions::added().saying([note("said by left:1")]),
        ),
        (
            &clients[2],
            ConstructOptions::bootstrap(2).adding(&everybody[3..]),
        ),
        (&clients[3], ConstructOptions::added()),
    ];
    let group = alike(construct("crew", calls).await);
    assert_eq!(group.members, everybody);
    assert!(group.context_id.is_some());
    assert_eq!(group.infos_of(&everybody[1]), [note("said by left:1")]);
    let said = clients[3]
        .get(&everybody[0], NOTE, &[group.qualifier().unwrap()])
        .await
        .unwrap();
    assert_eq!(said, Value::string("said by left:0"));
    destruct("crew", &clients).await;

    // There are three leaders. One of them requests the order.
    let order: Vec<_> = everybody[..3].iter().rev().cloned().collect();
    let calls = vec![
        (&clients[0], ConstructOptions::bootstrap(3)),
        (&clients[1], ConstructOptions::bootstrap(3).ordered(&order)),
        (&clients[2], ConstructOptions::bootstrap(3)),
    ];
    let group = alike(construct("crew", calls).await);
    assert_eq!((group.members, group.context_id), (order, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_group_calls_get_same_status() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    let counts = vec![
        (&clients[0], ConstructOptions::bootstrap(2)),
        (&clients[2], ConstructOptions::bootstrap(3)),
    ];
    let (status, why) = refused(construct("counts", counts).await);
    assert_eq!(status, code::PMIX_ERR_BAD_PARAM);
    assert!(why.contains("others give another number"), "{why}");

    let orders = vec![
        (
            &clients[0],
            ConstructOptions::of(&everybody[..2]).ordered(&everybody[..2]),
        ),
        (
            &clients[1],
            ConstructOptions::of(&everybody[..2])
                .ordered(&[everybody[1].clone(), everybody[0].clone()]),
        ),
    ];
    let (status, why) = refused(construct("orders", orders).await);
    assert_eq!(status, code::PMIX_ERR_BAD_PARAM);
    assert!(why.contains("another order"), "{why}");

    let error = clients[3]
        .group_construct("others", ConstructOptions::of(&everybody[..2]))
        .await
        .unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_A_MEMBER, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn added_member_never_calling_is_named_at_timeout() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    let leads = |client: usize| {
        let construct = ConstructOptions::of(&everybody[..2])
            .adding(&everybody[2..])
            .timeout(Duration::from_secs(3));
        (&clients[client], construct)
    };
    let calls = vec![leads(0), leads(1), (&clients[2], ConstructOptions::added())];
    let (status, why) = refused(construct("crew", calls).await);
    assert_eq!(
        (status, why.as_str()),
        (
            code::PMIX_ERR_TIMEOUT,
            "procs that have not called: right:1"
        )
    );
    // The name is free.
    alike(
        construct(
            "crew",
            vec![(&clients[0], ConstructOptions::of(&everybody[..1]))],
        )
        .await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn death_before_call_ends_construct_alike_or_shrinks_group() {
    let (_node, mut clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    let of_all = |construct: fn(ConstructOptions) -> ConstructOptions| {
        construct(ConstructOptions::of(&everybody))
    };
    let dead = clients.pop().unwrap();
    let calls = clients
        .iter()
        .map(|client| (client, of_all(|construct| construct)))
        .collect();
    let dies = async {
        // The other procs may or may not have called by now; the result is the same.
        drop(dead);
        Ok::<(), ()>(())
    };
    let (ended, _) = tokio::join!(construct("crew", calls), dies);
    let (status, why) = refused(ended);
    assert_eq!(status, code::PMIX_GROUP_CONSTRUCT_ABORT);
    assert!(why.contains("right:1"), "{why}");
    let calls = clients
        .iter()
        .map(|client| (client, of_all(ConstructOptions::fault_tolerant)))
        .collect();
    assert_eq!(
        alike(construct("crew", calls).await).members,
        everybody[..3]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn members_receive_leaving_and_death_and_end_group() {
    let (_node, mut clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    let (handler, mut heard) = listener();
    let codes = [code::PMIX_GROUP_LEFT, code::PMIX_GROUP_MEMBER_FAILED];
    clients[0]
        .register(&codes, everything(), handler)
        .await
        .unwrap();
    let all = ConstructOptions::of(&everybody).notify_termination();
    let calls = clients.iter().map(|client| (client, all.clone())).collect();
    alike(construct("crew", calls).await);

    let leaver = clients.remove(1);
    leaver.group_leave("crew", &[]).await.unwrap();
    let left = next(&mut heard).await;
    let group = left
        .infos
        .value_of(key::PMIX_GROUP_ID)
        .and_then(Value::as_str);
    assert_eq!(
        (left.code, left.affected(), group),
        (code::PMIX_GROUP_LEFT, vec![proc("left", 1)], Some("crew"))
    );
    let error = leaver.group_destruct("crew", &[]).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");

    drop(clients.pop());
    let failed = next(&mut heard).await;
    assert_eq!(
        (failed.code, failed.affected()),
        (code::PMIX_GROUP_MEMBER_FAILED, vec![proc("right", 1)])
    );
    assert_eq!(
        clients[0].group_members("crew").await.unwrap(),
        [proc("left", 0), proc("right", 0)]
    );
    destruct("crew", &clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_timeout_and_invalid_options_are_reported() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    let second = Duration::from_secs(1);
    let hasty = clients[0].within(second);
    let late = hasty.group_construct("crew", ConstructOptions::of(&everybody));
    let error = soon("its time is over", late).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::TimedOut { limit, .. } if *limit == second),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("PMIx_Group_construct was not answered"),
        "{error}"
    );

    let error = clients[1]
        .group_construct("", ConstructOptions::of(&everybody))
        .await
        .unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_BAD_PARAM, "{error}");
    let error = clients[1].group_leave("none", &[]).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");
    let nobody = ConstructOptions::of(&everybody).adding(&[proc("right", 7)]);
    let error = clients[1]
        .group_construct("wrong", nobody)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("right:7"), "{error}");
}
