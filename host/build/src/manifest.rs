//! `peal-module.toml`: what a project is called, which language it is in, what it does and what it asks for.
use crate::bundled::capabilities;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// The name of the file that makes a directory a project.
pub const MANIFEST: &str = "peal-module.toml";

/// A language that there is an SDK for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    /// Rust.
    Rust,
    /// C; C++ by its own means.
    C,
    /// Python.
    Python,
    /// JavaScript, with types for TypeScript.
    Js,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 4] = [Language::Rust, Language::C, Language::Python, Language::Js];

    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Python => "python",
            Language::Js => "js",
        }
    }

    /// Whether a component asks for just what it uses, because its compiler leaves out the rest. Interpreted languages ask for what
    /// the manifest says.
    pub fn asks_for_what_it_uses(self) -> bool {
        matches!(self, Language::Rust | Language::C)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Language, String> {
        let known = Language::ALL
            .into_iter()
            .find(|language| language.name() == text);
        known.ok_or_else(|| {
            format!("there is no SDK for {text:?}; there is one for rust, c, python and js")
        })
    }
}

/// The contents of a `peal-module.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest {
    /// What the component is called: `NAME.wasm`.
    pub name: String,
    /// The language that it is in.
    pub language: Language,
    /// The roles that it fills, by the names of the contract.
    pub roles: Vec<String>,
    /// The capabilities that it asks for; only where the language cannot tell what is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Where the SDKs are, beside the contract.
    #[serde(default = "default_sdk", skip_serializing_if = "is_default_sdk")]
    pub sdk: PathBuf,
}

fn default_sdk() -> PathBuf {
    PathBuf::from("sdk")
}

fn is_default_sdk(sdk: &PathBuf) -> bool {
    *sdk == default_sdk()
}

impl Manifest {
    /// One for a new project.
    pub fn new(name: &str, language: Language, roles: Vec<String>) -> Manifest {
        Manifest {
            name: name.to_owned(),
            language,
            roles,
            capabilities: Vec::new(),
            sdk: default_sdk(),
        }
    }

    /// Reads one. What is wrong is said in words, with what would be right.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        let manifest: Manifest =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if !is_name(&manifest.name) {
            return Err(format!("name = {:?}: {NAME_RULE}", manifest.name));
        }
        if manifest.language.asks_for_what_it_uses() && !manifest.capabilities.is_empty() {
            return Err(format!(
                "capabilities are for Python and JavaScript; a module in {} asks for what it calls: take the line out",
                manifest.language
            ));
        }
        if let Some(unknown) = manifest
            .capabilities
            .iter()
            .find(|name| capabilities().all(|known| known != *name))
        {
            let known = capabilities().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "capabilities: there is no {unknown:?}; there are {known}"
            ));
        }
        if manifest.roles.is_empty() {
            return Err("roles = []: name at least one, such as \"event-handler\"".to_owned());
        }
        Ok(manifest)
    }
}

/// What may be a name.
pub(crate) const NAME_RULE: &str = "a name has small letters, digits and single dashes, begins with a letter, and has at most 64 of them";

/// Whether a project may be called this.
pub fn is_name(name: &str) -> bool {
    let parts = || name.split('-');
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && parts().all(|part| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit())
        })
}
