//! `peal audit verify`.
use super::open;
use crate::{
    args::{AuditVerify, OutputFormat},
    output,
};
use anyhow::{Context, Result, bail};
use peal_audit::{RecoveredRecords, SealPublicKey, Statement, verify};
use peal_model::counted;
use serde_json::json;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Exit status if a record was changed.
const CHANGED: u8 = 1;

pub(super) fn run(args: AuditVerify) -> Result<ExitCode> {
    let (source, key) = open(args.source)?;
    let key = public_key(args.key, key)?;
    let mut elsewhere = Vec::new();
    for path in &args.checkpoints {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        let found: Vec<Statement> = String::from_utf8_lossy(&text)
            .lines()
            // A file of syslog has other lines too.
            .filter_map(|line| line.parse().ok())
            .collect();
        if found.is_empty() {
            bail!("{}: there is no checkpoint in it", path.display());
        }
        elsewhere.extend(found);
    }
    let verified = verify(&source, &key, &elsewhere)?;
    let mut out = output::stdout();
    if let OutputFormat::Data(form) = args.format.output {
        let findings: Vec<_> = verified
            .findings
            .iter()
            .map(|finding| json!({ "record": finding.seq(), "finding": finding.to_string() }))
            .collect();
        let dropped: Vec<_> = verified
            .dropped
            .iter()
            .map(
                |dropped| json!({ "from": dropped.from, "to": dropped.to, "kinds": dropped.kinds }),
            )
            .collect();
        let report = json!({
            "records": verified.records, "first": verified.first, "last": verified.last, "seals": verified.seals,
            "key": key.to_string(), "findings": findings, "begins_after": verified.begins_after, "dropped": dropped,
            "waiting": verified.waiting.map(|waiting| json!({ "records": waiting.records, "bytes": waiting.bytes })),
        });
        out.write_all(form.document(&report)?.as_bytes())?;
    } else {
        let range = match (verified.first, verified.last) {
            (Some(first), Some(last)) => format!(" ({first} to {last})"),
            _ => String::new(),
        };
        let records = counted(verified.records, "record");
        let seals = counted(verified.seals, "seal");
        writeln!(out, "{records}{range}, {seals} of {key}")?;
        for finding in &verified.findings {
            writeln!(out, "CHANGED: {finding}")?;
        }
        if verified.findings.is_empty() {
            writeln!(out, "all of it is as it was written")?;
        }
        if verified.begins_after > 0 {
            writeln!(
                out,
                "note: all records up to {} were dropped by the server",
                verified.begins_after
            )?;
        }
        for dropped in &verified.dropped {
            writeln!(out, "note: {dropped}")?;
        }
        if let Some(RecoveredRecords { records, bytes }) = verified.waiting {
            writeln!(
                out,
                "note: {records} more records ({bytes} bytes) wait in the journal and are not sealed yet: a server that runs \
                 moves them here in a moment, the next one when it starts"
            )?;
        }
    }
    Ok(if verified.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CHANGED)
    })
}

/// Returns the given public key, or the one stored beside the secret key.
fn public_key(given: Option<String>, secret: Option<PathBuf>) -> Result<SealPublicKey> {
    let of_file = |path: &Path| -> Result<SealPublicKey> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("the public key {}", path.display()))?;
        Ok(text.parse()?)
    };
    match (given, secret) {
        // A text that is a key counts as one, whatever files there are.
        (Some(given), _) => match given.parse() {
            Ok(key) => Ok(key),
            Err(_) if Path::new(&given).exists() => of_file(Path::new(&given)),
            Err(error) => Err(error).context("--key: neither a key nor a file"),
        },
        (None, Some(secret)) => of_file(&secret.with_added_extension("pub")),
        (None, None) => bail!("the public key is unknown: name it with --key"),
    }
}
