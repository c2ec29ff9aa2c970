//! Publish, lookup and unpublish of one server and of two: visibility, waiting lookups,
//! and persistence of data.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_client::{Client, ClientError};
use peal_model::{Info, Key, KeyName, Persistence, Range, Status, Value, code, key};
use peal_server::{InProcessNetwork, ServerSettings};
use peal_tests::in_process::{Node, begin, soon};
use std::time::Duration;

const PORT: KeyName = KeyName("test.port");
const OTHER: KeyName = KeyName("test.other");

fn data(name: KeyName, value: u32, more: &[Info]) -> Vec<Info> {
    [vec![Info::new(name, Value::Uint32(value))], more.to_vec()].concat()
}

fn range(range: Range) -> Info {
    Info::new(key::PMIX_RANGE, Value::Range(range))
}

fn stays(persistence: Persistence) -> Info {
    Info::new(key::PMIX_PERSISTENCE, Value::Persistence(persistence))
}

fn wait(keys: i32) -> Info {
    Info::new(key::PMIX_WAIT, Value::Int(keys))
}

fn keys(names: &[KeyName]) -> Vec<Key> {
    names.iter().map(|name| (*name).into()).collect()
}

/// Returns the values of these keys in the order of the keys, or the status of the failure.
async fn look_up(client: &Client, names: &[KeyName], infos: &[Info]) -> Result<Vec<u64>, Status> {
    match soon("lookup is answered", client.lookup(&keys(names), infos)).await {
        Ok(found) => Ok(found
            .iter()
            .map(|data| data.value.as_u64().unwrap())
            .collect()),
        Err(ClientError::Refused { status, .. }) => Err(status),
        Err(error) => panic!("{error}"),
    }
}

async fn node() -> Node {
    let node = Node::start(
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "one",
        2,
    )
    .await;
    node.add_job("two", 1).await;
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_waits_for_its_keys_until_timeout() {
    let node = node().await;
    let one = node.client_of("one", 0).await;
    let two = node.client_of("two", 0).await;
    let second = Info::new(key::PMIX_TIMEOUT, Value::Int(1));
    assert_eq!(
        look_up(&two, &[PORT], &[wait(0), second]).await,
        Err(code::PMIX_ERR_TIMEOUT)
    );
    let mut waits = Vec::new();
    for (wanted, found) in [(1, vec![1]), (0, vec![2, 1])] {
        let two = two.clone();
        let lookup = async move { look_up(&two, &[PORT, OTHER], &[wait(wanted)]).await };
        waits.push((begin(lookup).await, found));
    }
    // The next request of this client is answered after these.
    assert_eq!(
        look_up(&two, &[PORT], &[]).await,
        Err(code::PMIX_ERR_NOT_FOUND)
    );
    one.publish(&data(PORT, 1, &[])).await.unwrap();
    one.publish(&data(OTHER, 2, &[])).await.unwrap();
    for (wait, found) in waits {
        assert_eq!(soon("the lookup ends", wait).await.unwrap(), Ok(found));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn published_data_persist_as_requested() {
    for (persistence, after_proc, after_job) in [
        (Persistence::Proc, false, false),
        (Persistence::App, true, false),
        (Persistence::Session, true, true),
        (Persistence::Indefinite, true, true),
    ] {
        let node = node().await;
        let one = node.client_of("one", 0).await;
        let two = node.client_of("two", 0).await;
        one.publish(&data(PORT, 1, &[stays(persistence)]))
            .await
            .unwrap();
        let there = async || look_up(&two, &[PORT], &[]).await.is_ok();
        assert!(there().await);
        let proc = one.me().clone();
        one.finalize().await.unwrap();
        assert_eq!(there().await, after_proc, "{persistence}");
        let handle = node.server.handle();
        handle.remove_job(peal_model::Nspace::new("one").unwrap());
        // This request is carried out after the removal.
        assert_eq!(handle.life(proc).await, None);
        assert_eq!(there().await, after_job, "{persistence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_published_for_own_job_are_invisible_to_others() {
    let node = node().await;
    let (one, sibling, two) = (
        node.client_of("one", 0).await,
        node.client_of("one", 1).await,
        node.client_of("two", 0).await,
    );
    one.publish(&data(PORT, 1, &[range(Range::Namespace)]))
        .await
        .unwrap();
    two.publish(&data(PORT, 2, &[range(Range::Namespace)]))
        .await
        .unwrap();
    one.publish(&data(OTHER, 3, &[stays(Persistence::FirstRead)]))
        .await
        .unwrap();
    assert_eq!(look_up(&sibling, &[PORT], &[]).await, Ok(vec![1]));
    assert_eq!(look_up(&two, &[PORT], &[]).await, Ok(vec![2]));
    assert_eq!(
        look_up(&two, &[OTHER], &[range(Range::Namespace)]).await,
        Err(code::PMIX_ERR_NOT_FOUND)
    );
    assert_eq!(look_up(&two, &[OTHER], &[]).await, Ok(vec![3]));
    assert_eq!(
        look_up(&two, &[OTHER], &[]).await,
        Err(code::PMIX_ERR_NOT_FOUND),
        "it was to be read once"
    );
    one.unpublish(&[], &[]).await.unwrap();
    assert_eq!(
        look_up(&sibling, &[PORT], &[]).await,
        Err(code::PMIX_ERR_NOT_FOUND)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_waiter_takes_no_data() {
    let node = node().await;
    let one = node.client_of("one", 0).await;
    let two = node.client_of("two", 0).await;
    let waits = two
        .within(Duration::from_millis(100))
        .lookup(&keys(&[PORT]), &[wait(0)])
        .await;
    assert!(
        matches!(waits, Err(ClientError::TimedOut { .. })),
        "{waits:?}"
    );
    two.finalize().await.unwrap();
    one.publish(&data(PORT, 1, &[stays(Persistence::FirstRead)]))
        .await
        .unwrap();
    assert_eq!(look_up(&one, &[PORT], &[]).await, Ok(vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_are_found_at_other_servers_in_their_range() {
    let network = InProcessNetwork::new();
    let first = Node::start(ServerSettings::default(), &network, "one", 1).await;
    let second = Node::start(ServerSettings::default(), &network, "two", 2).await;
    let (one, two, sibling) = (
        first.client_of("one", 0).await,
        second.client_of("two", 0).await,
        second.client_of("two", 1).await,
    );
    // They wait, because a server may hear of the other one only later.
    one.publish(&data(PORT, 1, &[])).await.unwrap();
    assert_eq!(look_up(&two, &[PORT], &[wait(0)]).await, Ok(vec![1]));
    let once = stays(Persistence::FirstRead);
    two.publish(&data(OTHER, 2, &[once])).await.unwrap();
    assert_eq!(look_up(&one, &[OTHER], &[wait(0)]).await, Ok(vec![2]));
    let local = KeyName("test.local");
    two.publish(&data(local, 3, &[range(Range::Local)]))
        .await
        .unwrap();
    assert_eq!(look_up(&sibling, &[local], &[]).await, Ok(vec![3]));
    for key in [local, OTHER] {
        let found = look_up(&one, &[key], &[]).await;
        assert_eq!(found, Err(code::PMIX_ERR_NOT_FOUND));
    }
    one.unpublish(&[], &[]).await.unwrap();
    let found = look_up(&two, &[PORT], &[]).await;
    assert_eq!(found, Err(code::PMIX_ERR_NOT_FOUND));
}
