//! Tests of syslog with a real rsyslog: each transport, an unreachable and returning peer, and
//! trust.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;

use peal_model::code;
use peal_needs::needs;
use peal_sinks::{
    Address, PeerReachability, QueueBounds, QueueDurability, Retry, SinkHandle, SinkKind,
    SinkMessage, SinkSettings, SinkWriteError, Sinks, SyslogSettings, TlsIdentity, TlsSettings,
};
use peal_store::{Store, StoreSettings};
use std::{net::TcpListener, os::unix::net::UnixDatagram, sync::Arc, time::Duration};
use support::{Certificates, free_port, rsyslog::Rsyslog, until, wait_for};

/// Tries again soon, so that no test has to wait.
const SOON: Retry = Retry {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(50),
    give_up: Duration::from_secs(3600),
};

fn sink(name: &str, syslog: SyslogSettings) -> SinkSettings {
    SinkSettings {
        retry: SOON,
        ..SinkSettings::new(name, SinkKind::Syslog(syslog))
    }
}

fn to(address: &str) -> SyslogSettings {
    SyslogSettings::new(address.parse().unwrap())
}

fn open_one(settings: SinkSettings) -> (Sinks, Arc<SinkHandle>) {
    let name = settings.name.clone();
    let sinks = Sinks::open(vec![settings], None).unwrap();
    let one = sinks.get(&name).unwrap();
    (sinks, one)
}

fn tls(port: u16, certificates: &Certificates) -> SyslogSettings {
    let identity = TlsIdentity {
        certificate: certificates.file("client.pem"),
        key: certificates.file("client.key"),
    };
    let tls = TlsSettings {
        ca: Some(certificates.file("ca.pem")),
        identity: Some(identity),
    };
    SyslogSettings {
        tls,
        ..to(&format!("tls://127.0.0.1:{port}"))
    }
}

fn message(text: &str) -> SinkMessage {
    SinkMessage::Bytes(
        format!("<29>1 2026-11-22T05:00:00.5Z node1 app 7 id [a@1 b=\"c\"] {text}").into_bytes(),
    )
}

/// As rsyslog writes that.
fn line(text: &str) -> String {
    format!("29|2026-11-22T05:00:00.5Z|node1|app|7|id|[a@1 b=\"c\"]|{text}")
}

#[needs(rsyslog)]
#[test]
fn messages_arrive_by_every_way_as_they_were_written() {
    let rsyslog = Rsyslog::started();
    let unix = format!("unix:{}", rsyslog.file("log").display());
    let sinks = Sinks::open(
        vec![
            sink("unix", to(&unix)),
            sink("udp", to(&format!("udp://127.0.0.1:{}", rsyslog.udp))),
            sink("tcp", to(&format!("tcp://127.0.0.1:{}", rsyslog.tcp))),
            sink("tls", tls(rsyslog.tls, &rsyslog.certificates)),
        ],
        None,
    )
    .unwrap();
    let long = "x".repeat(7000);
    let texts = [
        "one",
        "",
        "Grüße, 世界 🙂",
        "12 <13>1 looks like a frame",
        "a|b %msg% \\n",
        &long,
        "last",
    ];
    for way in ["unix", "udp", "tcp", "tls"] {
        let sink = sinks.get(way).unwrap();
        for text in texts {
            sink.submit(None, message(text)).unwrap();
        }
    }
    let mut wanted: Vec<String> = texts.iter().map(|text| line(text)).collect();
    for way in ["unix", "udp", "tcp", "tls"] {
        until(&format!("all messages by {way}"), || {
            rsyslog.lines(way).len() == texts.len()
        });
        let mut lines = rsyslog.lines(way);
        if way == "udp" {
            // There is no order between datagrams, though there is one in fact.
            lines.sort();
            wanted.sort();
            assert_eq!(lines, wanted, "{way}");
            wanted = texts.iter().map(|text| line(text)).collect();
        } else {
            assert_eq!(lines, wanted, "{way}");
        }
        let sink = sinks.get(way).unwrap();
        until("all is counted", || sink.health().queued == 0);
        let health = sink.health();
        assert_eq!(
            (health.delivered, health.given_up, health.retried),
            (texts.len() as u64, 0, 0),
            "{health:?}"
        );
        assert_eq!(health.link, PeerReachability::Connected);
    }
    assert_eq!(sinks.close(Duration::from_secs(10)), Vec::<String>::new());
}

#[needs(rsyslog)]
#[test]
fn message_able_to_forge_another_is_never_sent() {
    let rsyslog = Rsyslog::started();
    let (sinks, tcp) = open_one(sink("tcp", to(&format!("tcp://127.0.0.1:{}", rsyslog.tcp))));
    for text in [
        "a\n<8>1 - - su - - - forged",
        "a\0b",
        "a\rb",
        "\u{1b}[2J",
        "\u{85}",
        "\u{2028}",
    ] {
        let refused = tcp.submit(None, message(text)).unwrap_err();
        assert!(
            matches!(refused, SinkWriteError::NoLine { .. }),
            "{refused}"
        );
        assert_eq!(refused.status(), code::PMIX_ERR_BAD_PARAM);
    }
    let refused = tcp.submit(None, message(&"x".repeat(8192))).unwrap_err();
    assert_eq!(refused.status(), code::PMIX_ERR_BAD_PARAM);
    tcp.submit(None, message("good")).unwrap();
    until("the good one", || rsyslog.lines("tcp") == [line("good")]);
    assert_eq!(tcp.health().refused, 7);
    drop(sinks);
}

#[needs(rsyslog)]
#[test]
fn restarted_server_gets_every_message_once() {
    for way in ["unix", "tcp", "tls"] {
        let mut rsyslog = Rsyslog::new();
        let settings = match way {
            "unix" => to(&format!("unix:{}", rsyslog.file("log").display())),
            "tcp" => to(&format!("tcp://127.0.0.1:{}", rsyslog.tcp)),
            _ => tls(rsyslog.tls, &rsyslog.certificates),
        };
        let (sinks, sink) = open_one(sink(way, settings));
        let mut wanted = Vec::new();
        let mut number = 0;
        let mut submit = |wanted: &mut Vec<String>| {
            number += 1;
            sink.submit(None, message(&format!("message {number}")))
                .unwrap();
            wanted.push(line(&format!("message {number}")));
        };
        // Before it is there at all.
        for _ in 0..5 {
            submit(&mut wanted);
        }
        until("it is seen that nobody is there", || {
            sink.health().link == PeerReachability::Lost
        });
        assert_eq!(sink.health().queued, 5);
        rsyslog.start();
        until("those before the start", || rsyslog.lines(way) == wanted);
        // It goes while nothing is being sent; the kernel says so to those who ask.
        rsyslog.stop();
        for _ in 0..3 {
            submit(&mut wanted);
        }
        until("it is seen that nobody is there any more", || {
            sink.health().link == PeerReachability::Lost
        });
        assert!(sink.health().last_error.unwrap().contains(way), "{way}");
        rsyslog.start();
        submit(&mut wanted);
        // A message is counted after it was sent: rsyslog may write it first.
        until("those from the time without it", || {
            rsyslog.lines(way).len() >= wanted.len() && sink.health().delivered >= 9
        });
        assert_eq!(rsyslog.lines(way), wanted, "{way}");
        let health = sink.health();
        assert_eq!((health.delivered, health.given_up), (9, 0));
        assert!(sinks.close(Duration::from_secs(10)).is_empty());
    }
}

#[needs(rsyslog)]
#[test]
fn untrusted_server_gets_nothing_and_distrusting_one_loses_none() {
    let rsyslog = Rsyslog::started();
    let others = Certificates::new();
    let right = tls(rsyslog.tls, &rsyslog.certificates);
    let good = right.tls.clone();
    let with = |ca: &Certificates, identity| TlsSettings {
        ca: Some(ca.file("ca.pem")),
        identity,
    };
    let foreign = TlsIdentity {
        certificate: others.file("client.pem"),
        key: others.file("client.key"),
    };
    let cases = [
        (
            "whose authority we do not know",
            with(&others, good.identity.clone()),
        ),
        (
            "who does not know our authority",
            with(&rsyslog.certificates, Some(foreign)),
        ),
        (
            "who wants to know who we are",
            with(&rsyslog.certificates, None),
        ),
    ];
    for (which, settings) in cases {
        let (sinks, sink) = open_one(sink(
            "tls",
            SyslogSettings {
                tls: settings,
                ..right.clone()
            },
        ));
        sink.submit(None, message(which)).unwrap();
        until(which, || sink.health().retried > 1);
        let health = sink.health();
        assert_eq!(
            (health.delivered, health.queued, health.link),
            (0, 1, PeerReachability::Lost),
            "{which}: {health:?}"
        );
        sinks.close(Duration::ZERO);
    }
    let elsewhere = SyslogSettings {
        address: format!("tls://localhost:{}", rsyslog.tls).parse().unwrap(),
        ..right.clone()
    };
    let (_sinks, wrong) = open_one(sink("tls", elsewhere));
    wrong
        .submit(None, message("a server of another name"))
        .unwrap();
    until("that is seen", || {
        wrong.health().link == PeerReachability::Lost
    });
    let reason = wrong.health().last_error.unwrap();
    assert!(reason.contains("localhost"), "{reason}");
    let (_sinks, good) = open_one(sink("tls", right));
    good.submit(None, message("good")).unwrap();
    until("the good one", || rsyslog.lines("tls") == [line("good")]);
}

#[needs(rsyslog)]
#[test]
fn oversized_datagram_is_dropped_and_counted_and_next_arrives() {
    let rsyslog = Rsyslog::started();
    let udp = SyslogSettings {
        max_message: 1 << 20,
        ..to(&format!("udp://127.0.0.1:{}", rsyslog.udp))
    };
    let (_sinks, udp) = open_one(sink("udp", udp));
    udp.submit(None, message(&"x".repeat(70_000))).unwrap();
    udp.submit(None, message("short")).unwrap();
    until("the short one", || rsyslog.lines("udp") == [line("short")]);
    let health = udp.health();
    assert_eq!(health.given_up, 1);
    assert!(
        health
            .last_error
            .unwrap()
            .contains("accepts no datagram of 70")
    );
}

#[needs(rsyslog)]
#[test]
fn slow_reader_delays_own_sink_only_and_full_queue_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    // Bound, and never read.
    let _deaf = UnixDatagram::bind(dir.path().join("deaf")).unwrap();
    let rsyslog = Rsyslog::started();
    let deaf = SinkSettings {
        queue: QueueBounds {
            messages: 1000,
            bytes: 100_000,
            ..QueueBounds::default()
        },
        ..sink(
            "deaf",
            SyslogSettings {
                timeout: Duration::from_millis(20),
                ..to(&format!("unix:{}/deaf", dir.path().display()))
            },
        )
    };
    let good = sink("good", to(&format!("tcp://127.0.0.1:{}", rsyslog.tcp)));
    let sinks = Sinks::open(vec![deaf, good], None).unwrap();
    let deaf = sinks.get("deaf").unwrap();
    let good = sinks.get("good").unwrap();
    let refused = wait_for("it is full", || {
        deaf.submit(None, message(&"x".repeat(500))).err()
    });
    assert_eq!(refused.status(), code::PMIX_ERR_OUT_OF_RESOURCE);
    assert_eq!(
        refused.to_string(),
        "sink \"deaf\" is full; its limits are 1000 messages and 100000 bytes"
    );
    let health = deaf.health();
    assert!(
        health.queued_bytes <= 100_000 && health.queued_bytes > 99_000,
        "{health:?}"
    );
    good.submit(None, message("good")).unwrap();
    until("the good one", || rsyslog.lines("tcp") == [line("good")]);
    // What is in memory is lost at the end, which is counted.
    sinks.close(Duration::from_millis(50));
    until("it ends", || deaf.health().queued == 0);
    assert!(deaf.health().given_up > 0);
    assert!(matches!(
        deaf.submit(None, message("late")),
        Err(SinkWriteError::Closed { .. })
    ));
}

#[test]
fn full_unread_connection_is_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let patient = SyslogSettings {
        max_message: 1 << 20,
        timeout: Duration::from_millis(50),
        ..to(&address)
    };
    let queue = QueueBounds {
        messages: 1000,
        bytes: 64 << 20,
        ..QueueBounds::default()
    };
    // So late that it stays as it is found.
    let retry = Retry {
        first: Duration::from_secs(3600),
        longest: Duration::from_secs(3600),
        ..SOON
    };
    let (_sinks, tcp) = open_one(SinkSettings {
        queue,
        retry,
        ..sink("tcp", patient)
    });
    // It connects, since the system answers for the one who does not, and takes what the system has
    // room for.
    for _ in 0..60 {
        tcp.submit(None, message(&"x".repeat(1_000_000))).unwrap();
    }
    let health = wait_for("it is seen that nobody reads", || {
        Some(tcp.health()).filter(|health| health.retried == 1)
    });
    assert_eq!(health.link, PeerReachability::Lost);
    assert!(health.queued > 0 && health.given_up == 0, "{health:?}");
    assert!(
        health
            .last_error
            .as_ref()
            .is_some_and(|reason| reason.starts_with(&address)),
        "{health:?}"
    );
}

#[needs(rsyslog)]
#[test]
fn queued_messages_are_delivered_before_exit_in_time() {
    let mut rsyslog = Rsyslog::new();
    let (sinks, tcp) = open_one(sink("tcp", to(&format!("tcp://127.0.0.1:{}", rsyslog.tcp))));
    for number in 0..100 {
        tcp.submit(None, message(&number.to_string())).unwrap();
    }
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| sinks.close(Duration::from_secs(60)));
        until("it closes", || tcp.submit(None, message("late")).is_err());
        rsyslog.start();
        assert!(closing.join().unwrap().is_empty());
    });
    // Some that were late were not too late.
    let in_time = || -> Vec<String> {
        let mut lines = rsyslog.lines("tcp");
        lines.retain(|text| *text != line("late"));
        lines
    };
    until("all", || in_time().len() >= 100);
    let all: Vec<String> = (0..100).map(|number| line(&number.to_string())).collect();
    assert_eq!(in_time(), all);
}

#[needs(rsyslog)]
#[test]
fn stored_messages_are_delivered_by_next_process() {
    let mut rsyslog = Rsyslog::new();
    let dir = tempfile::tempdir().unwrap();
    let store =
        Arc::new(Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap());
    let durable = SinkSettings {
        durability: QueueDurability::Store,
        ..sink("global", to(&format!("tcp://127.0.0.1:{}", rsyslog.tcp)))
    };
    let error = Sinks::open(vec![durable.clone()], None)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "sink \"global\" has durability `store`, and no store is configured"
    );
    for number in 0..3 {
        let sinks = Sinks::open(vec![durable.clone()], Some(&store)).unwrap();
        sinks
            .get("global")
            .unwrap()
            .submit(None, message(&number.to_string()))
            .unwrap();
        assert!(
            sinks.close(Duration::from_secs(60)).is_empty(),
            "with a store nobody need be waited for"
        );
    }
    rsyslog.start();
    let sinks = Sinks::open(vec![durable], Some(&store)).unwrap();
    let all: Vec<String> = (0..3).map(|number| line(&number.to_string())).collect();
    until("all", || rsyslog.lines("tcp") == all);
    let global = sinks.get("global").unwrap();
    until("nothing is left", || global.health().queued == 0);
    assert_eq!(
        store.outboxes().unwrap().messages_by_sink().unwrap().len(),
        0
    );
}

#[test]
fn settings_that_cannot_work_are_refused_with_words() {
    let name_of =
        |settings: Vec<SinkSettings>| Sinks::open(settings, None).unwrap_err().to_string();
    let udp = || sink("one", to("udp://127.0.0.1:514"));
    let error = name_of(vec![udp(), udp()]);
    assert_eq!(
        error,
        "two sinks are named \"one\": each name must be unique"
    );
    let error = name_of(vec![SinkSettings {
        queue: QueueBounds {
            messages: 0,
            bytes: 1,
            ..QueueBounds::default()
        },
        ..udp()
    }]);
    assert_eq!(
        error,
        "sink \"one\": queue.messages is 0, it must be at least 1"
    );
    let mut tls = to("tls://127.0.0.1:6514");
    tls.tls.ca = Some("/no/such/ca.pem".into());
    let error = name_of(vec![sink("one", tls)]);
    assert!(
        error.starts_with(
            "sink \"one\": certificate \"/no/such/ca.pem\" could not be read: No such file"
        ),
        "{error}"
    );
    assert!("tcp:/x".parse::<Address>().is_err());
    // Nobody is asked for when a sink is opened.
    let nobody = TcpListener::bind(("127.0.0.1", free_port()))
        .unwrap()
        .local_addr()
        .unwrap();
    drop(open_one(sink("one", to(&format!("tcp://{nobody}")))));
}
