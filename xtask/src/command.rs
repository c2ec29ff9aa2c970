//! Runs of other programs, with errors that name the command.
use anyhow::{Context, Result, bail};
use std::{
    env,
    ffi::OsString,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// Beginnings of the variables by which cargo describes the package of a program that it runs.
const PACKAGE_VARIABLES: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// Returns the command of the cargo that runs this program.
pub fn cargo(dir: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(dir);
    // Those of this program would be taken for changes: crates such as ring, and all that depend on them,
    // would be compiled again after each `cargo build` by hand.
    for (name, _) in env::vars_os() {
        let is_of_package = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if PACKAGE_VARIABLES.iter().any(is_of_package) {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns cargo's target directory for the host.
pub fn target_dir(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// Runs a command with its own output.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("running `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output. Its standard error is shown only if it fails.
pub fn run_quietly(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("running `{}`", shown(command)))?;
    if !output.status.success() {
        let output_text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}` failed: {}\n{}",
            shown(command),
            output.status,
            output_text.trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Formats a command as it would be typed.
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

/// Runs one step, and prints its heading and its time.
pub fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("\n== {name}");
    let start = Instant::now();
    let done = work()?;
    println!("-- {name}: {:.1} s", start.elapsed().as_secs_f32());
    Ok(done)
}

/// Removes a directory with all that is in it, if it is there.
pub fn remove_directory(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", directory.display()))
        }
        _ => Ok(()),
    }
}
