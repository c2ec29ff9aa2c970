//! The pages of the modules that ship, from their manifests and components: one for each, and a list.
use super::{cell, printed};
use crate::guests::{ShippedGuest, shipped};
use anyhow::{Context, Result, ensure};
use peal_build::Manifest;
use peal_declaration::{ModuleFile, SettingDeclaration, SettingValues};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write, fs, path::Path};
use toml::Table;

/// Directory of the pages.
const DIRECTORY: &str = "docs/src/catalogue";
/// Page that lists the modules.
const LIST: &str = "docs/src/catalogue.md";
/// Table of contents of the book, and the heading before which the list of pages ends.
const SUMMARY: &str = "docs/src/SUMMARY.md";
/// Heading of the pages in the table of contents.
const HEADING: &str = "# Catalogue of modules\n\n";

/// Grants and roles of a component, as `peal module list --available` prints them.
struct ListedModule {
    roles: Vec<String>,
    grants: Vec<String>,
}

/// Returns the paths of the pages relative to the root of the repository, and their contents.
pub fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let guests = shipped(root)?;
    let listed = listed(root)?;
    let mut pages = Vec::new();
    let mut list = String::from(
        "# Catalogue\n\nGenerated from the manifests in `guests/` by `cargo xtask docs`. `peal module list --available` lists these modules, and \
         `peal module add NAME` puts one into `modules.d` with all its settings ([Modules on a server](admin/modules.md)).\n\n\
         | module | language | purpose |\n|---|---|---|\n",
    );
    for guest in &guests {
        let manifest = &guest.manifest;
        let name = &manifest.name;
        writeln!(
            list,
            "| [`{name}`](catalogue/{name}.md) | {} | {} |",
            manifest.language,
            cell(&manifest.description)
        )?;
        match listed.get(name) {
            Some(module) => {
                pages.push((format!("{DIRECTORY}/{name}.md"), page(root, guest, module)?))
            }
            // The tools of its language are missing here, and its grants are unknown.
            None => {
                println!("left out: the page of {name}, whose component is not in target/guests")
            }
        }
    }
    pages.push((LIST.to_owned(), list));
    pages.push((SUMMARY.to_owned(), summary(root, &guests)?));
    Ok(pages)
}

/// Checks that each page is of a module that ships.
///
/// # Errors
/// Names a page that is left of a module that was removed or renamed.
pub fn check_others(root: &Path) -> Result<()> {
    let guests = shipped(root)?;
    for entry in fs::read_dir(root.join(DIRECTORY)).context(DIRECTORY)? {
        let file = entry?.file_name();
        let name = Path::new(&file).with_extension("");
        let is_known = |guest: &ShippedGuest| Path::new(&guest.manifest.name) == name;
        ensure!(
            guests.iter().any(is_known),
            "{DIRECTORY}/{} is the page of no shipped module; remove it",
            file.display()
        );
    }
    Ok(())
}

fn listed(root: &Path) -> Result<BTreeMap<String, ListedModule>> {
    let words = [
        "module",
        "list",
        "--available",
        "-o",
        "json",
        "--from",
        "target/guests",
    ];
    let all: Vec<Value> = serde_json::from_str(&printed(root, &words)?)?;
    let texts = |value: &Value, key: &str| -> Vec<String> {
        let items = value.get(key).and_then(Value::as_array);
        let texts = items.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let module = |value: &Value| {
        let name = value.get("name")?.as_str()?.to_owned();
        let roles = texts(value, "roles");
        let grants = texts(value, "grants");
        Some((name, ListedModule { roles, grants }))
    };
    Ok(all.iter().filter_map(module).collect())
}

/// Returns the table of contents with one line for each page.
fn summary(root: &Path, guests: &[ShippedGuest]) -> Result<String> {
    let text = fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    let (before, rest) = text
        .split_once(HEADING)
        .with_context(|| format!("{SUMMARY} has no heading {HEADING:?}"))?;
    let after = rest.find("\n# ").and_then(|at| rest.get(at..));
    let after = after.with_context(|| format!("{SUMMARY} has nothing after {HEADING:?}"))?;
    let mut text = format!("{before}{HEADING}- [Catalogue](catalogue.md)\n");
    for ShippedGuest { manifest, .. } in guests {
        let name = &manifest.name;
        writeln!(text, "  - [{name}](catalogue/{name}.md)")?;
    }
    text += after;
    Ok(text)
}

fn page(root: &Path, guest: &ShippedGuest, module: &ListedModule) -> Result<String> {
    let manifest = &guest.manifest;
    let mut promised = manifest.roles.clone();
    let mut exported = module.roles.clone();
    promised.sort_unstable();
    exported.sort_unstable();
    ensure!(
        promised == exported,
        "{}: the manifest says roles = {promised:?}, but the component has {exported:?}",
        manifest.name
    );
    let code = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let mut page = format!(
        "# {}\n\n{}\n\n{}\n\n| | |\n|---|---|\n| roles | {} |\n| grants | {} |\n| language | {} |\n\n",
        manifest.name,
        manifest.description,
        manifest.purpose.trim(),
        code(&exported),
        code(&module.grants),
        manifest.language,
    );
    page += "## Settings\n\n";
    page += &match manifest.settings.as_deref() {
        None | Some([]) => "The module has no settings.\n\n".to_owned(),
        Some(settings) => table(settings),
    };
    page += &example(manifest, &module.grants);
    page += &cases(root, guest)?;
    Ok(page)
}

fn table(settings: &[SettingDeclaration]) -> String {
    let mut text = String::from("| setting | valid | without it | meaning |\n|---|---|---|---|\n");
    for setting in settings {
        let unset = match (&setting.unset, &setting.default) {
            _ if setting.required => "required".to_owned(),
            (Some(unset), _) => unset.clone(),
            (None, Some(default)) => format!("`{}`", default.toml()),
            (None, None) => String::new(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            setting.name,
            cell(&setting.wanted()),
            cell(&unset),
            cell(&setting.description)
        );
    }
    text.push('\n');
    text
}

/// Returns the example: the settings that have one, and what must stand beside the module.
fn example(manifest: &Manifest, grants: &[String]) -> String {
    let settings = manifest.settings.iter().flatten();
    let values: SettingValues = settings
        .filter_map(|setting| Some((setting.name.clone(), setting.example.clone()?)))
        .collect();
    let grants: Vec<&str> = grants.iter().map(String::as_str).collect();
    let file = ModuleFile {
        declaration: &manifest.declaration(),
        name: &manifest.name,
        path: &format!("/usr/share/peal/modules/{}.wasm", manifest.name),
        grants: &grants,
        values: &values,
    };
    let beside = match manifest.beside.trim() {
        "" => String::new(),
        beside => format!("{beside}\n\n"),
    };
    format!("## Example\n\n```toml\n{beside}{}```\n\n", file.short())
}

/// Returns the list of the cases beside the sources.
fn cases(root: &Path, guest: &ShippedGuest) -> Result<String> {
    let dir = guest.dir.join("tests");
    let mut files: Vec<_> = fs::read_dir(&dir)
        .with_context(|| format!("{} ships without cases", guest.manifest.name))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    let mut text = String::from("## Cases\n");
    for file in files {
        let shown = file.strip_prefix(root).unwrap_or(&file).display();
        let cases: Table = fs::read_to_string(&file)?
            .parse()
            .with_context(|| shown.to_string())?;
        write!(text, "\n`{shown}`:\n\n")?;
        let cases = cases.get("case").and_then(toml::Value::as_array);
        for case in cases.into_iter().flatten() {
            if let Some(name) = case.get("name").and_then(toml::Value::as_str) {
                writeln!(text, "- {}", cell(name))?;
            }
        }
    }
    Ok(text)
}
