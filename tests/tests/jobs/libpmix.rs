//! Unmodified C programs on Peal's `libpmix.so.2`: they print the same as on the C library, except for
//! the table of differences. Both run under `peal run` and under the C library's own server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    compared_programs::{CONTROL, EVENTS, GROUPS, INVITATIONS, JOBS, SERVICES},
    comparison::{ComparedServer, PermittedDifference, ProgramComparison, compare_lines},
    libpmix::Release,
    root, server_loss,
};
use serde::Deserialize;
use std::{collections::BTreeSet, fs, path::Path};

/// Contents of `tests/c/library_differences.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryTable {
    difference: Vec<Difference>,
    uncompared: Vec<Uncompared>,
    elsewhere: Vec<Elsewhere>,
}

/// Server under which an entry of the table applies.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EntryServer {
    /// `peal run`.
    Peal,
    /// The C library's server.
    Libpmix,
}

impl EntryServer {
    /// Returns true for an entry of this server, and for one of both.
    fn is_met(entry: Option<EntryServer>, server: ComparedServer) -> bool {
        match entry {
            None => true,
            Some(EntryServer::Peal) => server == ComparedServer::Peal,
            Some(EntryServer::Libpmix) => server == ComparedServer::CLibrary,
        }
    }
}

/// Permitted difference, and its reason. Without a server it occurs under both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    program: String,
    server: Option<EntryServer>,
    libpmix: String,
    peal: String,
    reason: String,
}

/// Program that is not compared under a server, and the reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Uncompared {
    program: String,
    server: Option<EntryServer>,
    reason: String,
}

/// File of `tests/c` that no run of these tests names, and the reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    file: String,
    reason: String,
}

fn table() -> LibraryTable {
    let path = root().join("tests/c/library_differences.toml");
    let table: LibraryTable = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let differences = table.difference.iter().map(|one| &one.reason);
    let uncompared = table.uncompared.iter().map(|one| &one.reason);
    let elsewhere = table.elsewhere.iter().map(|one| &one.reason);
    let mut reasons = differences.chain(uncompared).chain(elsewhere);
    assert!(
        reasons.all(|reason| reason.len() > 40),
        "each entry needs a reason"
    );
    table
}

/// Returns the programs that the tests of this file compare.
fn compared_programs() -> Vec<&'static str> {
    let all = [
        &JOBS[..],
        &EVENTS,
        &SERVICES,
        &CONTROL,
        &GROUPS,
        &INVITATIONS,
    ]
    .concat();
    let programs = all.iter().map(|run| run.program);
    programs.chain([LOST]).collect()
}

/// Returns the differences that the table permits to a program under a server.
fn permitted<'a>(
    table: &'a LibraryTable,
    program: &str,
    server: ComparedServer,
) -> Vec<PermittedDifference<'a>> {
    let of_program = table.difference.iter().filter(|difference| {
        difference.program == program && EntryServer::is_met(difference.server, server)
    });
    of_program
        .map(|Difference { libpmix, peal, .. }| PermittedDifference { libpmix, peal })
        .collect()
}

/// Runs a program on both libraries under this server, and compares the lines. Returns those on Peal's
/// library.
#[track_caller]
fn compare_under(
    table: &LibraryTable,
    compared: &ProgramComparison,
    server: ComparedServer,
) -> Vec<String> {
    let ours = compared.on(&Release::peal(), server);
    let theirs = compared.on(&Release::system(), server);
    assert!(
        ours.len() >= compared.lines,
        "{} printed next to nothing under {server:?}: {ours:?}",
        compared.program
    );
    let name = format!("{} under {server:?}", compared.program);
    let differences = permitted(table, compared.program, server);
    compare_lines(&name, &ours, &theirs, &differences);
    ours
}

/// Compares programs on both libraries under each server for which the table has no exception.
#[track_caller]
fn compare_all(runs: &[ProgramComparison]) {
    let table = table();
    for run in runs {
        for server in ComparedServer::ALL {
            let is_exempt = table.uncompared.iter().any(|exempt| {
                exempt.program == run.program && EntryServer::is_met(exempt.server, server)
            });
            if !is_exempt {
                compare_under(&table, run, server);
            }
        }
    }
}

#[needs(prepared, libpmix)]
#[test]
fn jobs_print_the_same_on_both_libraries() {
    compare_all(&JOBS);
}

#[needs(prepared, libpmix)]
#[test]
fn events_are_the_same_on_both_libraries() {
    compare_all(&EVENTS);
}

#[needs(prepared, libpmix)]
#[test]
fn services_are_the_same_on_both_libraries() {
    compare_all(&SERVICES);
}

#[needs(prepared, libpmix)]
#[test]
fn job_control_and_monitors_are_the_same_on_both_libraries() {
    compare_all(&CONTROL);
}

#[needs(prepared, libpmix)]
#[test]
fn groups_are_the_same_on_both_libraries() {
    compare_all(&GROUPS);
}

#[needs(prepared, libpmix)]
#[test]
fn invitations_are_the_same_on_both_libraries() {
    compare_all(&INVITATIONS);
}

const LOST: &str = "lost";

#[needs(prepared, libpmix)]
#[test]
fn loss_of_the_server_is_the_same_on_both_libraries() {
    let table = table();
    let [ours, theirs] = [Release::peal(), Release::system()];
    for server in ComparedServer::ALL {
        let lose = |library: &Release| server_loss::lose(server, library);
        let differences = permitted(&table, LOST, server);
        compare_lines(LOST, &lose(&ours), &lose(&theirs), &differences);
    }
}

/// Programs about which the C library is wrong, and their output on Peal's library alone. The table of
/// differences has the output on the C library.
mod corrected {
    use super::*;

    /// Returns the lines that a rank prints on Peal's library, without the rank. Fails unless the C
    /// library prints what the table says.
    #[track_caller]
    fn printed(program: &str, rank: u32, server: ComparedServer) -> Vec<String> {
        let run = EVENTS.iter().find(|run| run.program == program).unwrap();
        let table = table();
        assert!(
            !permitted(&table, program, server).is_empty(),
            "the table says nothing about {program}"
        );
        let prefix = format!("rank {rank}: ");
        let lines = compare_under(&table, run, server);
        lines
            .iter()
            .filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    /// RFC 0002: FIRST; then one code, several codes and all codes, each in the order of registration;
    /// then LAST. BEFORE and AFTER place a handler beside another one of its category.
    #[needs(prepared, libpmix)]
    #[test]
    fn handlers_run_in_rfc_order_on_peals_library() {
        for server in ComparedServer::ALL {
            let lines = printed("order", 1, server);
            let expected = [
                "registration: a, b, c",
                "several codes: a, b",
                "all codes: one, a, b",
                "categories: one, two, all",
                "first and last: first, one, all, last",
                "first of several codes: first, one, two",
                "refused: EVENT-REGISTRATION (-144)",
                "two that are first: first, one",
                "first and last in a category: first, a, b, last, two",
                "prepended and appended: before all, a, b",
                "before the first: before a, a, b",
                "before the second: a, before b, b",
                "after the first: a, after a, b",
                "after the last: a, b, after b",
                "before and after one of several codes: a, before b, b, after b",
                "lost: EVENT-REGISTRATION (-144)",
                "after one that is unknown: a",
                "finalize: SUCCESS (0)",
            ];
            assert_eq!(lines, expected, "{server:?}");
        }
    }

    #[needs(prepared, libpmix)]
    #[test]
    fn second_handler_gets_kept_events_on_peals_library() {
        let once = [
            "two codes: [two codes: \"of the job\", \"of the session\"]",
            "the same once more: [one of them: \"of the job\"] [the other: \"of the session\"]",
            "the same among others: [three codes: \"of the job\", \"of the session\"]",
            "finalize: SUCCESS (0)",
        ];
        assert_eq!(printed("cached once", 1, ComparedServer::Peal), once);
        let back = printed("cached back", 1, ComparedServer::Peal);
        assert!(
            back.contains(&"is back: [is back: \"before\", \"in between\"]".to_owned()),
            "{back:?}"
        );
    }

    /// The C server keeps the newest 512 of a flood, in a ring for all events, and says nothing about the
    /// rest. The two libraries print the same under one server.
    #[needs(prepared, libpmix)]
    #[test]
    fn floods_are_complete_under_peal_on_both_libraries() {
        let of = |program| EVENTS.iter().find(|run| run.program == program).unwrap();
        for library in [Release::peal(), Release::system()] {
            for program in ["flood 2000 heard", "flood 2000 kept"] {
                let lines = of(program).on(&library, ComparedServer::Peal);
                let complete = "rank 1: 2000 of 2000 arrive, in order".to_owned();
                assert!(lines.contains(&complete), "{program}: {lines:?}");
            }
            let lines = of("flood 2000 kept").on(&library, ComparedServer::CLibrary);
            let lost = "rank 1: 512 of 2000 arrive, out of order".to_owned();
            assert!(lines.contains(&lost), "{lines:?}");
        }
    }
}

/// Status of each step of `misuse`.
const MISUSED: [&str; 48] = [
    "before init: initialized 0, fence -31, get -31, commit -31, finalize -31",
    "init: 0",
    "init again: 0",
    "finalize once: 0",
    "put of no key: -27",
    "put of no value: -27",
    "put of no scope: -27",
    "get of nothing: -27",
    "get without callback: -27",
    "fence without callback: -27",
    "fence of lost procs: -27",
    "fence of lost infos: -27",
    "no handler: -27",
    "unknown handler: -46",
    "no range: -27",
    "lookup of nothing: -27",
    "publish of nothing: -27",
    "spawn of nothing: -27",
    "connect of nobody: -27",
    "peers without place: -27",
    "nodes without place: -27",
    "query of nothing: -27",
    "log of nothing: -27",
    "monitor of nothing: -27",
    "group of nobody: -27",
    "join of nothing: -27",
    "credential without place: -27",
    "no credential: -27",
    "unknown pull: -46",
    "servers of a proc: -47",
    "register: 0",
    "notify: 0",
    "fence in a handler: -15",
    "get in a handler: -15",
    "finalize in a handler: -15",
    "notify in a handler: 0",
    "deregister in a handler: 0",
    "fence begins: 0",
    "fence by callback: 0",
    "threads that failed: 0",
    "in a child: initialized 0, fence -31, get -31, commit -31, finalize -31",
    "the child ends: 0",
    "fence: 0",
    "finalize: 0",
    "after finalize: initialized 0, fence -31, get -31, commit -31, finalize -31",
    "init anew: 0",
    "fence: 0",
    "finalize: 0",
];

/// The C library crashes or hangs on some of these.
#[needs(prepared, libpmix)]
#[test]
fn misuse_and_threads_and_forks_get_statuses() {
    let printed =
        ProgramComparison::new("misuse", "2", 0, 0).on(&Release::peal(), ComparedServer::Peal);
    let of = |rank: u32| MISUSED.map(|line| format!("rank {rank}: {line}"));
    // The handler prints on the progress thread, beside the main thread.
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(printed), sorted([of(0), of(1)].concat()));
}

#[test]
fn library_differences_cover_only_programs_run() {
    let programs = compared_programs();
    let LibraryTable {
        difference,
        uncompared,
        ..
    } = table();
    let named = difference.iter().map(|one| &one.program);
    for program in named.chain(uncompared.iter().map(|one| &one.program)) {
        assert!(
            programs.contains(&&**program),
            "{program} is not compared by any test"
        );
    }
}

#[test]
fn every_c_program_is_compared_or_listed_with_a_reason() {
    let sources = fs::read_dir(root().join("tests/c")).unwrap();
    let sources = sources.map(|entry| entry.unwrap().path());
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let present: BTreeSet<String> = sources
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(|path| stem(&path))
        .collect();
    let programs = compared_programs();
    let words = programs
        .iter()
        .filter_map(|program| program.split(' ').next());
    let compared: BTreeSet<String> = words.map(str::to_owned).collect();
    let elsewhere = table().elsewhere;
    let listed: BTreeSet<String> = elsewhere
        .iter()
        .map(|one| stem(Path::new(&one.file)))
        .collect();
    assert_eq!(
        present,
        &compared | &listed,
        "programs of tests/c, and those that are compared or listed as `elsewhere`"
    );
    let both: Vec<&String> = compared.intersection(&listed).collect();
    assert!(
        both.is_empty(),
        "compared, and listed as `elsewhere`: {both:?}"
    );
}
