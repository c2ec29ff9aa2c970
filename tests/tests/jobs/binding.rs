//! Binding of procs to processors: what ranks are told and may run on is the same as under `mpirun`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    launchers::{Launcher, run_under_foreign},
    run,
};
use std::{collections::BTreeMap, fs, process::Command, time::Duration};

/// Time limit of a job of `mpirun`, which sometimes hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// Options that both launchers know. The machine may have no more than one package and two cores.
const PLACEMENTS: [&[&str]; 5] = [
    &["--map-by", "core", "--bind-to", "core"],
    &["--map-by", "socket", "--bind-to", "core"],
    &["--map-by", "hwthread", "--bind-to", "hwthread"],
    &["--map-by", "core", "--bind-to", "socket"],
    &["--bind-to", "none"],
];

/// Returns the picture of the processors of each rank, of lines such as `rank 0 bound to ...: [B/.]`.
fn pictures(done: &Done) -> BTreeMap<String, String> {
    let lines = done.stderr.lines().filter_map(|line| {
        let (_, rest) = line.split_once("rank ")?;
        let (rank, rest) = rest.split_once(' ')?;
        let (_, picture) = rest.rsplit_once(": ")?;
        Some((rank.to_owned(), picture.to_owned()))
    });
    lines.collect()
}

/// Runs two procs under a launcher, and expects that they end well.
#[track_caller]
fn two_procs(launcher: &Launcher, options: &[&str], program: &[&str]) -> Done {
    let mut job = launcher.job(2, options, program);
    let done = match launcher {
        Launcher::Peal => run(&mut job),
        _ => run_under_foreign(&job, LIMIT),
    };
    done.expect_status(0)
}

/// Returns what each rank prints. `mpirun` may mix their lines.
fn printed_by_rank(
    launcher: &Launcher,
    options: &[&str],
    program: &[&str],
) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("\"$@\" > {}/$PMIX_RANK", directory.path().display());
    let words = [&["sh", "-c", &script, "sh"], program].concat();
    two_procs(launcher, options, &words);
    let files = fs::read_dir(directory.path())
        .unwrap()
        .map(|file| file.unwrap());
    let text = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        (name, fs::read_to_string(file.path()).unwrap())
    };
    files.map(text).collect()
}

/// Prints the processors that the kernel lets a rank run on.
const ALLOWED: [&str; 3] = [
    "sh",
    "-c",
    "echo $PMIX_RANK $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)",
];

#[needs(prepared, openmpi4, hwloc)]
#[test]
fn ranks_are_bound_and_reported_as_by_mpirun() {
    let facts = c_program("facts").to_string_lossy().into_owned();
    let told = [facts.as_str(), "own:pmix.cpuset", "own:pmix.locstr"];
    for placement in PLACEMENTS {
        let (ours, theirs) = (Launcher::Peal, Launcher::mpirun());
        for program in [&ALLOWED[..], &told] {
            let of_ours = printed_by_rank(&ours, placement, program);
            assert_eq!(of_ours.len(), 2, "{placement:?}: {program:?}");
            let of_theirs = printed_by_rank(&theirs, placement, program);
            assert_eq!(of_ours, of_theirs, "{placement:?}: {program:?}");
        }
        let reported = |launcher: &Launcher| {
            let options = [placement, &["--report-bindings"]].concat();
            pictures(&two_procs(launcher, &options, &["true"]))
        };
        // mpirun prints no picture of procs that may run on all processors.
        let (of_ours, of_theirs) = (reported(&ours), reported(&theirs));
        let partial = of_ours
            .into_iter()
            .filter(|(_, picture)| picture.contains('.'));
        assert_eq!(
            partial.collect::<BTreeMap<_, _>>(),
            of_theirs,
            "{placement:?}"
        );
    }
}

#[needs(prepared, hwloc)]
#[test]
fn binding_keeps_to_the_processors_of_the_launcher() {
    let mut command = Launcher::Peal.job(1, &["--bind-to", "core", "--report-bindings"], ALLOWED);
    let mut own = Command::new(ALLOWED[0]);
    let own = run(own.args(&ALLOWED[1..])).expect_status(0).stdout;
    let last = own.trim().rsplit([',', '-', ' ']).next().unwrap();
    let mut bound = Command::new("taskset");
    bound
        .args(["--cpu-list", last])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        bound.envs(value.map(|value| (name, value)));
    }
    let alone = run(&mut bound).expect_status(0);
    assert_eq!(alone.stdout, format!("0 {last}\n"));
    let report = format!("rank 0 is bound to processors {last}: [B]");
    assert!(alone.stderr.contains(&report), "{}", alone.stderr);
    let whole = run(&mut command).expect_status(0);
    assert_ne!(whole.stdout, alone.stdout, "it gets the first core");
}

#[needs(prepared, hwloc)]
#[test]
fn impossible_binding_is_refused_before_anything_runs() {
    let refused = |options: &[&str], count| {
        let done = run(&mut Launcher::Peal.job(count, options, ["echo", "started"]));
        let done = done.expect_status(125);
        assert_eq!(done.stdout, "");
        done.stderr
    };
    let full = refused(&["--bind-to", "core"], 4096);
    assert!(full.contains("would share a core"), "{full}");
    assert!(full.contains("or bind to none"), "{full}");
    let mut lonely = Launcher::Peal.job(1, &["--bind-to", "core"], ["echo"]);
    let directory = tempfile::tempdir().unwrap();
    lonely
        .env("PATH", directory.path())
        .env("XDG_CACHE_HOME", directory.path());
    let done = run(&mut lonely).expect_status(125);
    assert!(
        done.stderr.contains("procs cannot be bound to processors"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("install hwloc-nox"), "{}", done.stderr);
    let unknown = run(&mut Launcher::Peal.job(1, &["--bind-to", "board"], ["echo"]));
    let said = unknown.expect_status(2).stderr;
    assert!(
        said.contains("none, hwthread, core, l3cache, numa, package"),
        "{said}"
    );
}
