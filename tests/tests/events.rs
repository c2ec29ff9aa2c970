//! What is kept of events for those who register late (RFC 0002, "PMIx Server Registrations"), as programs of the C library
//! see it.
use peal_tests::{Done, c_program, peal, run};

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
    for settings in [&[][..], &["server.event_memory=10000"]] {
        let Some(done) = late(settings, "namespace", "2000", "2000") else { return };
        assert_eq!(done.stdout, "heard 2001, from 0 to 2000, 0 out of order, 0 missed\n");
    }
}

#[test]
fn of_events_of_the_environment_the_newest_are_told_and_how_many_were_missed() {
    let Some(done) = late(&[], "session", "2000", "512") else { return };
    assert_eq!(done.stdout, "heard 513, from 1488 to 2000, 0 out of order, 1488 missed\n");
    let Some(done) = late(&["server.event_cache=7"], "session", "2000", "7") else { return };
    assert_eq!(done.stdout, "heard 8, from 1993 to 2000, 0 out of order, 1993 missed\n");
}
