//! `peal cluster status`: checks the NATS server of this node's cluster.
use crate::{
    args::ClusterStatus,
    config, node, output, plain,
    table::{Side, table},
    units,
};
use anyhow::{Result, bail};
use peal_nats::{ClusterAccess, NatsLink, NatsReport, check_server};
use serde_json::{Value, json};
use std::{io::Write, process::ExitCode};

/// Exit status if a check failed.
const UNFIT: u8 = 1;

/// Prints what the NATS server says of itself and its streams, and what is wrong.
pub fn status(args: ClusterStatus) -> Result<ExitCode> {
    let ClusterStatus {
        config: sources,
        json,
    } = args;
    let settings = config::load_sections(sources, &["cluster"])?.cluster;
    let Some(access) = ClusterAccess::from_settings(&settings, &peal_system::hostname())? else {
        bail!(
            "no cluster is configured: `peal cluster init` prints how to add [cluster] to the configuration"
        );
    };
    let report = node::as_tool(async {
        let mut link = NatsLink::connect(&access).await?;
        Ok(check_server(&mut link).await)
    })?;
    let mut out = output::stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, &as_json(&access, &report))?;
        writeln!(out)?;
    } else {
        out.write_all(as_text(&access, &report).as_bytes())?;
    }
    out.flush()?;
    Ok(if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNFIT)
    })
}

fn as_text(access: &ClusterAccess, report: &NatsReport) -> String {
    let jetstream = if report.has_jetstream { "yes" } else { "no" };
    let round_trip = report.round_trip.map_or_else(
        || "no answer".to_owned(),
        |time| format!("{:.1} ms", time.as_secs_f64() * 1e3),
    );
    let mut text = format!(
        "cluster      {}\nnode         {}\nNATS server  {} {}\nJetStream    {jetstream}\nround trip   {round_trip}\n",
        access.cluster,
        access.node,
        plain(&report.server),
        plain(&report.version)
    );
    if !report.streams.is_empty() {
        let rows: Vec<[String; 6]> = report
            .streams
            .iter()
            .map(|stream| {
                [
                    stream.name.clone(),
                    stream.messages.to_string(),
                    stream.last_sequence.to_string(),
                    units::bytes(stream.bytes as f64),
                    stream.replicas.to_string(),
                    stream.leader.clone().unwrap_or_else(|| "-".to_owned()),
                ]
            })
            .collect();
        text += "\n";
        text += &table(
            [
                ("stream", Side::Left),
                ("messages", Side::Right),
                ("last", Side::Right),
                ("size", Side::Right),
                ("copies", Side::Right),
                ("leader", Side::Left),
            ],
            &rows,
        );
    }
    for problem in &report.problems {
        text += &format!("TROUBLE      {}\n", plain(&problem.to_string()));
    }
    text
}

fn as_json(access: &ClusterAccess, report: &NatsReport) -> Value {
    let streams: Vec<Value> = report
        .streams
        .iter()
        .map(|stream| {
            json!({
                "name": stream.name,
                "messages": stream.messages,
                "bytes": stream.bytes,
                "last_sequence": stream.last_sequence,
                "replicas": stream.replicas,
                "leader": stream.leader,
            })
        })
        .collect();
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    json!({
        "cluster": access.cluster,
        "node": access.node,
        "server": {
            "name": report.server,
            "version": report.version,
            "jetstream": report.has_jetstream,
            "round_trip_us": report.round_trip.map(|time| time.as_micros()),
        },
        "streams": streams,
        "problems": problems,
    })
}
