//! Authorities and client certificate for syslog over TLS.
use super::HostPort;
use crate::{CredentialError, SinkError};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Authorities and client certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSettings {
    /// Certificates of authorities in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, for servers that ask for one.
    pub identity: Option<TlsIdentity>,
}

/// A client certificate and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsIdentity {
    /// The certificate and its chain to an authority, in PEM.
    pub certificate: PathBuf,
    /// The key in PEM.
    pub key: PathBuf,
}

/// TLS configuration of a connection.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(
        name: &str,
        settings: &TlsSettings,
        peer: &HostPort,
    ) -> Result<Tls, SinkError> {
        let wrong = |subject: &dyn ToString, reason: &dyn ToString| SinkError::Tls {
            name: name.to_owned(),
            subject: subject.to_string(),
            reason: reason.to_string(),
        };
        let server =
            ServerName::try_from(peer.host.clone()).map_err(|error| wrong(&peer.host, &error))?;
        let unusable = |error| SinkError::credential(name, error);
        let authorities = roots(settings.ca.as_deref()).map_err(unusable)?;
        let config = client_tls(authorities).map_err(unusable)?;
        let config = match &settings.identity {
            None => config.with_no_client_auth(),
            Some(TlsIdentity { certificate, key }) => {
                let chain = certificates(certificate).map_err(unusable)?;
                let bytes = read("key", key).map_err(unusable)?;
                let secret = PrivateKeyDer::from_pem_slice(&bytes)
                    .map_err(|error| wrong(&key.display(), &error))?;
                config
                    .with_client_auth_cert(chain, secret)
                    .map_err(|error| wrong(&certificate.display(), &error))?
            }
        };
        Ok(Tls {
            config: Arc::new(config),
            server,
        })
    }
}

/// Returns the beginning of a configuration that trusts these authorities.
pub(crate) fn client_tls(
    authorities: RootCertStore,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, CredentialError> {
    // Named here: the default of rustls depends on the features of all crates in the program.
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialError::Tls {
            subject: "ring".to_owned(),
            reason: error.to_string(),
        })?;
    Ok(config.with_root_certificates(authorities))
}

/// Returns the authorities of a PEM file, or those of the system.
pub(crate) fn roots(ca: Option<&Path>) -> Result<RootCertStore, CredentialError> {
    let wrong = |subject: String, reason: String| CredentialError::Tls { subject, reason };
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        let found = rustls_native_certs::load_native_certs();
        // A system may have certificates that rustls cannot read. Others are usable then.
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            let reason = "none is usable; name a file of authorities".to_owned();
            return Err(wrong("the certificates of the system".to_owned(), reason));
        }
        return Ok(roots);
    };
    // All of a file that the admin names must be valid.
    for certificate in certificates(ca)? {
        roots
            .add(certificate)
            .map_err(|error| wrong(ca.display().to_string(), error.to_string()))?;
    }
    Ok(roots)
}

/// Reads the certificates of a PEM file, at least one.
///
/// # Errors
///
/// Fails if the file cannot be read, or has no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let wrong = |reason: String| CredentialError::Tls {
        subject: path.display().to_string(),
        reason,
    };
    let bytes = read("certificate", path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        // A file without PEM is no error of the parser.
        Ok(found) if found.is_empty() => Err(wrong("the file has no certificate (PEM)".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn read(purpose: &'static str, path: &Path) -> Result<Vec<u8>, CredentialError> {
    fs::read(path).map_err(|source| CredentialError::Read {
        purpose,
        path: path.to_owned(),
        source,
    })
}
