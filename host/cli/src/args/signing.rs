//! Command lines of `peal module keygen`, `sign` and `verify`.
use super::ConfigArgs;
use clap::Args as ClapArgs;
use semver::Version;
use std::{path::PathBuf, time::Duration};

/// Environment variable with the password of a secret key.
pub const PASSWORD_VARIABLE: &str = "PEAL_KEY_PASSWORD";

pub const KEYGEN_HELP: &str = "\
Writes NAME.key, which only you can read, and NAME.pub. The files must not exist. Keys and signatures are compatible with
minisign.

The terminal asks for a password, unless --password-file or PEAL_KEY_PASSWORD provides it.

Examples:
  peal module keygen site
  peal module keygen --no-password ci      # for automation: access to the file is enough to sign";

pub const SIGN_HELP: &str = "\
The terminal asks for the password of a protected key, unless --password-file or PEAL_KEY_PASSWORD provides it.

Examples:
  peal module sign --key site.key quota.wasm
  peal module sign --key site.key --comment 'quota 1.2, reviewed by Ada' quota.wasm
  peal module sign --key site.key --module quota --version 1.2.0 --valid-for 365d quota.wasm

If signatures are required, a signature with --module is valid only for a module of that name, and one with --valid-for only for that
time. Where a version ran, servers refuse an older one, or one without a version (module.min_version).";

pub const VERIFY_HELP: &str = "\
Examples:
  peal module verify quota.wasm                            # with the keys of the configuration
  peal module verify --key site.pub quota.wasm

Exit status: 0 if a trusted key signed the component, 1 if not, 2 if the component, its signature or a key is unreadable or
invalid.";

/// Options that select the source of a password.
#[derive(ClapArgs)]
pub struct PasswordArgs {
    /// Read the password of the secret key from the first line of FILE
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
}

/// `peal module keygen`.
#[derive(ClapArgs)]
pub struct Keygen {
    /// Name of the files, without .key and .pub
    #[arg(value_name = "NAME", value_hint = clap::ValueHint::AnyPath)]
    pub name: PathBuf,
    /// Store the secret key without a password: read access to the file is enough to sign
    #[arg(long, conflicts_with = "password_file")]
    pub no_password: bool,
    /// Source of the password.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// `peal module sign`.
#[derive(ClapArgs)]
pub struct Sign {
    /// Components
    #[arg(required = true, value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Sign with the secret key in FILE.key
    #[arg(long, value_name = "FILE.key", value_hint = clap::ValueHint::FilePath)]
    pub key: PathBuf,
    /// Add TEXT as a signed comment of one line; default: the time and the name of the file
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Restrict the signature to the module NAME
    #[arg(long, value_name = "NAME")]
    pub module: Option<String>,
    /// Sign the component as VERSION of the module, three numbers as in 1.2.0
    #[arg(long, value_name = "VERSION", requires = "module", value_parser = Version::parse)]
    pub version: Option<Version>,
    /// Restrict the signature to TIME from now (365d); default: no limit
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub valid_for: Option<Duration>,
    /// Source of the password.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// `peal module verify`.
#[derive(ClapArgs)]
pub struct Verify {
    /// Component, with its signature in FILE.wasm.minisig beside it
    #[arg(value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,
    /// Trust the public KEY: its file, or the second line of that file. Repeat for more keys;
    /// default: the keys of the configuration
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// Configuration with the trusted keys.
    #[command(flatten)]
    pub config: ConfigArgs,
}
