//! `peal attach`: a program of a job that another server runs, with handlers between the two.
//!
//! ```text
//! surroundings.rs  what the environment says of the server, and what the program is told
//! app.rs           the program: its start, its signals, its end
//! connection.rs    one connection of the program, and ours for it
//! handlers.rs      the chain of handlers, and what they want beyond their answers
//! ```

mod app;
mod connection;
mod handlers;
mod pmix_environment;

use crate::{
    args::AttachArgs,
    config,
    node::{self, PreparedServer, StandaloneHandlers},
    run, transcript,
};
use anyhow::{Context, Result};
use app::AttachedApp;
use connection::Between;
use handlers::AttachHandlers;
use peal_modules::JobHandlers;
use peal_server::{Notices, holder_below};
use pmix_environment::PmixEnvironment;
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// How long connections of a program that has ended may go on: what is left of it may still speak.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs the program and passes its exit status on.
pub fn attach(mut args: AttachArgs) -> Result<ExitCode> {
    let surroundings = PmixEnvironment::read(std::env::vars_os())?;
    let resolved = config::load(std::mem::take(&mut args.config), None)?;
    let settings = config::server_settings(&resolved.config);
    let nspace = surroundings.nspace.clone();
    let brought = JobHandlers {
        nspace: nspace.clone(),
        handlers: std::mem::take(&mut args.handlers),
    };
    let notices = Notices::default();
    let transcript = args.events.then(|| notices.listen(transcript::is_told));
    let command = args
        .program
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let me = node::unique("peal-attach");
    let prepared = PreparedServer::for_job(
        &resolved,
        &me,
        notices,
        &brought,
        Box::new(move |_| command.clone()),
    )?;
    let runtime = node::runtime()?;
    let ended = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("cannot listen on 127.0.0.1")?;
        let us = listener
            .local_addr()
            .context("cannot listen on 127.0.0.1")?;
        let mut app = match AttachedApp::start(&args.program, surroundings.instead(us)) {
            Ok(app) => app,
            Err(why) => return app::not_started(why).map(Err),
        };
        let transcript = tokio::task::spawn_blocking(|| transcript.map(run::print_transcript));
        let StandaloneHandlers {
            chain,
            wanted,
            sinks,
            keeper,
            beginning,
        } = StandaloneHandlers::start(prepared, nspace.clone(), &resolved.config);
        let handlers = Arc::new(AttachHandlers::new(
            chain,
            nspace,
            surroundings.runtime,
            settings.core.allowance,
        ));
        let serving = tokio::spawn(handlers.clone().serve(wanted));
        let between = Between {
            server: surroundings.server,
            limits: settings.wire,
            patience: args.timeout,
            handlers: handlers.clone(),
        };
        let status = serve(&mut app, listener, Arc::new(between))
            .await
            .context("cannot wait for the program")?;
        // Nobody else has them then, and events that are before them are what they are waited for.
        serving.abort();
        drop(serving.await);
        if let Some(handlers) = Arc::into_inner(handlers) {
            handlers.drain().await;
        }
        drop(beginning);
        node::close_sinks(sinks, &resolved.config).await;
        node::finish_records(keeper).await;
        transcript.await?;
        anyhow::Ok(Ok(status))
    })?;
    runtime.shutdown_background();
    Ok(match ended {
        Ok(status) => app::end_as(status),
        Err(code) => code,
    })
}

/// Relays what the program and whatever descends from it connects, until it has ended.
async fn serve(
    app: &mut AttachedApp,
    listener: TcpListener,
    between: Arc<Between>,
) -> std::io::Result<std::process::ExitStatus> {
    let (root, mut connections) = (app.pid(), JoinSet::new());
    let ended = app.end();
    tokio::pin!(ended);
    let status = loop {
        tokio::select! {
            status = &mut ended => break status?,
            Ok((client, _)) = listener.accept() => {
                connections.spawn(admit(root, client, between.clone()));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    };
    let last_words = async { while connections.join_next().await.is_some() {} };
    if timeout(LAST_WORDS, last_words).await.is_err() {
        connections.shutdown().await;
    }
    Ok(status)
}

/// Relays a connection if it is the program's.
async fn admit(root: u32, client: TcpStream, between: Arc<Between>) {
    match holder_below(root, &client).await {
        Ok(Some(_)) => {}
        Ok(None) => return tracing::warn!("somebody connects who is not the program: refused"),
        Err(error) => {
            return tracing::warn!(%error, "the kernel does not say who connects: refused");
        }
    }
    let server = between.server.clone();
    if let Err(error) = connection::relay(client, between).await {
        tracing::warn!(%error, "a connection to the server at {server} has ended");
    }
}
