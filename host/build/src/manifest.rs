//! `peal-module.toml`: the name, language, roles and capabilities of a project.
use crate::bundled::capabilities;
use peal_declaration::{ModuleDeclaration, SettingDeclaration, UsualDeployment};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// Name of the file that makes a directory a project.
pub const MANIFEST: &str = "peal-module.toml";

/// Role whose `init` gets the settings.
const LIFECYCLE: &str = "lifecycle";

/// A language with an SDK.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    /// Rust.
    Rust,
    /// C.
    C,
    /// C++.
    Cpp,
    /// Go.
    Go,
    /// Python.
    Python,
    /// JavaScript.
    Js,
    /// TypeScript.
    Ts,
}

impl Manifest {
    /// Returns the JSON Schema of manifests.
    pub fn schema() -> serde_json::Value {
        let generator = SchemaSettings::draft07().into_generator();
        generator.into_root_schema_for::<Manifest>().to_value()
    }
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 7] = [
        Language::Rust,
        Language::C,
        Language::Cpp,
        Language::Go,
        Language::Python,
        Language::Js,
        Language::Ts,
    ];

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Go => "go",
            Language::Python => "python",
            Language::Js => "js",
            Language::Ts => "ts",
        }
    }

    /// Returns the directories below `sdk/` that its projects have.
    pub fn sdks(self) -> &'static [&'static str] {
        match self {
            Language::Rust => &["rust"],
            Language::C => &["c"],
            // The library in C++ converts what the library in C gets from the host.
            Language::Cpp => &["c", "cpp"],
            Language::Go => &["go"],
            Language::Python => &["python"],
            Language::Js | Language::Ts => &["js"],
        }
    }

    /// Returns true if a component imports only what it uses, because the compiler removes the
    /// rest. Components in interpreted languages import what the manifest names.
    pub fn detects_imports(self) -> bool {
        matches!(
            self,
            Language::Rust | Language::C | Language::Cpp | Language::Go
        )
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
            let all = Language::ALL.map(Language::name).join(", ");
            format!("{text:?} should be a language with an SDK: {all}")
        })
    }
}

/// Content of a `peal-module.toml`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest {
    /// The name of the component's file: `NAME.wasm`.
    pub name: String,
    /// The language of the project.
    pub language: Language,
    /// The roles that the module exports, by their names in the contract.
    pub roles: Vec<String>,
    /// The imported capabilities, for languages whose compiler cannot find them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// The directory of the SDKs, beside the contract.
    #[serde(default = "default_sdk", skip_serializing_if = "is_default_sdk")]
    pub sdk: PathBuf,
    /// Purpose of the module, in one line. A module with a description is in the catalogue of its
    /// directory (`peal module list --available`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Description of the module, in Markdown, for its page of the catalogue.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub purpose: String,
    /// Configuration beside the `[[module]]` that its example needs, such as a `[[sink]]`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub beside: String,
    /// The other keys of a usual `[[module]]`.
    #[serde(default, skip_serializing_if = "UsualDeployment::is_empty")]
    pub deployment: UsualDeployment,
    /// The settings of the module. If they are declared, a server refuses all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Vec<SettingDeclaration>>,
}

fn default_sdk() -> PathBuf {
    PathBuf::from("sdk")
}

fn is_default_sdk(sdk: &PathBuf) -> bool {
    *sdk == default_sdk()
}

impl Manifest {
    /// Creates the manifest of a new project.
    pub fn new(name: &str, language: Language, roles: Vec<String>) -> Manifest {
        Manifest {
            name: name.to_owned(),
            language,
            roles,
            capabilities: Vec::new(),
            sdk: default_sdk(),
            description: String::new(),
            purpose: String::new(),
            beside: String::new(),
            deployment: UsualDeployment::default(),
            settings: None,
        }
    }

    /// Returns what a component carries of the manifest.
    pub fn declaration(&self) -> ModuleDeclaration {
        ModuleDeclaration {
            name: self.name.clone(),
            description: self.description.clone(),
            settings: self.settings.clone(),
            deployment: self.deployment.clone(),
        }
    }

    /// Parses a manifest. Errors say what would be right.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        let manifest: Manifest =
            // The messages of the parser end with a line break.
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if !is_name(&manifest.name) {
            return Err(format!("name = {:?}: {NAME_RULE}", manifest.name));
        }
        if manifest.language.detects_imports() && !manifest.capabilities.is_empty() {
            return Err(format!(
                "capabilities are for Python, JavaScript and TypeScript; the compiler finds those of a module in {}: remove the line",
                manifest.language
            ));
        }
        if let Some(unknown) = manifest
            .capabilities
            .iter()
            // An unknown one would be an error of the component tools, without the list of valid
            // ones.
            .find(|name| capabilities().all(|known| known != *name))
        {
            let known = capabilities().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "capabilities: {unknown:?} is unknown; valid are {known}"
            ));
        }
        if manifest.roles.is_empty() {
            return Err("roles = []: name at least one, such as \"event-handler\"".to_owned());
        }
        manifest
            .declaration()
            .check()
            .map_err(|error| error.to_string())?;
        // Without `init` no setting reaches the module.
        if manifest.settings.iter().flatten().next().is_some()
            && !manifest.roles.iter().any(|role| role == LIFECYCLE)
        {
            return Err(format!(
                "settings: {LIFECYCLE:?} is not among the roles; add it, since its `init` gets the settings"
            ));
        }
        Ok(manifest)
    }
}

/// Rule for names, as text.
pub(crate) const NAME_RULE: &str = "a name has small letters, digits and single dashes, begins with a letter, and has at most 64 of them";

/// Returns true if `name` is valid for a project.
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
