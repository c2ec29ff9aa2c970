//! `peal chain show`: the order in force by owner, and the reason for each handler's place or
//! omission.
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    guest,
};
use serde_json::Value;

/// Info that names an affected proc, which makes an event job-specific.
const AFFECTED: &str = "PMIX_EVENT_AFFECTED_PROC=other:0";

const MODULES: [&str; 6] = [
    "name = \"plain\"",
    "name = \"narrow\"\ncodes = [\"PMIX_ERR_PROC_ABORTED\"]\nplacement = \"first-in-category\"",
    "name = \"wide\"\ncodes = [-3001, \"PMIX_ERR_PROC_ABORTED\"]\noneshot = true",
    "name = \"beside\"\nplacement = { before = \"plain\" }",
    "name = \"opens\"\nplacement = \"first\"",
    "name = \"theirs\"\nscope = \"namespace:solver\"",
];

fn site() -> (Place, Daemon) {
    let place = Place::new();
    let path = format!("\npath = {:?}\ngrants = [\"logging\"]\n", guest("report"));
    let text: String = MODULES
        .iter()
        .map(|module| format!("[[module]]\n{module}{path}"))
        .collect();
    place.configure(&text);
    let daemon = place.start();
    (place, daemon)
}

fn show(daemon: &Daemon, more: &[&str]) -> Vec<Value> {
    let printed = daemon.tell(&[&["chain", "show", "-o", "json"], more].concat());
    serde_json::from_str(&printed).unwrap()
}

/// Returns the rows of each handler under this name.
fn all(rows: &[Value], of: &str) -> Vec<String> {
    rows.iter()
        .map(|row| {
            row[of]
                .as_str()
                .map_or_else(|| row[of].to_string(), str::to_owned)
        })
        .collect()
}

#[needs(prepared)]
#[test]
fn order_in_force_is_shown_with_reason_of_each_position() {
    let (_place, daemon) = site();
    let rows = show(&daemon, &[]);
    assert_eq!(
        all(&rows, "name"),
        ["opens", "narrow", "wide", "beside", "plain", "theirs"]
    );
    assert_eq!(all(&rows, "position"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(
        all(&rows, "stands"),
        [
            "FIRST",
            "single-code, FIRST_IN_CATEGORY",
            "multi-code, appended",
            "default, before \"plain\"",
            "default, appended",
            "default, appended"
        ]
    );
    assert_eq!(
        (&rows[0]["owner"], &rows[5]["owner"]["namespace"]),
        (&"site".into(), &"solver".into())
    );
    assert_eq!(
        (&rows[2]["codes"][0]["number"], &rows[1]["codes"][0]["name"]),
        (&Value::from(-3001), &"PMIX_ERR_PROC_ABORTED".into())
    );
    let text = daemon.tell(&["chain", "show"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(
        lines[2].contains("registration 3; -3001, PMIX_ERR_PROC_ABORTED; about jobs; oneshot"),
        "{text}"
    );
}

#[needs(prepared)]
#[test]
fn skipped_handlers_of_an_event_are_shown_with_reason() {
    let (_place, daemon) = site();
    let rows = show(
        &daemon,
        &["-3001", "--range", "namespace", "--source", "other:0"],
    );
    assert_eq!(all(&rows, "position"), ["1", "null", "2", "3", "4", "null"]);
    assert_eq!(rows[1]["passed_over"], "it is for other codes");
    assert_eq!(
        rows[5]["passed_over"],
        "the event does not concern its owner"
    );
    let rows = show(
        &daemon,
        &[
            "PMIX_ERR_PROC_ABORTED",
            "--info",
            "PMIX_EVENT_NON_DEFAULT=true",
            "--info",
            AFFECTED,
        ],
    );
    assert_eq!(
        all(&rows, "position"),
        ["null", "1", "2", "null", "null", "null"]
    );
    assert_eq!(rows[3]["passed_over"], "the event is marked non-default");
    let rows = show(&daemon, &["-3001", "--info", "site.load=5"]);
    let other = rows[2]["passed_over"].as_str().unwrap();
    assert!(
        other.starts_with("it is for the other class of events (those about jobs name procs"),
        "{other}"
    );
    let text = daemon.tell(&[
        "chain",
        "show",
        "-3002",
        "--range",
        "namespace",
        "--source",
        "solver:0",
    ]);
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .ends_with("passed over: it is for other codes"),
        "{text}"
    );
}

/// The class of an event without infos is not known.
#[needs(prepared)]
#[test]
fn class_of_an_event_without_infos_is_left_open() {
    let (_place, daemon) = site();
    let rows = show(&daemon, &["PMIX_ERR_PROC_ABORTED"]);
    assert_eq!(all(&rows, "position"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(
        (&rows[1]["depends_on_class"], &rows[5]["depends_on_class"]),
        (&true.into(), &true.into())
    );
    let text = daemon.tell(&["chain", "show", "PMIX_ERR_PROC_ABORTED"]);
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .contains("; if the event is about a job"),
        "{text}"
    );
    let text = daemon.tell(&["chain", "show", "PMIX_ERR_PROC_ABORTED", "--info", AFFECTED]);
    assert!(
        text.lines().nth(1).unwrap().contains("; about jobs"),
        "{text}"
    );
}

#[needs(prepared)]
#[test]
fn invalid_arguments_are_refused_with_suggestion() {
    let (_place, daemon) = site();
    for (args, says) in [
        (
            &["PMIX_ERR_PROC_ABORTD"][..],
            "did you mean `PMIX_ERR_PROC_ABORTED`?",
        ),
        (&["-3001", "--range", "golbal"], "did you mean `global`?"),
        (
            &["-3001", "--source", "solver"],
            "\"solver\" is no NSPACE:RANK",
        ),
        (&["-3001", "--info", "load"], "it should be KEY=VALUE"),
        (&["--source", "solver:0"], "required"),
    ] {
        let refused = daemon
            .ask(&[&["chain", "show"], args].concat())
            .expect_status(2);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    let place = Place::new();
    let empty = place.start();
    assert_eq!(empty.tell(&["chain", "show"]), "no handlers are hosted\n");
    empty.tell(&["stop", "--wait"]);
    let gone = empty.ask(&["chain", "show"]).expect_status(125);
    assert!(
        gone.stderr.contains("no server answers on"),
        "{}",
        gone.stderr
    );
}
