//! Spawn with a policy, by unmodified `libpmix` programs: requests that the policy denies, changes
//! and grants.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
use peal_model::key;
use peal_needs::needs;
use peal_tests::{
    c_program,
    daemon::Place,
    finish, guest,
    mpi::{OpenMpi, doing},
    peal, program, run,
    spawn::{DONE, sides, spawned, unpoliced},
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Returns a configuration with `spawn-limit` and these settings.
fn limited(settings: &str) -> Place {
    let place = Place::new();
    let path = guest("spawn-limit");
    place.configure(&format!(
        "[[module]]\nname = \"spawn-limit\"\npath = {path:?}\nconfig = {{ {settings} }}\n"
    ));
    place
}

/// Returns a program that creates a file when it runs. A denied program must not have created it.
fn witness(place: &Place) -> String {
    let script = place.path("witness");
    let trace = place.path("trace");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    Command::new("chmod")
        .args(["755", script.to_str().unwrap()])
        .status()
        .unwrap();
    script.to_str().unwrap().to_owned()
}

#[needs(prepared, libpmix)]
#[test]
fn denied_spawn_starts_nothing_and_returns_policy_status() {
    let place = limited("procs = 2, programs = \"/bin/*\"");
    let witness = witness(&place);
    for (words, status, why) in [
        (
            "-- 2 /bin/true -- 1 /bin/true".to_owned(),
            "INSUFFICIENT RESOURCES (-234)",
            "3 procs are requested at once; the limit is 2",
        ),
        (
            format!("-- 1 /bin/true -- 1 {witness}"),
            "NO-PERMISSIONS (-23)",
            "is no program that may be spawned; name it by its path",
        ),
    ] {
        let done = spawned(&place, &words);
        let done = done.expect_status(0);
        assert_eq!(
            sides(&done).0,
            [format!("rank 0: spawn: {status}")],
            "{words}"
        );
        let told = done
            .stderr
            .lines()
            .find(|line| line.contains("denies spawn to"))
            .unwrap_or_default();
        assert!(
            told.contains("policy \"spawn-limit\"") && told.contains(why),
            "{}",
            done.stderr
        );
    }
    assert!(!Path::new(&place.path("trace")).exists(), "it ran");
    // A granted program creates the file.
    spawned(&unpoliced(), &format!("notify -- 1 {witness}")).expect_status(0);
    assert!(Path::new(&place.path("trace")).exists(), "it leaves none");
}

#[needs(prepared, libpmix)]
#[test]
fn granted_spawn_starts_as_amended_by_policy() {
    let place = limited("procs = 2, directory = \"/usr\", tag_output = true");
    let done = spawned(&place, "notify set=ALL=1 wdir=/tmp -- 2 @ child ALL");
    let done = done.expect_status(0);
    for rank in 0..2 {
        for line in ["child's directory: /usr", "child's ALL: 1"] {
            let line = format!("[{rank}] rank {rank}: {line}");
            assert!(
                done.stdout.lines().any(|printed| printed == line),
                "{line} in {}",
                done.stdout
            );
        }
    }
    assert!(
        done.stdout.contains(DONE[2]),
        "the other directives are unchanged: {}",
        done.stdout
    );
    let own = spawned(&place, "-- 1 wdir=/tmp @ child");
    assert_eq!(
        sides(&own.expect_status(0)).0,
        ["rank 0: spawn: NO-PERMISSIONS (-23)"]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn each_user_may_have_so_many_jobs_spawned_in_a_minute() {
    let place = Place::new();
    let path = guest("quota");
    let store = place.path("store.db");
    place.configure(&format!(
        "[store]\npath = {store:?}\n[[module]]\nname = \"quota\"\npath = {path:?}\ngrants = [\"clock\", \"state\"]\n\
         config = {{ spawn = 1, exempt = \"\" }}\n"
    ));
    for status in ["SUCCESS (0)", "RESOURCE-BUSY (-28)"] {
        let done = spawned(&place, "-- 1 /bin/true");
        assert_eq!(
            sides(&done).0.first(),
            Some(&format!("rank 0: spawn: {status}").as_str()),
            "{}",
            done.stderr
        );
    }
}

/// A server of jobs of other launchers spawns none, but calls the policy, too.
#[needs(prepared, libpmix)]
#[test]
fn server_without_launcher_calls_policies_before_refusing() {
    let place = limited("procs = 2");
    let server = place.start();
    server.tell(&["job", "register", "team", "-n", "1"]);
    for (procs, status) in [
        ("3", "INSUFFICIENT RESOURCES (-234)"),
        ("2", "NOT-SUPPORTED (-47)"),
    ] {
        let program = c_program("spawn");
        let mut command = Command::new(program);
        command
            .args(["--", procs, "/bin/true"])
            .envs(server.environment("team", 0));
        let proc = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let done = finish(proc).expect_status(0);
        assert_eq!(sides(&done).0, [format!("rank 0: spawn: {status}")]);
    }
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn an_mpi_program_that_may_not_spawn_ends_with_an_error() {
    let place = limited("procs = 1");
    let config = place.path("peal.toml");
    for mpi in OpenMpi::both() {
        let program = doing("spawn");
        let done = run(&mut mpi.under_peal(1, &["--config", config.to_str().unwrap()], &program));
        assert!(
            done.status.is_some_and(|status| status != 0),
            "{}: {}",
            mpi.name,
            done.stdout
        );
        assert!(
            done.stderr.contains("rank 0 aborted the job"),
            "{}: {}",
            mpi.name,
            done.stderr
        );
    }
}

#[needs(prepared)]
#[test]
fn client_of_peal_spawns_job_and_gets_supported_directives() {
    let place = limited("procs = 2");
    for (procs, said) in [
        ("2", ["it runs, and ended", "PMIX_SUCCESS (0)"]),
        (
            "3",
            [
                "it does not run: PMIx_Spawn is refused by the server",
                "PMIX_ERR_JOB_INSUFFICIENT_RESOURCES (-234)",
            ],
        ),
    ] {
        let mut command = peal(["run", "--config"]);
        command
            .arg(place.path("peal.toml"))
            .args(["-n", "1", "--"])
            .arg(program("peal-spawner"))
            .arg(procs);
        let done = run(&mut command).expect_status(0);
        let [came_of_it, honoured] = done.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{}", done.stdout)
        };
        let [begins, ends] = said;
        assert!(
            came_of_it.starts_with(begins) && came_of_it.ends_with(ends),
            "{came_of_it}"
        );
        let keys: Vec<&str> = honoured
            .trim_start_matches("honoured: ")
            .split(',')
            .collect();
        assert!(
            keys.contains(&key::PMIX_WDIR.0) && keys.contains(&key::PMIX_SET_ENVAR.0),
            "{honoured}"
        );
    }
}
