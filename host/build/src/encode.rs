//! Conversion of core modules to components.
use crate::{BuildError, Manifest, world::WORLD};
use peal_declaration::add_section;
use std::{fs, path::Path};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Encodes a core module with embedded types, as Rust's compiler writes it.
pub fn encode(file: &Path) -> Result<Vec<u8>, BuildError> {
    let core = fs::read(file).map_err(crate::error::of_file(file))?;
    component(&core, None).map_err(unfit(file))
}

/// Encodes a core module without types, with those of the world in a directory.
pub(crate) fn encode_with(file: &Path, wit: &Path) -> Result<Vec<u8>, BuildError> {
    let mut core = fs::read(file).map_err(crate::error::of_file(file))?;
    embed(&mut core, wit)
        .and_then(|()| component(&core, None))
        .map_err(unfit(file))
}

/// Encodes a core module like [`encode_with`], and answers its imports of WASI by an adapter.
pub(crate) fn encode_adapted(
    file: &Path,
    wit: &Path,
    adapter: &[u8],
) -> Result<Vec<u8>, BuildError> {
    let mut core = fs::read(file).map_err(crate::error::of_file(file))?;
    embed(&mut core, wit)
        .and_then(|()| component(&core, Some(adapter)))
        .map_err(unfit(file))
}

fn embed(core: &mut Vec<u8>, wit: &Path) -> Result<(), String> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .map_err(|error| format!("{error:#}"))?;
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .map_err(|error| format!("{error:#}"))?;
    embed_component_metadata(core, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| format!("{error:#}"))
}

fn component(core: &[u8], wasi: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let mut encoder = ComponentEncoder::default();
    let mut encoder = encoder.validate(true).module(core);
    if let Some(adapter) = wasi {
        encoder = encoder.and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", adapter));
    }
    encoder
        .and_then(|encoder| encoder.encode())
        .map_err(|error| format!("{error:#}"))
}

fn unfit(file: &Path) -> impl FnOnce(String) -> BuildError {
    let file = file.to_owned();
    move |reason| BuildError::Encode { file, reason }
}

/// Adds the declaration of a manifest to a component; nothing where the manifest declares nothing.
pub fn declare(component: &mut Vec<u8>, manifest: &Manifest) -> Result<(), BuildError> {
    let declaration = manifest.declaration();
    if declaration.is_empty() {
        return Ok(());
    }
    add_section(component, &declaration).map_err(|error| BuildError::Declaration {
        name: manifest.name.clone(),
        reason: error.to_string(),
    })
}
