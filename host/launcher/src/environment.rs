//! The environment of procs: inherited variables, settings of the request, and the variables that
//! Open MPI's programs and their users expect.
use super::job_request::AppRequest;
use peal_core::job::JobSpec;
use peal_model::Rank;
use std::ffi::{OsStr, OsString};
use tokio::process::Command;

/// Change in the environment of procs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnvironmentSetting {
    /// Sets the variable to this value.
    Set(OsString, OsString),
    /// Removes the variable.
    Unset(OsString),
    /// Puts this value and the separator before the value that the variable has.
    Prepend(OsString, OsString, char),
    /// Puts the separator and this value after the value that the variable has.
    Append(OsString, OsString, char),
    /// Sets the variable to this value unless it has one.
    Add(OsString, OsString),
}

impl EnvironmentSetting {
    pub(super) fn apply(&self, command: &mut Command) {
        match self {
            EnvironmentSetting::Set(name, value) => drop(command.env(name, value)),
            EnvironmentSetting::Unset(name) => drop(command.env_remove(name)),
            EnvironmentSetting::Prepend(name, value, separator) => {
                let joined = now(command, name).map(|old| joined(value, *separator, &old));
                command.env(name, joined.unwrap_or_else(|| value.clone()));
            }
            EnvironmentSetting::Append(name, value, separator) => {
                let joined = now(command, name).map(|old| joined(&old, *separator, value));
                command.env(name, joined.unwrap_or_else(|| value.clone()));
            }
            EnvironmentSetting::Add(name, value) => {
                if now(command, name).is_none() {
                    command.env(name, value);
                }
            }
        }
    }
}

fn joined(first: &OsStr, separator: char, second: &OsStr) -> OsString {
    let mut joined = first.to_owned();
    joined.push(separator.to_string());
    joined.push(second);
    joined
}

/// Returns the value that a variable will have for the command, if it is set.
fn now(command: &Command, name: &OsStr) -> Option<OsString> {
    let changed = command
        .as_std()
        .get_envs()
        .find(|(changed, _)| *changed == name);
    match changed {
        // A change of the command hides the inherited variable, also if it removes it.
        Some((_, value)) => value.map(OsStr::to_owned),
        None => std::env::var_os(name),
    }
}

/// Removes variables that describe `peal` itself as a proc of another launcher.
pub(super) fn remove_inherited(command: &mut Command) {
    let of_others = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"PMIX_")
            || name.starts_with(b"OMPI_COMM_WORLD_")
            || name.starts_with(b"PRTE_LAUNCHED")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_others(name)) {
        command.env_remove(name);
    }
}

/// Returns the variables that `mpirun` sets for scripts and programs, for a rank of this
/// application.
pub(super) fn of_open_mpi(
    job: &JobSpec,
    rank: Rank,
    app: &AppRequest,
) -> Vec<(&'static str, String)> {
    let size = job.size().to_string();
    let on_node = job.offset.saturating_add(rank.0);
    let rank = rank.0.to_string();
    let sizes: Vec<String> = job.apps.iter().map(|app| app.size.to_string()).collect();
    let mut first = 0_u32;
    let firsts = job.apps.iter().map(|app| {
        let its = first;
        first = first.saturating_add(app.size);
        its.to_string()
    });
    vec![
        // Tells Open MPI 4.1 to yield the processor while it waits. 5.0 gets this from its server.
        (
            "OMPI_MCA_mpi_oversubscribe",
            u8::from(job.is_crowded()).to_string(),
        ),
        ("OMPI_COMM_WORLD_SIZE", size.clone()),
        ("OMPI_COMM_WORLD_RANK", rank.clone()),
        // All procs of a job are on this node, so local sizes and ranks equal the global ones.
        ("OMPI_COMM_WORLD_LOCAL_SIZE", size.clone()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", rank),
        ("OMPI_COMM_WORLD_NODE_RANK", on_node.to_string()),
        ("OMPI_UNIVERSE_SIZE", size),
        ("OMPI_FIRST_RANKS", firsts.collect::<Vec<_>>().join(" ")),
        ("OMPI_APP_CTX_NUM_PROCS", sizes.join(" ")),
        ("OMPI_NUM_APP_CTX", sizes.len().to_string()),
        ("OMPI_COMMAND", app.program.to_string_lossy().into_owned()),
    ]
}
