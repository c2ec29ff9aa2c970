//! Functions that a component imports, read from the types of the interfaces that it imports.
use crate::FormatError;
use crate::interface::{self, Import};
use crate::text::plain;
use serde::Serialize;
use std::collections::BTreeMap;
use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, ComponentType,
    ComponentTypeRef, InstanceTypeDeclaration, Payload, TypeBounds,
};

/// Bound on the types of a component that are read.
const MAX_TYPES: usize = 100_000;
/// Bound on the functions that are shown, of all interfaces together.
const MAX_FUNCTIONS: usize = 4096;
/// Bound on the interfaces. More are an error, because grants are derived from them and none may be
/// missed.
const MAX_INTERFACES: usize = 256;
/// Bound on a name that is shown, in bytes; the rest is cut.
const MAX_NAME: usize = 256;

/// Kind of an imported interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportKind {
    /// Interface that every module has.
    Call,
    /// Capability that an admin grants.
    Capability,
    /// WASI, which is answered by stubs.
    Wasi,
    /// Interface that Peal does not offer.
    Unknown,
}

/// An interface that a component imports, with the imported functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ImportedInterface {
    /// Name with the version.
    pub name: String,
    /// Kind of the interface.
    pub kind: ImportKind,
    /// Capability that the import needs, if any.
    pub capability: Option<crate::Capability>,
    /// Imported functions. A component imports no more than it calls, unless its language cannot
    /// tell.
    pub functions: Vec<String>,
}

/// Reader that follows a parser and collects the imports of the outermost component.
#[derive(Default)]
pub(crate) struct Imports {
    /// Length of the index space of types.
    types: usize,
    /// Functions of those types that are interfaces and have functions, by index.
    interfaces: BTreeMap<usize, Vec<String>>,
    functions: usize,
    found: Vec<ImportedInterface>,
}

impl Imports {
    /// Reads a payload of the outermost component.
    pub(crate) fn add(&mut self, payload: &Payload<'_>) -> Result<(), FormatError> {
        match payload {
            Payload::ComponentTypeSection(types) => {
                for ty in types.clone() {
                    let functions = self.functions_of(&ty?);
                    self.define(functions)?;
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone() {
                    // Everything that defines a type takes an index. A missed one would show the
                    // functions of another interface.
                    match alias? {
                        ComponentAlias::InstanceExport {
                            kind: ComponentExternalKind::Type,
                            ..
                        }
                        | ComponentAlias::Outer {
                            kind: ComponentOuterAliasKind::Type,
                            ..
                        } => self.define(Vec::new())?,
                        _ => {}
                    }
                }
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports.clone() {
                    let import = import?;
                    self.import(import.name.name, import.ty)?;
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Type {
                        self.define_again(export.index)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the imported interfaces.
    pub(crate) fn found(self) -> Vec<ImportedInterface> {
        self.found
    }

    fn import(&mut self, name: &str, ty: ComponentTypeRef) -> Result<(), FormatError> {
        match ty {
            ComponentTypeRef::Type(TypeBounds::Eq(index)) => self.define_again(index)?,
            ComponentTypeRef::Type(TypeBounds::SubResource) => self.define(Vec::new())?,
            ComponentTypeRef::Instance(index) => {
                check_count("imported interfaces", self.found.len(), MAX_INTERFACES)?;
                let functions = self.interface(index);
                // WASI is a capability as well, and has a kind of its own.
                let (kind, capability) = match interface::import(name) {
                    _ if interface::wasi_interface(name).is_some() => {
                        (ImportKind::Wasi, Some(crate::Capability::Wasi))
                    }
                    Import::Always => (ImportKind::Call, None),
                    Import::Capability(capability) => (ImportKind::Capability, Some(capability)),
                    Import::Unknown => (ImportKind::Unknown, None),
                };
                self.found.push(ImportedInterface {
                    name: plain(name, MAX_NAME),
                    kind,
                    capability,
                    functions,
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn functions_of(&mut self, ty: &ComponentType<'_>) -> Vec<String> {
        let ComponentType::Instance(declarations) = ty else {
            return Vec::new();
        };
        let function = |declaration: &InstanceTypeDeclaration<'_>| match declaration {
            InstanceTypeDeclaration::Export {
                name,
                ty: ComponentTypeRef::Func(_),
            } => Some(plain(name.name, MAX_NAME)),
            _ => None,
        };
        // Functions are only shown, so those beyond the limit are left out. Too many interfaces are
        // an error.
        let room = MAX_FUNCTIONS.saturating_sub(self.functions);
        let functions: Vec<String> = declarations
            .iter()
            .filter_map(function)
            .take(room)
            .collect();
        self.functions += functions.len();
        functions
    }

    fn interface(&self, index: u32) -> Vec<String> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.interfaces.get(&index).cloned().unwrap_or_default()
    }

    /// Adds an alias of a type to the index space.
    fn define_again(&mut self, index: u32) -> Result<(), FormatError> {
        let room = MAX_FUNCTIONS.saturating_sub(self.functions);
        let mut functions = self.interface(index);
        // An alias of a few bytes repeats a whole interface, so its functions count again.
        functions.truncate(room);
        self.functions += functions.len();
        self.define(functions)
    }

    fn define(&mut self, functions: Vec<String>) -> Result<(), FormatError> {
        check_count("types", self.types, MAX_TYPES)?;
        if !functions.is_empty() {
            self.interfaces.insert(self.types, functions);
        }
        self.types += 1;
        Ok(())
    }
}

/// Returns an error if one more item would exceed a bound.
fn check_count(what: &'static str, known: usize, limit: usize) -> Result<(), FormatError> {
    if known < limit {
        return Ok(());
    }
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    Err(FormatError::TooMany {
        what,
        count: limit.saturating_add(1),
        limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capability, inspect};

    fn imports(text: &str) -> Result<Vec<ImportedInterface>, FormatError> {
        inspect(&wat::parse_str(text).unwrap()).map(|found| found.imports)
    }

    #[test]
    fn functions_are_found_through_intermediate_types() {
        let found = imports(
            r#"(component
                (type $first (instance (type string) (export "t" (type (eq 0))) (export "log" (func (param "line" string)))))
                (import "peal:pmix/logging@0.1.0" (instance $logging (type $first)))
                (alias export $logging "t" (type $t))
                (import "again" (type $again (eq $t)))
                (import "thing" (type $thing (sub resource)))
                (export "named" (type $first))
                (component $inner (type (instance (export "hidden" (func)))))
                (type $second (instance (export "exit" (func)) (export "[method]a.b" (func))))
                (import "wasi:cli/exit@0.2.0" (instance (type $second)))
                (import "peal:pmix/call@0.1.0" (instance (type $second)))
                (import "bare" (func)))"#,
        );
        let found = found.unwrap();
        let brief: Vec<_> = found
            .iter()
            .map(|of| {
                (
                    of.name.as_str(),
                    of.kind,
                    of.capability,
                    of.functions.join(" "),
                )
            })
            .collect();
        let both = || "exit [method]a.b".to_owned();
        assert_eq!(
            brief,
            [
                (
                    "peal:pmix/logging@0.1.0",
                    ImportKind::Capability,
                    Some(Capability::Logging),
                    "log".to_owned()
                ),
                (
                    "wasi:cli/exit@0.2.0",
                    ImportKind::Wasi,
                    Some(Capability::Wasi),
                    both()
                ),
                ("peal:pmix/call@0.1.0", ImportKind::Call, None, both()),
            ]
        );
    }

    #[test]
    fn no_interface_is_missed_and_no_flood_of_names_is_kept() {
        let many = |count: usize| {
            let imports = (0..count)
                .map(|number| format!("(import \"a:b/c{number}@1.0.0\" (instance (type $t)))"));
            format!(
                "(component (type $t (instance (export \"f\" (func)))) {})",
                imports.collect::<String>()
            )
        };
        assert_eq!(
            imports(&many(MAX_INTERFACES)).unwrap().len(),
            MAX_INTERFACES
        );
        let error = imports(&many(MAX_INTERFACES + 1)).unwrap_err().to_string();
        assert_eq!(
            error,
            "component has at least 257 imported interfaces; the limit is 256"
        );
        let exports: String = (0..MAX_FUNCTIONS + 1)
            .map(|number| format!("(export \"f{number}\" (func))"))
            .collect();
        let flood = imports(&format!(
            "(component (import \"a:b/c@1.0.0\" (instance {exports})))"
        ))
        .unwrap();
        assert_eq!(flood[0].functions.len(), MAX_FUNCTIONS);
    }
}
