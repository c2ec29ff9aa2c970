//! What can be said of modules: `peal module`.
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// What can be done with modules.
#[derive(Subcommand)]
pub enum ModuleCommand {
    /// Show what a component does, what it asks for, and where it comes from
    ///
    /// Nothing is compiled and nothing runs: this is safe with any file.
    Inspect(Inspect),
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
