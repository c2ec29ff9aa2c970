//! Groups of Peal's own clients, of several jobs of one server: collective, by bootstrap, with members that are added, and what becomes
//! of them when somebody is late, dies or leaves.
use peal_client::{Client, ClientError, Construct, Group, Handler, Invite, Invited, Outcome};
use peal_model::{Info, KeyName, Nspace, Proc, Rank, Scope, Status, Value, code, key};
use peal_server::{EmbeddedFabric, ServerSettings};
use peal_tests::in_process::{Node, everything, listener, next, soon};
use std::time::Duration;

const NOTE: KeyName = KeyName("test.note");

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

fn note(text: &str) -> Info {
    Info::new(NOTE, Value::string(text))
}

/// A server with two jobs: two procs of `left`, two of `right`, in this order.
async fn two_jobs() -> (Node, Vec<Client>) {
    let node = Node::start(ServerSettings::default(), &EmbeddedFabric::new(), "left", 2).await;
    node.add_job("right", 2).await;
    let mut clients = Vec::new();
    for (job, rank) in [("left", 0), ("left", 1), ("right", 0), ("right", 1)] {
        clients.push(node.client_of(job, rank).await);
    }
    (node, clients)
}

fn procs_of(clients: &[Client]) -> Vec<Proc> {
    clients.iter().map(|client| client.me().clone()).collect()
}

/// All of these construct a group, each as it says, at the same time.
async fn construct(name: &str, calls: Vec<(&Client, Construct)>) -> Vec<Result<Group, ClientError>> {
    let name = name.to_owned();
    let calls = calls.into_iter().map(|(client, construct)| {
        let (client, name) = (client.clone(), name.clone());
        tokio::spawn(async move { client.group_construct(&name, construct).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push(soon("a construct ends", call).await.unwrap());
    }
    ended
}

/// The group, which all must have been told alike.
#[track_caller]
fn alike(told: Vec<Result<Group, ClientError>>) -> Group {
    let groups: Vec<Group> = told.into_iter().map(Result::unwrap).collect();
    assert!(groups.iter().all(|group| *group == groups[0]), "{groups:?}");
    groups[0].clone()
}

/// The status and the reason with which it came to nothing, which all must have been told alike.
#[track_caller]
fn refused(told: Vec<Result<Group, ClientError>>) -> (Status, String) {
    let why: Vec<(Status, Vec<String>)> = told
        .into_iter()
        .map(|told| match told.unwrap_err() {
            ClientError::Refused { status, infos, .. } => (status, peal_client::reasons(&infos)),
            error => panic!("{error}"),
        })
        .collect();
    assert!(why.iter().all(|one| *one == why[0]), "{why:?}");
    (why[0].0, why[0].1.join(", "))
}

async fn destruct(name: &str, clients: &[Client]) {
    let calls = clients.iter().map(|client| {
        let (client, name) = (client.clone(), name.to_owned());
        tokio::spawn(async move { client.group_destruct(&name, &[]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        soon("a destruct ends", call).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn procs_of_two_jobs_form_a_group_and_know_of_each_other_what_they_say_and_put() {
    let (_node, clients) = two_jobs().await;
    let everybody = procs_of(&clients);
    clients[0].put(Scope::Global, NOTE.into(), Value::string("put by the first"));
    clients[0].commit().await.unwrap();
    let calls = clients.iter().enumerate().map(|(at, client)| {
        let mut named = everybody.clone();
        named.rotate_left(at);
        (client, Construct::of(&named).context_id().saying([note(&format!("said by {at}"))]))
    });
    let group = alike(construct("crew", calls.collect()).await);
    assert_eq!((group.name.as_str(), &group.members), ("crew", &everybody));
    assert!(group.context_id.is_some());
    let last = &clients[3];
    assert_eq!(group.said_by(&everybody[1]), [note("said by 1")]);
    let qualifier = group.qualifier().unwrap();
    assert_eq!(last.get(&everybody[0], NOTE, &[qualifier.clone()]).await.unwrap(), Value::string("said by 0"));
    assert_eq!(last.get(&everybody[0], NOTE, &[]).await.unwrap(), Value::string("put by the first"));
    // Whoever is not told by the answer to the construct asks the server.
    let refresh = Info::new(key::PMIX_GET_REFRESH_CACHE, Value::Bool(true));
    let asked = last.get(&everybody[2], NOTE, &[qualifier, refresh]).await.unwrap();
    assert_eq!(asked, Value::string("said by 2"));
    assert_eq!(last.group_members("crew").await.unwrap(), everybody);

    let fences = clients.iter().map(|client| {
        let (client, all) = (client.clone(), group.all().unwrap());
        tokio::spawn(async move { client.fence(&[all], &[]).await })
    });
    for fence in fences.collect::<Vec<_>>() {
        soon("the group's fence ends", fence).await.unwrap().unwrap();
    }
    destruct("crew", &clients).await;
    let error = last.group_members("crew").await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");
    let error = last.group_destruct("crew", &[]).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");
}

/// Every invitation is answered by the first to be asked: here by the handler itself, which then waits for what becomes of it.
async fn joins(client: &Client) -> tokio::sync::mpsc::UnboundedReceiver<Result<Group, ClientError>> {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let (joining, runtime) = (client.clone(), tokio::runtime::Handle::current());
    let handler = Handler::native(move |call| {
        let invited = Invited::of(call.event()).unwrap();
        let says = vec![note(&format!("said by {}", joining.me()))];
        tell.send(runtime.block_on(joining.group_join(&invited, says))).unwrap();
        Outcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client.register(&[code::PMIX_GROUP_INVITED], &[], handler).await.unwrap();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_invited_may_wait_inside_the_handler_that_hears_of_it() {
    let (_node, clients) = two_jobs().await;
    let mut joined = Vec::new();
    for client in &clients[1..] {
        joined.push(joins(client).await);
    }
    clients[2].put(Scope::Remote, NOTE.into(), Value::string("for members alone"));
    let (handler, mut heard) = listener();
    clients[0].register(&[code::PMIX_GROUP_CONSTRUCT_COMPLETE], everything(), handler).await.unwrap();
    let invite = Invite::new().context_id().saying([note("said by the leader")]);
    let invited = procs_of(&clients[1..]);
    let group = soon("all accept", clients[0].group_invite("crew", &invited, invite)).await.unwrap();
    assert_eq!(group.members, procs_of(&clients));
    assert!(group.context_id.is_some());
    for joined in &mut joined {
        let joined = soon("a join ends", joined.recv()).await.unwrap().unwrap();
        assert_eq!((&joined.name, &joined.members, joined.context_id), (&group.name, &group.members, group.context_id));
        assert_eq!(joined.said_by(clients[0].me()), [note("said by the leader")]);
        assert_eq!(joined.said_by(clients[3].me()), [note("said by right:1")]);
    }
    let value = clients[1].get(clients[2].me(), NOTE, &[]).await.unwrap();
    assert_eq!(value, Value::string("for members alone"));
    assert_eq!(next(&mut heard).await.code, code::PMIX_GROUP_CONSTRUCT_COMPLETE);
    assert_eq!(clients[3].group_members("crew").await.unwrap(), group.members);
    destruct("crew", &clients).await;
}
