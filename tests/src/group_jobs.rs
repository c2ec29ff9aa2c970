//! Procs of two jobs of one server, all of them Peal's own clients, that form groups.
use crate::in_process::{Node, soon};
use peal_client::{
    Client, ClientError, ConstructOptions, Group, Handler, HandlerOutcome, Invited, Join,
};
use peal_model::{Info, KeyName, Nspace, Proc, Rank, Status, Value, code};
use peal_server::{InProcessNetwork, ServerSettings};
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Key under which procs put a value, or contribute one to a group.
pub const NOTE: KeyName = KeyName("test.note");

/// Key of a program's own info in an invitation or in the answer.
pub const EXTRA: KeyName = KeyName("test.extra");

/// Returns a proc.
pub fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

/// Returns an info under [`NOTE`] with this text.
pub fn note(text: &str) -> Info {
    Info::new(NOTE, Value::string(text))
}

/// Starts a server with two jobs. Returns two procs of `left` and two of `right`, in this order.
pub async fn two_jobs() -> (Node, Vec<Client>) {
    let node = Node::start(
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "left",
        2,
    )
    .await;
    node.add_job("right", 2).await;
    let mut clients = Vec::new();
    for (job, rank) in [("left", 0), ("left", 1), ("right", 0), ("right", 1)] {
        clients.push(node.client_of(job, rank).await);
    }
    (node, clients)
}

/// Returns the names of these procs.
pub fn procs_of(clients: &[Client]) -> Vec<Proc> {
    clients.iter().map(|client| client.me().clone()).collect()
}

/// Constructs a group from all of these clients at the same time, each with its own options.
pub async fn construct(
    name: &str,
    calls: Vec<(&Client, ConstructOptions)>,
) -> Vec<Result<Group, ClientError>> {
    let name = name.to_owned();
    let calls = calls.into_iter().map(|(client, construct)| {
        let client = client.clone();
        let name = name.clone();
        tokio::spawn(async move { client.group_construct(&name, construct).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push(soon("a construct ends", call).await.unwrap());
    }
    ended
}

/// Returns the group, which must be the same for all.
#[track_caller]
pub fn alike(told: Vec<Result<Group, ClientError>>) -> Group {
    let groups: Vec<Group> = told.into_iter().map(Result::unwrap).collect();
    assert!(groups.iter().all(|group| *group == groups[0]), "{groups:?}");
    groups[0].clone()
}

/// Returns the status and the reason of a failed construct, which must be the same for all.
#[track_caller]
pub fn refused(told: Vec<Result<Group, ClientError>>) -> (Status, String) {
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

/// Destructs a group from all of these clients.
pub async fn destruct(name: &str, clients: &[Client]) {
    let calls = clients.iter().map(|client| {
        let client = client.clone();
        let name = name.to_owned();
        tokio::spawn(async move { client.group_destruct(&name, &[]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        soon("a destruct ends", call).await.unwrap().unwrap();
    }
}

/// Makes a client accept every invitation. It accepts in the handler itself, and then waits for the
/// result. Returns the results.
pub async fn joins(client: &Client) -> UnboundedReceiver<Result<Group, ClientError>> {
    let (tell, told) = mpsc::unbounded_channel();
    let joining = client.clone();
    let runtime = tokio::runtime::Handle::current();
    let handler = Handler::native(move |call| {
        let invited = Invited::of(call.event()).unwrap();
        let join = Join::new()
            .saying([note(&format!("said by {}", joining.me()))])
            .with(Info::new(EXTRA, Value::Bool(true)));
        tell.send(runtime.block_on(joining.group_join(&invited, join)))
            .unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client
        .register(&[code::PMIX_GROUP_INVITED], &[], handler)
        .await
        .unwrap();
    told
}
