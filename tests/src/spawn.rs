//! Procs that spawn jobs by a small language of arguments (`tests/c/spawn.c`), under `peal run`.
use crate::{Done, c_program, daemon::Place, peal, run};

/// Runs a proc that spawns by these arguments under `peal run` with this configuration; `@` is its
/// own program. For tests with `#[needs(libpmix)]`.
#[track_caller]
pub fn spawned(place: &Place, words: &str) -> Done {
    let program = c_program("spawn");
    let own = program.to_str().unwrap();
    let mut command = peal(["run", "--config"]);
    command
        .arg(place.path("peal.toml"))
        .args(["-n", "1", "--"])
        .arg(&program);
    command.args(
        words
            .split(' ')
            .map(|word| if word == "@" { own } else { word }),
    );
    run(&mut command)
}

/// Returns a site without policies.
pub fn unpoliced() -> Place {
    let place = Place::new();
    place.configure("");
    place
}

/// Returns the lines of the spawning proc, and those of the spawned procs by rank. The order
/// between the two jobs is not fixed.
pub fn sides(done: &Done) -> (Vec<&str>, Vec<&str>) {
    let is_child = |line: &&str| line.contains("child");
    let (mut children, parent): (Vec<&str>, Vec<&str>) = done
        .stdout
        .lines()
        .filter(|line| !line.ends_with("finalize: SUCCESS (0)"))
        .partition(is_child);
    children.sort_by_key(|line| line.split_once(": ").map(|(rank, _)| rank));
    (parent, children)
}

/// Lines of the spawning proc about a job that ends in order, if it requested notification.
pub const DONE: [&str; 3] = [
    "rank 0: spawn: SUCCESS (0)",
    "rank 0: another job: yes",
    "rank 0: it ended: SUCCESS (0), exit code 0",
];
