//! `peal audit`: records of calls and decisions. None of these commands needs a running server.
mod cluster;
mod list;
mod replay;
mod report;
mod stats;
mod verify;

pub use list::{RecordSummary, record, summaries, summary};

use crate::{
    args::{AuditCommand, AuditExport, AuditFilter, AuditSource},
    audit_trail, config, supervisor,
};
use anyhow::{Context, Result, bail};
use peal_audit::{AuditError, ExportError, TrailSource, export, shown_time};
use peal_model::counted;
use peal_store::Filter;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Runs the command.
pub fn run(command: AuditCommand) -> Result<ExitCode> {
    match command {
        AuditCommand::List(args) => list::list(args),
        AuditCommand::Show(args) => list::show(args),
        AuditCommand::Export(args) => write(args),
        AuditCommand::Verify(args) if args.cluster => cluster::run(args),
        AuditCommand::Verify(args) => verify::run(args),
        AuditCommand::Stats(args) => stats::run(args),
        AuditCommand::Replay(args) => replay::run(args),
        AuditCommand::Report(args) => report::run(args),
    }
}

/// Opens the source of the records; also returns the path of the key in the configuration.
pub fn open(source: AuditSource) -> Result<(TrailSource, Option<PathBuf>)> {
    if let Some(path) = source.from {
        let trail = supervisor::as_owner_of(&path, || TrailSource::open(&path))??;
        return Ok((trail, None));
    }
    let config = config::load_sections(source.config, &["audit"])?;
    let Some(path) = &config.audit.path else {
        bail!(
            "there is no audit trail by this configuration (audit.path); name one, or what was exported, with --from"
        );
    };
    let trail = supervisor::as_owner_of(path, || TrailSource::open(path))??;
    Ok((trail, audit_trail::key_path(&config)))
}

fn filter(filter: AuditFilter) -> Filter {
    let AuditFilter {
        since,
        until,
        job,
        user,
        module,
        outcome,
    } = filter;
    Filter {
        since,
        until,
        job,
        uid: user,
        module,
        outcome,
        ..Filter::default()
    }
}

fn write(args: AuditExport) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let filter = filter(args.filter);
    match args.file {
        // Not by `output::stdout`, which discards: a long export ends with its reader.
        None => match export(&source, &filter, &mut BufWriter::new(io::stdout().lock())) {
            // The reader has closed the pipe.
            Err(AuditError::Export(ExportError::Io { source, .. }))
                if source.kind() == io::ErrorKind::BrokenPipe => {}
            exported => drop(exported?),
        },
        Some(path) => {
            let mut out = BufWriter::new(create(&path)?);
            let count = export(&source, &filter, &mut out)?;
            out.flush().with_context(|| path.display().to_string())?;
            crate::print_line(&format!(
                "wrote {} to {}",
                counted(count, "record"),
                path.display()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates a new file that only its owner may read, since records are confidential.
fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.with_context(|| path.display().to_string())
}
