//! Groups of Peal's own client and programs of the C library in one job: the inviting proc uses one
//! library, the invited procs the other.
use peal_needs::needs;
use peal_tests::{c_program, comparison::ProgramComparison, libpmix::Release, peal, program, run};
use std::process::Command;

/// Returns the lines of one rank.
fn of_rank(lines: &[String], rank: u32) -> Vec<&str> {
    let prefix = format!("rank {rank}: ");
    lines
        .iter()
        .filter_map(|line| line.strip_prefix(&prefix))
        .collect()
}

/// Runs four procs under Peal's server. The given rank uses Peal's client, the others the C
/// library. Checks the output of that rank. The others must print the same as in a job of the C
/// library alone.
#[track_caller]
fn with_one_of_peals(invite: &'static str, rank: u32, exit_status: i32, says: &[&str]) {
    with_one_of_peals_under(
        peal(["run", "-n", "4", "--on-abort", "continue", "--"]),
        invite,
        rank,
        exit_status,
        says,
    );
}

/// Runs the same under this server.
#[track_caller]
fn with_one_of_peals_under(
    mut server: Command,
    invite: &'static str,
    rank: u32,
    exit_status: i32,
    says: &[&str],
) {
    let c = c_program("invite");
    let all_c = ProgramComparison::new(invite, "4", exit_status, 0).under_peal();
    let arguments = invite.strip_prefix("invite ").unwrap();
    let script = format!(
        "case $PMIX_RANK in {rank}) exec {} {arguments};; *) exec {} {arguments};; esac",
        program("peal-grouped").display(),
        c.display()
    );
    let done = run(server.args(["/bin/sh", "-c"]).arg(&script));
    // Peal's client names the group of an answer, as the Standard requires; the library does not.
    let as_the_library = |line: String| line.replace("hears -162 crew by", "hears -162 by");
    let mixed: Vec<String> = done
        .expect_status(exit_status)
        .by_rank()
        .into_iter()
        .map(as_the_library)
        .collect();
    for other in (0..4).filter(|other| *other != rank) {
        assert_eq!(
            of_rank(&mixed, other),
            of_rank(&all_c, other),
            "{invite}: {mixed:#?}"
        );
    }
    assert_eq!(of_rank(&mixed, rank), says, "{invite}");
}

const COMPLETE: &str = "hears PMIX_GROUP_CONSTRUCT_COMPLETE (-166)";

#[needs(prepared, libpmix)]
#[test]
fn peals_client_invites_programs_of_the_c_library() {
    let invited = |ranks: &str| {
        [
            format!("invites: {ranks}, {COMPLETE}"),
            "fence and destruct".to_owned(),
        ]
    };
    for (program, exit_status, ranks) in [
        ("invite accept", 0, "0 1 2 3"),
        ("invite ignore 2", 0, "0 1 3"),
        ("invite replace 1", 0, "0 2 3"),
        ("invite dies 2", 137, "0 1 3"),
    ] {
        let says = invited(ranks);
        with_one_of_peals(
            program,
            0,
            exit_status,
            &says.each_ref().map(String::as_str),
        );
    }
    let aborted =
        "invites: PMIX_GROUP_CONSTRUCT_ABORT (-165), hears PMIX_GROUP_CONSTRUCT_ABORT (-165)";
    with_one_of_peals("invite cancel 2", 0, 0, &[aborted]);
}

#[needs(prepared, libpmix)]
#[test]
fn programs_of_the_c_library_invite_peals_client() {
    let joins = |ranks: &str| {
        [
            format!("joins: {ranks}, {COMPLETE}"),
            "fence and destruct".to_owned(),
        ]
    };
    for (program, rank, ranks) in [
        ("invite accept", 3, "0 1 2 3"),
        ("invite ignore 2", 1, "0 1 3"),
        ("invite replace 1", 3, "0 2 3"),
    ] {
        let says = joins(ranks);
        with_one_of_peals(program, rank, 0, &says.each_ref().map(String::as_str));
    }
    with_one_of_peals("invite ignore 2", 2, 0, &["declines"]);
    let aborted =
        "joins: PMIX_GROUP_CONSTRUCT_ABORT (-165), hears PMIX_GROUP_CONSTRUCT_ABORT (-165)";
    with_one_of_peals("invite cancel 2", 1, 0, &[aborted]);
}

#[needs(prepared, libpmix)]
#[test]
fn both_invite_each_other_under_the_c_librarys_server_too() {
    let host = c_program("host");
    for (rank, what) in [(0, "invites"), (2, "joins")] {
        let mut server = Command::new(&host);
        server.arg("4");
        let says = [
            format!("{what}: 0 1 2 3, {COMPLETE}"),
            "fence and destruct".to_owned(),
        ];
        with_one_of_peals_under(
            server,
            "invite accept",
            rank,
            0,
            &says.each_ref().map(String::as_str),
        );
    }
}

/// No installed release can call construct without naming a proc, so that the added proc uses
/// Peal's client.
#[needs(prepared, libpmix, openmpi5)]
#[test]
fn c_programs_lead_by_bootstrap_and_add_peals_client() {
    let c = c_program("group");
    let script = format!(
        "case $PMIX_RANK in 3) exec {} bootstrap;; *) exec {} bootstrap 3;; esac",
        program("peal-grouped").display(),
        c.display()
    );
    for release in Release::both() {
        let mut command = peal(["run", "-n", "4"]);
        if let Some(variable) = release.variable() {
            command.args(["-x", &variable]);
        }
        let lines = run(command.args(["--", "/bin/sh", "-c"]).arg(&script))
            .expect_status(0)
            .by_rank();
        let leader = [
            "construct ours: SUCCESS (0)",
            "construct ours: it has no number",
            "fence ours: SUCCESS (0)",
        ];
        for rank in 0..3 {
            let said: Vec<String> = of_rank(&lines, rank)
                .iter()
                .map(|line| line.replace("PMIX_", ""))
                .collect();
            let all = [
                &leader[..],
                &["destruct ours: SUCCESS (0)", "finalize: SUCCESS (0)"],
            ]
            .concat();
            assert_eq!(said, all, "{}", release.name);
        }
        assert_eq!(
            of_rank(&lines, 3),
            ["added: 0 1 2 3", "fence and destruct"],
            "{}",
            release.name
        );
    }
}

/// Only 5.0 and later return the membership.
#[needs(prepared, libpmix, openmpi5)]
#[test]
fn group_members_are_returned_as_named_by_the_program() {
    let c = c_program("group");
    let newer = Release::newer();
    let mut ours = peal(["run", "-n", "3", "-x", &newer.variable().unwrap(), "--"]);
    let mut host = Command::new(c_program("host"));
    let ours = run(ours.arg(&c).arg("members")).expect_status(0).by_rank();
    let theirs = run(newer.of(host.arg("3")).arg(&c).arg("members"))
        .expect_status(0)
        .by_rank();
    assert_eq!(ours, theirs);
    assert!(
        ours.iter()
            .any(|line| line.ends_with("its members are [own:*]")),
        "{ours:#?}"
    );
}

/// Two releases answer one construct in different forms. The C library's own server knows only that
/// of its release.
#[needs(prepared, libpmix, openmpi5)]
#[test]
fn programs_of_two_releases_form_groups_with_each_other() {
    let newer = Release::newer().variable().unwrap();
    for (words, procs) in [
        ("group whole", "4"),
        ("group several", "4"),
        ("group part", "4"),
    ] {
        let all_old = ProgramComparison::new(words, procs, 0, 16).under_peal();
        let (name, arguments) = words.split_once(' ').unwrap();
        let program = c_program(name);
        let mut command = peal(["run", "-n", "2", "-x", &newer]);
        command
            .arg(&program)
            .arg(arguments)
            .args([":", "-n", "2"])
            .arg(&program)
            .arg(arguments);
        let mixed = run(&mut command).expect_status(0).by_rank();
        // The name of a status changed between the releases.
        let plain = |lines: &[String]| {
            lines
                .iter()
                .map(|line| line.replace("PMIX_", ""))
                .collect::<Vec<_>>()
        };
        assert_eq!(plain(&mixed), plain(&all_old), "{words}");
    }
}
