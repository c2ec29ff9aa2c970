//! `peal monitor`: monitoring by a running server, as a tool.
mod file;
mod resources;
pub mod usage;

use crate::{
    args::{MonitorCommand, ToolArgs},
    event, node, tool,
};
use anyhow::{Result, bail};
use peal_client::{ClientError, Handler, HandlerOutcome, Tool, reasons};
use peal_model::{Event, Range, Status, code};
use std::{io, process::ExitCode};
use tokio::{
    io::AsyncWriteExt,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Exit status if the server refuses.
const REFUSED: u8 = 1;
/// Capacity of the queue of events to print; a full queue makes the handler wait.
const MAX_QUEUED_EVENTS: usize = 256;

/// Runs the command.
pub fn run(command: MonitorCommand) -> Result<ExitCode> {
    node::as_tool(async {
        match command {
            MonitorCommand::Usage(args) => resources::usage(args).await,
            MonitorCommand::File(args) => file::file(args).await,
        }
    })
}

/// Tool, and the events that it receives.
struct EventListener {
    tool: Tool,
    events: mpsc::Receiver<Event>,
}

impl EventListener {
    /// Attaches to a server, and registers for events of this code and for the loss of the server.
    async fn begin(server: ToolArgs, code: Status) -> Result<EventListener> {
        let tool = tool::attach(event::tool_settings(server)?).await?;
        let (sender, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let handler = Handler::native(move |call| {
            // The receiver may be gone.
            let _ = sender.blocking_send(call.event().clone());
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        let codes = [code, code::PMIX_ERR_LOST_CONNECTION];
        if let Err(error) = tool.register(&codes, &[], handler).await {
            tool::leave(&tool).await;
            return Err(error.into());
        }
        Ok(EventListener { tool, events })
    }

    /// Prints events until the count is reached, a signal comes, the reader closes the pipe, or the
    /// server is lost.
    async fn print(
        &mut self,
        count: Option<u64>,
        line: impl Fn(&Event) -> Result<String>,
    ) -> Result<()> {
        let mut signals = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        let mut left = count;
        while left != Some(0) {
            let event = tokio::select! {
                event = self.events.recv() => event,
                _ = signals.0.recv() => return Ok(()),
                _ = signals.1.recv() => return Ok(()),
            };
            let Some(event) = event else {
                bail!("no source of events is left")
            };
            // Only this client itself raises events of this range.
            if event.range == Range::ProcLocal {
                bail!("the server is lost: it has closed the connection");
            }
            if !written(&line(&event)?).await? {
                return Ok(());
            }
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    /// Disconnects, which ends the monitoring.
    async fn leave(self) {
        tool::leave(&self.tool).await;
    }
}

/// Prints the reason of a refusal; other errors are returned.
fn refused(error: ClientError) -> Result<ExitCode> {
    let ClientError::Refused { status, infos, .. } = &error else {
        return Err(error.into());
    };
    let why = reasons(infos);
    let why = match *status {
        // Reasons that the server states say more than the status.
        _ if !why.is_empty() => crate::plain(&why.join("; ")),
        code::PMIX_ERR_NOT_SUPPORTED => "this server does not monitor".to_owned(),
        code::PMIX_ERR_NO_PERMISSIONS => "it is not allowed".to_owned(),
        code::PMIX_ERR_NOT_FOUND => "it is not there".to_owned(),
        _ => crate::REASON_IN_TRACE.to_owned(),
    };
    crate::print_line(&format!("the server refuses: {why} ({status})"));
    Ok(ExitCode::from(REFUSED))
}

/// Writes to standard output. Returns false if the reader has closed the pipe.
pub async fn written(text: &str) -> io::Result<bool> {
    let mut out = tokio::io::stdout();
    let write = async {
        out.write_all(text.as_bytes()).await?;
        out.flush().await
    };
    // tokio writes on another thread: without the flush a closed pipe would show at the next write.
    match write.await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}
