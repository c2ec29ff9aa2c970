//! Order of events and replies at a client: handlers of events that came before a reply have run when
//! the call returns, as in the C library. A handler that waits delays no reply.
use peal_client::{Client, ClientSettings, Handler, HandlerOutcome};
use peal_model::{CommandCode, Event, Nspace, Proc, Range, Rank, Reply, Request, Status, code};
use peal_tests::{
    fake_server::{FakeServer, deceived},
    in_process::soon,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const CODE: Status = Status(-3801);
/// More events than the event task handles in one turn.
const EVENTS: usize = 500;

async fn register(client: &Client, server: &mut FakeServer, handler: Handler) {
    let register = client.register(&[CODE], &[], handler);
    let (registered, _) = soon("a handler is registered", async {
        tokio::join!(register, server.grant())
    })
    .await;
    registered.unwrap();
}

/// Answers a fence, with events before the reply.
async fn answer_after_events(server: &mut FakeServer) {
    let (tag, request) = server.hear().await;
    assert!(matches!(request, Request::Fence { .. }), "{request:?}");
    let event = Event {
        code: CODE,
        source: Some(Proc::new(Nspace::new("others").unwrap(), Rank(1))),
        range: Range::Namespace,
        infos: Vec::new(),
    };
    for _ in 0..EVENTS {
        server.send(&event).await;
    }
    let reply = Reply::Status(code::PMIX_SUCCESS);
    server.answer(tag, CommandCode::Fence, &reply).await;
}

#[tokio::test]
async fn handlers_of_earlier_events_run_before_a_call_returns() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let handled = Arc::new(AtomicUsize::new(0));
    let count = handled.clone();
    let handler = Handler::non_blocking(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    register(&client, &mut server, handler).await;
    let fence = async {
        client.fence(&[], &[]).await.unwrap();
        handled.load(Ordering::SeqCst)
    };
    let (handled, ()) = soon("a fence returns", async {
        tokio::join!(fence, answer_after_events(&mut server))
    })
    .await;
    assert_eq!(handled, EVENTS);
}

#[tokio::test]
async fn handler_that_waits_delays_no_reply() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let handler = Handler::deferred(|_| std::future::pending());
    register(&client, &mut server, handler).await;
    for _ in 0..2 {
        let (fenced, ()) = soon("a fence returns", async {
            tokio::join!(client.fence(&[], &[]), answer_after_events(&mut server))
        })
        .await;
        fenced.unwrap();
    }
}
