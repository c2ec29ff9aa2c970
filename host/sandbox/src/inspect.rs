//! Inspection of a component by its bytes alone: nothing is compiled and nothing runs.
use crate::expansion::Expansion;
use crate::imports::{ImportedInterface, Imports};
use crate::interface::{self, Import};
use crate::text::{MAX_QUOTED, plain};
use crate::{Capability, ContractMismatch, Digest, Role, contract};
use peal_declaration::{DeclarationError, ModuleDeclaration, SECTION};
use serde::Serialize;
use std::collections::BTreeSet;
use thiserror::Error;
use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, CustomSectionReader, Encoding, KnownCustom, Parser,
    Payload, ProducersSectionReader, TypeBounds,
};

/// Bound on the size of a file that is inspected, in bytes. Components of interpreted languages
/// have up to 40 MB.
pub const MAX_COMPONENT_BYTES: usize = 64 * 1024 * 1024;
/// Bound on a name that is shown, in bytes; the rest is cut.
const MAX_NAME: usize = 256;
/// Bound on the names of one kind that are shown.
const MAX_NAMES: usize = 64;

/// Reason why bytes are not an acceptable component.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FormatError {
    /// The bytes are a core module.
    #[error(
        "not a component but a core WebAssembly module (wrap it with `wasm-tools component new`)"
    )]
    CoreModule,
    /// The bytes are WebAssembly in its text form.
    #[error("not a component but WebAssembly text (turn it into binary with `wasm-tools parse`)")]
    Text,
    /// The bytes are not WebAssembly.
    #[error(
        "not WebAssembly: the first bytes are {start:02x?}; a component begins with 00 61 73 6d 0d 00 01 00"
    )]
    NotWasm {
        /// First bytes, at most eight.
        start: Vec<u8>,
    },
    /// The bytes begin like a component but are cut off or malformed.
    #[error("component is malformed at byte {offset}: {reason}")]
    Damaged {
        /// Byte offset of the error.
        offset: usize,
        /// Reason of the parser.
        reason: String,
    },
    /// The component is larger than [`MAX_COMPONENT_BYTES`].
    #[error("component has at least {size} bytes; the limit is {MAX_COMPONENT_BYTES}")]
    TooLarge {
        /// Bytes read so far.
        size: usize,
    },
    /// The component has too many parts of one kind.
    #[error("component has at least {count} {what}; the limit is {limit}")]
    TooMany {
        /// Name of the parts, in the plural.
        what: &'static str,
        /// Number of parts read so far.
        count: u32,
        /// Largest number allowed.
        limit: u32,
    },
    /// An instance would take too much of the engine's own memory, beside the guest's memory.
    #[error(
        "an instance would take at least {bytes} bytes beside its memory, for element segments, globals and \
         functions; the limit is {limit}"
    )]
    Bookkeeping {
        /// Bytes counted so far.
        bytes: u64,
        /// Largest number of bytes allowed.
        limit: u64,
    },
    /// The section with the declaration of the module cannot be used.
    #[error("component has an invalid declaration of its module: {}", plain(&.0.to_string(), MAX_QUOTED))]
    Declaration(DeclarationError),
    /// The component declares its module more than once.
    #[error("component has several sections {SECTION}; there should be one at most")]
    Declarations,
    /// A nested component is imported or exported from an instance.
    #[error(
        "component passes a component on at byte {offset}; components must be instantiated where they are defined"
    )]
    HandedComponent {
        /// Byte offset of the import or alias.
        offset: usize,
    },
    /// A nested core module is imported or exported from an instance.
    #[error(
        "component passes a core module on at byte {offset}; core modules must be instantiated where they are defined"
    )]
    HandedModule {
        /// Byte offset of the import or alias.
        offset: usize,
    },
}

/// A language, SDK or tool that took part in making a component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct ProducerTool {
    /// Name of the tool.
    pub name: String,
    /// Version of the tool; empty if none is given.
    pub version: String,
}

/// Origin of a component by its `producers` sections. These are claims: a builder can write
/// anything there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Producers {
    /// Source languages.
    pub language: BTreeSet<ProducerTool>,
    /// SDKs.
    pub sdk: BTreeSet<ProducerTool>,
    /// Compilers and other tools.
    pub processed_by: BTreeSet<ProducerTool>,
}

/// Result of an inspection: roles, imports and origin of a component.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Inspection {
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// Size in bytes.
    pub size: usize,
    /// Roles that the component exports.
    pub roles: BTreeSet<Role>,
    /// Capabilities that the component imports.
    pub capabilities: BTreeSet<Capability>,
    /// Imported interfaces with their functions.
    pub imports: Vec<ImportedInterface>,
    /// Versions of the contract that the component was built for, from the names of its `peal:pmix`
    /// interfaces.
    pub contract: BTreeSet<String>,
    /// Imports that Peal does not offer, 64 at most; a component with any of these does not load.
    pub unknown_imports: Vec<String>,
    /// Exports that are not roles, 64 at most; they are never called.
    pub other_exports: Vec<String>,
    /// Origin of the component.
    pub producers: Producers,
    /// Declaration of the module: purpose, settings and usual deployment. These are claims of the
    /// author, which are bounded and safe to show.
    pub declaration: Option<ModuleDeclaration>,
    /// Core instances of one instance of the component.
    #[serde(skip)]
    pub core_instances: u32,
}

/// Reads roles, imports and origin of a component, and checks that it does not expand to more than
/// the compiler can take. Loading checks whether the component is valid throughout.
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
        declaration: None,
        core_instances: 0,
    };
    let mut expansion = Expansion::new();
    let mut imported = Imports::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        // Ask before `add`, which opens a nested block for the payload that begins it.
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
            Payload::CustomSection(section) if is_outermost && section.name() == SECTION => {
                found.add_declaration(section.data())?;
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
    /// Returns why this release does not have the contract of the component: the contract belongs
    /// to another line, or the component imports or exports an interface of a later addition only.
    pub fn contract_mismatch(&self) -> Option<ContractMismatch> {
        let unknown = || {
            let imports = self.unknown_imports.iter();
            // A role that is not known would never be called, a policy among them.
            let mut names = imports.chain(&self.other_exports);
            names.find(|name| contract::version_of(name).is_some())
        };
        ContractMismatch::of_versions(&self.contract).or_else(|| {
            let name = unknown()?;
            ContractMismatch::of_failure(&self.contract, || format!("{name} is unknown"))
        })
    }

    fn add_declaration(&mut self, contents: &[u8]) -> Result<(), FormatError> {
        let declaration =
            ModuleDeclaration::from_section(contents).map_err(FormatError::Declaration)?;
        match self.declaration.replace(declaration) {
            None => Ok(()),
            Some(_) => Err(FormatError::Declarations),
        }
    }

    fn add_import(&mut self, name: &str, kind: ComponentTypeRef) {
        self.add_version(name);
        match (kind, interface::import(name)) {
            // An alias of a type imports nothing.
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
            contract::version_of(interface).filter(|_| self.contract.len() < MAX_NAMES)
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
    /// Adds the contents of a section as far as they can be read. They are claims, so malformed
    /// ones are ignored.
    fn add(&mut self, section: &CustomSectionReader<'_>) {
        if let KnownCustom::Producers(fields) = section.as_known() {
            self.add_fields(fields);
        }
    }

    fn add_fields(&mut self, fields: ProducersSectionReader<'_>) {
        // Malformed fields are left out: producers are only shown.
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
