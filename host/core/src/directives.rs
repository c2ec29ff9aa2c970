//! Directives of event registrations (`PMIx_Register_event_handler`), and the timeout that many
//! calls take. Values whose type differs from the Standard's are converted by `peal_model`
//! ([`peal_model::Value::as_u64`] and similar functions).
use crate::{
    class::ClassFilter,
    event_targets::ProcSet,
    registration::{
        ChainPlacement, EventCodes, HandlerRegistration, Lifetime, RegistrationError, SourceFilter,
    },
};
use peal_model::{Info, Infos, KeyName, Proc, Range, Status, code, key};
use std::time::Duration;

impl HandlerRegistration {
    /// Parses the directives of a registration, as `PMIx_Register_event_handler` takes them.
    /// `registrant` is the registering proc; a job's hosted handlers register as its wildcard rank,
    /// and the site's as none. Keys of other calls are ignored.
    ///
    /// Without directives about event classes, the registration is for job-specific events only.
    pub fn from_directives(
        codes: &[Status],
        directives: &[Info],
        registrant: Option<&Proc>,
    ) -> Result<HandlerRegistration, RegistrationError> {
        let mut registration = HandlerRegistration::new(
            text(directives, key::PMIX_EVENT_HDLR_NAME)?.unwrap_or_default(),
            EventCodes::of(codes),
        );
        let mut chosen: Option<(&'static str, ChainPlacement)> = None;
        // All placements are read before one is taken, so that two of them are an error and neither
        // wins.
        for (key, place) in [
            (key::PMIX_EVENT_HDLR_FIRST, ChainPlacement::First),
            (key::PMIX_EVENT_HDLR_LAST, ChainPlacement::Last),
            (
                key::PMIX_EVENT_HDLR_FIRST_IN_CATEGORY,
                ChainPlacement::FirstInCategory,
            ),
            (
                key::PMIX_EVENT_HDLR_LAST_IN_CATEGORY,
                ChainPlacement::LastInCategory,
            ),
            (key::PMIX_EVENT_HDLR_PREPEND, ChainPlacement::Prepend),
            (key::PMIX_EVENT_HDLR_APPEND, ChainPlacement::Append),
        ] {
            if flag(directives, key)? {
                choose(&mut chosen, key, place)?;
            }
        }
        if let Some(name) = text(directives, key::PMIX_EVENT_HDLR_BEFORE)? {
            choose(
                &mut chosen,
                key::PMIX_EVENT_HDLR_BEFORE,
                ChainPlacement::Before(name.to_owned()),
            )?;
        }
        if let Some(name) = text(directives, key::PMIX_EVENT_HDLR_AFTER)? {
            choose(
                &mut chosen,
                key::PMIX_EVENT_HDLR_AFTER,
                ChainPlacement::After(name.to_owned()),
            )?;
        }
        if let Some((_, place)) = chosen {
            registration.place = place;
        }
        if flag(directives, key::PMIX_EVENT_ONESHOT)? {
            registration.lifetime = Lifetime::OneShot;
        }
        for key in [
            key::PMIX_EVENT_AFFECTED_PROC,
            key::PMIX_EVENT_AFFECTED_PROCS,
        ] {
            if let Some(value) = directives.value_of(key) {
                registration
                    .affected
                    .extend(value.as_procs().ok_or_else(|| bad_procs(key))?);
            }
        }
        // `ClassFilter::of` takes values of other types as absent. A registration that has one is
        // refused.
        for key in [key::PMIX_EVENT_JOB_LEVEL, key::PMIX_EVENT_ENVIRO_LEVEL] {
            flag(directives, key)?;
        }
        registration.levels = ClassFilter::of(directives, registration.levels);
        registration.sources = sources(directives, registrant)?;
        registration.object = directives.value_of(key::PMIX_EVENT_RETURN_OBJECT).cloned();
        Ok(registration)
    }
}

/// Returns the timeout of a call (`PMIX_TIMEOUT`, in seconds); none if it is absent or zero.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if the value is negative or no number.
pub(crate) fn timeout(infos: &[Info]) -> Result<Option<Duration>, Status> {
    let Some(value) = infos.value_of(key::PMIX_TIMEOUT) else {
        return Ok(None);
    };
    let seconds = value.as_u64().ok_or(code::PMIX_ERR_BAD_PARAM)?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

/// Returns the filter for event sources.
fn sources(
    directives: &[Info],
    registrant: Option<&Proc>,
) -> Result<SourceFilter, RegistrationError> {
    let listed = match directives.value_of(key::PMIX_EVENT_CUSTOM_RANGE) {
        None => None,
        Some(value) => Some(ProcSet::of(
            value
                .as_procs()
                .ok_or_else(|| bad_procs(key::PMIX_EVENT_CUSTOM_RANGE))?,
        )),
    };
    let range = match directives.value_of(key::PMIX_RANGE) {
        // A list of procs implies a custom range.
        None if listed.is_some() => Range::Custom,
        None => Range::Undef,
        Some(value) => value.as_range().ok_or(RegistrationError::BadDirective {
            key: key::PMIX_RANGE.0,
            expected: "PMIX_DATA_RANGE",
        })?,
    };
    let of = |pattern: &dyn Fn(&Proc) -> Proc| {
        // The site's handlers belong to no job, to which such a range could refer.
        let registrant = registrant.ok_or(RegistrationError::NobodysRange { range })?;
        Ok(SourceFilter::These(ProcSet::of(vec![pattern(registrant)])))
    };
    match (range, listed) {
        (Range::Custom, Some(procs)) => Ok(SourceFilter::These(procs)),
        (Range::Custom, None) | (_, Some(_)) => {
            Err(RegistrationError::ContradictoryRange { range })
        }
        (Range::Namespace, None) => of(&|proc| Proc::all(proc.nspace.clone())),
        (Range::ProcLocal, None) => of(&Proc::clone),
        (Range::Rm, None) => Ok(SourceFilter::ResourceManager),
        // Every event that reaches a proc comes from its node and session.
        (Range::Undef | Range::Local | Range::Session | Range::Global, None) => {
            Ok(SourceFilter::Any)
        }
    }
}

fn bad_procs(key: KeyName) -> RegistrationError {
    RegistrationError::BadDirective {
        key: key.0,
        expected: "PMIX_PROC or an array of them",
    }
}

fn choose(
    chosen: &mut Option<(&'static str, ChainPlacement)>,
    key: KeyName,
    place: ChainPlacement,
) -> Result<(), RegistrationError> {
    match chosen {
        // A handler has one position, so two directives contradict each other.
        Some((first, _)) => Err(RegistrationError::TwoPlaces {
            first,
            second: key.0,
        }),
        None => {
            *chosen = Some((key.0, place));
            Ok(())
        }
    }
}

fn flag(directives: &[Info], key: KeyName) -> Result<bool, RegistrationError> {
    match directives.value_of(key) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or(RegistrationError::BadDirective {
            key: key.0,
            expected: "PMIX_BOOL",
        }),
    }
}

fn text(directives: &[Info], key: KeyName) -> Result<Option<&str>, RegistrationError> {
    match directives.value_of(key) {
        None => Ok(None),
        Some(value) => value
            .as_str()
            .map(Some)
            .ok_or(RegistrationError::BadDirective {
                key: key.0,
                expected: "PMIX_STRING",
            }),
    }
}
