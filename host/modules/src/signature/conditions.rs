//! Conditions of a signature: its module and its time of expiry. They are fields of minisign's
//! trusted comment, which is signed too.
use super::SignatureError;
use peal_config::KeyId;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Separator of fields in the comment, as minisign uses it.
const SEPARATOR: char = '\t';
/// Prefix of the field with the name of a module.
const MODULE: &str = "module:";
/// Prefix of the field with a time in seconds since 1970.
const EXPIRES: &str = "expires:";

/// Conditions of a signature.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SignatureConditions {
    /// The name of the module; `None` for any module.
    pub module: Option<String>,
    /// The time of expiry; `None` if the signature does not expire.
    pub expires: Option<SystemTime>,
}

impl SignatureConditions {
    /// Parses a trusted comment; `None` if a time is invalid.
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

    /// Returns the comment with these conditions appended.
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

    /// Refuses an expired signature.
    pub(crate) fn at(&self, now: SystemTime, key: KeyId) -> Result<(), SignatureError> {
        match self.expires {
            Some(expires) if now >= expires => Err(SignatureError::Expired { key, expires }),
            _ => Ok(()),
        }
    }

    /// Refuses a signature for another module.
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
