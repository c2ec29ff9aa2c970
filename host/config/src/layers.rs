//! The layers that settings come from: built-in, file, drop-ins, environment, command line; each overrides those before.
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

/// The variable that names the file.
const FILE_VARIABLE: &str = "PEAL_CONFIG";
/// Variables of Peal that are no settings.
const OTHER_VARIABLES: [&str; 4] = [FILE_VARIABLE, "PEAL_LOG", "PEAL_PROC", "PEAL_CHECKPOINT"];

/// A setting given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingOverride {
    /// The option that gave it, as a message shows it.
    pub option: String,
    /// The whole key.
    pub key: String,
    /// The value, as a file has it; a text needs no quotes.
    pub value: String,
}

impl SettingOverride {
    /// What `--set KEY=VALUE` gives; none where there is no `=`.
    pub fn set(text: &str) -> Option<SettingOverride> {
        let (key, value) = text.split_once('=')?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        Some(SettingOverride {
            option: format!("--set {key}"),
            key,
            value,
        })
    }

    /// What an option of its own gives, such as `--on-abort`.
    pub fn option(option: &str, key: &str, value: String) -> SettingOverride {
        SettingOverride {
            option: option.to_owned(),
            key: key.to_owned(),
            value,
        }
    }
}

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct ConfigSources {
    /// The file that the command line names, which must be there.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// What the command line gives; later ones override earlier ones.
    pub given: Vec<SettingOverride>,
    /// The names of the capabilities that can be granted.
    pub capabilities: Vec<&'static str>,
    /// The resources that settings may not exceed.
    pub system: SystemResources,
}

/// A configuration and where it comes from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// All settings but those of modules.
    pub config: Config,
    /// The site's modules, in the order of their registration.
    pub modules: Vec<ModuleEntry>,
    /// The ways out that it opens.
    pub sinks: Vec<SinkEntry>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    pub(crate) origins: Origins,
}

impl Resolved {
    /// Where a setting comes from.
    pub fn origin(&self, key: &str) -> &ProblemOrigin {
        self.origins.get(key).unwrap_or(&ProblemOrigin::BuiltIn)
    }
}

/// A configuration as far as it can be used, and everything that is wrong with it.
#[derive(Clone, Debug)]
pub struct ConfigCheck {
    /// The configuration, with defaults in the place of what is wrong.
    pub resolved: Resolved,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

impl ConfigSources {
    /// Reads all layers, or tells everything that is wrong with them.
    pub fn load(&self) -> Result<Resolved, Problems> {
        self.read(DocumentPart::Whole).usable()
    }

    /// Reads all layers but what they say of modules: for a server that has its modules from elsewhere, since what is said of them
    /// cannot be used.
    pub fn load_settings(&self) -> Result<Resolved, Problems> {
        self.read(DocumentPart::Settings).usable()
    }

    /// Reads the settings of these sections from all layers. What is wrong elsewhere in files and the environment does not matter.
    pub fn load_sections(&self, sections: &[&str]) -> Result<Resolved, Problems> {
        self.read(DocumentPart::Sections(sections)).usable()
    }

    /// Reads all layers, whatever is wrong with some of them.
    pub fn check(&self) -> ConfigCheck {
        self.read(DocumentPart::Whole)
    }

    fn read(&self, extent: DocumentPart<'_>) -> ConfigCheck {
        let said = ParsedSettings::default();
        let mut layers = Layers {
            sources: self,
            extent,
            said,
            files: Vec::new(),
            problems: Vec::new(),
        };
        layers.read_files();
        layers.read_environment();
        layers.read_command_line();
        layers.match_sinks();
        layers.check_shares();
        let Layers {
            said:
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

    /// Where the file is, or would be.
    pub fn main_file(&self) -> Option<PathBuf> {
        self.place().map(|(path, _)| path)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.environment
            .iter()
            .find(|variable| variable.0 == name)
            .map(|variable| variable.1.clone())
    }

    /// The file, and whether it must be there. A `PEAL_CONFIG` that is empty means none.
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
    /// The configuration, if nothing is wrong with it.
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

/// The layers, one after the other.
struct Layers<'a> {
    sources: &'a ConfigSources,
    extent: DocumentPart<'a>,
    said: ParsedSettings,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl Layers<'_> {
    /// Reads the files. One that cannot be read keeps none of the others from being read.
    fn read_files(&mut self) {
        let Some((path, presence)) = self.sources.place() else {
            return;
        };
        let extent = self.extent;
        match (files::read(&path), presence) {
            (Ok(Some(text)), _) => {
                self.read_file(&path, &text, |said, text, reading| {
                    said.take_main(text, extent, reading)
                });
            }
            (Ok(None), Presence::Optional) => {}
            (Ok(None), Presence::Required) => {
                let source = rustix::io::Errno::NOENT.into();
                // What stands beside a file that is not there was not meant.
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
            // It has gone since it was listed.
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
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let base = absolute.parent().unwrap_or(Path::new("")).to_owned();
        let mut reading = DocumentParser {
            source: TextSource::file(path, text),
            base,
            capabilities: &self.sources.capabilities,
            problems: &mut self.problems,
            key: "",
        };
        take(&mut self.said, text, &mut reading);
    }

    /// Looks whether the shares of users fit.
    fn check_shares(&mut self) {
        let ParsedSettings {
            config, origins, ..
        } = &self.said;
        self.problems
            .extend(shares::check(config, origins, self.sources.system));
    }

    /// Looks whether sinks are what they must be, and those that modules name are there.
    fn match_sinks(&mut self) {
        let ParsedSettings { modules, sinks, .. } = &self.said;
        // What is wrong in itself makes no sense together.
        let sound = sinks.iter().filter(|sink| !sink.is_flawed());
        self.problems.extend(
            sound
                .filter_map(|sink| sink.to_open().err())
                .flat_map(|problems| problems.0),
        );
        for module in modules {
            for wanted in &module.settings.sinks {
                let SinkName::Opened(name) = wanted else {
                    continue;
                };
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
            } else if let Some(message) = unknown_variable(name, &settings, self.extent) {
                self.problems
                    .push(Problem::new(source.origin(&(0..0)), message));
            }
        }
    }

    fn read_command_line(&mut self) {
        for given in &self.sources.given {
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
                    setting.wanted()
                ),
            ));
            return;
        };
        let mut reading = DocumentParser {
            source,
            base: std::env::current_dir().unwrap_or_default(),
            capabilities: &self.sources.capabilities,
            problems: &mut self.problems,
            key: setting.key,
        };
        let value = match DeValue::parse(text) {
            Ok(value) if value.get_ref().is_str() || !(setting.is_text)() => value,
            // A text needs no quotes; and what is no value at all is best quoted as it is.
            _ => Spanned::new(0..text.len(), DeValue::String(Cow::Borrowed(text))),
        };
        (setting.read)(&mut self.said.config, &value, &mut reading);
        self.said.origins.insert(setting.key, origin);
    }
}

/// What to say of a variable of Peal's that is no setting: nothing, unless it is nearly one or begins like one.
fn unknown_variable(
    name: &str,
    settings: &[(String, &'static Setting<Config>)],
    extent: DocumentPart<'_>,
) -> Option<String> {
    if extent != DocumentPart::Whole && Config::ALL.iter().any(|setting| setting.variable() == name)
    {
        return None;
    }
    let near = nearest(name, settings.iter().map(|setting| setting.0.as_str()));
    let is_wanted = |section: &str| match extent {
        DocumentPart::Sections(wanted) => wanted.contains(&section),
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
