//! Edge cases of Peal's client: early finalization, abandoned calls, the loss of one of several
//! servers, and invalid rendezvous files.
use peal_client::{AttachTarget, Client, ClientError, ClientSettings, Tool, ToolSettings};
use peal_model::{
    CommandCode, Event, Info, KeyName, Range, Reply, Request, Scope, Status, Value, code, key,
};
use peal_needs::needs;
use peal_server::ServerSettings;
use peal_tests::{
    fake_server::{FakeServer, deceived, listen},
    in_process::{Node, everything, gate, listener, next, soon},
};
use peal_wire::ServerUri;
use std::{path::Path, sync::mpsc, thread, time::Duration};
use tokio::{net::TcpListener, time::timeout};

const NEWS: Status = Status(-3601);
const LOST: Status = code::PMIX_ERR_LOST_CONNECTION;
const KEY: KeyName = KeyName("test.key");

fn news() -> Event {
    Event {
        code: NEWS,
        source: None,
        range: Range::Global,
        infos: Vec::new(),
    }
}

/// Runs a test on one thread. A correct client never blocks the thread.
fn on_one_thread(test: impl Future<Output = ()> + Send + 'static) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test);
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(30))
        .expect("the runtime is blocked, or the test failed");
}

/// Returns a client whose handler thread is blocked until the test drops the sender.
async fn held_up() -> (Client, FakeServer, mpsc::Sender<()>) {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let (gate, go, mut told) = gate();
    let (registered, _) = tokio::join!(client.register(&[], everything(), gate), server.grant());
    registered.unwrap();
    server.send(&news()).await;
    assert_eq!(soon("the handler is called", told.recv()).await, Some(NEWS));
    (client, server, go)
}

/// Lets all other tasks of this thread run.
async fn let_all_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn leaving_client_does_not_wait_for_handler_waiting_for_it() {
    on_one_thread(async {
        let (client, mut server, go) = held_up().await;
        let (left, _) = tokio::join!(client.finalize(), server.grant());
        left.unwrap();
        let_all_run().await;
        drop(go);
    });
    on_one_thread(async {
        let (client, mut server, go) = held_up().await;
        drop(client);
        assert_eq!(soon("the connection is closed", server.next()).await, None);
        let_all_run().await;
        drop(go);
    });
}

#[tokio::test]
async fn a_commit_that_was_given_up_is_made_by_the_next() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    client.put(Scope::Local, KEY.into(), Value::Uint32(1));
    timeout(Duration::from_millis(10), client.commit())
        .await
        .unwrap_err();
    let (_, first) = server.hear().await;
    client.put(Scope::Local, KeyName("test.later").into(), Value::Uint32(2));
    let (done, second) = soon("it is answered", async {
        tokio::join!(client.commit(), server.grant())
    })
    .await;
    done.unwrap();
    let (Request::Commit(first), Request::Commit(second)) = (first, second) else {
        panic!("no commits")
    };
    assert_eq!(second[0].kvals[0], first[0].kvals[0]);
    assert_eq!((first[0].kvals.len(), second[0].kvals.len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshing_get_requests_known_value() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let put = async |number| {
        other.put(Scope::Global, KEY.into(), Value::Uint32(number));
        other.commit().await.unwrap();
    };
    let get = async |infos: &[Info]| client.get(other.me(), KEY, infos).await.unwrap();
    let refresh = Info::new(key::PMIX_GET_REFRESH_CACHE, Value::Bool(true));
    let optional = Info::new(key::PMIX_OPTIONAL, Value::Bool(true));
    put(1).await;
    assert_eq!(get(&[]).await, Value::Uint32(1));
    put(2).await;
    assert_eq!(get(&[]).await, Value::Uint32(1));
    assert_eq!(
        get(&[refresh.clone(), optional]).await,
        Value::Uint32(1),
        "the server must get no request"
    );
    assert_eq!(get(&[refresh]).await, Value::Uint32(2));
    assert_eq!(get(&[]).await, Value::Uint32(2));
}

/// Returns a listener for a fake server, and its URI for tools.
async fn place() -> (TcpListener, ServerUri) {
    let (listener, environment) = listen().await;
    (listener, environment.server)
}

/// Completes the handshake of a tool, and grants it this number of requests.
async fn welcome(listener: &TcpListener, grants: usize) -> FakeServer {
    let mut server = FakeServer::welcome(listener).await;
    for _ in 0..grants {
        server.grant().await;
    }
    server
}

async fn tool(client: ClientSettings) -> (Tool, FakeServer) {
    let (listener, uri) = place().await;
    let settings = ToolSettings {
        attach: AttachTarget::Uri(uri),
        client,
        ..ToolSettings::from(|_| None).unwrap()
    };
    let (tool, server) = soon("a tool connects", async {
        tokio::join!(Tool::init(settings), welcome(&listener, 1))
    })
    .await;
    (tool.unwrap(), server)
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_attached_to_in_vain_is_none() {
    let settings = ClientSettings {
        answer_timeout: Some(Duration::from_secs(2)),
        ..ClientSettings::default()
    };
    let (tool, mut server) = tool(settings).await;
    let (handler, mut heard) = listener();
    let (registered, _) = tokio::join!(
        tool.register(&[LOST, NEWS], everything(), handler),
        server.grant()
    );
    registered.unwrap();
    let (listener, uri) = place().await;
    let attach = AttachTarget::Uri(uri);
    // The registration is never answered.
    let (attached, mut second) = tokio::join!(tool.attach(&attach), welcome(&listener, 1));
    assert!(
        matches!(attached, Err(ClientError::TimedOut { .. })),
        "{attached:?}"
    );
    assert_eq!(tool.servers().len(), 1);
    assert!(matches!(
        second.next().await,
        Some((_, Request::RegisterEvents { .. }))
    ));
    assert_eq!(soon("the connection is closed", second.next()).await, None);
    // A refused and closed connection is no loss.
    let refuse = async {
        let mut third = welcome(&listener, 1).await;
        let (tag, _) = third.hear().await;
        third
            .answer(
                tag,
                CommandCode::RegisterEvents,
                &Reply::Status(code::PMIX_ERR_EVENT_REGISTRATION),
            )
            .await;
    };
    let (attached, ()) = tokio::join!(tool.attach(&attach), refuse);
    attached.unwrap_err();
    let (attached, _) = tokio::join!(tool.attach(&attach), welcome(&listener, 0));
    attached.unwrap_err();
    server.send(&news()).await;
    assert_eq!(
        soon("an event is received", heard.recv())
            .await
            .unwrap()
            .code,
        NEWS
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn loss_reaches_departed_tool_and_other_servers_get_all() {
    let (tool, mut first) = tool(ClientSettings::default()).await;
    let (gate, go, mut told) = gate();
    let (registered, _) = tokio::join!(
        tool.register(&[LOST, NEWS], everything(), gate),
        first.grant()
    );
    let gate = registered.unwrap();
    first.send(&news()).await;
    assert_eq!(soon("the handler is called", told.recv()).await, Some(NEWS));
    drop(first);
    // The call reports the loss before any handler has received it.
    let lost = soon("the call ends", tool.fence(&[], &[])).await;
    assert!(matches!(lost, Err(ClientError::Lost { .. })), "{lost:?}");
    let (listener, uri) = place().await;
    let attach = AttachTarget::Uri(uri);
    let (attached, second) = soon("it attaches", async {
        tokio::join!(tool.attach(&attach), welcome(&listener, 2))
    })
    .await;
    attached.unwrap();
    drop(go);
    assert_eq!(soon("the loss is received", told.recv()).await, Some(LOST));
    let (attached, mut third) = soon("it attaches", async {
        tokio::join!(tool.attach(&attach), welcome(&listener, 2))
    })
    .await;
    attached.unwrap();
    drop(second);
    assert_eq!(soon("the loss is received", told.recv()).await, Some(LOST));
    // Calls still go to the second server, which is gone. The third must receive the
    // deregistration.
    tool.deregister(gate).await.unwrap();
    let (_, told) = third.hear().await;
    assert!(matches!(told, Request::DeregisterEvents { .. }), "{told:?}");
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_lost_together_are_one_event() {
    // The window is longer than the test, whose end shows that the client does not wait for the
    // window after the last loss.
    let settings = ClientSettings {
        loss_window: Duration::from_secs(3600),
        ..ClientSettings::default()
    };
    let (tool, mut first) = tool(settings).await;
    let (handler, mut heard) = listener();
    let (registered, _) = tokio::join!(
        tool.register(&[LOST, NEWS], everything(), handler),
        first.grant()
    );
    registered.unwrap();
    let (listener, uri) = place().await;
    let attach = AttachTarget::Uri(uri);
    let mut others = Vec::new();
    for _ in 0..2 {
        let (attached, server) = soon("it attaches", async {
            tokio::join!(tool.attach(&attach), welcome(&listener, 2))
        })
        .await;
        attached.unwrap();
        others.push(server);
    }
    let mut last = others.pop().unwrap();
    drop((first, others));
    while tool.servers().len() > 1 {
        tokio::task::yield_now().await;
    }
    // Any other event ends the series of losses.
    last.send(&news()).await;
    let lost = next(&mut heard).await;
    assert_eq!((lost.code, lost.affected().len()), (LOST, 2), "{lost:?}");
    assert_eq!(next(&mut heard).await.code, NEWS);
    drop(last);
    let lost = next(&mut heard).await;
    assert_eq!((lost.code, lost.affected().len()), (LOST, 1), "{lost:?}");
}

/// Returns the error of a tool that looks for its server in this way.
async fn fails(directory: &Path, attach: AttachTarget) -> ClientError {
    let mut settings = ToolSettings::from(|_| None).unwrap();
    settings.places.directory = directory.to_owned();
    settings.places.host = "node".to_owned();
    settings.attach = attach;
    soon("the tool gives up", Tool::init(settings))
        .await
        .err()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_cannot_be_opened_is_reported_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    for name in ["fifo", "pmix.sys.node"] {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at(name),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
    }
    for attach in [AttachTarget::File(at("fifo")), AttachTarget::System] {
        let error = fails(directory.path(), attach).await.to_string();
        assert!(error.ends_with(": not a regular file"), "{error}");
    }
    std::fs::remove_file(at("pmix.sys.node")).unwrap();
    std::os::unix::fs::symlink(at("fifo"), at("pmix.sys.node")).unwrap();
    let error = fails(directory.path(), AttachTarget::System).await;
    assert!(
        matches!(&error, ClientError::UnreadableFile { .. }),
        "{error}"
    );
    let error = fails(&at("fifo"), AttachTarget::Any).await;
    assert!(
        matches!(&error, ClientError::UnreadableFile { path, .. } if *path == at("fifo")),
        "{error}"
    );
}
