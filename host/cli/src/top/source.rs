//! Sources of reports: the admin socket of a server, or a server that has none, as one of its tools.
use super::tool_source;
use crate::{
    admin,
    args::{ConfigArgs, ServerArgs, ToolArgs},
    event, tool,
};
use anyhow::{Result, bail};
use peal_client::{AttachTarget, Tool, ToolSettings};
use peal_server::admin::{ACTIVITY_VERSION, ActivityReport, AdminReply, AdminRequest, Answers};
use std::{os::unix::net::UnixStream, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Capacity of the queue of reports; a full queue makes the source wait.
const MAX_QUEUED_REPORTS: usize = 4;

/// Item of a source.
#[derive(Debug)]
pub enum SourceItem {
    /// Report.
    Report(Box<ActivityReport>),
    /// End of the reports, with the reason.
    Over(String),
}

/// Items of a source.
pub type Items = mpsc::Receiver<SourceItem>;

/// Selection of a server, and the time between two reports.
pub struct SourceSettings {
    pub server: ToolArgs,
    pub socket: Option<PathBuf>,
    pub config: ConfigArgs,
    pub every: Duration,
}

/// Open source.
pub struct OpenSource {
    /// Reports.
    pub items: Items,
    /// Name of a server without an admin socket.
    pub name: Option<String>,
    tool: Option<Arc<Tool>>,
}

impl OpenSource {
    /// Ends the source.
    pub async fn leave(self) {
        if let Some(tool) = self.tool {
            tool::leave(&tool).await;
        }
    }
}

/// Opens the source of a server. The admin socket comes first: only there everything is told.
pub async fn open(settings: SourceSettings) -> Result<OpenSource> {
    let SourceSettings {
        server,
        socket,
        config,
        every,
    } = settings;
    let is_socket_named = socket.is_some();
    let is_server_named = server.pid.is_some() || server.nspace.is_some() || server.uri.is_some();
    let at = ServerArgs { socket, config };
    let (sender, items) = mpsc::channel(MAX_QUEUED_REPORTS);
    let wanted = event::tool_settings(server)?;
    if is_socket_named || is_at_socket(&at, &wanted, is_server_named) {
        let answers = subscribe(at, every)?;
        tokio::task::spawn_blocking(move || follow(answers, &sender));
        return Ok(OpenSource {
            items,
            name: None,
            tool: None,
        });
    }
    match tool_source::open(wanted, every, sender).await {
        Ok(tool) => Ok(OpenSource {
            items,
            name: Some(server_name(&tool)),
            tool: Some(tool),
        }),
        Err(error) if is_server_named => Err(error),
        // The usual server does not run either, which the message about its socket says.
        Err(_) => match subscribe(at, every) {
            Ok(_) => bail!("the server has only now begun to answer; try again"),
            Err(error) => Err(error),
        },
    }
}

fn server_name(tool: &Tool) -> String {
    let server = tool.server();
    server.map_or_else(
        || "without a name".to_owned(),
        |proc| proc.nspace.to_string(),
    )
}

/// Returns true if the wanted server answers at the admin socket.
fn is_at_socket(at: &ServerArgs, wanted: &ToolSettings, is_named: bool) -> bool {
    let socket = admin::socket(at.clone());
    let stream = socket.and_then(|path| Ok(UnixStream::connect(path)?));
    let Ok(stream) = stream else {
        return false;
    };
    // The kernel says which process listens: users that may not administer cannot ask for the name.
    let listener = rustix::net::sockopt::socket_peercred(&stream);
    let pid = listener.map(|peer| peer.pid.as_raw_pid());
    match (&wanted.attach, pid) {
        _ if !is_named => true,
        (AttachTarget::Pid(wanted), Ok(pid)) => wanted.cast_signed() == pid,
        _ => false,
    }
}

/// Asks a server for reports.
fn subscribe(at: ServerArgs, every: Duration) -> Result<Answers> {
    let interval_ms = u32::try_from(every.as_millis()).unwrap_or(u32::MAX);
    match admin::request(at, &AdminRequest::Activity { interval_ms })? {
        (AdminReply::Reporting, answers) => Ok(answers),
        (reply, _) => admin::unexpected(&reply),
    }
}

/// Forwards the server's reports, until they end or the receiver is gone.
fn follow(mut answers: Answers, sender: &mpsc::Sender<SourceItem>) {
    loop {
        let item = match answers.wait() {
            Ok(AdminReply::Activity(report)) if report.version == ACTIVITY_VERSION => {
                SourceItem::Report(report)
            }
            Ok(AdminReply::Activity(report)) => SourceItem::Over(format!(
                "the server reports in version {}; this command supports version {ACTIVITY_VERSION}",
                report.version
            )),
            Ok(AdminReply::Ended) => SourceItem::Over("the server has ended".to_owned()),
            Ok(reply) => {
                SourceItem::Over(format!("the server sent an unexpected reply: {reply:?}"))
            }
            Err(error) => SourceItem::Over(format!("the server is lost: {error}")),
        };
        let is_last = matches!(item, SourceItem::Over(_));
        if sender.blocking_send(item).is_err() || is_last {
            return;
        }
    }
}
