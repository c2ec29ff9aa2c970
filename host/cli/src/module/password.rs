//! Passwords of secret keys, and files that only their owner may read.
use crate::args::{PASSWORD_VARIABLE, PasswordArgs};
use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Limit of the length of these files, in bytes.
const MAX_SECRET: u64 = 4096;
/// All permissions of the group and of other users.
const OTHERS: u32 = 0o077;

/// Returns the password of the options or the environment, if there is one.
pub fn password_from_args(args: &PasswordArgs) -> Result<Option<String>> {
    if let Some(path) = &args.password_file {
        let text = secret(path)?;
        return Ok(Some(text.lines().next().unwrap_or_default().to_owned()));
    }
    match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) => Ok(Some(password)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).context(PASSWORD_VARIABLE),
    }
}

/// Asks for the password at the terminal, without echo.
pub fn prompt_password(prompt: &str) -> Result<String> {
    if !io::stdin().is_terminal() {
        bail!("no terminal to enter the password: use --password-file or {PASSWORD_VARIABLE}");
    }
    rpassword::prompt_password(prompt).context("the password")
}

/// Reads a file that only its owner may read.
pub fn secret(path: &Path) -> Result<String> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    // Of the opened file: another one could take its path after the check.
    let metadata = file.metadata().with_context(named)?;
    // The mode of a pipe does not matter: only the process that it was made for reads it.
    if metadata.is_file() && metadata.mode() & OTHERS != 0 {
        bail!(
            "{} has mode {:o}: others can read a secret that is to be yours alone (chmod 600)",
            named(),
            metadata.mode() & 0o7777
        );
    }
    let mut text = String::new();
    let read = file
        .take(MAX_SECRET + 1)
        .read_to_string(&mut text)
        .with_context(named)?;
    if read as u64 > MAX_SECRET {
        bail!(
            "{} has more than {MAX_SECRET} bytes, which no key and no password has",
            named()
        );
    }
    Ok(text)
}
