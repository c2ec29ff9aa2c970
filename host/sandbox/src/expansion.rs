//! Size that a component has when it is instantiated. Components nest and instantiate each other,
//! so a few hundred bytes can stand for more instances than any machine holds. The compiler lays
//! all of them out, so they are counted before compilation. The same goes for segments, globals and
//! functions, which the engine keeps for each instance without asking the memory limiter.
use crate::FormatError;
use crate::limits::{MAX_BOOKKEEPING, MAX_CORE_INSTANCES};
use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Element, ElementItems, ElementKind, Imports, Instance, Payload,
};

/// Bound on the components within a component, at any depth.
const MAX_COMPONENTS: u32 = 64;
/// Bound on the core modules within a component, at any depth.
const MAX_MODULES: u32 = 64;
/// Bound on the component instances within a component; a component that is instantiated twice
/// counts twice. A JavaScript component with all roles has 33.
const MAX_INSTANCES: u32 = 48;

/// Bytes of a passive segment's element, of a global, or of a data segment, in each core instance.
const SMALL: u64 = 16;
/// Bytes of a function that a table, a global, an export or an import refers to, in each core
/// instance.
const FUNCTION: u64 = 32;

/// Result of instantiating a component once.
#[derive(Clone, Copy, Default)]
struct InstantiationCost {
    instances: u32,
    core_instances: u32,
    /// Bytes that the engine keeps for the core instances beside their memories and tables.
    bookkeeping: u64,
}

/// A component or core module that is being read.
enum OpenBlock {
    Component(ExpandedBody),
    /// A core module, with the bytes that the engine will keep for an instance of it.
    Module(u64),
}

#[derive(Default)]
struct ExpandedBody {
    made: InstantiationCost,
    /// Index space of components.
    components: Vec<InstantiationCost>,
    /// Index space of core modules, as the bytes that an instance of each takes.
    modules: Vec<u64>,
}

/// Counter that follows a parser. A component or core module must be instantiated where it is
/// defined, or in a nested component. Importing or exporting one out of an instance is refused,
/// because one pass cannot tell what it becomes.
pub(crate) struct Expansion {
    /// Open blocks, the outermost first.
    open: Vec<OpenBlock>,
    components: u32,
    modules: u32,
    /// Result of the component that ended last; after the whole input, the outermost one.
    last: InstantiationCost,
}

impl Expansion {
    pub(crate) fn new() -> Expansion {
        Expansion {
            open: vec![OpenBlock::Component(ExpandedBody::default())],
            components: 0,
            modules: 0,
            last: InstantiationCost::default(),
        }
    }

    /// Returns true if the parser is in the outermost component itself.
    pub(crate) fn is_outermost(&self) -> bool {
        self.open.len() == 1
    }

    /// Returns the core instances of the whole component, after the whole input was read.
    pub(crate) fn core_instances(&self) -> u32 {
        self.last.core_instances
    }

    /// Counts a payload of the parser. Returns an error when a bound is exceeded.
    pub(crate) fn add(&mut self, payload: &Payload<'_>) -> Result<(), FormatError> {
        match payload {
            Payload::ModuleSection { .. } => {
                self.modules = sum("core modules", self.modules, 1, MAX_MODULES)?;
                self.open.push(OpenBlock::Module(0));
            }
            Payload::ComponentSection { .. } => {
                self.components = sum("nested components", self.components, 1, MAX_COMPONENTS)?;
                self.open
                    .push(OpenBlock::Component(ExpandedBody::default()));
            }
            Payload::End(_) => self.close(),
            Payload::InstanceSection(instances) => {
                for instance in instances.clone() {
                    if let Instance::Instantiate { module_index, .. } = instance? {
                        let bookkeeping = self.module(0, module_index);
                        self.add_instantiation(InstantiationCost {
                            instances: 0,
                            core_instances: 1,
                            bookkeeping,
                        })?;
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    if let ComponentInstance::Instantiate {
                        component_index, ..
                    } = instance?
                    {
                        let inner = self.component(0, component_index);
                        // A component that is instantiated twice brings all of its inner instances
                        // twice. Nested components multiply in this way, so the sum of the inner
                        // one is added each time.
                        self.add_instantiation(InstantiationCost {
                            instances: inner.instances.saturating_add(1),
                            ..inner
                        })?;
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
                    match import.ty {
                        ComponentTypeRef::Component(_) => {
                            return Err(FormatError::HandedComponent { offset });
                        }
                        ComponentTypeRef::Module(_) => {
                            return Err(FormatError::HandedModule { offset });
                        }
                        _ => {}
                    }
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    // An export takes an index of its own.
                    match export.kind {
                        ComponentExternalKind::Component => {
                            self.add_component(self.component(0, export.index))
                        }
                        ComponentExternalKind::Module => {
                            self.add_module(self.module(0, export.index))
                        }
                        _ => {}
                    }
                }
            }
            payload => self.add_bookkeeping(bookkeeping(payload)?),
        }
        Ok(())
    }

    fn alias(&mut self, (offset, alias): (usize, ComponentAlias<'_>)) -> Result<(), FormatError> {
        match alias {
            ComponentAlias::InstanceExport {
                kind: ComponentExternalKind::Component,
                ..
            } => {
                return Err(FormatError::HandedComponent { offset });
            }
            ComponentAlias::InstanceExport {
                kind: ComponentExternalKind::Module,
                ..
            } => {
                return Err(FormatError::HandedModule { offset });
            }
            ComponentAlias::Outer {
                kind: ComponentOuterAliasKind::Component,
                count,
                index,
            } => {
                self.add_component(self.component(count, index));
            }
            ComponentAlias::Outer {
                kind: ComponentOuterAliasKind::CoreModule,
                count,
                index,
            } => {
                self.add_module(self.module(count, index));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the component with an index, `out` components further out. A missing index counts as
    /// nothing: compilation rejects it before anything is laid out.
    fn component(&self, out: u32, index: u32) -> InstantiationCost {
        self.outer(out)
            .and_then(|body| at(&body.components, index))
            .unwrap_or_default()
    }

    /// Returns the bytes of an instance of the core module with an index, `out` components further
    /// out.
    fn module(&self, out: u32, index: u32) -> u64 {
        self.outer(out)
            .and_then(|body| at(&body.modules, index))
            .unwrap_or_default()
    }

    fn outer(&self, out: u32) -> Option<&ExpandedBody> {
        match self.open.iter().rev().nth(usize::try_from(out).ok()?)? {
            OpenBlock::Component(body) => Some(body),
            OpenBlock::Module(_) => None,
        }
    }

    /// Adds a component to the index space of the component being read.
    fn add_component(&mut self, made: InstantiationCost) {
        if let Some(OpenBlock::Component(body)) = self.open.last_mut() {
            body.components.push(made);
        }
    }

    /// Adds a core module to the index space of the component being read.
    fn add_module(&mut self, bookkeeping: u64) {
        if let Some(OpenBlock::Component(body)) = self.open.last_mut() {
            body.modules.push(bookkeeping);
        }
    }

    /// Adds an instantiation to the component being read.
    fn add_instantiation(&mut self, inner: InstantiationCost) -> Result<(), FormatError> {
        if let Some(OpenBlock::Component(ExpandedBody { made, .. })) = self.open.last_mut() {
            made.instances = sum(
                "component instances",
                made.instances,
                inner.instances,
                MAX_INSTANCES,
            )?;
            made.core_instances = sum(
                "core instances",
                made.core_instances,
                inner.core_instances,
                MAX_CORE_INSTANCES,
            )?;
            // A saturated sum is over the limit, too.
            made.bookkeeping = made.bookkeeping.saturating_add(inner.bookkeeping);
            if made.bookkeeping > MAX_BOOKKEEPING {
                return Err(FormatError::Bookkeeping {
                    bytes: made.bookkeeping,
                    limit: MAX_BOOKKEEPING,
                });
            }
        }
        Ok(())
    }

    /// Adds bytes to each instance of the core module being read.
    fn add_bookkeeping(&mut self, bytes: u64) {
        if let Some(OpenBlock::Module(kept)) = self.open.last_mut() {
            *kept = kept.saturating_add(bytes);
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(OpenBlock::Component(body)) => {
                self.last = body.made;
                self.add_component(body.made);
            }
            Some(OpenBlock::Module(bookkeeping)) => self.add_module(bookkeeping),
            None => {}
        }
    }
}

/// Returns an upper estimate of the bytes that the engine keeps for a section of a core module in
/// each instance. Memories and tables are not included: the engine requests from the memory limiter
/// them.
fn bookkeeping(section: &Payload<'_>) -> Result<u64, FormatError> {
    let bytes = |count: u32, each: u64| u64::from(count).saturating_mul(each);
    let mut sum: u64 = 0;
    match section {
        Payload::ImportSection(imports) => {
            for group in imports.clone() {
                let count = match group? {
                    Imports::Single(..) => 1,
                    Imports::Compact1 { items, .. } => items.count(),
                    Imports::Compact2 { names, .. } => names.count(),
                };
                sum = sum.saturating_add(bytes(count, FUNCTION));
            }
        }
        Payload::GlobalSection(globals) => sum = bytes(globals.count(), SMALL + FUNCTION),
        Payload::ExportSection(exports) => sum = bytes(exports.count(), FUNCTION),
        Payload::DataSection(data) => sum = bytes(data.count(), SMALL),
        Payload::ElementSection(elements) => {
            for element in elements.clone() {
                let Element { kind, items, .. } = element?;
                let count = match items {
                    ElementItems::Functions(functions) => functions.count(),
                    ElementItems::Expressions(_, expressions) => expressions.count(),
                };
                // wasmtime keeps the elements of a passive segment on its heap for each instance,
                // because the guest may copy them into a table later.
                let kept = if matches!(kind, ElementKind::Passive) {
                    SMALL
                } else {
                    0
                };
                sum = sum
                    .saturating_add(bytes(count, FUNCTION + kept))
                    .saturating_add(SMALL);
            }
        }
        _ => {}
    }
    Ok(sum)
}

fn at<T: Copy>(space: &[T], index: u32) -> Option<T> {
    space.get(usize::try_from(index).ok()?).copied()
}

fn sum(what: &'static str, so_far: u32, more: u32, limit: u32) -> Result<u32, FormatError> {
    let count = so_far.saturating_add(more);
    if count > limit {
        Err(FormatError::TooMany { what, count, limit })
    } else {
        Ok(count)
    }
}
