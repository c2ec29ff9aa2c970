//! `peal module sign`: signatures beside components, as minisign makes them.
use super::{
    keygen::{create, write},
    password,
};
use crate::args::{PasswordArgs, Sign};
use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use peal_config::KeyId;
use peal_modules::{SignatureConditions, signature_place};
use std::{
    ffi::OsString,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Length of a secret key, in bytes.
const SECRET_KEY: usize = 158;
/// Position of the encryption algorithm in a secret key.
const ENCRYPTION: std::ops::Range<usize> = 2..4;

/// Limit of the validity of a signature with an expiry.
const MAX_VALIDITY: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Signs all components; none if one of the files is not a component.
pub fn sign(args: &Sign) -> Result<ExitCode> {
    if args
        .comment
        .as_ref()
        .is_some_and(|comment| comment.contains(char::is_control))
    {
        return Err(crate::usage_error(
            "--comment: it should be one line without control characters",
        ));
    }
    if args
        .module
        .as_ref()
        .is_some_and(|module| module.is_empty() || module.contains(char::is_control))
    {
        return Err(crate::usage_error(
            "--module: it is a name, without control characters",
        ));
    }
    let conditions = SignatureConditions {
        module: args.module.clone(),
        version: args.version.clone(),
        expires: args.valid_for.map(end).transpose()?,
    };
    let components = args
        .files
        .iter()
        .map(|path| component(path))
        .collect::<Result<Vec<_>>>()?;
    // Its password is asked for only after all files have proved to be components.
    let key = secret_key(&args.key, &args.password)?;
    let public = PublicKey::from_secret_key(&key)?;
    let id = KeyId::new(public.keynum())
        .map(|id| id.to_string())
        .unwrap_or_default();
    let mut out = crate::output::stdout();
    for (path, bytes) in args.files.iter().zip(components) {
        let comment = args.comment.clone().unwrap_or_else(|| usual_comment(path));
        // The signature covers this comment, and so the conditions in it.
        let comment = conditions.after(&comment);
        let signature = minisign::sign(
            Some(&public),
            &key,
            &*bytes,
            Some(&comment),
            Some("signature of peal"),
        );
        let place = signature_place(path);
        let signature = signature.with_context(|| args.key.display().to_string())?;
        replace(&place, &signature.to_bytes())?;
        writeln!(out, "{} is signed with key {id}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the end of a time that begins now.
fn end(time: Duration) -> Result<SystemTime> {
    let end = SystemTime::now()
        .checked_add(time)
        .filter(|_| time <= MAX_VALIDITY);
    end.ok_or_else(|| crate::usage_error("--valid-for: it is at most a hundred years"))
}

fn component(path: &Path) -> Result<Vec<u8>> {
    let bytes = peal_modules::read(path)?;
    peal_sandbox::inspect(&bytes).with_context(|| path.display().to_string())?;
    Ok(bytes)
}

/// Reads the secret key, and decrypts it if it is encrypted.
pub(super) fn secret_key(path: &Path, password: &PasswordArgs) -> Result<SecretKey> {
    let text = password::secret(path)?;
    let named = || path.display().to_string();
    let bytes = text
        .lines()
        // The first line of minisign's files is a comment.
        .nth(1)
        .and_then(|line| BASE64_STANDARD.decode(line.trim()).ok());
    let bytes = bytes
        .filter(|bytes| bytes.len() == SECRET_KEY)
        .unwrap_or_default();
    match bytes.get(ENCRYPTION) {
        // The library's own reader requires a checksum, which `minisign -W` leaves out. The signing
        // itself compares the key with its public half.
        Some([0, 0]) => return SecretKey::from_bytes(&bytes).with_context(named),
        Some(b"Sc") => {}
        _ => bail!("{} is no secret key of minisign", named()),
    }
    let password = match password::password_from_args(password)? {
        Some(password) => password,
        None => password::prompt_password(&format!("Password of {}: ", named()))?,
    };
    SecretKeyBox::from_string(&text)?
        .into_secret_key(Some(password))
        .with_context(named)
}

/// Returns the default comment, as minisign writes it.
fn usual_comment(path: &Path) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .replace(char::is_control, "?");
    format!("timestamp:{now}\tfile:{name}\thashed")
}

/// Replaces a file atomically, since servers watch it.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    // In the same directory, since a rename does not cross file systems.
    let mut new = OsString::from(path);
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    write(create(&new, 0o644)?, &new, bytes)?;
    let moved = fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)));
    moved.with_context(|| path.display().to_string())
}
