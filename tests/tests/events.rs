//! What is kept of events for those who register late (RFC 0002, "PMIx Server Registrations"), as programs of the C library
//! see it. A million of them is `cargo xtask soak`'s.
use peal_model::{Info, Infos, KeyName, Range, Status, Value};
use peal_server::ServerSettings;
use peal_tests::{
    Done, c_program,
    in_process::{Node, listener, next},
    peal, run,
};

const NEWS: Status = Status(-3101);
const NUMBER: KeyName = KeyName("test.number");
const TEXT: KeyName = KeyName("test.text");

fn late(settings: &[&str], range: &str, count: &str, expected: &str) -> Option<Done> {
    let program = c_program("late")?;
    let mut command = peal(["run", "-n", "2"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    Some(run(command.arg("--").arg(program).args([range, count, expected])).expect_status(0))
}

#[test]
fn who_registers_late_is_told_every_event_about_its_job_in_order() {
    // Much more than the memory for them, too.
    for settings in [&[][..], &["events.memory_limit=10000"]] {
        let Some(done) = late(settings, "namespace", "2000", "2000") else { return };
        assert_eq!(done.stdout, "heard 2001, from 0 to 2000, 0 out of order, 0 missed\n");
    }
}

#[test]
fn of_events_of_the_environment_the_newest_are_told_and_how_many_were_missed() {
    let Some(done) = late(&[], "session", "2000", "512") else { return };
    assert_eq!(done.stdout, "heard 513, from 1488 to 2000, 0 out of order, 1488 missed\n");
    let Some(done) = late(&["events.ring_size=7"], "session", "600", "7") else { return };
    assert_eq!(done.stdout, "heard 8, from 593 to 600, 0 out of order, 593 missed\n");
}

/// More than one file of them.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_spilled_comes_back_whole_and_in_order() {
    const MANY: u32 = 20_000;
    let mut settings = ServerSettings::default();
    settings.core.event_memory = 1 << 20;
    let node = Node::alone(settings, 2).await;
    let (first, second) = (node.client(0).await, node.client(1).await);
    let text = "x".repeat(2000);
    for number in 0..MANY {
        let infos = vec![Info::new(NUMBER, Value::Uint32(number)), Info::new(TEXT, Value::string(&text))];
        first.notify(NEWS, Range::Namespace, infos).await.unwrap();
    }
    assert!(node.server.counters().events_spilled.get() > 19_000);
    let (listener, mut heard) = listener();
    second.register(&[NEWS], &[], listener).await.unwrap();
    for number in 0..MANY {
        let event = next(&mut heard).await;
        assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(number)));
        assert_eq!(event.infos.value_of(TEXT).and_then(Value::as_str), Some(text.as_str()));
    }
    assert_eq!(node.server.counters().events_lost.get(), 0);
}
