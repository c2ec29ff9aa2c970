//! How much a component becomes when it is instantiated. Components nest and instantiate each other, so that a few hundred
//! bytes can stand for more instances than any machine holds, and the compiler lays them all out: so they are counted first.
use crate::FormatError;
use crate::limits::MAX_CORE_INSTANCES;
use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef, Instance,
    Payload,
};

/// The most components within a component, however deep.
const MAX_COMPONENTS: u32 = 64;
/// The most core modules within a component, however deep.
const MAX_MODULES: u32 = 64;
/// The most instances of components within a component, each counted as often as it comes to be.
const MAX_INSTANCES: u32 = 32;

/// What instantiating a component once makes.
#[derive(Clone, Copy, Default)]
struct Made {
    instances: u32,
    core_instances: u32,
}

/// A component whose end is not yet read.
#[derive(Default)]
struct Body {
    made: Made,
    /// Its index space of components.
    components: Vec<Made>,
}

/// Counts along with a parser. A component is instantiated where it is defined, or further in: one that is handed around is
/// refused, for what becomes of it cannot be told by reading once.
pub(crate) struct Expansion {
    /// From the outermost in; none for a core module.
    open: Vec<Option<Body>>,
    components: u32,
    modules: u32,
}

impl Expansion {
    pub(crate) fn new() -> Expansion {
        Expansion { open: vec![Some(Body::default())], components: 0, modules: 0 }
    }

    /// Whether what is read now belongs to the outermost component itself.
    pub(crate) fn is_outermost(&self) -> bool {
        self.open.len() == 1
    }

    /// Takes notice of what the parser found; an error once it is too much.
    pub(crate) fn add(&mut self, payload: &Payload<'_>) -> Result<(), FormatError> {
        match payload {
            Payload::ModuleSection { .. } => {
                self.modules = sum("core modules", self.modules, 1, MAX_MODULES)?;
                self.open.push(None);
            }
            Payload::ComponentSection { .. } => {
                self.components = sum("nested components", self.components, 1, MAX_COMPONENTS)?;
                self.open.push(Some(Body::default()));
            }
            Payload::End(_) => self.close(),
            Payload::InstanceSection(instances) => {
                for instance in instances.clone() {
                    if let Instance::Instantiate { .. } = instance? {
                        self.make(Made { instances: 0, core_instances: 1 })?;
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                        let inner = self.component(0, component_index);
                        self.make(Made { instances: inner.instances.saturating_add(1), ..inner })?;
                    }
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone().into_iter_with_offsets() {
                    self.alias(alias?)?;
                }
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports.clone().into_iter_with_offsets() {
                    let (offset, import) = import?;
                    if let ComponentTypeRef::Component(_) = import.ty {
                        return Err(FormatError::HandedComponent { offset });
                    }
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Component {
                        self.define(self.component(0, export.index));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn alias(&mut self, (offset, alias): (usize, ComponentAlias<'_>)) -> Result<(), FormatError> {
        match alias {
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
                return Err(FormatError::HandedComponent { offset });
            }
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                self.define(self.component(count, index));
            }
            _ => {}
        }
        Ok(())
    }

    /// The component of this number, so many components further out. A number without one is found when the component is
    /// compiled, before anything is laid out.
    fn component(&self, out: u32, index: u32) -> Made {
        let (out, index) = (usize::try_from(out).ok(), usize::try_from(index).ok());
        let body = out.and_then(|out| self.open.iter().rev().nth(out)).and_then(Option::as_ref);
        body.zip(index).and_then(|(body, index)| body.components.get(index).copied()).unwrap_or_default()
    }

    /// The component being read has one more component to instantiate.
    fn define(&mut self, made: Made) {
        if let Some(Some(body)) = self.open.last_mut() {
            body.components.push(made);
        }
    }

    /// The component being read makes this when it is instantiated.
    fn make(&mut self, inner: Made) -> Result<(), FormatError> {
        if let Some(Some(Body { made, .. })) = self.open.last_mut() {
            made.instances = sum("component instances", made.instances, inner.instances, MAX_INSTANCES)?;
            made.core_instances = sum("core instances", made.core_instances, inner.core_instances, MAX_CORE_INSTANCES)?;
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Some(body)) = self.open.pop() {
            self.define(body.made);
        }
    }
}

fn sum(what: &'static str, so_far: u32, more: u32, limit: u32) -> Result<u32, FormatError> {
    let count = so_far.saturating_add(more);
    if count > limit { Err(FormatError::TooMany { what, count, limit }) } else { Ok(count) }
}
