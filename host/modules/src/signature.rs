//! Signatures of components in minisign's format, over the exact bytes, in a file beside the
//! component; and the rules that require one before compilation.

mod conditions;

use self::conditions::FORMAT;
pub use self::conditions::SignatureConditions;
use crate::component_file::{self, ReadError};
use peal_config::{KeyId, Keyword, ModuleOwner, Modules, TrustedKey};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use thiserror::Error;

/// Suffix of the file of a signature.
const SUFFIX: &str = ".minisig";
/// Maximum size of a signature's file in bytes. A signature has a few hundred; the signer chooses
/// the comment.
const MAX_SIGNATURE: u64 = 16 << 10;

/// Error of finding or checking a signature.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SignatureError {
    /// The file of the signature is missing.
    #[error("it is not signed: there is no {} (`peal module sign` makes one)", .0.display())]
    Missing(PathBuf),
    /// The artefact has no signature.
    #[error(
        "it is not signed: the artefact has no signature (`peal module sign` makes one, `peal module push` adds it)"
    )]
    NotPushed,
    /// The module of the cluster has no signature.
    #[error(
        "it is not signed: sign the component with `peal module sign`, and the settings with `peal module deploy --key`"
    )]
    NotDeployed,
    /// The stored component had no signature.
    #[error("it is not signed: it ran without a signature when it was kept")]
    NotKept,
    /// The file could not be read.
    #[error("cannot read its signature {}: {reason}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The file is not a signature.
    #[error(
        "its signature should be minisign's: four lines, of which the second and the fourth are base64"
    )]
    Format,
    /// The signature is over the bytes instead of their hash, and could be taken for one of other
    /// bytes.
    #[error("its signature is of minisign's old kind: sign it anew, without `-l`")]
    Legacy,
    /// No trusted key has this id.
    #[error("it is signed with key {0}, which is not trusted")]
    UntrustedKey(KeyId),
    /// The signature does not match the component or its comment.
    #[error(
        "its signature with key {0} is of other bytes: the file, the signature or the comment in it was changed"
    )]
    Wrong(KeyId),
    /// The expiry time or the version in the trusted comment is invalid.
    #[error(
        "its signature with key {0} should have \"expires:\" with a number of seconds since 1970, and \"version:\" with three numbers"
    )]
    Conditions(KeyId),
    /// The signature has expired.
    #[error("its signature with key {key} holds no longer: {}", ago(.expires))]
    Expired {
        /// The key.
        key: KeyId,
        /// The time of expiry.
        expires: SystemTime,
    },
    /// The signature is of a later form.
    #[error(
        "its signature with key {key} is of form {format}, which this release does not know; it knows up to {FORMAT}"
    )]
    LaterFormat {
        /// The key.
        key: KeyId,
        /// The form.
        format: u32,
    },
    /// The signature is for another module.
    #[error("its signature with key {key} is for a module {module:?}")]
    OtherModule {
        /// The key.
        key: KeyId,
        /// The name of that module.
        module: String,
    },
}

/// Returns a past time as text.
fn ago(time: &SystemTime) -> String {
    let days = time.elapsed().unwrap_or_default().as_secs() / 86_400;
    if days == 0 {
        "it ended today".to_owned()
    } else {
        format!("it ended {days} days ago")
    }
}

/// Returns the path of a component's signature.
pub fn signature_place(component: &Path) -> PathBuf {
    let mut name = OsString::from(component);
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// A signature that has not been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    text: Arc<str>,
    key: KeyId,
}

/// Signer of a component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signer {
    /// The key.
    pub key: TrustedKey,
    /// The trusted comment of the signature.
    pub comment: String,
    /// The conditions in the comment.
    pub conditions: SignatureConditions,
}

impl Signer {
    /// Refuses a signature for a module of another name.
    pub(crate) fn check_module(&self, name: Option<&str>) -> Result<(), SignatureError> {
        name.map_or(Ok(()), |name| {
            self.conditions.of_module(name, self.key.id())
        })
    }
}

impl Signature {
    /// Parses the text of a signature's file.
    pub fn parse(text: &str) -> Result<Signature, SignatureError> {
        let key = text
            .lines()
            .nth(1)
            .and_then(KeyId::of_line)
            .ok_or(SignatureError::Format)?;
        decoded(text)?;
        Ok(Signature {
            text: text.into(),
            key,
        })
    }

    /// Reads the signature of a component.
    pub fn beside(component: &Path) -> Result<Signature, SignatureError> {
        let path = signature_place(component);
        let file = component_file::open(&path).map_err(|error| match error {
            ReadError::Io { source, .. } => source,
            other => io::Error::other(other),
        });
        Signature::read(&path, file)
    }

    /// Reads a signature from an opened file.
    pub(crate) fn read(path: &Path, file: io::Result<File>) -> Result<Signature, SignatureError> {
        let unreadable = |reason: String| SignatureError::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(SignatureError::Missing(path.to_owned()));
            }
            file => file.map_err(|error| unreadable(error.to_string()))?,
        };
        let mut text = String::new();
        // One byte more than allowed shows a file that is too long.
        let read = file.take(MAX_SIGNATURE + 1).read_to_string(&mut text);
        match read.map_err(|error| unreadable(error.to_string()))? as u64 {
            0..=MAX_SIGNATURE => Signature::parse(&text),
            _ => Err(unreadable(format!(
                "it has more than {MAX_SIGNATURE} bytes"
            ))),
        }
    }

    /// Returns the id of the key that the signature names.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Returns the conditions in the comment, which nothing has verified.
    ///
    /// # Errors
    ///
    /// Fails if they are invalid.
    pub fn claimed_conditions(&self) -> Result<SignatureConditions, SignatureError> {
        SignatureConditions::of_comment(decoded(&self.text)?.trusted_comment(), self.key)
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the trusted key that signed these bytes with a signature that is valid now.
    pub fn signer<'k>(
        &self,
        component: &[u8],
        trusted: impl IntoIterator<Item = &'k TrustedKey>,
    ) -> Result<Signer, SignatureError> {
        self.signer_at(SystemTime::now(), component, trusted)
    }

    fn signer_at<'k>(
        &self,
        now: SystemTime,
        component: &[u8],
        trusted: impl IntoIterator<Item = &'k TrustedKey>,
    ) -> Result<Signer, SignatureError> {
        let signer = self.verified(component, trusted)?;
        signer.conditions.at(now, self.key)?;
        Ok(signer)
    }

    /// Returns the trusted key that signed these bytes, also if the signature has expired.
    pub(crate) fn verified<'k>(
        &self,
        component: &[u8],
        trusted: impl IntoIterator<Item = &'k TrustedKey>,
    ) -> Result<Signer, SignatureError> {
        let signature = decoded(&self.text)?;
        let mut error = SignatureError::UntrustedKey(self.key);
        // Ids of keys are not unique, so all keys with the id are tried.
        for key in trusted.into_iter().filter(|key| key.id() == self.key) {
            // `false` refuses signatures of minisign's old kind, which sign the bytes without a
            // hash first.
            match key.verifier().verify(component, &signature, false) {
                Ok(()) => {
                    let comment = signature.trusted_comment();
                    // The conditions are in the signed comment, so they count only after the
                    // signature was verified.
                    let conditions = SignatureConditions::of_comment(comment, self.key)?;
                    return Ok(Signer {
                        key: key.clone(),
                        comment: plain(comment),
                        conditions,
                    });
                }
                Err(minisign_verify::Error::UnexpectedAlgorithm) => error = SignatureError::Legacy,
                Err(_) => error = SignatureError::Wrong(self.key),
            }
        }
        Err(error)
    }
}

fn decoded(text: &str) -> Result<minisign_verify::Signature, SignatureError> {
    minisign_verify::Signature::decode(text).map_err(|_| SignatureError::Format)
}

/// Returns a comment as one line without control characters. `minisign` separates parts by tabs.
fn plain(comment: &str) -> String {
    let shown = |one: char| match one {
        '\t' => vec![' '],
        '"' | '\'' | '\\' => vec![one],
        other => other.escape_debug().collect(),
    };
    comment.chars().flat_map(shown).collect()
}

/// Returns the reason for refusing a component that must be signed; `None` if it need not be or is.
/// `name` is the name of its module, if there is one.
pub(crate) fn lacking(
    rules: &Modules,
    (owner, name): (ModuleOwner, Option<&str>),
    bytes: &[u8],
    signature: &Result<Signature, SignatureError>,
) -> Option<String> {
    if !rules.requires(owner) {
        return None;
    }
    let error = match signature {
        Ok(signature) => {
            let signer = signature.signer(bytes, rules.keys_of(owner));
            signer.and_then(|signer| signer.check_module(name)).err()?
        }
        Err(error) => error.clone(),
    };
    let trusted = match owner {
        _ if rules.keys_of(owner).next().is_none() => {
            "; no key is trusted yet: modules.trusted_keys".to_owned()
        }
        // The trusted keys explain the error only if the key is not among them.
        _ if !matches!(error, SignatureError::UntrustedKey(_)) => String::new(),
        ModuleOwner::Site => " (modules.trusted_keys)".to_owned(),
        other => format!(" (modules.trusted_keys, {})", Modules::keys_setting(other)),
    };
    Some(format!(
        "must be signed (modules.require_signature has {:?}): {error}{trusted}",
        owner.name()
    ))
}

#[cfg(test)]
mod tests;
