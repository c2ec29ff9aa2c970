//! Sources of reports: the admin socket of a server, or a server that has none, as one of its tools.
use super::tool_source;
use crate::{
    admin,
    args::{ConfigArgs, ServerArgs, ToolArgs},
    event, tool,
};
use anyhow::{Result, bail};
use peal_client::{AttachTarget, Tool, ToolSettings};
use peal_server::admin::{
    ACTIVITY_VERSION, ActivityReport, AdminConnection, AdminReply, AdminRequest, Answers,
};
use std::{path::PathBuf, sync::Arc, time::Duration};
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

/// Queue of the reports of a source.
pub type ReportQueue = mpsc::Receiver<SourceItem>;

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
    pub reports: ReportQueue,
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
    let (sender, reports) = mpsc::channel(MAX_QUEUED_REPORTS);
    let wanted = event::tool_settings(server)?;
    let interval_ms = u32::try_from(every.as_millis()).unwrap_or(u32::MAX);
    let call = AdminRequest::Activity { interval_ms };
    let connection = admin::socket(at.clone())
        .ok()
        .and_then(|path| AdminConnection::open(&path).ok())
        .filter(|connection| is_socket_named || !is_server_named || is_wanted(connection, &wanted));
    if let Some(connection) = connection {
        let answers = subscribe(connection, &call)?;
        tokio::task::spawn_blocking(move || follow(answers, &sender));
        return Ok(OpenSource {
            reports,
            name: None,
            tool: None,
        });
    }
    if !is_socket_named {
        match tool_source::open(wanted, every, sender).await {
            Ok(tool) => {
                return Ok(OpenSource {
                    reports,
                    name: Some(server_name(&tool)),
                    tool: Some(tool),
                });
            }
            Err(error) if is_server_named => return Err(error),
            Err(_) => {}
        }
    }
    // The error says where no server answers.
    admin::request(at, &call)?;
    bail!("the server has only now begun to answer; try again")
}

fn server_name(tool: &Tool) -> String {
    let server = tool.server();
    server.map_or_else(
        || "without a name".to_owned(),
        |proc| proc.nspace.to_string(),
    )
}

/// Returns true if the wanted server is at the other end of a connection. The kernel says which process
/// it is: users that may not administer cannot ask for its name.
fn is_wanted(connection: &AdminConnection, wanted: &ToolSettings) -> bool {
    match wanted.attach {
        AttachTarget::Pid(pid) => connection.server_pid() == Some(pid),
        _ => false,
    }
}

/// Asks a server for reports.
fn subscribe(connection: AdminConnection, call: &AdminRequest) -> Result<Answers> {
    let mut answers = connection.send(call)?;
    match answers.reply()? {
        AdminReply::Reporting => Ok(answers),
        AdminReply::Refused { reason } => bail!("the server refuses: {reason}"),
        reply => admin::unexpected(&reply),
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
