//! For modules that say themselves what they handle: the admin's settings in, registrations out.
use crate::{
    Info, Value,
    bindings::types,
    tree::{lift_content, lower_content},
};

/// The settings of this module in the admin's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Vec<Info>,
}

impl Config {
    /// For tests: these settings.
    pub fn for_test(settings: impl IntoIterator<Item = Info>) -> Config {
        Config { settings: settings.into_iter().collect() }
    }

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
        types::Registration { tag: self.tag, name: self.name, codes: self.codes, directives }
    }
}

/// What [`crate::lifecycle!`] exports as `init`.
#[doc(hidden)]
pub fn run_init(
    config: types::Content,
    init: impl Fn(&Config) -> Result<Vec<Registration>, String>,
) -> Result<Vec<types::Registration>, String> {
    let config = Config { settings: lift_content(config) };
    Ok(init(&config)?.into_iter().map(Registration::lower).collect())
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
