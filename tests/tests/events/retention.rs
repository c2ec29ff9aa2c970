//! Events retained for handlers that register late (RFC 0002, "PMIx Server Registrations"), as
//! programs of the C library see them. `cargo xtask soak` repeats this with a million events.
use peal_model::{Info, Infos, KeyName, Range, Status, Value};
use peal_needs::needs;
use peal_server::ServerSettings;
use peal_tests::{
    c_program,
    in_process::{Node, listener, next},
    peal, run_within,
};
use std::{path::Path, time::Duration};

const NEWS: Status = Status(-3101);
const NUMBER: KeyName = KeyName("test.number");
const TEXT: KeyName = KeyName("test.text");

/// Maximum memory of a server in KiB, for any number of events before the first handler.
const MOST: u64 = 256 << 10;

/// Returns the number of events of the flood: few in tests, more in a soak.
pub(crate) fn flood() -> u32 {
    std::env::var("PEAL_FLOOD").map_or(20_000, |count| {
        count.parse().expect("PEAL_FLOOD is a number")
    })
}

/// Returns the output of a late proc that waits for this number of events.
fn late(settings: &[&str], range: &str, count: u32, expected: u32, pipe: Option<&Path>) -> String {
    let program = c_program("late");
    let mut command = peal(["run", "-n", "2"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
        .arg("--")
        .arg(program)
        .args([range, &count.to_string(), &expected.to_string()])
        .args(pipe);
    let limit = Duration::from_secs(60) + Duration::from_millis(count.into());
    let done = run_within(limit, &mut command).expect_status(0);
    let (heard, took) = done.stdout.split_once('\n').unwrap();
    let took = took
        .trim()
        .strip_prefix("the server took ")
        .and_then(|rest| rest.strip_suffix(" KiB"));
    let took: u64 = took.unwrap().parse().unwrap();
    assert!((1..MOST).contains(&took), "the server took {took} KiB");
    println!("{count} events: the server took {took} KiB");
    heard.to_owned()
}

#[needs(prepared, libpmix)]
#[test]
fn late_registration_gets_every_event_of_its_job_in_order() {
    // Also use far more than the memory limit of retained events.
    for settings in [&[][..], &["events.max_memory_bytes=10000"]] {
        let heard = late(settings, "namespace", 2000, 2000, None);
        assert_eq!(
            heard,
            "heard 2001, from 0 to 2000, 0 out of order, 0 missed"
        );
    }
}

#[needs(prepared, libpmix)]
#[test]
fn client_connecting_after_flood_gets_all_events() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let count = flood();
    let heard = late(&[], "namespace", count, count, Some(&pipe));
    assert_eq!(
        heard,
        format!(
            "heard {}, from 0 to {count}, 0 out of order, 0 missed",
            count + 1
        )
    );
}

#[needs(prepared, libpmix)]
#[test]
fn newest_environment_events_come_with_number_missed() {
    let heard = late(&[], "session", 2000, 512, None);
    assert_eq!(
        heard,
        "heard 513, from 1488 to 2000, 0 out of order, 1488 missed"
    );
    let heard = late(&["events.ring_size=7"], "session", 600, 7, None);
    assert_eq!(
        heard,
        "heard 8, from 593 to 600, 0 out of order, 593 missed"
    );
}

/// The events need more than one file.
#[tokio::test(flavor = "multi_thread")]
async fn spilled_events_come_back_whole_and_in_order() {
    const MANY: u32 = 20_000;
    let mut settings = ServerSettings::default();
    settings.core.retention.memory = 1 << 20;
    let node = Node::alone(settings, 2).await;
    let first = node.client(0).await;
    let second = node.client(1).await;
    let text = "x".repeat(2000);
    for number in 0..MANY {
        let infos = vec![
            Info::new(NUMBER, Value::Uint32(number)),
            Info::new(TEXT, Value::string(&text)),
        ];
        first.notify(NEWS, Range::Namespace, infos).await.unwrap();
    }
    assert!(node.server.counters().events_spilled.get() > 19_000);
    let (listener, mut heard) = listener();
    second.register(&[NEWS], &[], listener).await.unwrap();
    for number in 0..MANY {
        let event = next(&mut heard).await;
        assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(number)));
        assert_eq!(
            event.infos.value_of(TEXT).and_then(Value::as_str),
            Some(text.as_str())
        );
    }
    assert_eq!(node.server.counters().events_lost.get(), 0);
}
