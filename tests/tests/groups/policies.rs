//! Policies for groups in a running server, with unmodified `libpmix` programs. A denied
//! participant and all procs that wait for it get the denial.
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    daemon::{Daemon, Place},
    finish, guest, peal, run, until,
};
use std::process::{Child, Command, Stdio};

/// Returns a configuration with `group-rule` and these settings.
fn rule(settings: &str) -> String {
    format!(
        "[[module]]\nname = \"group-rule\"\npath = {:?}\nconfig = {{ {settings} }}\n",
        guest("group-rule")
    )
}

/// Returns the output of a job of this number of procs of this program under a server with that
/// rule.
#[track_caller]
fn printed(settings: &str, program: &str, procs: &str) -> Vec<String> {
    let mut words = program.split(' ');
    let program = c_program(words.next().unwrap());
    let place = Place::new();
    place.configure(&rule(settings));
    let mut command = peal(["run", "--config"]);
    command
        .arg(place.path("peal.toml"))
        .args(["-n", procs, "--"])
        .arg(program)
        .args(words);
    run(&mut command).expect_status(0).by_rank()
}

/// Starts a server on which only the procs of `team` may be in groups.
fn two_jobs(procs_of_other: &str) -> (Place, Daemon) {
    let place = Place::new();
    place.configure(&rule("namespaces = \"team*\", because = \"ask ops\""));
    let server = place.start();
    server.tell(&["job", "register", "team", "-n", "2"]);
    server.tell(&["job", "register", "other", "-n", procs_of_other]);
    (place, server)
}

fn start(server: &Daemon, program: &str, job: &str, rank: u32, args: &[&str]) -> Child {
    let mut command = Command::new(c_program(program));
    command
        .args(args)
        .envs(server.environment(job, rank))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[track_caller]
fn lines(procs: impl IntoIterator<Item = Child>) -> Vec<String> {
    let ended: Vec<Done> = procs.into_iter().map(finish).collect();
    ended
        .into_iter()
        .flat_map(|done| done.expect_status(0).by_rank())
        .collect()
}

/// Returns these lines for each of these ranks.
fn each(ranks: std::ops::Range<u32>, said: &[&str]) -> Vec<String> {
    ranks
        .flat_map(|rank| said.iter().map(move |line| format!("rank {rank}: {line}")))
        .collect()
}

#[needs(prepared, libpmix)]
#[test]
fn denied_construct_fails_for_all_including_late_callers() {
    let printed = printed("most = 4", "group refused 1", "4");
    let refused = "construct team: NO-PERMISSIONS (-23)";
    let why = "hears -165 team about own:1 because 5 procs are named, and no more than 4 may be";
    let formed = [
        "construct team: SUCCESS (0)",
        "construct team: it has no number",
        "destruct team: SUCCESS (0)",
    ];
    let all = [
        &[refused, why, refused, why],
        &formed[..],
        &["finalize: SUCCESS (0)"],
    ]
    .concat();
    assert_eq!(printed, each(0..4, &all));
}

#[needs(prepared, libpmix)]
#[test]
fn denied_procs_of_one_job_end_construct_of_permitted_job() {
    let why = "because procs of \"other\" may be in no group (ask ops)";
    // In either order of arrival, the procs of the denied job and those of the other one get the
    // denial.
    for first in ["team", "other"] {
        let (_place, server) = two_jobs("1");
        let team = || {
            let procs =
                (0..2).map(|rank| start(&server, "group", "team", rank, &["both", "other"]));
            procs.collect::<Vec<Child>>()
        };
        let other = || vec![start(&server, "group", "other", 0, &["both", "team"])];
        let (team, other) = match first {
            "team" => (team(), other()),
            _ => {
                let other = other();
                (team(), other)
            }
        };
        let said = |who: &str| {
            let why = format!("hears -165 both about {who}:0 {why}");
            [
                "construct both: NO-PERMISSIONS (-23)".to_owned(),
                why,
                "finalize: SUCCESS (0)".to_owned(),
            ]
        };
        let expect = |who, ranks| {
            let said = said(who);
            each(ranks, &said.each_ref().map(String::as_str))
        };
        assert_eq!(lines(team), expect("other", 0..2));
        assert_eq!(lines(other), expect("own", 0..1));
    }
}

#[needs(prepared, libpmix)]
#[test]
fn denied_inviter_has_invited_no_proc() {
    let printed = printed("names = \"team\"", "invite forbidden", "3");
    let mut expected = vec!["rank 0: invite crew: NO-PERMISSIONS (-23)".to_owned()];
    expected.extend(each(0..3, &["0 events", "finalize: SUCCESS (0)"]));
    expected.sort_by_key(|line| line.as_bytes()[5]);
    assert_eq!(printed, expected);
}

#[needs(prepared, libpmix)]
#[test]
fn denied_member_is_notified_and_counts_as_declined() {
    let (_place, server) = two_jobs("1");
    let team = (0..2).map(|rank| start(&server, "invite", "team", rank, &["abroad", "other"]));
    let (team, guest): (Vec<Child>, _) = (
        team.collect(),
        start(&server, "invite", "other", 0, &["guest"]),
    );
    let leader = [
        "rank 0: hears -162 because procs of \"other\" may be in no group (ask ops) by other:0",
        "rank 0: invite crew: not answered in 2 s",
        "rank 0: finalize: SUCCESS (0)",
    ];
    let member = [
        "rank 1: hears -159 crew by own:0",
        "rank 1: join crew: SUCCESS (0)",
        "rank 1: finalize: SUCCESS (0)",
    ];
    let guests = [
        "rank 0: hears -159 crew by other:0",
        "rank 0: join crew: NO-PERMISSIONS (-23)",
        "rank 0: finalize: SUCCESS (0)",
    ];
    assert_eq!(lines(team), [leader, member].concat());
    assert_eq!(lines([guest]), guests);
}

#[needs(prepared, libpmix)]
#[test]
fn permitted_group_is_as_without_policy() {
    let settings = "names = \"crew, whole\", namespaces = \"*\"";
    for program in ["invite accept", "group whole"] {
        let with = printed(settings, program, "4");
        assert!(
            with.iter()
                .filter(|line| line.contains("destruct") && line.contains("SUCCESS"))
                .count()
                >= 4,
            "{with:?}"
        );
    }
}

#[needs(prepared)]
#[test]
fn answers_to_invitation_reach_permitted_observers() {
    let place = Place::new();
    let path = guest("join-by-rule");
    place.configure(&format!(
        "[[module]]\nname = \"join-by-rule\"\npath = {path:?}\nconfig = {{ rules = \"crew-*=accept, *=decline\" }}\n"
    ));
    let server = place.start();
    let event = |args: &[&str]| {
        let mut command = server.verb(&[&["event"], args].concat());
        command
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for (group, answer) in [("crew-1", "accept"), ("other", "decline")] {
        let mut watch = event(&["watch", "PMIX_GROUP_INVITED", "-o", "json", "--count", "1"])
            .spawn()
            .unwrap();
        let name = format!("PMIX_GROUP_ID={group}");
        until("an invitation is seen", || {
            let notify = [
                "notify",
                "PMIX_GROUP_INVITED",
                "--range",
                "namespace",
                "--info",
                &name,
            ];
            run(&mut event(&notify)).expect_status(0);
            watch.try_wait().unwrap().is_some()
        });
        let seen: serde_json::Value =
            serde_json::from_str(&finish(watch).expect_status(0).stdout).unwrap();
        let infos = seen["chains"][0]["results"][0]["infos"].as_array().unwrap();
        let told = infos
            .iter()
            .find(|info| info["key"] == "peal.group.answer")
            .unwrap();
        assert_eq!(told["value"], answer, "{seen}");
    }
}

#[needs(prepared)]
#[test]
fn invalid_rule_stops_server_start_with_valid_input() {
    for (settings, wrong) in [
        (
            "because = \"x\"",
            "set \"names\", \"namespaces\" or \"most\"",
        ),
        (
            "names = \"a*b\"",
            "\"a*b\" in \"names\" is no name, or the beginning of one with a * behind it",
        ),
        ("most = 0", "most"),
    ] {
        let place = Place::new();
        place.configure(&rule(settings));
        let mut command = peal(["run", "--config"]);
        let done = run(command
            .arg(place.path("peal.toml"))
            .args(["-n", "1", "--", "true"]));
        assert!(
            done.status != Some(0) && done.stderr.contains(wrong),
            "{done:?}"
        );
    }
}
