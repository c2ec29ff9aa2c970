//! What a handler asks for: codes, a place among others, filters; and why that may be refused. How directives say so is in
//! `directives.rs`.
use crate::{
    audience::{EventTargets, ProcSet},
    class::{ClassFilter, EventSummary, Marking},
};
use peal_model::{Event, Proc, Range, Status, Value, code};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// The number of a registration; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegistrationId(pub u64);

/// The codes that a handler is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventCodes {
    /// One code.
    Single(Status),
    /// Several codes.
    Multi(Vec<Status>),
    /// Every code: a default registration.
    Default,
}

impl EventCodes {
    /// The codes of a list as the API takes it: none means all.
    pub fn of(list: &[Status]) -> EventCodes {
        match list {
            [] => EventCodes::Default,
            [one] => EventCodes::Single(*one),
            several => EventCodes::Multi(several.to_vec()),
        }
    }

    /// How many codes are listed.
    pub fn len(&self) -> usize {
        match self {
            EventCodes::Single(_) => 1,
            EventCodes::Multi(codes) => codes.len(),
            EventCodes::Default => 0,
        }
    }

    /// Whether none is listed: a default registration.
    pub fn is_empty(&self) -> bool {
        *self == EventCodes::Default
    }

    /// Which part of the chain such a registration belongs to.
    pub fn category(&self) -> Category {
        match self {
            EventCodes::Single(_) => Category::Single,
            EventCodes::Multi(_) => Category::Multi,
            EventCodes::Default => Category::Default,
        }
    }

    fn include(&self, head: &EventSummary) -> bool {
        match self {
            EventCodes::Single(code) => *code == head.code,
            EventCodes::Multi(codes) => codes.contains(&head.code),
            EventCodes::Default => head.marking == Marking::Ordinary,
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
pub enum ChainPlacement {
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

/// Whether who is registered takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// It does.
    #[default]
    Active,
    /// It only looks on: a shadow stands where it would act, and is in nobody's way.
    Shadow,
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

/// Whose events a handler asks for: the range of a registration is about their source (`PMIX_RANGE` and
/// `PMIX_EVENT_CUSTOM_RANGE` at registration).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SourceFilter {
    /// Anybody's.
    #[default]
    Anybody,
    /// Those of the resource manager, which have no source.
    ResourceManager,
    /// Those of these procs; the wildcard rank means all of a job.
    These(ProcSet),
}

impl SourceFilter {
    fn include(&self, event: &Event) -> bool {
        match (self, &event.source) {
            (SourceFilter::Anybody, _) | (SourceFilter::ResourceManager, None) => true,
            (SourceFilter::These(procs), Some(source)) => procs.covers(source),
            (SourceFilter::ResourceManager, Some(_)) | (SourceFilter::These(_), None) => false,
        }
    }
}

/// What a handler asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Registration {
    /// What it is called (`PMIX_EVENT_HDLR_NAME`); empty for nothing. Names need not be unique.
    pub name: Arc<str>,
    /// The codes it is for.
    pub codes: EventCodes,
    /// Where it wants to stand.
    pub place: ChainPlacement,
    /// Whether it takes part.
    pub mode: Mode,
    /// How long it stands.
    pub lifetime: Lifetime,
    /// The classes of events that it is for (`PMIX_EVENT_JOB_LEVEL`, `PMIX_EVENT_ENVIRO_LEVEL`).
    pub levels: ClassFilter,
    /// Whose events it is for.
    pub sources: SourceFilter,
    /// What its handler is given back with every call (`PMIX_EVENT_RETURN_OBJECT`).
    pub object: Option<Value>,
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
    /// A list of procs beside a range that is another, or the custom range without one.
    #[error(
        "range {range} and a list of procs in pmix.evrange belong together only if the range is PMIX_RANGE_CUSTOM"
    )]
    ContradictoryRange {
        /// The range given.
        range: Range,
    },
    /// A range relative to a proc, for a handler of none.
    #[error(
        "range {range} is relative to whoever registers, and this handler belongs to no proc or job"
    )]
    NobodysRange {
        /// The range given.
        range: Range,
    },
}

impl RegistrationError {
    /// The status that tells a program of it.
    pub fn status(&self) -> Status {
        match self {
            RegistrationError::BadDirective { .. }
            | RegistrationError::ContradictoryRange { .. }
            | RegistrationError::NobodysRange { .. } => code::PMIX_ERR_BAD_PARAM,
            _ => code::PMIX_ERR_EVENT_REGISTRATION,
        }
    }
}

fn display_name(name: &str) -> String {
    if name.is_empty() {
        "a handler without a name".to_owned()
    } else {
        format!("{name:?}")
    }
}

impl Registration {
    /// A registration without directives: for job-specific events, as RFC 0002 has it.
    pub fn new(name: &str, codes: EventCodes) -> Registration {
        Registration {
            name: name.into(),
            codes,
            place: ChainPlacement::default(),
            mode: Mode::default(),
            lifetime: Lifetime::default(),
            levels: ClassFilter::JobSpecific,
            sources: SourceFilter::default(),
            object: None,
            affected: Vec::new(),
        }
    }

    /// The same under the name that a component wants beside its directives, else that of the directives, else its module's.
    pub fn named(self, wanted: Option<&str>, module: &str) -> Registration {
        let own = Some(&*self.name).filter(|own| !own.is_empty());
        let name = wanted.or(own).unwrap_or(module).into();
        Registration { name, ..self }
    }

    /// How many procs it names, as sources and as affected.
    pub fn names(&self) -> usize {
        let sources = if let SourceFilter::These(procs) = &self.sources {
            procs.len()
        } else {
            0
        };
        sources + self.affected.len()
    }

    /// Whether an event is for it.
    pub fn matches(&self, event: &Event) -> bool {
        let aim = EventTargets::of(event);
        self.is_for(event, &EventSummary::of(event, &aim), &aim)
    }

    /// The same, of an event whose head and aim are known.
    pub(crate) fn is_for(&self, event: &Event, head: &EventSummary, aim: &EventTargets) -> bool {
        // One for the resource manager is aimed at its handlers, so that its class does not matter.
        let is_aimed = event.range == Range::Rm && self.levels != ClassFilter::Neither;
        self.codes.include(head)
            && (is_aimed || self.levels.include(head.class))
            && self.sources.include(event)
            && aim.affects(&self.affected)
    }
}
