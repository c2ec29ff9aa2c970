//! Modules with settings, or with registrations of their own.
use crate::{
    Info, Value,
    bindings::types,
    tree::{lift_infos, lower_infos},
};
use std::ops::RangeInclusive;

/// Settings of this module in the admin's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Vec<Info>,
}

impl Config {
    /// Creates settings for tests.
    pub fn for_test(settings: impl IntoIterator<Item = Info>) -> Config {
        Config {
            settings: settings.into_iter().collect(),
        }
    }

    /// Returns the setting of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings
            .iter()
            .rev()
            .find(|info| info.key == name)
            .map(|info| &info.value)
    }

    /// Returns the number of this name, if the setting exists.
    ///
    /// # Errors
    /// A message for the admin, if the setting is not a number or not within the bounds.
    pub fn number(&self, name: &str, bounds: RangeInclusive<i64>) -> Result<Option<i64>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value.as_i64().filter(|number| bounds.contains(number));
        let wanted = || {
            format!(
                "the setting {name:?} is a number from {} to {}",
                bounds.start(),
                bounds.end()
            )
        };
        number.ok_or_else(wanted).map(Some)
    }

    /// Returns the text of this name, if the setting exists.
    ///
    /// # Errors
    /// A message for the admin, if the setting is not a text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        value
            .as_str()
            .ok_or_else(|| format!("the setting {name:?} is a text"))
            .map(Some)
    }

    /// Returns the comma-separated parts of the text of this name, if the setting exists; an empty
    /// list for an empty text.
    ///
    /// # Errors
    /// A message for the admin, if the setting is not a text.
    pub fn list(&self, name: &str) -> Result<Option<Vec<&str>>, String> {
        let text = self.text(name)?;
        Ok(text.map(|text| {
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .collect()
        }))
    }

    /// Checks that there are no settings but these.
    ///
    /// # Errors
    /// A message for the admin that names the first other setting.
    pub fn allow_only(&self, names: &[&str]) -> Result<(), String> {
        match self
            .settings
            .iter()
            .find(|info| !names.contains(&info.key.as_str()))
        {
            Some(other) => Err(format!(
                "there is no setting {:?}; there are {}",
                other.key,
                names.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// Returns all settings.
    pub fn settings(&self) -> &[Info] {
        &self.settings
    }
}

/// Registration that a module requests. Without codes it is a default registration, called for
/// every event.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Registration {
    tag: u32,
    name: Option<String>,
    codes: Vec<i32>,
    directives: Vec<Info>,
}

impl Registration {
    /// Creates a default registration without a name, with tag 0.
    pub fn new() -> Registration {
        Registration::default()
    }

    /// Sets the tag, which [`crate::Event::tag`] returns in calls for this registration.
    pub fn tag(mut self, tag: u32) -> Registration {
        self.tag = tag;
        self
    }

    /// Sets the name; results appear under it.
    pub fn name(mut self, name: impl Into<String>) -> Registration {
        self.name = Some(name.into());
        self
    }

    /// Adds a code.
    pub fn code(mut self, code: i32) -> Registration {
        self.codes.push(code);
        self
    }

    /// Adds a placement or filter, such as [`crate::key::PMIX_EVENT_HDLR_FIRST`].
    pub fn directive(mut self, key: impl Into<String>, value: impl Into<Value>) -> Registration {
        self.directives.push(Info::new(key, value));
        self
    }

    pub(crate) fn lower(self) -> types::Registration {
        let directives = lower_infos(self.directives);
        types::Registration {
            tag: self.tag,
            name: self.name,
            codes: self.codes,
            directives,
        }
    }
}

/// Runs the function that [`crate::lifecycle!`] exports as `init`.
#[doc(hidden)]
pub fn run_init(
    config: types::FlatInfos,
    init: impl Fn(&Config) -> Result<Vec<Registration>, String>,
) -> Result<Vec<types::Registration>, String> {
    crate::describe_panics();
    let config = Config {
        settings: lift_infos(config),
    };
    Ok(init(&config)?
        .into_iter()
        .map(Registration::lower)
        .collect())
}

/// Exports the role `lifecycle` from this crate, beside the macros of other roles. An `init:
/// fn(&Config) -> Result<Vec<Registration>, String>` is called before any other function, with the
/// settings of the admin's configuration. A `stop: fn()` is called before an instance is dropped.
/// Handlers return the registrations that they request; other modules return none.
#[macro_export]
macro_rules! lifecycle {
    ($init:path, $stop:path) => {
        const _: () = {
            use $crate::bindings::{
                lifecycle::{self as bindings, exports::peal::pmix::lifecycle as role},
                types,
            };

            struct Module;

            impl role::Guest for Module {
                fn init(config: types::FlatInfos) -> Result<Vec<types::Registration>, String> {
                    $crate::run_init(config, $init)
                }

                fn stop() {
                    $stop()
                }
            }

    bindings::export_lifecycle!(Module with_types_in bindings);
        };
    };
}
