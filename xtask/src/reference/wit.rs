//! Reference page of the contract: interfaces and worlds of `wit/` with their doc comments.
use anyhow::{Context, Result};
use std::{fmt::Write as _, path::Path};
use wit_parser::{
    Docs, Function, FunctionKind, Interface, Resolve, Type, TypeDef, TypeDefKind, TypeOwner, World,
    WorldItem, WorldKey,
};

/// Returns the page.
pub fn page(root: &Path) -> Result<String> {
    let mut contract = Resolve::default();
    contract
        .push_dir(root.join("wit"))
        .context("reading wit/")?;
    let package = contract
        .packages
        .iter()
        .next()
        .context("wit/ has no package")?
        .1;
    let mut page = format!(
        "# WIT\n\nGenerated from `wit/` by `cargo xtask docs`: package `{}`, the contract between Peal and its modules. A component fulfils a role by \
         exporting its interface, and requests a capability by importing its interface.\n\n{}\n",
        package.name,
        docs(&package.docs)
    );
    for id in package.interfaces.values() {
        if let Some(interface) = contract.interfaces.get(*id) {
            add_interface(&mut page, &contract, interface)?;
        }
    }
    page += "\n## Worlds\n";
    for id in package.worlds.values() {
        if let Some(world) = contract.worlds.get(*id) {
            add_world(&mut page, &contract, world)?;
        }
    }
    Ok(page)
}

/// Returns a doc comment as paragraphs.
fn docs(docs: &Docs) -> String {
    let text = docs.contents.as_deref().unwrap_or_default();
    escaped(text.trim())
}

/// Returns a doc comment on one line, for a cell of a table.
fn line(docs: &Docs) -> String {
    super::cell(&escaped(docs.contents.as_deref().unwrap_or_default()))
}

/// Escapes angle brackets, which would be HTML.
fn escaped(text: &str) -> String {
    text.replace('<', "&lt;")
}

fn add_interface(page: &mut String, contract: &Resolve, interface: &Interface) -> Result<()> {
    let name = interface.name.as_deref().unwrap_or_default();
    write!(page, "\n## {name}\n\n{}\n", docs(&interface.docs))?;
    let own = interface.types.iter().filter_map(|(name, id)| {
        let item = contract.types.get(*id)?;
        (!is_used(contract, item)).then_some((name, item))
    });
    for (name, item) in own {
        add_type(page, contract, name, item)?;
    }
    for function in interface.functions.values() {
        let signature = signature(contract, function);
        write!(
            page,
            "\n```wit\n{signature}\n```\n\n{}\n",
            docs(&function.docs)
        )?;
    }
    Ok(())
}

/// Returns true if a type comes from another interface by `use`.
fn is_used(contract: &Resolve, item: &TypeDef) -> bool {
    match item.kind {
        TypeDefKind::Type(Type::Id(other)) => contract
            .types
            .get(other)
            .is_some_and(|other| other.owner != item.owner && other.owner != TypeOwner::None),
        _ => false,
    }
}

fn add_type(page: &mut String, contract: &Resolve, name: &str, item: &TypeDef) -> Result<()> {
    let kind = item.kind.as_str();
    if let TypeDefKind::Type(other) = &item.kind {
        write!(
            page,
            "\n### type {name}\n\n{} It is `{}`.\n",
            docs(&item.docs),
            type_text(contract, other)
        )?;
        return Ok(());
    }
    write!(page, "\n### {kind} {name}\n\n{}\n\n", docs(&item.docs))?;
    let rows: Vec<(String, &Docs)> = match &item.kind {
        TypeDefKind::Record(record) => record
            .fields
            .iter()
            .map(|field| {
                (
                    format!("{}: {}", field.name, type_text(contract, &field.ty)),
                    &field.docs,
                )
            })
            .collect(),
        TypeDefKind::Flags(flags) => flags
            .flags
            .iter()
            .map(|flag| (flag.name.clone(), &flag.docs))
            .collect(),
        TypeDefKind::Enum(cases) => cases
            .cases
            .iter()
            .map(|case| (case.name.clone(), &case.docs))
            .collect(),
        TypeDefKind::Variant(cases) => cases
            .cases
            .iter()
            .map(|case| {
                let payload = case.ty.map(|ty| format!("({})", type_text(contract, &ty)));
                (
                    format!("{}{}", case.name, payload.unwrap_or_default()),
                    &case.docs,
                )
            })
            .collect(),
        _ => Vec::new(),
    };
    if !rows.is_empty() {
        writeln!(page, "| {kind} member | meaning |\n|---|---|")?;
    }
    for (member, docs) in rows {
        writeln!(page, "| `{member}` | {} |", line(docs))?;
    }
    Ok(())
}

fn signature(contract: &Resolve, function: &Function) -> String {
    let params = function
        .params
        .iter()
        .map(|param| format!("{}: {}", param.name, type_text(contract, &param.ty)));
    let params: Vec<String> = params.collect();
    let result = function
        .result
        .map(|result| format!(" -> {}", type_text(contract, &result)));
    let kind = match function.kind {
        FunctionKind::Freestanding => "func",
        _ => "method",
    };
    format!(
        "{}: {kind}({}){};",
        function.name,
        params.join(", "),
        result.unwrap_or_default()
    )
}

/// Returns a type as it is written in WIT.
fn type_text(contract: &Resolve, of: &Type) -> String {
    let Type::Id(id) = of else {
        return primitive(of).to_owned();
    };
    let Some(item) = contract.types.get(*id) else {
        return "?".to_owned();
    };
    if let Some(name) = &item.name {
        return name.clone();
    }
    let inner = |of: &Type| type_text(contract, of);
    let optional = |of: &Option<Type>| of.as_ref().map_or_else(|| "_".to_owned(), inner);
    match &item.kind {
        TypeDefKind::List(of) => format!("list<{}>", inner(of)),
        TypeDefKind::Option(of) => format!("option<{}>", inner(of)),
        TypeDefKind::Tuple(tuple) => {
            let types: Vec<String> = tuple.types.iter().map(inner).collect();
            format!("tuple<{}>", types.join(", "))
        }
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".to_owned(),
            (ok, None) => format!("result<{}>", optional(ok)),
            (ok, err) => format!("result<{}, {}>", optional(ok), optional(err)),
        },
        TypeDefKind::Type(of) => inner(of),
        other => other.as_str().to_owned(),
    }
}

fn primitive(of: &Type) -> &'static str {
    match of {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => "?",
    }
}

fn add_world(page: &mut String, contract: &Resolve, world: &World) -> Result<()> {
    write!(
        page,
        "\n### world {}\n\n{}\n\n",
        world.name,
        docs(&world.docs)
    )?;
    for (direction, items) in [("import", &world.imports), ("export", &world.exports)] {
        let names = items.iter().map(|(key, item)| match (key, item) {
            (WorldKey::Name(name), _) => name.clone(),
            (WorldKey::Interface(_), WorldItem::Interface { id, .. }) => contract
                .interfaces
                .get(*id)
                .and_then(|interface| interface.name.clone())
                .unwrap_or_default(),
            _ => String::new(),
        });
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            writeln!(page, "- {direction} {}", names.join(", "))?;
        }
    }
    Ok(())
}
