//! `peal module verify`: checks the signature of a component.
use crate::{args::Verify, config};
use anyhow::{Context, Result, bail};
use peal_config::{Keyword, ModuleOwner, Modules, TrustedKey};
use peal_modules::{Signature, SignatureError, Signer};
use std::{fs, io::Write, process::ExitCode};

/// Exit status if no trusted key has signed the component.
const UNTRUSTED: u8 = 1;
/// Exit status if the files cannot be read or parsed.
const UNREADABLE: u8 = 2;

/// Prints the signer. The exit status is 0 if its key is trusted, 1 if not, 2 if the check is
/// impossible.
pub fn verify(args: Verify) -> Result<ExitCode> {
    let named = args.file.display().to_string();
    let keys = match keys(&args) {
        Ok(keys) => keys,
        Err(error) => return unreadable(&error),
    };
    let bytes = match peal_modules::read(&args.file) {
        Ok(bytes) => bytes,
        Err(error) => return unreadable(&error.into()),
    };
    let trusted = keys.iter().map(|(key, _)| key);
    match Signature::beside(&args.file).and_then(|signature| signature.signer(&bytes, trusted)) {
        Ok(Signer { key, comment, .. }) => {
            let mut out = crate::output::stdout();
            writeln!(out, "{named} is signed with key {}", key.id())?;
            // A key may be trusted for several owners.
            for (_, trust) in keys.iter().filter(|(one, _)| *one == key) {
                writeln!(out, "which is {trust}")?;
            }
            writeln!(out, "signed comment: {comment}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ (SignatureError::Unreadable { .. } | SignatureError::Format)) => {
            unreadable(&anyhow::Error::new(error).context(named))
        }
        Err(error) => {
            crate::print_line(&format!("{named}: {error}"));
            Ok(ExitCode::from(UNTRUSTED))
        }
    }
}

/// Returns the trusted keys, with a description of each.
fn keys(args: &Verify) -> Result<Vec<(TrustedKey, String)>> {
    if args.key.is_empty() {
        let config = config::load_sections(args.config.clone(), &["modules"])?;
        let keys: Vec<_> = trusted_keys(&config.modules)
            .into_iter()
            .map(|(key, owner)| {
                let trust = format!("trusted here for modules of {:?}", owner.name());
                (key, trust)
            })
            .collect();
        if keys.is_empty() {
            bail!("no key is trusted here: name one by --key, or set modules.trusted_keys");
        }
        return Ok(keys);
    }
    args.key
        .iter()
        .map(|text| Ok((key(text)?, format!("that of --key {text}"))))
        .collect()
}

/// Returns the keys that a configuration trusts, each with the owner of modules for which it does.
pub(super) fn trusted_keys(rules: &Modules) -> Vec<(TrustedKey, ModuleOwner)> {
    let of = |owner: ModuleOwner| {
        let keys = rules.keys_of(owner);
        keys.map(move |key| (key.clone(), owner))
    };
    ModuleOwner::ALL.iter().copied().flat_map(of).collect()
}

/// Parses a public key, or reads it from a file.
fn key(text: &str) -> Result<TrustedKey> {
    match (TrustedKey::parse(text), fs::read_to_string(text)) {
        (Ok(key), _) => Ok(key),
        (Err(_), Ok(file)) => TrustedKey::parse(&file).with_context(|| text.to_owned()),
        (Err(error), Err(io)) => bail!("--key: {error}; nor is it a file that can be read: {io}"),
    }
}

fn unreadable(error: &anyhow::Error) -> Result<ExitCode> {
    crate::print_line(&crate::error_text(error));
    Ok(ExitCode::from(UNREADABLE))
}
