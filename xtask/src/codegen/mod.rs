//! Generation of the names of the Standard from `data/pmix-registry.toml`, for the host and the
//! SDKs, and of the C bindings of the SDK from `wit/`. Stale files are reported.
mod sdks;

use anyhow::{Context, Result, bail};
use std::{fmt::Write as _, fs, path::Path};
use toml::{Table, Value};

const REGISTRY: &str = "data/pmix-registry.toml";

type Generate = fn(&Registry) -> Result<String>;

/// Files that are generated from the registry, with their generators.
const GENERATED: [(&str, Generate); 9] = [
    ("host/model/src/names.rs", for_host),
    ("sdk/rust/src/names.rs", sdks::rust),
    ("sdk/c/peal_names.h", sdks::c),
    ("sdk/go/key/key.go", sdks::go_keys),
    ("sdk/go/status/status.go", sdks::go_statuses),
    ("sdk/python/peal/key.py", sdks::python_keys),
    ("sdk/python/peal/status.py", sdks::python_statuses),
    ("sdk/js/names.js", sdks::js),
    ("sdk/js/names.d.ts", sdks::typescript),
];

/// Returns every generated file and its contents.
fn generated(root: &Path) -> Result<Vec<(String, String)>> {
    let registry = Registry::read(root)?;
    let mut files = sdks::c_bindings(root)?;
    for (file, generate) in GENERATED {
        files.push((file.to_owned(), generate(&registry)?));
    }
    Ok(files)
}

/// Writes the generated files that are stale.
pub fn write(root: &Path) -> Result<()> {
    for (file, text) in generated(root)? {
        if fs::read_to_string(root.join(&file)).is_ok_and(|there| there == text) {
            continue;
        }
        fs::write(root.join(&file), text).with_context(|| format!("writing {file}"))?;
        println!("wrote {file}");
    }
    Ok(())
}

/// Fails if a generated file is stale.
pub fn check(root: &Path) -> Result<()> {
    for (file, text) in generated(root)? {
        if fs::read_to_string(root.join(&file)).with_context(|| format!("reading {file}"))? != text
        {
            bail!("{file} is stale: it differs from {REGISTRY} or wit/; run `cargo xtask codegen`");
        }
    }
    Ok(())
}

fn for_host(registry: &Registry) -> Result<String> {
    let mut out = String::from(
        "//! Names and numbers of the PMIx Standard. Generated from `data/pmix-registry.toml` by `cargo xtask codegen`; do not\n\
         //! edit.\n\nuse crate::{DataType, KeyName, Rank, Status};\n\n",
    );
    attributes(registry, &mut out)?;
    statuses(registry, &mut out)?;
    constants(registry, &mut out)?;
    Ok(out)
}

struct Registry(Table);

impl Registry {
    fn read(root: &Path) -> Result<Registry> {
        let text = fs::read_to_string(root.join(REGISTRY))
            .with_context(|| format!("reading {REGISTRY}"))?;
        Ok(Registry(
            text.parse()
                .with_context(|| format!("parsing {REGISTRY}"))?,
        ))
    }

    fn section(&self, name: &str) -> Result<&Table> {
        self.0
            .get(name)
            .and_then(Value::as_table)
            .with_context(|| format!("{REGISTRY} has no [{name}]"))
    }

    /// Returns the name and number of each entry of a section, as the oldest release spells it.
    fn numbers(&self, section: &str) -> Result<Vec<(&str, i64)>> {
        let entry = |(name, entry): (&'_ String, &Value)| -> Result<(String, i64)> {
            let value = entry.get("value").and_then(Value::as_integer);
            Ok((
                name.clone(),
                value.with_context(|| format!("[{section}] {name} has no integer `value`"))?,
            ))
        };
        let table = self.section(section)?;
        table
            .iter()
            .map(|(name, value)| Ok((name.as_str(), entry((name, value))?.1)))
            .collect()
    }
}

/// Attribute under one of its names.
struct AttributeRow {
    name: String,
    key: String,
    c_type: String,
    /// Spelling of the key by this name.
    spelling: Spelling,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Canonical,
    /// Older name of the same key (`same_as`).
    Alias,
}

/// Returns all names of all attributes, sorted by name.
fn attribute_rows(registry: &Registry) -> Result<Vec<AttributeRow>> {
    let sections = [
        registry.section("attributes")?,
        registry.section("legacy_attributes")?,
    ];
    let mut rows = Vec::new();
    for (name, entry) in sections.into_iter().flatten() {
        let (spelling, target) = match entry.get("same_as").and_then(Value::as_str) {
            Some(target) => (
                Spelling::Alias,
                sections.iter().find_map(|section| section.get(target)),
            ),
            None => (Spelling::Canonical, Some(entry)),
        };
        let field = |of: &str| {
            target
                .and_then(|target| target.get(of))
                .and_then(Value::as_str)
        };
        let key = field("key");
        let c_type = field("type").unwrap_or_default();
        let key = key.with_context(|| {
            format!("attribute {name} has no `key`, and neither has its `same_as`")
        })?;
        rows.push(AttributeRow {
            name: name.clone(),
            key: key.to_owned(),
            c_type: c_type.to_owned(),
            spelling,
        });
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

fn attributes(registry: &Registry, out: &mut String) -> Result<()> {
    let rows = attribute_rows(registry)?;
    let doc = "/// Attribute of the Standard.\n#[derive(Debug)]\npub struct Attribute {\n    /// Name, as in `PMIX_EVENT_HDLR_NAME`.\n    pub name: &'static str,\n    /// Key string on the wire.\n    pub key: &'static str,\n    /// C type of the value.\n    pub c_type: &'static str,\n}\n\n";
    out.push_str(doc);
    writeln!(
        out,
        "/// All attributes, by name, and then the older names of some.\npub static ATTRIBUTES: &[Attribute] = &["
    )?;
    let (canonical, aliases): (Vec<_>, Vec<_>) = rows
        .iter()
        .partition(|row| row.spelling == Spelling::Canonical);
    // A key is printed by the first name that is found.
    for AttributeRow {
        name, key, c_type, ..
    } in canonical.into_iter().chain(aliases)
    {
        writeln!(
            out,
            "    Attribute {{ name: {name:?}, key: {key:?}, c_type: {c_type:?} }},"
        )?;
    }
    writeln!(
        out,
        "];\n\n/// Key strings by the Standard's names.\n#[allow(missing_docs, reason = \"the name is the documentation\")]\npub mod key {{\n    use super::KeyName;"
    )?;
    for AttributeRow { name, key, .. } in &rows {
        writeln!(out, "    pub const {name}: KeyName = KeyName({key:?});")?;
    }
    writeln!(out, "}}\n")?;
    Ok(())
}

/// Returns the names that are statuses, with their numbers.
fn codes(registry: &Registry) -> Result<Vec<(&str, i64)>> {
    let mut all = registry.numbers("status")?;
    all.extend(registry.numbers("other_numbers")?);
    all.retain(|(name, number)| is_status(name, *number));
    Ok(all)
}

/// Returns all names of statuses, including old ones, sorted by name.
fn status_rows(registry: &Registry) -> Result<Vec<(String, i64)>> {
    let codes = codes(registry)?;
    let mut rows: Vec<(String, i64)> = codes
        .iter()
        .map(|(name, n)| ((*name).to_owned(), *n))
        .collect();
    for (name, entry) in registry.section("legacy_status")? {
        let target = entry
            .get("same_as")
            .and_then(Value::as_str)
            .with_context(|| format!("{name} has no `same_as`"))?;
        let (_, number) = codes
            .iter()
            .find(|(name, _)| *name == target)
            .with_context(|| format!("{target} is unknown"))?;
        rows.push((name.clone(), *number));
    }
    rows.sort();
    Ok(rows)
}

fn statuses(registry: &Registry, out: &mut String) -> Result<()> {
    let codes = codes(registry)?;
    let aliases = status_rows(registry)?;
    let mut canonical: Vec<(i64, &str)> = Vec::new();
    for (name, number) in &codes {
        // Several names may have one number, of which the first in the registry is printed.
        if !canonical.iter().any(|(known, _)| known == number) {
            canonical.push((*number, name));
        }
    }
    canonical.sort_unstable();
    writeln!(
        out,
        "/// Name to print for each status, by number.\npub static STATUS_NAMES: &[(i32, &str)] = &["
    )?;
    for (number, name) in canonical {
        writeln!(out, "    ({number}, {name:?}),")?;
    }
    writeln!(
        out,
        "];\n\n/// All names of statuses, including old ones.\npub static STATUS_ALIASES: &[(&str, i32)] = &["
    )?;
    for (name, number) in &aliases {
        writeln!(out, "    ({name:?}, {number}),")?;
    }
    writeln!(
        out,
        "];\n\n/// Status and event codes by the Standard's names.\n#[allow(missing_docs, reason = \"the name is the documentation\")]\npub mod status {{\n    use super::Status;"
    )?;
    for (name, number) in &aliases {
        writeln!(out, "    pub const {name}: Status = Status({number});")?;
    }
    writeln!(out, "}}\n")?;
    Ok(())
}

/// Reports whether an entry is a status. The sections mix statuses and other enumerations; only
/// statuses are negative, and the only status of zero is success.
fn is_status(name: &str, number: i64) -> bool {
    number < 0 || name == "PMIX_SUCCESS"
}

fn constants(registry: &Registry, out: &mut String) -> Result<()> {
    let mut numbers = registry.numbers("other_numbers")?;
    numbers.extend(registry.numbers("status")?);
    numbers.retain(|(name, number)| !is_status(name, *number));
    let plain = |kind: &'static str| move |n: i64| format!("{kind}({n})");
    module(
        out,
        "data_type",
        "Type numbers of values",
        "DataType",
        registry.numbers("data_types")?,
        plain("DataType"),
    )?;
    module(
        out,
        "rank",
        "Special ranks",
        "Rank",
        registry.numbers("ranks")?,
        plain("Rank"),
    )?;
    module(
        out,
        "range",
        "Ranges of events",
        "u8",
        registry.numbers("ranges")?,
        |n| n.to_string(),
    )?;
    module(out, "number", "Other numbers", "u64", numbers, |n| {
        n.to_string()
    })?;
    for (table, section, kind) in [
        ("DATA_TYPE_NAMES", "data_types", "u16"),
        ("RANK_NAMES", "ranks", "u32"),
    ] {
        writeln!(
            out,
            "/// Names to print, by number.\npub static {table}: &[({kind}, &str)] = &["
        )?;
        for (name, number) in registry.numbers(section)? {
            writeln!(out, "    ({number}, {name:?}),")?;
        }
        writeln!(out, "];\n")?;
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    Ok(())
}

fn module(
    out: &mut String,
    name: &str,
    doc: &str,
    kind: &str,
    mut rows: Vec<(&str, i64)>,
    literal: impl Fn(i64) -> String,
) -> Result<()> {
    rows.sort_unstable();
    let import = if kind.starts_with(char::is_uppercase) {
        format!("    use super::{kind};\n")
    } else {
        String::new()
    };
    write!(
        out,
        "/// {doc} by the Standard's names.\n#[allow(missing_docs, reason = \"the name is the documentation\")]\npub mod {name} {{\n{import}"
    )?;
    for (row, number) in rows {
        writeln!(out, "    pub const {row}: {kind} = {};", literal(number))?;
    }
    writeln!(out, "}}\n")?;
    Ok(())
}
