//! Completion in shells: the script that has a shell ask this program, and the answers. Names of jobs,
//! modules, groups, requests and servers come from the servers of the user that run.
use crate::{
    args::{Args, ToolArgs},
    event, group, module, node, output, ps,
    tool::{self, MeantServers},
};
use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};
use clap_complete::{
    CompleteEnv, Shell,
    engine::CompletionCandidate,
    env::{EnvCompleter, Shells},
};
use peal_client::{AttachTarget, AvailableServer, Tool, ToolSettings};
use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    process::ExitCode,
    sync::mpsc::{self, Sender},
    thread,
    time::{Duration, Instant},
};

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
    from_tools(async |tool| ps::job_names(&**tool).await)
}

/// Returns the names of groups.
pub fn groups() -> Vec<CompletionCandidate> {
    from_tools(async |tool| group::group_names(tool).await)
}

/// Returns the ids of job-control requests.
pub fn requests() -> Vec<CompletionCandidate> {
    from_tools(async |tool| {
        let requests = tool.control_statuses().await?;
        Ok(requests.into_iter().map(|request| request.id).collect())
    })
}

/// Returns the names of modules of the server.
pub fn modules() -> Vec<CompletionCandidate> {
    find_candidates(|names| {
        let list = module::modules(options_in(words())?)?;
        send(&names, list.modules.into_iter().map(|module| module.name))
    })
}

/// Returns the names of servers.
pub fn servers() -> Vec<CompletionCandidate> {
    of_servers(|server| Some(server.uri.proc.nspace.to_string()))
}

/// Returns the process ids of servers.
pub fn server_pids() -> Vec<CompletionCandidate> {
    of_servers(|server| server.pid.map(|pid| pid.to_string()))
}

fn of_servers(name: fn(&AvailableServer) -> Option<String>) -> Vec<CompletionCandidate> {
    find_candidates(move |names| {
        node::as_tool(async {
            let places = event::tool_settings(ToolArgs::default())?.places;
            let servers = tool::running_servers(&places).await;
            send(&names, servers.iter().filter_map(name))
        })
    })
}

/// Returns names that the servers of this user know. All are asked at once, so that none waits for another.
fn from_tools(
    ask: impl AsyncFn(&Tool) -> Result<Vec<String>> + Copy + Send + 'static,
) -> Vec<CompletionCandidate> {
    find_candidates(move |names| {
        node::as_tool(async {
            let settings = event::tool_settings(options_in(words())?)?;
            let servers = match tool::meant_servers(&settings).await? {
                MeantServers::One(tool) => return ask_tool(&tool, ask, &names).await,
                MeantServers::Several(servers) => servers,
            };
            for AvailableServer { uri, .. } in servers {
                let names = names.clone();
                let settings = ToolSettings {
                    attach: AttachTarget::Uri(uri),
                    ..settings.clone()
                };
                // The names of the other servers are of use without those of one that fails.
                thread::spawn(move || {
                    node::as_tool(async {
                        let tool = Tool::init(settings).await?;
                        ask_tool(&tool, ask, &names).await
                    })
                });
            }
            Ok(())
        })
    })
}

async fn ask_tool(
    tool: &Tool,
    ask: impl AsyncFn(&Tool) -> Result<Vec<String>>,
    names: &Sender<Vec<String>>,
) -> Result<()> {
    let answered = ask(tool).await;
    tool::leave(tool).await;
    send(names, answered?)
}

/// Sends names to the thread that waits for them.
fn send(names: &Sender<Vec<String>>, found: impl IntoIterator<Item = String>) -> Result<()> {
    Ok(names.send(found.into_iter().collect())?)
}

/// Returns the names that are found before the time limit as candidates.
fn find_candidates(
    find: impl FnOnce(Sender<Vec<String>>) -> Result<()> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let (sender, names) = mpsc::channel();
    thread::spawn(move || find(sender));
    let limit = Instant::now() + ANSWER_LIMIT;
    let mut found = BTreeSet::new();
    // Until the last sender is gone: tools have finalized by then.
    while let Ok(more) = names.recv_timeout(limit.saturating_duration_since(Instant::now())) {
        found.extend(more);
    }
    let plain = found.into_iter().filter(|name| is_plain_word(name));
    plain.map(CompletionCandidate::new).collect()
}

/// Returns true for a name that each shell takes as one word and not as an option. Other users choose names,
/// and shells put candidates into the line as they are.
fn is_plain_word(name: &str) -> bool {
    let is_plain = |of: char| {
        of.is_alphanumeric() || matches!(of, '-' | '_' | '.' | ':' | ',' | '@' | '+' | '/' | '%')
    };
    name.starts_with(|of: char| is_plain(of) && of != '-') && name.chars().all(is_plain)
}

/// Returns the words of the line that is completed.
fn words() -> Vec<OsString> {
    env::args_os().skip_while(|word| word != "--").collect()
}

/// Returns the options of `T` in the words of a line.
///
/// # Errors
///
/// Fails if one has no valid value.
fn options_in<T: clap::Args>(words: Vec<OsString>) -> Result<T> {
    let command = T::augment_args(Command::new(PROGRAM).no_binary_name(true));
    let is_option = |word: &str| {
        let mut names = command.get_arguments().filter_map(Arg::get_long);
        names.any(|name| word.strip_prefix("--") == Some(name))
    };
    let mut options = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        match text.split_once('=') {
            Some((name, _)) if is_option(name) => options.push(word),
            None if is_option(&text) => options.extend([word].into_iter().chain(words.next())),
            _ => {}
        }
    }
    let matches = command.try_get_matches_from(options)?;
    Ok(T::from_arg_matches(&matches)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ServerArgs;

    #[test]
    fn names_with_meaning_to_a_shell_are_no_candidates() {
        for name in ["solver", "prterun-n1-47@1", "größe.1", "a/b:0,c+d_e%f"] {
            assert!(is_plain_word(name), "{name:?}");
        }
        for name in [
            "",
            "-rf",
            "a b",
            "x;id",
            "$(id)",
            "`id`",
            "a|b",
            "a&b",
            "a>b",
            "a<b",
            "a'b",
            "a\"b",
            "a\\b",
            "a*",
            "a?",
            "[a]",
            "{a}",
            "~root",
            "#a",
            "!a",
            "a\nb",
            "a\u{202e}b",
        ] {
            assert!(!is_plain_word(name), "{name:?}");
        }
    }

    #[test]
    fn options_of_the_line_choose_the_server() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let words = line(&["--", "peal", "ctl", "kill", "--yes", "--pid", "17", "sol"]);
        let tool: ToolArgs = options_in(words).unwrap();
        assert_eq!(tool.pid, Some(17));
        let words = line(&[
            "--",
            "peal",
            "module",
            "reset",
            "--socket=/run/a.sock",
            "--set",
            "a.b=1",
            "",
        ]);
        let server: ServerArgs = options_in(words).unwrap();
        assert_eq!(server.socket, Some("/run/a.sock".into()));
        assert!(options_in::<ToolArgs>(line(&["--", "peal", "--pid", "x"])).is_err());
    }
}
