//! `peal serve --take-over`: another process goes on with a server, and nobody is cut off.
use peal_client::MonitorRequest;
use peal_model::{Info, Key, Nspace, Proc, Range, Rank, Scope, Status, Value, key};
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    in_process::{listener, next},
    run,
};
use std::time::Duration;

const NEWS: Status = Status(-3001);

/// Has another process go on with a server. Returns it when the first one has ended.
#[track_caller]
fn taken_over(place: &Place, old: Daemon) -> Daemon {
    let new = place.start_under(|mut serve| {
        serve.arg("--take-over");
        serve
    });
    let ended = old.ends().expect_status(0);
    assert!(
        ended
            .stderr
            .contains("another process goes on with the server"),
        "{}",
        ended.stderr
    );
    new
}

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn clients_go_on_with_another_process() {
    let place = Place::new();
    let mut server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let first = server.client("job", 0).await;
    let second = server.client("job", 1).await;
    let (handler, mut heard) = listener();
    first.register(&[NEWS], &[], handler).await.unwrap();
    for round in 0..5_u32 {
        // Open requests of both kinds: one that waits for a value, one for another proc.
        let name = Key::new(&format!("test.round.{round}")).unwrap();
        let of = proc(1);
        let get = first.get(&of, name.clone(), &[]);
        let fence = first.fence(&[], &[]);
        let meanwhile = async {
            let server = taken_over(&place, server);
            second.put(Scope::Global, name.clone(), Value::Uint32(round));
            second.commit().await.unwrap();
            second.fence(&[], &[]).await.unwrap();
            let infos = vec![Info::new(
                key::PMIX_EVENT_TEXT_MESSAGE,
                Value::string(name.as_str()),
            )];
            second.notify(NEWS, Range::Namespace, infos).await.unwrap();
            server
        };
        let (got, fenced, now) = tokio::join!(get, fence, meanwhile);
        server = now;
        assert_eq!(got.unwrap(), Value::Uint32(round));
        fenced.unwrap();
        let event = next(&mut heard).await;
        assert_eq!(event.code, NEWS);
    }
    let listed = server.tell(&["job", "list", "-o", "json"]);
    let jobs: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(jobs[0]["connected"], 2, "{listed}");
    first.finalize().await.unwrap();
    second.finalize().await.unwrap();
    server.tell(&["job", "deregister", "job"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn server_that_cannot_be_handed_over_goes_on() {
    let place = Place::new();
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "1"]);
    let client = server.client("job", 0).await;
    let heartbeats = MonitorRequest::heartbeat(Duration::from_secs(1000), 2);
    client.watch(heartbeats).await.unwrap();
    let refused = run(&mut server.verb(&["serve", "--take-over"])).expect_status(125);
    assert!(
        refused.stderr.contains("monitors cannot be handed over"),
        "{}",
        refused.stderr
    );
    // Requests are served again, and further clients admitted.
    client.fence(&[], &[]).await.unwrap();
    server.tell(&["job", "register", "other", "-n", "1"]);
    let other = server.client("other", 0).await;
    other.fence(&[], &[]).await.unwrap();
}

#[needs(prepared)]
#[test]
fn nothing_to_take_over_is_an_error() {
    let place = Place::new();
    let (mut serve, _states) = place.serve("notify");
    let failed = run(serve.arg("--take-over")).expect_status(125);
    assert!(
        failed.stderr.contains("cannot take over the server at"),
        "{}",
        failed.stderr
    );
}
