//! What a component is, read from its bytes alone: nothing is compiled and nothing runs.
use crate::interface::{self, Import};
use crate::text::plain;
use crate::{Capability, Digest, Role};
use serde::Serialize;
use std::collections::BTreeSet;
use thiserror::Error;
use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, CustomSectionReader, Encoding, KnownCustom, Parser, Payload,
    ProducersSectionReader, TypeBounds,
};

/// The longest name shown, in bytes.
const MAX_NAME: usize = 256;
/// The most tools of one kind shown.
const MAX_TOOLS: usize = 64;

/// Why bytes are not a component.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A core module.
    #[error("it is a core WebAssembly module; a component is wanted (wrap it with `wasm-tools component new`)")]
    CoreModule,
    /// WebAssembly in its text form.
    #[error("it is WebAssembly text; its binary form is wanted (`wasm-tools parse`)")]
    Text,
    /// Anything else.
    #[error("it is not WebAssembly: its first bytes are {start:02x?}, those of a component 00 61 73 6d 0d 00 01 00")]
    NotWasm {
        /// Its first bytes, at most eight.
        start: Vec<u8>,
    },
    /// It begins like a component and breaks off or goes wrong.
    #[error("it is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where.
        offset: usize,
        /// What is wrong there.
        reason: String,
    },
}

/// A language, SDK or tool that took part in making a component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version; empty where it gives none.
    pub version: String,
}

/// Who made a component, by what its `producers` sections say (anybody can write anything there).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Producers {
    /// The languages it was written in.
    pub language: BTreeSet<Tool>,
    /// The SDKs used.
    pub sdk: BTreeSet<Tool>,
    /// The compilers and tools it went through.
    pub processed_by: BTreeSet<Tool>,
}

/// What a component does, what it asks for and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Inspection {
    /// The SHA-256 of its bytes.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: usize,
    /// The roles that it fills.
    pub roles: BTreeSet<Role>,
    /// The capabilities that it imports.
    pub capabilities: BTreeSet<Capability>,
    /// Imports that this host does not offer; with any of these it does not load.
    pub unknown_imports: Vec<String>,
    /// Exports that are no role: never called.
    pub other_exports: Vec<String>,
    /// Who made it.
    pub producers: Producers,
}

/// Reads what a component imports and exports and who made it. That it is valid throughout is only known once it is loaded.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, FormatError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(not_wasm(bytes));
    }
    let mut found = Inspection {
        digest: Digest::of(bytes),
        size: bytes.len(),
        roles: BTreeSet::new(),
        capabilities: BTreeSet::new(),
        unknown_imports: Vec::new(),
        other_exports: Vec::new(),
        producers: Producers::default(),
    };
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(damaged)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(FormatError::CoreModule),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    let import = import.map_err(damaged)?;
                    found.add_import(import.name.name, import.ty);
                }
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                for export in exports {
                    let export = export.map_err(damaged)?;
                    found.add_export(export.name.name, export.kind);
                }
            }
            Payload::CustomSection(section) => found.producers.add(&section),
            _ => {}
        }
    }
    Ok(found)
}

impl Inspection {
    fn add_import(&mut self, name: &str, kind: ComponentTypeRef) {
        match (kind, interface::import(name)) {
            // Naming a type again asks for nothing.
            (ComponentTypeRef::Type(TypeBounds::Eq(_)), _) => {}
            (ComponentTypeRef::Instance(_), Import::Always) => {}
            (ComponentTypeRef::Instance(_), Import::Capability(capability)) => {
                self.capabilities.insert(capability);
            }
            _ => self.unknown_imports.push(plain(name, MAX_NAME)),
        }
    }

    fn add_export(&mut self, name: &str, kind: ComponentExternalKind) {
        match (kind, interface::role(name)) {
            (ComponentExternalKind::Instance, Some(role)) => {
                self.roles.insert(role);
            }
            _ => self.other_exports.push(plain(name, MAX_NAME)),
        }
    }
}

impl Producers {
    /// Adds what a section says as far as it can be read; it is a claim, so what cannot be read is no error.
    fn add(&mut self, section: &CustomSectionReader<'_>) {
        if let KnownCustom::Producers(fields) = section.as_known() {
            self.add_fields(fields);
        }
    }

    fn add_fields(&mut self, fields: ProducersSectionReader<'_>) {
        for field in fields.into_iter().flatten() {
            let tools = match field.name {
                "language" => &mut self.language,
                "sdk" => &mut self.sdk,
                _ => &mut self.processed_by,
            };
            for tool in field.values.into_iter().flatten() {
                if tools.len() < MAX_TOOLS {
                    tools.insert(Tool { name: plain(tool.name, MAX_NAME), version: plain(tool.version, MAX_NAME) });
                }
            }
        }
    }
}

fn damaged(error: wasmparser::BinaryReaderError) -> FormatError {
    FormatError::Damaged { offset: error.offset(), reason: error.message().to_owned() }
}

fn not_wasm(bytes: &[u8]) -> FormatError {
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"(") || text.starts_with(b";;") {
        return FormatError::Text;
    }
    FormatError::NotWasm { start: bytes.iter().take(8).copied().collect() }
}
