//! Completion in shells: the script that has a shell ask this program, and the answers. Names of jobs,
//! modules, groups, requests and servers come from the servers of the user that run.
use crate::{
    args::{Args, ServerArgs, ToolArgs},
    event, group, module, node, output, ps, tool,
};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::{
    CompleteEnv, Shell,
    engine::CompletionCandidate,
    env::{EnvCompleter, Shells},
};
use peal_client::{AvailableServer, Tool};
use std::{env, process::ExitCode, sync::mpsc, thread, time::Duration};

/// Environment variable by which the script of a shell asks for candidates.
const VARIABLE: &str = "PEAL_COMPLETE";

/// Name of the program in the scripts.
const PROGRAM: &str = "peal";

/// Time limit of an answer. A person waits for it.
const ANSWER_LIMIT: Duration = Duration::from_millis(700);

/// Line with which zsh completes at once by a script that it has just loaded from its directory of
/// functions.
const ZSH_AT_ONCE: &str =
    "if [[ ${funcstack[1]} == _peal ]]; then _clap_dynamic_completer_peal \"$@\"; fi\n";

/// Prints the script for a shell.
pub fn script(shell: Shell) -> Result<ExitCode> {
    let shell = shell.to_string();
    let completer = Shells::builtins();
    let completer: &dyn EnvCompleter = completer
        .completer(&shell)
        .with_context(|| format!("there is no script for {shell}"))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    let mut script = String::from_utf8(script)?;
    if shell == Shell::Zsh.to_string() {
        script += ZSH_AT_ONCE;
    }
    output::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers the script of a shell; `None` if this is no such call. Errors have no text, since it would
/// stand in the line that the user types.
pub fn answer() -> Option<ExitCode> {
    let completed = CompleteEnv::with_factory(Args::command)
        .var(VARIABLE)
        .bin(PROGRAM)
        .completer(PROGRAM)
        .try_complete(env::args_os(), env::current_dir().ok().as_deref());
    match completed {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Returns the names of running jobs.
pub fn jobs() -> Vec<CompletionCandidate> {
    live(|| from_tools(async |tool| ps::job_names(&**tool).await))
}

/// Returns the names of groups.
pub fn groups() -> Vec<CompletionCandidate> {
    live(|| from_tools(async |tool| group::group_names(tool).await))
}

/// Returns the ids of job-control requests.
pub fn requests() -> Vec<CompletionCandidate> {
    live(|| {
        from_tools(async |tool| {
            let requests = tool.control_statuses().await?;
            Ok(requests.into_iter().map(|request| request.id).collect())
        })
    })
}

/// Returns the names of modules of the server.
pub fn modules() -> Vec<CompletionCandidate> {
    live(|| {
        let list = module::modules(ServerArgs::default())?;
        Ok(list.modules.into_iter().map(|module| module.name).collect())
    })
}

/// Returns the names of servers.
pub fn servers() -> Vec<CompletionCandidate> {
    live(|| of_servers(|server| Some(server.uri.proc.nspace.to_string())))
}

/// Returns the process ids of servers.
pub fn server_pids() -> Vec<CompletionCandidate> {
    live(|| of_servers(|server| server.pid.map(|pid| pid.to_string())))
}

fn of_servers(name: fn(&AvailableServer) -> Option<String>) -> Result<Vec<String>> {
    node::as_tool(async {
        let places = event::tool_settings(ToolArgs::default())?.places;
        let servers = tool::running_servers(&places).await;
        Ok(servers.iter().filter_map(name).collect())
    })
}

/// Returns names that the servers of this user know.
fn from_tools(ask: impl AsyncFn(&Tool) -> Result<Vec<String>>) -> Result<Vec<String>> {
    node::as_tool(async {
        let attached = tool::attach_to_all(event::tool_settings(ToolArgs::default())?).await?;
        let mut names = Vec::new();
        for tool in &attached.tools {
            // The names of the other servers are of use.
            names.extend(ask(tool).await.unwrap_or_default());
        }
        for tool in &attached.tools {
            tool::leave(tool).await;
        }
        Ok(names)
    })
}

/// Returns names as candidates, or none after the time limit or an error.
fn live(ask: impl FnOnce() -> Result<Vec<String>> + Send + 'static) -> Vec<CompletionCandidate> {
    let (sender, names) = mpsc::channel();
    // The receiver may be gone: the process ends without the answer.
    thread::spawn(move || drop(sender.send(ask())));
    let names = names.recv_timeout(ANSWER_LIMIT).ok().and_then(Result::ok);
    let names = names.unwrap_or_default().into_iter();
    // Shells take lines for candidates.
    names
        .filter(|name| !name.chars().any(char::is_control))
        .map(CompletionCandidate::new)
        .collect()
}
