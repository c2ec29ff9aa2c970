//! `peal module push --dry-run` and `pull --dry-run`: what would be uploaded or written. The registry is
//! asked, and nothing is stored, neither there nor here.
use super::{component_files, report_unloadable, write_annotations};
use crate::{
    admin::NOTHING_CHANGED,
    args::{ConfigArgs, Pull, Push},
    config,
    module::verify::trusted_keys,
    node, output, plain,
};
use anyhow::{Context, Result};
use peal_config::{ArtifactReference, Keyword, ModuleOwner, TrustedKey};
use peal_model::counted;
use peal_modules::{Signature, SignatureError};
use peal_registry::{ArtifactStore, NewArtifact, PulledArtifact, RegistryClient, annotation};
use peal_sandbox::{Digest, Inspection};
use std::{
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// Describes what a push would upload, and what its tag names now.
pub(super) fn push(
    args: &Push,
    client: &RegistryClient,
    artefact: &NewArtifact,
    signature: Option<&Signature>,
) -> Result<String> {
    let reference = &args.reference;
    let named = node::as_tool(async { Ok(client.check_push(reference).await?) })?;
    let size = |bytes: &[u8]| counted(bytes.len(), "byte");
    let mut text = format!(
        "would push {reference}\n\
         would upload the component: {}, sha256:{}\n\
         would upload the configuration: {}\n\
         would upload the manifest: {}, with the time of the push\n",
        size(&artefact.component),
        Digest::of(&artefact.component),
        size(&artefact.config),
        size(&artefact.manifest),
    );
    // A write to a string cannot fail.
    let _ = match named {
        Some(digest) => writeln!(text, "the tag would no longer name {}", plain(&digest)),
        None => writeln!(text, "the tag would be new"),
    };
    if let Some(signature) = signature {
        let keys = keys(&args.config)?;
        text += &signature_line(signature, &artefact.component, &keys);
    }
    crate::print_line(NOTHING_CHANGED);
    Ok(text)
}

/// Says where a pull would put an artefact.
pub(super) fn pull(
    args: &Pull,
    pulled: &PulledArtifact,
    found: &Inspection,
    file: &Path,
) -> Result<ExitCode> {
    let mut text = pulled_line(&args.reference, pulled).into_bytes();
    for (path, bytes) in component_files(pulled, file) {
        check_new(&path)?;
        let size = counted(bytes.len(), "byte");
        writeln!(text, "would write {}: {size}", path.display())?;
    }
    write_annotations(&mut text, pulled)?;
    text.extend(signature_of(&args.config, pulled)?.into_bytes());
    let inspect = format!("after the pull, `peal module inspect {}`", file.display());
    report_unloadable(found, &inspect);
    end(&String::from_utf8_lossy(&text))
}

/// Says what a pull would add to the store of artefacts in a directory.
pub(super) fn pull_into_store(
    args: &Pull,
    pulled: &PulledArtifact,
    directory: &Path,
) -> Result<ExitCode> {
    let mut text = pulled_line(&args.reference, pulled);
    let store = ArtifactStore::at(directory);
    let blobs = [&pulled.component, &pulled.manifest_bytes];
    // A write to a string cannot fail.
    let _ = match store.get(&pulled.digest)? {
        Some(_) => writeln!(text, "would change nothing: {} has it", directory.display()),
        None => blobs.into_iter().try_for_each(|bytes| {
            let path = store.path(&Digest::of(bytes));
            let size = counted(bytes.len(), "byte");
            writeln!(text, "would write {}: {size}", path.display())
        }),
    };
    text += &signature_of(&args.config, pulled)?;
    end(&text)
}

fn pulled_line(reference: &ArtifactReference, pulled: &PulledArtifact) -> String {
    format!("would pull {}\n", reference.with_digest(pulled.digest.0))
}

/// Prints what would be done, and that nothing was.
fn end(text: &str) -> Result<ExitCode> {
    crate::print_line(NOTHING_CHANGED);
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails like the creation of a file that exists, or whose directory does not.
fn check_new(path: &Path) -> Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let error: io::Error = match (path.symlink_metadata(), parent.map(Path::metadata)) {
        (Ok(_), _) => io::ErrorKind::AlreadyExists.into(),
        (Err(_), Some(Err(error))) => error,
        (Err(_), _) => return Ok(()),
    };
    Err(error).with_context(|| format!("{}: choose another file by --file", path.display()))
}

fn keys(config: &ConfigArgs) -> Result<Vec<(TrustedKey, ModuleOwner)>> {
    let config = config::load_sections(config.clone(), &["modules"])?;
    Ok(trusted_keys(&config.modules))
}

/// Describes the signature of an artefact, which a pull leaves to servers.
fn signature_of(config: &ConfigArgs, pulled: &PulledArtifact) -> Result<String> {
    let text = pulled.manifest.annotations.get(annotation::SIGNATURE);
    let signature = text.map_or(Err(SignatureError::NotPushed), |text| {
        Signature::parse(text)
    });
    Ok(match signature {
        Ok(signature) => signature_line(&signature, &pulled.component, &keys(config)?),
        Err(error) => format!("{error}\n"),
    })
}

/// Describes a signature of these bytes by the trusted keys.
fn signature_line(
    signature: &Signature,
    component: &[u8],
    keys: &[(TrustedKey, ModuleOwner)],
) -> String {
    if keys.is_empty() {
        let key = signature.key();
        return format!(
            "it is signed with key {key}, which is not verified: no key is trusted here (modules.trusted_keys)\n"
        );
    }
    match signature.signer(component, keys.iter().map(|(key, _)| key)) {
        Ok(signer) => {
            // A key may be trusted for several owners.
            let owners = keys.iter().filter(|(key, _)| *key == signer.key);
            let owners: Vec<&str> = owners.map(|(_, owner)| owner.name()).collect();
            format!(
                "it is signed with key {}, which is trusted here for modules of {}\n",
                signer.key.id(),
                owners.join(", ")
            )
        }
        Err(error) => format!("{error}\n"),
    }
}
