//! `peal cluster init --dry-run`: the files and streams that would change. Nothing is written; with
//! `--apply` the NATS servers are asked for their streams.
use crate::{admin::NOTHING_CHANGED, node, output};
use anyhow::Result;
use peal_model::counted;
use peal_nats::{
    AppliedStream, ClusterSite, ClusterStream, ClusterSubjects, SiteFileChange, SitePlan,
    SiteRequest, plan_site, plan_streams,
};
use std::{fmt::Write, process::ExitCode};

/// Says what would be done to the files, and returns the cluster as it would be.
pub(super) fn files(request: &SiteRequest) -> Result<ClusterSite> {
    let SitePlan { site, changes } = plan_site(request)?;
    let mut text = String::new();
    for change in &changes {
        // A write to a string cannot fail.
        let _ = match change {
            SiteFileChange::Created(path) => writeln!(text, "would write {}", path.display()),
            SiteFileChange::Replaced(path) => writeln!(text, "would replace {}", path.display()),
        };
    }
    if changes.is_empty() {
        text = "would change no file: all are as they should be\n".to_owned();
    }
    output::print(&text)?;
    Ok(site)
}

/// Says what would be done to the streams of a cluster whose NATS servers run.
pub(super) fn streams(site: &ClusterSite) -> Result<()> {
    let planned = node::as_tool(async { Ok(plan_streams(site).await?) })?;
    let mut text = String::new();
    for stream in planned {
        // A write to a string cannot fail.
        let _ = match stream {
            AppliedStream::Created(name) => writeln!(text, "would create stream {name}"),
            AppliedStream::Completed(name) => {
                writeln!(text, "would create the consumer of stream {name}")
            }
            AppliedStream::Kept(name) => writeln!(text, "stream {name} is as it should be"),
            AppliedStream::Replicated(name) => writeln!(
                text,
                "would store stream {name} on {}",
                counted(site.replicas(), "NATS server")
            ),
        };
    }
    output::print(&text)
}

/// Names the streams of a cluster whose NATS servers have no configuration yet.
pub(super) fn new_streams(site: &ClusterSite) -> Result<()> {
    let subjects = ClusterSubjects::new(site.name.clone());
    let lines = ClusterStream::ALL.map(|stream| {
        let name = subjects.stream_name(stream);
        format!("would create stream {name}, once the NATS servers run with these files\n")
    });
    output::print(&lines.concat())
}

/// Says that nothing was done.
pub(super) fn end() -> ExitCode {
    crate::print_line(NOTHING_CHANGED);
    ExitCode::SUCCESS
}
