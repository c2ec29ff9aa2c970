//! `peal audit stats`: numbers of records by kind, module, user and job.
use super::{filter, open};
use crate::{
    args::{AuditStats, OutputFormat},
    output, plain, users,
};
use anyhow::Result;
use peal_audit::AuditError;
use peal_model::counted;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
};

#[derive(Default)]
struct Stats {
    records: u64,
    bytes: u64,
    kinds: BTreeMap<String, u64>,
    /// Counts by module, then by outcome.
    modules: BTreeMap<String, BTreeMap<String, u64>>,
    users: BTreeMap<u32, u64>,
    jobs: BTreeMap<String, u64>,
}

impl Stats {
    fn as_json(&self) -> Value {
        let user = |(uid, records): (&u32, &u64)| json!({ "uid": uid, "user": users::name(*uid), "records": records });
        let users: Vec<Value> = self.users.iter().map(user).collect();
        json!({
            "records": self.records, "bytes": self.bytes, "kinds": self.kinds, "modules": self.modules,
            "users": users, "jobs": self.jobs,
        })
    }
}

pub(super) fn run(args: AuditStats) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let mut stats = Stats::default();
    source.each::<AuditError>(&filter(args.filter), |row| {
        stats.records += 1;
        stats.bytes += row.body.len() as u64;
        *stats.kinds.entry(row.kind).or_default() += 1;
        if let Some(module) = row.module {
            *stats
                .modules
                .entry(module)
                .or_default()
                .entry(row.outcome.unwrap_or_default())
                .or_default() += 1;
        }
        row.uid
            .into_iter()
            .for_each(|uid| *stats.users.entry(uid).or_default() += 1);
        row.job
            .into_iter()
            .for_each(|job| *stats.jobs.entry(job).or_default() += 1);
        Ok(())
    })?;
    if let OutputFormat::Data(form) = args.format.output {
        output::print(&form.document(&stats.as_json())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = output::stdout();
    writeln!(
        out,
        "{}, {} of content",
        counted(stats.records, "record"),
        counted(stats.bytes, "byte")
    )?;
    let mut part = |title: &str, counts: Vec<(String, u64)>| -> io::Result<()> {
        if !counts.is_empty() {
            writeln!(out, "{title}")?;
        }
        counts
            .iter()
            // Names come from users and modules, and could move the cursor.
            .try_for_each(|(name, count)| writeln!(out, "  {count:>8}  {}", plain(name)))
    };
    part("by kind", stats.kinds.into_iter().collect())?;
    let modules = stats.modules.into_iter().flat_map(|(module, outcomes)| {
        outcomes
            .into_iter()
            .map(move |(outcome, count)| (format!("{module}: {outcome}"), count))
    });
    part("by module and outcome", modules.collect())?;
    part(
        "by user",
        stats
            .users
            .into_iter()
            .map(|(uid, count)| (users::shown(uid), count))
            .collect(),
    )?;
    part("by job", stats.jobs.into_iter().collect())?;
    Ok(ExitCode::SUCCESS)
}
