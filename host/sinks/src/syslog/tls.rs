//! Whom to trust, and who we are, where syslog travels in TLS.
use super::HostPort;
use crate::SinkError;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Whom to trust, and who we are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSettings {
    /// Certificates of authorities, in PEM; those of the system where there is no file.
    pub ca: Option<PathBuf>,
    /// What the server is shown, if it asks.
    pub identity: Option<TlsIdentity>,
}

/// Who we are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsIdentity {
    /// Our certificate and those that lead to an authority, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

/// What connections are made with.
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
        let wrong = |what: &dyn ToString, why: &dyn ToString| SinkError::Tls {
            name: name.to_owned(),
            what: what.to_string(),
            why: why.to_string(),
        };
        let server =
            ServerName::try_from(peer.host.clone()).map_err(|error| wrong(&peer.host, &error))?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&"ring", &error))?
            .with_root_certificates(roots(name, settings.ca.as_deref())?);
        let config = match &settings.identity {
            None => config.with_no_client_auth(),
            Some(TlsIdentity { certificate, key }) => {
                let chain = certificates(name, certificate)?;
                let bytes = read(name, "key", key)?;
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

fn roots(name: &str, ca: Option<&Path>) -> Result<RootCertStore, SinkError> {
    let wrong = |what: String, why: String| SinkError::Tls {
        name: name.to_owned(),
        what,
        why,
    };
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        let found = rustls_native_certs::load_native_certs();
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            let why = "there are none; name a file of authorities".to_owned();
            return Err(wrong("the certificates of the system".to_owned(), why));
        }
        return Ok(roots);
    };
    for certificate in certificates(name, ca)? {
        roots
            .add(certificate)
            .map_err(|error| wrong(ca.display().to_string(), error.to_string()))?;
    }
    Ok(roots)
}

/// The certificates in a file of PEM, of which there must be some.
pub(crate) fn certificates(
    name: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    let wrong = |why: String| SinkError::Tls {
        name: name.to_owned(),
        what: path.display().to_string(),
        why,
    };
    let bytes = read(name, "certificate", path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(wrong("there is no certificate in it (PEM)".to_owned()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn read(name: &str, what: &'static str, path: &Path) -> Result<Vec<u8>, SinkError> {
    fs::read(path).map_err(|source| SinkError::Read {
        name: name.to_owned(),
        what,
        path: path.to_owned(),
        source,
    })
}
