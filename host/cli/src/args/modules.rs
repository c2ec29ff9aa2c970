//! What can be said of modules: `peal module`.
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// What can be done with modules.
#[derive(Subcommand)]
pub enum ModuleCommand {
    /// Make a project for a new module, in Rust, C, Python or JavaScript
    ///
    /// Everything it needs of Peal is written into it. Nothing is downloaded, and nothing that is there is changed.
    New(New),
    /// Build the component of a project with its language's own tools
    Build(Build),
    /// Show what a component does, what it asks for, and where it comes from
    ///
    /// Nothing is compiled and nothing runs: this is safe with any file.
    Inspect(Inspect),
}

/// `peal module new`.
#[derive(ClapArgs)]
pub struct New {
    /// The language: rust, c, python or js
    #[arg(long, value_name = "LANGUAGE")]
    pub lang: String,
    /// What it does: event-handler, connection-policy, event-policy, job-control-policy, log-channel, lifecycle; may be given
    /// several times
    #[arg(long, value_name = "ROLE", default_value = "event-handler")]
    pub role: Vec<String>,
    /// What it is called
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where it is put, a directory that is not there yet or empty; else one of its name
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `peal module build`.
#[derive(ClapArgs)]
pub struct Build {
    /// The project
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Install tools that are missing: Python and npm packages below the user's cache (or $PEAL_TOOLS), Rust's target by rustup,
    /// Debian's packages where run as root
    #[arg(long)]
    pub install: bool,
}

/// `peal module inspect`.
#[derive(ClapArgs)]
pub struct Inspect {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
