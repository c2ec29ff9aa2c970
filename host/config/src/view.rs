//! What `peal config show` prints: every setting, its value and its origin, for people (as TOML) or as JSON.
use crate::{
    layers::Resolved,
    problem::Origin,
    settings::{Config, Module},
    table::{Setting, Settings},
};
use serde::Serialize;
use std::{fmt, path::PathBuf};
use toml::Value;

/// A setting as it is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shown {
    /// The whole key.
    pub key: &'static str,
    /// Its value; none where nothing is set.
    pub value: Option<Value>,
    /// What holds where nothing is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unset: Option<&'static str>,
    /// Where it comes from.
    pub origin: Origin,
}

/// A configuration as it is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// All settings but those of modules.
    pub settings: Vec<Shown>,
    /// The settings of each module.
    pub modules: Vec<Vec<Shown>>,
}

impl Resolved {
    /// All of it, to be shown.
    pub fn view(&self) -> View {
        let settings = Config::ALL.iter().map(|setting| shown(setting, &self.config, self.origin(setting.key)));
        let modules = self.modules.iter().map(|module| {
            let origin = |setting: &Setting<Module>| module.given(setting.key).unwrap_or(&Origin::BuiltIn);
            Module::ALL.iter().map(|setting| shown(setting, &module.settings, origin(setting))).collect()
        });
        View { files: self.files.clone(), settings: settings.collect(), modules: modules.collect() }
    }
}

fn shown<T: Settings>(setting: &Setting<T>, of: &T, origin: &Origin) -> Shown {
    let value = setting.value(of);
    let unset = if value.is_none() { setting.unset() } else { None };
    Shown { key: setting.key, value, unset, origin: origin.clone() }
}

impl fmt::Display for View {
    /// As a file that says the same, the origins as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files[..] {
            [] => writeln!(f, "# no file was read")?,
            files => files.iter().try_for_each(|file| writeln!(f, "# read: {}", file.display()))?,
        }
        let mut section = "";
        for shown in &self.settings {
            let (name, rest) = shown.key.split_once('.').unwrap_or(("", shown.key));
            if name != section {
                section = name;
                writeln!(f, "\n[{section}]")?;
            }
            write_line(f, rest, shown)?;
        }
        for module in &self.modules {
            writeln!(f, "\n[[module]]")?;
            for shown in module {
                write_line(f, shown.key.strip_prefix("module.").unwrap_or(shown.key), shown)?;
            }
        }
        Ok(())
    }
}

fn write_line(f: &mut fmt::Formatter<'_>, name: &str, shown: &Shown) -> fmt::Result {
    let line = match &shown.value {
        Some(value) => format!("{name} = {value}"),
        None => format!("# {name}: {}", shown.unset.unwrap_or("not set")),
    };
    writeln!(f, "{line:<44}  # {}", shown.origin)
}
