//! Command line of the processes that `peal serve` starts.
use clap::Args as ClapArgs;
use peal_config::{ConfinementMode, Keyword};
use peal_console::ConsoleSettings;
use peal_registry::RegistrySettings;
use peal_sandbox::{CodeReaders, CodeTarget};
use std::path::PathBuf;

/// `peal helper`.
#[derive(ClapArgs, Clone)]
pub struct HelperArgs {
    /// User that the server runs as
    #[arg(long)]
    pub server_uid: u32,
    /// Remove files only below the directory CLEANUP_ROOT; may be repeated
    #[arg(long)]
    pub cleanup_root: Vec<PathBuf>,
    /// Confine the process as far as the value MODE of confinement.mode says, at least as with "try"
    /// where that is "off"
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

/// `peal tenant`.
#[derive(ClapArgs, Clone)]
pub struct TenantArgs {
    /// Take compiled code from the directory CODE_DIR
    #[arg(long)]
    pub code_dir: PathBuf,
    /// Limit the memory of the process to MEMORY_BYTES bytes
    #[arg(long)]
    pub memory_bytes: u64,
    /// Confine the process as far as the value MODE of confinement.mode says
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

/// `peal audit-signer`.
#[derive(ClapArgs, Clone)]
pub struct AuditSignerArgs {
    /// Sign with the key in the file KEY
    #[arg(long)]
    pub key: PathBuf,
    /// Have the oldest records dropped only at an age of OLDEST_AGE_MS milliseconds
    #[arg(long)]
    pub oldest_age_ms: u64,
    /// Have calls and refusals dropped only at an age of PASSING_AGE_MS milliseconds
    #[arg(long)]
    pub passing_age_ms: u64,
    /// Confine the process as far as the value MODE of confinement.mode says
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

/// `peal artifact-fetcher`.
#[derive(ClapArgs, Clone)]
pub struct ArtifactFetcherArgs {
    /// Keep artefacts in the directory STORE_DIR
    #[arg(long)]
    pub store_dir: PathBuf,
    /// Ask registries by SETTINGS, given as JSON
    #[arg(long, value_parser = registry_settings)]
    pub settings: RegistrySettings,
    /// Connect to PORT, beside that of HTTPS
    #[arg(long)]
    pub port: u16,
    /// Confine the process as far as the value MODE of confinement.mode says
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

fn registry_settings(text: &str) -> Result<RegistrySettings, serde_json::Error> {
    serde_json::from_str(text)
}

/// `peal compiler`.
#[derive(ClapArgs, Clone)]
pub struct CompilerArgs {
    /// Keep compiled code in the directory CACHE_DIR
    #[arg(long)]
    pub cache_dir: PathBuf,
    /// Cancel the compilation of a component after TIMEOUT_MS milliseconds
    #[arg(long)]
    pub timeout_ms: u64,
    /// Limit the memory of a compilation to MEMORY_BYTES bytes
    #[arg(long)]
    pub memory_bytes: u64,
    /// Confine the processes as far as the value MODE of confinement.mode says
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

/// `peal compile`.
#[derive(ClapArgs)]
pub struct CompileArgs {
    /// Destination of the code, and limits.
    #[command(flatten)]
    pub at: CompilerArgs,
    /// Compile for TARGET, given as JSON
    #[arg(long, value_parser = code_target)]
    pub target: CodeTarget,
    /// Let READERS, given as JSON, read the code
    #[arg(long, value_parser = code_readers)]
    pub readers: CodeReaders,
}

fn confinement_mode(text: &str) -> Result<ConfinementMode, String> {
    ConfinementMode::from_name(text)
        .ok_or_else(|| "it is not a value of confinement.mode".to_owned())
}

fn code_readers(text: &str) -> Result<CodeReaders, serde_json::Error> {
    serde_json::from_str(text)
}

fn code_target(text: &str) -> Result<CodeTarget, serde_json::Error> {
    serde_json::from_str(text)
}

/// `peal console`.
#[derive(ClapArgs, Clone)]
pub struct ConsoleArgs {
    /// Serve the console by SETTINGS, given as JSON
    #[arg(long, value_parser = console_settings)]
    pub settings: ConsoleSettings,
    /// Confine the process as far as the value MODE of confinement.mode says
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

/// `peal call-replay`.
#[derive(ClapArgs, Clone)]
pub struct CallReplayArgs {
    /// Read the audit trail TRAIL
    #[arg(long)]
    pub trail: PathBuf,
    /// Confine the process as far as the value MODE of confinement.mode says
    #[arg(long, value_name = "MODE", value_parser = confinement_mode)]
    pub confinement: ConfinementMode,
}

fn console_settings(text: &str) -> Result<ConsoleSettings, serde_json::Error> {
    serde_json::from_str(text)
}
