//! What procs have spawned, by unmodified `libpmix` programs: without a policy all that the embedded host honours, and with one what it
//! denies, amends and lets pass.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
use peal_model::key;
use peal_tests::{
    Done, c_program,
    daemon::Place,
    finish, guest,
    mpi::{OpenMpi, doing},
    peal, program, run,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// What comes of a proc that has this spawned, `@` being its own program, under `peal run` with this configuration; nothing where there
/// is no `libpmix`.
#[track_caller]
fn spawned(place: &Place, words: &str) -> Option<Done> {
    let program = c_program("spawn")?;
    let own = program.to_str().unwrap();
    let mut command = peal(["run", "--config"]);
    command.arg(place.path("peal.toml")).args(["-n", "1", "--"]).arg(&program);
    command.args(words.split(' ').map(|word| if word == "@" { own } else { word }));
    Some(run(&mut command))
}

fn unpoliced() -> Place {
    let place = Place::new();
    place.configure("");
    place
}

/// A configuration with `spawn-limit` and these settings.
fn limited(settings: &str) -> Place {
    let place = Place::new();
    let path = guest("spawn-limit");
    place.configure(&format!("[[module]]\nname = \"spawn-limit\"\npath = {path:?}\nconfig = {{ {settings} }}\n"));
    place
}

/// What the spawning proc says, and what those say that it spawned, by rank: who of two jobs writes first nobody knows.
fn sides(done: &Done) -> (Vec<&str>, Vec<&str>) {
    let is_child = |line: &&str| line.contains("child");
    let (mut children, parent): (Vec<&str>, Vec<&str>) =
        done.stdout.lines().filter(|line| !line.ends_with("finalize: SUCCESS (0)")).partition(is_child);
    children.sort_by_key(|line| line.split_once(": ").map(|(rank, _)| rank));
    (parent, children)
}

const DONE: [&str; 3] =
    ["rank 0: spawn: SUCCESS (0)", "rank 0: another job: yes", "rank 0: it ended: SUCCESS (0), exit code 0"];

#[test]
fn two_applications_are_one_job_and_each_has_its_own_environment_and_directory() {
    let words = "notify set=ALL=1 -- 2 set=OWN=a env=PLAIN=b cwd=/usr @ child ALL OWN PLAIN -- 1 wdir=/var @ child ALL OWN PLAIN";
    let Some(done) = spawned(&unpoliced(), words) else { return };
    let done = done.expect_status(0);
    let (parent, children) = sides(&done);
    assert_eq!(parent, DONE);
    let of = |rank: u32, application: u32, rest: [&str; 4]| {
        let known =
            ["job: uint32 3".to_owned(), format!("application: uint32 {application}"), "parent: other:0".to_owned()];
        let rest = rest.map(str::to_owned);
        known.into_iter().chain(rest).map(|line| format!("rank {rank}: child's {line}")).collect::<Vec<_>>()
    };
    let first = ["directory: /usr", "ALL: 1", "OWN: a", "PLAIN: b"];
    let second = ["directory: /var", "ALL: 1", "OWN: not set", "PLAIN: not set"];
    assert_eq!(children, [of(0, 0, first), of(1, 0, first), of(2, 1, second)].concat());
}

#[test]
fn variables_are_set_added_to_and_taken_away() {
    let words =
        "notify set=WAY=x prepend=WAY=a append=WAY=z add=WAY=no add=NEW=yes unset=HOME -- 1 @ child WAY NEW HOME";
    let Some(done) = spawned(&unpoliced(), words) else { return };
    let said = ["child's WAY: a:x:z", "child's NEW: yes", "child's HOME: not set"];
    for line in said {
        assert!(done.stdout.contains(line), "{line} in {}", done.stdout);
    }
}

#[test]
fn who_has_it_spawned_hears_how_it_ended() {
    // Else the end of what it spawned would be its own.
    let place = Place::new();
    place.configure("[run]\non_abort = \"continue\"\n");
    for (child, status, code) in
        [("exit=3", "NON-ZERO TERMINATION (-187)", 3), ("die", "ABORTED BY SIGNAL (-184)", 134)]
    {
        let Some(done) = spawned(&place, &format!("notify -- 2 @ child {child}")) else { return };
        let done = done.expect_status(code);
        let heard = format!("rank 0: it ended: {status}, exit code {code}");
        assert_eq!(sides(&done).0, [DONE[0], DONE[1], &heard]);
    }
}

#[test]
fn what_cannot_be_spawned_is_told_by_its_status() {
    for (words, status) in [
        ("-- 1 /no/such/program", "EXECUTABLE NOT FOUND (-190)"),
        ("-- 1 /etc/passwd", "APPLICATION NOT EXECUTABLE (-177)"),
        ("-- 0 @ child", "BAD-PARAM (-27)"),
        ("-- 70000 @ child", "INSUFFICIENT RESOURCES (-234)"),
        ("wdir=/no/such/directory -- 1 @ child", "WORKING DIRECTORY NOT FOUND (-233)"),
        ("unknown -- 1 @ child", "NOT-SUPPORTED (-47)"),
    ] {
        let Some(done) = spawned(&unpoliced(), words) else { return };
        let done = done.expect_status(0);
        assert_eq!(sides(&done).0, [format!("rank 0: spawn: {status}")], "{words}");
    }
}

#[test]
fn what_is_pushed_is_read_and_what_is_written_can_be_tagged_and_kept() {
    let Some(done) = spawned(&unpoliced(), "notify input -- 1 @ child read") else { return };
    let done = done.expect_status(0);
    for line in ["rank 0: child reads: hello", "rank 0: child reads then: nothing"] {
        assert!(done.stdout.lines().any(|printed| printed == line), "{line} in {}", done.stdout);
    }
    let place = unpoliced();
    let kept = place.path("kept");
    let done = spawned(&place, &format!("notify tag to={} -- 2 @ child", kept.display())).unwrap().expect_status(0);
    for rank in 0..2 {
        let line = format!("rank {rank}: child's job: uint32 2");
        assert!(done.stdout.lines().any(|printed| printed == format!("[{rank}] {line}")), "{}", done.stdout);
        let file = fs::read_to_string(kept.join(format!("rank.{rank}/stdout"))).unwrap();
        assert!(file.lines().any(|written| written == line), "{file}");
    }
}

/// A program that leaves something behind when it runs: what was denied must not have.
fn witness(place: &Place) -> String {
    let (script, trace) = (place.path("witness"), place.path("trace"));
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    Command::new("chmod").args(["755", script.to_str().unwrap()]).status().unwrap();
    script.to_str().unwrap().to_owned()
}

#[test]
fn what_is_denied_is_not_started_and_the_requester_is_told_the_policys_status() {
    let place = limited("procs = 2, programs = \"/bin/*\"");
    let witness = witness(&place);
    for (words, status, why) in [
        (
            "-- 2 /bin/true -- 1 /bin/true".to_owned(),
            "INSUFFICIENT RESOURCES (-234)",
            "3 procs are asked for at once, and no more than 2 may be",
        ),
        (
            format!("-- 1 /bin/true -- 1 {witness}"),
            "NO-PERMISSIONS (-23)",
            "is no program that may be spawned; name it by its path",
        ),
    ] {
        let Some(done) = spawned(&place, &words) else { return };
        let done = done.expect_status(0);
        assert_eq!(sides(&done).0, [format!("rank 0: spawn: {status}")], "{words}");
        let told = done.stderr.lines().find(|line| line.contains("denies spawn to")).unwrap_or_default();
        assert!(told.contains("policy \"spawn-limit\"") && told.contains(why), "{}", done.stderr);
    }
    assert!(!Path::new(&place.path("trace")).exists(), "it ran");
    // It would have left its trace.
    spawned(&unpoliced(), &format!("notify -- 1 {witness}")).unwrap().expect_status(0);
    assert!(Path::new(&place.path("trace")).exists(), "it leaves none");
}

#[test]
fn what_passes_is_started_as_the_policy_amends_it() {
    let place = limited("procs = 2, directory = \"/usr\", tag_output = true");
    let Some(done) = spawned(&place, "notify set=ALL=1 wdir=/tmp -- 2 @ child ALL") else { return };
    let done = done.expect_status(0);
    for rank in 0..2 {
        for line in ["child's directory: /usr", "child's ALL: 1"] {
            let line = format!("[{rank}] rank {rank}: {line}");
            assert!(done.stdout.lines().any(|printed| printed == line), "{line} in {}", done.stdout);
        }
    }
    assert!(done.stdout.contains(DONE[2]), "what it was asked beside that stays: {}", done.stdout);
    let own = spawned(&place, "-- 1 wdir=/tmp @ child").unwrap();
    assert_eq!(sides(&own.expect_status(0)).0, ["rank 0: spawn: NO-PERMISSIONS (-23)"]);
}

#[test]
fn each_user_may_have_so_many_jobs_spawned_in_a_minute() {
    let place = Place::new();
    let (path, store) = (guest("quota"), place.path("store.db"));
    place.configure(&format!(
        "[store]\npath = {store:?}\n[[module]]\nname = \"quota\"\npath = {path:?}\ngrants = [\"clock\", \"state\"]\n\
         config = {{ spawn = 1, exempt = \"\" }}\n"
    ));
    for status in ["SUCCESS (0)", "RESOURCE-BUSY (-28)"] {
        let Some(done) = spawned(&place, "-- 1 /bin/true") else { return };
        assert_eq!(sides(&done).0.first(), Some(&format!("rank 0: spawn: {status}").as_str()), "{}", done.stderr);
    }
}

/// A server of others' jobs starts none, but asks as well.
#[test]
fn a_server_without_a_launcher_asks_before_it_says_that_it_has_none() {
    let place = limited("procs = 2");
    let server = place.start();
    server.tell(&["job", "register", "team", "-n", "1"]);
    for (procs, status) in [("3", "INSUFFICIENT RESOURCES (-234)"), ("2", "NOT-SUPPORTED (-47)")] {
        let Some(program) = c_program("spawn") else { return };
        let mut command = Command::new(program);
        command.args(["--", procs, "/bin/true"]).envs(server.environment("team", 0));
        let proc = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let done = finish(proc).expect_status(0);
        assert_eq!(sides(&done).0, [format!("rank 0: spawn: {status}")]);
    }
}

#[test]
fn an_mpi_program_that_may_not_spawn_ends_with_an_error() {
    let place = limited("procs = 1");
    let config = place.path("peal.toml");
    for mpi in OpenMpi::all() {
        let Some(program) = doing("spawn") else { return };
        let done = run(&mut mpi.under_peal(1, &["--config", config.to_str().unwrap()], &program));
        assert!(done.status.is_some_and(|status| status != 0), "{}: {}", mpi.name, done.stdout);
        assert!(done.stderr.contains("rank 0 aborted the job"), "{}: {}", mpi.name, done.stderr);
    }
}

#[test]
fn a_client_of_ours_has_a_job_spawned_and_is_told_what_of_such_a_request_is_honoured() {
    let place = limited("procs = 2");
    for (procs, said) in [
        ("2", "it runs, and ended: PMIX_SUCCESS (0)"),
        ("3", "it does not run: PMIx_Spawn: PMIX_ERR_JOB_INSUFFICIENT_RESOURCES (-234)"),
    ] {
        let mut command = peal(["run", "--config"]);
        command.arg(place.path("peal.toml")).args(["-n", "1", "--"]).arg(program("peal-spawner")).arg(procs);
        let done = run(&mut command).expect_status(0);
        let [came_of_it, honoured] = done.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{}", done.stdout) };
        assert_eq!(came_of_it, said);
        let keys: Vec<&str> = honoured.trim_start_matches("honoured: ").split(',').collect();
        assert!(keys.contains(&key::PMIX_WDIR.0) && keys.contains(&key::PMIX_SET_ENVAR.0), "{honoured}");
    }
}
