//! Generators for the SDKs: names of the Standard for each language, and the C bindings of the
//! imports.
use super::{AttributeRow, Registry, attribute_rows, status_rows};
use anyhow::{Context, Result};
use std::{fmt::Write as _, path::Path};
use wit_bindgen_core::Files;

/// Returns the notice as a comment of one line.
fn notice(open: &str, close: &str) -> String {
    format!(
        "{open} Names and numbers of the PMIx Standard. Generated from `data/pmix-registry.toml` by `cargo xtask codegen`; \
         do not edit.{close}\n"
    )
}

/// Generates `sdk/rust/src/names.rs`.
pub fn rust(registry: &Registry) -> Result<String> {
    let mut out = String::from(
        "//! Names and numbers of the PMIx Standard. Generated from `data/pmix-registry.toml` by `cargo xtask codegen`; do not\n\
         //! edit.\n\n",
    );
    writeln!(
        out,
        "/// Key strings by the Standard's names.\n#[allow(missing_docs, reason = \"the name is the documentation\")]\npub mod key {{"
    )?;
    for AttributeRow { name, key, .. } in attribute_rows(registry)? {
        writeln!(out, "    pub const {name}: &str = {key:?};")?;
    }
    writeln!(
        out,
        "}}\n\n/// Status and event codes by the Standard's names.\n#[allow(missing_docs, reason = \"the name is the documentation\")]\npub mod status {{"
    )?;
    for (name, number) in status_rows(registry)? {
        writeln!(out, "    pub const {name}: i32 = {number};")?;
    }
    writeln!(out, "}}")?;
    Ok(out)
}

/// Generates `sdk/c/peal_names.h`.
pub fn c(registry: &Registry) -> Result<String> {
    let mut out = notice("//", "") + "#ifndef PEAL_NAMES_H\n#define PEAL_NAMES_H\n\n";
    for AttributeRow { name, key, .. } in attribute_rows(registry)? {
        writeln!(out, "#define {name} {key:?}")?;
    }
    out.push('\n');
    for (name, number) in status_rows(registry)? {
        writeln!(out, "#define {name} ({number})")?;
    }
    out.push_str("\n#endif\n");
    Ok(out)
}

/// Notice in the form that Go's tools know.
const GO_NOTICE: &str =
    "// Code generated from `data/pmix-registry.toml` by `cargo xtask codegen`; DO NOT EDIT.\n\n";

/// Generates `sdk/go/key/key.go`.
pub fn go_keys(registry: &Registry) -> Result<String> {
    let mut out = GO_NOTICE.to_owned()
        + "// Package key has the key strings of the PMIx Standard.\npackage key\n\n";
    for AttributeRow { name, key, .. } in attribute_rows(registry)? {
        writeln!(out, "const {name} = {key:?}")?;
    }
    Ok(out)
}

/// Generates `sdk/go/status/status.go`.
pub fn go_statuses(registry: &Registry) -> Result<String> {
    let mut out = GO_NOTICE.to_owned()
        + "// Package status has the status and event codes of the PMIx Standard.\npackage status\n\n";
    for (name, number) in status_rows(registry)? {
        writeln!(out, "const {name} int32 = {number}")?;
    }
    Ok(out)
}

/// Generates `sdk/python/peal/key.py`.
pub fn python_keys(registry: &Registry) -> Result<String> {
    let mut out = notice("\"\"\"Key strings.", "\"\"\"") + "\n";
    for AttributeRow { name, key, .. } in attribute_rows(registry)? {
        writeln!(out, "{name} = {key:?}")?;
    }
    Ok(out)
}

/// Generates `sdk/python/peal/status.py`.
pub fn python_statuses(registry: &Registry) -> Result<String> {
    let mut out = notice("\"\"\"Status and event codes.", "\"\"\"") + "\n";
    for (name, number) in status_rows(registry)? {
        writeln!(out, "{name} = {number}")?;
    }
    Ok(out)
}

/// Generates `sdk/js/names.js`.
pub fn js(registry: &Registry) -> Result<String> {
    js_like(
        registry,
        |name| format!("export const {name} = Object.freeze({{"),
        "});",
        |name, value| format!("{name}: {value},"),
    )
}

/// Generates `sdk/js/names.d.ts`.
pub fn typescript(registry: &Registry) -> Result<String> {
    js_like(
        registry,
        |name| format!("export const {name}: {{"),
        "};",
        |name, value| format!("readonly {name}: {value};"),
    )
}

fn js_like(
    registry: &Registry,
    open: impl Fn(&str) -> String,
    close: &str,
    row: impl Fn(&str, &str) -> String,
) -> Result<String> {
    let mut out = notice("//", "");
    writeln!(
        out,
        "\n/** Key strings by the Standard's names. */\n{}",
        open("key")
    )?;
    for AttributeRow { name, key, .. } in attribute_rows(registry)? {
        writeln!(out, "  {}", row(&name, &format!("{key:?}")))?;
    }
    writeln!(
        out,
        "{close}\n\n/** Status and event codes by the Standard's names. */\n{}",
        open("status")
    )?;
    for (name, number) in status_rows(registry)? {
        writeln!(out, "  {}", row(&name, &number.to_string()))?;
    }
    writeln!(out, "{close}")?;
    Ok(out)
}

/// Generates the imports of the WIT package in C, which `sdk/c` wraps. The exports are written by
/// hand in `peal.h`, since they differ between components.
pub fn c_bindings(root: &Path) -> Result<Vec<(String, String)>> {
    let mut wit = wit_parser::Resolve::default();
    let (package, _) = wit.push_dir(root.join("wit")).context("reading wit/")?;
    let world = wit.select_world(&[package], Some("imports"))?;
    let options = wit_bindgen_c::Opts {
        no_helpers: true,
        no_object_file: true,
        rename_world: Some("peal_raw".to_owned()),
        ..wit_bindgen_c::Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut wit, world, &mut files)?;
    let text = |bytes: &[u8]| -> Result<String> {
        let text = String::from_utf8(bytes.to_vec()).context("the generator writes UTF-8")?;
        Ok(text
            .split(LINKS_TYPES)
            .next()
            .unwrap_or_default()
            .to_owned())
    };
    files
        .iter()
        .map(|(name, bytes)| Ok((format!("sdk/c/{name}"), text(bytes)?)))
        .collect()
}

/// Last comment of the generator's output. It precedes code for an object file that Peal does not
/// use: types are embedded when the component is made.
const LINKS_TYPES: &str = "\n// Ensure that the *_component_type.o object is linked in\n";
