//! Names of artefacts in registries, and the place of a module's component: a file or an artefact.
use crate::{kinds::ValueKind, module_kinds::digest, parser::DocumentParser};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};
use thiserror::Error;
use toml::{Spanned, Value, de::DeValue};

/// Prefix of the digest of a component that came from the cluster.
const CLUSTER: &str = "cluster:sha256:";
/// Prefix of the name of an artefact.
const SCHEME: &str = "oci://";
/// Maximum length of the name of a repository with its registry, by the OCI distribution
/// specification.
const MAX_REPOSITORY: usize = 255;
/// Maximum length of a tag, by the same.
const MAX_TAG: usize = 128;
/// Port of a registry without one in its name.
const HTTPS: u16 = 443;

/// Name of an artefact: `oci://REGISTRY/NAME:TAG@sha256:DIGEST`, with a tag, a digest or both.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ArtifactReference {
    /// Host of the registry, and its port if it is not 443.
    pub registry: String,
    /// Name of the repository in the registry.
    pub repository: String,
    /// Tag.
    pub tag: Option<String>,
    /// SHA-256 digest of the manifest.
    pub digest: Option<[u8; 32]>,
}

/// Error of a text that names no artefact.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{wrong}; an artefact is named oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME:TAG@sha256:DIGEST"
)]
pub struct ReferenceError {
    wrong: String,
}

impl ArtifactReference {
    /// Returns true if a text is meant as the name of an artefact.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Returns the TCP port of the registry.
    pub fn port(&self) -> u16 {
        let (_, port) = host_and_port(&self.registry);
        port.and_then(|port| port.parse().ok()).unwrap_or(HTTPS)
    }

    /// Returns the digest in the form of registries; `None` without one.
    pub fn digest_text(&self) -> Option<String> {
        self.digest.map(|digest| format!("sha256:{}", hex(&digest)))
    }

    /// Returns the name with a digest.
    #[must_use]
    pub fn with_digest(&self, digest: [u8; 32]) -> ArtifactReference {
        ArtifactReference {
            digest: Some(digest),
            ..self.clone()
        }
    }
}

/// Splits the port off a registry's name. An address of IPv6 is in brackets.
fn host_and_port(registry: &str) -> (&str, Option<&str>) {
    match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    }
}

/// Returns the hexadecimal digits of a digest.
fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_registry(text: &str) -> bool {
    let (host, port) = host_and_port(text);
    let is_host = match host.strip_prefix('[') {
        Some(address) => address
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            let is_part = |part: &str| {
                part.starts_with(|first: char| first.is_ascii_alphanumeric())
                    && part
                        .chars()
                        .all(|one| one.is_ascii_alphanumeric() || one == '-')
            };
            host.split('.').all(is_part)
        }
    };
    let is_port = |port: &str| {
        port.bytes().all(|one| one.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    is_host && port.is_none_or(is_port)
}

/// Returns true for a name of a repository: parts of lower-case letters and digits, with single
/// separators between them.
fn is_repository(text: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_plain)
            && part.ends_with(is_plain)
            && part
                .chars()
                .all(|one| is_plain(one) || ['.', '_', '-'].contains(&one))
            && !part.contains("..")
    };
    text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
    text.len() <= MAX_TAG
        && text.starts_with(is_word)
        && text
            .chars()
            .all(|one| is_word(one) || ['.', '-'].contains(&one))
}

impl FromStr for ArtifactReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<ArtifactReference, ReferenceError> {
        let wrong = |wrong: &str| ReferenceError {
            wrong: wrong.to_owned(),
        };
        let name = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong("the name does not begin with oci://"))?;
        let (name, pin) = match name.split_once('@') {
            Some((name, pin)) => (name, Some(pin)),
            None => (name, None),
        };
        let pin = pin.map(|pin| {
            let digits = pin.strip_prefix("sha256:").and_then(digest);
            digits.ok_or_else(|| wrong("the digest is not sha256: with 64 hexadecimal digits"))
        });
        let (registry, path) = name
            .split_once('/')
            .ok_or_else(|| wrong("the registry has no / after it"))?;
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        if !is_registry(registry) {
            return Err(wrong("the registry is not a host, or a host and a port"));
        }
        if !is_repository(repository) || registry.len() + repository.len() >= MAX_REPOSITORY {
            return Err(wrong(
                "the name is not one of lower-case letters and digits, with one of . _ - / between them",
            ));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong(
                "the tag is not one of letters, digits and . _ -, 128 at most",
            ));
        }
        let digest = pin.transpose()?;
        if tag.is_none() && digest.is_none() {
            return Err(wrong("the name has neither a tag nor a digest"));
        }
        Ok(ArtifactReference {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match self.digest_text() {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Place of a module's component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ComponentSource {
    /// File.
    File(PathBuf),
    /// Artefact in a registry, with its digest.
    Artifact(ArtifactReference),
    /// Component that came from the cluster, by its digest.
    Cluster([u8; 32]),
}

impl ComponentSource {
    /// Returns the path of the file; `None` for an artefact.
    pub fn file(&self) -> Option<&Path> {
        match self {
            ComponentSource::File(path) => Some(path),
            ComponentSource::Artifact(_) | ComponentSource::Cluster(_) => None,
        }
    }

    /// Returns the name of the artefact; `None` for a file.
    pub fn artifact(&self) -> Option<&ArtifactReference> {
        match self {
            ComponentSource::File(_) | ComponentSource::Cluster(_) => None,
            ComponentSource::Artifact(reference) => Some(reference),
        }
    }

    /// Returns true for a component that came from the cluster.
    pub fn is_of_cluster(&self) -> bool {
        matches!(self, ComponentSource::Cluster(_))
    }
}

impl Default for ComponentSource {
    fn default() -> ComponentSource {
        ComponentSource::File(PathBuf::new())
    }
}

impl fmt::Display for ComponentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComponentSource::File(path) => path.display().fmt(f),
            ComponentSource::Artifact(reference) => reference.fmt(f),
            ComponentSource::Cluster(digest) => write!(f, "{CLUSTER}{}", hex(digest)),
        }
    }
}

/// Place of a component. An artefact must be pinned by its digest: a tag can be moved by the
/// registry and by everyone who may write to it.
pub(crate) struct ComponentSourceKind;

impl ValueKind<ComponentSource> for ComponentSourceKind {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<ComponentSource> {
        let text = value
            .get_ref()
            .as_str()
            .filter(|text| ArtifactReference::is_meant(text) || text.starts_with(CLUSTER));
        let Some(text) = text else {
            return crate::kinds::FilePath
                .read(value, reading)
                .map(ComponentSource::File);
        };
        if let Some(digits) = text.strip_prefix(CLUSTER) {
            if let Some(digest) = digest(digits) {
                return Some(ComponentSource::Cluster(digest));
            }
            reading.refuse(value, "cluster:sha256: with 64 hexadecimal digits");
            return None;
        }
        let wrong = match text.parse::<ArtifactReference>() {
            Ok(reference) if reference.digest.is_some() => {
                return Some(ComponentSource::Artifact(reference));
            }
            Ok(reference) => format!(
                "{}: {reference} is not pinned; it should be {reference}@sha256:DIGEST, which `peal module pull {reference}` \
                 prints",
                reading.key
            ),
            Err(error) => format!("{}: {error}", reading.key),
        };
        reading.add_problem(&value.span(), wrong);
        None
    }

    fn write(&self, value: &ComponentSource) -> Option<Value> {
        match value {
            ComponentSource::File(path) => crate::kinds::FilePath.write(path),
            ComponentSource::Artifact(_) | ComponentSource::Cluster(_) => {
                Some(Value::String(value.to_string()))
            }
        }
    }

    fn accepted_values(&self) -> String {
        "a path, or an artefact as in \"oci://registry.example/site/quota:1.2.0@sha256:...\""
            .to_owned()
    }

    fn is_text(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn names_of_artefacts_are_read_and_printed_alike() {
        for (name, port) in [
            ("oci://registry.example/quota:1.2.0".to_owned(), 443),
            (
                format!("oci://registry.example/site/a_b/quota-two{PIN}"),
                443,
            ),
            (format!("oci://localhost:5000/quota:v1_A.b-c{PIN}"), 5000),
            (format!("oci://[::1]:5443/q{PIN}"), 5443),
            (format!("oci://[::1]/q{PIN}"), 443),
        ] {
            let reference: ArtifactReference = name.parse().unwrap();
            assert_eq!((reference.to_string(), reference.port()), (name, port));
        }
    }

    #[test]
    fn wrong_names_of_artefacts_are_rejected_with_the_form() {
        let long = "a".repeat(256);
        for (name, why) in [
            ("registry.example/quota:1", "does not begin with oci://"),
            ("oci://registry.example", "no / after it"),
            ("oci:///quota:1", "not a host"),
            ("oci://registry.example:0/quota:1", "not a host"),
            ("oci://registry.example:+5/quota:1", "not a host"),
            ("oci://user@registry.example/quota:1", "no / after it"),
            ("oci://registry.example/Quota:1", "lower-case"),
            ("oci://registry.example/../quota:1", "lower-case"),
            ("oci://registry.example/a//b:1", "lower-case"),
            (&format!("oci://r/{long}:1"), "lower-case"),
            ("oci://registry.example/quota:", "the tag"),
            ("oci://registry.example/quota:1/2", "the tag"),
            ("oci://registry.example/quota", "neither a tag nor a digest"),
            (
                "oci://registry.example/quota@sha256:12",
                "64 hexadecimal digits",
            ),
            (
                "oci://registry.example/quota@md5:12",
                "64 hexadecimal digits",
            ),
        ] {
            let error = name.parse::<ArtifactReference>().unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("oci://REGISTRY/NAME:TAG"),
                "{name}: {error}"
            );
        }
    }
}
