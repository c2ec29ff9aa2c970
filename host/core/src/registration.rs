//! Event registrations: codes, placement and filters, and the reasons for refusing them.
//! `directives.rs` parses them.
use crate::{
    class::{ClassFilter, DefaultDelivery, EventSummary},
    event_targets::{EventTargets, ProcSet},
};
use peal_model::{Event, Proc, Range, Status, Value, code};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// Identifier of a registration; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegistrationId(pub u64);

/// The codes that a registration is for.
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
    /// Returns the codes of a list, as the API takes it: an empty one means every code.
    pub fn of(list: &[Status]) -> EventCodes {
        match list {
            [] => EventCodes::Default,
            [one] => EventCodes::Single(*one),
            several => EventCodes::Multi(several.to_vec()),
        }
    }

    /// Returns the number of listed codes.
    pub fn len(&self) -> usize {
        match self {
            EventCodes::Single(_) => 1,
            EventCodes::Multi(codes) => codes.len(),
            EventCodes::Default => 0,
        }
    }

    /// Returns true if no code is listed: a default registration.
    pub fn is_empty(&self) -> bool {
        *self == EventCodes::Default
    }

    /// Returns the category of such a registration.
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
            EventCodes::Default => head.marking == DefaultDelivery::Ordinary,
        }
    }
}

/// The categories of a chain, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    /// Registrations for one code.
    Single,
    /// Registrations for several codes.
    Multi,
    /// Registrations for every code.
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

/// The placement of a handler in its owner's chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ChainPlacement {
    /// Before all others of the owner (`PMIX_EVENT_HDLR_FIRST`).
    First,
    /// After all others of the owner (`PMIX_EVENT_HDLR_LAST`).
    Last,
    /// Before all others of the category (`PMIX_EVENT_HDLR_FIRST_IN_CATEGORY`).
    FirstInCategory,
    /// After all others of the category (`PMIX_EVENT_HDLR_LAST_IN_CATEGORY`).
    LastInCategory,
    /// At the front of the category's list (`PMIX_EVENT_HDLR_PREPEND`).
    Prepend,
    /// At the end of the category's list (`PMIX_EVENT_HDLR_APPEND`), the default.
    #[default]
    Append,
    /// Directly before the first handler of this name (`PMIX_EVENT_HDLR_BEFORE`).
    Before(String),
    /// Directly after the first handler of this name (`PMIX_EVENT_HDLR_AFTER`).
    After(String),
}

/// The mode of a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The handler takes part.
    #[default]
    Active,
    /// The handler is called at its position, and its outcome is ignored. It does not occupy the
    /// position.
    Shadow,
}

/// The servers at which a hosted handler is called for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HandlerLocation {
    /// One server: the one at which the event was raised.
    #[default]
    Origin,
    /// Each server that the event reaches.
    EachNode,
}

/// The handlers of a chain that a server calls for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainPart {
    /// All handlers.
    Whole,
    /// The handlers that are called at each server: another one calls the others.
    EachNode,
}

impl ChainPart {
    fn includes(self, location: HandlerLocation) -> bool {
        self == ChainPart::Whole || location == HandlerLocation::EachNode
    }
}

/// The lifetime of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetime {
    /// Until it is deregistered.
    #[default]
    Standing,
    /// Until its first call (`PMIX_EVENT_ONESHOT`).
    OneShot,
}

/// A filter for event sources: the range of a registration applies to the source (`PMIX_RANGE` and
/// `PMIX_EVENT_CUSTOM_RANGE` at registration).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SourceFilter {
    /// Any source.
    #[default]
    Any,
    /// The resource manager, whose events have no source.
    ResourceManager,
    /// These procs; the wildcard rank stands for all procs of a job.
    These(ProcSet),
}

impl SourceFilter {
    fn include(&self, event: &Event) -> bool {
        match (self, &event.source) {
            (SourceFilter::Any, _) | (SourceFilter::ResourceManager, None) => true,
            (SourceFilter::These(procs), Some(source)) => procs.covers(source),
            (SourceFilter::ResourceManager, Some(_)) | (SourceFilter::These(_), None) => false,
        }
    }
}

/// A registration of a handler.
#[derive(Clone, PartialEq, Debug)]
pub struct HandlerRegistration {
    /// The name (`PMIX_EVENT_HDLR_NAME`), empty for none. Names need not be unique.
    pub name: Arc<str>,
    /// The codes.
    pub codes: EventCodes,
    /// The placement in the chain.
    pub place: ChainPlacement,
    /// The mode.
    pub mode: Mode,
    /// The servers at which the handler is called.
    pub location: HandlerLocation,
    /// The lifetime.
    pub lifetime: Lifetime,
    /// The event classes (`PMIX_EVENT_JOB_LEVEL`, `PMIX_EVENT_ENVIRO_LEVEL`).
    pub levels: ClassFilter,
    /// The filter for sources.
    pub sources: SourceFilter,
    /// The object that each call of the handler gets (`PMIX_EVENT_RETURN_OBJECT`).
    pub object: Option<Value>,
    /// If not empty, only events that affect one of these procs (`PMIX_EVENT_AFFECTED_PROC` and
    /// `..._PROCS`).
    pub affected: Vec<Proc>,
}

/// The reason why a registration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// A position for one handler is taken.
    #[error("{place} is held by {}; only one handler may hold it", display_name(.holder))]
    Taken {
        /// The position.
        place: &'static str,
        /// The name of the handler there.
        holder: String,
    },
    /// No handler has the name in BEFORE or AFTER.
    #[error("no handler is called {name:?}, so none can be placed before or after it")]
    NoSuchName {
        /// The name.
        name: String,
    },
    /// The handler named in BEFORE or AFTER is in another category.
    #[error("{name:?} is a {existing} handler; a {requested} handler cannot be placed next to it")]
    OtherCategory {
        /// The name.
        name: String,
        /// The category of that handler.
        existing: Category,
        /// The category of the new one.
        requested: Category,
    },
    /// The placement is before the first or after the last of a category.
    #[error("{name:?} holds {place}, so nothing can be placed beyond it")]
    Beyond {
        /// The name.
        name: String,
        /// The position of the named handler.
        place: &'static str,
    },
    /// There are two placements.
    #[error("{first} and {second} exclude each other; give one place")]
    TwoPlaces {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A directive has the wrong type.
    #[error("{key} must be a {expected}")]
    BadDirective {
        /// The key string.
        key: &'static str,
        /// The accepted type.
        expected: &'static str,
    },
    /// There is a list of procs with another range than the custom one, or a custom range without a
    /// list.
    #[error(
        "range {range} and a list of procs in pmix.evrange belong together only if the range is PMIX_RANGE_CUSTOM"
    )]
    ContradictoryRange {
        /// The range.
        range: Range,
    },
    /// The range is relative to a proc, but the handler belongs to none.
    #[error(
        "range {range} is relative to the registering proc, and this handler belongs to no proc or job"
    )]
    NobodysRange {
        /// The range.
        range: Range,
    },
}

impl RegistrationError {
    /// Returns the status for the requester.
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

impl HandlerRegistration {
    /// Creates a registration without directives: for job-specific events, as in RFC 0002.
    pub fn new(name: &str, codes: EventCodes) -> HandlerRegistration {
        HandlerRegistration {
            name: name.into(),
            codes,
            place: ChainPlacement::default(),
            mode: Mode::default(),
            location: HandlerLocation::default(),
            lifetime: Lifetime::default(),
            levels: ClassFilter::JobSpecific,
            sources: SourceFilter::default(),
            object: None,
            affected: Vec::new(),
        }
    }

    /// Names the registration: by the component's own choice, else by its directives, else after
    /// the module.
    pub fn named(self, name: Option<&str>, module: &str) -> HandlerRegistration {
        let own = Some(&*self.name).filter(|own| !own.is_empty());
        let name = name.or(own).unwrap_or(module).into();
        HandlerRegistration { name, ..self }
    }

    /// Returns the number of named procs, as sources and as affected procs.
    pub fn names(&self) -> usize {
        let sources = if let SourceFilter::These(procs) = &self.sources {
            procs.len()
        } else {
            0
        };
        sources + self.affected.len()
    }

    /// Returns true if the handler belongs to this part of its chain.
    pub(crate) fn is_in(&self, part: ChainPart) -> bool {
        part.includes(self.location)
    }

    /// Returns true if the registration matches an event.
    pub fn matches(&self, event: &Event) -> bool {
        let aim = EventTargets::of(event);
        self.is_for(event, &EventSummary::of(event, &aim), &aim)
    }

    /// Does the same for an event whose summary and targets are known.
    pub(crate) fn is_for(&self, event: &Event, head: &EventSummary, aim: &EventTargets) -> bool {
        // Events for the resource manager are aimed at its handlers, whatever their class.
        let is_aimed = event.range == Range::Rm && self.levels != ClassFilter::Neither;
        self.codes.include(head)
            && (is_aimed || self.levels.include(head.class))
            && self.sources.include(event)
            && aim.affects(&self.affected)
    }
}
