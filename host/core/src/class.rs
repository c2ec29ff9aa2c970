//! The two classes of events, and which of them a registration asks for.
use crate::audience::EventTargets;
use peal_model::{Event, Info, Infos, Range, Status, Value, key};

/// What an event is about (RFC 0002, "PMIx Event Notification"): certain procs, or what surrounds them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Certain procs or one job: it names procs, or has range `PMIX_RANGE_NAMESPACE`.
    JobSpecific,
    /// The environment that procs run in: everything else.
    Environment,
}

impl Class {
    /// That of this event, by what it says itself.
    pub fn of(event: &Event) -> Class {
        EventSummary::of(event, &EventTargets::of(event)).class
    }
}

/// The classes of events that a registration asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ClassFilter {
    /// Of neither: it said no to both.
    Neither,
    /// Of job-specific ones only.
    JobSpecific,
    /// Of those of the environment only.
    Environment,
    /// Of both.
    Both,
}

impl ClassFilter {
    /// What these directives ask for (`PMIX_EVENT_JOB_LEVEL`, `PMIX_EVENT_ENVIRO_LEVEL`); `default` where they say nothing.
    /// A class that is asked for alone is the only one; one that is refused alone leaves the other. Whatever is not a
    /// boolean counts as absent.
    ///
    /// The default depends on who registers: [`ClassFilter::Both`] for clients of `libpmix`, whose releases dropped the keys and
    /// rely on getting both; [`ClassFilter::JobSpecific`] for the handlers of `peal-client` and hosted ones (RFC 0002).
    pub fn of(directives: &[Info], default: ClassFilter) -> ClassFilter {
        let given = |key| directives.value_of(key).and_then(Value::as_bool);
        let (job, environment) = (
            given(key::PMIX_EVENT_JOB_LEVEL),
            given(key::PMIX_EVENT_ENVIRO_LEVEL),
        );
        if job.is_none() && environment.is_none() {
            return default;
        }
        // Of whichever is not spoken of, the opposite of what is said of the other holds.
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

    /// The directives that say so, for whoever has another default.
    pub fn directives(self) -> Vec<Info> {
        let both = [
            (key::PMIX_EVENT_JOB_LEVEL, Class::JobSpecific),
            (key::PMIX_EVENT_ENVIRO_LEVEL, Class::Environment),
        ];
        both.map(|(key, class)| Info::new(key, Value::Bool(self.include(class))))
            .into()
    }

    /// Whether events of this class are asked for.
    pub fn include(self, class: Class) -> bool {
        match self {
            ClassFilter::Neither => false,
            ClassFilter::JobSpecific => class == Class::JobSpecific,
            ClassFilter::Environment => class == Class::Environment,
            ClassFilter::Both => true,
        }
    }
}

/// What of an event suffices to tell, mostly, whether somebody asked for it; also when the event itself is elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventSummary {
    pub(crate) code: Status,
    pub(crate) class: Class,
    pub(crate) marking: Marking,
    pub(crate) affects: Affects,
}

/// Whether default registrations hear an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marking {
    /// They do.
    Ordinary,
    /// They do not (`PMIX_EVENT_NON_DEFAULT`).
    NonDefault,
}

/// Whether an event says whom it affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Affects {
    /// It does not: anybody.
    Anybody,
    /// Procs that it names.
    Named,
}

impl EventSummary {
    /// That of this event, which has this aim.
    pub(crate) fn of(event: &Event, aim: &EventTargets) -> EventSummary {
        let marking = if event.is_non_default() {
            Marking::NonDefault
        } else {
            Marking::Ordinary
        };
        let affects = if aim.names_affected() {
            Affects::Named
        } else {
            Affects::Anybody
        };
        let class = match event.range {
            Range::Namespace => Class::JobSpecific,
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
        let (no, yes) = (Some(Value::Bool(false)), Some(Value::Bool(true)));
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
