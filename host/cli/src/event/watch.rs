//! `peal event watch`: prints events as they happen, from the admin socket of a server or as one of
//! its tools.
use super::{
    print::{self, EventFormat},
    tool_settings,
};
use crate::{
    admin,
    args::{EventWatch, ServerArgs},
    monitor::written,
    tool,
};
use anyhow::{Context, Result, bail};
use peal_client::{AttachTarget, Tool, ToolSettings};
use peal_model::Status;
use peal_server::admin::{AdminReply, AdminRequest, Answers, WatchedEvent};
use peal_wire::ServerUri;
use std::process::ExitCode;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Capacity of the queue of events to print; a full queue makes the source wait.
const MAX_QUEUED_ITEMS: usize = 256;

/// Item of the queue to print.
enum WatchItem {
    Event(Box<WatchedEvent>),
    /// This many events were dropped, since the watcher is too slow.
    Missed(u64),
    /// End of the events, with the reason.
    Over(String),
}

/// Prints events until the count is reached, the reader closes the pipe, a signal comes, or the
/// server is lost.
pub async fn watch(args: EventWatch) -> Result<ExitCode> {
    let form = EventFormat::of(args.format.output);
    let EventWatch {
        server,
        socket,
        config,
        codes,
        count,
        as_tool: is_tool,
        format: _,
        cluster: _,
    } = args;
    let settings = tool_settings(server)?;
    let (sender, items) = mpsc::channel(MAX_QUEUED_ITEMS);
    // The admin socket comes first: only there a watcher receives the results of handlers, which
    // never cross the wire.
    let answers = if is_tool {
        None
    } else {
        from_admin(ServerArgs { socket, config }, &settings, &codes)?
    };
    let tool = match answers {
        Some(answers) => {
            tokio::task::spawn_blocking(move || follow(answers, &sender));
            None
        }
        None => Some(as_tool(settings, &codes, sender).await?),
    };
    let mut signals = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let printed = tokio::select! {
        printed = print_all(items, count, form) => printed,
        _ = signals.0.recv() => Ok(()),
        _ = signals.1.recv() => Ok(()),
    };
    if let Some(tool) = tool {
        tool::leave(&tool).await;
    }
    printed.map(|()| ExitCode::SUCCESS)
}

/// Watches by the admin socket. If the socket cannot be used, prints the reason and returns `None`,
/// unless the user has named the socket.
fn from_admin(
    at: ServerArgs,
    settings: &ToolSettings,
    codes: &[Status],
) -> Result<Option<Answers>> {
    let is_requested = at.socket.is_some();
    match subscribe(at, settings, codes) {
        Err(error) if !is_requested => {
            let why = crate::error_text(&error);
            crate::print_line(&format!(
                "watching as a tool, without the answers of handlers: {why}"
            ));
            Ok(None)
        }
        answers => answers.map(Some),
    }
}

fn subscribe(at: ServerArgs, settings: &ToolSettings, codes: &[Status]) -> Result<Answers> {
    let (reply, _) = admin::request(at.clone(), &AdminRequest::Status)?;
    let AdminReply::Status(status) = reply else {
        return admin::unexpected(&reply);
    };
    if at.socket.is_none() && !is_meant(&status, settings) {
        bail!("the admin socket here is that of another server");
    }
    let codes = codes.iter().map(|code| code.0).collect();
    match admin::request(at, &AdminRequest::Watch { codes })? {
        (AdminReply::Watching, answers) => Ok(answers),
        (reply, _) => admin::unexpected(&reply),
    }
}

/// Returns true if the server of the admin socket is the one that the tool would attach to.
fn is_meant(status: &peal_server::admin::ServerStatus, settings: &ToolSettings) -> bool {
    let is_at = |uri: &ServerUri| status.uri == uri.to_string();
    match &settings.attach {
        AttachTarget::Pid(pid) => status.pid == *pid,
        AttachTarget::Nspace(nspace) => status
            .uri
            .parse()
            .is_ok_and(|uri: ServerUri| uri.proc.nspace == *nspace),
        AttachTarget::Uri(uri) => is_at(uri),
        // A tool without a named server attaches to the one of its environment, if there is one.
        _ => settings
            .environment
            .as_ref()
            .is_none_or(|environment| is_at(&environment.server)),
    }
}

/// Forwards the server's events, until they end or the receiver is gone.
fn follow(mut answers: Answers, sender: &mpsc::Sender<WatchItem>) {
    loop {
        let item = match answers.wait() {
            Ok(AdminReply::Event(event)) => WatchItem::Event(Box::new(event)),
            Ok(AdminReply::Missed { events }) => WatchItem::Missed(events),
            Ok(AdminReply::Ended) => WatchItem::Over("the server has ended".to_owned()),
            Ok(reply) => WatchItem::Over(format!("the server sent an unexpected reply: {reply:?}")),
            Err(error) => WatchItem::Over(format!("the server is lost: {error}")),
        };
        let is_last = matches!(item, WatchItem::Over(_));
        if sender.blocking_send(item).is_err() || is_last {
            return;
        }
    }
}

/// Attaches as a tool, and registers for all events that its user may receive.
async fn as_tool(
    settings: ToolSettings,
    codes: &[Status],
    sender: mpsc::Sender<WatchItem>,
) -> Result<Tool> {
    let tool = tool::attach(settings).await?;
    let lost = sender.clone();
    let registered = tool::listen(
        &tool,
        codes,
        move |event| {
            let event = Box::new(WatchedEvent::of(event));
            // The receiver may be gone.
            let _ = sender.blocking_send(WatchItem::Event(event));
        },
        move || {
            let _ = lost.blocking_send(WatchItem::Over(
                "the server is lost: it has closed the connection".to_owned(),
            ));
        },
    );
    if let Err(error) = registered.await {
        tool::leave(&tool).await;
        return Err(error.into());
    }
    Ok(tool)
}

/// Prints items line by line, until the count is reached or the reader closes the pipe.
async fn print_all(
    mut items: mpsc::Receiver<WatchItem>,
    count: Option<u64>,
    form: EventFormat,
) -> Result<()> {
    let mut left = count;
    while left != Some(0) {
        let event = match items.recv().await.context("no source of events is left")? {
            WatchItem::Event(event) => event,
            WatchItem::Missed(events) => {
                crate::print_line(&print::missed(events));
                continue;
            }
            WatchItem::Over(why) => bail!(why),
        };
        if !written(&print::whole(&event, form)?).await? {
            return Ok(());
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}
