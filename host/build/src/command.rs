//! Execution of language tools. Errors name the command that failed.
use crate::BuildError;
use std::{path::Path, process::Command};

/// Runs a command with its output shown to the user.
pub(crate) fn run(command: &mut Command) -> Result<(), BuildError> {
    let status = command.status().map_err(|reason| BuildError::Unstarted {
        command: shown(command),
        reason,
    })?;
    if status.success() {
        return Ok(());
    }
    Err(BuildError::Failed {
        command: shown(command),
        how: status.to_string(),
    })
}

/// Runs a command and returns its standard output. Its standard error is part of the error.
pub(crate) fn run_quietly(command: &mut Command) -> Result<String, BuildError> {
    let output = command.output().map_err(|reason| BuildError::Unstarted {
        command: shown(command),
        reason,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // The tools do not promise UTF-8.
    let output_text = String::from_utf8_lossy(&output.stderr);
    Err(BuildError::Failed {
        command: shown(command),
        how: format!("{}\n{}", output.status, output_text.trim_end()),
    })
}

/// Runs a command and returns what it printed if it failed: its standard error, or its standard
/// output if that is where it reports errors.
pub(crate) fn run_captured(command: &mut Command) -> Result<Result<(), String>, BuildError> {
    let output = command.output().map_err(|reason| BuildError::Unstarted {
        command: shown(command),
        reason,
    })?;
    Ok(if output.status.success() {
        Ok(())
    } else {
        let printed = if output.stderr.is_empty() {
            output.stdout
        } else {
            output.stderr
        };
        Err(String::from_utf8_lossy(&printed).into_owned())
    })
}

/// Returns the command as typed in a shell.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words: Vec<_> = std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    words.join(" ")
}
