//! Attachment to a server as a tool, with hints after a failure.
use anyhow::{Error, Result, anyhow};
use peal_client::{
    AttachTarget, AvailableServer, ClientError, Handler, HandlerOutcome, Places, Tool, ToolSettings,
};
use peal_model::{Event, Info, Range, Status, Value, code, key};
use std::{fmt::Write, path::Path, time::Duration};
use tokio::time::timeout;

/// Time limit of an answer of one of several servers.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Time limit of the disconnect at the end.
const LEAVE: Duration = Duration::from_secs(2);

/// Variables that name the directory of the rendezvous files; the first that is set applies.
const DIRECTORY: [&str; 4] = ["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"];

/// Attaches to the chosen server. Rendezvous files of killed servers are ignored.
pub async fn attach(settings: ToolSettings) -> Result<Tool> {
    let places = settings.places.clone();
    let client = settings.clone();
    let error = match Tool::init(settings).await {
        Ok(tool) => return Ok(tool),
        Err(error) => error,
    };
    // The files of killed servers stay. If only one of the servers runs, that one is meant.
    if let ClientError::SeveralServers { .. } = &error
        && client.attach == AttachTarget::Any
        && let [AvailableServer { uri, .. }] = &running_servers(&places).await[..]
    {
        return Ok(Tool::init(ToolSettings {
            attach: AttachTarget::Uri(uri.clone()),
            ..client
        })
        .await?);
    }
    Err(explained(error, &places).await)
}

/// Tools at servers of this user.
pub struct AttachedTools {
    /// One tool for each server.
    pub tools: Vec<Tool>,
    /// Servers without one, each with the reason in a line.
    pub left_out: Vec<String>,
}

impl AttachedTools {
    /// Prints the servers that are left out.
    pub fn report(self) -> Vec<Tool> {
        for reason in &self.left_out {
            crate::print_line(&format!("left out: {reason}"));
        }
        self.tools
    }
}

/// Attaches to the chosen server; to all servers if none is named and there are several.
pub async fn attach_to_all(settings: ToolSettings) -> Result<AttachedTools> {
    let places = settings.places.clone();
    let error = match Tool::init(settings.clone()).await {
        Ok(tool) => {
            return Ok(AttachedTools {
                tools: vec![tool],
                left_out: Vec::new(),
            });
        }
        Err(error @ ClientError::SeveralServers { .. }) if settings.attach == AttachTarget::Any => {
            error
        }
        Err(error) => return Err(explained(error, &places).await),
    };
    let mut tools = Vec::new();
    let mut left_out = Vec::new();
    for AvailableServer { uri, .. } in running_servers(&places).await {
        let name = crate::plain(uri.proc.nspace.as_str());
        let attaching = Tool::init(ToolSettings {
            attach: AttachTarget::Uri(uri),
            ..settings.clone()
        });
        // A server that refuses this user, or that hangs, must not hide the others.
        match timeout(ANSWER_LIMIT, attaching).await {
            Ok(Ok(tool)) => tools.push(tool),
            Ok(Err(error)) => left_out.push(error.to_string()),
            Err(_) => left_out.push(format!("server {name} does not answer")),
        }
    }
    if tools.is_empty() {
        Err(explained(error, &places).await)
    } else {
        Ok(AttachedTools { tools, left_out })
    }
}

/// Registers for events of these codes, or of all, that the user of a tool may receive, and for the loss of
/// the server.
pub async fn listen(
    tool: &Tool,
    codes: &[Status],
    on_event: impl Fn(&Event) + Send + Sync + 'static,
    on_loss: impl Fn() + Send + Sync + 'static,
) -> Result<(), ClientError> {
    // A handler of its own: the codes of the other one may exclude the loss of the server.
    let of_server = Handler::native(move |call| {
        if is_own(call.event()) {
            on_loss();
        }
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    let handler = Handler::native(move |call| {
        if !is_own(call.event()) {
            on_event(call.event());
        }
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    // By default the client registers for job-specific events only (RFC 0002).
    let both = [key::PMIX_EVENT_JOB_LEVEL, key::PMIX_EVENT_ENVIRO_LEVEL]
        .map(|key| Info::new(key, Value::Bool(true)));
    tool.register(&[code::PMIX_ERR_LOST_CONNECTION], &[], of_server)
        .await?;
    tool.register(codes, &both, handler).await?;
    Ok(())
}

/// Returns true if an event was raised by the client for itself: it is about the connection.
fn is_own(event: &Event) -> bool {
    event.range == Range::ProcLocal
}

/// Answer of a server.
pub struct ToolAnswer<T> {
    /// Name of the server; none if there is only one.
    pub server: Option<String>,
    /// Answer of the server.
    pub answer: T,
}

/// Asks the servers of tools. One of several that does not answer is reported and left out.
pub async fn ask_each<T>(
    tools: &[Tool],
    ask: impl AsyncFn(&Tool) -> Result<T>,
) -> Result<Vec<ToolAnswer<T>>> {
    if let [tool] = tools {
        let answer = ask(tool).await?;
        return Ok(vec![ToolAnswer {
            server: None,
            answer,
        }]);
    }
    let mut answers = Vec::new();
    for tool in tools {
        let server = tool.server().map(|server| server.nspace.to_string());
        let told = timeout(ANSWER_LIMIT, ask(tool)).await;
        match told.unwrap_or_else(|_| Err(anyhow!("it does not answer"))) {
            Ok(answer) => answers.push(ToolAnswer { server, answer }),
            Err(error) => {
                let name = crate::plain(server.as_deref().unwrap_or_default());
                let why = crate::error_text(&error);
                crate::print_line(&format!("left out: server {name}: {why}"));
            }
        }
    }
    Ok(answers)
}

/// Finalizes, after errors too: a tool that has not finalized counts as lost. Errors are ignored,
/// since the server may be lost.
pub async fn leave(tool: &Tool) {
    let _ = tool.within(LEAVE).finalize().await;
}

/// Returns the servers whose process exists. If none exists, returns all, since they may be those
/// of another container.
pub async fn running_servers(places: &Places) -> Vec<AvailableServer> {
    let servers = places.servers().await.unwrap_or_default();
    let is_alive = |server: &&AvailableServer| {
        server
            .pid
            .is_none_or(|pid| Path::new("/proc").join(pid.to_string()).exists())
    };
    let alive: Vec<AvailableServer> = servers.iter().filter(is_alive).cloned().collect();
    if alive.is_empty() { servers } else { alive }
}

/// Adds a hint for the user to an error.
async fn explained(error: ClientError, places: &Places) -> Error {
    let hint = match &error {
        ClientError::NoServer { .. } => format!(
            "`peal run` and `peal serve` start one; {}: it must be as it is for the server, else --uri names the server",
            place(places)
        ),
        ClientError::SeveralServers { .. } => {
            return anyhow!(
                "several servers run here: name one of them{}",
                candidates(&running_servers(places).await)
            );
        }
        ClientError::Unwelcome { .. } => format!(
            "a policy may not let user {} connect, there may be too many tools (tools.max_connections, tools.max_connections_per_user) or \
             connections (server.max_connections_per_user), or decisions cannot be recorded; \
             its administrators see the reason in `peal status` and `peal audit list --outcome denied`",
            rustix::process::geteuid().as_raw()
        ),
        ClientError::Unreachable { .. } => {
            "it may have ended; `peal run` and `peal serve` start one".to_owned()
        }
        _ => return error.into(),
    };
    anyhow!("{error}\n{hint}")
}

/// Describes the directory of the rendezvous files and its origin.
fn place(places: &Places) -> String {
    let directory = places.directory.display();
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match DIRECTORY.into_iter().find(|name| is_set(name)) {
        Some(name) => format!("{directory} is the value of {name}"),
        None => format!(
            "{directory} is looked through where none of {} is set",
            DIRECTORY.join(", ")
        ),
    }
}

/// Lists these servers, one a line, by the option that names each.
fn candidates(servers: &[AvailableServer]) -> String {
    let mut text = String::new();
    for AvailableServer {
        uri, pid, started, ..
    } in servers
    {
        let name = pid.map_or_else(
            || format!("--nspace {}", uri.proc.nspace),
            |pid| format!("--pid {pid}"),
        );
        let started = started
            .as_ref()
            .map(|at| format!(", since {at}"))
            .unwrap_or_default();
        // A write to a string cannot fail.
        let _ = write!(
            text,
            "\n  {name}  ({}{})",
            crate::plain(uri.proc.nspace.as_str()),
            crate::plain(&started)
        );
    }
    text
}
