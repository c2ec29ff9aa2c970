//! Certificate authority of a cluster, and the certificates of its NATS servers. Nodes have none: they
//! prove themselves with their keys.
use crate::files::{SiteFileAccess, SiteFileError};
use peal_model::ClusterName;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use thiserror::Error;

const DAY: Duration = Duration::from_secs(86_400);
/// Validity of all certificates: ten years. Clocks of nodes may be a day behind.
const VALIDITY: Duration = Duration::from_secs(3650 * 86_400);

/// Error of making a certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// One file of a pair without the other.
    #[error("{} is there and {} is not; put it back, or remove the first to have both made anew", present.display(), missing.display())]
    HalfPair {
        /// File that exists.
        present: PathBuf,
        /// File that is missing.
        missing: PathBuf,
    },
    /// Missing key of the authority.
    #[error("{}: there is no such file; a certificate for {host} needs the key of the authority, so put it back", path.display())]
    NoAuthorityKey {
        /// Path of the key.
        path: PathBuf,
        /// Host that needs a certificate.
        host: String,
    },
    /// Key that cannot be used.
    #[error("{}: {source}; a private key in PEM form is needed", path.display())]
    Key {
        /// Path of the key.
        path: PathBuf,
        /// Reason.
        source: rcgen::Error,
    },
    /// Certificate that cannot be made.
    #[error("cannot make a certificate for {subject}: {source}")]
    Certificate {
        /// Subject of the certificate.
        subject: String,
        /// Reason.
        source: rcgen::Error,
    },
    /// File that cannot be read or written.
    #[error(transparent)]
    File(#[from] SiteFileError),
}

/// Files of a certificate and its key.
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl CertificateFiles {
    /// Returns the files `NAME.pem` and `NAME.key` of a directory.
    pub(crate) fn named(directory: &Path, name: &str) -> CertificateFiles {
        CertificateFiles {
            certificate: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}.key")),
        }
    }

    /// Returns true if both exist, false if neither does.
    fn are_there(&self, files: &dyn SiteFileAccess) -> Result<bool, CertificateError> {
        match (files.contains(&self.certificate), files.contains(&self.key)) {
            (true, true) => Ok(true),
            (false, false) => Ok(false),
            (true, false) => Err(CertificateError::HalfPair {
                present: self.certificate.clone(),
                missing: self.key.clone(),
            }),
            (false, true) => Err(CertificateError::HalfPair {
                present: self.key.clone(),
                missing: self.certificate.clone(),
            }),
        }
    }
}

/// Authority of a cluster.
pub(crate) struct ClusterAuthority {
    params: CertificateParams,
    files: CertificateFiles,
}

impl ClusterAuthority {
    /// Opens the authority in a directory, or makes it if there is none. Its key may be elsewhere as
    /// long as it has nothing to sign.
    pub(crate) fn open(
        site_files: &mut dyn SiteFileAccess,
        directory: &Path,
        cluster: &ClusterName,
    ) -> Result<ClusterAuthority, CertificateError> {
        let subject = format!("Peal cluster {cluster}");
        let failed = |source| CertificateError::Certificate {
            subject: subject.clone(),
            source,
        };
        let mut params = params([].into(), &subject).map_err(failed)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let files = CertificateFiles::named(directory, "ca");
        let has_lone_certificate = files.certificate.exists() && !files.key.exists();
        if !has_lone_certificate && !files.are_there(site_files)? {
            let key = KeyPair::generate().map_err(failed)?;
            site_files.create_secret(&files.key, &key.serialize_pem())?;
            let issuer = CertifiedIssuer::self_signed(params.clone(), key).map_err(failed)?;
            site_files.replace(&files.certificate, &issuer.pem())?;
        }
        Ok(ClusterAuthority { params, files })
    }

    /// Returns the certificate in PEM form.
    pub(crate) fn certificate(
        &self,
        files: &dyn SiteFileAccess,
    ) -> Result<String, CertificateError> {
        let path = &self.files.certificate;
        let text = files.read(path)?.ok_or(std::io::ErrorKind::NotFound.into());
        Ok(text.map_err(SiteFileError::at(path))?)
    }

    /// Makes the certificate of a NATS server, unless it is there.
    pub(crate) fn certify(
        &self,
        site_files: &mut dyn SiteFileAccess,
        host: &str,
        files: &CertificateFiles,
    ) -> Result<(), CertificateError> {
        if files.are_there(site_files)? {
            return Ok(());
        }
        let failed = |source| CertificateError::Certificate {
            subject: host.to_owned(),
            source,
        };
        let path = &self.files.key;
        let text = site_files
            .read(path)?
            .ok_or_else(|| CertificateError::NoAuthorityKey {
                path: path.clone(),
                host: host.to_owned(),
            })?;
        let key = KeyPair::from_pem(&text).map_err(|source| CertificateError::Key {
            path: path.clone(),
            source,
        })?;
        let issuer = Issuer::from_params(&self.params, key);
        let mut params = params(vec![host.to_owned()], host).map_err(failed)?;
        // NATS servers of a cluster are clients of each other.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        site_files.create_secret(&files.key, &key.serialize_pem())?;
        site_files.replace(&files.certificate, &certificate.pem())?;
        Ok(())
    }
}

/// Returns the parameters of a certificate for these hosts, valid from now on.
fn params(hosts: Vec<String>, subject: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, subject);
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + VALIDITY).into();
    Ok(params)
}
