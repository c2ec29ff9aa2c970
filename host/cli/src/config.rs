//! The configuration file: `peal.toml`, typed; unknown keys are refused, with line and column.
use crate::args::OnAbort;
use anyhow::{Context, Result, bail};
use peal_core::registration::Place;
use peal_model::{Info, Key, Status, Value};
use serde::{Deserialize, Deserializer, de};
use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

/// All of it. What is absent has the default that README.md lists.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How jobs run.
    pub run: RunConfig,
    /// The server's limits.
    pub server: ServerConfig,
    /// The engine that runs components.
    pub sandbox: SandboxConfig,
    /// What outlives the process.
    pub store: StoreConfig,
    /// The site's modules, in the order of their registration.
    pub module: Vec<ModuleConfig>,
}

/// `[run]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// What follows the abnormal end of a proc.
    pub on_abort: Option<OnAbort>,
    /// How long procs that are to end have before they are killed, in milliseconds.
    pub grace_ms: Option<u64>,
}

/// `[server]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// How many events are kept for late registrations.
    pub event_cache: Option<usize>,
    /// How long a get waits for a key that is not there, in milliseconds.
    pub get_timeout_ms: Option<u64>,
    /// How long a handshake may take, in milliseconds.
    pub handshake_timeout_ms: Option<u64>,
    /// The most connections at once.
    pub max_connections: Option<usize>,
    /// The longest message, in bytes.
    pub max_message: Option<usize>,
}

/// `[sandbox]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Where compiled code is kept.
    pub cache_dir: Option<PathBuf>,
    /// How many threads run chains.
    pub threads: Option<NonZeroUsize>,
    /// The most instances of all modules together.
    pub max_instances: Option<u32>,
}

/// `[store]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// The database; without it nothing is recorded.
    pub path: Option<PathBuf>,
}

/// `[[module]]`
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ModuleConfig {
    /// What it is called; its results appear under this name.
    pub name: String,
    /// Its file; relative to the configuration's.
    pub path: PathBuf,
    /// If given, the digest that the file must have.
    pub sha256: Option<String>,
    /// The codes it handles; none means all.
    #[serde(default)]
    pub codes: Vec<CodeSetting>,
    /// Where it stands in the chain.
    #[serde(default)]
    pub place: PlaceSetting,
    /// Whether it is called only once.
    #[serde(default)]
    pub oneshot: bool,
    /// The capabilities it may have.
    #[serde(default)]
    pub grants: Vec<GrantSetting>,
    /// What it may use.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Settings of its own, handed to its `init`.
    #[serde(default)]
    pub config: BTreeMap<String, ConfigValue>,
}

/// `[module.limits]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Bytes of memory in total.
    pub memory: Option<usize>,
    /// How long one call may run, in milliseconds.
    pub call_time_ms: Option<u64>,
    /// Bytes that one call may push.
    pub output: Option<usize>,
    /// Host calls of one call.
    pub host_calls: Option<u32>,
    /// Calls after which an instance is replaced.
    pub max_calls: Option<u64>,
    /// How long one call may spend in host calls, in milliseconds.
    pub host_time_ms: Option<u64>,
    /// Events that one call may raise.
    pub notifications: Option<usize>,
    /// Warm instances kept for the next calls.
    pub instances: Option<usize>,
}

impl Config {
    /// Reads a configuration; paths in it become relative to its own.
    pub fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the configuration {path:?}"))?;
        let mut config: Config = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        config.check().with_context(|| format!("in {}", path.display()))?;
        let base = path.parent().unwrap_or(Path::new(""));
        config.module.iter_mut().for_each(|module| module.path = base.join(&module.path));
        for path in [&mut config.store.path, &mut config.sandbox.cache_dir].into_iter().flatten() {
            *path = base.join(&*path);
        }
        Ok(config)
    }
}

impl Config {
    /// What cannot be said by types alone.
    fn check(&self) -> Result<()> {
        let bounds = [
            ("server.max_connections", self.server.max_connections, 1, 1_000_000),
            ("server.max_message", self.server.max_message, 4096, 1 << 30),
            ("server.event_cache", self.server.event_cache, 0, 1_000_000),
            ("sandbox.threads", self.sandbox.threads.map(NonZeroUsize::get), 1, 1024),
        ];
        for (key, given, least, most) in bounds {
            if let Some(given) = given
                && !(least..=most).contains(&given)
            {
                bail!("{key} is {given}, it should be from {least} to {most}");
            }
        }
        Ok(())
    }
}

/// A code by the Standard's name or by number.
#[derive(Debug, Clone, Copy)]
pub struct CodeSetting(pub Status);

impl<'de> Deserialize<'de> for CodeSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CodeSetting, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = CodeSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status by name, such as \"PMIX_ERR_PROC_ABORTED_BY_SIG\", or by number")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<CodeSetting, E> {
                let unknown =
                    || E::custom(format!("the Standard has no status {name:?}; write its number, or one of its names"));
                Status::from_name(name).map(CodeSetting).ok_or_else(unknown)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<CodeSetting, E> {
                let number = i32::try_from(number)
                    .map_err(|_| E::custom(format!("{number} is no status: it does not fit 32 bits")))?;
                Ok(CodeSetting(Status(number)))
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// A capability by its name.
#[derive(Debug, Clone, Copy)]
pub struct GrantSetting(pub peal_sandbox::Capability);

impl<'de> Deserialize<'de> for GrantSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<GrantSetting, D::Error> {
        let name = String::deserialize(from)?;
        let all = peal_sandbox::Capability::ALL;
        let known = || all.iter().map(|capability| capability.name()).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|capability| capability.name() == name);
        found.map(|capability| GrantSetting(*capability)).ok_or_else(|| {
            de::Error::custom(format!("there is no capability {name:?}; these can be granted: {}", known()))
        })
    }
}

/// Where a handler stands: a word, or a neighbour as in `{ before = "name" }`.
#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceSetting {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Before all others of its category.
    FirstInCategory,
    /// After all others of its category.
    LastInCategory,
    /// At the front of its category's list.
    Prepend,
    /// At the end of its category's list.
    #[default]
    Append,
    /// Just before this one.
    Before(String),
    /// Just after this one.
    After(String),
}

impl From<PlaceSetting> for Place {
    fn from(setting: PlaceSetting) -> Place {
        match setting {
            PlaceSetting::First => Place::First,
            PlaceSetting::Last => Place::Last,
            PlaceSetting::FirstInCategory => Place::FirstInCategory,
            PlaceSetting::LastInCategory => Place::LastInCategory,
            PlaceSetting::Prepend => Place::Prepend,
            PlaceSetting::Append => Place::Append,
            PlaceSetting::Before(name) => Place::Before(name),
            PlaceSetting::After(name) => Place::After(name),
        }
    }
}

/// A setting of a module's own.
#[derive(Deserialize, Debug, Clone)]
#[serde(untagged)]
pub enum ConfigValue {
    /// A truth.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

impl ModuleConfig {
    /// Its own settings as infos.
    pub fn settings(&self) -> Result<Vec<Info>> {
        let info = |(name, value): (&String, &ConfigValue)| -> Result<Info> {
            let value = match value {
                ConfigValue::Bool(truth) => Value::Bool(*truth),
                ConfigValue::Int(number) => Value::Int64(*number),
                ConfigValue::Float(number) => Value::Double(*number),
                ConfigValue::Text(text) => Value::string(text),
            };
            let key = Key::new(name).with_context(|| format!("module {:?}, config.{name}", self.name))?;
            Ok(Info { key, flags: peal_model::InfoFlags::NONE, value })
        };
        self.config.iter().map(info).collect()
    }
}

impl LimitsConfig {
    /// These limits, and the defaults for the rest.
    pub fn limits(&self) -> peal_sandbox::Limits {
        let default = peal_sandbox::Limits::default();
        peal_sandbox::Limits {
            memory: self.memory.unwrap_or(default.memory),
            call_time: self.call_time_ms.map_or(default.call_time, Duration::from_millis),
            output: self.output.unwrap_or(default.output),
            host_calls: self.host_calls.unwrap_or(default.host_calls),
            max_calls: self.max_calls.unwrap_or(default.max_calls),
            host_time: self.host_time_ms.map_or(default.host_time, Duration::from_millis),
            notifications: self.notifications.unwrap_or(default.notifications),
            instances: self.instances.unwrap_or(default.instances),
        }
    }
}
