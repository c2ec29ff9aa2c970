//! Handlers of `peal-client` that register after events have come (RFC 0002, "PMIx Server
//! Registrations"). Each receives the events that an earlier handler received or a filter dropped:
//! once, and before any new event.
use peal_client::{Client, ClientSettings, Handler, HandlerOutcome};
use peal_model::{Event, Info, Infos, KeyName, Range, Status, Value, code, key};
use peal_server::ServerSettings;
use peal_tests::in_process::{Node, everything, gate, listener, next, soon};
use tokio::sync::mpsc::UnboundedReceiver;

const NEWS: Status = Status(-3001);
/// Code of an event that follows the events of a test.
const END: Status = Status(-3099);
const NUMBER: KeyName = KeyName("test.number");

async fn pair(settings: ClientSettings) -> (Node, Client, Client) {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let listens = soon(
        "a client connects",
        Client::connect_with(&node.environment(0), settings),
    )
    .await
    .unwrap();
    let raises = node.client(1).await;
    (node, listens, raises)
}

async fn raise(client: &Client, range: Range, numbers: std::ops::Range<u32>, more: &[Info]) {
    for number in numbers {
        let infos = [&[Info::new(NUMBER, Value::Uint32(number))][..], more].concat();
        client.notify(NEWS, range, infos).await.unwrap();
    }
}

fn number(event: &Event) -> u64 {
    event
        .infos
        .value_of(NUMBER)
        .and_then(Value::as_u64)
        .unwrap()
}

/// Raises the last event, and returns the numbers of the events that a listener for all codes
/// received before it.
async fn numbers(raises: &Client, heard: &mut UnboundedReceiver<Event>) -> Vec<u64> {
    raises
        .notify(END, Range::Session, Vec::new())
        .await
        .unwrap();
    let mut numbers = Vec::new();
    loop {
        let event = next(heard).await;
        if event.code == END {
            return numbers;
        }
        numbers.push(number(&event));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_handler_gets_events_filtered_by_others() {
    let (node, client, other) = pair(ClientSettings::default()).await;
    let about = |rank| Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(node.proc(rank)));
    let from_manager = Info::new(key::PMIX_RANGE, Value::Range(Range::Rm));
    let (filtered, mut heard_filtered) = listener();
    client
        .register(&[NEWS], &[about(0)], filtered.clone())
        .await
        .unwrap();
    client
        .register(&[NEWS], &[from_manager], filtered)
        .await
        .unwrap();
    raise(&other, Range::Namespace, 0..1, &[about(1)]).await;
    raise(&other, Range::Namespace, 1..2, &[about(0)]).await;
    assert_eq!(
        number(&next(&mut heard_filtered).await),
        1,
        "both have come to the client"
    );
    let (all, mut heard) = listener();
    client.register(&[], everything(), all).await.unwrap();
    assert_eq!(numbers(&other, &mut heard).await, [0, 1]);
    assert_eq!(numbers(&other, &mut heard).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_handler_gets_recent_events_before_new_ones() {
    let (_node, client, other) = pair(ClientSettings::default()).await;
    let (busy, go, mut begun) = gate();
    client.register(&[NEWS], everything(), busy).await.unwrap();
    raise(&other, Range::Session, 0..3, &[]).await;
    // The first handler processes its first event, and the others wait. The second handler receives
    // all of them, in order.
    soon("an event is being handled", begun.recv())
        .await
        .unwrap();
    let (all, mut heard) = listener();
    client.register(&[], everything(), all).await.unwrap();
    drop(go);
    raise(&other, Range::Session, 3..5, &[]).await;
    assert_eq!(numbers(&other, &mut heard).await, [0, 1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn completed_event_is_for_no_later_handler() {
    let (_node, client, other) = pair(ClientSettings::default()).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let ends_odd = Handler::native(move |call| {
        let number = number(call.event());
        tell.send(number).unwrap();
        let is_odd = number % 2 == 1;
        HandlerOutcome::status(if is_odd {
            code::PMIX_EVENT_ACTION_COMPLETE
        } else {
            code::PMIX_EVENT_NO_ACTION_TAKEN
        })
    });
    client.register(&[NEWS], &[], ends_odd).await.unwrap();
    raise(&other, Range::Namespace, 0..4, &[]).await;
    for number in 0..4 {
        assert_eq!(soon("it is handled", told.recv()).await, Some(number));
    }
    let (all, mut heard) = listener();
    client.register(&[], everything(), all).await.unwrap();
    assert_eq!(numbers(&other, &mut heard).await, [0, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_handler_gets_no_more_than_the_client_keeps() {
    let (_node, client, other) = pair(ClientSettings {
        recent_events: 3,
        ..ClientSettings::default()
    })
    .await;
    let (first, mut heard_first) = listener();
    client.register(&[NEWS], everything(), first).await.unwrap();
    raise(&other, Range::Session, 0..10, &[]).await;
    let kept_by_nobody = [Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true))];
    raise(&other, Range::Session, 10..11, &kept_by_nobody).await;
    while number(&next(&mut heard_first).await) < 10 {}
    let oneshot = [
        everything(),
        &[Info::new(key::PMIX_EVENT_ONESHOT, Value::Bool(true))],
    ]
    .concat();
    let (once, mut heard_once) = listener();
    client.register(&[NEWS], &oneshot, once).await.unwrap();
    assert_eq!(number(&next(&mut heard_once).await), 7);
    assert_eq!(
        soon("the spent handler is dropped", heard_once.recv()).await,
        None
    );
    let (all, mut heard) = listener();
    client.register(&[], everything(), all).await.unwrap();
    assert_eq!(numbers(&other, &mut heard).await, [7, 8, 9]);
}
