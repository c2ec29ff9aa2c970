//! `peal audit replay`.
use super::{filter, open};
use crate::{
    args::{AuditReplay, OutputFormat},
    config, plain,
};
use anyhow::{Context, Result, bail};
use peal_audit::{AuditError, ReplayResult, Replayed, Replayer, TrailSource, kind};
use peal_config::{FuelCount, Sandbox};
use peal_model::counted;
use peal_store::Filter;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, IsTerminal, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    process::ExitCode,
};

/// Exit status if a replayed call differs.
const DIFFERS: u8 = 1;
/// Number of calls between two lines of progress.
const PROGRESS: u64 = 500;

#[derive(Default)]
struct Summary {
    same: u64,
    differ: u64,
    not: BTreeMap<&'static str, u64>,
    /// Number of calls by change of the outcome.
    changes: BTreeMap<String, u64>,
}

pub(super) fn run(args: AuditReplay) -> Result<ExitCode> {
    // Compiled code stays in the cache of the configuration, or in the user's default cache.
    let sandbox = config::load_sections(args.source.config.clone(), &["sandbox"])?.sandbox;
    let (source, _) = open(args.source)?;
    let with = args
        .with
        .as_ref()
        .map(|path| fs::read(path).with_context(|| path.display().to_string()))
        .transpose()?;
    let (from, to) = args
        .range
        .map_or((None, None), |(from, to)| (Some(from), Some(to)));
    let wanted = Filter {
        from,
        to,
        ..filter(args.filter)
    };
    let engine = peal_modules::engine(&Sandbox {
        // The fuel of each call is compared with the recorded one, whatever the site counts.
        fuel: FuelCount::Always,
        cache_dir: sandbox.cache_dir.filter(|dir| is_own(dir)),
        ..sandbox
    })?;
    let mut replayer = Replayer::new(&source, engine, with);
    let mut summary = Summary::default();
    let mut out = crate::output::stdout();
    let format = args.format.output;
    let mut failed = Ok(());
    let progress = io::stderr().is_terminal();
    replayer.replay(&wanted, |replayed| {
        let calls = summary.same + summary.differ;
        if progress && calls > 0 && calls.is_multiple_of(PROGRESS) {
            // The progress has no effect on the result, so that its write errors are ignored.
            let _ = write!(io::stderr(), "\r{calls} calls ");
        }
        // The replay cannot be stopped from here, so the first write error is kept until its end.
        if failed.is_ok() {
            failed = summary.add(&mut out, replayed, args.most, format);
        }
    })?;
    if progress {
        let _ = write!(io::stderr(), "\r");
    }
    failed?;
    if summary.is_empty() {
        bail!("no call is replayed: {}", why_none(&source, &wanted)?);
    }
    if !matches!(format, OutputFormat::Data(_)) {
        summary.print(&mut out)?;
    }
    let all_same = summary.differ == 0;
    Ok(if all_same {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DIFFERS)
    })
}

/// Explains why no call was replayed, and which calls could be.
fn why_none(source: &TrailSource, wanted: &Filter) -> Result<String> {
    let mut first = None;
    let mut last = None;
    let mut modules = BTreeSet::new();
    let mut other_kind = None;
    // All records, because the selected ones contain no call.
    source.each::<AuditError>(&Filter::default(), |row| {
        first = first.or(Some(row.seq));
        last = Some(row.seq);
        if wanted.from == Some(row.seq) && wanted.to == Some(row.seq) {
            other_kind = Some(row.kind.clone());
        }
        if row.kind == kind::CALL {
            modules.extend(row.module);
        }
        Ok(())
    })?;
    let (Some(first), Some(last)) = (first, last) else {
        return Ok("nothing is recorded".to_owned());
    };
    let modules = modules
        .iter()
        .map(|module| plain(module))
        .collect::<Vec<_>>()
        .join(", ");
    Ok(match other_kind {
        Some(of) if of != kind::CALL => {
            format!("that record is of kind {of}, and calls are replayed")
        }
        _ if modules.is_empty() => format!("no call is among records {first} to {last}"),
        _ => format!(
            "none fits; records {first} to {last} are there, with calls of these modules: {modules}"
        ),
    })
}

impl Summary {
    /// Returns true if there was no call.
    fn is_empty(&self) -> bool {
        self.same + self.differ == 0 && self.not.is_empty()
    }

    fn add(
        &mut self,
        out: &mut impl Write,
        replayed: Replayed,
        most: u64,
        format: OutputFormat,
    ) -> Result<()> {
        let Replayed {
            seq,
            module,
            was,
            outcome,
        } = replayed;
        let (word, differences) = match &outcome {
            ReplayResult::Same => ("same", Vec::new()),
            ReplayResult::Differs(differences) => (
                "differs",
                differences.iter().map(ToString::to_string).collect(),
            ),
            ReplayResult::Not(why) => ("not replayed", vec![(*why).to_owned()]),
        };
        match &outcome {
            ReplayResult::Same => self.same += 1,
            ReplayResult::Not(why) => *self.not.entry(why).or_default() += 1,
            ReplayResult::Differs(_) => {
                // A call is counted once, by its first difference.
                self.differ += 1;
                *self
                    .changes
                    .entry(differences.first().cloned().unwrap_or_default())
                    .or_default() += 1;
            }
        }
        if let OutputFormat::Data(form) = format {
            let call = json!({ "seq": seq, "module": module, "was": was, "replay": word, "differences": differences });
            return Ok(out.write_all(form.record(&call)?.as_bytes())?);
        }
        if matches!(outcome, ReplayResult::Differs(_)) && self.differ <= most {
            if self.differ == 1 {
                writeln!(
                    out,
                    "{:>8}  {:<20} {:<24} difference",
                    "record", "module", "was"
                )?;
            }
            writeln!(
                out,
                "{seq:>8}  {module:<20} {was:<24} {}",
                differences.join("; ")
            )?;
        }
        Ok(())
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Summary {
            same,
            differ,
            not,
            changes,
            ..
        } = self;
        writeln!(
            out,
            "{} replayed: {same} the same, {differ} differ",
            counted(same + differ, "call")
        )?;
        for (change, times) in changes {
            writeln!(out, "  {times:>8}  {change}")?;
        }
        for (why, times) in not {
            writeln!(out, "{} not replayed: {why}", counted(*times, "call"))?;
        }
        Ok(())
    }
}

/// Returns true unless a directory belongs to another user. Root replays the calls of a server that has a
/// user of its own, and cannot take compiled code from that.
fn is_own(dir: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(dir).map_or(true, |found| found.uid() == own)
}
