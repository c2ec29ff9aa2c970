//! What Peal's client gets from servers that others wrote, compared with the tables in `docs/foreign-servers.md`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
use peal_tests::{
    Done,
    daemon::Place,
    foreign::{Launcher, attach},
    guest, program, root, run,
};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    process::{Command, Stdio},
    thread,
};

/// A row of a table: what was done, and what came of it under each server.
type Rows = Vec<(String, Vec<String>)>;

/// The table below this heading.
fn table(heading: &str) -> Rows {
    let text = fs::read_to_string(root().join("docs/foreign-servers.md")).unwrap();
    let below = text.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let rows = below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    rows.skip(2).map(cells).map(|cells| (cells[0].clone(), cells[1..].to_vec())).collect()
}

/// Those that are here, with their columns.
fn servers() -> Vec<(usize, Launcher)> {
    let all = [Launcher::c_server(), Launcher::mpirun(), Launcher::prterun()];
    all.into_iter().enumerate().filter_map(|(column, server)| Some((column, server?))).collect()
}

fn done(server: &Launcher, options: &[&str], words: &[&str]) -> Done {
    let foreign = program("peal-foreign");
    let words = std::iter::once(foreign.as_os_str()).chain(words.iter().map(OsStr::new));
    run(&mut server.job(if words.clone().any(|word| word == "hears") { 3 } else { 2 }, options, words))
}

/// The same command, killed after longer than its procs take: `mpirun` may be stuck by what one of them has done.
fn cut_short(command: &Command) -> Command {
    let mut cut = Command::new("timeout");
    cut.args(["--signal=KILL", "12"]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => cut.env(name, value),
            None => cut.env_remove(name),
        };
    }
    cut
}

#[test]
fn every_call_ends_as_it_is_written_down() {
    let table = table("Calls");
    for (column, server) in servers() {
        let done = done(&server, &[], &["calls"]);
        // Statuses stand with their numbers.
        let outcome = |line: &str| {
            let (call, outcome) = line.split_once(": ")?;
            let outcome = outcome.split(" (").next().unwrap_or_default();
            call.starts_with("PMIx_").then(|| (call.to_owned(), outcome.to_owned()))
        };
        let came: BTreeMap<String, String> = done.stdout.lines().filter_map(outcome).collect();
        let column = |(call, outcomes): &(String, Vec<String>)| Some((call.clone(), outcomes[column].clone()));
        let mut wanted: BTreeMap<String, String> = table.iter().filter_map(column).collect();
        // What cannot be done for want of what is before it stands empty.
        wanted.retain(|_, outcome| !outcome.is_empty());
        assert_eq!(came, wanted, "{server:?}: {}", done.stderr);
    }
}

/// Each of these at the same time, since jobs mostly wait.
fn together<T: Sync>(all: &[T], each: impl Fn(&T) + Sync) {
    thread::scope(|scope| all.iter().for_each(|one| drop(scope.spawn(|| each(one)))));
}

#[test]
fn events_of_every_range_are_answered_and_heard_as_it_is_written_down() {
    for (column, server) in servers() {
        together(&table("Events that procs raise"), |(range, outcomes)| {
            let words = [program("peal-foreign").into_os_string(), "notifies".into(), range.into()];
            let done = run(&mut cut_short(&server.job(2, &[], words)));
            let after = |start: &str| {
                let lines = done.stdout.lines().chain(done.stderr.lines());
                lines.filter_map(|line| line.strip_prefix(start)).next().unwrap_or("says nothing").to_owned()
            };
            let (answer, heard) = (after(&format!("PMIx_Notify_event, {range}: ")), after("rank 1: "));
            assert_eq!(format!("{answer}, {heard}"), outcomes[column], "{server:?}, {range}: {}", done.stderr);
        });
    }
}

/// What a proc does, as the table calls it, and the options with which `mpirun` and `prterun` let the job go on.
const ENDS: [(&str, &str, &[&str], &[&str]); 4] = [
    ("the same, the job goes on", "killed", &["--enable-recovery"], &["--rtos", "continuous,notifyerrors"]),
    (
        "exits with another status than 0, the job goes on",
        "exits",
        &["--enable-recovery"],
        &["--rtos", "continuous,notifyerrors"],
    ),
    ("leaves in order", "leaves", &[], &["--rtos", "continuous,notifyerrors"]),
    ("gives no heartbeat", "silent", &[], &[]),
];

#[test]
fn hosts_tell_of_ends_what_is_written_down() {
    let table: BTreeMap<String, Vec<String>> = table("Events that hosts raise").into_iter().collect();
    for (column, server) in servers() {
        together(&ENDS, |(what, end, mpirun, prterun)| {
            let options = match server {
                Launcher::Mpirun(_) => mpirun,
                Launcher::Prterun(_) => prterun,
                Launcher::CServer(_) | Launcher::Peal => &[][..],
            };
            let wanted = &table[*what][column];
            if wanted.is_empty() {
                return;
            }
            let done = done(&server, options, &["hears", end]);
            let codes = done.stdout.lines().filter_map(|line| line.split_once(": PMIX_")?.1.split(' ').next());
            let mut codes: Vec<String> = codes.map(|code| format!("PMIX_{code}")).collect();
            codes.sort();
            codes.dedup();
            let heard = if codes.is_empty() { "nothing".to_owned() } else { codes.join(", ") };
            assert_eq!(heard, *wanted, "{server:?}, {what}: {}\n{}", done.stdout, done.stderr);
        });
    }
}

/// What a component of `peal attach` does when a proc is silent: its name, and what the configuration says of it.
const WANTS: [(&str, &str); 3] = [
    (
        "watchdog",
        "grants = [\"logging\", \"clock\", \"control\", \"report\", \"usage\"]\nconfig = { action = \"kill\", log = \"stderr\" }\n",
    ),
    ("escalate", "grants = [\"clock\", \"notify\"]\nconfig = { range = \"local\", EVENT }\n"),
    ("escalate", "grants = [\"clock\", \"notify\"]\nconfig = { range = \"session\", EVENT }\n"),
];
/// The alert, and the event that is made of it.
const EVENT: &str = "codes = \"-109\", count = 1, by = \"source\", into = -3501";

/// What came of what two procs' handlers wanted of a server, by the rows of the table.
fn came_of(module: &str, config: &str, done: &Done) -> Vec<(&'static str, String)> {
    let refused =
        done.stderr.lines().find_map(|line| line.split_once("is refused by the server at ")?.1.rsplit_once(": "));
    let refused = refused.map(|(_, status)| status.split(" (").next().unwrap_or_default().to_owned());
    let count = |words: &str| done.stderr.matches(words).count();
    if module == "watchdog" {
        let written = match count("sends no heartbeat, action: kill") {
            2 => "written".to_owned(),
            4 => "written twice".to_owned(),
            other => format!("written {other} times"),
        };
        let ended = done.stdout.matches("nothing more").count() == 2;
        let ended = if ended { "the proc is ended".to_owned() } else { refused.unwrap_or("nothing".to_owned()) };
        return vec![("a line, PMIX_LOG_STDERR", written), ("the end of another proc, PMIX_JOB_CTRL_KILL", ended)];
    }
    let row = if config.contains("local") { "an event, PMIX_RANGE_LOCAL" } else { "an event, PMIX_RANGE_SESSION" };
    let answer = if count("has not answered within 1s: event -3501") == 2 { "no answer" } else { "ok" };
    // Two raise it, for themselves and the two others.
    let heard = |from: u32, at: u32| {
        let (source, by) = (format!(":{from}, "), format!("rank {at}: -3501 from "));
        done.stdout.lines().any(|line| line.starts_with(&by) && line.contains(&source))
    };
    assert!(heard(0, 0) && heard(1, 1), "whoever asks for it hears what its own handlers raise: {}", done.stdout);
    let others = [(0, 1), (0, 2), (1, 0), (1, 2)].map(|(from, at)| heard(from, at));
    let heard = match others {
        [true, true, true, true] => "heard",
        [false, false, false, false] => "heard nothing",
        _ => "heard by some",
    };
    vec![(row, format!("{answer}, {heard}"))]
}

#[test]
fn what_handlers_want_comes_of_it_what_is_written_down() {
    let table: BTreeMap<String, Vec<String>> = table("What handlers want").into_iter().collect();
    let place = Place::new();
    for (column, server) in servers() {
        together(&WANTS, |(module, config)| {
            let file = place.path(&format!("{module}-{}-{column}.toml", config.len()));
            let path = guest(module);
            let text = format!("[[module]]\nname = \"{module}\"\npath = \"{}\"\n{config}", path.display());
            fs::write(&file, text.replace("EVENT", EVENT)).unwrap();
            let options = ["--timeout", "1s", "--config", file.to_str().unwrap()];
            let program = [program("peal-foreign").into_os_string(), "hears".into(), "silent".into()];
            let done = run(&mut cut_short(&server.job(3, &[], attach(&[], &options, &program))));
            for (row, came) in came_of(module, config, &done) {
                assert_eq!(came, table[row][column], "{server:?}, {row}: {}\n{}", done.stdout, done.stderr);
            }
        });
    }
}
