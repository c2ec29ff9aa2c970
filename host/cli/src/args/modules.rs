//! What can be said of modules: `peal module`.
use super::{Ask, ServerArgs};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// What can be done with modules.
#[derive(Subcommand)]
pub enum ModuleCommand {
    /// Show what a component does, what it asks for, and where it comes from
    ///
    /// Nothing is compiled and nothing runs: this is safe with any file.
    Inspect(Inspect),
    /// Show the modules of a running server, how they are, and the versions that it can return to
    List(Ask),
    /// Have a running server read its configuration and its modules again
    ///
    /// It does so by itself when files change, unless deploy.watch is false. A set in which anything is wrong is refused as a
    /// whole, with the reasons, and the one that runs goes on.
    Reload(ServerArgs),
    /// Have a running server call a module no more, until it is enabled again
    Disable(ModuleName),
    /// Have a running server call a module again that was disabled
    Enable(ModuleName),
    /// Have a running server call a module again that it quarantined because it failed too often
    Reset(ModuleName),
    /// Show what a shadow would have done, and where that differs from what happened
    ///
    /// A shadow is a module whose [[module]] says mode = "shadow": it is called for live traffic, beside those that act, and what it
    /// says changes nothing.
    Diff(ModuleDiff),
    /// Have a shadow of a running server take part from now on
    ///
    /// This holds for this component, also after a restart where there is a store; write mode = "active" into its [[module]] to
    /// have it there as well.
    Promote(ModuleName),
    /// Have a running server run the modules of an earlier version again
    ///
    /// Their components are those of then, whatever the files hold now. The files themselves are left alone: what changes there
    /// next, `peal reload` or a restart takes them again.
    Rollback(ModuleRollback),
}

/// `peal module disable`, `enable`, `reset` and `promote`.
#[derive(ClapArgs)]
pub struct ModuleName {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// What the module is called
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// `peal module diff`.
#[derive(ClapArgs)]
pub struct ModuleDiff {
    /// Which server is meant.
    #[command(flatten)]
    pub named: ModuleName,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal module rollback`.
#[derive(ClapArgs)]
pub struct ModuleRollback {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The version, as `peal module list` shows it; the one before, if none is given
    #[arg(value_name = "VERSION")]
    pub to: Option<u64>,
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
