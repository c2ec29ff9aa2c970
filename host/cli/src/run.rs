//! `peal run`: an embedded server, one job, and its end.
use crate::{
    args::Run,
    config,
    job::Command,
    node::{self, Node, Prepared},
    transcript,
};
use anyhow::{Context, Result};
use peal_config::{Config, Given, OnAbort, Restart};
use peal_deploy::Brought;
use peal_model::Nspace;
use peal_server::{
    Heard, Listener, Notices, Rendezvous, Serves,
    embedded::{ControlGroups, JobEnd, JobRequest, LaunchError, Reported, Reporting, RestartOf, RunningJob, Tagging},
};
use std::process::ExitCode;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// The program is there and cannot be executed; it is not there: as shells have it.
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// Runs a job and passes its exit status on.
pub fn run(mut args: Run) -> Result<ExitCode> {
    let on_abort = args.on_abort.take().map(|word| Given::option("--on-abort", "run.on_abort", word));
    let resolved = config::load(std::mem::take(&mut args.config), on_abort)?;
    let config = &resolved.config;
    let me = node::unique("peal");
    let nspace = Nspace::new(&format!("{me}@1"))?;
    // Modules are compiled and started before anything else: one that does not fit ends the run before it began.
    let brought = Brought { nspace: nspace.clone(), handlers: std::mem::take(&mut args.handlers) };
    let notices = Notices::default();
    let transcript = args.events.then(|| notices.listen(transcript::is_told));
    let prepared = Prepared::for_job(&resolved, &me, notices, &brought, command(&args))?;
    let request = request(&args, config, nspace.clone())?;
    let runtime = node::runtime()?;
    let ended = runtime.block_on(async {
        let node = Node::start(prepared, config).await?;
        // The job runs as well without.
        let endpoint = node.metrics_endpoint(config).await;
        let _endpoint = endpoint.inspect_err(|error| tracing::warn!(%error, "nobody can read the metrics of this job"));
        let Node { server, host, deployer, sinks, keeper, .. } = node;
        // The modules of a job stay as they are; and nobody else must keep the host, whose end ends the transcript.
        drop(deployer);
        // A thread of its own: a terminal that takes nothing must not keep anything from the job's record.
        let transcript = tokio::task::spawn_blocking(|| transcript.map(print_transcript));
        let uri = server.uri().to_string();
        // Before the job starts: from then on a signal must not end us without it.
        let mut interrupts = Interrupts::new().context("cannot listen to signals")?;
        let _tools = config::tool_settings(config, Serves::Itself).and_then(|settings| {
            let tools = Rendezvous::publish(&settings, server.uri(), std::slice::from_ref(&request.nspace));
            // The job runs as well without.
            tools.inspect_err(|error| tracing::warn!(%error, "tools cannot find this job by themselves")).ok()
        });
        let ended = match host.launch(&server.handle(), &uri, request).await {
            Ok(job) => Ok(wait(job, &mut interrupts).await),
            Err(error) => Err(error),
        };
        let last_words = async {
            server.shutdown().await;
            node::close_sinks(sinks, config).await;
            host.flush().await;
            node::finish_records(keeper).await;
            // Nobody is left then who could tell more.
            drop(host);
            transcript.await?;
            anyhow::Ok(())
        };
        tokio::select! {
            written = last_words => written?,
            () = interrupts.end() => tracing::warn!("interrupted: events that are still before the handlers are dropped"),
        }
        anyhow::Ok(ended)
    })?;
    // Output that nobody reads, after an interrupt, must not keep us.
    runtime.shutdown_background();
    Ok(exit(ended))
}

/// What the job's record says of how it was started.
fn command(args: &Run) -> Command {
    let command = args.program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    Box::new(move |_| command.clone())
}

fn request(args: &Run, config: &Config, nspace: Nspace) -> Result<JobRequest> {
    let (program, rest) = args.program.split_first().context("a program is needed")?;
    let on_abort = match config.run.on_abort {
        OnAbort::Continue => peal_server::embedded::OnAbort::Continue,
        OnAbort::Terminate => peal_server::embedded::OnAbort::Terminate,
    };
    let restart = match config.run.restart {
        Restart::Ranks => RestartOf::Ranks,
        Restart::Job => RestartOf::Job,
    };
    let control_groups = match config.run.control_groups {
        peal_config::ControlGroups::Try => ControlGroups::Try,
        peal_config::ControlGroups::Off => ControlGroups::Off,
    };
    let wanted = Reported::ALL.iter().filter(|(_, word)| args.log.iter().any(|given| given == word));
    let reporting = Reporting { of: wanted.map(|(reported, _)| *reported).collect(), to: args.log_to.clone() };
    Ok(JobRequest {
        reporting,
        nspace,
        size: args.procs,
        program: program.clone(),
        args: rest.to_vec(),
        hostname: peal_server::hostname(),
        on_abort,
        action_timeout: config.run.action_timeout,
        grace: config.run.grace,
        restart,
        control_groups,
        tagging: if args.tag_output { Tagging::Rank } else { Tagging::Plain },
    })
}

/// Waits for the job's end; a signal that would end us ends the job first.
async fn wait(mut job: RunningJob, interrupts: &mut Interrupts) -> JobEnd {
    loop {
        tokio::select! {
            end = job.ended() => return end,
            signal = interrupts.next() => match signal {
                Wish::End(signal) => job.interrupt(signal),
                Wish::Forward(signal) => job.forward(signal),
            },
        }
    }
}

/// What a signal to `peal` means.
enum Wish {
    /// The job shall end.
    End(i32),
    /// It is for the procs.
    Forward(i32),
}

/// Signals that end the job, and those that the procs get.
const END: [SignalKind; 4] =
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
const FORWARD: [SignalKind; 2] = [SignalKind::user_defined1(), SignalKind::user_defined2()];

struct Interrupts {
    wishes: mpsc::Receiver<Wish>,
}

impl Interrupts {
    /// Listens to signals, except those that whoever started us wants ignored (as `nohup` does).
    fn new() -> std::io::Result<Interrupts> {
        let ignored = ignored_signals();
        let (tell, wishes) = mpsc::channel(16);
        let heard = |kind: &SignalKind| ignored & (1 << (kind.as_raw_value() - 1)) == 0;
        for kind in END.iter().chain(&FORWARD).copied().filter(heard) {
            let (mut arrivals, tell) = (signal(kind)?, tell.clone());
            let number = kind.as_raw_value();
            let wish = move || if END.contains(&kind) { Wish::End(number) } else { Wish::Forward(number) };
            tokio::spawn(async move { while arrivals.recv().await.is_some() && tell.send(wish()).await.is_ok() {} });
        }
        Ok(Interrupts { wishes })
    }

    async fn next(&mut self) -> Wish {
        match self.wishes.recv().await {
            Some(wish) => wish,
            // Every signal is ignored.
            None => std::future::pending().await,
        }
    }

    /// Waits until the user wants an end.
    async fn end(&mut self) {
        while let Wish::Forward(_) = self.next().await {}
    }
}

/// The signals that are ignored, as bits from that of signal 1 up.
pub fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Tells what happens, on a thread that may wait for terminals; ends when nobody can tell any more.
pub fn print_transcript(mut told: Listener) {
    while let Some(heard) = told.blocking_recv() {
        match heard {
            Heard::Notice(notice) => transcript::print(&notice),
            Heard::Missed(lost) => tracing::warn!(lost, "who reads the transcript does not keep up: notices are lost"),
        }
    }
}

/// Says how the job ended where that was not in order, and passes its exit status on.
fn exit(ended: Result<JobEnd, LaunchError>) -> ExitCode {
    match ended {
        Ok(end) => {
            if let Some((proc, message)) = &end.abort {
                let message = if message.is_empty() { "without a message" } else { message };
                crate::say(&format!("rank {} aborted the job: {}", proc.rank, message.escape_debug()));
            } else if let Some((proc, how)) = &end.first_abnormal {
                crate::say(&format!("rank {} {how}", proc.rank));
            }
            // Only eight bits reach our parent; what is not zero must not become zero.
            let low = u8::try_from(end.exit_status & 0xff).unwrap_or(1);
            ExitCode::from(if low == 0 && end.exit_status != 0 { 1 } else { low })
        }
        Err(error) => {
            crate::say(&error.to_string());
            match error {
                LaunchError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                    ExitCode::from(NOT_FOUND)
                }
                LaunchError::Program { .. } => ExitCode::from(NOT_EXECUTABLE),
                LaunchError::Size { .. } | LaunchError::Job(_) => ExitCode::from(crate::FAILED),
            }
        }
    }
}
