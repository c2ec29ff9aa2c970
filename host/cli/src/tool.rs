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

/// Reason of a server that is left out at that limit.
const NO_ANSWER: &str = "no answer in time";

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

/// Servers that a user means.
pub enum MeantServers {
    /// One, with a tool at it.
    One(Box<Tool>),
    /// Several, of which none is named.
    Several(Vec<AvailableServer>),
}

/// Attaches to the chosen server. If none is named and there are several, returns these.
pub async fn meant_servers(settings: &ToolSettings) -> Result<MeantServers> {
    match Tool::init(settings.clone()).await {
        Ok(tool) => Ok(MeantServers::One(Box::new(tool))),
        Err(ClientError::SeveralServers { .. }) if settings.attach == AttachTarget::Any => {
            let servers = running_servers(&settings.places).await;
            Ok(MeantServers::Several(servers))
        }
        Err(error) => Err(explained(error, &settings.places).await),
    }
}

/// Tools at servers of this user.
pub struct AttachedTools {
    /// One tool for each server.
    tools: Vec<Tool>,
    /// Servers without one, each with the reason in a line.
    left_out: Vec<String>,
}

/// Attaches to the chosen server; to all servers if none is named and there are several. Prints those that
/// are left out.
///
/// # Errors
///
/// Fails if no server takes the tool.
pub async fn attach_to_all(settings: ToolSettings) -> Result<AttachedTools> {
    let servers = match meant_servers(&settings).await? {
        MeantServers::One(tool) => {
            return Ok(AttachedTools {
                tools: vec![*tool],
                left_out: Vec::new(),
            });
        }
        MeantServers::Several(servers) => servers,
    };
    let mut tools = Vec::new();
    let mut left_out = Vec::new();
    for AvailableServer { uri, .. } in servers {
        let name = uri.proc.nspace.to_string();
        let attaching = Tool::init(ToolSettings {
            attach: AttachTarget::Uri(uri),
            ..settings.clone()
        });
        // A server that refuses this user, or that hangs, must not hide the others.
        match timeout(ANSWER_LIMIT, attaching).await {
            Ok(Ok(tool)) => tools.push(tool),
            Ok(Err(error)) => left_out.push(left_out_line(&name, &error.into())),
            Err(_) => left_out.push(left_out_line(&name, &anyhow!(NO_ANSWER))),
        }
    }
    if tools.is_empty() {
        return Err(no_answer(&left_out));
    }
    report(&left_out);
    Ok(AttachedTools { tools, left_out })
}

/// Answers of servers.
pub struct ServerAnswers<T> {
    /// Answers of those that have answered: at least one.
    pub answers: Vec<ToolAnswer<T>>,
    /// True if no server was left out.
    pub is_complete: bool,
}

/// Answer of a server.
pub struct ToolAnswer<T> {
    /// Name of the server; none if there is only one.
    pub server: Option<String>,
    /// Answer of the server.
    pub answer: T,
}

impl AttachedTools {
    /// Asks the servers. One of several that does not answer is reported and left out.
    ///
    /// # Errors
    ///
    /// Fails if no server answers.
    pub async fn ask_each<T>(
        &self,
        ask: impl AsyncFn(&Tool) -> Result<T>,
    ) -> Result<ServerAnswers<T>> {
        if let ([tool], true) = (self.tools.as_slice(), self.left_out.is_empty()) {
            let answer = ask(tool).await?;
            return Ok(ServerAnswers {
                answers: vec![ToolAnswer {
                    server: None,
                    answer,
                }],
                is_complete: true,
            });
        }
        let mut answers = Vec::new();
        let mut left_out = Vec::new();
        for tool in &self.tools {
            let server = tool.server().map(|server| server.nspace.to_string());
            let answered = timeout(ANSWER_LIMIT, ask(tool)).await;
            match answered.unwrap_or_else(|_| Err(anyhow!(NO_ANSWER))) {
                Ok(answer) => answers.push(ToolAnswer { server, answer }),
                Err(error) => {
                    left_out.push(left_out_line(server.as_deref().unwrap_or_default(), &error));
                }
            }
        }
        if answers.is_empty() {
            left_out.extend(self.left_out.iter().cloned());
            return Err(no_answer(&left_out));
        }
        report(&left_out);
        Ok(ServerAnswers {
            answers,
            is_complete: left_out.is_empty() && self.left_out.is_empty(),
        })
    }

    /// Finalizes all tools.
    pub async fn leave(&self) {
        for tool in &self.tools {
            leave(tool).await;
        }
    }
}

fn left_out_line(server: &str, reason: &Error) -> String {
    format!(
        "server {}: {}",
        crate::plain(server),
        crate::error_text(reason)
    )
}

fn report(left_out: &[String]) {
    for reason in left_out {
        crate::print_line(&format!("left out: {reason}"));
    }
}

/// Returns the error if none of several servers answers.
fn no_answer(left_out: &[String]) -> Error {
    anyhow!("no server answers\n{}", left_out.join("\n"))
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
