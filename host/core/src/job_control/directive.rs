//! Single directives of job control: of which type they should be, and within which bounds.
use super::{JobAction, JobControlError, parse::PREEMPT};
use peal_model::{Info, KeyName, Value, key};

/// How long names may be, of requests, checkpoints and images, in bytes.
const MAX_NAME: usize = 256;
/// How long anything may be waited for, in seconds: thirty days.
const MAX_SECONDS: u64 = 30 * 24 * 3600;

/// What becomes of those who are preempted.
pub(super) fn last_act(info: &Info) -> Result<JobAction, JobControlError> {
    match info.value.as_str() {
        Some("pause") => Ok(JobAction::Pause),
        Some("terminate") => Ok(JobAction::Terminate),
        Some("kill") => Ok(JobAction::Kill),
        _ => Err(JobControlError::BadDirective {
            key: PREEMPT.0,
            wanted: "pause, terminate or kill, a PMIX_STRING",
        }),
    }
}

/// Yes or no.
pub(super) fn flag(info: &Info, key: KeyName) -> Result<bool, JobControlError> {
    info.value.as_bool().ok_or(JobControlError::BadDirective {
        key: key.0,
        wanted: "a PMIX_BOOL",
    })
}

/// Seconds or, under the key that has two meanings, perhaps the number of a signal.
pub(super) fn seconds(info: &Info, key: &'static str) -> Result<u64, JobControlError> {
    let wanted = "a number of seconds or of a signal, a PMIX_INT from 0 to 2592000";
    info.value
        .as_u64()
        .filter(|number| *number <= MAX_SECONDS)
        .ok_or(JobControlError::BadDirective { key, wanted })
}

/// A name: short, and nothing in it that a terminal or a file could take for something else.
pub(super) fn text(info: &Info, key: KeyName) -> Result<String, JobControlError> {
    let wanted = "a name, a PMIX_STRING of 1 to 256 bytes that can all be printed";
    maybe_text(info, key)?.ok_or(JobControlError::BadDirective { key: key.0, wanted })
}

/// The same; NULL and the empty string are none.
pub(super) fn maybe_text(info: &Info, key: KeyName) -> Result<Option<String>, JobControlError> {
    let wanted = "a PMIX_STRING of at most 256 bytes that can all be printed";
    match &info.value {
        Value::String(None) | Value::Undef => Ok(None),
        value => {
            let fits = |text: &&str| text.len() <= MAX_NAME && !text.chars().any(char::is_control);
            let text = value
                .as_str()
                .filter(fits)
                .ok_or(JobControlError::BadDirective { key: key.0, wanted })?;
            Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
        }
    }
}

/// Whom to mail, and what in words of the requester's own.
pub(super) fn mail(value: &Value) -> Result<Vec<Info>, JobControlError> {
    let wrong = || JobControlError::BadDirective {
        key: key::PMIX_LOG_EMAIL.0,
        wanted: "an array of infos, pmix.log.emaddr among them",
    };
    let Value::DataArray(array) = value else {
        return Err(wrong());
    };
    let infos: Vec<Info> = array
        .as_infos()
        .ok_or_else(wrong)?
        .into_iter()
        .cloned()
        .collect();
    if infos
        .iter()
        .any(|info| info.key == key::PMIX_LOG_EMAIL_ADDR)
    {
        Ok(infos)
    } else {
        Err(wrong())
    }
}
