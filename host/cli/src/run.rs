//! `peal run`: an embedded server, one job, and its end.
use crate::{
    args::{OnAbort, Run},
    config::Config,
    modules, transcript,
};
use anyhow::{Context, Result};
use peal_model::{Nspace, Proc, Rank};
use peal_server::{
    EmbeddedFabric, Notice, Notices, Parts, Server, ServerSettings,
    embedded::{EmbeddedHost, JobEnd, JobRequest, LaunchError, RunningJob, Tagging},
};
use peal_store::{Store, StoreError};
use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// How long procs that are to end have before they are killed, unless the configuration says otherwise.
const GRACE: Duration = Duration::from_secs(3);

/// The program is there and cannot be executed; it is not there: as shells have it.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a job and passes its exit status on.
pub fn run(args: Run) -> Result<ExitCode> {
    let config = args.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let id = std::process::id();
    let nspace = Nspace::new(&format!("peal-{id}@1"))?;
    let me = Proc::new(Nspace::new(&format!("peal-{id}"))?, Rank(0));
    // Modules are compiled and started before anything else: one that does not fit ends the run before it began.
    let (engine, pool) = modules::engine(&config.sandbox)?;
    let chains = modules::chains(&engine, &config, &args.handlers, &nspace)?;
    let store = config.store.path.as_deref().map(Store::open).transpose()?;
    let request = request(&args, &config, nspace.clone())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let (notices, told) = Notices::listened();
    let ended = runtime.block_on(async {
        let host = Arc::new(EmbeddedHost::new(notices.clone()));
        let parts = Parts { me, host: host.clone(), fabric: EmbeddedFabric::new(), chains, pool, notices };
        let server = Server::start(settings(&config), parts).await?;
        let scribe = tokio::task::spawn_blocking(scribe(told, store, request.clone(), args.events));
        let uri = server.uri().to_string();
        // Before the job starts: from then on a signal must not end us without it.
        let mut interrupts = Interrupts::new().context("cannot listen to signals")?;
        let ended = match host.launch(&server.handle(), &uri, request).await {
            Ok(job) => Ok(wait(job, &mut interrupts).await),
            Err(error) => Err(error),
        };
        let last_words = async {
            server.shutdown().await;
            // Nobody is left then who could tell the scribe more.
            drop(host);
            scribe.await
        };
        tokio::select! {
            written = last_words => written?,
            _ = interrupts.next() => tracing::warn!("interrupted: events that are still before the handlers are dropped"),
        }
        anyhow::Ok(ended)
    })?;
    // A read from standard input that nobody will answer must not keep us.
    runtime.shutdown_background();
    Ok(exit(ended))
}

fn request(args: &Run, config: &Config, nspace: Nspace) -> Result<JobRequest> {
    let (program, rest) = args.program.split_first().context("a program is needed")?;
    let on_abort = match args.on_abort.or(config.run.on_abort) {
        Some(OnAbort::Continue) => peal_server::embedded::OnAbort::Continue,
        Some(OnAbort::Terminate) | None => peal_server::embedded::OnAbort::Terminate,
    };
    Ok(JobRequest {
        nspace,
        size: args.procs,
        program: program.clone(),
        args: rest.to_vec(),
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        on_abort,
        grace: config.run.grace_ms.map_or(GRACE, Duration::from_millis),
        tagging: if args.tag_output { Tagging::Rank } else { Tagging::Plain },
    })
}

fn settings(config: &Config) -> ServerSettings {
    let mut settings = ServerSettings::default();
    let given = &config.server;
    settings.core.event_cache = given.event_cache.unwrap_or(settings.core.event_cache);
    settings.core.get_timeout = given.get_timeout_ms.map_or(settings.core.get_timeout, Duration::from_millis);
    settings.handshake_timeout = given.handshake_timeout_ms.map_or(settings.handshake_timeout, Duration::from_millis);
    settings.max_connections = given.max_connections.unwrap_or(settings.max_connections);
    settings.wire.max_message = given.max_message.unwrap_or(settings.wire.max_message);
    settings
}

/// Waits for the job's end; a signal that would end us ends the job first.
async fn wait(mut job: RunningJob, interrupts: &mut Interrupts) -> JobEnd {
    loop {
        tokio::select! {
            end = job.ended() => return end,
            signal = interrupts.next() => job.interrupt(signal),
        }
    }
}

struct Interrupts {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Interrupts {
    fn new() -> std::io::Result<Interrupts> {
        Ok(Interrupts {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.int.recv() => SignalKind::interrupt(),
            _ = self.term.recv() => SignalKind::terminate(),
            _ = self.hup.recv() => SignalKind::hangup(),
        };
        kind.as_raw_value()
    }
}

/// Writes down what happens, on a thread that may wait for terminals and disks; ends when nobody can tell any more.
fn scribe(
    mut told: mpsc::Receiver<Notice>,
    store: Option<Store>,
    request: JobRequest,
    transcript: bool,
) -> impl FnOnce() + Send + 'static {
    move || {
        while let Some(notice) = told.blocking_recv() {
            if transcript {
                transcript::print(&notice);
            }
            if let Some(store) = &store
                && let Err(error) = record(store, &notice, &request)
            {
                tracing::error!(%error, "the job record is incomplete");
            }
        }
    }
}

fn record(store: &Store, notice: &Notice, request: &JobRequest) -> Result<(), StoreError> {
    match notice {
        Notice::JobStarted { nspace, size } => {
            let words = std::iter::once(&request.program).chain(&request.args);
            let command = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            store.job_started(nspace, *size, &command, now())
        }
        Notice::ProcEnded { proc, end } => store.proc_ended(&proc.nspace, proc.rank, &end.to_string()),
        Notice::JobEnded { nspace, exit_status } => store.job_ended(nspace, *exit_status, now()),
        _ => Ok(()),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Says how the job ended where that was not in order, and passes its exit status on.
fn exit(ended: Result<JobEnd, LaunchError>) -> ExitCode {
    match ended {
        Ok(end) => {
            if let Some(message) = &end.abort_message {
                eprintln!("peal: the job was aborted: {}", message.escape_debug());
            } else if let Some((proc, how)) = &end.first_abnormal {
                eprintln!("peal: rank {} {how}", proc.rank);
            }
            // Only eight bits reach our parent; what is not zero must not become zero.
            let low = u8::try_from(end.exit_status & 0xff).unwrap_or(1);
            ExitCode::from(if low == 0 && end.exit_status != 0 { 1 } else { low })
        }
        Err(error) => {
            eprintln!("peal: {error}");
            match error {
                LaunchError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                    ExitCode::from(NOT_FOUND)
                }
                LaunchError::Program { .. } => ExitCode::from(NOT_EXECUTABLE),
                LaunchError::Size { .. } => ExitCode::from(crate::FAILED),
            }
        }
    }
}
