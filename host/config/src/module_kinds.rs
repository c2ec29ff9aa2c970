//! Kinds of values that only modules have: codes, placements, grants, channels, settings of their
//! own.
use crate::{
    kinds::{TextKind, ValueKind, ValueShape, alternatives},
    module_settings::Module,
    nearest::instead,
    parser::{DocumentParser, described, quoted},
    table::NamedTable,
    values::{ConfiguredScope, UserRef},
    words,
};
use peal_core::{log::CHANNELS, pattern::NspacePattern, registration::ChainPlacement};
use peal_model::{Info, Key, Proc, Status, Value as PmixValue};
use semver::Version;
use std::fmt::Write as _;
use toml::{Spanned, Table, Value, de::DeValue};

/// Limit of a list's elements.
const MAX_LIST: usize = 1024;
/// Limit of a module's name, in bytes: the name is a key of its results.
const MAX_NAME: usize = Key::MAX;

impl NamedTable for Module {
    const HEAD: &'static str = "module";
    const MAX_ENTRIES: usize = 1024;

    fn name(&self) -> &str {
        &self.name
    }
}

/// List of different values of one kind.
pub(crate) struct List<K>(pub(crate) K);

impl<T: PartialEq, K: ValueKind<T>> ValueKind<Vec<T>> for List<K> {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<Vec<T>> {
        let Some(elements) = value
            .get_ref()
            .as_array()
            .filter(|elements| elements.len() <= MAX_LIST)
        else {
            reading.refuse(value, &self.accepted_values());
            return None;
        };
        let mut list = Vec::new();
        let mut is_right = true;
        // All elements are read, so that all problems are reported at once.
        for element in elements.iter() {
            match self.0.read(element, reading) {
                Some(item) if list.contains(&item) => {
                    is_right = false;
                    let message = format!(
                        "{} names {} twice",
                        reading.key,
                        described(element.get_ref())
                    );
                    reading.add_problem(&element.span(), message);
                }
                Some(item) => list.push(item),
                None => is_right = false,
            }
        }
        is_right.then_some(list)
    }

    fn write(&self, value: &Vec<T>) -> Option<Value> {
        value
            .iter()
            .map(|item| self.0.write(item))
            .collect::<Option<Vec<_>>>()
            .map(Value::Array)
    }

    fn accepted_values(&self) -> String {
        format!("an array; each element {}", self.0.accepted_values())
    }

    fn shape(&self) -> ValueShape {
        ValueShape::List(Box::new(self.0.shape()))
    }
}

/// Status by its name in the Standard or by number.
pub(crate) struct StatusCodeKind;

impl ValueKind<Status> for StatusCodeKind {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<Status> {
        match value.get_ref() {
            DeValue::Integer(number) => {
                // Statuses of a site have a number and no name.
                let status = i32::from_str_radix(number.as_str(), number.radix())
                    .ok()
                    .map(Status);
                if status.is_none() {
                    reading.refuse(value, "a number of 32 bits");
                }
                status
            }
            DeValue::String(name) => {
                let status = Status::from_name(name);
                if status.is_none() {
                    let names: Vec<&str> = peal_model::names::STATUS_ALIASES
                        .iter()
                        .map(|entry| entry.0)
                        .collect();
                    let hint = match crate::nearest::nearest(name, names.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "write its number, or one of its names".to_owned(),
                    };
                    let message = format!(
                        "{}: the Standard has no status {}; {hint}",
                        reading.key,
                        quoted(name)
                    );
                    reading.add_problem(&value.span(), message);
                }
                status
            }
            _ => {
                reading.refuse(value, &self.accepted_values());
                None
            }
        }
    }

    fn write(&self, value: &Status) -> Option<Value> {
        Some(value.name().map_or(Value::Integer(value.0.into()), |name| {
            Value::String(name.to_owned())
        }))
    }

    fn accepted_values(&self) -> String {
        "a status by name or number, as in \"PMIX_ERR_PROC_ABORTED_BY_SIG\" or -3001".to_owned()
    }

    fn shape(&self) -> ValueShape {
        ValueShape::TextOrNumber
    }
}

/// Placement of a module in its chain: a keyword, or a neighbour.
pub(crate) struct Placement;

const PLACES: [(&str, ChainPlacement); 6] = [
    ("first", ChainPlacement::First),
    ("last", ChainPlacement::Last),
    ("first-in-category", ChainPlacement::FirstInCategory),
    ("last-in-category", ChainPlacement::LastInCategory),
    ("prepend", ChainPlacement::Prepend),
    ("append", ChainPlacement::Append),
];

impl ValueKind<ChainPlacement> for Placement {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<ChainPlacement> {
        let place = match value.get_ref() {
            DeValue::String(word) => PLACES
                .iter()
                .find(|place| place.0 == word)
                .map(|place| place.1.clone()),
            // A module has one neighbour: `before` and `after` exclude each other.
            DeValue::Table(table) if table.len() == 1 => {
                let neighbour = |word| {
                    table
                        .get(word)
                        .and_then(|name| name.get_ref().as_str())
                        .map(str::to_owned)
                };
                let neighbour = |word| {
                    neighbour(word).filter(|name| !name.is_empty() && name.len() <= MAX_NAME)
                };
                neighbour("before")
                    .map(ChainPlacement::Before)
                    .or_else(|| neighbour("after").map(ChainPlacement::After))
            }
            _ => None,
        };
        if place.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        place
    }

    fn write(&self, value: &ChainPlacement) -> Option<Value> {
        let beside = |word: &str, name: &String| {
            Value::Table(Table::from_iter([(
                word.to_owned(),
                Value::String(name.clone()),
            )]))
        };
        Some(match value {
            ChainPlacement::Before(name) => beside("before", name),
            ChainPlacement::After(name) => beside("after", name),
            other => Value::String(PLACES.iter().find(|place| place.1 == *other)?.0.to_owned()),
        })
    }

    fn accepted_values(&self) -> String {
        let words: Vec<String> = PLACES
            .iter()
            .map(|place| format!("{:?}", place.0))
            .collect();
        format!(
            "{}, {{ before = \"name\" }} or {{ after = \"name\" }}",
            words.join(", ")
        )
    }

    fn shape(&self) -> ValueShape {
        ValueShape::WordsOrTable(PLACES.iter().map(|place| place.0).collect())
    }
}

/// Capability that can be granted. The reader of the configuration passes the list of them.
pub(crate) struct CapabilityKind;

impl ValueKind<String> for CapabilityKind {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<String> {
        let Some(name) = value.get_ref().as_str() else {
            reading.refuse(value, &self.accepted_values());
            return None;
        };
        if reading.capabilities.contains(&name) {
            return Some(name.to_owned());
        }
        let all = reading.capabilities.join(", ");
        let hint = crate::nearest::nearest(name, reading.capabilities.iter().copied());
        let mut message = format!(
            "{}: there is no capability {}; these can be granted: {all}",
            reading.key,
            quoted(name)
        );
        if let Some(near) = hint {
            // A write to a string cannot fail.
            let _ = write!(message, " (did you mean `{near}`?)");
        }
        reading.add_problem(&value.span(), message);
        None
    }

    fn write(&self, value: &String) -> Option<Value> {
        Some(Value::String(value.clone()))
    }

    fn accepted_values(&self) -> String {
        "the name of a capability, as in \"logging\"".to_owned()
    }
}

/// Key of an info, by its name in the Standard or unchanged.
pub(crate) struct InfoKey;

impl ValueKind<String> for InfoKey {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<String> {
        let key = value
            .get_ref()
            .as_str()
            .and_then(|name| crate::words::key(name).ok());
        if key.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        key.map(|key| key.as_str().to_owned())
    }

    fn write(&self, value: &String) -> Option<Value> {
        Some(Value::String(value.clone()))
    }

    fn accepted_values(&self) -> String {
        "an info key, as in \"pmix.cred\" or \"PMIX_CREDENTIAL\"".to_owned()
    }
}

/// Log channel: one of the Standard by its short name or key, or a key of the site, which contains
/// a dot.
pub(crate) struct Channel;

impl ValueKind<Key> for Channel {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<Key> {
        let Some(name) = value.get_ref().as_str() else {
            reading.refuse(value, &self.accepted_values());
            return None;
        };
        if let Some((_, key, _)) = CHANNELS
            .iter()
            .find(|(short, key, _)| *short == name || key.0 == name)
        {
            return Some(Key::from(*key));
        }
        // A key of the Standard that is no channel must not become one of the site.
        let is_own = name.contains('.') && !name.starts_with("pmix.");
        let message = match Key::new(name) {
            Ok(key) if is_own => return Some(key),
            Ok(_) => {
                let known: Vec<&str> = CHANNELS.iter().map(|channel| channel.0).collect();
                let hint = instead(name, &known);
                format!(
                    "{}: there is no channel {}; {hint} (one of the site's own has a dot)",
                    reading.key,
                    quoted(name)
                )
            }
            Err(error) => format!("{}: {error}", reading.key),
        };
        reading.add_problem(&value.span(), message);
        None
    }

    fn write(&self, value: &Key) -> Option<Value> {
        Some(Value::String(value.as_str().to_owned()))
    }

    fn accepted_values(&self) -> String {
        let names = alternatives(CHANNELS.iter().map(|channel| channel.0));
        format!(
            "the name of a log channel: {names}, its key, or a key of the site with a dot, as in \"site.log.board\""
        )
    }
}

/// SHA-256 digest of a file.
pub(crate) struct Sha256;

impl ValueKind<[u8; 32]> for Sha256 {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<[u8; 32]> {
        let digest = value.get_ref().as_str().and_then(digest);
        if digest.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        digest
    }

    fn write(&self, value: &[u8; 32]) -> Option<Value> {
        Some(Value::String(
            value
                .iter()
                .fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
        ))
    }

    fn accepted_values(&self) -> String {
        "64 hexadecimal digits, as `peal module inspect` shows them".to_owned()
    }
}

/// Parses a SHA-256 digest of 64 hexadecimal digits.
pub(crate) fn digest(text: &str) -> Option<[u8; 32]> {
    // `from_str_radix` accepts a sign.
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let bytes: Option<Vec<u8>> = (0..32)
        .map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok())
        .collect();
    bytes?.try_into().ok()
}

/// Version of a module.
pub(crate) struct VersionKind;

impl ValueKind<Version> for VersionKind {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<Version> {
        let version = value.get_ref().as_str();
        let version = version.and_then(|text| Version::parse(text).ok());
        if version.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        version
    }

    fn write(&self, value: &Version) -> Option<Value> {
        Some(Value::String(value.to_string()))
    }

    fn accepted_values(&self) -> String {
        "three numbers as in \"1.2.0\", with what Semantic Versioning lets follow".to_owned()
    }
}

/// Scope of a module: site, user or namespace.
pub(crate) struct ModuleScope;

impl ModuleScope {
    fn parse(text: &str) -> Option<ConfiguredScope> {
        let is_plain = |name: &str| !name.is_empty() && !name.contains(char::is_control);
        // At the first colon, since a namespace may contain colons.
        match text.split_once(':') {
            None => (text == "site").then_some(ConfiguredScope::Site),
            // A name of digits only is a uid. `parse` would accept a sign before them.
            Some(("user", name)) if name.bytes().all(|byte| byte.is_ascii_digit()) => name
                .parse()
                .ok()
                .map(|id| ConfiguredScope::User(UserRef::Id(id))),
            Some(("user", name)) => {
                let is_name = is_plain(name) && name.len() <= 32 && !name.contains([':', '/', ' ']);
                is_name.then(|| ConfiguredScope::User(UserRef::Name(name.to_owned())))
            }
            Some(("namespace", name)) => NspacePattern::new(name)
                .ok()
                .filter(|_| is_plain(name))
                .map(ConfiguredScope::Namespace),
            Some(_) => None,
        }
    }
}

impl ValueKind<ConfiguredScope> for ModuleScope {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<ConfiguredScope> {
        let scope = value.get_ref().as_str().and_then(ModuleScope::parse);
        if scope.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        scope
    }

    fn write(&self, value: &ConfiguredScope) -> Option<Value> {
        Some(Value::String(match value {
            ConfiguredScope::Site => "site".to_owned(),
            ConfiguredScope::User(UserRef::Id(id)) => format!("user:{id}"),
            ConfiguredScope::User(UserRef::Name(name)) => format!("user:{name}"),
            ConfiguredScope::Namespace(nspace) => format!("namespace:{nspace}"),
        }))
    }

    fn accepted_values(&self) -> String {
        "\"site\", \"user:NAME\" or \"user:UID\", or \"namespace:NAME\", in which * matches any text".to_owned()
    }
}

/// Proc, or all procs of a job.
pub(crate) struct ProcName;

impl ValueKind<Proc> for ProcName {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<Proc> {
        let is_plain = |proc: &Proc| !proc.nspace.as_str().contains(char::is_control);
        let proc = value
            .get_ref()
            .as_str()
            .and_then(|text| words::proc(text).ok())
            .filter(is_plain);
        if proc.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        proc
    }

    fn write(&self, value: &Proc) -> Option<Value> {
        words::proc_text(value).map(Value::String)
    }

    fn accepted_values(&self) -> String {
        "\"NAMESPACE:RANK\", or \"NAMESPACE:*\" for all of its procs".to_owned()
    }
}

/// Name of a module.
pub(crate) struct ModuleNameKind;

impl TextKind for ModuleNameKind {
    fn fits(&self, text: &str) -> bool {
        !text.is_empty() && text.len() <= MAX_NAME && !text.contains(char::is_control)
    }

    fn accepted_values(&self) -> String {
        format!("a name of at most {MAX_NAME} bytes, without control characters")
    }
}

/// Settings for the module itself.
pub(crate) struct OwnSettings;

impl ValueKind<Vec<Info>> for OwnSettings {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<Vec<Info>> {
        let Some(table) = value
            .get_ref()
            .as_table()
            .filter(|table| table.len() <= MAX_LIST)
        else {
            reading.refuse(value, &self.accepted_values());
            return None;
        };
        let mut infos = Vec::new();
        let mut is_right = true;
        // All settings are read, so that all problems are reported at once.
        for (name, value) in table {
            let content = match value.get_ref() {
                DeValue::Boolean(truth) => Some(PmixValue::Bool(*truth)),
                DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                    .ok()
                    .map(PmixValue::Int64),
                DeValue::Float(number) => number.as_str().parse().ok().map(PmixValue::Double),
                DeValue::String(text) => Some(PmixValue::string(text)),
                _ => None,
            };
            match (Key::new(name.get_ref()), content) {
                (Ok(key), Some(value)) => infos.push(Info::new(key, value)),
                (Err(error), _) => {
                    is_right = false;
                    reading.add_problem(&name.span(), format!("{}: {error}", reading.key));
                }
                (_, None) => {
                    is_right = false;
                    reading.refuse(value, "true, false, a number of 64 bits or a text");
                }
            }
        }
        is_right.then_some(infos)
    }

    fn write(&self, value: &Vec<Info>) -> Option<Value> {
        let pair = |info: &Info| {
            // `read` makes only these types.
            let value = match &info.value {
                PmixValue::Bool(truth) => Value::Boolean(*truth),
                PmixValue::Int64(number) => Value::Integer(*number),
                PmixValue::Double(number) => Value::Float(*number),
                other => Value::String(other.as_str()?.to_owned()),
            };
            Some((info.key.as_str().to_owned(), value))
        };
        value
            .iter()
            .map(pair)
            .collect::<Option<Table>>()
            .map(Value::Table)
    }

    fn accepted_values(&self) -> String {
        "a table of settings that the module knows".to_owned()
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Table
    }
}
