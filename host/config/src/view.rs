//! Output of `peal config show`: every setting with its value and origin, as TOML or as JSON.
use crate::{
    document::TableEntry,
    layers::Resolved,
    problem::ProblemOrigin,
    settings::Config,
    table::{Setting, SettingsTable},
};
use serde::Serialize;
use std::{fmt, path::PathBuf};
use toml::Value;

/// Setting with its value.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shown {
    /// Whole key.
    pub key: &'static str,
    /// Value; `None` if it is unset.
    pub value: Option<Value>,
    /// Effect of an unset value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unset: Option<&'static str>,
    /// Origin of the value.
    pub origin: ProblemOrigin,
}

/// Configuration with its values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    /// Files that were read.
    pub files: Vec<PathBuf>,
    /// All settings except those of modules.
    pub settings: Vec<Shown>,
    /// Settings of each module.
    pub modules: Vec<Vec<Shown>>,
    /// Settings of each sink.
    pub sinks: Vec<Vec<Shown>>,
}

impl Resolved {
    /// Returns the configuration for display.
    pub fn view(&self) -> View {
        let settings = Config::ALL
            .iter()
            .map(|setting| shown(setting, &self.config, self.origin(setting.key)));
        let modules = self.modules.iter().map(entry);
        let sinks = self.sinks.iter().map(entry);
        View {
            files: self.files.clone(),
            settings: settings.collect(),
            modules: modules.collect(),
            sinks: sinks.collect(),
        }
    }
}

fn entry<T: SettingsTable>(entry: &TableEntry<T>) -> Vec<Shown> {
    let origin = |setting: &Setting<T>| {
        entry
            .origin_of(setting.key)
            .unwrap_or(&ProblemOrigin::BuiltIn)
    };
    T::ALL
        .iter()
        .map(|setting| shown(setting, &entry.settings, origin(setting)))
        .collect()
}

fn shown<T: SettingsTable>(setting: &Setting<T>, of: &T, origin: &ProblemOrigin) -> Shown {
    let value = setting.value(of);
    let unset = if value.is_none() {
        setting.unset()
    } else {
        None
    };
    Shown {
        key: setting.key,
        value,
        unset,
        origin: origin.clone(),
    }
}

impl fmt::Display for View {
    /// Writes a file with the same settings, and the origins as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files[..] {
            [] => writeln!(f, "# no file was read")?,
            files => files
                .iter()
                .try_for_each(|file| writeln!(f, "# read: {}", file.display()))?,
        }
        let mut section = "";
        for shown in &self.settings {
            // In the table, the settings of a section follow each other.
            let (name, rest) = shown.key.split_once('.').unwrap_or(("", shown.key));
            if name != section {
                section = name;
                writeln!(f, "\n[{section}]")?;
            }
            write_line(f, rest, shown)?;
        }
        for (head, entries) in [("sink", &self.sinks), ("module", &self.modules)] {
            for entry in entries {
                writeln!(f, "\n[[{head}]]")?;
                for shown in entry {
                    write_line(f, rest(shown.key, head), shown)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns a key without the heading of its table.
fn rest<'k>(key: &'k str, head: &str) -> &'k str {
    key.strip_prefix(head)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(key)
}

fn write_line(f: &mut fmt::Formatter<'_>, name: &str, shown: &Shown) -> fmt::Result {
    let line = match &shown.value {
        Some(value) => format!("{name} = {value}"),
        // TOML has no value for an unset setting.
        None => format!("# {name}: {}", shown.unset.unwrap_or("not set")),
    };
    writeln!(f, "{line:<44}  # {}", shown.origin)
}
