//! A server with a panic in one part stops answering, and reports it to the admin. A server that
//! works reports itself to the service manager.
use peal_model::Proc;
use peal_needs::needs;
use peal_server::{HostEnvironment, InProcessNetwork, ServerSettings};
use peal_tests::{
    daemon::Place,
    in_process::{Node, soon},
    raw_client::{RawClient, hello},
};
use std::sync::Arc;

/// Host environment that panics.
struct PanickingHost;

impl HostEnvironment for PanickingHost {
    fn client_connected(&self, _proc: &Proc) {
        panic!("a mistake of the host environment");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_in_the_state_fails_the_server() {
    let node = Node::under(
        Arc::new(PanickingHost),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let handle = node.server.handle();
    let failure = node.server.failure();
    assert!(soon("the server answers", handle.answers()).await);
    assert!(
        RawClient::connect(&node)
            .await
            .greet(&hello(node.proc(0)))
            .await
            .is_none()
    );
    soon("the server reports that it failed", failure).await;
    assert!(!soon("the server stops answering", handle.answers()).await);
    assert!(
        RawClient::connect(&node)
            .await
            .greet(&hello(node.proc(1)))
            .await
            .is_none()
    );
    soon("the server stops", node.server.shutdown()).await;
}

#[needs(prepared)]
#[test]
fn answering_server_notifies_the_watchdog_repeatedly() {
    let place = Place::new();
    let mut daemon = place.start_under(|mut serve| {
        serve.env("WATCHDOG_USEC", "90000");
        serve
    });
    for _ in 0..3 {
        assert_eq!(daemon.state().trim_end(), "WATCHDOG=1");
    }
}
