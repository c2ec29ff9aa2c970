//! Artefacts on disk: manifests and components in files named by their digests, as in an OCI image
//! layout. Bytes are compared with their digest at every use, so that files changed on disk count as
//! missing.
use crate::{error::ArtifactError, manifest::ArtifactManifest};
use peal_sandbox::{Digest, MAX_COMPONENT_BYTES};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Artefact whose digests were verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredArtifact {
    /// Manifest.
    pub manifest: ArtifactManifest,
    /// Bytes of the component.
    pub component: Vec<u8>,
}

/// Directory of artefacts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArtifactStore {
    blobs: PathBuf,
}

impl ArtifactStore {
    /// Returns the store in a directory, which need not exist.
    pub fn at(directory: &Path) -> ArtifactStore {
        ArtifactStore {
            blobs: directory.join("blobs/sha256"),
        }
    }

    /// Returns the path of the file of a digest.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.blobs.join(digest.to_string())
    }

    /// Returns the artefact whose manifest has this digest; `None` if it is not complete here.
    ///
    /// # Errors
    ///
    /// Fails if the manifest describes no component of a module, or a file cannot be read.
    pub fn get(&self, digest: &Digest) -> Result<Option<StoredArtifact>, ArtifactError> {
        let Some(manifest) = self.blob(digest)? else {
            return Ok(None);
        };
        let manifest = ArtifactManifest::parse(&manifest)?;
        let component = self.blob(&manifest.component()?.digest)?;
        Ok(component.map(|component| StoredArtifact {
            manifest,
            component,
        }))
    }

    /// Adds an artefact. The manifest comes last, so that a stored manifest has its component.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn put(&self, manifest: &[u8], component: &[u8]) -> Result<(), ArtifactError> {
        let created = DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.blobs);
        created.map_err(|source| ArtifactError::Store {
            path: self.blobs.clone(),
            source,
        })?;
        for bytes in [component, manifest] {
            let path = self.path(&Digest::of(bytes));
            write(&path, bytes).map_err(|source| ArtifactError::Store { path, source })?;
        }
        Ok(())
    }

    /// Reads the file of a digest; `None` if it is missing or has other bytes.
    fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ArtifactError> {
        let path = self.path(digest);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ArtifactError::Store { path, source }),
        };
        if Digest::of(&bytes) == *digest {
            return Ok(Some(bytes));
        }
        tracing::warn!(path = %path.display(), "stored artefact has other bytes than its name says and is not used");
        Ok(None)
    }
}

/// Reads a file, at most one byte more than the largest component.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_COMPONENT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file as a whole: another process that writes the same file writes the same bytes.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    // Nothing that is named by a digest lacks bytes.
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::NewArtifact;

    fn artefact() -> NewArtifact {
        // The smallest component, and the only one that is here without a compiler.
        let component = b"\0asm\x0d\0\x01\0".to_vec();
        let found = peal_sandbox::inspect(&component).unwrap();
        NewArtifact::new(component, &found, Default::default()).unwrap()
    }

    #[test]
    fn stored_artefacts_come_back_and_changed_ones_are_missing() {
        let dir = tempfile::tempdir().unwrap();
        let store = ArtifactStore::at(&dir.path().join("new"));
        let new = artefact();
        assert_eq!(store.get(&new.digest()).unwrap(), None);
        store.put(&new.manifest, &new.component).unwrap();
        let stored = store.get(&new.digest()).unwrap().unwrap();
        assert_eq!(stored.component, new.component);
        let component = store.path(&Digest::of(&new.component));
        for (path, bytes) in [
            (component, &new.component),
            (store.path(&new.digest()), &new.manifest),
        ] {
            fs::write(&path, b"others").unwrap();
            assert_eq!(store.get(&new.digest()).unwrap(), None);
            fs::write(&path, bytes).unwrap();
            assert!(store.get(&new.digest()).unwrap().is_some());
        }
    }
}
