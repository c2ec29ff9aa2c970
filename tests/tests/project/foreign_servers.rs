//! Results of Peal's client under servers of other projects, compared with the tables in
//! `docs/src/run/foreign-servers.md`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_model::Range;
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::Place,
    guest,
    launchers::{Launcher, attach},
    program, root, run,
};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    process::{Command, Stdio},
    thread,
};

/// Rows of a table: the operation, and its result under each server.
type Rows = Vec<(String, Vec<String>)>;

/// Returns the table below this heading.
fn table(heading: &str) -> Rows {
    let text = fs::read_to_string(root().join("docs/src/run/foreign-servers.md")).unwrap();
    let below = text.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let rows = below
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    };
    rows.skip(2)
        .map(cells)
        .map(|cells| (cells[0].clone(), cells[1..].to_vec()))
        .collect()
}

/// Returns all servers with their columns.
fn servers() -> impl Iterator<Item = (usize, Launcher)> {
    [
        Launcher::c_server(),
        Launcher::mpirun(),
        Launcher::prterun(),
    ]
    .into_iter()
    .enumerate()
}

fn done(server: &Launcher, options: &[&str], words: &[&str]) -> Done {
    let foreign = program("peal-foreign");
    let words = std::iter::once(foreign.as_os_str()).chain(words.iter().map(OsStr::new));
    run(&mut server.job(
        if words.clone().any(|word| word == "hears") {
            3
        } else {
            2
        },
        options,
        words,
    ))
}

/// Returns the same command, killed after more time than its procs take: a proc's action may make
/// `mpirun` hang.
fn cut_short(command: &Command) -> Command {
    let mut cut = Command::new("timeout");
    cut.args(["--signal=KILL", "12"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => cut.env(name, value),
            None => cut.env_remove(name),
        };
    }
    cut
}

#[needs(prepared, libpmix, openmpi4, openmpi5)]
#[test]
fn every_call_ends_as_it_is_written_down() {
    let table = table("Calls");
    for (column, server) in servers() {
        let done = done(&server, &[], &["calls"]);
        // Statuses are printed with their numbers.
        let outcome = |line: &str| {
            let (call, outcome) = line.split_once(": ")?;
            let outcome = outcome.split(" (").next().unwrap_or_default();
            call.starts_with("PMIx_")
                .then(|| (call.to_owned(), outcome.to_owned()))
        };
        let came: BTreeMap<String, String> = done.stdout.lines().filter_map(outcome).collect();
        let column = |(call, outcomes): &(String, Vec<String>)| {
            Some((call.clone(), outcomes[column].clone()))
        };
        let mut wanted: BTreeMap<String, String> = table.iter().filter_map(column).collect();
        // A cell is empty if the operation depends on an earlier one that failed.
        wanted.retain(|_, outcome| !outcome.is_empty());
        assert_eq!(came, wanted, "{server:?}: {}", done.stderr);
    }
}

/// Runs a function for each of these at the same time, since jobs mostly wait.
fn together<T: Sync>(all: &[T], each: impl Fn(&T) + Sync) {
    thread::scope(|scope| all.iter().for_each(|one| drop(scope.spawn(|| each(one)))));
}

#[needs(prepared, libpmix, openmpi4, openmpi5)]
#[test]
fn events_of_every_range_match_documented_answers() {
    for (column, server) in servers() {
        together(&table("Events that procs raise"), |(range, outcomes)| {
            let words = [
                program("peal-foreign").into_os_string(),
                "notifies".into(),
                range.into(),
            ];
            let done = run(&mut cut_short(&server.job(2, &[], words)));
            let after = |start: &str| {
                let lines = done.stdout.lines().chain(done.stderr.lines());
                lines
                    .filter_map(|line| line.strip_prefix(start))
                    .next()
                    .unwrap_or("no output")
                    .to_owned()
            };
            let answer = after(&format!("PMIx_Notify_event, {range}: "));
            let heard = after("rank 1: ");
            assert_eq!(
                format!("{answer}, {heard}"),
                outcomes[column],
                "{server:?}, {range}: {}",
                done.stderr
            );
        });
    }
}

/// Operation of a proc as the table names it, its argument, and the options with which `mpirun` and
/// `prterun` let the job go on.
const ENDS: [(&str, &str, &[&str], &[&str]); 4] = [
    (
        "the same, the job goes on",
        "killed",
        &["--enable-recovery"],
        &["--rtos", "continuous,notifyerrors"],
    ),
    (
        "exits with another status than 0, the job goes on",
        "exits",
        &["--enable-recovery"],
        &["--rtos", "continuous,notifyerrors"],
    ),
    (
        "leaves in order",
        "leaves",
        &[],
        &["--rtos", "continuous,notifyerrors"],
    ),
    ("gives no heartbeat", "silent", &[], &[]),
];

#[needs(prepared, libpmix, openmpi4, openmpi5)]
#[test]
fn exit_events_of_hosts_match_documented_ones() {
    let table: BTreeMap<String, Vec<String>> = table("Events that host environments raise")
        .into_iter()
        .collect();
    for (column, server) in servers() {
        let known: Vec<_> = ENDS
            .iter()
            .filter(|(what, ..)| !table[*what][column].is_empty())
            .collect();
        together(&known, |(what, end, mpirun, prterun)| {
            let options = match server {
                Launcher::Mpirun(_) => mpirun,
                Launcher::Prterun(_) => prterun,
                Launcher::CServer(_) | Launcher::Peal => &[][..],
            };
            let wanted = &table[*what][column];
            let done = done(&server, options, &["hears", end]);
            let codes = done
                .stdout
                .lines()
                .filter_map(|line| line.split_once(": PMIX_")?.1.split(' ').next());
            let mut codes: Vec<String> = codes.map(|code| format!("PMIX_{code}")).collect();
            codes.sort();
            codes.dedup();
            let heard = if codes.is_empty() {
                "nothing".to_owned()
            } else {
                codes.join(", ")
            };
            assert_eq!(
                heard, *wanted,
                "{server:?}, {what}: {}\n{}",
                done.stdout, done.stderr
            );
        });
    }
}

/// Request of two procs' handlers to a server when a third proc is silent.
enum Want {
    /// Log line about the proc, and its end.
    Watchdog,
    /// Another event with this range, and the range's name in the handler's settings.
    Event(Range, &'static str),
}

const WANTS: [Want; 4] = [
    Want::Watchdog,
    Want::Event(Range::Local, "local"),
    Want::Event(Range::Session, "session"),
    Want::Event(Range::Rm, "rm"),
];

impl Want {
    /// Returns the configuration of a handler with this request.
    fn configuration(&self) -> String {
        let (name, grants, config) = match self {
            Want::Watchdog => (
                "watchdog",
                r#""logging", "clock", "job-control", "log-request", "resource-usage""#,
                r#"action = "kill", log = "stderr""#.to_owned(),
            ),
            Want::Event(_, range) => (
                "escalate",
                r#""clock", "notify""#,
                format!(
                    r#"codes = "-109", count = 1, by = "source", into = -3501, range = "{range}""#
                ),
            ),
        };
        let path = guest(name);
        format!(
            "[[module]]\nname = \"{name}\"\npath = {path:?}\ngrants = [{grants}]\nconfig = {{ {config} }}\n"
        )
    }

    /// Returns the results by rows of the table.
    fn came_of(&self, done: &Done) -> Vec<(String, String)> {
        match self {
            Want::Watchdog => {
                let written = match done
                    .stderr
                    .matches("sends no heartbeat, action: kill")
                    .count()
                {
                    2 => "written".to_owned(),
                    4 => "written twice".to_owned(),
                    other => format!("written {other} times"),
                };
                let refused = |line: &str| {
                    Some(
                        line.split_once("request of a handler refused by the server")?
                            .1
                            .rsplit_once("status=")?
                            .1
                            .to_owned(),
                    )
                };
                let ended = match done.stderr.lines().find_map(refused) {
                    Some(status) => status.split(" (").next().unwrap_or_default().to_owned(),
                    None if done.stdout.matches("nothing more").count() == 2 => {
                        "the proc is ended".to_owned()
                    }
                    None => "nothing".to_owned(),
                };
                let rows = [
                    "a line, PMIX_LOG_STDERR",
                    "the end of another proc, PMIX_JOB_CTRL_KILL",
                ]
                .map(str::to_owned);
                rows.into_iter().zip([written, ended]).collect()
            }
            Want::Event(range, _) => {
                let both = |words| done.stderr.matches(words).count() == 2;
                let said = [
                    ("in time request=\"event -3501", "no answer"),
                    ("event not sent: mpirun", "not sent"),
                ];
                let answer = said
                    .into_iter()
                    .find_map(|(words, answer)| both(words).then_some(answer))
                    .unwrap_or("ok");
                let heard = |(from, at): (u32, u32)| {
                    let source = format!(":{from}, ");
                    let by = format!("rank {at}: -3501 from ");
                    done.stdout
                        .lines()
                        .any(|line| line.starts_with(&by) && line.contains(&source))
                };
                let own = [(0, 0), (1, 1)].map(heard);
                assert_eq!(
                    own,
                    [*range != Range::Rm; 2],
                    "who raises it is told, if meant: {}",
                    done.stdout
                );
                let heard = match [(0, 1), (0, 2), (1, 0), (1, 2)].map(heard) {
                    [true, true, true, true] => "received",
                    [false, false, false, false] => "not received",
                    _ => "received by some",
                };
                vec![(
                    format!("an event, {}", range.name()),
                    format!("{answer}, {heard}"),
                )]
            }
        }
    }
}

#[needs(prepared, libpmix, openmpi4, openmpi5)]
#[test]
fn handler_requests_match_documented_results() {
    let table: BTreeMap<String, Vec<String>> = table("Requests of handlers").into_iter().collect();
    for (column, server) in servers() {
        together(&WANTS, |want| {
            let place = Place::new();
            place.configure(&want.configuration());
            let file = place.path("peal.toml");
            let options = ["--timeout", "1s", "--config", file.to_str().unwrap()];
            let program = [
                program("peal-foreign").into_os_string(),
                "hears".into(),
                "silent".into(),
            ];
            let done = run(&mut server.job(3, &[], attach(&[], &options, &program)));
            for (row, came) in want.came_of(&done) {
                assert_eq!(
                    came, table[&row][column],
                    "{server:?}, {row}: {}\n{}",
                    done.stdout, done.stderr
                );
            }
        });
    }
}
