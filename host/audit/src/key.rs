//! The key that signs the seals of a trail: ed25519, in a file of its own.
use crate::signer::message::RunId;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};
use hmac::{Hmac, Mac, digest::Key};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};
use thiserror::Error;

/// Prefix of the text of a secret key.
const SECRET: &str = "peal-audit-secret-1:";
/// Prefix of the text of a public key.
const PUBLIC: &str = "peal-audit-1:";

/// Error of reading or creating a key.
#[derive(Debug, Error)]
pub enum SealKeyError {
    /// An error of the operating system.
    #[error("the key of the audit trail {path:?}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The secret key is accessible to other users.
    #[error(
        "the key of the audit trail {path:?} belongs to user {owner} and has mode {mode:o}; it must belong to root or to user \
         {reader}, who reads it, and be accessible to its owner only (mode 600)"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The uid of the file's owner.
        owner: u32,
        /// The mode of the file.
        mode: u32,
        /// The uid of the reader.
        reader: u32,
    },
    /// The text is not a key.
    #[error(
        "{origin} is not a key of an audit trail: a key is \"{begins}\" and 32 bytes in base64"
    )]
    Malformed {
        /// The source of the text.
        origin: String,
        /// The expected prefix.
        begins: &'static str,
    },
    /// The system has no random numbers.
    #[error("the system has no random numbers for a key: {0}")]
    Random(rustix::io::Errno),
}

/// HMAC-SHA-256 (RFC 2104).
type SecretKeyText = Hmac<Sha256>;

/// A secret key and the keys derived from it.
pub struct Keys {
    signing: SigningKey,
    digests: [u8; 32],
    /// Key from which those of journals are derived, one for each run.
    journals: [u8; 32],
}

/// Key for digests of secrets. It is derived from that of the seals and says nothing about it.
pub(crate) struct DigestKey(SecretKeyText);

/// Key for codes of the journal of one run.
pub(crate) struct CodeKey(SecretKeyText);

/// Replaces the file at `path`. A link is removed; its target stays as it is.
fn write_anew(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?
        .write_all(text.as_bytes())
}

/// The public key that verifies seals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealPublicKey(VerifyingKey);

impl Keys {
    /// Reads a key, or creates one if the file is missing. The public key is written to a file of
    /// the same name with `.pub` appended.
    pub fn open(path: &Path) -> Result<Keys, SealKeyError> {
        // The creation itself shows whether a key exists, so that two processes never make one
        // each.
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
        {
            Ok(file) => Keys::make(path, file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Keys::read(path),
            Err(source) => Err(SealKeyError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn make(path: &Path, mut file: fs::File) -> Result<Keys, SealKeyError> {
        let mut seed = [0; 32];
        getrandom(&mut seed, GetRandomFlags::empty()).map_err(SealKeyError::Random)?;
        let keys = Keys::of(&seed);
        let io = |path: &Path| {
            let path = path.to_owned();
            |source| SealKeyError::Io { path, source }
        };
        writeln!(file, "{SECRET}{}", STANDARD.encode(seed))
            // Seals made with a key that a crash removes could never be verified.
            .and_then(|()| file.sync_all())
            .map_err(io(path))?;
        let beside = path.with_added_extension("pub");
        write_anew(&beside, &format!("{}\n", keys.public())).map_err(io(&beside))?;
        Ok(keys)
    }

    fn read(path: &Path) -> Result<Keys, SealKeyError> {
        let io = |source| SealKeyError::Io {
            path: path.to_owned(),
            source,
        };
        let flags = rustix::fs::OFlags::NOFOLLOW.bits();
        let options = i32::try_from(flags).unwrap_or_default();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(options)
            .open(path)
            .map_err(io)?;
        // Ask the open file: the path may lead to another one by now.
        let found = file.metadata().map_err(io)?;
        let owner = found.uid();
        let mode = found.mode() & 0o7777;
        let reader = rustix::process::geteuid().as_raw();
        let is_ours = owner == 0 || owner == reader;
        if !is_ours || mode & 0o077 != 0 {
            return Err(SealKeyError::Exposed {
                path: path.to_owned(),
                owner,
                mode,
                reader,
            });
        }
        let mut text = String::new();
        // A key has fewer bytes. A wrong path must not read a large file.
        file.take(1024).read_to_string(&mut text).map_err(io)?;
        let malformed = || SealKeyError::Malformed {
            origin: format!("{path:?}"),
            begins: SECRET,
        };
        Ok(Keys::of(&decoded(&text, SECRET).ok_or_else(malformed)?))
    }

    /// Derives the keys from a seed.
    pub fn of(seed: &[u8; 32]) -> Keys {
        // Each use has a key of its own, so that no output of one helps against another.
        let digests = Sha256::new()
            .chain_update(b"peal audit digests")
            .chain_update(seed)
            .finalize();
        let codes = keyed(seed)
            .chain_update(b"peal audit journal 1")
            .finalize()
            .into_bytes();
        Keys {
            signing: SigningKey::from_bytes(seed),
            digests: digests.into(),
            journals: codes.into(),
        }
    }

    /// Returns the public key.
    pub fn public(&self) -> SealPublicKey {
        SealPublicKey(self.signing.verifying_key())
    }

    pub(crate) fn sign(&self, text: &str) -> Vec<u8> {
        self.signing.sign(text.as_bytes()).to_bytes().to_vec()
    }

    /// Returns the key for digests of secrets. The server has it: whoever can ask for digests can
    /// try secrets anyway.
    pub(crate) fn digest_key(&self) -> [u8; 32] {
        self.digests
    }

    /// Returns the key for codes of the journal of a run.
    pub(crate) fn journal_key(&self, run: Option<&RunId>) -> [u8; 32] {
        let run = run.map(|run| run.0.as_slice()).unwrap_or_default();
        keyed(&self.journals)
            .chain_update(run)
            .finalize()
            .into_bytes()
            .into()
    }
}

impl DigestKey {
    pub(crate) fn new(key: &[u8; 32]) -> DigestKey {
        DigestKey(keyed(key))
    }

    /// Returns a keyed digest of a secret. Without the key the secret cannot be found by trying
    /// values.
    pub(crate) fn digest(&self, secret: &[u8]) -> [u8; 32] {
        self.0
            .clone()
            .chain_update(secret)
            .finalize()
            .into_bytes()
            .into()
    }
}

impl CodeKey {
    pub(crate) fn new(key: &[u8; 32]) -> CodeKey {
        CodeKey(keyed(key))
    }

    /// Returns a code over these bytes that only the owner of the key can compute or check. It is
    /// much faster than a signature.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.coded(parts).finalize().into_bytes().into()
    }

    /// Reports whether `code` is the code over these bytes.
    pub(crate) fn has_coded(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        // Compares in constant time.
        self.coded(parts).verify_slice(code).is_ok()
    }

    fn coded(&self, parts: &[&[u8]]) -> SecretKeyText {
        parts
            .iter()
            .fold(self.0.clone(), |code, part| code.chain_update(part))
    }
}

fn keyed(key: &[u8; 32]) -> SecretKeyText {
    let mut block = Key::<SecretKeyText>::default();
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    <SecretKeyText as Mac>::new(&block)
}

impl SealPublicKey {
    pub(crate) fn has_signed(&self, text: &str, signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify(text.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Display for SealPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", STANDARD.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for SealPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SealPublicKey {
    type Err = SealKeyError;
    fn from_str(text: &str) -> Result<SealPublicKey, SealKeyError> {
        let key = decoded(text, PUBLIC).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        let shown = || text.chars().take(80).collect::<String>();
        key.map(SealPublicKey)
            .ok_or_else(|| SealKeyError::Malformed {
                origin: format!("{:?}", shown()),
                begins: PUBLIC,
            })
    }
}

fn decoded(text: &str, begins: &str) -> Option<[u8; 32]> {
    STANDARD
        .decode(text.trim().strip_prefix(begins)?)
        .ok()?
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_equal_those_of_earlier_records() {
        let digest = peal_sandbox::Digest(
            DigestKey::new(&Keys::of(&[7; 32]).digest_key()).digest(b"correct horse"),
        )
        .to_string();
        assert_eq!(
            digest,
            "83d7ca323395ec8ca1d7d335f0562a9175f4ca9ecf9200b6096802403a5a92c1"
        );
    }

    #[test]
    fn public_key_is_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("audit.key");
        let target = dir.path().join("target");
        fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join("audit.key.pub")).unwrap();
        let keys = Keys::open(&key).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        let public = fs::read_to_string(dir.path().join("audit.key.pub")).unwrap();
        assert_eq!(public.trim_end(), keys.public().to_string());
    }
}
