//! Handlers of `peal-client` that complete later, as by the completion function of RFC 0002. The
//! chain waits for them, with a time limit.
use peal_client::{Client, ClientSettings, Handler, HandlerOutcome};
use peal_model::{DataArray, Event, Info, Infos, Key, KeyName, Range, Status, Value, code, key};
use peal_server::ServerSettings;
use peal_tests::in_process::{Node, soon};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const NEWS: Status = Status(-3001);
const NOTE: KeyName = KeyName("test.note");

type Complete = oneshot::Sender<HandlerOutcome>;

/// Returns a handler whose results the test provides, and a queue of the events that it receives.
fn completed_by_test() -> (Handler, mpsc::UnboundedReceiver<(Event, Complete)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let handler = Handler::deferred(move |call| {
        let (complete, completed) = oneshot::channel();
        tell.send((call.event().clone(), complete)).unwrap();
        async {
            completed
                .await
                .unwrap_or(HandlerOutcome::status(code::PMIX_EVENT_ACTION_DEFERRED))
        }
    });
    (handler, told)
}

fn panics() -> HandlerOutcome {
    panic!("on purpose")
}

fn named(name: &str) -> Vec<Info> {
    vec![Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string(name))]
}

/// Returns a handler, and a queue of the results of the handlers before it.
fn last() -> (Handler, mpsc::UnboundedReceiver<Vec<Info>>) {
    let (tell, told) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        tell.send(call.results()).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    (handler, told)
}

fn result(name: &str, status: Status, infos: &[Info]) -> Info {
    let key = Key::new(name).unwrap();
    let first = Info::new(key.clone(), Value::Status(status));
    Info::new(
        key,
        Value::DataArray(DataArray::infos([&[first][..], infos].concat())),
    )
}

async fn pair(settings: ClientSettings) -> (Node, Client, Client) {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = soon(
        "a client connects",
        Client::connect_with(&node.environment(0), settings),
    )
    .await
    .unwrap();
    let other = node.client(1).await;
    (node, client, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_goes_on_when_a_deferred_handler_completes() {
    let (_node, client, other) = pair(ClientSettings::default()).await;
    let (deferred, mut begun) = completed_by_test();
    let (last, mut told) = last();
    client
        .register(&[NEWS], &named("later"), deferred)
        .await
        .unwrap();
    client.register(&[], &[], last).await.unwrap();
    for number in 0..2 {
        other
            .notify(
                NEWS,
                Range::Namespace,
                vec![Info::new(NOTE, Value::Uint32(number))],
            )
            .await
            .unwrap();
    }
    let note = [Info::new(NOTE, Value::string("done"))];
    for number in 0..2 {
        let (event, complete) = soon("the handler is called", begun.recv()).await.unwrap();
        assert_eq!(event.infos.value_of(NOTE), Some(&Value::Uint32(number)));
        // Only the handlers and events after it wait for it; other calls of the client do not.
        client.commit().await.unwrap();
        assert!(told.try_recv().is_err() && begun.try_recv().is_err());
        complete
            .send(HandlerOutcome {
                status: code::PMIX_EVENT_PARTIAL_ACTION_TAKEN,
                infos: note.to_vec(),
            })
            .unwrap();
        let results = soon("the last handler is called", told.recv())
            .await
            .unwrap();
        assert_eq!(
            results,
            [result(
                "later",
                code::PMIX_EVENT_PARTIAL_ACTION_TAKEN,
                &note
            )]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_deferred_is_a_result_like_others() {
    let (_node, client, other) = pair(ClientSettings::default()).await;
    let (deferred, mut begun) = completed_by_test();
    let (last, mut told) = last();
    let status = Handler::native(|_| HandlerOutcome::status(code::PMIX_EVENT_ACTION_DEFERRED));
    client
        .register(&[NEWS], &named("queued"), status)
        .await
        .unwrap();
    // This handler has no name.
    client.register(&[NEWS], &[], deferred).await.unwrap();
    client.register(&[], &[], last).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    drop(soon("the handler is called", begun.recv()).await);
    let results = soon("the last handler is called", told.recv())
        .await
        .unwrap();
    let deferred = |name| result(name, code::PMIX_EVENT_ACTION_DEFERRED, &[]);
    assert_eq!(
        results,
        [deferred("queued"), deferred("")],
        "a handler without a name has an empty key"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_handler_that_panics_does_not_hold_the_chain() {
    let (_node, client, other) = pair(ClientSettings::default()).await;
    let (last, mut told) = last();
    let panics_late = Handler::deferred(|_| async { panics() });
    let panics_at_once = Handler::deferred(|_| std::future::ready(panics()));
    for (name, handler) in [("late", panics_late), ("at once", panics_at_once)] {
        client
            .register(&[NEWS], &named(name), handler)
            .await
            .unwrap();
    }
    client.register(&[], &[], last).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    let results = soon("the last handler is called", told.recv())
        .await
        .unwrap();
    let trapped = |name| result(name, Status::PEAL_ERR_MODULE_TRAPPED, &[]);
    assert_eq!(results, [trapped("late"), trapped("at once")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_handler_that_never_completes_times_out() {
    let settings = ClientSettings {
        handler_timeout: Some(Duration::from_millis(50)),
        ..ClientSettings::default()
    };
    let (_node, client, other) = pair(settings).await;
    let (never, mut begun) = completed_by_test();
    let (last, mut told) = last();
    client
        .register(&[NEWS], &named("never"), never)
        .await
        .unwrap();
    client.register(&[], &[], last).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    let (_, mut complete) = soon("the handler is called", begun.recv()).await.unwrap();
    let results = soon("the last handler is called", told.recv())
        .await
        .unwrap();
    assert_eq!(
        results,
        [result("never", Status::PEAL_ERR_MODULE_TIMEOUT, &[])]
    );
    soon("the client no longer waits for it", complete.closed()).await;
}
