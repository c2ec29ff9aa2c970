//! Layers of settings: built-in, file, drop-ins, environment, command line. Each overrides those
//! before it.
use crate::{
    document::{DocumentPart, ModuleEntry, Origins, ParsedSettings, SinkEntry, unknown_key},
    files::{self, FileError},
    nearest::{instead, nearest},
    parser::{DocumentParser, TextSource},
    problem::{Problem, ProblemOrigin, Problems},
    settings::Config,
    shares::{self, SystemResources},
    table::{Setting, SettingsTable},
    values::SinkName,
};
use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};
use toml::{Spanned, de::DeValue};

/// Variable that names the file.
const FILE_VARIABLE: &str = "PEAL_CONFIG";
/// Variables of Peal that are not settings.
const OTHER_VARIABLES: [&str; 4] = [FILE_VARIABLE, "PEAL_LOG", "PEAL_PROC", "PEAL_CHECKPOINT"];

/// Setting given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingOverride {
    /// Option that gave it, as messages show it.
    pub option: String,
    /// Whole key.
    pub key: String,
    /// Value in the form of a file; a string needs no quotes.
    pub value: String,
}

impl SettingOverride {
    /// Parses the argument of `--set KEY=VALUE`; `None` without a `=`.
    pub fn set(text: &str) -> Option<SettingOverride> {
        let (key, value) = text.split_once('=')?;
        let key = key.trim().to_owned();
        let value = value.trim().to_owned();
        Some(SettingOverride {
            option: format!("--set {key}"),
            key,
            value,
        })
    }

    /// Creates the setting of an option of its own, such as `--on-abort`.
    pub fn option(option: &str, key: &str, value: String) -> SettingOverride {
        SettingOverride {
            option: option.to_owned(),
            key: key.to_owned(),
            value,
        }
    }
}

/// Sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigSources {
    /// File that the command line names, which must exist.
    pub file: Option<PathBuf>,
    /// Environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Settings of the command line; later ones override earlier ones.
    pub overrides: Vec<SettingOverride>,
    /// Names of the capabilities that can be granted.
    pub capabilities: Vec<&'static str>,
    /// Resources that settings must not exceed.
    pub system: SystemResources,
}

/// Configuration with the origins of its values.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// All settings except those of modules.
    pub config: Config,
    /// Modules of the site, in the order of their registration.
    pub modules: Vec<ModuleEntry>,
    /// Sinks that it opens.
    pub sinks: Vec<SinkEntry>,
    /// Files that were read.
    pub files: Vec<PathBuf>,
    pub(crate) origins: Origins,
}

impl Resolved {
    /// Returns the origin of a setting.
    pub fn origin(&self, key: &str) -> &ProblemOrigin {
        self.origins.get(key).unwrap_or(&ProblemOrigin::BuiltIn)
    }
}

/// Configuration as far as it is valid, and all its problems.
#[derive(Clone, Debug)]
pub struct ConfigCheck {
    /// Configuration with defaults in the place of invalid values.
    pub resolved: Resolved,
    /// All problems.
    pub problems: Vec<Problem>,
}

impl ConfigSources {
    /// Reads all layers.
    ///
    /// # Errors
    ///
    /// All problems at once.
    pub fn load(&self) -> Result<Resolved, Problems> {
        self.read(DocumentPart::Whole).usable()
    }

    /// Reads all layers except the modules, for a server that takes its modules from elsewhere
    /// because their configuration is invalid.
    pub fn load_settings(&self) -> Result<Resolved, Problems> {
        self.read(DocumentPart::Settings).usable()
    }

    /// Reads the settings of these sections from all layers. Problems of other sections in files
    /// and the environment are ignored.
    pub fn load_sections(&self, sections: &[&str]) -> Result<Resolved, Problems> {
        self.read(DocumentPart::Sections(sections)).usable()
    }

    /// Reads all layers, and returns their valid part with the problems.
    pub fn check(&self) -> ConfigCheck {
        self.read(DocumentPart::Whole)
    }

    fn read(&self, extent: DocumentPart<'_>) -> ConfigCheck {
        let parsed = ParsedSettings::default();
        let mut layers = Layers {
            sources: self,
            extent,
            parsed,
            files: Vec::new(),
            problems: Vec::new(),
        };
        layers.read_files();
        layers.read_environment();
        layers.read_command_line();
        // These compare settings with each other, so all layers must have been read.
        layers.match_sinks();
        layers.check_shares();
        let Layers {
            parsed:
                ParsedSettings {
                    config,
                    origins,
                    modules,
                    sinks,
                },
            files,
            problems,
            ..
        } = layers;
        ConfigCheck {
            resolved: Resolved {
                config,
                modules,
                sinks,
                files,
                origins,
            },
            problems,
        }
    }

    /// Returns the path of the main file, whether it exists or not.
    pub fn main_file(&self) -> Option<PathBuf> {
        self.place().map(|(path, _)| path)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.environment
            .iter()
            .find(|variable| variable.0 == name)
            .map(|variable| variable.1.clone())
    }

    /// Returns the path of the main file, and whether it must exist. An empty `PEAL_CONFIG` means
    /// no file.
    fn place(&self) -> Option<(PathBuf, Presence)> {
        if let Some(file) = &self.file {
            return Some((file.clone(), Presence::Required));
        }
        match self.variable(FILE_VARIABLE) {
            Some(file) if file.is_empty() => None,
            Some(file) => Some((file.into(), Presence::Required)),
            None => files::usual_place(|name| self.variable(name))
                .map(|file| (file, Presence::Optional)),
        }
    }
}

impl ConfigCheck {
    /// Returns the configuration if it has no problems.
    fn usable(self) -> Result<Resolved, Problems> {
        if self.problems.is_empty() {
            Ok(self.resolved)
        } else {
            Err(Problems(self.problems))
        }
    }
}

enum Presence {
    Required,
    Optional,
}

/// Layers that are read in turn.
struct Layers<'a> {
    sources: &'a ConfigSources,
    extent: DocumentPart<'a>,
    parsed: ParsedSettings,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl Layers<'_> {
    /// Reads the files. An unreadable file does not prevent the others from being read.
    fn read_files(&mut self) {
        // Without a file there is no directory for drop-ins beside it.
        let Some((path, presence)) = self.sources.place() else {
            return;
        };
        let extent = self.extent;
        match (files::read(&path), presence) {
            (Ok(Some(text)), _) => {
                self.read_file(&path, &text, |parsed, text, reading| {
                    parsed.take_main(text, extent, reading)
                });
            }
            (Ok(None), Presence::Optional) => {}
            (Ok(None), Presence::Required) => {
                let source = rustix::io::Errno::NOENT.into();
                // Drop-ins beside a missing file are not meant.
                return self.not_read(&FileError::Read { path, source });
            }
            (Err(error), _) => self.not_read(&error),
        }
        if extent == DocumentPart::Whole {
            match files::drop_ins(&path) {
                Ok(drop_ins) => drop_ins.iter().for_each(|path| self.read_drop_in(path)),
                Err(error) => self.not_read(&error),
            }
        }
    }

    fn read_drop_in(&mut self, path: &Path) {
        match files::read(path) {
            Ok(Some(text)) => self.read_file(path, &text, ParsedSettings::take_drop_in),
            // The file was removed since the directory was listed.
            Ok(None) => {}
            Err(error) => self.not_read(&error),
        }
    }

    fn not_read(&mut self, error: &FileError) {
        self.problems.push(Problem::of_file(error.to_string()));
    }

    fn read_file(
        &mut self,
        path: &Path,
        text: &str,
        take: impl FnOnce(&mut ParsedSettings, &str, &mut DocumentParser<'_>),
    ) {
        self.files.push(path.to_owned());
        // Paths in a file are absolute also if the file was named by a relative path.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let base = absolute.parent().unwrap_or(Path::new("")).to_owned();
        let mut reading = DocumentParser {
            source: TextSource::file(path, text),
            base,
            capabilities: &self.sources.capabilities,
            problems: &mut self.problems,
            found: 0,
            key: "",
        };
        take(&mut self.parsed, text, &mut reading);
    }

    /// Checks the shares of users.
    fn check_shares(&mut self) {
        let ParsedSettings {
            config, origins, ..
        } = &self.parsed;
        self.problems
            .extend(shares::check(config, origins, self.sources.system));
    }

    /// Checks the sinks, and that the sinks named by modules exist.
    fn match_sinks(&mut self) {
        let ParsedSettings { modules, sinks, .. } = &self.parsed;
        // Sinks with invalid settings were reported already; a check of the combination would only
        // confuse.
        let sound = sinks.iter().filter(|sink| !sink.is_flawed());
        self.problems.extend(
            sound
                .filter_map(|sink| sink.to_open().err())
                .flat_map(|problems| problems.0),
        );
        for module in modules {
            for wanted in &module.settings.sinks {
                // The other names are built in and need no table.
                let SinkName::Opened(name) = wanted else {
                    continue;
                };
                // A flawed sink exists. Only its own problem is reported.
                if sinks.iter().all(|sink| sink.settings.name != *name) {
                    let known = SinkName::BUILT_IN
                        .into_iter()
                        .chain(sinks.iter().map(|sink| &*sink.settings.name));
                    let hint = instead(name, &known.collect::<Vec<_>>());
                    let message = format!("module.sinks: no [[sink]] is called {name:?}; {hint}");
                    self.problems.push(module.problem("module.sinks", message));
                }
            }
        }
    }

    fn read_environment(&mut self) {
        let wanted = Config::ALL
            .iter()
            .filter(|setting| self.extent.has_setting(setting.key));
        let settings: Vec<(String, &'static Setting<Config>)> = wanted
            .map(|setting| (setting.variable(), setting))
            .collect();
        for (name, value) in &self.sources.environment {
            let Some(name) = name
                .to_str()
                .filter(|name| name.starts_with("PEAL_") && !OTHER_VARIABLES.contains(name))
            else {
                continue;
            };
            let source = TextSource::Variable(name.to_owned());
            if let Some((_, setting)) = settings.iter().find(|setting| setting.0 == name) {
                self.read_value(setting, value, source);
            // Not every unknown variable is a problem: builds of modules read `PEAL_TOOLS`.
            } else if let Some(message) = unknown_variable(name, &settings, self.extent) {
                self.problems
                    .push(Problem::new(source.origin(&(0..0)), message));
            }
        }
    }

    fn read_command_line(&mut self) {
        // Also settings of sections that are not read: what was typed for this command is not
        // ignored.
        for given in &self.sources.overrides {
            let source = TextSource::Option(given.option.clone());
            match Setting::<Config>::of(&given.key) {
                Some(setting) => self.read_value(setting, OsStr::new(&given.value), source),
                None => self.problems.push(Problem::new(
                    source.origin(&(0..0)),
                    unknown_key(&given.key),
                )),
            }
        }
    }

    fn read_value(&mut self, setting: &'static Setting<Config>, text: &OsStr, source: TextSource) {
        let origin = source.origin(&(0..0));
        let Some(text) = text.to_str() else {
            self.problems.push(Problem::new(
                origin,
                format!(
                    "{} is no UTF-8; it should be {}",
                    setting.key,
                    setting.accepted_values()
                ),
            ));
            return;
        };
        let mut reading = DocumentParser {
            source,
            // These layers are in no file, so that relative paths start at the working directory.
            base: std::env::current_dir().unwrap_or_default(),
            capabilities: &self.sources.capabilities,
            problems: &mut self.problems,
            found: 0,
            key: setting.key,
        };
        let value = match DeValue::parse(text) {
            Ok(value) if value.get_ref().is_str() || !(setting.is_text)() => value,
            // A string needs no quotes. Text that is no value of TOML is reported as it is.
            _ => Spanned::new(0..text.len(), DeValue::String(Cow::Borrowed(text))),
        };
        (setting.read)(&mut self.parsed.config, &value, &mut reading);
        self.parsed.origins.insert(setting.key, origin);
    }
}

/// Returns the message for a variable of Peal that is not a setting; `None` unless it resembles one
/// or begins like one.
fn unknown_variable(
    name: &str,
    settings: &[(String, &'static Setting<Config>)],
    extent: DocumentPart<'_>,
) -> Option<String> {
    // A setting of a section that is not read is not unknown.
    if extent != DocumentPart::Whole && Config::ALL.iter().any(|setting| setting.variable() == name)
    {
        return None;
    }
    let near = nearest(name, settings.iter().map(|setting| setting.0.as_str()));
    let is_wanted = |section: &str| match extent {
        DocumentPart::Sections(wanted) => wanted.contains(&section),
        // The table as a whole is in the list as a section without a name.
        DocumentPart::Whole | DocumentPart::Settings => !section.is_empty(),
    };
    let mut sections = Config::SECTIONS
        .iter()
        .filter(|section| is_wanted(section.0));
    let is_of_section =
        sections.any(|section| name.starts_with(&format!("PEAL_{}_", section.0.to_uppercase())));
    match near {
        Some(near) => Some(format!("unknown setting; did you mean `{near}`?")),
        None if is_of_section => {
            Some("unknown setting; `peal config show` lists all keys".to_owned())
        }
        None => None,
    }
}
