//! The two event classes, and filters for them.
use crate::event_targets::EventTargets;
use peal_model::{Event, Info, Infos, Range, Status, Value, key};
use serde::{Deserialize, Serialize};

/// The class of an event (RFC 0002, "PMIx Event Notification").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Class {
    /// The event concerns certain procs or one job: it names procs, or has range
    /// `PMIX_RANGE_NAMESPACE`.
    JobSpecific,
    /// The event concerns the environment of procs: all other events.
    Environment,
}

impl Class {
    /// Returns the class of an event.
    pub fn of(event: &Event) -> Class {
        EventSummary::of(event, &EventTargets::of(event)).class
    }
}

/// The event classes that a registration is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ClassFilter {
    /// No class: the registration excludes both.
    Neither,
    /// Job-specific events only.
    JobSpecific,
    /// Environment events only.
    Environment,
    /// Both classes.
    Both,
}

impl ClassFilter {
    /// Returns the filter that directives request (`PMIX_EVENT_JOB_LEVEL`,
    /// `PMIX_EVENT_ENVIRO_LEVEL`), or `default` if they do not mention classes. If only one class
    /// is requested, the other is excluded; if only one is excluded, the other is requested. Values
    /// other than booleans count as absent.
    ///
    /// The default depends on the registering party: [`ClassFilter::Both`] for clients of libpmix,
    /// whose releases dropped the keys and rely on both classes; [`ClassFilter::JobSpecific`] for
    /// handlers of `peal-client` and for hosted handlers (RFC 0002).
    pub fn of(directives: &[Info], default: ClassFilter) -> ClassFilter {
        let given = |key| directives.value_of(key).and_then(Value::as_bool);
        let job = given(key::PMIX_EVENT_JOB_LEVEL);
        let environment = given(key::PMIX_EVENT_ENVIRO_LEVEL);
        if job.is_none() && environment.is_none() {
            return default;
        }
        // A class that is not mentioned gets the opposite of the other one.
        match (
            job.or(environment.map(|other| !other)),
            environment.or(job.map(|other| !other)),
        ) {
            (Some(true), Some(true)) => ClassFilter::Both,
            (Some(true), _) => ClassFilter::JobSpecific,
            (_, Some(true)) => ClassFilter::Environment,
            _ => ClassFilter::Neither,
        }
    }

    /// Returns the directives that request this filter.
    pub fn directives(self) -> Vec<Info> {
        let both = [
            (key::PMIX_EVENT_JOB_LEVEL, Class::JobSpecific),
            (key::PMIX_EVENT_ENVIRO_LEVEL, Class::Environment),
        ];
        both.map(|(key, class)| Info::new(key, Value::Bool(self.include(class))))
            .into()
    }

    /// Returns true if the filter includes a class.
    pub fn include(self, class: Class) -> bool {
        match self {
            ClassFilter::Neither => false,
            ClassFilter::JobSpecific => class == Class::JobSpecific,
            ClassFilter::Environment => class == Class::Environment,
            ClassFilter::Both => true,
        }
    }
}

/// The part of an event that mostly suffices to match registrations, even while the event itself is
/// spilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EventSummary {
    pub(crate) code: Status,
    pub(crate) class: Class,
    pub(crate) marking: DefaultDelivery,
    pub(crate) affects: AffectedProcs,
}

/// The marking of an event for default registrations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum DefaultDelivery {
    /// Default registrations receive the event.
    Ordinary,
    /// Default registrations do not receive the event (`PMIX_EVENT_NON_DEFAULT`).
    NonDefault,
}

/// The procs that an event affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum AffectedProcs {
    /// The event names no affected procs, so it may affect any.
    Any,
    /// The event names the affected procs.
    Named,
}

impl EventSummary {
    /// Returns the summary of an event with these targets.
    pub(crate) fn of(event: &Event, aim: &EventTargets) -> EventSummary {
        let marking = if event.is_non_default() {
            DefaultDelivery::NonDefault
        } else {
            DefaultDelivery::Ordinary
        };
        let affects = if aim.names_affected() {
            AffectedProcs::Named
        } else {
            AffectedProcs::Any
        };
        let class = match event.range {
            Range::Namespace => Class::JobSpecific,
            // An event that names procs concerns these, whatever its range.
            _ if aim.names_affected() || aim.names_targets() => Class::JobSpecific,
            _ => Class::Environment,
        };
        EventSummary {
            code: event.code,
            class,
            marking,
            affects,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Proc, Rank};

    #[test]
    fn every_pair_of_words_means_one_thing() {
        use ClassFilter::{Both, Environment, JobSpecific, Neither};
        let no = Some(Value::Bool(false));
        let yes = Some(Value::Bool(true));
        let odd = Some(Value::Pointer);
        for (job, environment, wanted) in [
            (&None, &None, None),
            (&None, &yes, Some(Environment)),
            (&None, &no, Some(JobSpecific)),
            (&yes, &None, Some(JobSpecific)),
            (&yes, &yes, Some(Both)),
            (&yes, &no, Some(JobSpecific)),
            (&no, &None, Some(Environment)),
            (&no, &yes, Some(Environment)),
            (&no, &no, Some(Neither)),
            (&odd, &odd, None),
            (&odd, &yes, Some(Environment)),
        ] {
            let info =
                |key, value: &Option<Value>| value.clone().map(|value| Info::new(key, value));
            let keys = [
                (key::PMIX_EVENT_JOB_LEVEL, job),
                (key::PMIX_EVENT_ENVIRO_LEVEL, environment),
            ];
            let directives: Vec<Info> = keys
                .into_iter()
                .filter_map(|(key, value)| info(key, value))
                .collect();
            if let Some(wanted) = wanted {
                assert_eq!(ClassFilter::of(&wanted.directives(), Both), wanted);
            }
            for default in [Both, JobSpecific] {
                assert_eq!(
                    ClassFilter::of(&directives, default),
                    wanted.unwrap_or(default),
                    "{job:?} {environment:?}"
                );
            }
        }
        let heard = [Neither, JobSpecific, Environment, Both].map(|levels| {
            [Class::JobSpecific, Class::Environment].map(|class| levels.include(class))
        });
        assert_eq!(
            heard,
            [[false, false], [true, false], [false, true], [true, true]]
        );
    }

    #[test]
    fn events_that_name_procs_or_a_job_are_job_specific() {
        let proc = || Value::Proc(Proc::new(Nspace::new("job").unwrap(), Rank(0)));
        let custom = (key::PMIX_EVENT_CUSTOM_RANGE, proc());
        let affected = (key::PMIX_EVENT_AFFECTED_PROC, proc());
        let several = (
            key::PMIX_EVENT_AFFECTED_PROCS,
            Value::procs([Proc::all(Nspace::new("job").unwrap())]),
        );
        let nonsense = (key::PMIX_EVENT_AFFECTED_PROC, Value::Bool(true));
        for (range, info, class) in [
            (Range::Namespace, None, Class::JobSpecific),
            (Range::Local, None, Class::Environment),
            (Range::Session, None, Class::Environment),
            (Range::Global, None, Class::Environment),
            (Range::Global, Some(affected), Class::JobSpecific),
            (Range::Local, Some(several), Class::JobSpecific),
            (Range::Global, Some(nonsense), Class::Environment),
            (Range::Custom, Some(custom), Class::JobSpecific),
        ] {
            let infos = info
                .into_iter()
                .map(|(key, value)| Info::new(key, value))
                .collect();
            let event = Event {
                code: Status(-3001),
                source: None,
                range,
                infos,
            };
            assert_eq!(Class::of(&event), class, "{event:?}");
        }
    }
}
