//! `peal describe job`.
use super::Description;
use crate::{
    admin,
    args::{AuditSource, ConfigArgs, DescribeJob, ServerArgs, ToolArgs},
    audit, event, job, node, ps, tool,
    users::WithUserName,
};
use anyhow::{Result, bail};
use peal_model::Nspace;
use peal_server::admin::{AdminReply, AdminRequest, Chain, ChainOwner};
use peal_store::Filter;
use serde_json::Value;
use std::process::ExitCode;

/// Number of denials that are shown.
const MAX_DENIALS: u32 = 20;

/// Describes a job that runs or has a record.
pub(super) fn describe(args: DescribeJob) -> Result<ExitCode> {
    let DescribeJob { at, nspace, format } = args;
    let config = at.config.clone();
    let mut told = Description::default();
    told.add_known("job", registered(at.clone(), &nspace))?;
    told.add_known("procs", procs(&nspace))?;
    told.add_known("handlers", handlers(at, &nspace))?;
    told.add_known("record", job::recorded(config.clone(), &nspace))?;
    told.add_known("denials", denials(config, &nspace))?;
    let is_known = |title: &str| {
        let mut parts = told.parts.iter();
        parts.any(|part| part.title == title && !part.value.is_null())
    };
    if !["job", "procs", "record"].into_iter().any(is_known) {
        bail!("no job {nspace:?} runs here or has a record; `peal ps` shows those that run");
    }
    told.print(format.output)
}

/// Returns the job as the server's administrators see it; none if it is not registered.
fn registered(at: ServerArgs, nspace: &Nspace) -> Result<Option<Value>> {
    let (reply, _) = admin::request(at, &AdminRequest::Jobs)?;
    let AdminReply::Jobs { jobs } = reply else {
        return admin::unexpected(&reply);
    };
    let job = jobs.iter().find(|job| job.nspace == nspace.as_str());
    let job = job.map(|job| serde_json::to_value(WithUserName::new(job, job.uid)));
    Ok(job.transpose()?)
}

/// Returns the job and its procs as its user sees them; none if it does not run.
fn procs(nspace: &Nspace) -> Result<Option<Value>> {
    node::as_tool(async {
        let attached = tool::attach_to_all(event::tool_settings(ToolArgs::default())?).await?;
        let tools = attached.report();
        let jobs = ps::from_servers(&tools, std::slice::from_ref(nspace)).await;
        for tool in &tools {
            tool::leave(tool).await;
        }
        Ok(ps::as_json(&jobs?).into_iter().next())
    })
}

/// Returns the chain of the job's handlers.
fn handlers(at: ServerArgs, nspace: &Nspace) -> Result<Vec<Chain>> {
    let (reply, _) = admin::request(at, &AdminRequest::Chains)?;
    let AdminReply::Chains { chains } = reply else {
        return admin::unexpected(&reply);
    };
    let is_own = |chain: &Chain| matches!(&chain.owner, ChainOwner::Namespace(name) if name == nspace.as_str());
    Ok(chains.into_iter().filter(is_own).collect())
}

/// Returns the last denials of requests of the job.
fn denials(config: ConfigArgs, nspace: &Nspace) -> Result<Vec<Value>> {
    let source = AuditSource { from: None, config };
    let wanted = Filter {
        job: Some(nspace.to_string()),
        outcome: Some("denied".to_owned()),
        ..Filter::default()
    };
    audit::summaries(source, &wanted, MAX_DENIALS)
}
