//! `peal describe job`.
use super::DescribedParts;
use crate::{
    admin,
    args::{AuditSource, ConfigArgs, DescribeJob, ServerArgs, ToolArgs},
    audit, event, job, node,
    ps::{self, GatheredJobs},
    tool,
    users::WithUserName,
};
use anyhow::{Result, bail};
use peal_model::Nspace;
use peal_server::admin::{AdminReply, AdminRequest, Chain, ChainOwner};
use peal_store::Filter;
use serde_json::Value;
use std::process::ExitCode;

/// Exit status if there is no such job.
const MISSING: u8 = 1;
/// Number of denials that are shown.
const MAX_DENIALS: u32 = 20;

/// Describes a job that runs or has a record.
pub(super) fn describe(args: DescribeJob) -> Result<ExitCode> {
    let DescribeJob { at, nspace, format } = args;
    let config = at.config.clone();
    let mut told = DescribedParts::default();
    told.add_known("job", registered(at.clone(), &nspace))?;
    told.add_known("procs", procs(at.clone(), &nspace))?;
    told.add_known("handlers", handlers(at, &nspace))?;
    told.add_known("record", job::recorded(config.clone(), &nspace))?;
    told.add_known("denials", denials(config, &nspace))?;
    let is_known = |title: &str| {
        let mut parts = told.parts.iter();
        parts.any(|part| part.title == title && !part.value.is_null())
    };
    if !["job", "procs", "record"].into_iter().any(is_known) {
        crate::print_line(&format!(
            "no job {:?} runs here or has a record; `peal ps` shows those that run",
            nspace.as_str()
        ));
        return Ok(ExitCode::from(MISSING));
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

/// Returns the job and its procs as its user sees them; none if it does not run. They come from the server of
/// the other facts or, if none is asked for these, from those of this user.
fn procs(at: ServerArgs, nspace: &Nspace) -> Result<Option<Value>> {
    let uri = match admin::request(at, &AdminRequest::Status) {
        Ok((AdminReply::Status(status), _)) => Some(status.uri.parse()?),
        Ok((reply, _)) => return admin::unexpected(&reply),
        // A server of `peal run` has no admin socket.
        Err(_) => None,
    };
    let server = ToolArgs {
        uri,
        ..ToolArgs::default()
    };
    node::as_tool(async {
        let tools = tool::attach_to_all(event::tool_settings(server)?).await?;
        let found = ps::from_servers(&tools, std::slice::from_ref(nspace)).await;
        tools.leave().await;
        let GatheredJobs { jobs, is_complete } = found?;
        match ps::as_json(&jobs).into_iter().next() {
            None if !is_complete => bail!("a server was left out"),
            job => Ok(job),
        }
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
