//! `peal chain show`: order of the handlers in the chains of a server, and the reason for each
//! position.
use crate::{
    admin,
    args::{ChainShow, OutputFormat, ServerArgs},
    listing::names,
    output, plain, users,
};
use anyhow::Result;
use peal_core::owner::Owner;
use peal_model::{Event, Nspace, Status};
use peal_server::admin::{
    AdminReply, AdminRequest, ChainOwner, ChainPosition, WatchedStatus, chain_positions,
};
use serde_json::json;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Prints the chains, or how an event would pass through them.
pub fn show(args: ChainShow) -> Result<ExitCode> {
    let ChainShow {
        at,
        code,
        range,
        source,
        infos,
        format,
    } = args;
    let event = code.map(|code| Event {
        code,
        source,
        range,
        infos,
    });
    let (reply, _) = admin::request(at.clone(), &AdminRequest::Chains)?;
    let AdminReply::Chains { chains } = reply else {
        return admin::unexpected(&reply);
    };
    // Jobs tell which owners see an event. Without an event they are not needed.
    let jobs = if event.is_some() {
        jobs(at)?
    } else {
        Vec::new()
    };
    let rows = chain_positions(&chains, event.as_ref(), &jobs)?;
    match format.output {
        OutputFormat::Data(form) => {
            let rows: Vec<_> = rows.iter().map(json).collect();
            output::print(&form.document(&rows)?)?;
        }
        OutputFormat::Name => output::print(&names(rows.iter().map(|row| &row.handler.name)))?,
        _ if rows.is_empty() => output::print("no handlers are hosted\n")?,
        _ => write(&mut output::stdout(), &rows)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the jobs of the server with their users. Whether an event concerns a user depends on
/// them.
fn jobs(at: ServerArgs) -> Result<Vec<(Nspace, u32)>> {
    let (reply, _) = admin::request(at, &AdminRequest::Jobs)?;
    let AdminReply::Jobs { jobs } = reply else {
        return admin::unexpected(&reply);
    };
    jobs.into_iter()
        .map(|job| Ok((Nspace::new(&job.nspace)?, job.uid)))
        .collect()
}

/// Returns a handler with its position for programs.
fn json(row: &ChainPosition<'_>) -> serde_json::Value {
    json!({
        "position": row.position.ok(),
        "passed_over": row.position.err().map(|why| why.to_string()),
        "owner": ChainOwner::from(&row.owner),
        "user": match &row.owner {
            Owner::User(uid) => users::name(*uid),
            _ => None,
        },
        "name": row.handler.name,
        "module": row.handler.module,
        "stands": row.stands(),
        "registration": row.handler.registration,
        "codes": row.handler.codes.iter().map(|code| WatchedStatus::from(Status(*code))).collect::<Vec<_>>(),
        "oneshot": row.handler.oneshot,
        "where": row.handler.location,
        "levels": row.handler.levels,
        "depends_on_class": row.depends_on_class,
        "sources": row.handler.sources,
        "affected": row.affected(),
    })
}

/// Writes a line for each handler. Names come from modules, so they are escaped.
fn write(out: &mut impl Write, rows: &[ChainPosition<'_>]) -> io::Result<()> {
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            let position = row
                .position
                .map_or("-".to_owned(), |position| position.to_string());
            let owner = plain(&users::owner(&ChainOwner::from(&row.owner)));
            let name = format!("{:?}", row.handler.name);
            let module = format!("module {:?}", row.handler.module);
            [position, owner, name, module, row.stands(), row.remarks()]
        })
        .collect();
    let width = |at: usize| {
        cells
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
    };
    let [position, owner, name, module, stands] =
        [0, 1, 2, 3, 4].map(|at| width(at).unwrap_or_default());
    for [p, o, n, m, s, remarks] in &cells {
        writeln!(
            out,
            "{p:>position$}  {o:owner$}  {n:name$}  {m:module$}  {s:stands$}  {remarks}"
        )?;
    }
    Ok(())
}
