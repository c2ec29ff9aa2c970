//! `cargo xtask count`: counts the instructions of the server for units of work, and compares them with those
//! that are recorded in the repository.
use super::{
    arm::{Hosts, Side},
    instructions::CountedWork,
    machine::OwnProcessors,
    programs::{self, Programs},
};
use crate::{command::run_quietly, needs, parallel};
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeMap, env, fs, path::Path, process::Command};
use toml::{Table, Value};

/// File of the recorded counts.
const RECORD: &str = "xtask/counts.toml";

/// First lines of that file.
const HEAD: &str = "\
# Instructions of the server for one unit of work, of the programs of the tests. `cargo xtask count` compares with
# them, and `cargo xtask count --record` writes them. Say in the commit why they have grown.
";

/// Variable with the compiler of the workspace's crates, which `.ci/run` sets.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Growth in percent that fails.
const LIMIT: f64 = 5.0;

/// Number of counts of a unit that seems to have grown. Wake-ups that coincide cost less than others, so that
/// the least count is the nearest to the work itself.
const ATTEMPTS: usize = 3;

const LONG_HELP: &str = "\
Counts the instructions of the server for some units of work under valgrind, with the programs of the tests, and \
compares them with those in xtask/counts.toml. Unlike times, they are the same on a busy machine. Fails if one has \
grown by more than 5%. Counts of another compiler are not compared.";

/// Arguments of `cargo xtask count`.
#[derive(clap::Args)]
#[command(about = "Count the instructions of the server, and compare them with the recorded ones", long_about = LONG_HELP)]
pub struct Count {
    /// Write the counts to xtask/counts.toml in the place of the recorded ones
    #[arg(long)]
    record: bool,
}

/// Instructions for a unit of work, by its name.
type Counts = BTreeMap<String, u64>;

/// Counts in the repository, by the compiler of the counted programs.
struct RecordedCounts(BTreeMap<String, Counts>);

impl RecordedCounts {
    fn read(file: &Path) -> Result<RecordedCounts> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        RecordedCounts::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<RecordedCounts> {
        let table: Table = text.parse()?;
        let count = |(name, count): (&String, &Value)| {
            let number = count
                .as_integer()
                .and_then(|count| u64::try_from(count).ok());
            let number = number.with_context(|| format!("{name}: {count} is no count"))?;
            Ok((name.clone(), number))
        };
        let counts = |(compiler, counts): (&String, &Value)| {
            let counts = counts
                .as_table()
                .with_context(|| format!("{compiler}: no table"))?;
            Ok((
                compiler.clone(),
                counts.iter().map(count).collect::<Result<_>>()?,
            ))
        };
        Ok(RecordedCounts(
            table.iter().map(counts).collect::<Result<_>>()?,
        ))
    }

    fn to_text(&self) -> Result<String> {
        let mut table = Table::new();
        for (compiler, counts) in &self.0 {
            let mut numbers = Table::new();
            for (name, count) in counts {
                numbers.insert(name.clone(), Value::Integer(i64::try_from(*count)?));
            }
            table.insert(compiler.clone(), numbers.into());
        }
        Ok(format!("{HEAD}{table}"))
    }
}

/// Returns the name of the compiler of the programs. That of clippy, which CI uses, makes other code.
fn compiler() -> Result<String> {
    let version = run_quietly(Command::new("rustc").arg("--version"))?;
    let clippy = match env::var_os(WRAPPER) {
        Some(_) => ", as in CI",
        None => "",
    };
    Ok(format!("{}{clippy}", version.trim()))
}

/// Unit of work.
struct CountedUnit {
    name: &'static str,
    work: CountedWork,
}

/// Returns the units of work. Those of many procs are in the bench (`cargo xtask bench scale`).
fn units() -> [CountedUnit; 6] {
    let unit = |name, work| CountedUnit { name, work };
    let repeated = |mode, procs, counts| CountedWork::repeated(Side::Peal, mode, procs, counts);
    [
        unit(
            "a proc from its start to its end",
            CountedWork::grown(Side::Peal, "nothing", [4, 20]),
        ),
        unit(
            "an event to another proc and an answer",
            repeated("pingpong", 2, [100, 600]),
        ),
        unit(
            "the same past a policy",
            repeated("pingpong", 2, [100, 600]).under(Hosts::Policy),
        ),
        unit("an event to eight procs", repeated("fan", 8, [10, 210])),
        unit("a fence of four procs", repeated("fence", 4, [10, 410])),
        unit("a group of four procs", repeated("group", 4, [10, 210])),
    ]
}

impl Count {
    /// Counts, prints a table, and compares or records.
    ///
    /// # Errors
    ///
    /// Names the units that have grown, or the program that is missing.
    pub fn run(&self, root: &Path) -> Result<()> {
        if !needs::runs("valgrind", &["--version"]) {
            println!("not counted: needs valgrind (Debian: valgrind)");
            return Ok(());
        }
        let programs = programs::build_for_counts(root)?;
        if programs.c.is_none() {
            println!("not counted: needs libpmix (Debian: libpmix-dev)");
            return Ok(());
        }
        let compiler = compiler()?;
        let file = root.join(RECORD);
        let mut recorded = RecordedCounts::read(&file)?;
        if self.record {
            let counts = count_all(&programs)?;
            recorded.0.insert(compiler, counts);
            return fs::write(&file, recorded.to_text()?)
                .with_context(|| file.display().to_string());
        }
        let Some(counts) = recorded.0.get(&compiler) else {
            println!(
                "not compared: {RECORD} has no counts of {compiler}; run `cargo xtask count --record` on a commit \
                 that is as fast as it should be"
            );
            return Ok(());
        };
        compare(counts, &programs)
    }
}

fn count_all(programs: &Programs) -> Result<Counts> {
    let mut counts = Counts::new();
    let ends_never = |_: &CountedUnit, _| false;
    count_each(programs, ends_never, |unit, least| {
        println!("{least:>10}  {}", unit.name);
        counts.insert(unit.name.to_owned(), least);
        Ok(())
    })?;
    Ok(counts)
}

fn compare(recorded: &Counts, programs: &Programs) -> Result<()> {
    println!(
        "{:>10} {:>10} {:>7}  instructions of the server for",
        "recorded", "now", "change"
    );
    let of = |unit: &CountedUnit| {
        let before = recorded.get(unit.name).copied();
        before.with_context(|| format!("{RECORD} has no {:?}", unit.name))
    };
    let mut grown = Vec::new();
    let suffices =
        |unit: &CountedUnit, now| of(unit).is_ok_and(|before| change(before, now) <= LIMIT);
    count_each(programs, suffices, |unit, now| {
        let before = of(unit)?;
        let change = change(before, now);
        println!("{before:>10} {now:>10} {change:>+6.1}%  {}", unit.name);
        if change > LIMIT {
            grown.push(unit.name);
        }
        if change < -LIMIT {
            println!("{:>30} less by so much that it should be recorded", "");
        }
        Ok(())
    })?;
    ensure!(
        grown.is_empty(),
        "grown by more than {LIMIT}%: {}; `cargo xtask count --record` if that is meant",
        grown.join(", ")
    );
    Ok(())
}

/// Counts the units, one on each processor at a time, until their counts suffice or some times. Calls `each` with the
/// least count of each unit, in the order in which they are there.
fn count_each(
    programs: &Programs,
    suffices: impl Fn(&CountedUnit, u64) -> bool + Sync,
    mut each: impl FnMut(&CountedUnit, u64) -> Result<()>,
) -> Result<()> {
    let processors = OwnProcessors::find()?;
    let count = |unit: CountedUnit| {
        let least = processors.on_one(|| counted(&unit, programs, |now| suffices(&unit, now)));
        (unit, least)
    };
    let mut done = Ok(());
    parallel::for_each(parallel::cores(), units(), count, |(unit, least)| {
        let told = least.and_then(|least| each(&unit, least));
        if done.is_ok() {
            done = told;
        }
    });
    done
}

/// Counts a unit until a count suffices, or some times. Returns the least.
fn counted(unit: &CountedUnit, programs: &Programs, suffices: impl Fn(u64) -> bool) -> Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..ATTEMPTS {
        let count = unit.work.count(programs).context(unit.name)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count, rounded"
        )]
        let count = count.max(0.0).round() as u64;
        least = least.min(count);
        if suffices(least) {
            break;
        }
    }
    Ok(least)
}

/// Returns the change in percent.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
fn change(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::{Counts, LIMIT, RecordedCounts, change};

    #[test]
    fn recorded_counts_are_read_as_written() {
        let counts = Counts::from([("an event".to_owned(), 12)]);
        let recorded = RecordedCounts([("rustc 1".to_owned(), counts)].into());
        let read = RecordedCounts::parse(&recorded.to_text().unwrap()).unwrap();
        assert_eq!(read.0, recorded.0);
        assert!(RecordedCounts::parse("[\"rustc 1\"]\nx = -1").is_err());
    }

    #[test]
    fn growth_beyond_the_limit_is_seen() {
        assert!(change(1000, 1051) > LIMIT);
        assert!(change(1000, 1050) <= LIMIT + 1e-9);
        assert!(change(1000, 900) < -LIMIT);
        assert!(change(0, 1) > LIMIT);
    }
}
