//! What a handler asks for: codes, a place among others, filters; and why that may be refused.
use crate::audience;
use peal_model::{Event, Info, Infos, KeyName, Proc, Status, Value, code, key};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// The number of a registration; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegistrationId(pub u64);

/// The codes that a handler is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Codes {
    /// One code.
    Single(Status),
    /// Several codes.
    Multi(Vec<Status>),
    /// Every code: a default registration.
    Default,
}

impl Codes {
    /// The codes of a list as the API takes it: none means all.
    pub fn of(list: &[Status]) -> Codes {
        match list {
            [] => Codes::Default,
            [one] => Codes::Single(*one),
            several => Codes::Multi(several.to_vec()),
        }
    }

    /// Which part of the chain such a registration belongs to.
    pub fn category(&self) -> Category {
        match self {
            Codes::Single(_) => Category::Single,
            Codes::Multi(_) => Category::Multi,
            Codes::Default => Category::Default,
        }
    }

    fn matches(&self, event: &Event) -> bool {
        match self {
            Codes::Single(code) => *code == event.code,
            Codes::Multi(codes) => codes.contains(&event.code),
            Codes::Default => !event.is_non_default(),
        }
    }
}

/// The parts of a chain, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    /// Registered for one code.
    Single,
    /// Registered for several codes.
    Multi,
    /// Registered for all codes.
    Default,
}

impl Category {
    pub(crate) const ALL: [Category; 3] = [Category::Single, Category::Multi, Category::Default];
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Category::Single => "single-code",
            Category::Multi => "multi-code",
            Category::Default => "default",
        })
    }
}

/// Where a handler wants to stand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Before everything else of this owner (`PMIX_EVENT_HDLR_FIRST`).
    First,
    /// After everything else of this owner (`PMIX_EVENT_HDLR_LAST`).
    Last,
    /// Before everything else of its category (`PMIX_EVENT_HDLR_FIRST_IN_CATEGORY`).
    FirstInCategory,
    /// After everything else of its category (`PMIX_EVENT_HDLR_LAST_IN_CATEGORY`).
    LastInCategory,
    /// At the front of its category's list (`PMIX_EVENT_HDLR_PREPEND`).
    Prepend,
    /// At the end of its category's list (`PMIX_EVENT_HDLR_APPEND`), the default.
    #[default]
    Append,
    /// Just before the first of that name (`PMIX_EVENT_HDLR_BEFORE`).
    Before(String),
    /// Just after the first of that name (`PMIX_EVENT_HDLR_AFTER`).
    After(String),
}

/// How long a registration stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetime {
    /// Until it is deregistered.
    #[default]
    Standing,
    /// Until it was called once (`PMIX_EVENT_ONESHOT`).
    OneShot,
}

/// What a handler asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// What it is called (`PMIX_EVENT_HDLR_NAME`); empty for nothing. Names need not be unique.
    pub name: Arc<str>,
    /// The codes it is for.
    pub codes: Codes,
    /// Where it wants to stand.
    pub place: Place,
    /// How long it stands.
    pub lifetime: Lifetime,
    /// If any procs are named, only events that affect one of them (`PMIX_EVENT_AFFECTED_PROC` and `..._PROCS`).
    pub affected: Vec<Proc>,
}

/// Why a registration is refused. Each says what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// The one place of its kind is held.
    #[error("{place} is held by {}; only one handler may hold it", display_name(.holder))]
    Taken {
        /// Which place.
        place: &'static str,
        /// The holder's name.
        holder: String,
    },
    /// BEFORE or AFTER a name that nobody has.
    #[error("no handler is called {name:?}, so none can stand before or after it")]
    NoSuchName {
        /// The name.
        name: String,
    },
    /// BEFORE or AFTER somebody in another category.
    #[error("{name:?} is a {theirs} handler; a {ours} handler cannot stand next to it")]
    OtherCategory {
        /// The name.
        name: String,
        /// The category of its holder.
        theirs: Category,
        /// The category of the new one.
        ours: Category,
    },
    /// BEFORE the first or AFTER the last of a category.
    #[error("{name:?} holds {place}, so nothing can stand beyond it")]
    Beyond {
        /// The name.
        name: String,
        /// The place it holds.
        place: &'static str,
    },
    /// Two placement words.
    #[error("{first} and {second} exclude each other; give one place")]
    TwoPlaces {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A directive of the wrong type.
    #[error("{key} must be a {wanted}")]
    BadDirective {
        /// Its key string.
        key: &'static str,
        /// The type that it takes.
        wanted: &'static str,
    },
}

impl RegistrationError {
    /// The status that tells a program of it.
    pub fn status(&self) -> Status {
        match self {
            RegistrationError::BadDirective { .. } => code::PMIX_ERR_BAD_PARAM,
            _ => code::PMIX_ERR_EVENT_REGISTRATION,
        }
    }
}

fn display_name(name: &str) -> String {
    if name.is_empty() { "a handler without a name".to_owned() } else { format!("{name:?}") }
}

impl Registration {
    /// A registration without directives.
    pub fn new(name: &str, codes: Codes) -> Registration {
        let (place, lifetime) = (Place::default(), Lifetime::default());
        Registration { name: name.into(), codes, place, lifetime, affected: Vec::new() }
    }

    /// What a list of directives asks for, as `PMIx_Register_event_handler` takes it. Keys that say nothing about
    /// placement, name or lifetime are for others to read.
    pub fn from_directives(codes: &[Status], directives: &[Info]) -> Result<Registration, RegistrationError> {
        let mut registration =
            Registration::new(text(directives, key::PMIX_EVENT_HDLR_NAME)?.unwrap_or_default(), Codes::of(codes));
        let mut chosen: Option<(&'static str, Place)> = None;
        for (key, place) in [
            (key::PMIX_EVENT_HDLR_FIRST, Place::First),
            (key::PMIX_EVENT_HDLR_LAST, Place::Last),
            (key::PMIX_EVENT_HDLR_FIRST_IN_CATEGORY, Place::FirstInCategory),
            (key::PMIX_EVENT_HDLR_LAST_IN_CATEGORY, Place::LastInCategory),
            (key::PMIX_EVENT_HDLR_PREPEND, Place::Prepend),
            (key::PMIX_EVENT_HDLR_APPEND, Place::Append),
        ] {
            if flag(directives, key)? {
                choose(&mut chosen, key, place)?;
            }
        }
        if let Some(name) = text(directives, key::PMIX_EVENT_HDLR_BEFORE)? {
            choose(&mut chosen, key::PMIX_EVENT_HDLR_BEFORE, Place::Before(name.to_owned()))?;
        }
        if let Some(name) = text(directives, key::PMIX_EVENT_HDLR_AFTER)? {
            choose(&mut chosen, key::PMIX_EVENT_HDLR_AFTER, Place::After(name.to_owned()))?;
        }
        if let Some((_, place)) = chosen {
            registration.place = place;
        }
        if flag(directives, key::PMIX_EVENT_ONESHOT)? {
            registration.lifetime = Lifetime::OneShot;
        }
        for key in [key::PMIX_EVENT_AFFECTED_PROC, key::PMIX_EVENT_AFFECTED_PROCS] {
            if let Some(value) = directives.value_of(key) {
                let wrong = RegistrationError::BadDirective { key: key.0, wanted: "PMIX_PROC or an array of them" };
                registration.affected.extend(value.as_procs().ok_or(wrong)?);
            }
        }
        Ok(registration)
    }

    /// Whether an event is for it.
    pub fn matches(&self, event: &Event) -> bool {
        self.codes.matches(event) && audience::affects(event, &self.affected)
    }
}

fn choose(chosen: &mut Option<(&'static str, Place)>, key: KeyName, place: Place) -> Result<(), RegistrationError> {
    match chosen {
        Some((first, _)) => Err(RegistrationError::TwoPlaces { first, second: key.0 }),
        None => {
            *chosen = Some((key.0, place));
            Ok(())
        }
    }
}

fn flag(directives: &[Info], key: KeyName) -> Result<bool, RegistrationError> {
    match directives.value_of(key) {
        None => Ok(false),
        Some(Value::Bool(truth)) => Ok(*truth),
        Some(_) => Err(RegistrationError::BadDirective { key: key.0, wanted: "PMIX_BOOL" }),
    }
}

fn text(directives: &[Info], key: KeyName) -> Result<Option<&str>, RegistrationError> {
    match directives.value_of(key) {
        None => Ok(None),
        Some(value) => {
            value.as_str().map(Some).ok_or(RegistrationError::BadDirective { key: key.0, wanted: "PMIX_STRING" })
        }
    }
}
