//! Signatures of components: minisign's, over the exact bytes, in a file beside. And who must have one before it is compiled.

mod conditions;

pub use self::conditions::SignatureConditions;
use crate::{
    component::{self, Component, ReadError},
    deployer::Deployer,
    load::Loader,
    scope::ResolvedScope,
};
use peal_config::{KeyId, Keyword, ModuleEntry, ModuleOwner, Modules, Problem, TrustedKey};
use peal_core::owner::Owner;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::SystemTime,
};
use thiserror::Error;

/// What the name of a signature has behind the component's.
const SUFFIX: &str = ".minisig";
/// The longest file that is looked at, in bytes: a signature has a few hundred, and its comment is its signer's to choose.
const MAX_SIGNATURE: u64 = 16 << 10;

/// Why nothing says whose component this is.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SignatureError {
    /// Nobody signed it.
    #[error("it is not signed: there is no {} (`peal module sign` makes one)", .0.display())]
    Missing(PathBuf),
    /// It was kept when it ran, and had none then.
    #[error("it is not signed: it ran without a signature when it was kept")]
    NotKept,
    /// The system does not let us read it.
    #[error("cannot read its signature {}: {reason}", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is something else.
    #[error(
        "its signature is none of minisign: four lines are wanted, the second and the fourth in base64"
    )]
    Format,
    /// It is over the bytes themselves, not over their hash, and so could be taken for one of other bytes.
    #[error("its signature is of minisign's old kind: sign it anew, without `-l`")]
    Legacy,
    /// Of those that are trusted no key has this id.
    #[error("it is signed with key {0}, which is not trusted")]
    Stranger(KeyId),
    /// A key that is trusted has not signed this.
    #[error(
        "its signature with key {0} is of other bytes: the file, the signature or the comment in it was changed"
    )]
    Wrong(KeyId),
    /// The time in its trusted comment makes no sense.
    #[error(
        "its signature with key {0} says \"expires:\" with something else than a number of seconds since 1970"
    )]
    Conditions(KeyId),
    /// It held until then.
    #[error("its signature with key {key} holds no longer: {}", ago(.expires))]
    Expired {
        /// The key.
        key: KeyId,
        /// The time.
        expires: SystemTime,
    },
    /// It is for the bytes of another module.
    #[error("its signature with key {key} is for a module {module:?}")]
    OtherModule {
        /// The key.
        key: KeyId,
        /// The name of that module.
        module: String,
    },
}

/// A time that is past, in words.
fn ago(time: &SystemTime) -> String {
    let days = time.elapsed().unwrap_or_default().as_secs() / 86_400;
    if days == 0 {
        "it ended today".to_owned()
    } else {
        format!("it ended {days} days ago")
    }
}

/// Where the signature of a component lies.
pub fn signature_place(component: &Path) -> PathBuf {
    let mut name = OsString::from(component);
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// A signature as it was found: a claim, until it was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    text: Arc<str>,
    key: KeyId,
}

/// Who signed a component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signer {
    /// The key.
    pub key: TrustedKey,
    /// What they said of it, signed as well.
    pub comment: String,
    /// The conditions in that.
    pub conditions: SignatureConditions,
}

impl Signer {
    /// Refuses one who signed it for a module of another name.
    fn check_module(&self, name: Option<&str>) -> Result<(), SignatureError> {
        name.map_or(Ok(()), |name| {
            self.conditions.of_module(name, self.key.id())
        })
    }
}

impl Signature {
    /// Reads one from the text of its file.
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

    /// That of a component in a file.
    pub fn beside(component: &Path) -> Result<Signature, SignatureError> {
        let path = signature_place(component);
        let file = component::open(&path).map_err(|error| match error {
            ReadError::Io { source, .. } => source,
            other => io::Error::other(other),
        });
        Signature::read(&path, file)
    }

    /// Reads one from its file, which somebody has opened for us.
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
        let read = file.take(MAX_SIGNATURE + 1).read_to_string(&mut text);
        match read.map_err(|error| unreadable(error.to_string()))? as u64 {
            0..=MAX_SIGNATURE => Signature::parse(&text),
            _ => Err(unreadable(format!(
                "it has more than {MAX_SIGNATURE} bytes"
            ))),
        }
    }

    /// The id of the key that it claims to be made with.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// What its file holds.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The one of these keys that signed these bytes, by a signature that holds now.
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
        let signature = decoded(&self.text)?;
        let mut error = SignatureError::Stranger(self.key);
        // Two keys may have one id: nobody hands these out.
        for key in trusted.into_iter().filter(|key| key.id() == self.key) {
            match key.verifier().verify(component, &signature, false) {
                Ok(()) => {
                    let comment = signature.trusted_comment();
                    let conditions = SignatureConditions::of_comment(comment);
                    let conditions = conditions.ok_or(SignatureError::Conditions(self.key))?;
                    conditions.at(now, self.key)?;
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

/// A comment on one line, with nothing in it that moves the cursor. `minisign` puts tabs between its parts.
fn plain(comment: &str) -> String {
    let shown = |one: char| match one {
        '\t' => vec![' '],
        '"' | '\'' | '\\' => vec![one],
        other => other.escape_debug().collect(),
    };
    comment.chars().flat_map(shown).collect()
}

/// The reason why a component is refused that must be signed, as a module of this name if it is to be one; none where it need not be signed, or is.
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
        _ if !matches!(error, SignatureError::Stranger(_)) => String::new(),
        ModuleOwner::Site => " (modules.trusted_keys)".to_owned(),
        other => format!(" (modules.trusted_keys, {})", Modules::keys_setting(other)),
    };
    Some(format!(
        "must be signed (modules.require_signature has {:?}): {error}{trusted}",
        owner.name()
    ))
}

impl Component {
    /// Whose it is, as rules for signatures have it.
    pub(crate) fn module_owner(&self) -> ModuleOwner {
        match &self.whose {
            ResolvedScope::One(Owner::Site) => ModuleOwner::Site,
            ResolvedScope::One(Owner::User(_)) => ModuleOwner::User,
            ResolvedScope::One(Owner::Namespace(_)) | ResolvedScope::Jobs(_) => {
                ModuleOwner::Namespace
            }
        }
    }

    /// The same, knowing who of those that are trusted signed it.
    pub(crate) fn signed(mut self, rules: &Modules) -> Component {
        let owner = self.module_owner();
        let signer = self.signature.as_ref().ok();
        self.signer =
            signer.and_then(|signature| signature.signer(&self.bytes, rules.keys_of(owner)).ok());
        self
    }

    /// Who signed it, if they are trusted still.
    pub(crate) fn trusted_signer(&self, rules: &Modules) -> Option<&Signer> {
        let signer = self.signer.as_ref()?;
        let is_trusted = rules
            .keys_of(self.module_owner())
            .any(|key| *key == signer.key);
        let holds = signer
            .conditions
            .at(SystemTime::now(), signer.key.id())
            .is_ok();
        (is_trusted && holds).then_some(signer)
    }

    /// What is wrong if it must be signed and is not.
    pub(crate) fn unsigned(&self, entry: &ModuleEntry, rules: &Modules) -> Option<Problem> {
        let name = Some(entry.settings.name.as_str());
        if self
            .trusted_signer(rules)
            .is_some_and(|signer| signer.check_module(name).is_ok())
        {
            return None;
        }
        let why = lacking(
            rules,
            (self.module_owner(), name),
            &self.bytes,
            &self.signature,
        )?;
        Some(entry.problem(
            "module.path",
            format!("module {} {why}", entry.settings.name),
        ))
    }
}

impl Loader {
    /// Who must have signed what.
    pub(crate) fn rules(&self) -> Modules {
        self.rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Deployer {
    /// By these rules signatures are checked from now on, instead of those that are returned. What runs goes on.
    pub fn check_by(&self, rules: Modules) -> Modules {
        std::mem::replace(
            &mut *self
                .loader
                .rules
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
            rules,
        )
    }
}

#[cfg(test)]
mod tests;
