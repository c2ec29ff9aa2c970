//! Tests of webhooks with a real web service: contents, refusals, pauses, trust and faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail"
)]
mod support;

use peal_model::code;
use peal_needs::needs;
use peal_sinks::{
    PeerReachability, PlainHttp, QueueBounds, QueueDurability, Retry, SinkHandle, SinkHealth,
    SinkKind, SinkMessage, SinkSettings, SinkWriteError, Sinks, WebhookFormat, WebhookSettings,
};
use peal_store::{Store, StoreSettings};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};
use support::{Certificates, Process, until, wait_for, web::WebService};

/// Tries again soon, so that no test has to wait.
const SOON: Retry = Retry {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(50),
    give_up: Duration::from_secs(3600),
};

/// Over TLS, with the authority of these certificates.
fn secured(service: &WebService, certificates: &Certificates, path: &str) -> WebhookSettings {
    let url = format!("https://127.0.0.1:{}{path}", service.port);
    WebhookSettings {
        ca: Some(certificates.file("ca.pem")),
        // A service without TLS may say nothing.
        timeout: Duration::from_secs(5),
        ..WebhookSettings::new(url.parse().unwrap())
    }
}

/// Without TLS.
fn plain(service: &WebService) -> WebhookSettings {
    let url = format!("http://127.0.0.1:{}/hook", service.port);
    WebhookSettings {
        http: PlainHttp::Loopback,
        ..WebhookSettings::new(url.parse().unwrap())
    }
}

fn sink(webhook: WebhookSettings) -> SinkSettings {
    SinkSettings {
        durability: QueueDurability::Memory,
        retry: SOON,
        ..SinkSettings::new("chat", SinkKind::Webhook(Box::new(webhook)))
    }
}

fn open(settings: SinkSettings, store: Option<&Arc<Store>>) -> (Sinks, Arc<SinkHandle>) {
    let sinks = Sinks::open(vec![settings], store).unwrap();
    let chat = sinks.get("chat").unwrap();
    (sinks, chat)
}

fn refused(webhook: WebhookSettings) -> String {
    Sinks::open(vec![sink(webhook)], None)
        .unwrap_err()
        .to_string()
}

fn store(dir: &Path) -> Arc<Store> {
    Arc::new(Store::open(&dir.join("peal.db"), StoreSettings::default()).unwrap())
}

fn submit(sink: &SinkHandle, text: &str) -> Result<(), SinkWriteError> {
    sink.submit(None, SinkMessage::Bytes(text.as_bytes().to_owned()))
}

fn settled(sink: &SinkHandle) -> SinkHealth {
    wait_for("all is done", || {
        Some(sink.health()).filter(|health| health.queued == 0)
    })
}

fn secret_file(dir: &Path, text: &str, mode: u32) -> PathBuf {
    let path = dir.join("secret");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// The body of a text.
fn body(text: &str) -> String {
    serde_json::json!({ "text": text }).to_string()
}

#[needs(python3)]
#[test]
fn text_is_posted_once_with_fields_and_token() {
    let certificates = Certificates::new();
    let dir = tempfile::tempdir().unwrap();
    let service = WebService::new(Some(&certificates)).started();
    let settings = WebhookSettings {
        token_file: Some(secret_file(dir.path(), "a-secret\n", 0o600)),
        headers: vec![
            "X-Cluster: alpha".parse().unwrap(),
            "X-Cluster: beta".parse().unwrap(),
        ],
        ..secured(&service, &certificates, "/hooks/x?channel=jobs")
    };
    let (sinks, chat) = open(sink(settings), None);
    submit(&chat, "Größe <!channel>\n[solver,3] half \"done\"\n").unwrap();
    submit(&chat, "second").unwrap();
    let health = settled(&chat);
    assert_eq!(
        (health.delivered, health.retried, health.given_up),
        (2, 0, 0),
        "{health:?}"
    );
    let got = service.received();
    let [first, second] = &got[..] else {
        panic!("{got:?}")
    };
    assert_eq!(
        (first.method.as_str(), first.path.as_str()),
        ("POST", "/hooks/x?channel=jobs")
    );
    assert_eq!(
        first.body,
        body("Größe &lt;!channel&gt;\n[solver,3] half \"done\"")
    );
    assert_eq!(second.body, body("second"));
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.header("authorization"), "Bearer a-secret");
    assert_eq!(first.header("host"), format!("127.0.0.1:{}", service.port));
    assert_eq!(first.all("x-cluster"), ["alpha", "beta"]);
    assert!(first.header("user-agent").starts_with("peal/"));
    assert_eq!(first.header("idempotency-key").len(), 32);
    assert_ne!(
        first.header("idempotency-key"),
        second.header("idempotency-key")
    );
    until("it hangs up when there is nothing to do", || {
        chat.health().link == PeerReachability::Idle
    });
    assert!(sinks.close(Duration::from_secs(10)).is_empty());
    let mail = chat.submit(None, SinkMessage::Mail(peal_model::Mail::default()));
    assert_eq!(
        mail.unwrap_err().to_string(),
        "sink \"chat\" takes bytes only, not mails"
    );
}

#[needs(python3)]
#[test]
fn object_is_posted_unchanged_and_others_are_refused() {
    let service = WebService::new(None).started();
    let settings = WebhookSettings {
        format: WebhookFormat::Json,
        max_bytes: 1000,
        ..plain(&service)
    };
    let (_sinks, chat) = open(sink(settings), None);
    let object = r##"{"channel": "#jobs", "data": [1, {"a": null}], "text": "<x>"}"##;
    submit(&chat, &format!("{object}\n")).unwrap();
    for text in [
        "",
        "text",
        "[1]",
        "{} {}",
        "{\"a\":",
        "{\"a\":1}\n{\"b\":2}",
    ] {
        let error = submit(&chat, text).unwrap_err();
        assert_eq!(error.status(), code::PMIX_ERR_BAD_PARAM, "{error}");
    }
    let long = submit(&chat, &format!("{{\"a\":\"{}\"}}", "x".repeat(993))).unwrap_err();
    assert_eq!(
        long.to_string(),
        "a message for sink \"chat\" has 1001 bytes; the limit is 1000"
    );
    assert_eq!(long.status(), code::PMIX_ERR_BAD_PARAM);
    submit(&chat, &format!("{{\"a\":\"{}\"}}", "x".repeat(992))).unwrap();
    let health = settled(&chat);
    assert_eq!((health.delivered, health.refused), (2, 7), "{health:?}");
    assert_eq!(service.bodies()[0], object);
    assert_eq!(service.received().len(), 2);
}

#[needs(python3)]
#[test]
fn temporary_failures_are_retried_with_same_id() {
    let certificates = Certificates::new();
    let service = WebService::new(Some(&certificates)).started();
    let (_sinks, chat) = open(sink(secured(&service, &certificates, "/hook")), None);
    let statuses = [408, 429, 500, 502, 503, 504, 599];
    for status in statuses {
        submit(&chat, &format!("[once {status}]")).unwrap();
    }
    let health = settled(&chat);
    let count = statuses.len();
    assert_eq!(
        (health.delivered, health.retried, health.given_up),
        (count as u64, count as u64, 0),
        "{health:?}"
    );
    let got = service.received();
    assert_eq!(got.len(), 2 * count);
    for status in statuses {
        let text = body(&format!("[once {status}]"));
        let tries: Vec<_> = got.iter().filter(|request| request.body == text).collect();
        assert_eq!((tries[0].status, tries[1].status), (status, 200));
        // A service can recognize the copy.
        assert_eq!(
            tries[0].header("idempotency-key"),
            tries[1].header("idempotency-key")
        );
    }
    let reason = health.last_error.unwrap();
    assert!(reason.contains("\"the service says no\""), "{reason}");
}

#[needs(python3)]
#[test]
fn retry_after_delays_all_messages_within_the_bound() {
    let service = WebService::new(None).started();
    let patient = SinkSettings {
        retry: Retry {
            longest: Duration::from_secs(60),
            ..SOON
        },
        ..sink(plain(&service))
    };
    let (sinks, chat) = open(patient, None);
    submit(&chat, "[wait 1]").unwrap();
    submit(&chat, "behind it").unwrap();
    assert_eq!(settled(&chat).delivered, 2);
    let got = service.received();
    let bodies: Vec<&str> = got.iter().map(|request| &*request.body).collect();
    let (waiting, behind) = (body("[wait 1]"), body("behind it"));
    // All messages wait, in their order.
    assert_eq!(bodies, [&*waiting, &*waiting, &*behind]);
    let pause = got[1].milliseconds - got[0].milliseconds;
    assert!(pause >= 1000, "{pause} ms");
    drop(sinks);
    // No service makes messages wait longer than the admin wants: in that time this test would end.
    let (_sinks, chat) = open(sink(plain(&service)), None);
    submit(&chat, "[wait 86400]").unwrap();
    assert_eq!(settled(&chat).delivered, 1);
}

#[needs(python3)]
#[test]
fn refused_message_and_redirect_are_reported_and_not_retried() {
    let certificates = Certificates::new();
    let service = WebService::new(Some(&certificates)).started();
    let settings = secured(&service, &certificates, "/hooks/secret-path");
    let (_sinks, chat) = open(sink(settings), None);
    for (text, says) in [
        (
            "[always 400]",
            "the service refuses the message (400 Bad Request): \"the service says no\"",
        ),
        (
            "[always 401]",
            "the service refuses the message (401 Unauthorized)",
        ),
        (
            "[always 404]",
            "the service refuses the message (404 Not Found)",
        ),
        (
            "[redirect]",
            "the service redirects, and redirects are refused (302 Found)",
        ),
    ] {
        let before = chat.health().given_up;
        submit(&chat, text).unwrap();
        let health = settled(&chat);
        assert_eq!(
            (health.given_up, health.retried, health.delivered),
            (before + 1, 0, 0),
            "{health:?}"
        );
        let reason = health.last_error.unwrap();
        let peer = format!("https://127.0.0.1:{}: ", service.port);
        assert!(reason.starts_with(&format!("{peer}{says}")), "{reason}");
    }
    let got = service.received();
    assert_eq!(got.len(), 4);
    assert!(
        got.iter()
            .all(|request| request.path == "/hooks/secret-path")
    );
    // Later messages are delivered.
    submit(&chat, "good").unwrap();
    assert_eq!(settled(&chat).delivered, 1);
}

#[needs(python3)]
#[test]
fn message_fails_alone_and_others_are_delivered_meanwhile() {
    let service = WebService::new(None).started();
    let (_sinks, chat) = open(sink(plain(&service)), None);
    submit(&chat, "[always 500]").unwrap();
    until("it has failed", || chat.health().retried > 0);
    submit(&chat, "good").unwrap();
    until("the other one is delivered", || {
        chat.health().delivered == 1
    });
    assert_eq!(service.bodies(), [body("good")]);
    assert_eq!(chat.health().queued, 1);
}

#[needs(python3)]
#[test]
fn untrusted_service_gets_nothing() {
    let certificates = Certificates::new();
    let strangers = Certificates::new();
    let service = WebService::new(Some(&certificates)).started();
    let unseen = |settings: WebhookSettings| {
        let (sinks, chat) = open(sink(settings), None);
        submit(&chat, "secret").unwrap();
        until("it is seen that this does not go", || {
            chat.health().retried > 0
        });
        let health = chat.health();
        assert_eq!(
            (health.delivered, health.given_up, health.link),
            (0, 0, PeerReachability::Lost),
            "{health:?}"
        );
        sinks.close(Duration::ZERO);
        health.last_error.unwrap()
    };
    let reason = unseen(secured(&service, &strangers, "/secret-path"));
    assert!(reason.contains("certificate"), "{reason}");
    assert!(!reason.contains("secret-path"), "{reason}");
    // The certificate is for 127.0.0.1.
    let other = format!("https://localhost:{}/hook", service.port);
    let other = WebhookSettings {
        url: other.parse().unwrap(),
        ..secured(&service, &certificates, "/hook")
    };
    let reason = unseen(other);
    assert!(reason.contains("certificate"), "{reason}");
    // A service without TLS is not the one that the URL names.
    let bare = WebService::new(None).started();
    unseen(secured(&bare, &certificates, "/hook"));
    assert!(service.received().is_empty() && bare.received().is_empty());
}

#[needs(python3)]
#[test]
fn path_from_a_file_is_used_and_shown_nowhere() {
    let certificates = Certificates::new();
    let dir = tempfile::tempdir().unwrap();
    let mut service = WebService::new(Some(&certificates)).started();
    let with_path = |text: &str, mode| WebhookSettings {
        path_file: Some(secret_file(dir.path(), text, mode)),
        ..secured(&service, &certificates, "")
    };
    let (_sinks, chat) = open(sink(with_path("/services/T0/secret?x\n", 0o600)), None);
    submit(&chat, "good").unwrap();
    settled(&chat);
    assert_eq!(service.received()[0].path, "/services/T0/secret?x");
    let exposed = refused(with_path("/services/secret\n", 0o640));
    assert!(
        exposed.contains("the path file \"") && exposed.contains("has mode 640"),
        "{exposed}"
    );
    for path in ["services/secret", "//evil.example/secret", "/secret word"] {
        let error = refused(with_path(path, 0o600));
        assert!(
            error.starts_with(
                "sink \"chat\": the path file is another text, it must be a file with"
            ),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
    service.stop();
    submit(&chat, "later").unwrap();
    until("it is away", || {
        chat.health().link == PeerReachability::Lost
    });
    let reason = chat.health().last_error.unwrap();
    assert!(
        reason.starts_with(&format!("https://127.0.0.1:{}: ", service.port))
            && !reason.contains("services"),
        "{reason}"
    );
    service.start();
    assert_eq!(settled(&chat).delivered, 2);
}

#[test]
fn unsafe_or_contradictory_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let to = |url: &str| WebhookSettings::new(url.parse().unwrap());
    let loopback = |url: &str| WebhookSettings {
        http: PlainHttp::Loopback,
        ..to(url)
    };
    let token_file = Some(secret_file(dir.path(), "two words\n", 0o600));
    for (settings, says) in [
        (
            to("http://127.0.0.1:1/secret"),
            "url is \"http://127.0.0.1:1\", it must be a URL that begins with https://, unless",
        ),
        (
            loopback("http://10.0.0.1/secret"),
            "url is \"http://10.0.0.1\", it must be a URL that begins with https://, or has a loopback",
        ),
        (
            WebhookSettings {
                token_file: token_file.clone(),
                ..loopback("http://127.0.0.1/secret")
            },
            "url is \"http://127.0.0.1\", it must be a URL that begins with https:// if there is a token",
        ),
        (
            WebhookSettings {
                token_file: token_file.clone(),
                ..to("https://h/secret")
            },
            "the token file is another text, it must be a file with the token on its first line",
        ),
        (
            WebhookSettings {
                path_file: token_file,
                ..to("https://h/secret")
            },
            "url is \"https://h\", it must be a URL without a path if there is a file with the path",
        ),
        (
            WebhookSettings {
                timeout: Duration::ZERO,
                ..to("https://h/secret")
            },
            "timeout is 0, it must be greater than 0",
        ),
    ] {
        let error = refused(settings);
        assert!(
            error.contains(says) && !error.contains("/secret"),
            "{error}"
        );
    }
}

#[needs(python3)]
#[test]
fn message_with_lost_answer_is_posted_again_with_same_id() {
    let service = WebService::new(None).started();
    let (_sinks, chat) = open(sink(plain(&service)), None);
    submit(&chat, "[lost]").unwrap();
    let health = settled(&chat);
    assert_eq!((health.delivered, health.retried), (1, 1), "{health:?}");
    let got = service.received();
    assert_eq!(got.len(), 2);
    assert_eq!(
        got[0].header("idempotency-key"),
        got[1].header("idempotency-key")
    );
    assert_ne!(got[0].from, got[1].from);
}

#[needs(python3)]
#[test]
fn endless_or_missing_answer_holds_no_message() {
    let service = WebService::new(None).started();
    // The size ends the answer, not the time.
    let patient = WebhookSettings {
        timeout: Duration::from_secs(3600),
        ..plain(&service)
    };
    let (_sinks, chat) = open(sink(patient), None);
    submit(&chat, "[endless]").unwrap();
    submit(&chat, "behind it").unwrap();
    let health = settled(&chat);
    assert_eq!((health.delivered, health.retried), (2, 0), "{health:?}");
    let impatient = WebhookSettings {
        timeout: Duration::from_millis(500),
        ..plain(&service)
    };
    let (_sinks, chat) = open(sink(impatient), None);
    submit(&chat, "[silent]").unwrap();
    let health = settled(&chat);
    assert!(health.delivered == 1 && health.retried > 0, "{health:?}");
    assert!(health.last_error.unwrap().contains("timed out"));
}

#[needs(python3)]
#[test]
fn message_queued_at_kill_is_posted_by_the_next_process() {
    const TEST: &str = "message_queued_at_kill_is_posted_by_the_next_process";
    let durable = |webhook: WebhookSettings| SinkSettings {
        durability: QueueDurability::Store,
        ..sink(webhook)
    };
    if let Some(dir) = std::env::var_os("PEAL_KILLED_DIR").map(PathBuf::from) {
        let url = std::env::var("PEAL_KILLED_URL").unwrap();
        let settings = WebhookSettings {
            http: PlainHttp::Loopback,
            ..WebhookSettings::new(url.parse().unwrap())
        };
        let (_sinks, chat) = open(durable(settings), Some(&store(&dir)));
        for number in 0..10 {
            submit(&chat, &format!("number {number}")).unwrap();
        }
        println!("\nqueued");
        // Until it is killed.
        loop {
            std::thread::park();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut service = WebService::new(None);
    let settings = plain(&service);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", TEST, "--nocapture"])
        .env("PEAL_KILLED_DIR", dir.path())
        .env("PEAL_KILLED_URL", settings.url.to_string());
    let mut process = Process::start(command.stdout(Stdio::piped()));
    let said = BufReader::new(process.0.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find(|line| line == "queued");
    assert_eq!(said.as_deref(), Some("queued"));
    process.kill();
    let store = store(dir.path());
    let left = store.outboxes().unwrap().messages_by_sink().unwrap();
    assert_eq!(left["chat"], 10);
    service.start();
    let (_sinks, chat) = open(durable(settings), Some(&store));
    until("all arrive", || chat.health().delivered == 10);
    let wanted: Vec<String> = (0..10)
        .map(|number| body(&format!("number {number}")))
        .collect();
    assert_eq!(service.bodies(), wanted);
    let ids: BTreeSet<String> = service
        .received()
        .iter()
        .map(|request| request.header("idempotency-key").to_owned())
        .collect();
    assert_eq!(ids.len(), 10);
}

#[needs(python3)]
#[test]
fn flood_of_one_user_leaves_room_and_turns_for_others() {
    let mut service = WebService::new(None);
    let settings = SinkSettings {
        queue: QueueBounds {
            messages: 16,
            user_messages: 4,
            ..QueueBounds::default()
        },
        ..sink(plain(&service))
    };
    let (sinks, chat) = open(settings, None);
    let from = |uid: u32, text: &str| {
        chat.submit(Some(uid), SinkMessage::Bytes(text.as_bytes().to_owned()))
    };
    for number in 0..4 {
        from(1, &format!("attack {number}")).unwrap();
    }
    let error = from(1, "one too many").unwrap_err();
    assert!(
        matches!(error, SinkWriteError::UserFull { .. }),
        "{error:?}"
    );
    assert_eq!(error.status(), code::PMIX_ERR_OUT_OF_RESOURCE);
    from(2, "in time").unwrap();
    let held = sinks.use_by_user();
    assert_eq!((held[&1].messages, held[&1].refused), (4, 1));
    assert_eq!((held[&2].messages, held[&2].refused), (1, 0));
    service.start();
    assert_eq!(settled(&chat).delivered, 5);
    let turn = service
        .bodies()
        .iter()
        .position(|found| *found == body("in time"));
    assert!(turn.is_some_and(|turn| turn <= 1), "{turn:?}");
}
