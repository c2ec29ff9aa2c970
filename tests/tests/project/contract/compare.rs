//! Compares two states of the contract: the parts that existing components could no longer rely on,
//! and the new parts.
use std::collections::{BTreeMap, BTreeSet};
use wit_parser::{
    Function, Handle, InterfaceId, Resolve, Type, TypeDef, TypeDefKind, TypeId, World, WorldItem,
};

/// Worlds that no module implements as a whole: each module has some of their exports.
const FILLED_IN_PART: [&str; 2] = ["everything", "policy"];

/// Difference between two contracts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// Addition that components need not know.
    Added(String),
    /// Change of a part that components rely on, or an addition that they would need.
    Broken(String),
}

/// Returns the interfaces that modules export. Existing modules lack an addition to one of these.
fn exported(wit: &Resolve) -> BTreeSet<InterfaceId> {
    let exports = wit
        .worlds
        .iter()
        .flat_map(|(_, world)| world.exports.values());
    exports
        .filter_map(|item| {
            if let WorldItem::Interface { id, .. } = item {
                Some(*id)
            } else {
                None
            }
        })
        .collect()
}

fn interfaces(wit: &Resolve) -> BTreeMap<String, InterfaceId> {
    wit.interfaces
        .iter()
        .filter_map(|(id, interface)| Some((interface.name.clone()?, id)))
        .collect()
}

/// Returns the differences between a contract and an older one.
pub fn compare(old: &Resolve, new: &Resolve) -> Vec<Change> {
    let mut changes = Vec::new();
    let before = interfaces(old);
    let after = interfaces(new);
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changes.push(Change::Broken(format!("interface {name} is gone")));
    }
    let roles = exported(new);
    for (name, id) in &after {
        let Some(was) = before.get(name) else {
            changes.push(Change::Added(format!("interface {name}")));
            continue;
        };
        let items = |wit: &Resolve, id: InterfaceId| -> BTreeMap<String, (String, bool)> {
            let interface = &wit.interfaces[id];
            let functions = interface.functions.iter();
            let functions = functions
                .map(|(name, function)| (format!("func {name}"), (signature(wit, function), true)));
            let types = interface.types.iter();
            let types = types
                .map(|(name, id)| (format!("type {name}"), (shape(wit, &wit.types[*id]), false)));
            functions.chain(types).collect()
        };
        differ(
            name,
            &items(old, *was),
            &items(new, *id),
            roles.contains(id),
            &mut changes,
        );
    }
    worlds(old, new, &mut changes);
    changes.sort();
    changes
}

type Items = BTreeMap<String, (String, bool)>;

fn differ(of: &str, old: &Items, new: &Items, is_role: bool, changes: &mut Vec<Change>) {
    for (name, (was, _)) in old {
        match new.get(name) {
            None => changes.push(Change::Broken(format!("{of}: {name} is gone"))),
            Some((is, _)) if is != was => changes.push(Change::Broken(format!(
                "{of}: {name} was {was} and is {is}"
            ))),
            Some(_) => {}
        }
    }
    for (name, (_, is_function)) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let text = format!("{of}: {name}");
        // A module that has a role implements all functions of its interface.
        let change = if is_role && *is_function {
            Change::Broken(text + " is new in a role")
        } else {
            Change::Added(text)
        };
        changes.push(change);
    }
}

fn worlds(old: &Resolve, new: &Resolve, changes: &mut Vec<Change>) {
    let world = |wit: &Resolve, name: &str| {
        wit.worlds
            .iter()
            .find(|(_, world)| world.name == name)
            .map(|(id, _)| id)
    };
    for (_, was) in &old.worlds {
        let name = &was.name;
        let Some(is) = world(new, name) else {
            changes.push(Change::Broken(format!("world {name} is gone")));
            continue;
        };
        let is = &new.worlds[is];
        let (lost, more) = sides(old, was, new, is, |world| world.imports.values().collect());
        changes
            .extend(lost.map(|item| Change::Broken(format!("world {name} offers {item} no more"))));
        changes.extend(more.map(|item| Change::Added(format!("world {name} offers {item}"))));
        let (lost, more) = sides(old, was, new, is, |world| world.exports.values().collect());
        changes.extend(lost.map(|item| Change::Broken(format!("world {name} has {item} no more"))));
        let is_whole = !FILLED_IN_PART.contains(&name.as_str());
        changes.extend(more.map(|item| match is_whole {
            true => Change::Broken(format!("world {name} demands {item}")),
            false => Change::Added(format!("world {name} knows {item}")),
        }));
    }
    let known = new
        .worlds
        .iter()
        .filter(|(_, is)| world(old, &is.name).is_none());
    changes.extend(known.map(|(_, is)| Change::Added(format!("world {}", is.name))));
}

/// Adds the losses and additions of one side of a world.
fn sides(
    old: &Resolve,
    was: &World,
    new: &Resolve,
    is: &World,
    side: fn(&World) -> Vec<&WorldItem>,
) -> (
    impl Iterator<Item = String> + use<>,
    impl Iterator<Item = String> + use<>,
) {
    let names = |wit: &Resolve, world: &World| -> BTreeSet<String> {
        side(world)
            .into_iter()
            .map(|item| item_name(wit, item))
            .collect()
    };
    let before = names(old, was);
    let after = names(new, is);
    let lost: Vec<String> = before.difference(&after).cloned().collect();
    let more: Vec<String> = after.difference(&before).cloned().collect();
    (lost.into_iter(), more.into_iter())
}

fn item_name(wit: &Resolve, item: &WorldItem) -> String {
    match item {
        WorldItem::Interface { id, .. } => wit.interfaces[*id].name.clone().unwrap_or_default(),
        WorldItem::Function(function) => {
            format!("func {}: {}", function.name, signature(wit, function))
        }
        WorldItem::Type { id, .. } => format!("type {}", name_of(wit, *id)),
    }
}

fn signature(wit: &Resolve, function: &Function) -> String {
    let params: Vec<String> = function
        .params
        .iter()
        .map(|param| format!("{}: {}", param.name, type_name(wit, &param.ty)))
        .collect();
    let result = function
        .result
        .as_ref()
        .map(|result| format!(" -> {}", type_name(wit, result)));
    format!("func({}){}", params.join(", "), result.unwrap_or_default())
}

/// Returns the name of a type as used: its name and origin, or its shape if it has no name.
fn type_name(wit: &Resolve, of: &Type) -> String {
    match of {
        Type::Id(id) if wit.types[*id].name.is_some() => name_of(wit, *id),
        Type::Id(id) => shape(wit, &wit.types[*id]),
        plain => format!("{plain:?}").to_lowercase(),
    }
}

fn name_of(wit: &Resolve, id: TypeId) -> String {
    let of = &wit.types[id];
    // A type from `use` is the type that it refers to.
    if let TypeDefKind::Type(Type::Id(other)) = of.kind
        && wit.types[other].owner != of.owner
    {
        return name_of(wit, other);
    }
    let owner = match of.owner {
        wit_parser::TypeOwner::Interface(id) => wit.interfaces[id].name.clone().unwrap_or_default(),
        _ => String::new(),
    };
    format!("{owner}.{}", of.name.as_deref().unwrap_or_default())
}

fn shape(wit: &Resolve, of: &TypeDef) -> String {
    let optional = |of: &Option<Type>| {
        of.as_ref()
            .map_or_else(|| "_".to_owned(), |of| type_name(wit, of))
    };
    let list = |items: Vec<String>| items.join(", ");
    match &of.kind {
        TypeDefKind::Record(record) => {
            let field = |field: &wit_parser::Field| {
                format!("{}: {}", field.name, type_name(wit, &field.ty))
            };
            format!(
                "record {{ {} }}",
                list(record.fields.iter().map(field).collect())
            )
        }
        TypeDefKind::Flags(flags) => {
            format!(
                "flags {{ {} }}",
                list(flags.flags.iter().map(|flag| flag.name.clone()).collect())
            )
        }
        TypeDefKind::Enum(cases) => {
            format!(
                "enum {{ {} }}",
                list(cases.cases.iter().map(|case| case.name.clone()).collect())
            )
        }
        TypeDefKind::Variant(variant) => {
            let case = |case: &wit_parser::Case| format!("{}({})", case.name, optional(&case.ty));
            format!(
                "variant {{ {} }}",
                list(variant.cases.iter().map(case).collect())
            )
        }
        TypeDefKind::Tuple(tuple) => {
            format!(
                "tuple<{}>",
                list(tuple.types.iter().map(|of| type_name(wit, of)).collect())
            )
        }
        TypeDefKind::Option(of) => format!("option<{}>", type_name(wit, of)),
        TypeDefKind::List(of) => format!("list<{}>", type_name(wit, of)),
        TypeDefKind::Result(result) => format!(
            "result<{}, {}>",
            optional(&result.ok),
            optional(&result.err)
        ),
        TypeDefKind::Handle(Handle::Own(id)) => format!("own<{}>", name_of(wit, *id)),
        TypeDefKind::Handle(Handle::Borrow(id)) => format!("borrow<{}>", name_of(wit, *id)),
        TypeDefKind::Type(of) => type_name(wit, of),
        other => format!("{other:?}"),
    }
}
