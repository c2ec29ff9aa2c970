//! `peal serve`: a server for the jobs and tools of its node.
use crate::{
    admin,
    args::{ConfigArgs, ServeArgs, ServerArgs},
    artifact_fetcher, audit_signer,
    cluster::{self, ObservedServer, RecentEvents, ServedModules},
    compiler, config,
    confinement::{self, ServerPeers},
    console::{self, ConsoleListener},
    handover::{self, GiveError, HandedHosts, PendingHandover, PreviousProcess, ReceivedServer},
    node::{self, ContinuedNode, LocalServer, PreparedServer, ServerProcesses},
    process_setup,
    reload::{self, ReloadableConfig},
    server_signals::{ServerSignal, ServerSignals},
    service_manager::{Manager, ServiceState},
    successor::{self, Successor},
    supervisor::{self, ProcessStarter, ServerAccount},
    telemetry::{self, PreparedTelemetry},
    tenant,
    troubles::Troubles,
    users,
};
use anyhow::{Context, Result, bail, ensure};
use peal_config::{Config, Problem, Problems, SettingOverride};
use peal_modules::{DeployerProgress, ReloadTrigger, Watch};
use peal_nats::{SealLimits, SealQueue};
use peal_server::{
    ContinuedStubs, Notices, Rendezvous, Server, Serves, StubListener, StubService,
    admin::{
        AdminChannel, AdminParts, AdminReply, ModuleCall, ProcessCommand, ReloadReport,
        ServerPhase, SocketClaim, WatcherLimits,
    },
};
use rustix::process::geteuid;
use std::{
    collections::BTreeMap,
    future::Future,
    os::unix::net::UnixStream,
    process::{ExitCode, Stdio},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// Exit status if the text of the configuration is invalid: `EX_CONFIG` of sysexits(3). A service manager
/// starts the server again after other failures, such as a directory service that does not answer yet; this
/// one would come again.
const INVALID_CONFIGURATION: u8 = 78;

/// Configuration with an invalid text.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct InvalidConfiguration(Problems);

/// Reads the configuration of a server.
fn read_configuration(
    config: ConfigArgs,
    overrides: Vec<SettingOverride>,
) -> Result<config::Readable> {
    config::load_for_server(config, overrides).map_err(|problems| {
        if problems.0.iter().all(Problem::is_in_text) {
            InvalidConfiguration(problems).into()
        } else {
            problems.into()
        }
    })
}

/// Serves until a signal or an admin request ends it.
pub fn serve(args: ServeArgs) -> Result<ExitCode> {
    serve_as(args, ServerHome::Daemon).or_else(|error| {
        if !error.is::<InvalidConfiguration>() {
            return Err(error);
        }
        crate::print_line(&crate::error_text(&error));
        Ok(ExitCode::from(INVALID_CONFIGURATION))
    })
}

/// Serves one launcher, which has started this process with a socket as its standard input, until
/// the launcher ends.
pub fn serve_launcher() -> Result<ExitCode> {
    let stream =
        process_setup::standard_input().context("the standard input is no socket of a launcher")?;
    let args = ServeArgs {
        at: ServerArgs {
            socket: Some(admin::launcher_socket()),
            config: ConfigArgs::default(),
        },
        supervised: None,
        goes_on: false,
        check: false,
    };
    serve_as(args, ServerHome::Launcher(stream.into()))
}

/// Checks that a server of this configuration would start, in a process of its own, which may change its user.
///
/// # Errors
///
/// Fails if it would not. The process has printed the reason.
pub fn check_in_other_process(at: &ServerArgs) -> Result<()> {
    let mut command = supervisor::own_program();
    command.args(["serve", "--check"]);
    if let Some(file) = &at.config.config {
        command.arg("--config").arg(file);
    }
    for SettingOverride { key, value, .. } in &at.config.set {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let status = command.stdin(Stdio::null()).status();
    let status = status.context("cannot check the configuration")?;
    ensure!(
        status.success(),
        "this release cannot serve with the configuration; the server goes on"
    );
    Ok(())
}

/// Returns the starter of a supervised server, which ends with its supervisor.
fn supervising_starter() -> Result<ProcessStarter> {
    process_setup::end_with_parent()?;
    let socket = process_setup::standard_input()
        .context("the standard input is no socket of a supervisor")?;
    ProcessStarter::new(socket).context("the standard input is no socket of a supervisor")
}

/// Process that a server belongs to.
enum ServerHome {
    /// The server serves the node.
    Daemon,
    /// The server serves the jobs of one launcher, at the other end of this socket.
    Launcher(UnixStream),
}

fn serve_as(mut args: ServeArgs, home: ServerHome) -> Result<ExitCode> {
    // First, since the environment can choose the configuration.
    process_setup::leave_foreign_environment()?;
    process_setup::forbid_core_files()?;
    let is_supervised = args.supervised.is_some();
    args.at.socket = args.supervised.take().or(args.at.socket);
    let overrides: Vec<SettingOverride> = args
        .at
        .socket
        .iter()
        .map(|path| socket_option(path))
        .collect();
    let readable = read_configuration(args.at.config.clone(), overrides.clone())?;
    // A node has one server in its cluster, which is not that of a launcher.
    let cluster = match home {
        ServerHome::Daemon => {
            config::cluster_access(&readable.resolved).map_err(|problem| Problems(vec![problem]))?
        }
        ServerHome::Launcher(_) => None,
    };
    console::check(&readable.resolved).map_err(|problem| Problems(vec![problem]))?;
    let config = readable.resolved.config.clone();
    let socket = config
        .admin
        .socket
        .clone()
        .unwrap_or_else(admin::usual_socket);
    let starter = is_supervised.then(supervising_starter).transpose()?;
    let upgrader = starter.clone();
    if starter.is_none()
        && let ServerHome::Daemon = home
        && let Some(account) = ServerAccount::of(&config)?
    {
        return if args.check {
            supervisor::check(&account)
        } else {
            supervisor::supervise(&config, &account, &socket)
        };
    }
    let name = node::unique("peal");
    // The servers of launchers are many and short-lived.
    let telemetry = match home {
        ServerHome::Daemon => telemetry::prepare(&readable.resolved, &name)?,
        ServerHome::Launcher(_) => None,
    };
    if let Some(cluster) = &cluster {
        cluster.check_files().with_context(|| {
            let user = users::shown(geteuid().as_raw());
            format!("cannot join the cluster; user {user} runs the server and must own the key")
        })?;
    }
    if args.check || args.goes_on {
        // Also fills the cache of compiled code, so that the clients of a running server wait less.
        node::check_modules(&readable)?;
        console::check_secrets(&config)?;
    }
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    // Each connection is a descriptor.
    node::raise_file_limit();
    let console_listener = args
        .goes_on
        .then(|| ConsoleListener::beside(&config))
        .flatten();
    // Before anything that the other process holds is touched. It goes on if that fails.
    let taken = args
        .goes_on
        .then(|| {
            let node = cluster.as_ref().map(|cluster| &cluster.node);
            handover::receive_server(&socket, &config.upgrade, node)
        })
        .transpose()
        .with_context(|| format!("cannot continue the server at {}", socket.display()))?;
    let (continued, membership, registered, from) = match taken {
        Some(ReceivedServer {
            server,
            membership,
            host,
            stubs,
            from,
            registered,
        }) => {
            let continued = ContinuedNode {
                server,
                host,
                stubs,
            };
            (Some(continued), membership, registered, Some(from))
        }
        None => (None, None, BTreeMap::new(), None),
    };
    // The socket is claimed first, so that a second server changes nothing of the first one's.
    let scope = match home {
        ServerHome::Daemon => Serves::Session,
        ServerHome::Launcher(_) => Serves::Itself,
    };
    let stub_claim = config
        .hosts
        .socket
        .as_deref()
        .filter(|_| scope == Serves::Session)
        .map(|path| {
            let stubs = continued.as_ref().map(|continued| &continued.stubs);
            let inherited = stubs.and_then(ContinuedStubs::listens_at);
            SocketClaim::beside_listener(path, inherited)
        })
        .transpose()?;
    let claim = match home {
        ServerHome::Daemon => SocketClaim::new(&socket)?,
        ServerHome::Launcher(_) => {
            SocketClaim::remove_left_over(&socket, admin::LAUNCHER_SOCKETS);
            SocketClaim::new(&socket)?.of_one_process()
        }
    };
    let socket = claim.path().to_owned();
    let files = reload::named_files(&args.at.config, &overrides);
    // A confined process cannot start programs.
    let compilers = compiler::start(&config, starter.clone())?;
    let fetchers = artifact_fetcher::start(&config, &readable.resolved.modules, starter.clone())?;
    let runtimes = tenant::starter(&config, starter.clone())?;
    let signer = audit_signer::start(&config, starter.clone())?;
    // A launcher's server is as short as its jobs.
    let console = match home {
        ServerHome::Daemon => console::start(&config, &socket, starter.clone(), console_listener)?,
        ServerHome::Launcher(_) => None,
    };
    let seals = cluster
        .is_some()
        .then(|| SealQueue::new(SealLimits::default()));
    let peers = ServerPeers {
        cluster: cluster.as_ref(),
        collector: telemetry.as_ref().map(PreparedTelemetry::collector),
    };
    let (active_confinement, helper) =
        confinement::confine(&readable, &files, &socket, peers, starter)?;
    let group =
        config::admin_group(&readable.resolved).map_err(|problem| Problems(vec![problem]))?;
    let notices = match &telemetry {
        Some(telemetry) => telemetry.measure(Notices::default()),
        None => Notices::default(),
    };
    let prepared = PreparedServer::for_server(
        &readable,
        &name,
        notices.clone(),
        ServerProcesses {
            helper,
            compilers,
            fetchers,
            runtimes,
            signer,
            seals: seals.clone(),
        },
    )?;
    // Only now, so that nothing precedes the errors of a configuration.
    if scope == Serves::Session && config.server.user.is_none() && geteuid().is_root() {
        tracing::warn!("server runs as root: there is no user peal, and server.user names none");
    }
    let runtime = node::runtime()?;
    let ending = runtime.block_on(async {
        let mut signals = ServerSignals::new().context("cannot listen to signals")?;
        let (network, cluster) = cluster::network(cluster.zip(seals), membership);
        let watched = cluster.as_ref().map(|_| prepared.notices());
        let node = LocalServer::start(prepared, &config, network, continued).await?;
        let told = from.as_ref().map(PreviousProcess::event);
        cluster::show(&node.server.metrics(), cluster.clone());
        if let Some((cluster, watched)) = cluster.as_ref().zip(watched) {
            let observed = ObservedServer {
                viewers: config.cluster.viewers.clone(),
                host: node.host.clone(),
                metrics: node.server.metrics(),
                store: node.store.clone(),
                events: RecentEvents::new(watched),
            };
            cluster.serve(config.audit.path.clone(), node.audit.as_ref(), observed);
        }
        let (audit, sealing) = (node.audit.clone(), cluster.clone());
        // The drop of this removes the files.
        let _tools = published(&config, &node.server, scope)?;
        let endpoint = node.metrics_endpoint(&config).await?;
        let exporter = telemetry
            .map(|telemetry| telemetry.start(&notices, node.server.metrics()))
            .transpose()?;
        let uri = node.server.uri().clone();
        let troubles = Troubles::new(node.audit, node.store.clone(), node.deployer.troubles(), cluster.clone());
        troubles.configured(node.refused.map(|problems| problems.to_string()));
        let modules = cluster.as_ref().map(cluster::ServedModules::start);
        let shared_troubles = troubles.clone();
        let parts = AdminParts {
            group,
            max_jobs: config.admin.max_jobs,
            watchers: WatcherLimits {
                max: config.admin.max_watchers,
                max_per_user: config.admin.watchers_per_user(),
                recent_entries: config.admin.max_recent_entries,
            },
            handle: node.server.handle(),
            host: node.host.clone(),
            uri: uri.clone(),
            hostname: peal_system::hostname(),
            metrics: node.server.metrics(),
            pacer: node.server.pacer(),
            chains: node.server.chains(),
            notices: notices.clone(),
            store: node.store.clone(),
            troubles: Box::new(move || shared_troubles.list()),
            continued: from.map(PreviousProcess::continued_now),
            cluster: Box::new(move || cluster.as_ref().map(cluster::status_of)),
        };
        let (channel, orders) = AdminChannel::start(claim, parts)?;
        channel.restore(registered).await;
        let stubs = Arc::new(StubService::new(
            node.server.handle(),
            node.router.clone(),
            uri.to_string(),
            config::stub_settings(&config),
            channel.job_journal(),
        ));
        let _listener = StubListener::start(stub_claim, &stubs, node.stubs)?;
        let launcher = launcher_served(home, stubs.clone())?;
        let metrics = node.server.metrics();
        let sources = args.at.config;
        let handle = node.server.handle();
        let deployer = node.deployer;
        let sinks = readable.resolved.sinks.iter().map(|sink| sink.settings.clone()).collect();
        let looked_at = reload::looked_at(&readable.resolved);
        let current = readable.resolved.config;
        let reloading = ReloadableConfig {
            sources,
            overrides,
            current,
            endpoint,
            metrics,
            server: handle,
            deployer,
            looked_at,
            confinement: active_confinement,
            sinks,
            troubles,
        };
        let watch = || config.deploy.watch.then(|| Watch::new(config.deploy.debounce));
        let mut watches = ConfigWatches { files: watch(), users: watch() };
        watches.follow(&reloading);
        if let Some(event) = told {
            node.server.handle().notify(event);
        }
        if let Some(console) = console {
            console.keep().context("cannot watch the web console")?;
        }
        // Everything listens now, so a program that waits for this line can connect. The output of
        // a launcher is that of its jobs.
        if scope == Serves::Session {
            crate::print_line(&format!("ready: clients find the server at {uri}, administrators at {}", socket.display()));
        }
        let manager = Manager::new();
        manager.notify(ServiceState::Ready);
        let hosts = HandedHosts {
            embedded: node.host.clone(),
            stubs,
            limits: config.upgrade.clone(),
        };
        let mut server = node.server;
        let handle = server.handle();
        let failure = server.failure();
        let ending = tokio::select! {
            () = launcher => ServeEnd::Wanted,
            ending = supervise(&mut server, &channel, orders, &mut signals, (reloading, watches, modules), (&manager, upgrader, hosts)) => ending,
            () = failure => ServeEnd::Failure,
            never = manager.keep_alive(handle) => match never {},
        };
        channel.enter(ServerPhase::Stopping);
        // The service goes on with the other process.
        if ending != ServeEnd::HandedOver {
            manager.notify(ServiceState::Stopping);
        }
        let last_words = async {
            match ending {
                ServeEnd::Wanted => server.shutdown().await,
                ServeEnd::HandedOver => server.leave().await,
                // A server that failed no longer answers, so that nothing can be drained.
                ServeEnd::Failure => {}
            }
            // After the server, whose log channels write to the sinks until they end. The process that goes on
            // with the server waits for all of this.
            let deadline = match ending {
                ServeEnd::HandedOver => config.server.drain_timeout.min(config.upgrade.drain_timeout),
                ServeEnd::Wanted | ServeEnd::Failure => config.server.drain_timeout,
            };
            node::close_sinks(node.sinks, deadline).await;
            node::finish_records(node.recorder).await;
            match ending {
                ServeEnd::HandedOver => {
                    // What is not exported in time is lost, as when the collector is away.
                    let _ = tokio::time::timeout(config.upgrade.drain_timeout, telemetry::finish(exporter)).await;
                }
                ServeEnd::Wanted | ServeEnd::Failure => telemetry::finish(exporter).await,
            }
            if let Some(cluster) = sealing {
                let sealed = cluster.seal(audit);
                match ending {
                    // The next seal of the process that goes on is about these records, too.
                    ServeEnd::HandedOver => {
                        let _ = tokio::time::timeout(config.upgrade.drain_timeout, sealed).await;
                    }
                    ServeEnd::Wanted | ServeEnd::Failure => sealed.await,
                }
            }
        };
        tokio::select! {
            () = last_words => {}
            () = signals.end() => tracing::warn!("interrupted during shutdown: pending events dropped"),
        }
        channel.close().await;
        anyhow::Ok(ending)
    })?;
    // Running guests must not keep the process alive.
    runtime.shutdown_background();
    match ending {
        ServeEnd::Wanted | ServeEnd::HandedOver => Ok(ExitCode::SUCCESS),
        ServeEnd::Failure => {
            bail!(
                "the server failed: a task panicked (see its trace); the server no longer answers"
            )
        }
    }
}

/// Writes the files by which tools find the server. Those of a launcher's server are dispensable:
/// its jobs do not depend on tools.
fn published(config: &Config, server: &Server, scope: Serves) -> Result<Option<Rendezvous>> {
    let Some(settings) = config::tool_settings(config, scope) else {
        return Ok(None);
    };
    match (Rendezvous::publish(&settings, server.uri(), &[]), scope) {
        (Err(error), Serves::Itself) => {
            tracing::warn!(%error, "rendezvous files of the launcher's server not written");
            Ok(None)
        }
        (published, _) => Ok(Some(published?)),
    }
}

/// Serves the launcher that has started this process, if one has. The future ends with it.
fn launcher_served(
    home: ServerHome,
    stubs: Arc<StubService>,
) -> Result<impl Future<Output = ()> + use<>> {
    let stream = match home {
        ServerHome::Daemon => None,
        ServerHome::Launcher(stream) => {
            stream.set_nonblocking(true)?;
            let stream = tokio::net::UnixStream::from_std(stream);
            Some(stream.context("the standard input is no socket of a launcher")?)
        }
    };
    // A task of its own: the caller waits for much else, too, all of which would be polled at each
    // message. The task ends with the future.
    let mut task = JoinSet::new();
    if let Some(stream) = stream {
        // The service traces why it ended.
        task.spawn(async move { drop(stubs.serve_owner(stream).await) });
    }
    Ok(async move {
        // Without a launcher there is nothing to wait for.
        if task.join_next().await.is_none() {
            std::future::pending().await
        }
    })
}

/// Reason for the end of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ServeEnd {
    /// A signal or an admin request.
    Wanted,
    /// Another process goes on with the server.
    HandedOver,
    /// A panic, after which the server's state is not reliable.
    Failure,
}

fn socket_option(path: &std::path::Path) -> SettingOverride {
    SettingOverride::option(
        "--socket",
        "admin.socket",
        path.to_string_lossy().into_owned(),
    )
}

/// Carries out signals and admin requests, until the server has to end.
async fn supervise(
    server: &mut Server,
    channel: &AdminChannel,
    mut orders: mpsc::Receiver<ProcessCommand>,
    signals: &mut ServerSignals,
    (mut reloading, mut watches, mut modules): (
        ReloadableConfig,
        ConfigWatches,
        Option<ServedModules>,
    ),
    (manager, upgrader, hosts): (&Manager, Option<ProcessStarter>, HandedHosts),
) -> ServeEnd {
    let mut draining = false;
    let mut upgrade = None;
    let mut handing = None;
    // Not earlier: the modules of users must not delay the start.
    reloading.look_at_users();
    loop {
        let order = tokio::select! {
            () = server.drain(), if draining => return ServeEnd::Wanted,
            Some(order) = orders.recv() => order,
            () = successor::failed(&mut upgrade) => continue,
            begun = handover::begun(&mut handing) => {
                match handover::give(server, channel, &hosts, begun).await {
                    Ok(connection) => {
                        crate::print_line("another process goes on with the server");
                        if let Some(successor) = upgrade.take() {
                            successor.succeeded();
                        }
                        // The other process waits for the end of this one, which closes it.
                        std::mem::forget(connection);
                        return ServeEnd::HandedOver;
                    }
                    Err(GiveError::GoesOn(error)) => crate::print_line(&format!(
                        "not handed over, the server goes on: {}",
                        crate::error_text(&error)
                    )),
                    Err(GiveError::Lost(error)) => {
                        tracing::error!(%error, "server not resumed");
                        return ServeEnd::Failure;
                    }
                }
                continue;
            }
            signal = signals.next() => match signal {
                // A second signal means that the connections are not waited for.
                ServerSignal::End(_) if draining => ProcessCommand::Stop,
                ServerSignal::End(_) => ProcessCommand::Drain,
                // There is no requester that waits for the report.
                ServerSignal::Reload => ProcessCommand::Reload(oneshot::channel().0),
            },
            // A server that drains takes no new modules.
            () = changed(&mut watches.files), if !draining => {
                // The result was printed to standard error.
                let _ = reload(&mut reloading, &mut modules, ReloadTrigger::Files, manager, ServiceState::Ready).await;
                watches.follow(&reloading);
                continue;
            }
            () = changed(&mut watches.users), if !draining => {
                reloading.look_at_users();
                watches.follow_users(&reloading);
                continue;
            }
            work = cluster::next_work(&mut modules), if !draining => {
                if let Some(modules) = &mut modules {
                    let confinement = reloading.confinement.as_ref();
                    modules.carry_out(work, &mut reloading.deployer, confinement).await;
                }
                continue;
            }
            progress = reloading.deployer.progress() => {
                match progress {
                    DeployerProgress::Users(progress) => reloading.deployer.follow_users(progress).await,
                    DeployerProgress::Artifact(progress) => {
                        if reloading.deployer.follow_fetch(progress) && !draining {
                            // The result was printed to standard error.
                            let _ = reload(&mut reloading, &mut modules, ReloadTrigger::Files, manager, ServiceState::Ready).await;
                            watches.follow(&reloading);
                        }
                    }
                }
                continue;
            }
        };
        match order {
            ProcessCommand::Stop => return ServeEnd::Wanted,
            ProcessCommand::Drain => {
                draining = true;
                channel.enter(ServerPhase::Draining);
                crate::print_line("draining: no more jobs and connections are taken");
                manager.notify(ServiceState::Draining);
            }
            // The other process finds the connection closed.
            ProcessCommand::HandOver(_) if handing.is_some() => {
                crate::print_line("not handed over: another process is about to get the server");
            }
            ProcessCommand::HandOver(stream) => {
                handing = Some(PendingHandover::new(&hosts, stream));
            }
            ProcessCommand::Upgrade(reply) if upgrade.is_some() => {
                // The requester may have gone.
                let _ = reply.send(Err("another upgrade is under way".to_owned()));
            }
            ProcessCommand::Upgrade(reply) => {
                upgrade = Successor::start(upgrader.clone(), reply).await
            }
            ProcessCommand::Reload(reply) => {
                // The requester may have gone.
                let then = if draining {
                    ServiceState::Draining
                } else {
                    ServiceState::Ready
                };
                let _ = reply.send(
                    reload(
                        &mut reloading,
                        &mut modules,
                        ReloadTrigger::Requested,
                        manager,
                        then,
                    )
                    .await,
                );
                watches.follow(&reloading);
            }
            // The requesters of checks may have gone, too.
            ProcessCommand::CheckReload(reply) => {
                let checked = reloading.check().await;
                let _ = reply.send(checked.map_err(|error| crate::error_text(&error)));
            }
            ProcessCommand::CheckModule { call, reply } => {
                let checked = match (call, &modules) {
                    (ModuleCall::Cluster { call }, Some(modules)) => modules.check(call),
                    (call, _) => {
                        let checked = reloading.deployer.check(&call).await;
                        let checked = checked.map(AdminReply::Deployed);
                        checked.map_err(|refused| refused.to_string())
                    }
                };
                let _ = reply.send(checked);
            }
            ProcessCommand::Jobs(reply) => {
                reloading.follow_jobs().await;
                let _ = reply.send(());
            }
            ProcessCommand::Module {
                call: ModuleCall::Cluster { call },
                reply,
            } if modules.is_some() => {
                let change = modules.as_ref().map(|modules| modules.change(call));
                if let Some(change) = change {
                    // The NATS server may take its time, in which other requests are carried out. An error
                    // means that the requester has gone.
                    tokio::spawn(async move { drop(reply.send(change.await)) });
                }
            }
            ProcessCommand::Module { call, reply } => {
                let mut done = reloading.deployer.execute(call).await;
                if let Ok(AdminReply::Modules(list)) = &mut done {
                    list.cluster = modules.as_ref().map(ServedModules::list);
                }
                let _ = reply.send(done.map_err(|refused| refused.to_string()));
            }
        }
    }
}

/// Waits until watched files have changed.
async fn changed(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// Watched paths, in two sets: frequent changes by users must not cause a reload of the
/// configuration.
struct ConfigWatches {
    /// The configuration and the site's modules.
    files: Option<Watch>,
    /// The modules that users install.
    users: Option<Watch>,
}

impl ConfigWatches {
    fn follow(&mut self, reloading: &ReloadableConfig) {
        if let Some(watch) = &mut self.files {
            watch.follow(reloading.files());
        }
        self.follow_users(reloading);
    }

    fn follow_users(&mut self, reloading: &ReloadableConfig) {
        if let Some(watch) = &mut self.users {
            watch.follow(reloading.user_files());
        }
    }
}

async fn reload(
    reloading: &mut ReloadableConfig,
    modules: &mut Option<ServedModules>,
    prompt: ReloadTrigger,
    manager: &Manager,
    then: ServiceState,
) -> Result<ReloadReport, String> {
    manager.notify(ServiceState::Reloading);
    let done = reloading
        .reload(prompt)
        .await
        .map_err(|error| crate::error_text(&error));
    // `peal status` shows a refused configuration until another one is taken.
    reloading.troubles.configured(done.as_ref().err().cloned());
    if let (Ok(_), Some(modules)) = (&done, modules) {
        modules.reconsider();
    }
    match &done {
        // A file was touched: nobody asked, and nothing changed.
        Ok(reloaded) if prompt == ReloadTrigger::Files && reloaded.is_unchanged() => {}
        Ok(reloaded) => {
            let list = |keys: &[String]| {
                if keys.is_empty() {
                    "nothing".to_owned()
                } else {
                    keys.join(", ")
                }
            };
            let modules = reloaded.modules.iter().map(ToString::to_string);
            let applied: Vec<String> = reloaded.applied.iter().cloned().chain(modules).collect();
            let applied = list(&applied);
            let later = list(&reloaded.needs_restart);
            crate::print_line(&format!(
                "the configuration was read again: changed: {applied}; at the next start: {later}"
            ));
        }
        Err(problems) => crate::print_line(&format!(
            "the configuration is not taken, the old one holds:\n{problems}"
        )),
    }
    // Also after a refused configuration: systemd waits for the end of a reload.
    manager.notify(then);
    done
}
