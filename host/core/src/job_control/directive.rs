//! Types and bounds of single job-control directives.
use super::{JobAction, JobControlError};
use peal_model::{ControlExtent, Info, KeyName, Value, key};

/// Key of a directive that preempts procs and names the action in the end: `pause`, `terminate` or
/// `kill`. An extension of Peal, because in the Standard only a resource manager preempts.
pub const PREEMPT: KeyName = KeyName("peal.jctrl.preempt");
/// Key of the grace period of a [`PREEMPT`], in seconds.
pub const GRACE: KeyName = KeyName("peal.jctrl.grace");

/// Key of the one directive of a request that is checked and not carried out: a `PMIX_DATA_ARRAY` with
/// the directives of that request. A server that does not know the key sees no action in them. Its
/// reply has the key, too, with an array of what the request would reach: of procs, or of the names of
/// requests or nodes.
pub const CHECK: KeyName = KeyName("peal.jctrl.check");

/// Directives of a request, and the extent to which it is carried out.
#[derive(Clone, PartialEq, Debug)]
pub struct ExtendedDirectives {
    /// The extent.
    pub extent: ControlExtent,
    /// The directives.
    pub directives: Vec<Info>,
}

impl From<Vec<Info>> for ExtendedDirectives {
    fn from(directives: Vec<Info>) -> ExtendedDirectives {
        let checked = match directives.as_slice() {
            [info] if info.key == CHECK => match &info.value {
                Value::DataArray(array) => array.as_infos(),
                _ => None,
            },
            _ => None,
        };
        match checked {
            Some(checked) => ExtendedDirectives {
                extent: ControlExtent::Check,
                directives: checked.into_iter().cloned().collect(),
            },
            None => ExtendedDirectives {
                extent: ControlExtent::Full,
                directives,
            },
        }
    }
}

/// Maximum length of the names of requests, checkpoints and images, in bytes.
const MAX_NAME: usize = 256;
/// Maximum of all times, in seconds: thirty days.
const MAX_SECONDS: u64 = 30 * 24 * 3600;

/// Parses the action that ends a preemption.
pub(super) fn last_act(info: &Info) -> Result<JobAction, JobControlError> {
    match info.value.as_str() {
        Some("pause") => Ok(JobAction::Pause),
        Some("terminate") => Ok(JobAction::Terminate),
        Some("kill") => Ok(JobAction::Kill),
        _ => Err(JobControlError::BadDirective {
            key: PREEMPT.0,
            expected: "pause, terminate or kill, a PMIX_STRING",
        }),
    }
}

/// Parses a boolean.
pub(super) fn flag(info: &Info, key: KeyName) -> Result<bool, JobControlError> {
    info.value.as_bool().ok_or(JobControlError::BadDirective {
        key: key.0,
        expected: "a PMIX_BOOL",
    })
}

/// Parses a number of seconds or, under the key with two meanings, of a signal.
pub(super) fn seconds(info: &Info, key: &'static str) -> Result<u64, JobControlError> {
    let expected = "a number of seconds or of a signal, a PMIX_INT from 0 to 2592000";
    info.value
        .as_u64()
        .filter(|number| *number <= MAX_SECONDS)
        .ok_or(JobControlError::BadDirective { key, expected })
}

/// Parses a name: short, and without control characters that a terminal or a file could interpret.
pub(super) fn text(info: &Info, key: KeyName) -> Result<String, JobControlError> {
    let expected = "a name, a PMIX_STRING of 1 to 256 bytes that can all be printed";
    maybe_text(info, key)?.ok_or(JobControlError::BadDirective {
        key: key.0,
        expected,
    })
}

/// Returns true if a text can be a name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control)
}

/// Parses an optional name. NULL and the empty string are none.
pub(super) fn maybe_text(info: &Info, key: KeyName) -> Result<Option<String>, JobControlError> {
    let expected = "a PMIX_STRING of at most 256 bytes that can all be printed";
    match &info.value {
        Value::String(None) | Value::Undef => Ok(None),
        value => {
            let text = value
                .as_str()
                .filter(|text| text.is_empty() || is_name(text))
                .ok_or(JobControlError::BadDirective {
                    key: key.0,
                    expected,
                })?;
            Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
        }
    }
}

/// Parses the recipients and the text of a mail.
pub(super) fn mail(value: &Value) -> Result<Vec<Info>, JobControlError> {
    let wrong = || JobControlError::BadDirective {
        key: key::PMIX_LOG_EMAIL.0,
        expected: "an array of infos, pmix.log.emaddr among them",
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
    // A mail without recipients could not be sent.
    if infos
        .iter()
        .any(|info| info.key == key::PMIX_LOG_EMAIL_ADDR)
    {
        Ok(infos)
    } else {
        Err(wrong())
    }
}
