//! Runs of the host's test binaries, several at a time: many tests wait for something, so that one
//! binary alone leaves cores idle.
use crate::{command::cargo, ignored::Ignored, parallel};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Test binary of one target.
struct TestBinary {
    /// File name without the hash.
    name: String,
    program: PathBuf,
    /// Directory of the package, in which cargo runs the tests.
    package: PathBuf,
}

/// Test binaries of the host.
pub struct TestBinaries(VecDeque<TestBinary>);

/// Result of a binary.
struct Ended {
    name: String,
    took: Duration,
    /// Both streams, in the order in which they were written.
    output: Vec<u8>,
    result: Result<()>,
}

impl Ended {
    fn print(&self) -> io::Result<()> {
        let mut printed = io::stdout().lock();
        let took = self.took.as_secs_f32();
        writeln!(printed, "\nran {} in {took:.1} s", self.name)?;
        printed.write_all(&self.output)?;
        match &self.result {
            Ok(()) => Ok(()),
            Err(error) => writeln!(printed, "{} failed: {error:#}", self.name),
        }
    }

    /// Returns what the failed tests printed, of the end of the output.
    fn failures(&self) -> String {
        let output = String::from_utf8_lossy(&self.output);
        let failures = output.split_once("\nfailures:\n");
        let failures = failures.map_or(&*output, |(_, failures)| failures);
        let lines: Vec<_> = failures.trim().lines().collect();
        let shown = lines.len().min(FAILURE_LINES);
        lines.split_at(lines.len() - shown).1.join("\n")
    }
}

/// Number of lines of the failures of a binary that are printed again after all others.
const FAILURE_LINES: usize = 40;

/// Runs the binaries in this environment. Prints the output of each when it has ended, and counts
/// the ignored tests. Prints at the end once more what failed, where a reader of a long log looks first.
///
/// # Errors
///
/// Names the binaries that failed, once all have run.
pub fn run_all(
    root: &Path,
    binaries: TestBinaries,
    variables: &[(&str, OsString)],
) -> Result<Ignored> {
    let outputs = root.join("target/test-output");
    fs::create_dir_all(&outputs).with_context(|| format!("creating {}", outputs.display()))?;
    let mut ignored = Ignored::default();
    let mut failed = Vec::new();
    let mut printing = Ok(());
    parallel::for_each(
        // Each binary runs as many tests at a time as there are cores. One more binary keeps the cores
        // busy while tests wait.
        parallel::cores() + 1,
        binaries.0,
        |binary| binary.run(&outputs, variables),
        |ended| {
            ended
                .output
                .split(|byte| *byte == b'\n')
                .for_each(|line| ignored.read(&String::from_utf8_lossy(line)));
            if printing.is_ok() {
                printing = ended.print();
            }
            if ended.result.is_err() {
                failed.push(ended);
            }
        },
    );
    printing.context("printing the output of the tests")?;
    for ended in &failed {
        println!("\nfailures of {}:\n{}", ended.name, ended.failures());
    }
    let names: Vec<_> = failed.iter().map(|ended| ended.name.as_str()).collect();
    ensure!(
        names.is_empty(),
        "the tests of {} failed\n{ignored}",
        names.join(", ")
    );
    Ok(ignored)
}

/// Compiles the binaries with cargo's own progress, and finds them in its messages.
pub fn build(root: &Path) -> Result<TestBinaries> {
    let mut command = cargo(root);
    command.args([
        "test",
        "--workspace",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo test --no-run")?;
    let messages = BufReader::new(child.stdout.take().context("the output is piped")?);
    let mut binaries = VecDeque::new();
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(&line.context("cannot read the messages of cargo")?)?;
        binaries.extend(TestBinary::of(&message));
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "the tests cannot be built: {status}");
    ensure!(!binaries.is_empty(), "cargo reported no test binaries");
    // The order in which cargo reports them varies. The end-to-end tests take longest. If they
    // began last, one of them would run alone at the end.
    binaries
        .make_contiguous()
        .sort_by_key(|binary| (!binary.name.starts_with("tests/"), binary.name.clone()));
    Ok(TestBinaries(binaries))
}

impl TestBinary {
    /// Returns the binary of a message of cargo, if there is one.
    fn of(message: &Value) -> Option<TestBinary> {
        let text = |pointer: &str| message.pointer(pointer)?.as_str();
        if text("/reason")? != "compiler-artifact"
            || message.pointer("/profile/test") != Some(&Value::Bool(true))
        {
            return None;
        }
        let program = PathBuf::from(text("/executable")?);
        let package = Path::new(text("/manifest_path")?).parent()?.to_owned();
        let target = text("/target/name")?;
        let crate_name = package.file_name()?.to_string_lossy();
        Some(TestBinary {
            name: format!("{crate_name}/{target}"),
            program,
            package,
        })
    }

    fn run(&self, outputs: &Path, variables: &[(&str, OsString)]) -> Ended {
        let start = Instant::now();
        let file = outputs
            .join(self.name.replace('/', "-"))
            .with_extension("txt");
        let result = self.run_into(&file, variables);
        let output = fs::read(&file).unwrap_or_default();
        Ended {
            name: self.name.clone(),
            took: start.elapsed(),
            output,
            result,
        }
    }

    /// Runs the binary with its output in a file, and with the library path that cargo set for this
    /// process. A pipe would have to be read to its end, and a process that a test left behind may
    /// hold it open.
    fn run_into(&self, file: &Path, variables: &[(&str, OsString)]) -> Result<()> {
        let output = File::create(file).with_context(|| format!("creating {}", file.display()))?;
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.package)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        command.env("CARGO_MANIFEST_DIR", &self.package);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let status = command
            .status()
            .with_context(|| format!("running {}", self.program.display()))?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, FAILURE_LINES};
    use std::time::Duration;

    #[test]
    fn failures_are_the_end_of_what_failed_tests_printed() {
        let ended = |output: &str| Ended {
            name: "tests/jobs".into(),
            took: Duration::ZERO,
            output: output.into(),
            result: Ok(()),
        };
        let output =
            "test a ... ok\n\nfailures:\n\n---- b stdout ----\nleft: 1\n\nfailures:\n    b\n";
        assert_eq!(
            ended(output).failures(),
            "---- b stdout ----\nleft: 1\n\nfailures:\n    b"
        );
        assert_eq!(ended("killed").failures(), "killed");
        let long = format!("first\n{}", "line\n".repeat(FAILURE_LINES));
        assert!(!ended(&long).failures().contains("first"));
    }
}
