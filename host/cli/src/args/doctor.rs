//! Arguments of `peal doctor`.
use super::{FactFormats, OutputArgs, ServerArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Examples of `peal doctor`.
pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  peal doctor
  peal doctor ./app /usr/bin/srun
  sudo peal doctor --config /etc/peal/peal.toml -o json

Exit status: 0 if a server would work, 1 if one of the findings is that it would not.";

/// `peal doctor`.
#[derive(ClapArgs)]
pub struct DoctorArgs {
    /// Selection of the server and the configuration.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Show which libpmix PROGRAM loads; may be repeated
    #[arg(value_name = "PROGRAM", value_hint = clap::ValueHint::FilePath)]
    pub programs: Vec<PathBuf>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}
