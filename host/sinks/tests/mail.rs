//! Tests of mail with a real mail server: contents, permitted senders and recipients, and faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail"
)]
mod support;

use peal_model::{Mail, code};
use peal_needs::needs;
use peal_sinks::{
    Addresses, Credentials, Encryption, MailSettings, PeerReachability, QueueBounds,
    QueueDurability, Retry, SinkHandle, SinkHealth, SinkKind, SinkMessage, SinkSettings,
    SinkWriteError, Sinks, SmtpServer,
};
use peal_store::{Store, StoreSettings};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{
    Certificates, Process,
    smtp::{MailServer, Offers, Received},
    until, wait_for,
};

/// Tries again soon, so that no test has to wait.
const SOON: Retry = Retry {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(50),
    give_up: Duration::from_secs(3600),
};

fn server(port: u16) -> SmtpServer {
    SmtpServer {
        host: "127.0.0.1".into(),
        port,
    }
}

/// Without TLS, and in memory.
fn plain(port: u16) -> MailSettings {
    MailSettings {
        encryption: Encryption::None,
        ..MailSettings::new(server(port), "Peal <peal@site.test>")
    }
}

fn sink(mail: MailSettings) -> SinkSettings {
    let memory = SinkSettings {
        durability: QueueDurability::Memory,
        ..SinkSettings::new("mail", SinkKind::Mail(Box::new(mail)))
    };
    SinkSettings {
        retry: SOON,
        ..memory
    }
}

fn open(settings: SinkSettings, store: Option<&Arc<Store>>) -> (Sinks, Arc<SinkHandle>) {
    let sinks = Sinks::open(vec![settings], store).unwrap();
    let mail = sinks.get("mail").unwrap();
    (sinks, mail)
}

fn store(dir: &Path) -> Arc<Store> {
    Arc::new(Store::open(&dir.join("peal.db"), StoreSettings::default()).unwrap())
}

fn mail(subject: &str) -> Mail {
    let recipients = vec!["ann@site.test".to_owned()];
    let subject = subject.to_owned();
    Mail {
        recipients,
        subject,
        text: "text".into(),
        ..Mail::default()
    }
}

fn submit(sink: &SinkHandle, mail: Mail) -> Result<(), SinkWriteError> {
    sink.submit(None, SinkMessage::Mail(mail))
}

fn settled(sink: &SinkHandle) -> SinkHealth {
    wait_for("all is done", || {
        Some(sink.health()).filter(|health| health.queued == 0)
    })
}

fn password(dir: &Path) -> PathBuf {
    let path = dir.join("password");
    fs::write(&path, "secret word\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// With TLS and credentials.
fn secured(
    server: &MailServer,
    certificates: &Certificates,
    password_file: PathBuf,
) -> MailSettings {
    let credentials = Some(Credentials {
        user: "peal".into(),
        password_file,
    });
    let ca = Some(certificates.file("ca.pem"));
    MailSettings {
        encryption: Encryption::StartTls,
        ca,
        credentials,
        ..plain(server.port)
    }
}

fn arrives(text: &str) -> Received {
    let server = MailServer::plain().started();
    let (_sinks, sink) = open(sink(plain(server.port)), None);
    submit(
        &sink,
        Mail {
            text: text.into(),
            ..mail("subject")
        },
    )
    .unwrap();
    wait_for("it arrives", || server.received().pop())
}

#[needs(smtp)]
#[test]
fn a_mail_arrives_as_it_was_meant_over_starttls_with_a_password() {
    let certificates = Certificates::new();
    let dir = tempfile::tempdir().unwrap();
    let server = MailServer::new(
        Offers::StartTls,
        Some(&certificates),
        Some(("peal", "secret word")),
    )
    .started();
    let settings = secured(&server, &certificates, password(dir.path()));
    let settings = MailSettings {
        allowed_senders: Addresses::Only(vec!["@site.test".parse().unwrap()]),
        ..settings
    };
    let (sinks, sink) = open(sink(settings), None);
    let subject =
        "Größe 世界 🙂: a subject that is so long that it has to be folded, perhaps even more than once, ".repeat(3);
    let text = format!(
        "Grüße\n.\n.dot at the beginning\n..two\n{}\n\n  blanks  \n\ttab\nFrom here\n世界\nthe last line",
        "a long line, with ümlauts, ".repeat(200)
    );
    let whole = Mail {
        sender: Some("Zoë Ops <ops@site.test>".into()),
        recipients: vec![
            "ann@site.test".into(),
            "Bob B. <bob@other.test>".into(),
            "ann@site.test".into(),
        ],
        subject: subject.clone(),
        text: text.clone(),
        ..Mail::default()
    };
    submit(&sink, whole).unwrap();
    let got = wait_for("it arrives", || server.received().pop());
    assert_eq!(
        (got.from.as_str(), &got.to[..]),
        (
            "ops@site.test",
            &["ann@site.test".into(), "bob@other.test".into()][..]
        )
    );
    assert_eq!(
        (got.subject.as_str(), got.text.trim_end_matches('\n')),
        (subject.as_str(), text.as_str())
    );
    assert_eq!((got.tls, got.user.as_deref()), (true, Some("peal")));
    assert_eq!(got.header("From"), "Zoë Ops <ops@site.test>");
    assert_eq!(
        got.header("To"),
        "ann@site.test, \"Bob B.\" <bob@other.test>"
    );
    assert_eq!(got.header("Auto-Submitted"), "auto-generated");
    assert!(got.header("Message-ID").ends_with("@site.test>") && !got.header("Date").is_empty());
    assert!(got.raw.lines().all(|line| line.len() <= 998));
    // A second one on the same connection, from the sink's own address.
    submit(&sink, mail("second")).unwrap();
    until("the second one", || server.received().len() == 2);
    let second = server.received().pop().unwrap();
    assert_eq!(
        (second.header("From"), second.subject.as_str()),
        ("Peal <peal@site.test>", "second")
    );
    assert_ne!(second.header("Message-ID"), got.header("Message-ID"));
    let health = settled(&sink);
    assert_eq!(
        (health.delivered, health.retried, health.given_up),
        (2, 0, 0),
        "{health:?}"
    );
    until("it hangs up when there is nothing to do", || {
        sink.health().link == PeerReachability::Idle
    });
    assert!(sinks.close(Duration::from_secs(10)).is_empty());
}

#[needs(smtp)]
#[test]
fn any_text_arrives_intact() {
    for text in [
        "",
        "plain",
        ".",
        ".\n.\n.",
        "ends with lines\n\n",
        "\u{1b}[31mred\u{7}",
        "bare\rreturn",
        "a\u{0}b",
        &format!("{}\n.{}", "x".repeat(5000), "y".repeat(997)),
        "trailing blanks   \nnext\t\nfrom\nFrom x",
        "= =3D =\n=",
    ] {
        let got = arrives(text);
        // The last line ends, as each does in a mail.
        assert!(
            got.text == text || got.text.strip_suffix('\n') == Some(text),
            "{:?} became {:?}",
            text,
            got.raw
        );
        assert_eq!(got.to, ["ann@site.test"]);
    }
    // Line ends are those of text, whatever machine they come from.
    assert_eq!(arrives("one\r\ntwo\n").text, "one\ntwo\n");
}

#[needs(smtp)]
#[test]
fn no_part_of_a_mail_becomes_another_part() {
    let server = MailServer::plain().started();
    let any = MailSettings {
        allowed_senders: Addresses::Any,
        ..plain(server.port)
    };
    let (_sinks, sink) = open(sink(any), None);
    let bad = |mail: Mail, part: &str| {
        let refused = submit(&sink, mail).unwrap_err();
        assert_eq!(refused.status(), code::PMIX_ERR_BAD_PARAM, "{refused}");
        assert!(
            refused
                .to_string()
                .starts_with(&format!("the {part} of a mail for sink \"mail\" is ")),
            "{refused}"
        );
    };
    for subject in [
        "a\r\nBcc: eve@evil.test",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\u{85}b",
        &"x".repeat(1001),
    ] {
        bad(mail(subject), "subject");
    }
    for address in [
        "",
        "ann",
        "@site.test",
        "ann@",
        "ann@site.test\r\nRCPT TO:<eve@evil.test>",
        "ann@site.test\n",
        "Ann\r\nBcc: eve@evil.test <ann@site.test>",
        "ann@site.test, eve@evil.test",
        "<ann@site.test> <eve@evil.test>",
        "ann@site.test> SIZE=1 <eve@evil.test",
        "a b@site.test",
        "\"a b\"@site.test",
        "änn@site.test",
        "ann@site .test",
        &format!("{}@site.test", "x".repeat(500)),
    ] {
        bad(
            Mail {
                recipients: vec![address.into()],
                ..mail("s")
            },
            "recipient",
        );
        bad(
            Mail {
                sender: Some(address.into()),
                ..mail("s")
            },
            "sender",
        );
    }
    bad(
        Mail {
            recipients: vec![],
            ..mail("s")
        },
        "number of recipients",
    );
    let many = (0..101)
        .map(|number| format!("a{number}@site.test"))
        .collect();
    bad(
        Mail {
            recipients: many,
            ..mail("s")
        },
        "number of recipients",
    );
    let long = submit(
        &sink,
        Mail {
            text: "x".repeat(2 << 20),
            ..mail("s")
        },
    )
    .unwrap_err();
    assert!(
        matches!(long, SinkWriteError::TooLong { .. }) && long.status() == code::PMIX_ERR_BAD_PARAM
    );
    let bytes = sink
        .submit(None, SinkMessage::Bytes(b"x".to_vec()))
        .unwrap_err();
    assert_eq!(bytes.to_string(), "sink \"mail\" takes mails only");
    // A domain in another script is written in the letters of names.
    submit(
        &sink,
        Mail {
            recipients: vec!["ann@xn--mnchen-3ya.test".into()],
            ..mail("abroad")
        },
    )
    .unwrap();
    until("the one abroad", || server.subjects() == ["abroad"]);
    // A name with anything in it is quoted or encoded, and stays one.
    let name = "\"Eve, <eve@evil.test>; ü\" <ann@site.test>";
    submit(
        &sink,
        Mail {
            recipients: vec![name.into()],
            ..mail("good")
        },
    )
    .unwrap();
    let got = wait_for("the good one", || server.received().into_iter().nth(1));
    assert_eq!(
        (
            got.to.len(),
            got.subject.as_str(),
            got.header("To").matches("evil").count()
        ),
        (1, "good", 1)
    );
    assert_eq!(got.to, ["ann@site.test"]);
}

#[needs(smtp)]
#[test]
fn requesters_choose_within_rules_and_password_stays_private() {
    let certificates = Certificates::new();
    let dir = tempfile::tempdir().unwrap();
    let own = MailServer::new(
        Offers::StartTls,
        Some(&certificates),
        Some(("peal", "secret word")),
    )
    .started();
    let other = MailServer::new(Offers::StartTls, Some(&certificates), None).started();
    let settings = MailSettings {
        allowed_senders: Addresses::Only(vec!["ops@site.test".parse().unwrap()]),
        allowed_recipients: Addresses::Only(vec![
            "@site.test".parse().unwrap(),
            "bob@other.test".parse().unwrap(),
        ]),
        allowed_servers: vec![server(other.port)],
        ..secured(&own, &certificates, password(dir.path()))
    };
    let (_sinks, sink) = open(sink(settings), None);
    let denied = |mail: Mail| {
        let refused = submit(&sink, mail).unwrap_err();
        assert_eq!(refused.status(), code::PMIX_ERR_NO_PERMISSIONS, "{refused}");
        refused.to_string()
    };
    denied(Mail {
        sender: Some("root@site.test".into()),
        ..mail("s")
    });
    denied(Mail {
        sender: Some("The Director <peal@site.test>".into()),
        ..mail("s")
    });
    denied(Mail {
        recipients: vec!["ann@site.test".into(), "eve@other.test".into()],
        ..mail("s")
    });
    denied(Mail {
        server: Some("mail.evil.test".into()),
        ..mail("s")
    });
    let port = denied(Mail {
        port: Some(25),
        ..mail("s")
    });
    assert_eq!(
        port,
        "sink \"mail\" does not allow the server \"127.0.0.1:25\""
    );
    submit(
        &sink,
        Mail {
            sender: Some("OPS@site.test".into()),
            port: Some(own.port),
            ..mail("own")
        },
    )
    .unwrap();
    submit(
        &sink,
        Mail {
            sender: Some("peal@site.test".into()),
            server: Some("127.0.0.1".into()),
            ..mail("own, too")
        },
    )
    .unwrap();
    let recipients = vec!["bob@other.test".to_owned()];
    submit(
        &sink,
        Mail {
            recipients,
            port: Some(other.port),
            ..mail("other")
        },
    )
    .unwrap();
    until("all", || {
        (own.received().len(), other.received().len()) == (2, 1)
    });
    assert_eq!(own.subjects(), ["own", "own, too"]);
    let other = other.received().pop().unwrap();
    assert_eq!(
        (other.tls, other.user, other.to),
        (true, None, vec!["bob@other.test".to_owned()])
    );
}

#[needs(smtp)]
#[test]
fn each_recipient_gets_it_once_however_the_others_are_refused() {
    let server = MailServer::plain().started();
    let (_sinks, sink) = open(sink(plain(server.port)), None);
    let to = |recipients: &[&str], subject: &str| Mail {
        recipients: recipients
            .iter()
            .map(|name| format!("{name}@site.test"))
            .collect(),
        ..mail(subject)
    };
    submit(
        &sink,
        to(&["ann", "refused1", "later1", "bob", "later2"], "some"),
    )
    .unwrap();
    let health = settled(&sink);
    assert_eq!(
        (
            health.delivered,
            health.recipients_given_up,
            health.given_up
        ),
        (1, 1, 0),
        "{health:?}"
    );
    let got = server.received();
    assert_eq!(got[0].to, ["ann@site.test", "bob@site.test"]);
    assert_eq!(got[1].to, ["later1@site.test", "later2@site.test"]);
    assert_eq!(
        (got.len(), got[0].header("Message-ID")),
        (2, got[1].header("Message-ID"))
    );
    submit(&sink, to(&["refused1", "refused2"], "none")).unwrap();
    let health = settled(&sink);
    assert_eq!((health.delivered, health.given_up), (1, 1), "{health:?}");
    assert!(health.last_error.unwrap().contains("refused2@site.test: "));
    submit(&sink, mail("[later] then")).unwrap();
    submit(&sink, mail("[never] at all")).unwrap();
    submit(&sink, mail("good")).unwrap();
    let health = settled(&sink);
    assert_eq!((health.delivered, health.given_up), (3, 2), "{health:?}");
    let mut subjects = server.subjects().split_off(2);
    subjects.sort();
    assert_eq!(subjects, ["[later] then", "good"]);
}

#[needs(smtp)]
#[test]
fn mail_with_lost_answer_is_resent_with_same_id() {
    let server = MailServer::plain().started();
    let (_sinks, sink) = open(sink(plain(server.port)), None);
    submit(&sink, mail("[lost]")).unwrap();
    until("it came twice", || server.received().len() == 2);
    let health = settled(&sink);
    assert_eq!((health.delivered, health.retried), (1, 1));
    let got = server.received();
    assert_eq!(got[0].header("Message-ID"), got[1].header("Message-ID"));
}

#[needs(smtp)]
#[test]
fn down_mail_server_delays_mail_only_and_all_arrives_once() {
    let mut down = MailServer::plain();
    let dir = tempfile::tempdir().unwrap();
    let file = SinkKind::File(peal_sinks::FileSettings::new(dir.path().join("log")));
    let up = MailServer::plain().started();
    let other = SinkSettings {
        name: "other".into(),
        ..sink(plain(up.port))
    };
    let sinks = Sinks::open(
        vec![
            sink(plain(down.port)),
            other,
            SinkSettings::new("file", file),
        ],
        None,
    )
    .unwrap();
    let mails = sinks.get("mail").unwrap();
    let other = sinks.get("other").unwrap();
    let file = sinks.get("file").unwrap();
    for number in 0..20 {
        submit(&mails, mail(&format!("number {number:02}"))).unwrap();
    }
    until("it is seen that nobody is there", || {
        mails.health().retried > 2
    });
    assert_eq!(
        (mails.health().link, mails.health().queued),
        (PeerReachability::Lost, 20)
    );
    submit(&other, mail("to the other one")).unwrap();
    file.submit(None, SinkMessage::Bytes(b"line".to_vec()))
        .unwrap();
    assert_eq!((settled(&other).delivered, file.health().delivered), (1, 1));
    down.start();
    let health = settled(&mails);
    assert_eq!((health.delivered, health.given_up), (20, 0));
    let wanted: Vec<String> = (0..20)
        .map(|number| format!("number {number:02}"))
        .collect();
    assert_eq!(down.subjects(), wanted);
    // And goes, while there is a connection or was one a moment ago.
    down.stop();
    submit(&mails, mail("later")).unwrap();
    until("it is seen that it has gone", || {
        mails.health().link == PeerReachability::Lost
    });
    down.start();
    settled(&mails);
    // The second process writes files that sort in another place.
    assert_eq!(
        down.subjects()
            .iter()
            .filter(|subject| *subject == "later")
            .count(),
        1
    );
    assert_eq!(down.received().len(), 21);
}

#[needs(smtp)]
#[test]
fn mail_queued_at_kill_arrives_once() {
    const TEST: &str = "mail_queued_at_kill_arrives_once";
    if let Some(dir) = std::env::var_os("PEAL_KILLED_DIR").map(PathBuf::from) {
        let port = std::env::var("PEAL_KILLED_PORT").unwrap().parse().unwrap();
        let durable = SinkSettings {
            durability: QueueDurability::Store,
            ..sink(plain(port))
        };
        let (_sinks, sink) = open(durable, Some(&store(&dir)));
        for number in 0..10 {
            submit(&sink, mail(&format!("number {number}"))).unwrap();
        }
        println!("\nqueued");
        // Until it is killed.
        loop {
            std::thread::park();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut server = MailServer::plain();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", TEST, "--nocapture"])
        .env("PEAL_KILLED_DIR", dir.path());
    let mut process = Process::start(
        command
            .env("PEAL_KILLED_PORT", server.port.to_string())
            .stdout(Stdio::piped()),
    );
    let said = BufReader::new(process.0.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find(|line| line == "queued");
    assert_eq!(said.as_deref(), Some("queued"));
    let store = store(dir.path());
    let durable = SinkSettings {
        durability: QueueDurability::Store,
        ..sink(plain(server.port))
    };
    // One that starts while the other lives leaves to that what is its.
    server.start();
    server.stop();
    let (early, handle) = open(durable.clone(), Some(&store));
    assert_eq!(handle.health().queued, 0);
    drop((early, handle));
    process.kill();
    assert_eq!(
        store.outboxes().unwrap().messages_by_sink().unwrap()["mail"],
        10
    );
    server.start();
    let (sinks, handle) = open(durable.clone(), Some(&store));
    until("all arrive", || handle.health().delivered == 10);
    assert!(sinks.close(Duration::from_secs(10)).is_empty());
    let (sinks, handle) = open(durable, Some(&store));
    submit(&handle, mail("last")).unwrap();
    until("one more", || handle.health().delivered == 1);
    drop(sinks);
    let wanted: Vec<String> = (0..10)
        .map(|number| format!("number {number}"))
        .chain(["last".into()])
        .collect();
    assert_eq!(server.subjects(), wanted);
}

#[needs(smtp)]
#[test]
fn full_queue_refuses_and_stored_mail_counts() {
    let dir = tempfile::tempdir().unwrap();
    let down = MailServer::plain();
    let store = store(dir.path());
    let bounds = QueueBounds {
        messages: 3,
        bytes: 1 << 20,
        ..QueueBounds::default()
    };
    for durability in [QueueDurability::Memory, QueueDurability::Store] {
        let settings = SinkSettings {
            durability,
            queue: bounds,
            ..sink(plain(down.port))
        };
        let (sinks, sink) = open(settings.clone(), Some(&store));
        for _ in 0..3 {
            submit(&sink, mail("s")).unwrap();
        }
        let refused = submit(&sink, mail("s")).unwrap_err();
        assert_eq!(
            refused.status(),
            code::PMIX_ERR_OUT_OF_RESOURCE,
            "{refused}"
        );
        assert_eq!((sink.health().queued, sink.health().refused), (3, 1));
        assert!(sinks.close(Duration::ZERO).len() <= 1);
        until("it ends", || sink.health().queued == 0);
        drop((sinks, sink));
        if durability == QueueDurability::Store {
            // The next one begins with as many.
            let (_sinks, sink) = open(settings, Some(&store));
            until("they are taken over", || sink.health().queued == 3);
            assert_eq!(
                submit(&sink, mail("s")).unwrap_err().status(),
                code::PMIX_ERR_OUT_OF_RESOURCE
            );
        }
    }
}

#[needs(smtp)]
#[test]
fn old_mail_is_dropped_and_counted() {
    let told = Told::default();
    let to = told.clone();
    // For all threads, of which the sink's is one. No other test here does this.
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || to.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let down = MailServer::plain();
    let retry = Retry {
        give_up: Duration::ZERO,
        ..SOON
    };
    let (_sinks, sink) = open(
        SinkSettings {
            retry,
            ..sink(plain(down.port))
        },
        None,
    );
    submit(&sink, mail("s")).unwrap();
    let health = settled(&sink);
    assert_eq!(
        (health.given_up, health.delivered, health.queued_bytes),
        (1, 0, 0)
    );
    let reason = health.last_error.unwrap();
    assert!(
        reason.starts_with("the message is too old, and 127.0.0.1:"),
        "{reason}"
    );
    let text = String::from_utf8(told.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.lines()
            .any(|line| line.contains("sink message given up") && line.contains(&reason)),
        "{text}"
    );
}

/// Captured log output.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[needs(smtp)]
#[test]
fn full_store_refuses_mail_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let small = StoreSettings {
        max_bytes: 200_000,
        ..StoreSettings::default()
    };
    let store = Arc::new(Store::open(&dir.path().join("peal.db"), small).unwrap());
    let mut server = MailServer::plain();
    let durable = SinkSettings {
        durability: QueueDurability::Store,
        ..sink(plain(server.port))
    };
    let (_sinks, sink) = open(durable, Some(&store));
    let large = || Mail {
        text: "x".repeat(20_000),
        ..mail("large")
    };
    let refused = (0..20)
        .find_map(|_| submit(&sink, large()).err())
        .expect("it is never full");
    assert_eq!(
        refused.status(),
        code::PMIX_ERR_OUT_OF_RESOURCE,
        "{refused}"
    );
    let queued = sink.health().queued;
    server.start();
    assert_eq!(settled(&sink).delivered, queued);
    submit(&sink, large()).unwrap();
    assert_eq!(settled(&sink).delivered, queued + 1);
    assert_eq!(server.received().len() as u64, queued + 1);
}

#[needs(smtp)]
#[test]
fn mail_goes_to_trusted_servers_encrypted_as_configured() {
    let certificates = Certificates::new();
    let strangers = Certificates::new();
    let dir = tempfile::tempdir().unwrap();
    let bare = MailServer::plain().started();
    let offering = MailServer::new(Offers::StartTls, Some(&certificates), None).started();
    let wrapped = MailServer::new(Offers::Tls, Some(&certificates), None).started();
    let with = |server: &MailServer, encryption, authority: &Certificates| MailSettings {
        encryption,
        ca: Some(authority.file("ca.pem")),
        // A server that was told that it is not trusted may say nothing any more.
        timeout: Duration::from_secs(5),
        ..plain(server.port)
    };
    for (server, encryption, is_encrypted) in [
        (&bare, Encryption::StartTlsIfOffered, false),
        (&offering, Encryption::StartTlsIfOffered, true),
        (&offering, Encryption::StartTls, true),
        (&wrapped, Encryption::Tls, true),
    ] {
        let before = server.received().len();
        let (_sinks, sink) = open(sink(with(server, encryption, &certificates)), None);
        submit(&sink, mail("s")).unwrap();
        until("it arrives", || server.received().len() == before + 1);
        assert_eq!(
            server.received()[before].tls,
            is_encrypted,
            "{encryption:?}"
        );
    }
    let told = |settings: MailSettings| {
        let (sinks, sink) = open(sink(settings), None);
        submit(&sink, mail("secret")).unwrap();
        until("it is seen that this does not go", || {
            sink.health().retried > 0
        });
        let health = sink.health();
        assert_eq!(
            (health.delivered, health.given_up, health.link),
            (0, 0, PeerReachability::Lost),
            "{health:?}"
        );
        sinks.close(Duration::ZERO);
        health.last_error.unwrap()
    };
    assert!(
        told(with(&bare, Encryption::StartTls, &certificates))
            .ends_with("the server does not offer STARTTLS")
    );
    for (server, encryption) in [
        (&offering, Encryption::StartTls),
        (&offering, Encryption::StartTlsIfOffered),
        (&wrapped, Encryption::Tls),
    ] {
        let reason = told(with(server, encryption, &strangers));
        assert!(reason.contains("certificate"), "{reason}");
    }
    // A password is not said where somebody may listen, or wrong ones.
    let credentials = Some(Credentials {
        user: "peal".into(),
        password_file: password(dir.path()),
    });
    let open_password = MailSettings {
        credentials,
        ..with(&bare, Encryption::StartTlsIfOffered, &certificates)
    };
    assert!(told(open_password.clone()).ends_with("a password is not sent without encryption"));
    let asking = MailServer::new(
        Offers::StartTls,
        Some(&certificates),
        Some(("peal", "another")),
    )
    .started();
    let reason = told(secured(&asking, &certificates, password(dir.path())));
    assert!(
        reason.contains("authentication: permanent error (535)"),
        "{reason}"
    );
    for server in [&bare, &offering, &wrapped, &asking] {
        assert!(!server.subjects().contains(&"secret".to_owned()));
    }
    let error = Sinks::open(
        vec![sink(MailSettings {
            encryption: Encryption::None,
            ..open_password
        })],
        None,
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("encryption is none, it must be start-tls")
    );
    let empty = dir.path().join("empty.pem");
    fs::write(&empty, "no certificate").unwrap();
    let error = Sinks::open(
        vec![sink(MailSettings {
            ca: Some(empty),
            ..plain(25)
        })],
        None,
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.ends_with("empty.pem: the file has no certificate (PEM)"),
        "{error}"
    );
    let error = Sinks::open(
        vec![sink(MailSettings {
            sender: "nobody".into(),
            ..plain(25)
        })],
        None,
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("sink \"mail\": sender is \"nobody\", it must be an address")
    );
}
