//! `peal ps --cluster`: running jobs of all nodes.
use super::{
    GatheredJob, MISSING,
    print::{self, NodeJobs},
};
use crate::{
    args::{OutputFormat, Ps},
    cluster::{
        NodeReply, NodeRequest,
        nodes::{NodeReplies, as_json, ask_all, of_kind, report_silent},
    },
    listing::ListSelection,
    output,
};
use anyhow::Result;
use peal_model::Nspace;
use serde_json::json;
use std::{io::Write, process::ExitCode};

/// Prints the running jobs of all nodes.
pub(super) fn run(args: Ps) -> Result<ExitCode> {
    let Ps {
        jobs: wanted,
        format,
        user,
        state,
        order,
        nodes,
        config,
        ..
    } = args;
    let request = NodeRequest::Procs {
        jobs: wanted.clone(),
    };
    let replies = ask_all(config, &request, nodes.timeout)?;
    let replies: NodeReplies<Vec<GatheredJob>> = of_kind(replies, |reply| match reply {
        NodeReply::Procs { jobs } => Some(jobs),
        _ => None,
    });
    let selection = ListSelection {
        user: user.user,
        states: state.state,
        order: order.sort,
    };
    let is_missing = |nspace: &&Nspace| {
        let mut jobs = replies.values().flatten().flatten();
        !jobs.any(|job| job.nspace == **nspace)
    };
    let missing: Vec<Nspace> = wanted.iter().filter(is_missing).cloned().collect();
    let selected = |jobs: Vec<GatheredJob>| print::selected(jobs, &selection);
    let replies: NodeReplies<Vec<GatheredJob>> = replies
        .into_iter()
        .map(|(node, reply)| (node, reply.map(selected)))
        .collect();
    let mut out = output::stdout();
    if let OutputFormat::Data(form) = format.output {
        let jobs = |jobs: &Vec<GatheredJob>| json!(print::as_json(jobs));
        let told = form.document(&as_json(&replies, "jobs", jobs))?;
        out.write_all(told.as_bytes())?;
    } else {
        let listed = replies.iter().filter_map(|(node, reply)| {
            let jobs = reply.as_deref().ok()?;
            Some(NodeJobs { node, jobs })
        });
        out.write_all(print::of_nodes(listed, format.output, selection.order.as_ref()).as_bytes())?;
    }
    out.flush()?;
    let silent = report_silent(&replies);
    if missing.is_empty() || silent != ExitCode::SUCCESS {
        return Ok(silent);
    }
    let names: Vec<String> = missing
        .iter()
        .map(|nspace| format!("{:?}", nspace.as_str()))
        .collect();
    crate::print_line(&format!(
        "no job in the cluster is called {}",
        names.join(" or ")
    ));
    Ok(ExitCode::from(MISSING))
}
