//! Counts of the tests that libtest reports as ignored, by reason, while its output is passed on.
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fmt::{Display, Formatter},
    io::{BufRead, BufReader, Write},
    ops::AddAssign,
    process::{Command, Stdio},
};

/// Number of ignored tests for each reason.
#[derive(Default, PartialEq, Debug)]
pub struct Ignored(BTreeMap<String, usize>);

impl Ignored {
    /// Runs tests, passes on their output, and counts.
    ///
    /// # Errors
    ///
    /// Fails if the tests fail; the error holds the counts.
    pub fn count(tests: &mut Command) -> Result<Ignored> {
        let mut child = tests
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("running {tests:?}"))?;
        let mut output = BufReader::new(child.stdout.take().context("the output is piped")?);
        let mut ignored = Ignored::default();
        let mut line = Vec::new();
        let mut printed = std::io::stdout().lock();
        while output
            // By bytes, since tests may print text that is not UTF-8.
            .read_until(b'\n', &mut line)
            .context("cannot read the output of the tests")?
            > 0
        {
            printed
                .write_all(&line)
                .context("cannot print the output of the tests")?;
            ignored.read(&String::from_utf8_lossy(&line));
            line.clear();
        }
        let status = child.wait().context("waiting for the tests")?;
        if !status.success() {
            bail!("the tests failed: {status}\n{ignored}");
        }
        Ok(ignored)
    }

    /// Returns true if tests were ignored because their needs were not recorded yet.
    pub fn has_unrecorded_needs(&self) -> bool {
        self.0
            .keys()
            .any(|reason| reason.contains("run `cargo xtask prepare`"))
    }

    /// Counts a line such as `test groups::form ... ignored, needs root`.
    pub fn read(&mut self, line: &str) {
        let Some((_, end)) = line
            .trim_end()
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... ignored"))
        else {
            return;
        };
        let reason = end.strip_prefix(", ").unwrap_or("without a reason");
        *self.0.entry(reason.to_owned()).or_default() += 1;
    }
}

impl AddAssign for Ignored {
    fn add_assign(&mut self, other: Ignored) {
        other
            .0
            .into_iter()
            .for_each(|(reason, count)| *self.0.entry(reason).or_default() += count);
    }
}

impl Display for Ignored {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tests were ignored", self.0.values().sum::<usize>())?;
        self.0
            .iter()
            .try_for_each(|(reason, count)| write!(f, "\n{count:5} {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Ignored;

    #[test]
    fn ignored_tests_are_counted_by_reason() {
        let mut ignored = Ignored::default();
        for line in [
            "test a ... ok\n",
            "test b ... ignored, needs root\n",
            "test c - should panic ... ignored, needs root\n",
            "test src/lib.rs - d (line 3) ... ignored\n",
            "some output ... ignored\n",
            "test result: ok. 1 passed; 0 failed; 3 ignored; 0 measured\n",
        ] {
            ignored.read(line);
        }
        assert_eq!(
            ignored.to_string(),
            "3 tests were ignored\n    2 needs root\n    1 without a reason"
        );
    }
}
