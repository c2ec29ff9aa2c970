//! Keys with which nodes prove to NATS servers who they are.
use crate::files::{self, SiteFileAccess, SiteFileError};
use nkeys::{KeyPair, KeyPairType};
use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Bits of a mode with which others than the owner could read or change a seed.
const FOREIGN: u32 = 0o077;

/// Error for the file of a node's key.
#[derive(Debug, Error)]
pub enum NodeKeyError {
    /// Missing file.
    #[error("{}: there is no such file; `peal cluster init` writes the seed of a node's key as node.seed", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// File that others may use.
    #[error("{}: the mode is {mode:03o}; a seed needs 600, so that only its owner may read it", path.display())]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// Contents that are no seed.
    #[error("{}: the contents are no seed of a node's key; one has 58 characters and begins with SU", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
    },
    /// File that cannot be read or written.
    #[error(transparent)]
    File(#[from] SiteFileError),
}

/// Key of a node, or of the administrator: a user's key of NATS (Ed25519).
pub struct NodeKey {
    pair: KeyPair,
    seed: String,
}

impl NodeKey {
    /// Reads the seed of a key.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, if others than its owner may use it, and if it holds no seed.
    pub fn read(path: &Path) -> Result<NodeKey, NodeKeyError> {
        let Some(text) = files::read(path)? else {
            return Err(NodeKeyError::Missing {
                path: path.to_owned(),
            });
        };
        let metadata = fs::metadata(path).map_err(SiteFileError::at(path))?;
        let mode = metadata.mode() & 0o777;
        if mode & FOREIGN != 0 {
            return Err(NodeKeyError::Exposed {
                path: path.to_owned(),
                mode,
            });
        }
        NodeKey::from_seed(text.trim()).ok_or_else(|| NodeKeyError::Invalid {
            path: path.to_owned(),
        })
    }

    /// Reads a key, or creates it if there is no file.
    pub(crate) fn read_or_create(
        files: &mut dyn SiteFileAccess,
        path: &Path,
    ) -> Result<NodeKey, NodeKeyError> {
        match NodeKey::read(path) {
            Err(NodeKeyError::Missing { .. }) => {
                let seed = KeyPair::new_user().seed().ok();
                let key = seed.and_then(|seed| NodeKey::from_seed(&seed));
                let key = key.ok_or_else(|| NodeKeyError::Invalid {
                    path: path.to_owned(),
                })?;
                files.create_secret(path, &format!("{}\n", key.seed))?;
                Ok(key)
            }
            read => read,
        }
    }

    fn from_seed(seed: &str) -> Option<NodeKey> {
        let pair = KeyPair::from_seed(seed).ok()?;
        let is_user = matches!(pair.key_pair_type(), KeyPairType::User);
        is_user.then(|| NodeKey {
            pair,
            seed: seed.to_owned(),
        })
    }

    /// Returns the public key, by which NATS servers know the node.
    pub fn public(&self) -> String {
        self.pair.public_key()
    }

    /// Returns the seed, which is secret.
    pub(crate) fn seed(&self) -> &str {
        &self.seed
    }
}

/// Shows the public key alone.
impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeKey").field(&self.public()).finish()
    }
}

/// Returns true for the public key of a user.
pub(crate) fn is_public_key(text: &str) -> bool {
    KeyPair::from_public_key(text)
        .is_ok_and(|pair| matches!(pair.key_pair_type(), KeyPairType::User))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "this is test code")]
    use super::*;
    use crate::files::WrittenFiles;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    #[test]
    fn key_is_created_once_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.seed");
        let created = NodeKey::read_or_create(&mut WrittenFiles, &path).unwrap();
        assert!(is_public_key(&created.public()) && !is_public_key(created.seed()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            NodeKey::read_or_create(&mut WrittenFiles, &path)
                .unwrap()
                .public(),
            created.public()
        );
        assert!(!format!("{created:?}").contains(created.seed()));
    }

    #[test]
    fn missing_exposed_and_invalid_seeds_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.seed");
        assert!(matches!(
            NodeKey::read(&path),
            Err(NodeKeyError::Missing { .. })
        ));
        NodeKey::read_or_create(&mut WrittenFiles, &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = NodeKey::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("node.seed: the mode is 640; a seed needs 600"),
            "{error}"
        );
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let account = KeyPair::new_account().seed().unwrap();
        for text in ["", "SU", account.as_str()] {
            fs::write(&path, text).unwrap();
            let error = NodeKey::read(&path).unwrap_err().to_string();
            assert!(
                error.ends_with("one has 58 characters and begins with SU"),
                "{error}"
            );
            // An invalid file may hold something else that somebody needs.
            assert!(NodeKey::read_or_create(&mut WrittenFiles, &path).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
