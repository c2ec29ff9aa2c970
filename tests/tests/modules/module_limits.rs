//! Guests written to do harm, in a real server beside others. Each is interrupted by the intended
//! limit, which is reported, and no other module or client is affected.
use peal_client::{ClassFilter, Client};
use peal_model::{Range, Status};
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    in_process::{listener, next},
    text_form::assemble,
    until,
};

/// Event of the environment, for which no harmful handler is registered.
const CALM: Status = Status(-9000);

/// Code of the event, status of the call, name of the limit, and text in the trace.
const BOMBS: [(i32, &str, &str, &str); 8] = [
    (
        -9001,
        "PEAL_ERR_MODULE_MEMORY",
        "memory_bytes",
        "(limits.memory_bytes)",
    ),
    (
        -9002,
        "PEAL_ERR_MODULE_TIMEOUT",
        "call_time_ms",
        "the call ran longer than 200ms (limits.call_time_ms)",
    ),
    (
        -9003,
        "PEAL_ERR_MODULE_HOST_CALLS",
        "host_calls",
        "made more than the 2000 host calls that one call may make (limits.host_calls)",
    ),
    (
        -9004,
        "PEAL_ERR_MODULE_OUTPUT",
        "output_bytes",
        "(limits.output_bytes)",
    ),
    (
        -9005,
        "PMIX_EVENT_NO_ACTION_TAKEN",
        "log_lines_per_second",
        "trace lines of module left out",
    ),
    (
        -9006,
        "PEAL_ERR_MODULE_TRAPPED",
        "stack",
        "call stack exhausted (stack",
    ),
    (
        -9007,
        "PEAL_ERR_MODULE_TIMEOUT",
        "call_time_ms",
        "(limits.call_time_ms)",
    ),
    (
        -9008,
        "PEAL_ERR_MODULE_MEMORY",
        "memory_bytes",
        "(limits.memory_bytes)",
    ),
];

/// Writes a configuration with a harmful handler that belongs to a job, and further settings.
fn configure(place: &Place, more: &str) {
    let file = place.path("bomb.wasm");
    std::fs::write(&file, assemble(include_str!("../../wat/bomb.wat"))).unwrap();
    let head = format!(
        "[[module]]\nname = \"bomb\"\npath = {file:?}\nscope = \"namespace:mine\"\ngrants = [\"logging\"]\n"
    );
    place.configure(&(head + more));
}

/// Returns the only proc of a job, connected.
async fn proc(daemon: &Daemon, job: &str) -> Client {
    daemon.tell(&["job", "register", job, "-n", "1"]);
    daemon.client(job, 0).await
}

/// Waits until this number of calls of the handler are over. Returns the stats then.
fn after(daemon: &Daemon, calls: usize) -> String {
    let is_it = |line: &str| line.contains("module_calls") && line.contains("module=\"bomb\"");
    let wanted = format!("{calls} ");
    let mut stats = String::new();
    until("the harmful handler has been called", || {
        stats = daemon.tell(&["stats"]);
        stats
            .lines()
            .any(|line| is_it(line) && line.trim_start().starts_with(&wanted))
    });
    stats
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn each_harmful_guest_is_stopped_by_named_limit_and_others_run() {
    let place = Place::new();
    configure(
        &place,
        "limits = { call_time_ms = 200, host_calls = 2000, memory_bytes = 33554432, log_lines_per_second = 200, failures = 0 }\n",
    );
    let daemon = place.start();
    let mine = proc(&daemon, "mine").await;
    let other = proc(&daemon, "other").await;
    let (handler, mut heard) = listener();
    other
        .register(&[CALM], &ClassFilter::Both.directives(), handler)
        .await
        .unwrap();
    for (number, (code, ..)) in BOMBS.iter().enumerate() {
        mine.notify(Status(*code), Range::Namespace, Vec::new())
            .await
            .unwrap();
        // The event is raised while the harmful handler runs.
        mine.notify(CALM, Range::Session, Vec::new()).await.unwrap();
        next(&mut heard).await;
        after(&daemon, number + 1);
    }
    let stats = daemon.tell(&["stats"]);
    for (code, _, limit, _) in BOMBS {
        let line = stats.lines().find(|line| {
            line.contains("limit_hits") && line.contains(&format!("limit=\"{limit}\""))
        });
        assert!(
            line.is_some_and(|line| line.contains("module=\"bomb\"")),
            "{code}: no {limit} in {stats}"
        );
    }
    drop((mine, other));
    daemon.tell(&["drain"]);
    let said = daemon.ends().stderr;
    for (code, _, _, why) in BOMBS {
        assert!(said.contains(why), "{code}: no {why:?} in {said}");
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_keeps_failing_is_called_no_more() {
    let place = Place::new();
    configure(
        &place,
        "limits = { failures = 3, failure_window_ms = 60000 }\n",
    );
    let daemon = place.start();
    let mine = proc(&daemon, "mine").await;
    for _ in 0..6 {
        mine.notify(Status(-9009), Range::Namespace, Vec::new())
            .await
            .unwrap();
    }
    let stats = after(&daemon, 6);
    let quarantined = stats
        .lines()
        .find(|line| line.contains("limit=\"failures\""))
        .unwrap_or_else(|| panic!("{stats}"));
    assert!(quarantined.trim_start().starts_with("3 "), "{quarantined}");
    // Changed limits do not end the quarantine; an administrator's reset does.
    let state = || daemon.tell(&["module", "list"]).contains("quarantined");
    assert!(state());
    let told = daemon.ask(&["status"]).expect_status(1).stdout;
    assert!(
        told.contains("\nTROUBLE      quarantine: module bomb of namespace mine failed 3 times and is not called"),
        "{told}"
    );
    configure(
        &place,
        "limits = { failures = 4, failure_window_ms = 60000 }\n",
    );
    daemon.tell(&["reload"]);
    assert!(state());
    daemon.tell(&["module", "reset", "bomb"]);
    assert!(!state());
    let list = daemon.tell(&["module", "list"]);
    assert!(
        !list.contains("failed"),
        "forgotten failures are not listed: {list}"
    );
    daemon.ask(&["status"]).expect_status(0);
    drop(mine);
    daemon.tell(&["drain"]);
    let said = daemon.ends().stderr;
    let told = said
        .matches("module quarantined, peal module reset lifts it")
        .count();
    assert_eq!(told, 1, "{said}");
}
