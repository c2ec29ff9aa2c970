//! Tools whose request is refused. They finalize all the same: the server would count them as lost.
use peal_model::{CommandCode, Reply, code};
use peal_needs::needs;
use peal_tests::{
    fake_server::{FakeServer, granted, listen},
    finish,
    in_process::soon,
    peal,
};
use std::process::Stdio;

/// Runs a command against a server that refuses this request. Returns the requests that the server
/// received.
async fn refused(command: CommandCode, verb: &[&str], args: &[&str]) -> Vec<CommandCode> {
    let (listener, environment) = listen().await;
    let uri = environment.server.to_string();
    let words = [verb, &["--uri", &uri], args].concat();
    let child = peal(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = soon("it attaches", FakeServer::welcome(&listener)).await;
    let mut heard = Vec::new();
    while let Some((tag, request)) = soon("it ends", server.next()).await {
        let asked = request.command();
        heard.push(asked);
        let reply = match asked {
            _ if asked != command => granted(asked),
            CommandCode::Notify | CommandCode::RegisterEvents => {
                Reply::Status(code::PMIX_ERR_NO_PERMISSIONS)
            }
            _ => Reply::Infos {
                status: code::PMIX_ERR_NO_PERMISSIONS,
                infos: Vec::new(),
            },
        };
        server.answer(tag, asked, &reply).await;
    }
    let done = tokio::task::spawn_blocking(|| finish(child)).await.unwrap();
    assert_ne!(done.status, Some(0), "{done:?}");
    heard
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn refused_tools_finalize() {
    for (command, verb, args) in [
        (
            CommandCode::Monitor,
            &["monitor", "file"][..],
            &["--time", "1s", "/tmp/file"][..],
        ),
        (CommandCode::Monitor, &["monitor", "usage"], &[]),
        (CommandCode::RegisterEvents, &["monitor", "usage"], &[]),
        (
            CommandCode::RegisterEvents,
            &["event", "watch", "--as-tool"],
            &[],
        ),
        (CommandCode::Notify, &["event", "notify"], &["--", "-3001"]),
        (CommandCode::Query, &["group", "list"], &[]),
        (CommandCode::Query, &["ps"], &[]),
    ] {
        let heard = refused(command, verb, args).await;
        assert!(heard.contains(&command), "{verb:?}: {heard:?}");
        assert_eq!(heard.last(), Some(&CommandCode::Finalize), "{verb:?}");
    }
}
