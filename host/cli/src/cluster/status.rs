//! `peal cluster status`: checks the NATS server of this node's cluster.
use crate::{
    args::{ClusterStatus, OutputFormat},
    config,
    listing::names,
    node, output, plain,
    table::{Side, table},
    units,
    wait_message::WaitMessage,
};
use anyhow::{Result, bail};
use peal_nats::{
    ClusterAccess, ClusterMember, Membership, NatsLink, NatsReport, check_server, read_members,
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Message while the stream of members is read, one record for each request.
const READING: &str = "reading the servers of the cluster";
/// Exit status if a check failed.
const UNFIT: u8 = 1;

/// Prints what the NATS server says of itself and its streams, and what is wrong.
pub fn status(args: ClusterStatus) -> Result<ExitCode> {
    let ClusterStatus {
        config: sources,
        format,
    } = args;
    let settings = config::load_sections(sources, &["cluster"])?.cluster;
    let Some(access) = ClusterAccess::from_settings(&settings, &peal_system::hostname())? else {
        bail!(
            "no cluster is configured: `peal cluster init` prints how to add [cluster] to the configuration"
        );
    };
    let waiting = WaitMessage::new(READING);
    let (report, members) = node::as_tool(async {
        let mut link = NatsLink::connect(&access).await?;
        let report = check_server(&mut link).await;
        let members = match report.require_fit() {
            Ok(()) => Some(read_members(&link).await?),
            Err(_) => None,
        };
        Ok((report, members))
    })?;
    drop(waiting);
    let troubles = troubles(&report);
    output::print(&match format.output {
        OutputFormat::Data(form) => {
            form.document(&as_json(&access, &report, members.as_ref(), &troubles))?
        }
        OutputFormat::Name => names(members.iter().flat_map(node_names)),
        _ => as_text(&access, &report, members.as_ref(), &troubles),
    })?;
    Ok(if troubles.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNFIT)
    })
}

/// Returns what is wrong, the gravest first.
fn troubles(report: &NatsReport) -> Vec<String> {
    let unfit = report.problems.iter().map(ToString::to_string);
    let offline = report.streams.iter().flat_map(|stream| {
        let name = &stream.name;
        stream.offline.iter().map(move |server| {
            format!("NATS server {server}, which stores stream {name}, is offline; start it again")
        })
    });
    unfit.chain(offline).collect()
}

fn as_text(
    access: &ClusterAccess,
    report: &NatsReport,
    members: Option<&Membership>,
    troubles: &[String],
) -> String {
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
        let rows: Vec<[String; 7]> = report
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
                    stream
                        .lag
                        .map_or_else(|| "-".to_owned(), |lag| lag.to_string()),
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
                ("lag", Side::Right),
            ],
            &rows,
        );
    }
    if let Some(members) = members {
        text += &format!("\n{}", nodes(members));
    }
    for trouble in troubles {
        text += &format!("TROUBLE      {}\n", plain(trouble));
    }
    text
}

fn node_names(members: &Membership) -> Vec<String> {
    let members = members.members();
    members.map(|(_, member)| member.node.to_string()).collect()
}

/// Formats a line for each server of the cluster.
fn nodes(members: &Membership) -> String {
    let rows: Vec<[String; 5]> = members
        .members()
        .map(|(id, member)| {
            let ClusterMember { node, server } = member;
            [
                node.to_string(),
                id.0.to_string(),
                plain(&server.software),
                server.protocol().to_string(),
                server.kind.name().to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "no server has joined\n".to_owned();
    }
    table(
        [
            ("node", Side::Left),
            ("server", Side::Right),
            ("version", Side::Left),
            ("protocol", Side::Left),
            ("kind", Side::Left),
        ],
        &rows,
    )
}

fn as_json(
    access: &ClusterAccess,
    report: &NatsReport,
    members: Option<&Membership>,
    troubles: &[String],
) -> Value {
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
                "lag": stream.lag,
                "offline": stream.offline,
            })
        })
        .collect();
    let nodes = members.map(|members| {
        let nodes = members.members().map(|(id, member)| {
            json!({
                "node": member.node,
                "server": id.0,
                "version": member.server.software,
                "protocol": member.server.protocol().to_string(),
                "kind": member.server.kind.name(),
            })
        });
        nodes.collect::<Vec<Value>>()
    });
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
        "nodes": nodes,
        "problems": troubles,
    })
}
