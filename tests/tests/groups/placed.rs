//! A job whose procs are on several servers of one in-process transport: fences, gets, groups and
//! connects of its procs, Peal's own clients and unmodified `libpmix` programs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_client::{Client, ConstructOptions};
use peal_model::{Info, Infos, KeyName, Scope, Status, Value, code, key};
use peal_needs::needs;
use peal_tests::{
    c_program, finish,
    group_jobs::{NOTE, alike, construct, destruct, procs_of},
    in_process::{Node, begin, everything, listener, next, soon},
    libpmix::Release,
};

/// Three nodes with five procs.
const PLACEMENT: [(&str, &[u32]); 3] = [("n1", &[0, 1]), ("n2", &[2, 3]), ("n3", &[4])];

/// Starts the servers and connects all procs, in the order of their ranks.
async fn five_procs() -> (Vec<Node>, Vec<Client>) {
    let nodes = Node::placed("job", &PLACEMENT).await;
    let mut clients = Vec::new();
    for (node, (_, ranks)) in nodes.iter().zip(PLACEMENT) {
        for rank in ranks {
            clients.push(node.client(*rank).await);
        }
    }
    (nodes, clients)
}

/// Lets all procs fence.
async fn fence(clients: &[Client], infos: &[Info]) {
    let mut calls = Vec::new();
    for client in clients {
        let (client, infos) = (client.clone(), infos.to_vec());
        calls.push(begin(async move { client.fence(&[], &infos).await }).await);
    }
    for call in calls {
        soon("a fence ends", call).await.unwrap().unwrap();
    }
}

async fn put(client: &Client, scope: Scope, key: KeyName, text: &str) {
    client.put(scope, key.into(), Value::string(text));
    client.commit().await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn programs_on_three_servers_fence_and_get_values() {
    let program = c_program("labs/hello_pmix");
    for library in [Release::system(), Release::peal()] {
        let nodes = Node::placed("job", &PLACEMENT).await;
        let procs = nodes.iter().zip(PLACEMENT).flat_map(|(node, (_, ranks))| {
            ranks.iter().map(|rank| {
                let mut command = node.program(*rank, &program);
                library.of(&mut command).spawn().unwrap()
            })
        });
        let procs: Vec<_> = procs.collect();
        let ended =
            tokio::task::block_in_place(|| procs.into_iter().map(finish).collect::<Vec<_>>());
        for (rank, done) in ended.into_iter().enumerate() {
            let of = format!("rank {rank}: of 5 on ");
            let next = format!(", rank {} on ", (rank + 1) % 5);
            assert!(
                done.stdout.starts_with(&of) && done.stdout.contains(&next),
                "{}{}",
                done.stdout,
                done.stderr
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn procs_of_other_servers_are_fenced_and_their_values_got() {
    const LATE: KeyName = KeyName("test.late");
    const LOCAL: KeyName = KeyName("test.local");
    let (_nodes, clients) = five_procs().await;
    let of = |rank: usize| clients[rank].me().clone();
    // A get before the put waits at the server of the proc.
    let (client, proc) = (clients[0].clone(), of(2));
    let waits = begin(async move { client.get(&proc, LATE, &[]).await }).await;
    put(&clients[2], Scope::Remote, NOTE, "early").await;
    put(&clients[2], Scope::Local, LOCAL, "here").await;
    put(&clients[2], Scope::Global, LATE, "late").await;
    let late = soon("a get is answered", waits).await.unwrap();
    assert_eq!(late.unwrap(), Value::string("late"));
    let local = soon("a get is answered", clients[4].get(&of(2), LOCAL, &[])).await;
    assert_eq!(local.unwrap_err().status(), code::PMIX_ERR_NOT_FOUND);
    let here = soon("a get is answered", clients[3].get(&of(2), LOCAL, &[])).await;
    assert_eq!(here.unwrap(), Value::string("here"));

    for client in &clients {
        put(client, Scope::Global, NOTE, &client.me().to_string()).await;
    }
    fence(
        &clients,
        &[Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true))],
    )
    .await;
    let at_once = [Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))];
    for (getter, rank) in [(0, 4), (4, 1), (3, 0)] {
        let proc = of(rank);
        let get = clients[getter].get(&proc, NOTE, &at_once);
        let found = soon("a get is answered", get).await.unwrap();
        assert_eq!(found, Value::string(&proc.to_string()));
    }
    // One more without data, and then the job's own.
    fence(&clients, &[]).await;
    let all = peal_model::Proc::all(of(0).nspace);
    let nodes = clients[4].get(&all, key::PMIX_NUM_NODES, &[]).await;
    assert_eq!(nodes.unwrap(), Value::Uint32(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn get_of_proc_ends_when_its_server_leaves() {
    let (mut nodes, clients) = five_procs().await;
    let (client, proc) = (clients[0].clone(), clients[4].me().clone());
    let timeout = [Info::new(key::PMIX_TIMEOUT, Value::Int(3600))];
    let get = async move { client.get(&proc, NOTE, &timeout).await };
    let waits = begin(get).await;
    // The answer to the next request comes after the get has been passed on.
    put(&clients[0], Scope::Global, NOTE, "x").await;
    let gone = tokio::spawn(nodes.remove(2).server.shutdown());
    let status = soon("the get ends", waits).await.unwrap().unwrap_err();
    assert_eq!(status.status(), code::PMIX_ERR_NOT_FOUND);
    // The others fence without it.
    let rest = &clients[..4];
    let mut calls = Vec::new();
    for client in rest {
        let client = client.clone();
        calls.push(begin(async move { client.fence(&[], &[]).await }).await);
    }
    for call in calls {
        let ended = soon("a fence ends", call).await.unwrap();
        assert_eq!(ended.unwrap_err().status(), code::PMIX_ERR_PARTIAL_SUCCESS);
    }
    drop(clients);
    soon("the server ends", gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn group_of_one_job_over_servers_reports_member_death() {
    let (_nodes, clients) = five_procs().await;
    let everybody = procs_of(&clients);
    let calls = clients.iter().map(|client| {
        (
            client,
            ConstructOptions::of(&everybody).notify_termination(),
        )
    });
    let group = alike(construct("crew", calls.collect()).await);
    assert_eq!(group.members, everybody);
    let (handler, mut heard) = listener();
    clients[0]
        .register(&[code::PMIX_GROUP_MEMBER_FAILED], everything(), handler)
        .await
        .unwrap();
    let mut clients = clients;
    let dead = clients.pop().unwrap().me().clone();
    let event = next(&mut heard).await;
    let about = event.infos.value_of(key::PMIX_EVENT_AFFECTED_PROC);
    assert_eq!(about, Some(&Value::Proc(dead)));
    destruct("crew", &clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_within_job_over_servers_ends_for_all() {
    let (_nodes, clients) = five_procs().await;
    let all = vec![peal_model::Proc::all(clients[0].me().nspace.clone())];
    let mut calls = Vec::new();
    for client in clients.clone() {
        let all = all.clone();
        calls.push(begin(async move { client.connect_procs(&all, &[]).await }).await);
    }
    for call in calls {
        let status: Result<(), Status> = soon("a connect ends", call)
            .await
            .unwrap()
            .map_err(|error| error.status());
        assert_eq!(status, Ok(()));
    }
}
