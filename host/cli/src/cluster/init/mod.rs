//! `peal cluster init`: makes the files of a cluster, and sets up its streams.
mod dry_run;

use crate::{args::ClusterInit, node, output};
use anyhow::Result;
use peal_model::counted;
use peal_nats::{AppliedStream, ClusterSite, SiteRequest, apply_streams, prepare_site};
use std::{io::Write, process::ExitCode};

/// Makes what is missing, and prints the next steps.
pub fn init(args: ClusterInit) -> Result<ExitCode> {
    let ClusterInit {
        name,
        node,
        deployer,
        server,
        dir,
        apply,
        dry_run,
    } = args;
    let is_dry = dry_run.dry_run;
    let asks_nothing =
        name.is_none() && node.is_empty() && deployer.is_empty() && server.is_empty();
    if apply && asks_nothing && is_dry {
        dry_run::streams(&ClusterSite::read(&dir)?)?;
        return Ok(dry_run::end());
    }
    if apply && asks_nothing {
        print_streams(&ClusterSite::read(&dir)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let request = SiteRequest {
        directory: dir,
        name,
        servers: server,
        nodes: node,
        deployers: deployer,
    };
    if is_dry {
        let site = dry_run::files(&request)?;
        // No NATS server knows the administrator of a cluster whose files do not exist.
        match ClusterSite::read(&request.directory) {
            Ok(_) if apply => dry_run::streams(&site)?,
            Err(_) if apply => dry_run::new_streams(&site)?,
            Ok(_) | Err(_) => {}
        }
        return Ok(dry_run::end());
    }
    let site = prepare_site(&request)?;
    print_steps(&site)?;
    if apply {
        print_streams(&site)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_steps(site: &ClusterSite) -> Result<()> {
    let mut out = output::stdout();
    let directory = site.directory.display();
    writeln!(
        out,
        "cluster {} in {directory}: {}, {}",
        site.name,
        counted(site.servers.len(), "NATS server"),
        counted(site.nodes.len(), "node")
    )?;
    for server in &site.servers {
        writeln!(
            out,
            "{server}: copy {} there, and in it run nats-server -c nats-server.conf (again: nats-server --signal reload)",
            site.server_directory(server).display()
        )?;
    }
    let seeds = site
        .nodes
        .keys()
        .filter(|node| site.node_directory(node).join("node.seed").exists());
    for node in seeds {
        writeln!(
            out,
            "{node}: move {} there as cluster beside its peal.toml, with the section of its cluster.toml",
            site.node_directory(node).display()
        )?;
    }
    writeln!(
        out,
        "{directory} signs certificates and administers the streams; keep it secret\n\
         once the NATS servers run: peal cluster init --dir {directory} --apply"
    )?;
    out.flush()?;
    Ok(())
}

fn print_streams(site: &ClusterSite) -> Result<()> {
    let applied = node::as_tool(async { Ok(apply_streams(site).await?) })?;
    let mut out = output::stdout();
    for stream in applied {
        match stream {
            AppliedStream::Created(name) => writeln!(out, "stream {name} is created")?,
            AppliedStream::Completed(name) => {
                writeln!(out, "stream {name} has its consumer now")?;
            }
            AppliedStream::Kept(name) => writeln!(out, "stream {name} is as it should be")?,
            AppliedStream::Replicated(name) => writeln!(
                out,
                "stream {name} is stored on {} now",
                counted(site.replicas(), "NATS server")
            )?,
        }
    }
    out.flush()?;
    Ok(())
}
