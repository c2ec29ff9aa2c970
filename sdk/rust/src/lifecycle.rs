//! For modules that say themselves what they handle: the admin's settings in, registrations out.
use crate::{
    Info, Value,
    bindings::types,
    tree::{lift_content, lower_content},
};
use std::ops::RangeInclusive;

/// The settings of this module in the admin's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Vec<Info>,
}

impl Config {
    /// For tests: these settings.
    pub fn for_test(settings: impl IntoIterator<Item = Info>) -> Config {
        Config {
            settings: settings.into_iter().collect(),
        }
    }

    /// The setting of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings
            .iter()
            .rev()
            .find(|info| info.key == name)
            .map(|info| &info.value)
    }

    /// The number of this name, if there is one, or what is wrong with it.
    ///
    /// # Errors
    /// Where it is no number, or not within the bounds.
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

    /// The text of this name, if there is one, or what is wrong with it.
    ///
    /// # Errors
    /// Where it is no text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        value
            .as_str()
            .ok_or_else(|| format!("the setting {name:?} is a text"))
            .map(Some)
    }

    /// What stands between the commas of the text of this name; nothing where that is empty.
    ///
    /// # Errors
    /// Where it is no text.
    pub fn list(&self, name: &str) -> Result<Option<Vec<&str>>, String> {
        let text = self.text(name)?;
        Ok(text.map(|text| {
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .collect()
        }))
    }

    /// That there is no setting but these.
    ///
    /// # Errors
    /// The first of another name.
    pub fn only(&self, names: &[&str]) -> Result<(), String> {
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

    /// All settings.
    pub fn settings(&self) -> &[Info] {
        &self.settings
    }
}

/// What a module wishes to handle. Without a code it is a default registration, called for every event.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Registration {
    tag: u32,
    name: Option<String>,
    codes: Vec<i32>,
    directives: Vec<Info>,
}

impl Registration {
    /// A default registration without a name, tag 0.
    pub fn new() -> Registration {
        Registration::default()
    }

    /// The same with this tag, by which [`crate::Event::tag`] tells which registration is called.
    pub fn tag(mut self, tag: u32) -> Registration {
        self.tag = tag;
        self
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

    pub(crate) fn lower(self) -> types::Registration {
        let directives = lower_content(self.directives);
        types::Registration {
            tag: self.tag,
            name: self.name,
            codes: self.codes,
            directives,
        }
    }
}

/// What [`crate::lifecycle!`] exports as `init`.
#[doc(hidden)]
pub fn run_init(
    config: types::Content,
    init: impl Fn(&Config) -> Result<Vec<Registration>, String>,
) -> Result<Vec<types::Registration>, String> {
    crate::describe_panics();
    let config = Config {
        settings: lift_content(config),
    };
    Ok(init(&config)?
        .into_iter()
        .map(Registration::lower)
        .collect())
}

/// Beside the macros of other roles, for a module with settings: an
/// `init: fn(&Config) -> Result<Vec<Registration>, String>` is called before anything else, with the settings from the
/// admin's file, and a `stop: fn()` when the module is taken out of service. A handler says by its registrations which events
/// it handles; others return none.
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
                fn init(config: types::Content) -> Result<Vec<types::Registration>, String> {
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
