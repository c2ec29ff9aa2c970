//! Form of an artefact: an OCI image manifest with one layer, the component, in the layout of the
//! CNCF for WebAssembly, which `wkg` reads and writes.
use crate::error::ArtifactError;
use peal_sandbox::{Digest, Inspection};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Media type of the manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of the configuration, which describes the component.
pub(crate) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the layer.
const COMPONENT: &str = "application/wasm";
/// Version of the form of manifests.
const SCHEMA_VERSION: u32 = 2;
/// Maximum size of a manifest in bytes, as registries have it.
pub(crate) const MAX_MANIFEST: usize = 4 << 20;

/// Names of annotations.
pub mod annotation {
    /// Name of the module.
    pub const TITLE: &str = "org.opencontainers.image.title";
    /// Version of the module.
    pub const VERSION: &str = "org.opencontainers.image.version";
    /// Time of the push, as in 2026-11-26T15:00:00Z.
    pub const CREATED: &str = "org.opencontainers.image.created";
    /// Place of the source that the component was built from.
    pub const SOURCE: &str = "org.opencontainers.image.source";
    /// Revision of that source.
    pub const REVISION: &str = "org.opencontainers.image.revision";
    /// Tools that the component says it was built with.
    pub const BUILT_WITH: &str = "peal.module.built-with";
    /// Versions of `peal:pmix` that the component was built for.
    pub const WIT: &str = "peal.module.wit";
    /// Roles that the component exports.
    pub const ROLES: &str = "peal.module.roles";
    /// Capabilities that the component imports.
    pub const CAPABILITIES: &str = "peal.module.capabilities";
    /// Signature of the component: the text of minisign's file.
    pub const SIGNATURE: &str = "peal.module.signature";
}

/// Annotations by name.
pub type Annotations = BTreeMap<String, String>;

/// Description of a blob in a manifest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobDescriptor {
    /// Media type.
    pub media_type: String,
    /// Digest, as in `sha256:...`.
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
}

impl BlobDescriptor {
    fn of(media_type: &str, bytes: &[u8]) -> BlobDescriptor {
        BlobDescriptor {
            media_type: media_type.to_owned(),
            digest: digest_text(&Digest::of(bytes)),
            size: bytes.len() as u64,
        }
    }
}

/// Returns a digest in the form of registries.
pub(crate) fn digest_text(digest: &Digest) -> String {
    format!("sha256:{digest}")
}

/// Manifest of an artefact. Other fields of a manifest are ignored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactManifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    config: BlobDescriptor,
    layers: Vec<BlobDescriptor>,
    /// Annotations.
    #[serde(default)]
    pub annotations: Annotations,
}

impl ArtifactManifest {
    /// Parses a manifest.
    ///
    /// # Errors
    ///
    /// Fails if it is no manifest, or describes no component.
    pub fn parse(bytes: &[u8]) -> Result<ArtifactManifest, ArtifactError> {
        if bytes.len() > MAX_MANIFEST {
            let reason = format!("it has {} bytes; the limit is {MAX_MANIFEST}", bytes.len());
            return Err(ArtifactError::Manifest(reason));
        }
        let manifest: ArtifactManifest = serde_json::from_slice(bytes)
            .map_err(|error| ArtifactError::Manifest(error.to_string()))?;
        if manifest.schema_version != SCHEMA_VERSION {
            let reason = format!(
                "it has schemaVersion {}; it should be {SCHEMA_VERSION}",
                manifest.schema_version
            );
            return Err(ArtifactError::Manifest(reason));
        }
        if manifest.config.media_type != CONFIG {
            let kind = plain(&manifest.config.media_type);
            return Err(ArtifactError::NotAComponent(format!(
                "the artefact has a configuration of type {kind}; a module of Peal has {CONFIG}"
            )));
        }
        manifest.layer()?;
        Ok(manifest)
    }

    fn layer(&self) -> Result<&BlobDescriptor, ArtifactError> {
        match self.layers.as_slice() {
            [layer] if layer.media_type == COMPONENT => Ok(layer),
            [layer] => Err(ArtifactError::NotAComponent(format!(
                "the artefact has a layer of type {}; a module of Peal has {COMPONENT}",
                plain(&layer.media_type)
            ))),
            layers => Err(ArtifactError::NotAComponent(format!(
                "the artefact has {} layers; a module of Peal has one",
                layers.len()
            ))),
        }
    }

    /// Returns the description of the component.
    ///
    /// # Errors
    ///
    /// Fails if the digest is not SHA-256.
    pub fn component(&self) -> Result<ComponentDescriptor, ArtifactError> {
        let layer = self.layer()?;
        let digest = layer.digest.strip_prefix("sha256:");
        let digest = digest.and_then(|digits| digits.parse().ok());
        let wrong = || {
            ArtifactError::Manifest(format!(
                "the layer has digest {}; it should be sha256: with 64 hexadecimal digits",
                plain(&layer.digest)
            ))
        };
        Ok(ComponentDescriptor {
            digest: digest.ok_or_else(wrong)?,
            size: layer.size,
        })
    }
}

/// Component that a manifest names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComponentDescriptor {
    /// Digest.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

impl ComponentDescriptor {
    /// Checks bytes that are said to be the component.
    ///
    /// # Errors
    ///
    /// Fails if they are others.
    pub fn check(&self, bytes: &[u8]) -> Result<(), ArtifactError> {
        if self.size != bytes.len() as u64 {
            return Err(ArtifactError::OtherSize {
                expected: self.size,
                found: bytes.len() as u64,
            });
        }
        let found = Digest::of(bytes);
        if self.digest == found {
            Ok(())
        } else {
            Err(ArtifactError::OtherComponent {
                expected: self.digest,
                found,
            })
        }
    }
}

/// Returns the beginning of a registry's text, without control characters.
pub(crate) fn plain(text: &str) -> String {
    const MOST: usize = 300;
    text.chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect()
}

/// Artefact that is about to be pushed.
#[derive(Clone, Debug)]
pub struct NewArtifact {
    /// Bytes of the manifest.
    pub manifest: Vec<u8>,
    /// Bytes of the configuration.
    pub config: Vec<u8>,
    /// Bytes of the component.
    pub component: Vec<u8>,
}

impl NewArtifact {
    /// Makes the artefact of a component.
    ///
    /// # Errors
    ///
    /// Fails if the annotations make the manifest larger than registries take.
    pub fn new(
        component: Vec<u8>,
        found: &Inspection,
        annotations: Annotations,
    ) -> Result<NewArtifact, ArtifactError> {
        let layer = BlobDescriptor::of(COMPONENT, &component);
        let config = json!({
            "created": annotations.get(annotation::CREATED),
            "architecture": "wasm",
            // The name that the layout has for components, whatever they import.
            "os": "wasip2",
            "layerDigests": [&layer.digest],
            "component": {
                "exports": exports(found),
                "imports": found.imports.iter().map(|import| import.name.clone()).collect::<Vec<_>>(),
            },
        });
        let config = config.to_string().into_bytes();
        let manifest = ArtifactManifest {
            schema_version: SCHEMA_VERSION,
            media_type: Some(MANIFEST.to_owned()),
            config: BlobDescriptor::of(CONFIG, &config),
            layers: vec![layer],
            annotations,
        };
        let manifest = serde_json::to_vec(&manifest)
            .map_err(|error| ArtifactError::Manifest(error.to_string()))?;
        ArtifactManifest::parse(&manifest)?;
        Ok(NewArtifact {
            manifest,
            config,
            component,
        })
    }

    /// Returns the digest of the manifest, which names the artefact.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }
}

/// Returns the exports of a component.
fn exports(found: &Inspection) -> Vec<String> {
    let roles = found.roles.iter().map(ToString::to_string);
    roles.chain(found.other_exports.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(config: &str, layers: serde_json::Value) -> Vec<u8> {
        let config = json!({ "mediaType": config, "digest": "sha256:0", "size": 2 });
        json!({ "schemaVersion": 2, "config": config, "layers": layers })
            .to_string()
            .into_bytes()
    }

    #[test]
    fn other_artefacts_are_rejected_with_their_kind() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let layer = |kind: &str| json!([{ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": 3 }]);
        for (bytes, why) in [
            (b"{".to_vec(), "the manifest is not one of"),
            (
                b"{\"schemaVersion\":1}".to_vec(),
                "the manifest is not one of",
            ),
            (
                manifest("application/vnd.oci.image.config.v1+json", layer(COMPONENT)),
                "a configuration of type application/vnd.oci.image.config.v1+json",
            ),
            (
                manifest(CONFIG, layer("application/vnd.oci.image.layer.v1.tar+gzip")),
                "a layer of type application/vnd.oci.image.layer.v1.tar+gzip",
            ),
            (manifest(CONFIG, json!([])), "0 layers"),
            (vec![b' '; MAX_MANIFEST + 1], "the limit is"),
        ] {
            let error = ArtifactManifest::parse(&bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let sound = ArtifactManifest::parse(&manifest(CONFIG, layer(COMPONENT))).unwrap();
        let component = sound.component().unwrap();
        assert_eq!(
            (component.digest.to_string().as_str(), component.size),
            (digest, 3)
        );
        let other = ComponentDescriptor {
            size: 4,
            ..component
        };
        assert!(matches!(
            other.check(b"abc"),
            Err(ArtifactError::OtherSize { .. })
        ));
        assert!(matches!(
            component.check(b"abc"),
            Err(ArtifactError::OtherComponent { .. })
        ));
    }
}
