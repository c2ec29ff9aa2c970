//! Parser of documents: matches their keys with the table of settings.
use crate::{
    module_settings::Module,
    nearest::{instead, nearest},
    parser::{DocumentParser, described, quoted},
    problem::{Problem, ProblemOrigin},
    settings::Config,
    sink::Sink,
    table::{NamedTable, Setting, SettingsTable},
};
use std::{collections::BTreeMap, ops::Range};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Origins of settings that were given, by key.
pub(crate) type Origins = BTreeMap<&'static str, ProblemOrigin>;

/// Entry of a kind of table, such as a module, with the origins of its settings.
#[derive(Clone, PartialEq, Debug)]
pub struct TableEntry<T> {
    /// Settings of the entry.
    pub settings: T,
    pub(crate) table: ProblemOrigin,
    pub(crate) origins: Origins,
    pub(crate) is_flawed: bool,
}

/// Module with the origins of its settings.
pub type ModuleEntry = TableEntry<Module>;
/// Sink with the origins of its settings.
pub type SinkEntry = TableEntry<Sink>;

impl<T> TableEntry<T> {
    /// Returns the origin of a setting; `None` if it has its default.
    pub fn origin_of(&self, key: &str) -> Option<&ProblemOrigin> {
        self.origins.get(key)
    }

    /// Returns true if settings are invalid, so that their defaults are used.
    pub fn is_flawed(&self) -> bool {
        self.is_flawed
    }

    /// Returns the origin that a problem with a setting names: its key, or the table if it was not
    /// given.
    pub fn at(&self, key: &str) -> &ProblemOrigin {
        self.origin_of(key).unwrap_or(&self.table)
    }

    /// Creates a problem with a setting.
    pub fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        Problem::new(self.at(key).clone(), message)
    }
}

/// Part of a configuration that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DocumentPart<'a> {
    /// All of it.
    Whole,
    /// Everything but the modules.
    Settings,
    /// Settings of these sections.
    Sections(&'a [&'a str]),
}

impl DocumentPart<'_> {
    /// Returns true if the settings of a top-level table are read. A misspelt name of a selected
    /// section counts too, since its settings would be missing.
    fn includes(self, name: &str) -> bool {
        // `take_tables` reads these, which are no sections.
        if [Module::HEAD, Sink::HEAD].contains(&name) {
            return false;
        }
        let DocumentPart::Sections(wanted) = self else {
            return true;
        };
        // The right name of a section that is not selected is no misspelling of one that is.
        let is_section = Config::SECTIONS.iter().any(|section| section.0 == name);
        wanted.contains(&name) || !is_section && nearest(name, wanted.iter().copied()).is_some()
    }

    /// Returns true if a setting is read.
    pub(crate) fn has_setting(self, key: &str) -> bool {
        let DocumentPart::Sections(wanted) = self else {
            return true;
        };
        wanted.iter().any(|section| is_within(key, section))
    }
}

/// Settings of all documents read so far.
#[derive(Default)]
pub(crate) struct ParsedSettings {
    pub(crate) config: Config,
    pub(crate) origins: Origins,
    pub(crate) modules: Vec<ModuleEntry>,
    pub(crate) sinks: Vec<SinkEntry>,
}

impl ParsedSettings {
    /// Reads `peal.toml`.
    pub(crate) fn take_main(
        &mut self,
        text: &str,
        extent: DocumentPart<'_>,
        reading: &mut DocumentParser<'_>,
    ) {
        let Some(document) = parse(text, reading) else {
            return;
        };
        let table = document.get_ref();
        let settings = table
            .iter()
            .filter(|(name, _)| extent.includes(name.get_ref()));
        read_table(settings, "", &mut self.config, &mut self.origins, reading);
        // Commands that read single sections open no sinks, so errors there must not stop them.
        if !matches!(extent, DocumentPart::Sections(_)) {
            take_tables(table, &mut self.sinks, reading);
        }
        if extent == DocumentPart::Whole {
            take_tables(table, &mut self.modules, reading);
        }
    }

    /// Reads a file of `modules.d`: `[[module]]` tables, or one module at top level.
    pub(crate) fn take_drop_in(&mut self, text: &str, reading: &mut DocumentParser<'_>) {
        let Some(document) = parse(text, reading) else {
            return;
        };
        let table = document.get_ref();
        // Otherwise an empty file would be a module without a name.
        if table.is_empty() {
            return;
        }
        // A file with [[sink]] is not a module at top level. The loop below reports the table.
        if !table.contains_key(Module::HEAD) && !table.contains_key(Sink::HEAD) {
            // The file has no heading: a problem with the whole module points to its start.
            return take_table(table, &(0..0), &mut self.modules, reading);
        }
        for (name, _) in table
            .iter()
            .filter(|(name, _)| name.get_ref() != Module::HEAD)
        {
            let message = format!(
                "{} is in a file of modules.d, which holds [[module]] tables or one module at top level; other settings \
                 belong into peal.toml",
                quoted(name.get_ref())
            );
            reading.add_problem(&name.span(), message);
        }
        take_tables(table, &mut self.modules, reading);
    }
}

/// Reads the tables of one kind.
fn take_tables<T: NamedTable>(
    document: &DeTable<'_>,
    into: &mut Vec<TableEntry<T>>,
    reading: &mut DocumentParser<'_>,
) {
    let head = T::HEAD;
    let Some((name, value)) = document.iter().find(|(name, _)| name.get_ref() == head) else {
        return;
    };
    let DeValue::Array(tables) = value.get_ref() else {
        // The settings for all modules are in a section with nearly that name.
        let is_section = |table: &DeTable<'_>| {
            table
                .iter()
                .any(|(key, _)| is_of_all_modules(key.get_ref()))
        };
        if head == Module::HEAD && value.get_ref().as_table().is_some_and(is_section) {
            return reading.add_problem(
                &name.span(),
                "unknown key \"module\"; did you mean `modules`?",
            );
        }
        let found = described(value.get_ref());
        return reading.add_problem(
            &value.span(),
            format!("{head} is {found}; write [[{head}]]"),
        );
    };
    for table in tables.iter() {
        match table.get_ref() {
            DeValue::Table(one) => take_table(one, &table.span(), into, reading),
            other => reading.add_problem(
                &table.span(),
                format!("a {head} is {}; write [[{head}]]", described(other)),
            ),
        }
    }
}

fn take_table<T: NamedTable>(
    table: &DeTable<'_>,
    span: &Range<usize>,
    into: &mut Vec<TableEntry<T>>,
    reading: &mut DocumentParser<'_>,
) {
    let head = T::HEAD;
    let mut settings = T::default();
    let mut origins = Origins::new();
    // Problems of earlier tables must not make this one flawed.
    let before = reading.found;
    read_table(table.iter(), head, &mut settings, &mut origins, reading);
    for setting in T::ALL.iter().filter(|setting| setting.is_required()) {
        let name = setting.key.rsplit('.').next().unwrap_or(setting.key);
        // An invalid value has been reported already.
        if !origins.contains_key(setting.key) {
            reading.add_problem(
                span,
                format!("a {head} needs `{name}`, {}", setting.accepted_values()),
            );
        }
    }
    let is_flawed = reading.found > before;
    let entry = TableEntry {
        table: reading.source.origin(span),
        settings,
        origins,
        is_flawed,
    };
    let key = join(head, "name");
    let name = entry.settings.name();
    let other = into.iter().find(|other| other.settings.name() == name);
    // A table without a name is reported by the check of required settings.
    if let Some(other) = other.filter(|_| !name.is_empty()) {
        let name = quoted(name);
        let there = other.at(&key);
        reading.problem(entry.problem(
            &key,
            format!("{key} is {name}, as that of {there}; names are given once"),
        ));
    } else if into.len() == T::MAX_ENTRIES {
        reading.add_problem(
            span,
            format!("there are more than {} of [[{head}]]", T::MAX_ENTRIES),
        );
    } else {
        // Also a flawed entry, since others may name it.
        into.push(entry);
    }
}

fn is_of_all_modules(name: &str) -> bool {
    Setting::<Config>::of(&join("modules", name)).is_some()
}

/// Parses a document; syntax errors become problems.
fn parse<'i>(text: &'i str, reading: &mut DocumentParser<'_>) -> Option<Spanned<DeTable<'i>>> {
    // Recoverable, so that all syntax errors are reported at once.
    let (document, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    for error in &errors {
        reading.add_problem(
            &error.span().unwrap_or_default(),
            // A problem is printed as one line.
            error.message().replace('\n', ", "),
        );
    }
    // Keys may be missing from a recovered document, and would be reported as missing.
    errors.is_empty().then_some(document)
}

type SettingRow<'t, 'i> = (
    &'t Spanned<std::borrow::Cow<'i, str>>,
    &'t Spanned<DeValue<'i>>,
);

/// Reads the keys of a table that is at `prefix`.
fn read_table<'t, 'i: 't, T: SettingsTable>(
    table: impl Iterator<Item = SettingRow<'t, 'i>>,
    prefix: &str,
    into: &mut T,
    origins: &mut Origins,
    reading: &mut DocumentParser<'_>,
) {
    for (name, value) in table {
        let key = join(prefix, name.get_ref());
        if let Some(setting) = Setting::<T>::of(&key) {
            // Also for an invalid value: a required setting must not be reported as missing as
            // well.
            origins.insert(setting.key, reading.source.origin(&name.span()));
            reading.key = setting.key;
            (setting.read)(into, value, reading);
        // A name that begins longer keys is a section or a table in it.
        } else if T::ALL.iter().any(|setting| is_within(setting.key, &key)) {
            match value.get_ref() {
                DeValue::Table(table) => read_table(table.iter(), &key, into, origins, reading),
                other => reading.add_problem(
                    &value.span(),
                    format!(
                        "{key} is {}; it is a section: write [{key}]",
                        described(other)
                    ),
                ),
            }
        } else {
            reading.add_problem(&name.span(), unknown::<T>(prefix, name.get_ref()));
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}.{name}")
    }
}

fn is_within(key: &str, section: &str) -> bool {
    key.strip_prefix(section)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the message for an unknown name at a place. It suggests the nearest name there or the
/// same name elsewhere, or lists all names.
fn unknown<T: SettingsTable>(prefix: &str, name: &str) -> String {
    let keys = T::ALL.iter().map(|setting| setting.key);
    let mut names: Vec<&str> = Vec::new();
    for key in keys.clone() {
        let rest = if prefix.is_empty() {
            Some(key)
        } else {
            key.strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('.'))
        };
        if let Some(first) = rest.and_then(|rest| rest.split('.').next())
            && !names.contains(&first)
        {
            names.push(first);
        }
    }
    // Modules and sinks are not in the table of settings.
    if prefix.is_empty() {
        names.extend([Module::HEAD, Sink::HEAD]);
    }
    // A key that another section has was probably written into the wrong one. A similar name in
    // this section is more likely.
    let mut elsewhere = keys.filter(|key| key.rsplit('.').next() == Some(name));
    let hint = match (nearest(name, names.iter().copied()), elsewhere.next()) {
        (None, Some(key)) => format!("did you mean `{key}`?"),
        _ => instead(name, &names),
    };
    format!("unknown key {}; {hint}", quoted(&join(prefix, name)))
}

/// Returns the message for an unknown key of the command line.
pub(crate) fn unknown_key(key: &str) -> String {
    // `module.KEY` for a key of `modules` is a misspelling and gets the hint below.
    let is_of_all = key.strip_prefix("module.").is_some_and(is_of_all_modules);
    if (key == "module" || is_within(key, "module")) && !is_of_all {
        return format!(
            "{} is a setting of modules; it belongs into a [[module]] table of a file",
            quoted(key)
        );
    }
    let near = nearest(key, Config::ALL.iter().map(|setting| setting.key));
    let hint = near.map_or("`peal config show` lists all".to_owned(), |near| {
        format!("did you mean `{near}`?")
    });
    format!("unknown key {}; {hint}", quoted(key))
}
