//! `peal serve`: a server for the jobs and tools of its node, from its start to its end.
use crate::{
    admin,
    args::Serve,
    config,
    node::{self, Node, Prepared},
    reload::Reloading,
};
use anyhow::{Context, Result};
use peal_config::{Given, Problem, Problems, Resolved};
use peal_server::{
    Notices, Rendezvous, Server, Serves,
    admin::{AdminChannel, AdminGroup, AdminParts, Order, Phase, SocketClaim},
};
use sd_notify::NotifyState;
use std::process::ExitCode;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// Serves until it is told to stop.
pub fn serve(args: Serve) -> Result<ExitCode> {
    let given: Vec<Given> = args.at.socket.iter().map(|path| socket_option(path)).collect();
    let resolved = config::load(args.at.config.clone(), given.clone())?;
    let config = resolved.config.clone();
    // First of all, so that of two servers the second one touches nothing of the first one's.
    let claim = SocketClaim::new(&config.admin.socket.clone().unwrap_or_else(admin::usual_socket))?;
    let socket = claim.path().to_owned();
    let group = admin_group(&resolved).map_err(|problem| Problems(vec![problem]))?;
    let notices = Notices::default();
    let prepared = Prepared::new(&resolved, &node::name(), notices.clone(), None)?;
    let runtime = node::runtime()?;
    runtime.block_on(async {
        let mut signals = Signals::new().context("cannot listen to signals")?;
        let node = Node::start(prepared, &config).await?;
        let tools = config::tool_settings(&config, Serves::Session);
        let _tools = tools.map(|settings| Rendezvous::publish(&settings, node.server.uri(), &[])).transpose()?;
        let endpoint = node.metrics_endpoint(&config).await?;
        let uri = node.server.uri().clone();
        let parts = AdminParts {
            group,
            max_jobs: config.admin.max_jobs,
            handle: node.server.handle(),
            host: node.host.clone(),
            uri: uri.clone(),
            hostname: node::hostname(),
            metrics: node.server.metrics(),
            chains: node.server.chains(),
            notices: notices.clone(),
            store: node.store.clone(),
        };
        let (channel, orders) = AdminChannel::start(claim, parts)?;
        let metrics = node.server.metrics();
        let (sources, server) = (args.at.config, node.server.handle());
        let reloading = Reloading { sources, given, current: resolved, endpoint, metrics, server };
        crate::say(&format!("ready: clients find the server at {uri}, administrators at {}", socket.display()));
        tell_manager(&[NotifyState::Ready, NotifyState::Status("serving")]);
        let mut server = node.server;
        supervise(&mut server, &channel, orders, &mut signals, reloading).await;
        channel.enter(Phase::Stopping);
        tell_manager(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
        tokio::select! {
            () = server.shutdown() => {}
            () = signals.end() => tracing::warn!("interrupted: events that are still before the handlers are dropped"),
        }
        channel.close().await;
        anyhow::Ok(())
    })?;
    // Guests that are still at work must not keep us.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Whose members may administer beside root and the server's own user.
pub fn admin_group(resolved: &Resolved) -> Result<Option<AdminGroup>, Problem> {
    let key = "admin.group";
    let wrong = |error| Problem::new(resolved.origin(key).clone(), format!("{key}: {error}"));
    resolved.config.admin.group.as_deref().map(AdminGroup::named).transpose().map_err(wrong)
}

fn socket_option(path: &std::path::Path) -> Given {
    Given::option("--socket", "admin.socket", path.to_string_lossy().into_owned())
}

/// Carries out what signals and administrators want, until the server is to end.
async fn supervise(
    server: &mut Server,
    channel: &AdminChannel,
    mut orders: mpsc::Receiver<Order>,
    signals: &mut Signals,
    mut reloading: Reloading,
) {
    let mut draining = false;
    loop {
        let order = tokio::select! {
            () = server.drain(), if draining => return,
            Some(order) = orders.recv() => order,
            wish = signals.next() => match wish {
                Wish::End if draining => Order::Stop,
                Wish::End => Order::Drain,
                Wish::Reload => {
                    let (tell, _) = tokio::sync::oneshot::channel();
                    Order::Reload(tell)
                }
            },
        };
        match order {
            Order::Stop => return,
            Order::Drain => {
                draining = true;
                channel.enter(Phase::Draining);
                crate::say("draining: no more jobs and connections are taken");
                tell_manager(&[NotifyState::Status("draining: waiting for the last connection to end")]);
            }
            Order::Reload(tell) => {
                // Whoever asked may have gone.
                let _ = tell.send(reload(&mut reloading).await);
            }
        }
    }
}

async fn reload(reloading: &mut Reloading) -> Result<peal_server::admin::Reloaded, String> {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell_manager(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "the service manager is not told of the reload"),
    }
    let done = reloading.reload().await.map_err(|error| format!("{error:#}"));
    match &done {
        Ok(reloaded) => {
            let list = |keys: &[String]| if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
            let (applied, later) = (list(&reloaded.applied), list(&reloaded.needs_restart));
            crate::say(&format!("the configuration was read again: changed: {applied}; at the next start: {later}"));
        }
        Err(problems) => crate::say(&format!("the configuration is not taken, the old one holds:\n{problems}")),
    }
    tell_manager(&[NotifyState::Ready]);
    done
}

/// Tells systemd, or whoever else started us and wants to know.
fn tell_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told how the server is");
    }
}

/// What a signal means.
enum Wish {
    /// The server shall end, once those who are connected have finished.
    End,
    /// The configuration shall be read again.
    Reload,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::End,
            _ = self.terminate.recv() => Wish::End,
            _ = self.hangup.recv() => Wish::Reload,
        }
    }

    /// Waits until somebody wants an end.
    async fn end(&mut self) {
        while let Wish::Reload = self.next().await {}
    }
}
