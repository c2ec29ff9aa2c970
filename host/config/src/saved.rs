//! Modules as a document that is read back with the same result at any place. The store keeps such
//! documents of the modules that ran.
use crate::{
    document::{ModuleEntry, ParsedSettings},
    module_settings::Module,
    parser::{DocumentParser, TextSource},
    problem::{Problem, Problems},
    table::SettingsTable,
};
use std::{fmt::Write, path::Path};

/// Returns the given settings of these modules as a document.
pub fn saved<'a>(modules: impl IntoIterator<Item = &'a ModuleEntry>) -> String {
    let mut document = String::new();
    for module in modules {
        document.push_str("[[module]]\n");
        for setting in Module::ALL
            .iter()
            // Settings with their defaults are left out, so that they do not count as given when
            // they are read.
            .filter(|setting| module.origin_of(setting.key).is_some())
        {
            if let Some(value) = setting.value(&module.settings) {
                let name = setting.key.strip_prefix("module.").unwrap_or(setting.key);
                // A write to a string cannot fail.
                let _ = writeln!(document, "{name} = {value}");
            }
        }
    }
    document
}

/// Reads the modules of a document. Problems name the document by `name`; relative paths start at
/// `base`.
pub fn recalled(
    document: &str,
    name: &Path,
    base: &Path,
    capabilities: &[&'static str],
) -> Result<Vec<ModuleEntry>, Problems> {
    let mut settings = ParsedSettings::default();
    let mut problems = Vec::<Problem>::new();
    let mut reading = DocumentParser {
        source: TextSource::file(name, document),
        base: base.to_owned(),
        capabilities,
        problems: &mut problems,
        found: 0,
        key: "",
    };
    // The document has the form of a drop-in, which holds modules only.
    settings.take_drop_in(document, &mut reading);
    if problems.is_empty() {
        Ok(settings.modules)
    } else {
        Err(Problems(problems))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_back_as_they_were() {
        let text = r#"
[[module]]
name = "quota \"one\""
path = "/usr/lib/peal/quota.wasm"
placement = { before = "night" }
codes = ["PMIX_ERR_PROC_ABORTED", -3001]
affected = ["solver:0", "render:*"]
grants = ["state"]
scope = "user:0"
on_failure = "pass"
limits.call_time_ms = 20
config = { per_minute = 60, exempt = "root", rate = 1.5 }
[[module]]
name = "night"
path = "/usr/lib/peal/night.wasm"
event_classes = "both"
"#;
        let read =
            |text: &str| recalled(text, Path::new("v1"), Path::new("/"), &["state"]).unwrap();
        let first = read(text);
        let again = read(&saved(&first));
        let settings = |entries: &[ModuleEntry]| {
            entries
                .iter()
                .map(|entry| entry.settings.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(settings(&first), settings(&again));
        assert_eq!(first.len(), 2);
        assert!(
            again[0].origin_of("module.on_failure").is_some()
                && again[1].origin_of("module.on_failure").is_none()
        );
        assert!(
            recalled("[[module]]\nname = 1", Path::new("v1"), Path::new("/"), &[])
                .unwrap_err()
                .to_string()
                .starts_with("v1:2:8")
        );
        assert!(
            recalled("", Path::new("v1"), Path::new("/"), &[])
                .unwrap()
                .is_empty()
        );
    }
}
