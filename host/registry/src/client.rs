//! Client of registries: pushes and pulls artefacts by HTTPS, within bounds of time and size.
use crate::{
    credentials,
    error::{ArtifactError, RegistryError},
    manifest::{ArtifactManifest, MANIFEST, NewArtifact, digest_text, plain},
};
use oci_client::{
    Client, Reference, RegistryOperation,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol},
    errors::{OciDistributionError, OciErrorCode},
    secrets::RegistryAuth,
};
use peal_config::{ArtifactReference, Registry};
use peal_sandbox::Digest;
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    io,
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{io::AsyncWrite, time::timeout};

/// Maximum number of certificates in a file.
const MAX_CERTIFICATES: usize = 1000;

/// Settings of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegistrySettings {
    /// File of the authorities' certificates; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// File of credentials; `None` to ask anonymously.
    pub credentials: Option<PathBuf>,
    /// Maximum size of a component in bytes.
    pub max_component: u64,
    /// Time limit of a connection.
    pub connect_timeout: Duration,
    /// Time limit of a push or pull.
    pub timeout: Duration,
}

impl From<&Registry> for RegistrySettings {
    fn from(settings: &Registry) -> RegistrySettings {
        RegistrySettings {
            ca: settings.ca.clone(),
            credentials: settings.credentials.clone(),
            max_component: settings.max_component,
            connect_timeout: settings.connect_timeout,
            timeout: settings.timeout,
        }
    }
}

/// Artefact from a registry, whose digests were verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PulledArtifact {
    /// Digest of the manifest, which names the artefact.
    pub digest: Digest,
    /// Bytes of the manifest.
    pub manifest_bytes: Vec<u8>,
    /// Manifest.
    pub manifest: ArtifactManifest,
    /// Bytes of the component.
    pub component: Vec<u8>,
}

/// Client of registries.
pub struct RegistryClient {
    client: Client,
    settings: RegistrySettings,
}

impl RegistryClient {
    /// Creates a client.
    ///
    /// # Errors
    ///
    /// Fails if the certificates cannot be used.
    pub fn new(settings: RegistrySettings) -> Result<RegistryClient, RegistryError> {
        // An error means that this process has it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The library makes a client with the system's authorities too, and panics if there are none.
        if rustls_native_certs::load_native_certs().certs.is_empty() {
            let reason = "this system has no certificates of authorities (Debian: ca-certificates)";
            return Err(RegistryError::Client(reason.to_owned()));
        }
        let config = ClientConfig {
            protocol: ClientProtocol::Https,
            tls_certs_only: certificates(&settings)?,
            // An index names artefacts for several systems; a module has none.
            platform_resolver: None,
            connect_timeout: Some(settings.connect_timeout),
            read_timeout: Some(settings.timeout),
            user_agent: concat!("peal/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client =
            Client::try_from(config).map_err(|error| RegistryError::Client(reason(&error)))?;
        Ok(RegistryClient { client, settings })
    }

    /// Fetches an artefact. If its name has no digest, the registry says which one the tag names.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be asked, or its answer is not that artefact.
    pub async fn pull(
        &self,
        reference: &ArtifactReference,
    ) -> Result<PulledArtifact, RegistryError> {
        self.in_time(reference, self.pull_slowly(reference)).await
    }

    /// Stores an artefact under a name. Its tag then names this artefact.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be asked, or refuses.
    pub async fn push(
        &self,
        reference: &ArtifactReference,
        artefact: NewArtifact,
    ) -> Result<(), RegistryError> {
        self.in_time(reference, self.push_slowly(reference, artefact))
            .await
    }

    /// Checks as far as possible without a push that the registry accepts one. Returns the digest of the
    /// manifest that the tag names now; `None` for a new tag.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be asked, or refuses.
    pub async fn check_push(
        &self,
        reference: &ArtifactReference,
    ) -> Result<Option<String>, RegistryError> {
        self.in_time(reference, self.check_push_slowly(reference))
            .await
    }

    async fn in_time<T>(
        &self,
        reference: &ArtifactReference,
        work: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let limit = self.settings.timeout;
        let done = timeout(limit, work).await;
        done.unwrap_or_else(|_| {
            Err(RegistryError::Timeout {
                registry: reference.registry.clone(),
                limit,
            })
        })
    }

    fn credentials(&self, reference: &ArtifactReference) -> Result<RegistryAuth, RegistryError> {
        Ok(match &self.settings.credentials {
            Some(path) => credentials::of_registry(path, &reference.registry)?,
            None => RegistryAuth::Anonymous,
        })
    }

    async fn pull_slowly(
        &self,
        reference: &ArtifactReference,
    ) -> Result<PulledArtifact, RegistryError> {
        let wrong = |source| RegistryError::Artifact {
            reference: Box::new(reference.clone()),
            source,
        };
        let failed = |error: OciDistributionError| failed(reference, &error);
        let name = name(reference);
        let auth = self.credentials(reference)?;
        let pulled = self.client.pull_manifest_raw(&name, &auth, &[MANIFEST]);
        let (manifest_bytes, _) = pulled.await.map_err(failed)?;
        let manifest_bytes = manifest_bytes.to_vec();
        let digest = Digest::of(&manifest_bytes);
        if let Some(expected) = reference.digest.map(Digest)
            && expected != digest
        {
            let found = digest;
            return Err(wrong(ArtifactError::OtherManifest { expected, found }));
        }
        let manifest = ArtifactManifest::parse(&manifest_bytes).map_err(wrong)?;
        let component = manifest.component().map_err(wrong)?;
        let limit = self.settings.max_component;
        if component.size > limit {
            let size = component.size;
            return Err(wrong(ArtifactError::TooLarge { size, limit }));
        }
        let mut received = BoundedBuffer {
            bytes: Vec::new(),
            // The size that the manifest names, which is within the limit.
            limit: usize::try_from(component.size).unwrap_or(usize::MAX),
        };
        let blob = digest_text(&component.digest);
        let pulled = self.client.pull_blob(&name, blob.as_str(), &mut received);
        pulled.await.map_err(failed)?;
        let bytes = received.bytes;
        component.check(&bytes).map_err(wrong)?;
        Ok(PulledArtifact {
            digest,
            manifest_bytes,
            manifest,
            component: bytes,
        })
    }

    async fn check_push_slowly(
        &self,
        reference: &ArtifactReference,
    ) -> Result<Option<String>, RegistryError> {
        let failed = |error: OciDistributionError| failed(reference, &error);
        let name = name(reference);
        let auth = self.credentials(reference)?;
        // A registry with tokens gives this one to those who may push.
        self.client
            .auth(&name, &auth, RegistryOperation::Push)
            .await
            .map_err(failed)?;
        match self.client.fetch_manifest_digest(&name, &auth).await {
            Ok(digest) => Ok(Some(plain(&digest))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn push_slowly(
        &self,
        reference: &ArtifactReference,
        artefact: NewArtifact,
    ) -> Result<(), RegistryError> {
        let failed = |error: OciDistributionError| failed(reference, &error);
        let name = name(reference);
        let auth = self.credentials(reference)?;
        self.client
            .auth(&name, &auth, RegistryOperation::Push)
            .await
            .map_err(failed)?;
        for bytes in [artefact.component, artefact.config] {
            let digest = digest_text(&Digest::of(&bytes));
            self.client
                .push_blob(&name, bytes, &digest)
                .await
                .map_err(failed)?;
        }
        let kind = MANIFEST
            .parse()
            .map_err(|_| RegistryError::Client("the media type is no header".to_owned()))?;
        self.client
            .push_manifest_raw(&name, artefact.manifest, kind)
            .await
            .map_err(failed)?;
        Ok(())
    }
}

/// Reads the certificates that registries are verified by; none for those of the system.
fn certificates(settings: &RegistrySettings) -> Result<Vec<Certificate>, RegistryError> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let Some(path) = &settings.ca else {
        return Ok(Vec::new());
    };
    let wrong = |reason: String| RegistryError::Certificates {
        path: path.clone(),
        reason,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| wrong(error.to_string()))?
        .take(MAX_CERTIFICATES)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    let der = |certificate: CertificateDer<'_>| Certificate {
        encoding: CertificateEncoding::Der,
        data: certificate.to_vec(),
    };
    Ok(found.into_iter().map(der).collect())
}

fn name(reference: &ArtifactReference) -> Reference {
    let registry = reference.registry.clone();
    let repository = reference.repository.clone();
    match (reference.digest_text(), &reference.tag) {
        (Some(digest), _) => Reference::with_digest(registry, repository, digest),
        (None, tag) => Reference::with_tag(registry, repository, tag.clone().unwrap_or_default()),
    }
}

/// Returns true if the registry has no artefact of this name.
fn is_missing(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::ImageManifestNotFoundError(_)
        | OciDistributionError::ServerError { code: 404, .. } => true,
        OciDistributionError::RegistryError { envelope, .. } => {
            envelope.errors.iter().any(|error| {
                matches!(
                    error.code,
                    OciErrorCode::ManifestUnknown
                        | OciErrorCode::NameUnknown
                        | OciErrorCode::NotFound
                )
            })
        }
        _ => false,
    }
}

fn failed(reference: &ArtifactReference, error: &OciDistributionError) -> RegistryError {
    let reason = match error {
        OciDistributionError::UnauthorizedError { .. }
        | OciDistributionError::AuthenticationFailure(_)
        | OciDistributionError::ServerError {
            code: 401 | 403, ..
        } => format!(
            "it wants other credentials for {} (registry.credentials): {}",
            reference.repository,
            reason(error)
        ),
        other => reason(other),
    };
    RegistryError::Exchange {
        registry: reference.registry.clone(),
        reason,
    }
}

/// Returns an error with its causes, of which the last says what happened.
fn reason(error: &dyn Error) -> String {
    let mut text = plain(&error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = plain(&error.to_string());
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Buffer that takes no more than its limit: a registry that sends more is not read further.
struct BoundedBuffer {
    bytes: Vec<u8>,
    limit: usize,
}

impl AsyncWrite for BoundedBuffer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.bytes.len().saturating_add(bytes.len()) > self.limit {
            let more = format!(
                "it sends more than the {} bytes of the manifest",
                self.limit
            );
            return Poll::Ready(Err(io::Error::other(more)));
        }
        self.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
