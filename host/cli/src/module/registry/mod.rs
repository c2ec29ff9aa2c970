//! `peal module push` and `pull`: modules as artefacts in registries.
mod dry_run;

use crate::{
    args::{Pull, Push},
    artifact_fetcher::{bound_memory, required_dir, user_settings},
    config, node,
};
use anyhow::{Context, Result, bail};
use peal_config::{ArtifactReference, Config};
use peal_modules::{Signature, SignatureError, artifact_dir, signature_place};
use peal_registry::{
    Annotations, ArtifactStore, NewArtifact, PulledArtifact, RegistryClient, annotation,
};
use peal_sandbox::{Inspection, ProducerTool};
use semver::Version;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

/// Pushes a component with its signature, and prints the name by which it is pinned.
pub fn push(args: &Push) -> Result<ExitCode> {
    let reference = &args.reference;
    let Some(tag) = reference
        .tag
        .as_deref()
        .filter(|_| reference.digest.is_none())
    else {
        return Err(crate::usage_error(format!(
            "{reference}: it should be oci://REGISTRY/NAME:TAG; the digest follows from the component"
        )));
    };
    let component = peal_modules::read(&args.file)?;
    let named = || args.file.display().to_string();
    let found = peal_sandbox::inspect(&component).with_context(named)?;
    let signature = match Signature::beside(&args.file) {
        Ok(signature) => Some(signature),
        Err(SignatureError::Missing(_)) => None,
        Err(error) => bail!("{}: {error}", named()),
    };
    let annotations = annotations(args, tag, &found, signature.as_ref())?;
    let artefact = NewArtifact::new(component, &found, annotations)?;
    let client = client(&config::load_sections(args.config.clone(), &["registry"])?)?;
    let done = if args.dry_run.dry_run {
        dry_run::push(args, &client, &artefact, signature.as_ref())?
    } else {
        let pinned = reference.with_digest(artefact.digest().0);
        node::as_tool(async move { Ok(client.push(reference, artefact).await?) })?;
        format!("{pinned}\n")
    };
    if signature.is_none() {
        crate::print_line(&format!(
            "{} is not signed: servers that require signatures refuse it (`peal module sign`)",
            named()
        ));
    }
    crate::output::print(&done)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the annotations of an artefact: what it is, and what it was built from and with.
fn annotations(
    args: &Push,
    tag: &str,
    found: &Inspection,
    signature: Option<&Signature>,
) -> Result<Annotations> {
    let claimed = signature.map(Signature::claimed_conditions).transpose();
    let claimed = claimed
        .with_context(|| args.file.display().to_string())?
        .unwrap_or_default();
    let tagged = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok();
    if let (Some(signed), Some(tagged)) = (&claimed.version, &tagged)
        && signed != tagged
    {
        bail!(
            "{} is signed as version {signed}, and the tag says {tagged}; they should be the same",
            args.file.display()
        );
    }
    let stem = args.file.file_stem().map(|stem| stem.to_string_lossy());
    let title = claimed.module.or_else(|| stem.map(Into::into));
    let version = claimed
        .version
        .or(tagged)
        .map(|version| version.to_string());
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let producers = &found.producers;
    let tools = [&producers.language, &producers.sdk, &producers.processed_by];
    let given = [
        (annotation::TITLE, title),
        (annotation::VERSION, version),
        (annotation::CREATED, Some(now)),
        (annotation::SOURCE, args.source.clone()),
        (annotation::REVISION, args.revision.clone()),
        (annotation::BUILT_WITH, Some(built_with(&tools))),
        (annotation::WIT, Some(list(found.contract.iter()))),
        (annotation::ROLES, Some(list(found.roles.iter()))),
        (
            annotation::CAPABILITIES,
            Some(list(found.capabilities.iter())),
        ),
        (
            annotation::SIGNATURE,
            signature.map(|signature| signature.text().to_owned()),
        ),
    ];
    Ok(given
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), text.filter(|text| !text.is_empty())?)))
        .collect())
}

fn built_with(tools: &[&BTreeSet<ProducerTool>]) -> String {
    let tools = tools.iter().flat_map(|tools| tools.iter());
    list(tools.map(|tool| {
        format!("{} {}", tool.name, tool.version)
            .trim_end()
            .to_owned()
    }))
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    items
        .map(|item| item.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Fetches an artefact into a file, or into the store of artefacts of this site's server.
pub fn pull(args: &Pull) -> Result<ExitCode> {
    let reference = &args.reference;
    let config = config::load_sections(args.config.clone(), &["registry", "store", "sandbox"])?;
    let client = client(&config)?;
    let pulled = node::as_tool(async move { Ok(client.pull(reference).await?) })?;
    let found = peal_sandbox::inspect(&pulled.component)
        .with_context(|| format!("{reference} is not a component that Peal can load"))?;
    let pinned = reference.with_digest(pulled.digest.0);
    let is_dry = args.dry_run.dry_run;
    if args.store {
        let directory = required_dir(artifact_dir(&config))?;
        if is_dry {
            return dry_run::pull_into_store(args, &pulled, &directory);
        }
        ArtifactStore::at(&directory).put(&pulled.manifest_bytes, &pulled.component)?;
        crate::output::print(&format!("{pinned} is in {}\n", directory.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.file.clone().unwrap_or_else(|| usual_file(reference));
    if is_dry {
        return dry_run::pull(args, &pulled, &found, &file);
    }
    write(&pulled, &file)?;
    let mut out = crate::output::stdout();
    writeln!(out, "{pinned} is in {}", file.display())?;
    write_annotations(&mut out, &pulled)?;
    report_unloadable(&found, &format!("`peal module inspect {}`", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes the annotations of an artefact, except for its signature.
fn write_annotations(out: &mut impl Write, pulled: &PulledArtifact) -> Result<()> {
    let is_printed = |name: &str| name != annotation::SIGNATURE;
    let told = pulled.manifest.annotations.iter();
    for (name, text) in told.filter(|(name, _)| is_printed(name)) {
        writeln!(out, "{}: {}", crate::plain(name), crate::plain(text))?;
    }
    Ok(())
}

/// Says on standard error if no server of this release loads a component. `inspect` is the command that
/// explains it.
fn report_unloadable(found: &Inspection, inspect: &str) {
    if let Some(mismatch) = found.contract_mismatch() {
        crate::print_line(&format!(
            "no server of this release loads it: the component {mismatch}"
        ));
    } else if found.roles.is_empty() || !found.unknown_imports.is_empty() {
        crate::print_line(&format!(
            "no server of this release loads it: {inspect} says why"
        ));
    }
}

/// Returns the file of an artefact if no other one is named: the last part of its name.
fn usual_file(reference: &ArtifactReference) -> PathBuf {
    let name = reference.repository.rsplit('/').next().unwrap_or_default();
    PathBuf::from(format!("{name}.wasm"))
}

/// Returns the files of an artefact: its component and its signature.
fn component_files<'a>(pulled: &'a PulledArtifact, file: &Path) -> Vec<(PathBuf, &'a [u8])> {
    let text = pulled.manifest.annotations.get(annotation::SIGNATURE);
    let signature = text.map(|text| (signature_place(file), text.as_bytes()));
    let component = (file.to_owned(), pulled.component.as_slice());
    std::iter::once(component).chain(signature).collect()
}

/// Writes a component and its signature. Changes no existing file: a server may watch it.
fn write(pulled: &PulledArtifact, file: &Path) -> Result<()> {
    for (path, bytes) in component_files(pulled, file) {
        let new = fs::File::create_new(&path)
            .with_context(|| format!("{}: choose another file by --file", path.display()));
        new?.write_all(bytes)
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Returns a client with the user's own credentials, unless the configuration names others.
fn client(config: &Config) -> Result<RegistryClient> {
    let settings = user_settings(config);
    bound_memory(&settings)?;
    Ok(RegistryClient::new(settings)?)
}
