//! `peal run`: starts an embedded server and one job, and waits for its end.
use crate::{
    args::{AppArgs, Run},
    config,
    interrupts::{Interrupts, UserSignal},
    job_guard::JobGuard,
    job_options::job_options,
    node::{self, LocalServer, PreparedServer},
    plain, stdin, transcript,
};
use anyhow::{Context, Result};
use peal_config::{Config, SettingOverride};
use peal_core::choice::OnKill;
use peal_launcher::{
    AppRequest, Binding, EmbeddedHostEnvironment, EnvironmentSetting, JobExit, JobOutput,
    JobRequest, LaunchError, Reported, Reporting, RunningJob, Tagging,
};
use peal_model::{Nspace, Proc, Text};
use peal_modules::JobHandlers;
use peal_server::{
    InProcessNetwork, Listener, ListenerItem, Notices, ProcExit, Rendezvous, Serves,
};
use rustix::process::Signal;
use std::{process::ExitCode, time::Duration};
use tokio::time::Instant;

/// Exit statuses of a program that cannot be executed and of one that is missing, as in shells.
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// Exit status at the time limit, as `timeout` has it.
const TIMED_OUT: u8 = 124;

/// Runs a job, and returns its exit status.
pub fn run(mut args: Run) -> Result<ExitCode> {
    let apps = args.apps()?;
    let options = [
        ("--on-abort", "run.on_abort", args.on_abort.take()),
        ("--bind-to", "run.bind_to", args.bind_to.take()),
        ("--map-by", "run.map_by", args.map_by.take()),
    ];
    let given = options
        .into_iter()
        .filter_map(|(option, key, word)| Some(SettingOverride::option(option, key, word?)));
    let resolved = config::load(std::mem::take(&mut args.config), given)?;
    let config = &resolved.config;
    let me = node::unique("peal");
    let notices = Notices::default();
    // Before the host environment, which ends children that it does not know.
    let guard = match config.run.on_kill {
        OnKill::End => JobGuard::start()
            .inspect_err(
                |error| tracing::warn!(%error, "job not guarded; it would outlive this command"),
            )
            .ok(),
        OnKill::Continue => None,
    };
    let nspace = Nspace::of_job(&format!("{me}@1"))?;
    // Modules are compiled and started before anything else, so that an invalid one ends the
    // command before the job starts.
    let brought = JobHandlers {
        nspace: nspace.clone(),
        handlers: std::mem::take(&mut args.handlers),
    };
    let transcript = args.events.then(|| notices.listen(transcript::is_shown));
    let request = request(&args, &apps, config, nspace.clone())?;
    let bindings = request.bindings()?;
    if args.report_bindings {
        report(bindings.as_deref());
    }
    let command = request.command();
    let prepared = PreparedServer::for_job(
        &resolved,
        &me,
        notices,
        &brought,
        Box::new(move |_| command.clone()),
    )?;
    let runtime = node::runtime()?;
    let ended = runtime.block_on(async {
        let node = LocalServer::start(prepared, config, InProcessNetwork::new(), None).await?;
        // The job does not depend on the endpoint.
        let endpoint = node.metrics_endpoint(config).await;
        let _endpoint =
            endpoint.inspect_err(|error| tracing::warn!(%error, "metrics of the job not served"));
        let LocalServer {
            server,
            host,
            router,
            deployer,
            sinks,
            recorder,
            ..
        } = node;
        // The modules of a job do not change. The deployer and the router hold references to the
        // host environment, whose drop ends the transcript.
        drop((deployer, router));
        // The transcript has a thread of its own: a terminal that accepts no output must not delay
        // the job's record.
        let transcript = tokio::task::spawn_blocking(|| transcript.map(print_transcript));
        host.launch_at(&server.uri().to_string());
        if let Some(guard) = &guard {
            host.observe_starts(guard.observer());
        }
        // Signals are handled before the job starts: from then on a signal must not end this
        // process without the job.
        let mut interrupts = Interrupts::new().context("cannot listen to signals")?;
        let _tools = config::tool_settings(config, Serves::Itself).and_then(|settings| {
            let tools = Rendezvous::publish(
                &settings,
                server.uri(),
                std::slice::from_ref(&request.nspace),
            );
            // The job does not depend on the rendezvous files.
            tools
                .inspect_err(
                    |error| tracing::warn!(%error, "rendezvous files of the job not written"),
                )
                .ok()
        });
        let ended = match host.launch(request).await {
            Ok(job) => {
                stdin::feed(job.inputs(), args.stdin.0);
                Ok(wait(job, &host, args.timeout, &mut interrupts, server.failure()).await)
            }
            Err(error) => Err(error),
        };
        let last_words = async {
            // Each part ends after the parts that still send to it.
            server.shutdown().await;
            node::close_sinks(sinks, config.server.drain_timeout).await;
            host.flush().await;
            node::finish_records(recorder).await;
            // The last sender of notices goes with the host environment.
            drop(host);
            transcript.await?;
            anyhow::Ok(())
        };
        tokio::select! {
            written = last_words => written?,
            () = interrupts.end() => tracing::warn!("interrupted: pending events dropped"),
        }
        anyhow::Ok(ended)
    })?;
    // After an interrupt, unread output must not keep the process alive.
    runtime.shutdown_background();
    if let Some(guard) = guard {
        guard.dismiss();
    }
    Ok(exit(&nspace, ended))
}

fn request(args: &Run, apps: &[AppArgs], config: &Config, nspace: Nspace) -> Result<JobRequest> {
    let wanted = Reported::ALL
        .iter()
        .filter(|(_, word)| args.log.iter().any(|given| given == word));
    Ok(JobRequest {
        nspace,
        apps: apps.iter().map(application).collect::<Result<_>>()?,
        parent: None,
        offset: 0,
        hostname: peal_system::hostname(),
        options: job_options(config)?,
        output: JobOutput {
            tagging: if args.tag_output {
                Tagging::Rank
            } else {
                Tagging::Plain
            },
            files: args.output.clone().map(|files| files.0).unwrap_or_default(),
        },
        input: args.stdin.0,
        reporting: Reporting {
            of: wanted.map(|(reported, _)| *reported).collect(),
            to: args.log_channels.clone(),
        },
    })
}

/// Prints the processors of each rank.
fn report(bindings: Option<&[Binding]>) {
    match bindings {
        None => crate::print_line("procs are not bound to processors (--bind-to)"),
        Some(all) => {
            let lines = (0..).zip(all).map(|(rank, binding)| binding.report(rank));
            lines.for_each(|line| crate::print_line(&line));
        }
    }
}

fn application(app: &AppArgs) -> Result<AppRequest> {
    let (program, rest) = app.program.split_first().context("a program is needed")?;
    let settings = app.variables.iter().filter_map(|variable| {
        let is_there = std::env::var_os(&variable.name).is_some();
        if variable.value.is_none() && !is_there {
            crate::print_line(&format!(
                "-x {}: there is no such variable",
                variable.name.display()
            ));
        }
        // A variable that is set is inherited.
        Some(EnvironmentSetting::Set(
            variable.name.clone(),
            variable.value.clone()?,
        ))
    });
    Ok(AppRequest {
        wdir: app.wdir.clone(),
        settings: settings.collect(),
        process_set: app.pset.as_deref().map(Text::from),
        ..AppRequest::new(program, rest.to_vec(), app.procs)
    })
}

/// End of a job: in time, or at its time limit.
enum Ended {
    InTime(JobExit),
    Late(Duration),
    /// The server panicked, and the job was killed.
    Failed,
}

/// Waits for the end of the job and of the jobs that it spawned. Termination signals, the time
/// limit and a failure of the server end them first.
async fn wait(
    mut job: RunningJob,
    host: &EmbeddedHostEnvironment,
    limit: Option<Duration>,
    interrupts: &mut Interrupts,
    failure: impl Future<Output = ()>,
) -> Ended {
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut late = None;
    let mut has_failed = false;
    tokio::pin!(failure);
    let all = async {
        let end = job.ended().await;
        match host.spawned_ended().await {
            // A failure of a spawned job must not be hidden by the success of the first one.
            Some(failed) if end.exit_status == 0 => failed,
            _ => end,
        }
    };
    tokio::pin!(all);
    loop {
        let over = async {
            // Only once: a second interrupt would kill the procs without their grace period.
            match deadline.filter(|_| late.is_none()) {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            end = &mut all => return match late {
                _ if has_failed => Ended::Failed,
                Some(limit) => Ended::Late(limit),
                None => Ended::InTime(end),
            },
            // A future that is complete must not be polled again.
            () = &mut failure, if !has_failed => {
                has_failed = true;
                host.interrupt(Signal::KILL.as_raw());
            }
            signal = interrupts.next() => match signal {
                UserSignal::End(signal) => host.interrupt(signal),
                UserSignal::Forward(signal) => host.forward(signal),
            },
            () = over => {
                late = limit;
                host.interrupt(Signal::TERM.as_raw());
            }
        }
    }
}

/// Prints notices, on a thread that may block on a terminal, until the last sender is gone.
pub fn print_transcript(mut told: Listener) {
    while let Some(heard) = told.blocking_recv() {
        match heard {
            ListenerItem::Notice(notice) => transcript::print(&notice),
            ListenerItem::Missed(lost) => tracing::warn!(lost, "transcript lags, notices lost"),
        }
    }
}

/// Prints how the job ended if it failed, and returns its exit status.
fn exit(nspace: &Nspace, ended: Result<Ended, LaunchError>) -> ExitCode {
    match ended {
        Ok(Ended::Late(limit)) => {
            crate::print_line(&format!(
                "the job did not end within {} and was ended",
                humantime::format_duration(limit)
            ));
            ExitCode::from(TIMED_OUT)
        }
        Ok(Ended::Failed) => {
            crate::print_line(
                "the server of the job failed: a task panicked (see its trace); the job was killed",
            );
            ExitCode::from(crate::FAILED)
        }
        Ok(Ended::InTime(end)) => {
            let which = |proc: &Proc| {
                if proc.nspace == *nspace {
                    String::new()
                } else {
                    format!(" of the spawned job {}", proc.nspace)
                }
            };
            if let Some((proc, message)) = &end.abort {
                let message = if message.is_empty() {
                    "without a message"
                } else {
                    message
                };
                crate::print_line(&format!(
                    "rank {}{} aborted the job: {}",
                    proc.rank,
                    which(proc),
                    plain(message)
                ));
            } else if let Some((proc, how)) = &end.first_abnormal {
                // Status zero does not show that this exit is abnormal.
                let left = if *how == ProcExit::Exited(0) {
                    " without having finalized"
                } else {
                    ""
                };
                crate::print_line(&format!("rank {}{} {how}{left}", proc.rank, which(proc)));
            }
            // The parent receives only the low eight bits; a failure must not become zero.
            let low = u8::try_from(end.exit_status & 0xff).unwrap_or(1);
            ExitCode::from(if low == 0 && end.exit_status != 0 {
                1
            } else {
                low
            })
        }
        Err(error) => {
            crate::print_line(&error.to_string());
            match error {
                LaunchError::Program { source, .. }
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    ExitCode::from(NOT_FOUND)
                }
                LaunchError::Program { .. } => ExitCode::from(NOT_EXECUTABLE),
                LaunchError::Size { .. }
                | LaunchError::Job(_)
                | LaunchError::Wdir { .. }
                | LaunchError::Output { .. } => ExitCode::from(crate::FAILED),
            }
        }
    }
}
