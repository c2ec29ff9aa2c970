//! The conditions under which a signature holds: the module that it is for, and the time until when. They are fields of minisign's
//! trusted comment, which is signed as well.
use super::SignatureError;
use peal_config::KeyId;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The separator of fields in the comment, as minisign has it.
const SEPARATOR: char = '\t';
/// The prefix of the field with the name of a module.
const MODULE: &str = "module:";
/// The prefix of the field with a time, in seconds since 1970.
const EXPIRES: &str = "expires:";

/// The conditions under which a signature holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SignatureConditions {
    /// The name of the module that it is for; where there is none, of any.
    pub module: Option<String>,
    /// The time at which it holds no longer; where there is none, it holds for ever.
    pub expires: Option<SystemTime>,
}

impl SignatureConditions {
    /// Reads those of a trusted comment; none where a time makes no sense.
    pub(super) fn of_comment(comment: &str) -> Option<SignatureConditions> {
        let mut conditions = SignatureConditions::default();
        for field in comment.split(SEPARATOR) {
            if let Some(module) = field.strip_prefix(MODULE) {
                conditions.module = Some(module.to_owned());
            } else if let Some(seconds) = field.strip_prefix(EXPIRES) {
                conditions.expires =
                    Some(UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?);
            }
        }
        Some(conditions)
    }

    /// The comment with these conditions behind it.
    pub fn after(&self, comment: &str) -> String {
        let mut comment = comment.to_owned();
        if let Some(module) = &self.module {
            comment.extend([&SEPARATOR.to_string(), MODULE, module]);
        }
        if let Some(expires) = self.expires {
            let seconds = expires
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs();
            comment.extend([&SEPARATOR.to_string(), EXPIRES, &seconds.to_string()]);
        }
        comment
    }

    /// Refuses a signature that holds no longer.
    pub(super) fn at(&self, now: SystemTime, key: KeyId) -> Result<(), SignatureError> {
        match self.expires {
            Some(expires) if now >= expires => Err(SignatureError::Expired { key, expires }),
            _ => Ok(()),
        }
    }

    /// Refuses a signature for the bytes of another module.
    pub(super) fn of_module(&self, name: &str, key: KeyId) -> Result<(), SignatureError> {
        match &self.module {
            Some(module) if module != name => Err(SignatureError::OtherModule {
                key,
                module: module.clone(),
            }),
            _ => Ok(()),
        }
    }
}
