//! `cargo xtask fuzz`: builds the fuzz targets of `tests/fuzz` and runs them, one on each core at a time.
use crate::{
    command::{cargo, run, step, target_dir},
    parallel,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// Names of the targets: files in `tests/fuzz/fuzz_targets`.
const TARGETS: [&str; 12] = [
    "admin",
    "calls",
    "cluster",
    "handshake",
    "helper",
    "lift",
    "message",
    "modules",
    "relay",
    "signer",
    "stub",
    "trail",
];

/// Programs that write recorded messages as the first inputs: examples of the crates.
const SEEDS: [&str; 2] = ["seeds", "relay_seeds"];

/// Number of last lines of the output of a target that are shown if it finds a fault.
const SHOWN_LINES: usize = 40;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Fuzz {
    /// Run these targets only
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    targets: Vec<String>,
    /// Run each target for this time in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Start the random numbers here; a run prints its seed
    #[arg(long)]
    seed: Option<u32>,
}

impl Fuzz {
    /// Builds and runs the targets.
    pub fn run(&self, root: &Path) -> Result<()> {
        let seed = self.seed.map_or_else(seed_of_the_moment, Ok)?;
        if self.targets.is_empty() {
            all(root, self.seconds, seed)
        } else {
            fuzz(root, self.targets.clone(), self.seconds, seed)
        }
    }
}

/// Fuzzes all targets, each for this number of seconds.
pub fn all(root: &Path, seconds: u32, seed: u32) -> Result<()> {
    fuzz(root, TARGETS.map(str::to_owned).to_vec(), seconds, seed)
}

/// Returns a seed from the clock. It is never zero, which libFuzzer takes for "any".
pub fn seed_of_the_moment() -> Result<u32> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .context("the clock is before 1970")?;
    Ok(now.subsec_nanos() | 1)
}

fn fuzz(root: &Path, targets: Vec<String>, seconds: u32, seed: u32) -> Result<()> {
    let work = FuzzDirectory(target_dir(root).join("fuzz"));
    step("fuzz targets", || build(root, &targets, &work))?;
    let title = format!("fuzzing, {seconds} s for each target, seed {seed}");
    step(&title, || run_all(root, targets, &work, seconds, seed))
}

/// Directory of corpora, faults and logs.
struct FuzzDirectory(PathBuf);

impl FuzzDirectory {
    fn corpora(&self) -> PathBuf {
        self.0.join("corpus")
    }

    /// Returns a directory of a target, which it creates.
    fn of(&self, kind: &str, target: &str) -> Result<PathBuf> {
        let path = self.0.join(kind).join(target);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }
}

/// Compiles the targets, and writes their first inputs.
///
/// Cargo selects the features for the whole workspace, as for the tests, so that crates of others are
/// compiled once for both. Only the crates of the workspace are instrumented.
fn build(root: &Path, targets: &[String], work: &FuzzDirectory) -> Result<()> {
    let mut seeds = cargo(root);
    seeds.args(["build", "--quiet", "--workspace"]);
    SEEDS.iter().for_each(|seed| {
        seeds.args(["--example", seed]);
    });
    run(&mut seeds)?;
    for seed in SEEDS {
        let program = target_dir(root).join("debug/examples").join(seed);
        run(Command::new(program).arg(work.corpora()))?;
    }
    let mut programs = cargo(root);
    programs
        .args(["build", "--workspace", "--features", "peal-fuzz/targets"])
        // Optimized with instrumentation it takes two minutes of each build, and the targets spend their time elsewhere.
        .args(["--config", "profile.dev.package.peal-core.opt-level=0"])
        .env(
            "RUSTC_WORKSPACE_WRAPPER",
            root.join("tests/fuzz/instrument"),
        );
    targets.iter().for_each(|target| {
        programs.args(["--bin", &format!("fuzz-{target}")]);
    });
    run(&mut programs)
}

/// Inputs that a target ran without a fault.
struct FuzzedInputs {
    target: String,
    count: String,
}

fn run_all(
    root: &Path,
    targets: Vec<String>,
    work: &FuzzDirectory,
    seconds: u32,
    seed: u32,
) -> Result<()> {
    let mut faults = 0;
    parallel::for_each(
        parallel::cores(),
        targets,
        |target| run_one(root, target, work, seconds, seed),
        |end| match end {
            Ok(FuzzedInputs { target, count }) => println!("{target}: {count} inputs, no fault"),
            Err(fault) => {
                println!("{fault:#}");
                faults += 1;
            }
        },
    );
    ensure!(faults == 0, "{faults} targets have failed");
    Ok(())
}

fn run_one(
    root: &Path,
    target: String,
    work: &FuzzDirectory,
    seconds: u32,
    seed: u32,
) -> Result<FuzzedInputs> {
    let program = target_dir(root)
        .join("debug")
        .join(format!("fuzz-{target}"));
    let log = work.of("logs", &target)?.join("last");
    let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let artifacts = work.of("artifacts", &target)?;
    let status = Command::new(&program)
        .arg(work.of("corpus", &target)?)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-seed={seed}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-timeout=60"])
        .stdout(output.try_clone().context("sharing the log")?)
        .stderr(output)
        .status()
        .with_context(|| format!("running {}", program.display()))?;
    let text = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    if !status.success() {
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(SHOWN_LINES);
        let shown = lines.get(last..).unwrap_or_default().join("\n");
        anyhow::bail!(
            "{target}: {status}\n{shown}\nrepeat it by {} with a file of {}",
            program.display(),
            artifacts.display()
        );
    }
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .with_context(|| format!("{target} has run no input; see {}", log.display()))?;
    Ok(FuzzedInputs {
        target,
        count: count.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::TARGETS;
    use std::{fs, path::Path};

    #[test]
    fn every_file_with_a_target_is_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz");
        let mut files: Vec<String> = fs::read_dir(root.join("fuzz_targets"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, TARGETS);
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        for target in TARGETS {
            assert!(
                manifest.contains(&format!("name = \"fuzz-{target}\"")),
                "{target}"
            );
        }
    }
}
