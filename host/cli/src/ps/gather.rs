//! Jobs and procs as a server reports them, collected by several queries.
use crate::monitor::usage::{self, MeasuredUsage};
use anyhow::{Result, bail};
use peal_client::{Client, ClientError};
use peal_core::job::JOB_ELAPSED;
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{
    Info, Infos, KeyName, Nspace, Proc, ProcInfo, Query, Status, UserIdentity, Value, code, key,
};
use peal_server::HostEnvironment;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Job in a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GatheredJob {
    /// Name of the job's server, where jobs of several are listed.
    #[serde(default)]
    pub server: Option<String>,
    pub nspace: Nspace,
    pub uid: Option<u32>,
    pub size: Option<u64>,
    pub command: Option<String>,
    /// Time since the start or the registration of the job, in seconds.
    #[serde(default)]
    pub elapsed: Option<u64>,
    pub procs: Vec<GatheredProc>,
}

/// Jobs of servers.
#[derive(Clone, PartialEq, Debug)]
pub struct GatheredJobs {
    pub jobs: Vec<GatheredJob>,
    /// True if no server was left out.
    pub is_complete: bool,
}

/// Proc, and its resource usage if known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GatheredProc {
    pub info: ProcInfo,
    pub usage: Option<MeasuredUsage>,
}

/// Server that answers queries.
pub trait QuerySource: Sync {
    /// Answers a query. The answer is empty if the server does not know the information: a job may have ended
    /// since it was listed, and some servers do not support every key.
    fn ask(&self, query: Query) -> impl Future<Output = Result<Vec<Info>>> + Send;
}

/// Returns true if a refusal says that the server does not know the information.
fn is_unknown(status: Status) -> bool {
    matches!(
        status,
        code::PMIX_ERR_NOT_FOUND | code::PMIX_ERR_NOT_SUPPORTED | code::PMIX_ERR_BAD_PARAM
    )
}

impl QuerySource for Client {
    async fn ask(&self, query: Query) -> Result<Vec<Info>> {
        match self.query(&[query]).await {
            Ok(found) => Ok(found.infos),
            Err(ClientError::Refused { status, .. }) if is_unknown(status) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Queries of root to the host environment of a node.
pub struct HostQueries(pub Arc<EmbeddedHostEnvironment>);

impl QuerySource for HostQueries {
    async fn ask(&self, query: Query) -> Result<Vec<Info>> {
        let root = UserIdentity { uid: 0, gid: 0 };
        match self.0.query_for_server(root, vec![query]).await {
            Ok(infos) => Ok(infos),
            Err(status) if is_unknown(status) => Ok(Vec::new()),
            Err(status) => bail!("the server refuses: {status}"),
        }
    }
}

/// Returns these jobs, or all if none is named.
pub async fn gather(client: &impl QuerySource, wanted: &[Nspace]) -> Result<Vec<GatheredJob>> {
    let mut jobs = gather_without_usage(client, wanted).await?;
    for job in &mut jobs {
        let mut used = usages(client, &job.nspace).await?;
        for proc in &mut job.procs {
            proc.usage = used.remove(&proc.info.proc);
        }
    }
    Ok(jobs)
}

/// Returns these jobs, or all if none is named. The server measures no usage for it.
pub async fn gather_without_usage(
    client: &impl QuerySource,
    wanted: &[Nspace],
) -> Result<Vec<GatheredJob>> {
    let mut jobs = jobs(client).await?;
    jobs.retain(|job| wanted.is_empty() || wanted.contains(&job.nspace));
    for job in &mut jobs {
        let listed = procs(client, &job.nspace).await?.into_iter();
        job.procs = listed
            .map(|info| GatheredProc { info, usage: None })
            .collect();
    }
    Ok(jobs)
}

/// Returns the names of all jobs.
pub async fn job_names(client: &impl QuerySource) -> Result<Vec<String>> {
    let jobs = jobs(client).await?;
    Ok(jobs.into_iter().map(|job| job.nspace.to_string()).collect())
}

async fn jobs(client: &impl QuerySource) -> Result<Vec<GatheredJob>> {
    let answer = query(client, key::PMIX_QUERY_NAMESPACE_INFO, Vec::new()).await?;
    let Some(Value::DataArray(array)) = answer.value_of(key::PMIX_QUERY_NAMESPACE_INFO) else {
        return Ok(Vec::new());
    };
    let jobs = array.as_infos().unwrap_or_default();
    Ok(jobs
        .into_iter()
        .filter_map(usage::members)
        .filter_map(|infos| job(&infos))
        .collect())
}

fn job(infos: &[&Info]) -> Option<GatheredJob> {
    let value = |key: KeyName| {
        infos
            .iter()
            .find(|info| info.key == key)
            .map(|info| &info.value)
    };
    // Servers send the name as a namespace or as a string.
    let nspace = match value(key::PMIX_NSPACE)? {
        Value::Nspace(nspace) => nspace.clone(),
        value => Nspace::new(value.as_str()?).ok()?,
    };
    let uid = value(key::PMIX_USERID)
        .and_then(Value::as_u64)
        .and_then(|uid| u32::try_from(uid).ok());
    let size = value(key::PMIX_JOB_SIZE).and_then(Value::as_u64);
    let command = value(key::PMIX_CMD_LINE)
        .and_then(Value::as_str)
        .map(str::to_owned);
    Some(GatheredJob {
        server: None,
        nspace,
        uid,
        size,
        command,
        elapsed: value(JOB_ELAPSED).and_then(Value::as_u64),
        procs: Vec::new(),
    })
}

async fn procs(client: &impl QuerySource, nspace: &Nspace) -> Result<Vec<ProcInfo>> {
    let answer = query(client, key::PMIX_QUERY_PROC_TABLE, of(nspace)).await?;
    let Some(Value::DataArray(array)) = answer.value_of(key::PMIX_QUERY_PROC_TABLE) else {
        return Ok(Vec::new());
    };
    let info = |value: &Value| {
        if let Value::ProcInfo(info) = value {
            Some((**info).clone())
        } else {
            None
        }
    };
    Ok(array.items().iter().filter_map(info).collect())
}

async fn usages(
    client: &impl QuerySource,
    nspace: &Nspace,
) -> Result<BTreeMap<Proc, MeasuredUsage>> {
    let answer = query(client, key::PMIX_QUERY_PROC_RESOURCE_USAGE, of(nspace)).await?;
    Ok(usage::of_procs(&answer))
}

fn of(nspace: &Nspace) -> Vec<Info> {
    vec![Info::new(key::PMIX_NSPACE, Value::string(nspace.as_str()))]
}

/// Queries a key.
async fn query(
    client: &impl QuerySource,
    key: KeyName,
    qualifiers: Vec<Info>,
) -> Result<Vec<Info>> {
    let query = Query {
        keys: vec![Some(key.0.into())],
        qualifiers,
    };
    client.ask(query).await
}
