//! Comparison with another commit: both are measured by turns, and rows that have moved are named.
use super::{
    machine,
    plan::{Plan, ResultRow},
    programs::Programs,
    report::{aligned, fine, name, number},
    samples::{Samples, Spread},
};
use crate::command::{self, cargo};
use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Least change of a median that counts, in parts of one. What is less may come from the layout of the code.
const LEAST_CHANGE: f64 = 0.02;

const HEADINGS: [&str; 5] = ["", "base", "now", "ratio", ""];

/// Programs of another commit, in a work tree of their own below `target`.
pub struct BaseCommit {
    /// Commit, as it was named.
    pub name: String,
    /// Programs. Peers and components are those of this commit.
    pub programs: Programs,
}

impl BaseCommit {
    /// Builds the programs of a commit.
    pub fn build(root: &Path, commit: &str, now: &Programs) -> Result<BaseCommit> {
        let place = root.join("target/compare");
        let tree = place.join("tree");
        if !tree.exists() {
            command::run(
                git(root)
                    .args(["worktree", "add", "--quiet", "--force", "--detach"])
                    .arg(&tree)
                    .arg(commit),
            )?;
        }
        command::run(git(&tree).args(["checkout", "--quiet", "--force", "--detach", commit]))?;
        eprintln!("building {commit} for release (first time: some minutes)");
        let build = place.join("build");
        command::run(
            cargo(&tree)
                .args(["build", "--quiet", "--release", "--bins"])
                .args(["--package", "peal", "--package", "peal-bench"])
                .arg("--target-dir")
                .arg(&build),
        )?;
        let built = |program: &str| -> PathBuf { build.join("release").join(program) };
        let mut programs = now.clone();
        programs.peal = built("peal");
        programs.bench = built("peal-bench");
        Ok(BaseCommit {
            name: commit.to_owned(),
            programs,
        })
    }

    /// Prints the rows of both commits. Programs of peers, and of groups that build some of their own, are the same for
    /// both.
    pub fn print(&self, plan: &Plan, base: &Samples, now: &Samples) {
        let mut group = None;
        let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
        for row in &plan.rows {
            if group.replace(row.group) != Some(row.group) {
                lines.push(vec![name(row).to_uppercase()]);
            }
            lines.push(cells(row, base, now).to_vec());
        }
        println!();
        for line in &lines {
            println!("{}", aligned(line, &lines).trim_end());
        }
        println!(
            "\nbase: {}. ratio: the number now by that of the base, median over the rounds and (least .. greatest). A row \
             has moved if it did so in the same direction in every round, and by {:.0}% at least.",
            self.name,
            LEAST_CHANGE * 100.0
        );
        println!("load {} now", machine::load());
        for (arm, why) in base.failures() {
            println!("{arm} failed at the base: {why}");
        }
    }
}

fn cells(row: &ResultRow, base: &Samples, now: &Samples) -> [String; 5] {
    let (arm, metric) = (row.ours.arm.as_str(), row.ours.name);
    let ratio = now.ratio_to(base, (arm, metric));
    let text = ratio.map_or("-".to_owned(), |Spread { median, min, max }| {
        format!("{} ({} .. {})", fine(median), fine(min), fine(max))
    });
    [
        row.description.clone(),
        number(base.spread(arm, metric), row.unit),
        number(now.spread(arm, metric), row.unit),
        text,
        ratio.map_or("", moved).to_owned(),
    ]
}

/// Returns the direction in which a row has moved, if it has.
fn moved(ratio: Spread) -> &'static str {
    if ratio.min > 1.0 && ratio.median >= 1.0 + LEAST_CHANGE {
        "more"
    } else if ratio.max < 1.0 && ratio.median <= 1.0 - LEAST_CHANGE {
        "less"
    } else {
        ""
    }
}

fn git(directory: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(directory);
    git
}

/// Returns the full name of a commit.
///
/// # Errors
///
/// Fails if there is no such commit.
pub fn commit(root: &Path, name: &str) -> Result<String> {
    let output = git(root)
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
        .arg(format!("{name}^{{commit}}"))
        .output()
        .context("cannot start git")?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    anyhow::ensure!(
        output.status.success(),
        "{name:?} is no commit of this repository"
    );
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_moved_if_every_round_agrees() {
        let spread = |min, median, max| Spread { median, min, max };
        for (ratio, expected) in [
            (spread(1.01, 1.05, 1.2), "more"),
            (spread(0.99, 1.05, 1.2), ""),
            (spread(1.001, 1.01, 1.2), ""),
            (spread(0.8, 0.9, 0.99), "less"),
            (spread(0.8, 0.99, 1.01), ""),
        ] {
            assert_eq!(moved(ratio), expected, "{ratio:?}");
        }
    }
}
