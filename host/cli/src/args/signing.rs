//! What can be said of keys and signatures: `peal module keygen`, `sign` and `verify`.
use super::ConfigArgs;
use clap::Args as ClapArgs;
use std::{path::PathBuf, time::Duration};

/// The variable that may hold the password of a secret key.
pub const PASSWORD_VARIABLE: &str = "PEAL_KEY_PASSWORD";

pub const KEYGEN_HELP: &str = "\
Writes NAME.key, readable by you alone, and NAME.pub. Neither may be there yet. They are those of minisign: each of the two
programs takes the other's keys and signatures.

The password is asked for at the terminal, unless --password-file or PEAL_KEY_PASSWORD has it.

Examples:
  peal module keygen site
  peal module keygen --no-password ci      # for a machine; then the file is all that it takes to sign";

pub const SIGN_HELP: &str = "\
The password of the key, if it has one, is asked for at the terminal, unless --password-file or PEAL_KEY_PASSWORD has it.

Examples:
  peal module sign --key site.key quota.wasm
  peal module sign --key site.key --comment 'quota 1.2, reviewed by Ada' quota.wasm
  peal module sign --key site.key --module quota --valid-for 365d quota.wasm

Where signatures are required, one with --module counts for a module of that name alone, and one with --valid-for until that time has
passed. No signature says that there is no newer version.";

pub const VERIFY_HELP: &str = "\
Examples:
  peal module verify quota.wasm                            # by the keys of this site's configuration
  peal module verify --key site.pub quota.wasm

Exit status: 0 if a key that is trusted signed it, 1 if none did, 2 if that cannot be told: the component, its signature or a key
cannot be read or is none.";

/// Where a password comes from.
#[derive(ClapArgs)]
pub struct PasswordArgs {
    /// A file whose first line is the password of the secret key
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
}

/// `peal module keygen`.
#[derive(ClapArgs)]
pub struct Keygen {
    /// What the files are called, without .key and .pub
    #[arg(value_name = "NAME", value_hint = clap::ValueHint::AnyPath)]
    pub name: PathBuf,
    /// Keep the secret key as it is: whoever reads its file can sign
    #[arg(long, conflicts_with = "password_file")]
    pub no_password: bool,
    /// Where the password comes from.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// `peal module sign`.
#[derive(ClapArgs)]
pub struct Sign {
    /// The components
    #[arg(required = true, value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The secret key
    #[arg(long, value_name = "FILE.key", value_hint = clap::ValueHint::FilePath)]
    pub key: PathBuf,
    /// What is said of them, on one line; it is signed as well. Else the time and the file's name
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// The name of the module that they are for; as a module of another name they count as not signed
    #[arg(long, value_name = "NAME")]
    pub module: Option<String>,
    /// The time for which the signature holds, such as 365d; without it, for ever
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub valid_for: Option<Duration>,
    /// Where the password comes from.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// `peal module verify`.
#[derive(ClapArgs)]
pub struct Verify {
    /// The component; its signature lies beside it, in FILE.wasm.minisig
    #[arg(value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,
    /// A public key that is trusted: its file, or what stands in its second line; may be given several times. Without any,
    /// those of the configuration
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// The site whose keys are trusted.
    #[command(flatten)]
    pub config: ConfigArgs,
}
