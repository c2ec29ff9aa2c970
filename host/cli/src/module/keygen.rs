//! `peal module keygen`: creates a key pair, as minisign does.
use super::password;
use crate::args::Keygen;
use anyhow::{Context, Result, bail};
use minisign::KeyPair;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Creates a key pair, and prints the next steps.
pub fn keygen(args: &Keygen) -> Result<ExitCode> {
    let secret_path = with_suffix(&args.name, ".key");
    let public_path = with_suffix(&args.name, ".pub");
    // The files are checked before the user is asked for a password.
    if let Some(there) = [&secret_path, &public_path]
        .into_iter()
        .find(|path| path.symlink_metadata().is_ok())
    {
        bail!(
            "{} is there already; keys are never overwritten",
            there.display()
        );
    }
    let (pair, comment) = if args.no_password {
        (
            KeyPair::generate_unencrypted_keypair()?,
            "minisign unencrypted secret key",
        )
    } else {
        (
            KeyPair::generate_encrypted_keypair(Some(new_password(args)?))?,
            "minisign encrypted secret key",
        )
    };
    // Half a pair is of no use, and would block the next attempt.
    let undo = |paths: &[&PathBuf]| paths.iter().for_each(|path| drop(fs::remove_file(path)));
    let secret = create(&secret_path, 0o600)?;
    let public = create(&public_path, 0o644).inspect_err(|_| undo(&[&secret_path]))?;
    let texts = (
        pair.sk.to_box(Some(comment))?.to_bytes(),
        pair.pk.to_box()?.to_bytes(),
    );
    let written =
        write(secret, &secret_path, &texts.0).and_then(|()| write(public, &public_path, &texts.1));
    written.inspect_err(|_| undo(&[&secret_path, &public_path]))?;
    let mut out = crate::output::stdout();
    writeln!(out, "{} signs; keep it secret", secret_path.display())?;
    writeln!(
        out,
        "{} verifies; give it to the sites that run your modules. In a site's configuration:",
        public_path.display()
    )?;
    writeln!(
        out,
        "  [modules]\n  require_signature = [\"site\"]\n  trusted_keys = [\"{}\"]",
        pair.pk.to_base64()
    )?;
    Ok(ExitCode::SUCCESS)
}

fn new_password(args: &Keygen) -> Result<String> {
    let password = match password::password_from_args(&args.password)? {
        Some(password) => password,
        None => {
            let password = password::prompt_password("Password of the new key: ")?;
            // After a typing error nobody could use the key.
            if password::prompt_password("Again: ")? != password {
                bail!("the two passwords differ");
            }
            password
        }
    };
    if password.is_empty() {
        bail!("the password is empty; use --no-password if there is to be none");
    }
    Ok(password)
}

fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(name);
    path.push(suffix);
    PathBuf::from(path)
}

/// Creates a file that does not exist yet.
pub(super) fn create(path: &Path, mode: u32) -> Result<File> {
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    created.with_context(|| path.display().to_string())
}

pub(super) fn write(mut file: File, path: &Path, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)
        .with_context(|| path.display().to_string())
}
