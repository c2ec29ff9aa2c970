//! `peal attach`: runs a program of a job that another server launched, with handlers between the
//! two.
//!
//! ```text
//! pmix_environment.rs  environment of the server, and the environment of the program
//! app.rs               program: start, signals, end
//! connection.rs        proxy of one connection
//! handlers.rs          chain of handlers, and their requests
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
use connection::ProxySettings;
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

/// Time for connections to end after the program has ended: descendants of the program may still
/// use them.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs the program, and returns its exit status.
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
    let transcript = args.events.then(|| notices.listen(transcript::is_shown));
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
        // Every user of this node can connect here, so that `admit` checks each connection.
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
            requests,
            sinks,
            recorder,
            beginning,
        } = StandaloneHandlers::start(prepared, nspace.clone(), &resolved.config);
        let handlers = Arc::new(AttachHandlers::new(
            chain,
            nspace,
            surroundings.runtime,
            settings.core.allowance,
        ));
        let serving = tokio::spawn(handlers.clone().serve(requests));
        let settings = ProxySettings {
            server: surroundings.server,
            limits: settings.wire,
            request_timeout: args.timeout,
            handlers: handlers.clone(),
        };
        let status = serve(&mut app, listener, Arc::new(settings))
            .await
            .context("cannot wait for the program")?;
        // The task holds a reference to the handlers. Its pending requests are no longer of use, so
        // it is aborted before the drain.
        serving.abort();
        drop(serving.await);
        if let Some(handlers) = Arc::into_inner(handlers) {
            handlers.drain().await;
        }
        // It holds the host environment, whose drop ends the transcript.
        drop(beginning);
        node::close_sinks(sinks, resolved.config.server.drain_timeout).await;
        node::finish_records(recorder).await;
        transcript.await?;
        anyhow::Ok(Ok(status))
    })?;
    runtime.shutdown_background();
    Ok(match ended {
        Ok(status) => app::end_as(status),
        Err(code) => code,
    })
}

/// Relays the connections of the program and its descendants until the program has ended.
async fn serve(
    app: &mut AttachedApp,
    listener: TcpListener,
    settings: Arc<ProxySettings>,
) -> std::io::Result<std::process::ExitStatus> {
    let root = app.pid();
    let mut connections = JoinSet::new();
    let ended = app.end();
    tokio::pin!(ended);
    let status = loop {
        tokio::select! {
            status = &mut ended => break status?,
            // After an error the next `accept` waits for another branch, so errors cannot become a
            // busy loop.
            Ok((client, _)) = listener.accept() => {
                connections.spawn(admit(root, client, settings.clone()));
            }
            // Ended tasks leave the set, which would grow otherwise.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    };
    // The last messages of the program may still be on their way to the server.
    let last_words = async { while connections.join_next().await.is_some() {} };
    if timeout(LAST_WORDS, last_words).await.is_err() {
        connections.shutdown().await;
    }
    Ok(status)
}

/// Relays a connection if it belongs to the program or a descendant.
async fn admit(root: u32, client: TcpStream, settings: Arc<ProxySettings>) {
    match holder_below(root, &client).await {
        Ok(Some(_)) => {}
        Ok(None) => return tracing::warn!("connection refused: not from the program"),
        Err(error) => {
            return tracing::warn!(%error, "connection refused: process unknown");
        }
    }
    let server = settings.server.clone();
    if let Err(error) = connection::relay(client, settings).await {
        tracing::warn!(%error, %server, "connection of the program failed");
    }
}
