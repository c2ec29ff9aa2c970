//! For modules that say themselves what they handle: the admin's settings in, registrations out.
use crate::{
    Info, Value,
    bindings::{managed::exports::peal::pmix::lifecycle, types},
    tree::{Host, lift_info, lower_info},
};

/// The settings of this module in the admin's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Vec<Info>,
}

impl Config {
    /// The setting of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings.iter().rev().find(|info| info.key == name).map(|info| &info.value)
    }

    /// All settings.
    pub fn settings(&self) -> &[Info] {
        &self.settings
    }
}

/// What a module wishes to handle. Without a code it is a default registration, called for every event.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Registration {
    name: Option<String>,
    codes: Vec<i32>,
    directives: Vec<Info>,
}

impl Registration {
    /// A default registration without a name.
    pub fn new() -> Registration {
        Registration::default()
    }

    /// The same under this name; its results appear under it.
    pub fn name(mut self, name: impl Into<String>) -> Registration {
        self.name = Some(name.into());
        self
    }

    /// The same for one more code.
    pub fn code(mut self, code: i32) -> Registration {
        self.codes.push(code);
        self
    }

    /// The same with one more placement word or filter, such as [`crate::key::PMIX_EVENT_HDLR_FIRST`].
    pub fn directive(mut self, key: impl Into<String>, value: impl Into<Value>) -> Registration {
        self.directives.push(Info::new(key, value));
        self
    }

    fn lower(self) -> lifecycle::Registration {
        let directives = self.directives.into_iter().map(|info| lower_info(info, &mut Host)).collect();
        lifecycle::Registration { name: self.name, codes: self.codes, directives }
    }
}

/// What [`crate::lifecycle!`] exports as `init`.
#[doc(hidden)]
pub fn run_init(
    settings: Vec<types::Info>,
    init: impl Fn(&Config) -> Result<Vec<Registration>, String>,
) -> Result<Vec<lifecycle::Registration>, String> {
    let config = Config { settings: settings.into_iter().map(|info| lift_info(info, &Host)).collect() };
    Ok(init(&config)?.into_iter().map(Registration::lower).collect())
}
