//! Results of cases of a component, and their table, for `peal module test` and `dev`.
use crate::plain;
use anyhow::{Context, Result, bail};
use peal_devtools::module_test::{self, Candidate, CaseDifference, CaseFile, CaseReport};
use peal_model::counted;
use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

/// Cases of a file and their results.
pub struct CaseResults {
    /// The file.
    pub file: CaseFile,
    /// One report for each case.
    pub reports: Vec<CaseReport>,
}

/// Part of the results that is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LogDisplay {
    /// Lines and texts that the component wrote are printed below each case.
    Shown,
    /// They are not.
    Hidden,
}

/// Words for the two sides of a difference.
#[derive(Clone, Copy)]
pub struct DifferenceWords {
    /// Word before the side that was there first.
    first: &'static str,
    /// Word before the other side.
    second: &'static str,
}

impl DifferenceWords {
    /// Expectation of a case, and its result.
    pub const CASES: DifferenceWords = DifferenceWords {
        first: "expected",
        second: "got",
    };
    /// Result of the component that was built before, and of this one.
    pub const BUILDS: DifferenceWords = DifferenceWords {
        first: "was",
        second: "is",
    };
}

/// Returns the sinks that a component may write to unless others are named.
pub fn usual_sinks() -> Vec<String> {
    ["stdout", "stderr"].map(str::to_owned).to_vec()
}

/// Reads and runs the cases of a file.
pub fn run_file(of: &Candidate<'_>, path: &Path) -> Result<CaseResults> {
    let file = CaseFile::read(path, of.name)?;
    if file.cases.is_empty() {
        bail!("{}: there is no [[case]] in it", path.display());
    }
    for field in &file.left_out {
        crate::print_line(&format!(
            "{}: {field} cannot be taken from a recording, it is left out",
            path.display()
        ));
    }
    run_cases(of, file)
}

/// Runs the cases of a file that was read.
pub fn run_cases(of: &Candidate<'_>, file: CaseFile) -> Result<CaseResults> {
    let reports =
        module_test::run(of, &file.cases).with_context(|| file.path.display().to_string())?;
    Ok(CaseResults { file, reports })
}

/// Prints results, one line for each case, and their number.
pub fn table(all: &[CaseResults], logs: LogDisplay, out: &mut impl Write) -> io::Result<()> {
    // Padded here: a width of `format!` would count the escape sequences.
    let (ok, unchecked, failed) = if io::stdout().is_terminal() {
        (
            "\u{1b}[32mok\u{1b}[0m    ",
            "\u{1b}[33m-\u{1b}[0m     ",
            "\u{1b}[1;31mFAILED\u{1b}[0m",
        )
    } else {
        ("ok    ", "-     ", "FAILED")
    };
    for CaseResults { file, reports } in all {
        writeln!(out, "{}", file.path.display())?;
        for report in reports {
            let word = match (report.is_ok(), report.is_checked) {
                (false, _) => failed,
                (true, false) => unchecked,
                (true, true) => ok,
            };
            writeln!(out, "  {word}  {}", plain(&report.case))?;
            if file.is_recording || !report.is_checked && report.is_ok() {
                writeln!(out, "            {}", report.outcome)?;
            }
            report
                .differences
                .iter()
                .try_for_each(|difference| differs(difference, DifferenceWords::CASES, out))?;
            if logs == LogDisplay::Shown {
                print_logs(report, out)?;
            }
        }
    }
    let count = |is_one: fn(&CaseReport) -> bool| {
        all.iter()
            .flat_map(|results| &results.reports)
            .filter(|report| is_one(report))
            .count()
    };
    let cases = count(|_| true);
    let wrong = count(|report| !report.is_ok());
    let unchecked = count(|report| report.is_ok() && !report.is_checked);
    write!(
        out,
        "{}: {} ok",
        counted(cases, "case"),
        cases - wrong - unchecked
    )?;
    if unchecked > 0 {
        write!(out, ", {unchecked} not checked (without `expect`)")?;
    }
    writeln!(out, ", {wrong} FAILED")
}

/// Prints what the component wrote in a case.
fn print_logs(report: &CaseReport, out: &mut impl Write) -> io::Result<()> {
    for line in &report.logs {
        writeln!(out, "          | {}", plain(line))?;
    }
    for (sink, text) in &report.writes {
        for line in text.lines() {
            writeln!(out, "          {sink} | {}", plain(line))?;
        }
    }
    Ok(())
}

/// Prints the cases with other results than before, and their number.
pub fn changes(results: &CaseResults, out: &mut impl Write) -> io::Result<()> {
    let CaseResults { file, reports } = results;
    let changed: Vec<&CaseReport> = reports.iter().filter(|report| !report.is_ok()).collect();
    writeln!(
        out,
        "{}: {} of {} changed",
        file.path.display(),
        changed.len(),
        counted(reports.len(), "answer")
    )?;
    for report in changed {
        writeln!(out, "  {}", plain(&report.case))?;
        report
            .differences
            .iter()
            .try_for_each(|difference| differs(difference, DifferenceWords::BUILDS, out))?;
    }
    Ok(())
}

fn differs(
    difference: &CaseDifference,
    words: DifferenceWords,
    out: &mut impl Write,
) -> io::Result<()> {
    let DifferenceWords { first, second } = words;
    let CaseDifference {
        field,
        expected,
        got,
    } = difference;
    // One line below the other shows where they differ.
    if let ([expected], [got]) = (expected.as_slice(), got.as_slice()) {
        writeln!(out, "          {field}: {first} {}", plain(expected))?;
        return writeln!(
            out,
            "          {:indent$}{second:>width$} {}",
            "",
            plain(got),
            indent = field.len() + 2,
            width = first.len()
        );
    }
    writeln!(out, "          {field}: - {first}, + {second}")?;
    let mut line = |sign, text: &str| writeln!(out, "            {sign} {}", plain(text));
    // A line counts as equal only behind the equal lines before it. Otherwise lists that differ in
    // their order would show no sign.
    let mut rest = got.as_slice();
    for text in expected {
        if let Some(at) = rest.iter().position(|other| other == text) {
            let (news, from) = rest.split_at(at);
            news.iter().try_for_each(|text| line('+', text))?;
            line(' ', text)?;
            rest = from.get(1..).unwrap_or_default();
        } else {
            line('-', text)?;
        }
    }
    rest.iter().try_for_each(|text| line('+', text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(expected: &[&str], got: &[&str]) -> String {
        let lines = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let mut out = Vec::new();
        differs(
            &CaseDifference {
                field: "infos",
                expected: lines(expected),
                got: lines(got),
            },
            DifferenceWords::CASES,
            &mut out,
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        let signs = text
            .lines()
            .skip(1)
            .map(|line| line.trim_start_matches(' '));
        signs.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn list_in_another_order_or_with_repetitions_shows_signs() {
        assert_eq!(shown(&["a", "b"], &["b", "a"]), "+ b, a, - b");
        assert_eq!(shown(&["a", "b"], &["a", "b", "a"]), "a, b, + a");
        assert_eq!(shown(&["a", "a"], &["a"]), "a, - a");
        assert_eq!(shown(&["a", "b", "c"], &["a", "x", "c"]), "a, - b, + x, c");
    }
}
