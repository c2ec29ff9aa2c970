//! `peal module test`.
use super::candidate::Tried;
use crate::{args::ModuleTest, plain, wait_message::WaitMessage};
use anyhow::{Context, Result, bail};
use peal_config::Sandbox;
use peal_devtools::module_test::{self, Candidate, CaseDifference, CaseFile, CaseReport};
use peal_model::counted;
use peal_sandbox::ModuleLimits;
use std::{
    fs,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

/// Runs cases, and prints their results. The exit status is 0 if all are as expected, else 1.
pub fn test(args: &ModuleTest) -> Result<ExitCode> {
    // Before the component is read if the files are named, below once they are found.
    check_write(args, args.cases.len())?;
    let tried = Tried::find(&args.component)?;
    let name = args.name.clone().unwrap_or_else(|| tried.name());
    let paths = if args.cases.is_empty() {
        tried.cases()?
    } else {
        args.cases.clone()
    };
    check_write(args, paths.len())?;
    let sinks = match args.sinks.as_slice() {
        [] => vec!["stdout".to_owned(), "stderr".to_owned()],
        named => named.to_vec(),
    };
    let engine = peal_modules::engine(&Sandbox::default())?;
    let limits = ModuleLimits {
        call_time: args.call_time,
        ..ModuleLimits::default()
    };
    let of = Candidate {
        engine: &engine,
        name: &name,
        bytes: &tried.bytes,
        sinks: &sinks,
        limits,
    };
    let waiting = WaitMessage::new(tried.compiling());
    let mut all = Vec::new();
    for path in &paths {
        let file = CaseFile::read(path, &name)?;
        if file.cases.is_empty() {
            bail!("{}: there is no [[case]] in it", path.display());
        }
        for field in &file.left_out {
            crate::print_line(&format!(
                "{}: {field} cannot be taken from a recording, it is left out",
                path.display()
            ));
        }
        let reports =
            module_test::run(&of, &file.cases).with_context(|| path.display().to_string())?;
        if let Some(to) = &args.write {
            fs::write(to, file.rewritten(&reports)).with_context(|| to.display().to_string())?;
        }
        all.push((file, reports));
    }
    // The line of the message must be gone before results are printed.
    drop(waiting);
    let mut out = crate::output::stdout();
    if args.json {
        json(&all, &mut out)?
    } else {
        table(&all, &mut out)?
    }
    let is_ok = all
        .iter()
        .flat_map(|(_, reports)| reports)
        .all(CaseReport::is_ok);
    Ok(if is_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Refuses `--write` with the cases of several files.
fn check_write(args: &ModuleTest, files: usize) -> Result<()> {
    if args.write.is_some() && files > 1 {
        return Err(crate::usage_error(format!(
            "--write takes the cases of one file, and there are {files}"
        )));
    }
    Ok(())
}

fn json(all: &[(CaseFile, Vec<CaseReport>)], out: &mut impl Write) -> io::Result<()> {
    let files = all.iter().map(|(file, reports)| {
        let cases = reports.iter().map(|report| {
            serde_json::json!({
                "case": report.case,
                "ok": report.is_ok(),
                "checked": report.is_checked,
                "outcome": report.outcome,
                "differences": report.differences,
            })
        });
        serde_json::json!({ "file": file.path, "left_out": file.left_out, "cases": cases.collect::<Vec<_>>() })
    });
    serde_json::to_writer_pretty(&mut *out, &files.collect::<Vec<_>>())?;
    writeln!(out)
}

fn table(all: &[(CaseFile, Vec<CaseReport>)], out: &mut impl Write) -> io::Result<()> {
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
    for (file, reports) in all {
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
                .try_for_each(|difference| differs(difference, out))?;
        }
    }
    let count = |is_one: fn(&CaseReport) -> bool| {
        all.iter()
            .flat_map(|(_, reports)| reports)
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

fn differs(difference: &CaseDifference, out: &mut impl Write) -> io::Result<()> {
    let CaseDifference {
        field,
        expected,
        got,
    } = difference;
    // One line below the other shows where they differ.
    if let ([expected], [got]) = (expected.as_slice(), got.as_slice()) {
        writeln!(out, "          {field}: expected {}", plain(expected))?;
        return writeln!(
            out,
            "          {:indent$}     got {}",
            "",
            plain(got),
            indent = field.len() + 2
        );
    }
    writeln!(out, "          {field}: - expected, + got")?;
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
