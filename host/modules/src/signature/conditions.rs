//! Conditions of a signature: its module, the version of that, and its time of expiry. They are
//! fields of minisign's trusted comment, which is signed too.
use super::SignatureError;
use peal_config::KeyId;
use semver::Version;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Separator of fields in the comment, as minisign uses it.
const SEPARATOR: char = '\t';
/// Prefix of the field with the name of a module.
const MODULE: &str = "module:";
/// Prefix of the field with a time in seconds since 1970.
const EXPIRES: &str = "expires:";

/// Prefix of the field with the version of the module.
const VERSION: &str = "version:";
/// Prefix of the field with the form of these fields. Form 1, which has no such field, has no
/// version. A release that does not know a form refuses it: it would overlook conditions.
const FORM: &str = "peal-signature:";
/// Latest form.
pub(super) const FORMAT: u32 = 2;

/// Conditions of a signature.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SignatureConditions {
    /// The name of the module; `None` for any module.
    pub module: Option<String>,
    /// The version of the module; `None` if the signature does not say it.
    pub version: Option<Version>,
    /// The time of expiry; `None` if the signature does not expire.
    pub expires: Option<SystemTime>,
}

impl SignatureConditions {
    /// Parses the trusted comment of a signature with this key.
    pub(super) fn of_comment(
        comment: &str,
        key: KeyId,
    ) -> Result<SignatureConditions, SignatureError> {
        let wrong = || SignatureError::Conditions(key);
        let mut conditions = SignatureConditions::default();
        for field in comment.split(SEPARATOR) {
            if let Some(form) = field.strip_prefix(FORM) {
                match form.parse() {
                    Ok(1..=FORMAT) => {}
                    Ok(format) => return Err(SignatureError::LaterFormat { key, format }),
                    Err(_) => return Err(wrong()),
                }
            } else if let Some(module) = field.strip_prefix(MODULE) {
                conditions.module = Some(module.to_owned());
            } else if let Some(version) = field.strip_prefix(VERSION) {
                conditions.version = Some(Version::parse(version).map_err(|_| wrong())?);
            } else if let Some(seconds) = field.strip_prefix(EXPIRES) {
                let time = seconds.parse().map(Duration::from_secs).ok();
                let time = time.and_then(|time| UNIX_EPOCH.checked_add(time));
                conditions.expires = Some(time.ok_or_else(wrong)?);
            }
        }
        Ok(conditions)
    }

    /// Returns the comment with these conditions appended.
    pub fn after(&self, comment: &str) -> String {
        let mut comment = comment.to_owned();
        if let Some(version) = &self.version {
            let form = FORMAT.to_string();
            comment.extend([&SEPARATOR.to_string(), FORM, &form]);
            comment.extend([&SEPARATOR.to_string(), VERSION, &version.to_string()]);
        }
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
