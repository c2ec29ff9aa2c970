//! Requests that make the server hold something: published values, lookups that wait, groups,
//! monitors and checkpoints.
use super::{connection::AdmittedConnection, own_user, stay};
use crate::raw_client::hello;
use anyhow::{Context, Result, bail, ensure};
use peal_model::{
    CommandCode, DataArray, Info, Key, Nspace, Proc, Query, Rank, Request, Status, Value, code, key,
};
use std::net::SocketAddr;

/// Returns two procs of a job for a kind. A proc connects once.
fn procs(job: &str, kind: &str) -> Result<[Proc; 2]> {
    let kinds = [
        "published",
        "lookup",
        "monitor",
        "group",
        "partial-group",
        "checkpoint",
        "query",
    ];
    let place = kinds.iter().position(|known| *known == kind);
    let first = 2 * u32::try_from(place.with_context(|| format!("unknown kind {kind:?}"))?)?;
    let nspace = Nspace::new(job)?;
    Ok([first, first + 1].map(|rank| Proc::new(nspace.clone(), Rank(rank))))
}

fn publish(key: &str) -> Result<Request> {
    Ok(Request::Publish {
        uid: own_user().uid,
        infos: vec![Info::new(Key::new(key)?, Value::Bool(true))],
    })
}

/// Returns the request of this kind with this number.
fn request(kind: &str, procs: &[Proc; 2], number: usize) -> Result<Request> {
    let name = format!("held.{kind}.{number}");
    Ok(match kind {
        "published" => publish(&name)?,
        "lookup" => Request::Lookup {
            uid: own_user().uid,
            keys: vec![Some(name.as_str().into())],
            infos: vec![Info::new(key::PMIX_WAIT, Value::Int(0))],
        },
        "monitor" => Request::Monitor {
            monitor: Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
            error: code::PMIX_SUCCESS,
            directives: vec![
                Info::new(key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(3600)),
                Info::new(key::PMIX_MONITOR_ID, Value::string(&name)),
            ],
        },
        "group" => Request::GroupConstruct {
            group: Some(name.as_str().into()),
            procs: vec![procs[0].clone()],
            directives: Vec::new(),
        },
        // The other proc never calls, so the server holds the call alone.
        "partial-group" => Request::GroupConstruct {
            group: Some(name.as_str().into()),
            procs: procs.to_vec(),
            directives: Vec::new(),
        },
        // The proc never says that its checkpoint is made.
        "checkpoint" => Request::JobControl {
            targets: vec![procs[0].clone()],
            directives: vec![
                Info::new(key::PMIX_JOB_CTRL_CHECKPOINT, Value::string(&name)),
                Info::new(key::PMIX_JOB_CTRL_ID, Value::string(&name)),
            ],
        },
        "query" => Request::Query {
            queries: vec![Query {
                keys: vec![Some(key::PMIX_QUERY_MEMORY_USAGE.0.into())],
                qualifiers: Vec::new(),
            }],
        },
        other => bail!("unknown kind {other:?}"),
    })
}

/// Returns the request that must succeed before one of this kind can.
fn preparation(kind: &str) -> Option<Request> {
    let method = Info::new(
        key::PMIX_JOB_CTRL_CHECKPOINT_EVENT,
        Value::Status(Status(-4244)),
    );
    let methods = Value::DataArray(DataArray::infos(vec![method]));
    (kind == "checkpoint").then(|| Request::JobControl {
        targets: Vec::new(),
        directives: vec![Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_METHOD, methods)],
    })
}

fn connect(server: SocketAddr, proc: &Proc, kind: &str) -> Result<AdmittedConnection> {
    let mut connection = AdmittedConnection::connect(server, &hello(proc.clone()))?;
    if let Some(request) = preparation(kind) {
        let status = connection.ask(&request)?;
        ensure!(status.is_success(), "the preparation fails: {status}");
    }
    Ok(connection)
}

/// Sends this number of requests of a kind as a proc of a job, without waiting for answers. Prints
/// the first status that is no success, and stays.
pub fn attack(server: SocketAddr, job: &str, kind: &str, count: usize) -> Result<()> {
    let procs = procs(job, kind)?;
    let mut attacker = connect(server, &procs[0], kind)?;
    let mut command = CommandCode::Publish;
    for number in 0..count {
        let request = request(kind, &procs, number)?;
        command = request.command();
        attacker.send(&request, 1)?;
    }
    loop {
        let status = attacker.reply(command)?.status();
        if !status.is_success() {
            println!("{status}");
            break;
        }
    }
    stay();
    Ok(())
}

/// Keeps this number of queries without an answer until it is killed. Prints a line after the first
/// answer.
pub fn query_flood(server: SocketAddr, job: &str, open: usize) -> Result<()> {
    let procs = procs(job, "query")?;
    let query = request("query", &procs, 0)?;
    let mut attacker = AdmittedConnection::connect(server, &hello(procs[0].clone()))?;
    attacker.send(&query, open)?;
    let mut is_told = false;
    loop {
        let status = attacker.reply(CommandCode::Query)?.status();
        if !is_told {
            println!("{status}");
            is_told = true;
        }
        attacker.send(&query, 1)?;
    }
}

/// Sends one request of a kind as a proc of a job, or several queries, and lets them succeed. Prints
/// the last status.
pub fn victim(server: SocketAddr, job: &str, kind: &str) -> Result<()> {
    let procs = procs(job, kind)?;
    let [mut victim, mut other] = [
        connect(server, &procs[0], kind)?,
        connect(server, &procs[1], kind)?,
    ];
    let request = request(kind, &procs, 0)?;
    if kind == "query" {
        for _ in 0..20 {
            let status = victim.ask(&request)?;
            ensure!(status.is_success(), "a query fails: {status}");
        }
    }
    victim.send(&request, 1)?;
    match kind {
        "lookup" => {
            let status = other.ask(&publish("held.lookup.0")?)?;
            ensure!(status.is_success(), "a value is not published: {status}");
        }
        "partial-group" => other.send(&request, 1)?,
        _ => {}
    }
    println!("{}", victim.reply(request.command())?.status());
    Ok(())
}
