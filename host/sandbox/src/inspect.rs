//! What a component is, read from its bytes alone: nothing is compiled and nothing runs.
use crate::expansion::Expansion;
use crate::imports::{ImportedInterface, Imports};
use crate::interface::{self, Import};
use crate::text::{MAX_QUOTED, plain};
use crate::{Capability, Digest, Role};
use serde::Serialize;
use std::collections::BTreeSet;
use thiserror::Error;
use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, CustomSectionReader, Encoding, KnownCustom, Parser,
    Payload, ProducersSectionReader, TypeBounds,
};

/// The largest file that is looked at, in bytes. Components of interpreted languages have up to 40 MB.
pub const MAX_COMPONENT_BYTES: usize = 64 * 1024 * 1024;
/// The longest name shown, in bytes.
const MAX_NAME: usize = 256;
/// The most names of one kind shown.
const MAX_NAMES: usize = 64;

/// Why bytes are not a component.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A core module.
    #[error(
        "it is a core WebAssembly module; a component is wanted (wrap it with `wasm-tools component new`)"
    )]
    CoreModule,
    /// WebAssembly in its text form.
    #[error("it is WebAssembly text; its binary form is wanted (`wasm-tools parse`)")]
    Text,
    /// Anything else.
    #[error(
        "it is not WebAssembly: its first bytes are {start:02x?}, those of a component 00 61 73 6d 0d 00 01 00"
    )]
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
    /// Larger than any component need be.
    #[error("it has {size} bytes or more, {MAX_COMPONENT_BYTES} are allowed")]
    TooLarge {
        /// How many bytes it has, so far as they were read.
        size: usize,
    },
    /// It is made of more parts than it may be.
    #[error("it has {count} {what} or more, {limit} are allowed")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are, so far as it was read.
        count: u32,
        /// How many there may be.
        limit: u32,
    },
    /// The engine would have to keep more for an instance, beside its memory, than it may.
    #[error(
        "an instance of it would take {bytes} bytes or more beside its memory, for element segments, globals and functions; \
         {limit} are allowed"
    )]
    Bookkeeping {
        /// How many bytes, so far as it was read.
        bytes: u64,
        /// How many it may be.
        limit: u64,
    },
    /// A component within it is imported or taken out of an instance.
    #[error(
        "it hands a component around at byte {offset}; components must be instantiated where they are defined"
    )]
    HandedComponent {
        /// Where.
        offset: usize,
    },
    /// A core module within it is imported or taken out of an instance.
    #[error(
        "it hands a core module around at byte {offset}; core modules must be instantiated where they are defined"
    )]
    HandedModule {
        /// Where.
        offset: usize,
    },
}

/// A language, SDK or tool that took part in making a component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct ProducerTool {
    /// Its name.
    pub name: String,
    /// Its version; empty where it gives none.
    pub version: String,
}

/// Who made a component, by what its `producers` sections say (anybody can write anything there).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Producers {
    /// The languages it was written in.
    pub language: BTreeSet<ProducerTool>,
    /// The SDKs used.
    pub sdk: BTreeSet<ProducerTool>,
    /// The compilers and tools it went through.
    pub processed_by: BTreeSet<ProducerTool>,
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
    /// The interfaces that it imports, with their functions.
    pub imports: Vec<ImportedInterface>,
    /// The versions of the contract that it was built for: those of the interfaces of `peal:pmix` that it names.
    pub contract: BTreeSet<String>,
    /// Imports that this host does not offer, the first of them; with any of these it does not load.
    pub unknown_imports: Vec<String>,
    /// Exports that are no role, the first of them: never called.
    pub other_exports: Vec<String>,
    /// Who made it.
    pub producers: Producers,
    /// How many core instances an instance of it is made of.
    #[serde(skip)]
    pub core_instances: u32,
}

/// Reads what a component imports and exports and who made it, and that it is not made to be too large for a compiler. That
/// it is valid throughout is only known once it is loaded.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, FormatError> {
    if bytes.len() > MAX_COMPONENT_BYTES {
        return Err(FormatError::TooLarge { size: bytes.len() });
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(not_wasm(bytes));
    }
    let mut found = Inspection {
        digest: Digest::of(bytes),
        size: bytes.len(),
        roles: BTreeSet::new(),
        capabilities: BTreeSet::new(),
        imports: Vec::new(),
        contract: BTreeSet::new(),
        unknown_imports: Vec::new(),
        other_exports: Vec::new(),
        producers: Producers::default(),
        core_instances: 0,
    };
    let (mut expansion, mut imported) = (Expansion::new(), Imports::default());
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        let is_outermost = expansion.is_outermost();
        expansion.add(&payload)?;
        if is_outermost {
            imported.add(&payload)?;
        }
        match payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if is_outermost => return Err(FormatError::CoreModule),
            Payload::ComponentImportSection(imports) if is_outermost => {
                for import in imports {
                    let import = import?;
                    found.add_import(import.name.name, import.ty);
                }
            }
            Payload::ComponentExportSection(exports) if is_outermost => {
                for export in exports {
                    let export = export?;
                    found.add_export(export.name.name, export.kind);
                }
            }
            Payload::CustomSection(section) => found.producers.add(&section),
            _ => {}
        }
    }
    found.core_instances = expansion.core_instances();
    found.imports = imported.found();
    Ok(found)
}

impl Inspection {
    fn add_import(&mut self, name: &str, kind: ComponentTypeRef) {
        self.add_version(name);
        match (kind, interface::import(name)) {
            // Naming a type again asks for nothing.
            (ComponentTypeRef::Type(TypeBounds::Eq(_)), _) => {}
            (ComponentTypeRef::Instance(_), Import::Always) => {}
            (ComponentTypeRef::Instance(_), Import::Capability(capability)) => {
                self.capabilities.insert(capability);
            }
            _ => show(&mut self.unknown_imports, name),
        }
    }

    fn add_version(&mut self, interface: &str) {
        if let Some(version) =
            interface::contract_version(interface).filter(|_| self.contract.len() < MAX_NAMES)
        {
            self.contract.insert(plain(version, MAX_NAME));
        }
    }

    fn add_export(&mut self, name: &str, kind: ComponentExternalKind) {
        self.add_version(name);
        match (kind, interface::role(name)) {
            (ComponentExternalKind::Instance, Some(role)) => {
                self.roles.insert(role);
            }
            _ => show(&mut self.other_exports, name),
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
                if tools.len() < MAX_NAMES {
                    tools.insert(ProducerTool {
                        name: plain(tool.name, MAX_NAME),
                        version: plain(tool.version, MAX_NAME),
                    });
                }
            }
        }
    }
}

fn show(names: &mut Vec<String>, name: &str) {
    if names.len() < MAX_NAMES {
        names.push(plain(name, MAX_NAME));
    }
}

impl From<wasmparser::BinaryReaderError> for FormatError {
    fn from(error: wasmparser::BinaryReaderError) -> FormatError {
        FormatError::Damaged {
            offset: error.offset(),
            reason: plain(error.message(), MAX_QUOTED),
        }
    }
}

fn not_wasm(bytes: &[u8]) -> FormatError {
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"(") || text.starts_with(b";;") {
        return FormatError::Text;
    }
    FormatError::NotWasm {
        start: bytes.iter().take(8).copied().collect(),
    }
}
