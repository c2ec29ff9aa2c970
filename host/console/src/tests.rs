//! Requests to the routes of a console whose server is a test.
use crate::{
    ConsoleBounds, ConsoleFunctions, ConsoleSecrets, ConsoleSettings, ReplayFunction,
    console::{Console, routes},
    guard::cookie,
    live::Fragment,
    pages::events,
    tokens::{AccessTokens, ConsoleRights},
};
use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode, request::Builder},
};
use futures_util::stream;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use peal_server::admin::{ACTIVITY_VERSION, ActivityReport, AdminReply, LiveData};
use serde_json::json;
use std::{
    convert::Infallible,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

const ADMIN: &str = "the token of administrators";
/// Time limit of requests that are answered.
const PATIENCE: Duration = Duration::from_secs(30);

fn no_replay() -> ReplayFunction {
    Arc::new(|_| Err("nothing is replayed".to_owned()))
}

fn console(dir: &Path, request_timeout: Duration, replay: ReplayFunction) -> Arc<Console> {
    let settings = ConsoleSettings {
        listen: "127.0.0.1:9465".parse().unwrap(),
        token_file: None,
        admin_token_file: None,
        certificate: None,
        private_key: None,
        client_ca: None,
        admin_socket: dir.join("admin.sock"),
        audit: Some(dir.join("audit.db")),
        bounds: ConsoleBounds {
            connections: 1,
            watchers: 1,
            sessions: 1,
            session_lifetime: PATIENCE,
            request_timeout,
        },
    };
    let secrets = ConsoleSecrets {
        tokens: AccessTokens::new(None, Some(ADMIN)),
        tls: None,
    };
    let functions = ConsoleFunctions {
        naming: |uid| format!("user-{uid}"),
        users: |name| Err(format!("there is no user {name}")),
        replay,
    };
    Arc::new(Console::new(settings, secrets, functions).unwrap())
}

fn request(method: &str, path: &str) -> Builder {
    let form = "application/x-www-form-urlencoded";
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", form)
}

/// Makes a request with the token of administrators.
fn as_admin(method: &str, path: &str) -> Builder {
    request(method, path).header("authorization", format!("bearer {ADMIN}"))
}

async fn send(console: &Arc<Console>, request: Request<Body>) -> (StatusCode, String) {
    let answer = TowerToHyperService::new(routes(console))
        .call(request)
        .await;
    let answer = answer.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(console: &Arc<Console>, path: &str) -> (StatusCode, String) {
    send(console, as_admin("GET", path).body(Body::empty()).unwrap()).await
}

fn post(path: &str, form: &str) -> Request<Body> {
    as_admin("POST", path).body(form.to_owned().into()).unwrap()
}

/// Returns a report of a server with something in each section.
fn report() -> ActivityReport {
    let report = json!({
        "version": ACTIVITY_VERSION,
        "number": 1,
        "uptime_ms": 1000,
        "server": { "release": "1", "node": "n", "pid": 1, "phase": "serving", "connections": 1, "troubles": [] },
        "jobs": { "jobs": [{
            "nspace": "solver", "size": 9, "uid": 1, "gid": 1, "expected": 9, "connected": 0, "finalized": 0, "lost": 0,
            "procs": [{ "rank": 0, "state": "expected", "pid": null }], "further_procs": 8,
        }], "further": 2 },
        "further": { "handlers": 0, "sinks": 3, "users": 4 },
        "passages": [{
            "number": 4711, "at_ms": 1, "code": { "number": -3001 }, "source": null, "uid": null, "range": "session",
            "time_us": 1, "steps": [],
        }],
    });
    serde_json::from_value(report).unwrap()
}

#[tokio::test]
async fn late_body_and_late_server_have_answers_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    // The server takes connections and says nothing.
    let server = UnixListener::bind(dir.path().join("admin.sock")).unwrap();
    let console = console(dir.path(), Duration::from_millis(50), no_replay());
    for path in ["/audit/1/replay", "/modules/change", "/login"] {
        let never = stream::pending::<Result<Bytes, io::Error>>();
        let body = as_admin("POST", path).body(Body::from_stream(never));
        let (status, _) = send(&console, body.unwrap()).await;
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{path}");
    }
    let (status, page) = send(&console, post("/modules/change", "verb=deploy")).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(page.contains("may still be carried out"), "{page}");
    let (status, page) = get(&console, "/modules").await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(!page.contains("may still be carried out"), "{page}");
    drop(server);
}

#[tokio::test]
async fn replay_goes_on_alone_when_its_browser_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let (tell, mut started) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<Infallible>();
    let released = Mutex::new(released);
    let replay: ReplayFunction = Arc::new(move |seq| {
        tell.send(seq).unwrap();
        let _ = released.lock().unwrap().recv();
        Err("not replayed".to_owned())
    });
    let console = console(dir.path(), PATIENCE, replay);
    let of = console.clone();
    let first = tokio::spawn(async move { send(&of, post("/audit/7/replay", "")).await });
    assert_eq!(started.recv().await, Some(7));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let (status, _) = send(&console, post("/audit/8/replay", "")).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    drop(release);
    drop(console.replays.acquire().await.unwrap());
    let (status, _) = send(&console, post("/audit/9/replay", "")).await;
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn third_search_in_the_trail_at_once_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let console = console(dir.path(), PATIENCE, no_replay());
    let others = console.trail_reads.clone().acquire_many_owned(2).await;
    let (status, page) = get(&console, "/audit").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{page}");
    drop(others);
    // There is no trail.
    assert_eq!(get(&console, "/audit").await.0, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn unknown_user_in_a_search_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let trail = peal_store::TrailSettings {
        max_bytes: 1 << 24,
        durability: peal_store::DatabaseDurability::Process,
        lasting: &[],
    };
    drop(peal_store::Trail::open(&dir.path().join("audit.db"), trail).unwrap());
    let console = console(dir.path(), PATIENCE, no_replay());
    let (status, page) = get(&console, "/audit?user=ada").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(page.contains("there is no user ada"), "{page}");
}

#[tokio::test]
async fn fifth_request_of_pages_waits_for_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = UnixListener::bind(dir.path().join("admin.sock")).unwrap();
    let console = console(dir.path(), PATIENCE, no_replay());
    let asked: Vec<_> = (0..5)
        .map(|_| {
            let console = console.clone();
            tokio::spawn(async move { console.link.jobs("a test").await.map(drop) })
        })
        .collect();
    let accept = |server: UnixListener| {
        let accepted = server.accept().unwrap().0;
        (server, accepted)
    };
    let mut server = server;
    let mut open = Vec::new();
    for _ in 0..4 {
        let accepted = tokio::task::spawn_blocking(move || accept(server)).await;
        let connection;
        (server, connection) = accepted.unwrap();
        open.push(connection);
    }
    server.set_nonblocking(true).unwrap();
    let next = server.accept().map(drop).unwrap_err();
    assert_eq!(next.kind(), io::ErrorKind::WouldBlock);
    assert!(asked.iter().all(|asked| !asked.is_finished()));
    server.set_nonblocking(false).unwrap();
    open.pop();
    let accepted = tokio::task::spawn_blocking(move || accept(server)).await;
    drop((accepted, open));
    for asked in asked {
        asked.await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn form_of_a_session_needs_an_origin() {
    let dir = tempfile::tempdir().unwrap();
    let console = console(dir.path(), PATIENCE, no_replay());
    let now = Instant::now();
    let session = console.sessions.begin(ConsoleRights::Change, now).unwrap();
    let form_token = console.sessions.get(&session.name, now).unwrap().form_token;
    let log_out = || {
        let cookie = cookie(false, Some(&session.name));
        request("POST", "/logout").header("cookie", cookie)
    };
    let body = || Body::from(format!("form_token={form_token}"));
    let (status, _) = send(&console, log_out().body(body()).unwrap()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let own = log_out().header("origin", "http://localhost");
    let (status, _) = send(&console, own.body(body()).unwrap()).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn page_of_a_lost_server_has_the_reason_and_no_table() {
    let dir = tempfile::tempdir().unwrap();
    let server = UnixListener::bind(dir.path().join("admin.sock")).unwrap();
    let (end, ended) = mpsc::channel::<Infallible>();
    // The server sends two reports, and ends when it is told to.
    let serving = thread::spawn(move || {
        let (stream, _) = server.accept().unwrap();
        drop(server);
        BufReader::new(&stream)
            .read_line(&mut String::new())
            .unwrap();
        let activity = || AdminReply::Activity(Box::new(report()));
        for reply in [AdminReply::Reporting, activity(), activity()] {
            let line = serde_json::to_string(&reply).unwrap();
            writeln!(&stream, "{line}").unwrap();
        }
        let _ = ended.recv();
    });
    let console = console(dir.path(), PATIENCE, no_replay());
    let (_, page) = get(&console, "/").await;
    assert!(
        page.contains("solver") && page.contains("As of the load of this page"),
        "{page}"
    );
    let mut states = console.feed.subscribe();
    drop(end);
    states.wait_for(|state| state.lost.is_some()).await.unwrap();
    serving.join().unwrap();
    let (_, page) = get(&console, "/").await;
    assert!(page.contains("Not live: "), "{page}");
    assert!(
        !page.contains("<table") && !page.contains("solver"),
        "{page}"
    );
}

#[test]
fn what_a_report_has_no_room_for_is_counted() {
    let mut data = LiveData::new(|uid| uid.to_string(), None);
    data.apply(report());
    for (fragment, shown) in [
        (Fragment::Jobs, "and 8 more procs"),
        (Fragment::Jobs, "and 2 more jobs"),
        (Fragment::Sinks, "and 3 more sinks"),
        (Fragment::Users, "and 4 more users"),
    ] {
        let html = fragment.render(&data).into_string();
        assert!(html.contains(shown), "{html}");
    }
}

#[test]
fn event_is_found_by_the_number_of_its_server() {
    let mut data = LiveData::new(|uid| uid.to_string(), None);
    data.apply(report());
    let html = Fragment::Events.render(&data).into_string();
    assert!(html.contains("href=\"/events/4711\""), "{html}");
    assert_eq!(events::numbered(&data, 4711).unwrap().code.number, -3001);
    assert!(events::numbered(&data, 0).is_none());
}
