//! Public keys that check signatures of modules, and the owners for which each key is trusted.
use crate::{kinds::ValueKind, parser::DocumentParser, settings::Modules, values::ModuleOwner};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use std::fmt;
use thiserror::Error;
use toml::{Spanned, Value, de::DeValue};

/// Length of the algorithm's name at the start of keys and signatures, in bytes.
const ALGORITHM: usize = 2;
/// Length of the key's id, which follows it.
const ID: usize = 8;

/// Id by which people distinguish keys. It is not secret, and a signature may claim any: only the
/// check by the key itself proves the signer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyId([u8; ID]);

impl KeyId {
    /// Creates an id of these bytes.
    pub fn new(bytes: &[u8]) -> Option<KeyId> {
        bytes.try_into().ok().map(KeyId)
    }

    /// Reads the id in the second line of a key or signature.
    pub fn of_line(line: &str) -> Option<KeyId> {
        let bytes = BASE64_STANDARD.decode(line.trim()).ok()?;
        KeyId::new(bytes.get(ALGORITHM..ALGORITHM + ID)?)
    }
}

/// Format of `minisign`: a number in hexadecimal digits, whose bytes are in little-endian order.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

/// Error for a text that is not a public key.
#[derive(Debug, Error)]
#[error("{text:?} is no public key of minisign; one has 56 characters and begins with RW")]
pub struct SignerKeyError {
    text: String,
}

/// Public key of minisign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustedKey {
    text: String,
    id: KeyId,
    key: minisign_verify::PublicKey,
}

impl TrustedKey {
    /// Parses a key: the second line of its file, or the whole file.
    pub fn parse(text: &str) -> Result<TrustedKey, SignerKeyError> {
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let line = match lines.as_slice() {
            // The first line of a key file is a comment.
            [line] | [_, line] => *line,
            _ => text,
        };
        let read = minisign_verify::PublicKey::from_base64(line)
            .ok()
            .zip(KeyId::of_line(line));
        // The file may be any that was named by mistake, so the error shows only its beginning.
        let error = || SignerKeyError {
            text: line.chars().take(60).collect(),
        };
        let (key, id) = read.ok_or_else(error)?;
        Ok(TrustedKey {
            text: line.to_owned(),
            id,
            key,
        })
    }

    /// Returns the id of the key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Returns the key that verifies signatures.
    pub fn verifier(&self) -> &minisign_verify::PublicKey {
        &self.key
    }
}

impl fmt::Display for TrustedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Modules {
    /// Returns true if modules of this owner must be signed.
    pub fn requires(&self, owner: ModuleOwner) -> bool {
        self.require_signature.contains(&owner)
    }

    /// Returns the keys that are trusted for modules of this owner.
    pub fn keys_of(&self, owner: ModuleOwner) -> impl Iterator<Item = &TrustedKey> {
        // The keys of the site are trusted for every owner.
        let more: &[TrustedKey] = match owner {
            ModuleOwner::Site => &[],
            ModuleOwner::User => &self.user_keys,
            ModuleOwner::Namespace => &self.namespace_keys,
            ModuleOwner::JobSupplied => &self.job_supplied_keys,
        };
        self.trusted_keys.iter().chain(more)
    }

    /// Returns the setting that adds keys for this owner to `modules.trusted_keys`; the site has
    /// none.
    pub fn keys_setting(owner: ModuleOwner) -> &'static str {
        match owner {
            ModuleOwner::Site => "modules.trusted_keys",
            ModuleOwner::User => "modules.user_keys",
            ModuleOwner::Namespace => "modules.namespace_keys",
            ModuleOwner::JobSupplied => "modules.job_supplied_keys",
        }
    }
}

/// Public key in a configuration.
pub(crate) struct SignerPublicKey;

impl ValueKind<TrustedKey> for SignerPublicKey {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<TrustedKey> {
        let key = value
            .get_ref()
            .as_str()
            .and_then(|text| TrustedKey::parse(text).ok());
        if key.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        key
    }

    fn write(&self, value: &TrustedKey) -> Option<Value> {
        Some(Value::String(value.text.clone()))
    }

    fn accepted_values(&self) -> String {
        "a public key of minisign: 56 characters that begin with RW".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key made by minisign 0.11.
    const FILE: &str = "untrusted comment: minisign public key C7E0F06AE2DF49F0
RWTwSd/iavDgxzz7FiTeU4rdUxsJhVtrhwsRruPzD+mz135uWfQ8pPYT
";

    #[test]
    fn key_is_read_alone_or_from_file_and_has_minisign_id() {
        let key = TrustedKey::parse(FILE).unwrap();
        assert_eq!(key.id().to_string(), "C7E0F06AE2DF49F0");
        assert_eq!(TrustedKey::parse(&key.to_string()).unwrap(), key);
        for none in [
            "",
            "RWTwSd",
            "untrusted comment: x\n\n",
            &FILE[..90],
            &FILE.repeat(2),
        ] {
            assert!(TrustedKey::parse(none).is_err(), "{none:?}");
        }
        let error = TrustedKey::parse("minisign.pub").unwrap_err().to_string();
        assert_eq!(
            error,
            "\"minisign.pub\" is no public key of minisign; one has 56 characters and begins with RW"
        );
    }

    #[test]
    fn the_sites_keys_are_trusted_for_all_and_others_for_their_own() {
        let site = TrustedKey::parse(FILE).unwrap();
        let user = {
            TrustedKey::parse("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3").unwrap()
        };
        let rules = Modules {
            require_signature: vec![ModuleOwner::Site, ModuleOwner::User],
            trusted_keys: vec![site.clone()],
            user_keys: vec![user.clone()],
            ..Modules::default()
        };
        assert!(rules.requires(ModuleOwner::User) && !rules.requires(ModuleOwner::JobSupplied));
        assert_eq!(
            rules.keys_of(ModuleOwner::User).collect::<Vec<_>>(),
            [&site, &user]
        );
        assert_eq!(
            rules.keys_of(ModuleOwner::Site).collect::<Vec<_>>(),
            [&site]
        );
        assert_eq!(
            rules.keys_of(ModuleOwner::JobSupplied).collect::<Vec<_>>(),
            [&site]
        );
    }
}
