//! `peal status` and `peal stats`: state and metrics of a running server.
use crate::{
    admin,
    args::{ClusterArgs, OutputFormat, ServerArgs, StatsArgs, StatusArgs},
    cluster::{
        NodeReply, NodeRequest,
        nodes::{NodeReplies, as_json, ask_all, of_kind, report_silent},
    },
    output, plain,
    table::{Side, table},
    users::{self, WithUserName},
};
use anyhow::Result;
use peal_server::{
    admin::{AdminReply, AdminRequest, ClusterPlace, ServerStatus, Trouble, UserQuotas},
    metrics::{Amount, MetricSample, Snapshot},
};
use serde_json::json;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Exit status if the running server has a problem.
const TROUBLE: u8 = 1;

/// Prints the state of a server.
pub fn status(args: StatusArgs) -> Result<ExitCode> {
    let (reply, _) = admin::request(args.at, &AdminRequest::Status)?;
    let AdminReply::Status(status) = reply else {
        return admin::unexpected(&reply);
    };
    if let OutputFormat::Data(form) = args.format.output {
        output::print(&form.document(&status)?)?;
        return Ok(status_code(&status));
    }
    let mut out = output::stdout();
    writeln!(out, "version      {}", status.version)?;
    writeln!(out, "process      {}", status.pid)?;
    writeln!(out, "phase        {}", status.phase)?;
    writeln!(out, "uptime       {} s", status.uptime)?;
    writeln!(out, "uri          {}", status.uri)?;
    writeln!(out, "jobs         {}", status.jobs)?;
    writeln!(out, "connections  {}", status.connections)?;
    if let Some(place) = &status.cluster {
        writeln!(out, "cluster      {}", place_text(place))?;
    }
    if status.compiling > 0 {
        writeln!(
            out,
            "compiling    {}",
            peal_model::counted(status.compiling, "user module")
        )?;
    }
    for Trouble { kind, message } in &status.troubles {
        writeln!(out, "TROUBLE      {kind}: {}", plain_lines(message))?;
    }
    Ok(status_code(&status))
}

/// Formats the place of a server in its cluster.
fn place_text(place: &ClusterPlace) -> String {
    let ClusterPlace {
        cluster,
        node,
        id,
        servers,
    } = place;
    match id {
        Some(id) => format!(
            "{cluster}, with {}; this one is {node}, number {id}",
            peal_model::counted(*servers, "server")
        ),
        None => format!("{cluster}, as {node}: not joined"),
    }
}

/// Returns the exit status of a server's state.
fn status_code(status: &ServerStatus) -> ExitCode {
    if status.troubles.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(TROUBLE)
    }
}

/// Indents the lines after the first. Texts of modules and users may be in them, so they are
/// escaped.
fn plain_lines(text: &str) -> String {
    text.lines()
        .map(plain)
        .collect::<Vec<_>>()
        .join("\n             ")
}

/// Prints the metrics of a server, or the resources of its users.
pub fn stats(args: StatsArgs) -> Result<ExitCode> {
    let StatsArgs {
        at,
        by_user,
        format,
        nodes,
    } = args;
    if nodes.cluster {
        of_nodes(at, &nodes, format.output)
    } else if by_user {
        users(at, format.output)
    } else {
        metrics(at, format.output)
    }
}

/// Prints what each user holds.
fn users(at: ServerArgs, format: OutputFormat) -> Result<ExitCode> {
    let (reply, _) = admin::request(at, &AdminRequest::Users)?;
    let AdminReply::Users(quotas) = reply else {
        return admin::unexpected(&reply);
    };
    output::print(&match format {
        OutputFormat::Data(form) => {
            let users = quotas.users.iter();
            let users = users.map(|user| WithUserName::new(user, user.uid));
            let users: Vec<_> = users.collect();
            form.document(&json!({ "resources": quotas.resources, "users": users }))?
        }
        _ => by_user(&quotas),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Formats a line for each user and resource.
fn by_user(quotas: &UserQuotas) -> String {
    let setting = |name: &str| {
        let limits = quotas.resources.iter();
        let found = limits.filter(|limits| limits.resource == name);
        found
            .map(|limits| limits.share_setting.clone())
            .next()
            .unwrap_or_default()
    };
    let rows: Vec<[String; 6]> = quotas
        .users
        .iter()
        .flat_map(|user| user.resources.iter().map(|used| (user.uid, used)))
        .map(|(uid, used)| {
            [
                users::shown(uid),
                used.resource.clone(),
                used.held.to_string(),
                used.share
                    .map_or_else(|| "-".to_owned(), |share| share.to_string()),
                used.refused.to_string(),
                setting(&used.resource),
            ]
        })
        .collect();
    let head = [
        ("user", Side::Left),
        ("resource", Side::Left),
        ("held", Side::Right),
        ("share", Side::Right),
        ("refused", Side::Right),
        ("setting of the share", Side::Left),
    ];
    table(head, &rows)
}

/// Prints the metrics of a server.
fn metrics(at: ServerArgs, format: OutputFormat) -> Result<ExitCode> {
    let (reply, _) = admin::request(at, &AdminRequest::Stats)?;
    let AdminReply::Stats(snapshot) = reply else {
        return admin::unexpected(&reply);
    };
    match format {
        OutputFormat::Data(form) => output::print(&form.document(&snapshot)?)?,
        _ => write(&mut output::stdout(), &snapshot)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the metrics of all nodes.
fn of_nodes(at: ServerArgs, nodes: &ClusterArgs, format: OutputFormat) -> Result<ExitCode> {
    let replies = ask_all(at.config, &NodeRequest::Stats, nodes.timeout)?;
    let replies: NodeReplies<Snapshot> = of_kind(replies, |reply| match reply {
        NodeReply::Stats(snapshot) => Some(snapshot),
        _ => None,
    });
    let mut out = output::stdout();
    if let OutputFormat::Data(form) = format {
        let families = |snapshot: &Snapshot| json!(snapshot.families);
        let told = form.document(&as_json(&replies, "families", families))?;
        out.write_all(told.as_bytes())?;
    } else {
        let answered = replies
            .iter()
            .filter_map(|(node, reply)| Some((node, reply.as_ref().ok()?)));
        for (node, snapshot) in answered {
            writeln!(out, "node {node}")?;
            write(&mut out, snapshot)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(report_silent(&replies))
}

/// Writes a line for each metric: value, name and help.
fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    let mut lines = Vec::new();
    for family in &snapshot.families {
        let name = family.name.strip_prefix("peal_").unwrap_or(&family.name);
        // The first sentence of a help text says what is counted. Others would make the line too
        // long.
        let help = family
            .help
            .split_inclusive(". ")
            .next()
            .unwrap_or_default()
            .trim_end();
        let line = |sample: &MetricSample| {
            (
                amount(sample.value),
                format!("{name}{}", labels(sample)),
                help,
            )
        };
        lines.extend(family.samples.iter().map(line));
    }
    let widest =
        |of: fn(&(String, String, &str)) -> usize| lines.iter().map(of).max().unwrap_or_default();
    let amounts = widest(|line| line.0.len());
    let names = widest(|line| line.1.len());
    lines.iter().try_for_each(|(amount, name, help)| {
        writeln!(out, "{amount:>amounts$}  {name:names$}  {help}")
    })
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Number(number) => number.to_string(),
        Amount::Real(real) => format!("{real:.6}"),
    }
}

/// Formats labels as Prometheus does. The values come from users, so they are escaped.
fn labels(sample: &MetricSample) -> String {
    let labels: Vec<String> = sample
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", labels.join(","))
    }
}
