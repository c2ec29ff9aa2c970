//! Options of commands that change something.
use clap::Args as ClapArgs;

/// Option of commands that change something.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
pub struct DryRunArgs {
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Option of commands that cannot be undone.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
pub struct ConfirmArgs {
    /// Ask for no confirmation. Without a terminal as standard input none is asked for
    #[arg(short, long)]
    pub yes: bool,
}
