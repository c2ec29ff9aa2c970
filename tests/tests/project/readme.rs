//! The commands of README.md, run as they are written.
use peal_needs::needs;
use peal_tests::{root, run, run_within};
use std::{
    env, fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command, sync::OnceLock,
    time::Duration,
};

/// Time limit of a block of commands: it may build programs for the first time, and waits while the
/// other test of this file builds.
const LONGEST_BUILD: Duration = Duration::from_secs(900);

/// Returns the blocks of shell commands in their order, without those that tests ignore.
fn blocks() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let parts: Vec<&str> = readme.split("```sh\n").collect();
    let is_run = |before: &&str| {
        let last = before.trim_end().lines().last().unwrap_or_default();
        !last.starts_with("<!-- test ignores: ")
    };
    let starts = parts.iter().zip(&parts[1..]);
    starts
        .filter(|(before, _)| is_run(before))
        .map(|(_, rest)| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// Returns a shell that will run commands in this directory.
fn shell(commands: &str, dir: &Path) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(dir);
    command.env("XDG_CACHE_HOME", root().join("target/test-cache"));
    command
}

/// Runs a shell to its end, and returns what it has written.
fn shown(mut shell: Command) -> String {
    let done = run_within(LONGEST_BUILD, &mut shell).expect_status(0);
    done.stdout + &done.stderr
}

#[test]
fn readme_begins_with_two_commands_and_ci_runs_the_test_one() {
    let blocks = blocks();
    assert_eq!(blocks[..2], ["cargo xtask demo\n", "cargo xtask test\n"]);
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(ci.lines().any(|line| line == "cargo xtask test"), "{ci}");
}

/// Returns the transcript of the demo, which runs once.
fn demo() -> &'static str {
    static SHOWN: OnceLock<String> = OnceLock::new();
    SHOWN.get_or_init(|| shown(shell(&blocks()[0], &root())))
}

#[test]
fn demo_shows_job_events_and_answers_of_handlers() {
    let shown = demo();
    assert!(shown.contains("$ peal run -n 4 --events"), "{shown}");
    assert!(shown.contains("rank 3 of 4: my neighbour says"), "{shown}");
    assert!(
        shown.contains("report answers PMIX_EVENT_NO_ACTION_TAKEN (-331)"),
        "{shown}"
    );
    assert!(shown.contains("which ends the chain"), "{shown}");
    assert!(
        shown.contains("this line went through a log channel\nmy line was logged"),
        "{shown}"
    );
    assert!(
        shown.contains("the other job stays: PMIx_Job_control") && shown.contains("same-user"),
        "{shown}"
    );
    // The lines of cargo differ, because the other tests of this file build as well.
    let of_cargo = ["Blocking ", "Compiling ", "Finished ", "Running "];
    let transcript = shown.lines().filter(|line| {
        !of_cargo
            .iter()
            .any(|word| line.trim_start().starts_with(word))
    });
    let count = transcript.count();
    assert!(count < 100, "a short transcript, not {count} lines");
}

#[needs(openmpi4)]
#[test]
fn demo_shows_how_mpi_jobs_end_as_handlers_decide() {
    let shown = demo();
    // The output of the dying proc is not lost, and the verdicts of the handlers differ.
    assert_eq!(shown.matches("\nlast words of 3\n").count(), 2, "{shown}");
    assert!(
        shown.contains(":3 has ended abnormally (exit status 137): the others are to go on\n"),
        "{shown}"
    );
    assert!(
        shown.contains(":3 has ended abnormally (exit status 137): the job is to end\n"),
        "{shown}"
    );
    assert_eq!(
        shown
            .matches("\nthe other 3 have worked on: sum 3\n")
            .count(),
        1,
        "{shown}"
    );
}

/// Directory with a `cargo` that runs the `xtask` of this repository in another one, and does else what `cargo` does.
///
/// Cargo names compiled crates by their paths in the workspace. An `xtask` that it compiled in a copy would replace this
/// repository's, and whatever is built afterwards would be compiled once more.
fn cargo_with_this_xtask() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = xtask ] || exec {cargo:?} \"$@\"\nshift\nCARGO_MANIFEST_DIR=$PWD/xtask exec {xtask:?} \"$@\"\n",
        cargo = env!("CARGO"),
        xtask = root().join("target/debug/xtask"),
    );
    let program = dir.path().join("cargo");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// The commands run in a copy of the sources, so that the handler is not left in the repository. Programs are shared.
/// Guests are not: they are compiled with the path of the repository, so that those of a copy would take the place of this
/// repository's, and all would be compiled once more.
#[needs(git)]
#[test]
fn first_handler_is_built_and_answers_as_in_the_text() {
    let copy = tempfile::tempdir().unwrap();
    let files = run(Command::new("git").args(["ls-files"]).current_dir(root()))
        .expect_status(0)
        .stdout;
    for file in files.lines().filter(|file| root().join(file).exists()) {
        let to = copy.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        match fs::read_link(root().join(file)) {
            // Links lead from one directory of the sources to another.
            Ok(target) => std::os::unix::fs::symlink(target, to).unwrap(),
            Err(_) => fs::copy(root().join(file), to).map(drop).unwrap(),
        }
    }
    fs::create_dir(copy.path().join("target")).unwrap();
    for shared in ["debug", "tools"] {
        fs::create_dir_all(root().join("target").join(shared)).unwrap();
        std::os::unix::fs::symlink(
            root().join("target").join(shared),
            copy.path().join("target").join(shared),
        )
        .unwrap();
    }
    let blocks = blocks();
    assert_eq!(blocks.len(), 4, "a new block of commands needs a test");
    let cargo = cargo_with_this_xtask();
    let mut path = vec![cargo.path().to_owned()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap()));
    let mut builds = shell(&blocks[2], copy.path());
    builds.env("PATH", env::join_paths(path).unwrap());
    shown(builds);
    let shown = shown(shell(&blocks[3], copy.path()));
    assert!(shown.contains("capabilities   none"), "{shown}");
    for line in [
        "first answers PMIX_EVENT_NO_ACTION_TAKEN (-331), first.greeting=\"well done, rank 0\"",
        "peal.complete.after=\"first\"",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}
