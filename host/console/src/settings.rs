//! Settings of the console, and the secrets and certificates that they name.
use crate::tokens::AccessTokens;
use peal_sinks::{CredentialError, certificates, read_private_key, read_token};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{VerifierBuilderError, WebPkiClientVerifier},
};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use thiserror::Error;

/// Shortest token, in bytes. A guess needs a request that is delayed.
const MIN_TOKEN: usize = 16;

/// Settings of the console.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConsoleSettings {
    /// Address at which the console listens.
    pub listen: SocketAddr,
    /// File with the token of viewers.
    pub token_file: Option<PathBuf>,
    /// File with the token of administrators.
    pub admin_token_file: Option<PathBuf>,
    /// Certificate and its chain, in PEM.
    pub certificate: Option<PathBuf>,
    /// Key of the certificate, in PEM.
    pub private_key: Option<PathBuf>,
    /// Authorities of clients' certificates, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Admin socket of the server.
    pub admin_socket: PathBuf,
    /// Audit trail of the server, if it has one.
    pub audit: Option<PathBuf>,
    /// Bounds.
    pub bounds: ConsoleBounds,
}

/// Bounds of the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConsoleBounds {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of live pages.
    pub watchers: usize,
    /// Maximum number of sessions.
    pub sessions: usize,
    /// Lifetime of a session.
    pub session_lifetime: Duration,
    /// Time in which a client must complete a request.
    pub request_timeout: Duration,
}

/// Error of settings that do not go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConsoleSettingsError {
    /// Other machines can reach the address, and there is no TLS.
    #[error(
        "console.listen is {0}, which other machines can reach without TLS; set console.certificate and \
         console.private_key, or listen at a loopback address, as in \"127.0.0.1:9465\""
    )]
    NoTls(SocketAddr),
    /// A certificate without its key, or a key without its certificate.
    #[error("console.certificate and console.private_key belong together; one of them is missing")]
    HalfTls,
    /// Certificates of clients without TLS.
    #[error(
        "console.client_ca is for a console with TLS; set console.certificate and console.private_key"
    )]
    ClientsWithoutTls,
    /// There is no way to log in.
    #[error(
        "console.listen is set, and nobody could log in; set console.token_file, console.admin_token_file or \
         console.client_ca"
    )]
    NoAccess,
}

/// Error of the secrets and certificates of the console.
#[derive(Debug, Error)]
pub enum ConsoleSecretsError {
    /// The settings do not go together.
    #[error(transparent)]
    Settings(#[from] ConsoleSettingsError),
    /// A file is unusable.
    #[error("console: {0}")]
    Credential(#[from] CredentialError),
    /// A token can be guessed.
    #[error(
        "console: the token in {0:?} has less than {min} bytes; `openssl rand -hex 32` makes a good one",
        min = MIN_TOKEN
    )]
    ShortToken(PathBuf),
    /// Viewers have the token of administrators.
    #[error(
        "console.token_file and console.admin_token_file hold the same token; they must differ"
    )]
    SameToken,
    /// The certificate does not fit its key, or TLS cannot be set up.
    #[error("console: TLS cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// The authorities of clients are unusable.
    #[error("console.client_ca: {0}")]
    Clients(#[from] VerifierBuilderError),
}

/// Secrets and certificates of the console, read before it is confined.
pub struct ConsoleSecrets {
    pub(crate) tokens: AccessTokens,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

impl ConsoleSettings {
    /// Checks that the settings go together.
    ///
    /// # Errors
    ///
    /// Says what is wrong, and what would be right.
    pub fn check(&self) -> Result<(), ConsoleSettingsError> {
        let has_tls = self.certificate.is_some() && self.private_key.is_some();
        if self.certificate.is_some() != self.private_key.is_some() {
            return Err(ConsoleSettingsError::HalfTls);
        }
        if !has_tls && !self.listen.ip().is_loopback() {
            return Err(ConsoleSettingsError::NoTls(self.listen));
        }
        if !has_tls && self.client_ca.is_some() {
            return Err(ConsoleSettingsError::ClientsWithoutTls);
        }
        let access = [&self.token_file, &self.admin_token_file, &self.client_ca];
        if access.iter().all(|file| file.is_none()) {
            return Err(ConsoleSettingsError::NoAccess);
        }
        Ok(())
    }
}

impl ConsoleSecrets {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    ///
    /// Fails if the settings do not go together, or a file is unusable or readable by other users.
    pub fn read(settings: &ConsoleSettings) -> Result<ConsoleSecrets, ConsoleSecretsError> {
        settings.check()?;
        let viewer = token(settings.token_file.as_ref())?;
        let admin = token(settings.admin_token_file.as_ref())?;
        if viewer.is_some() && viewer == admin {
            return Err(ConsoleSecretsError::SameToken);
        }
        Ok(ConsoleSecrets {
            tokens: AccessTokens::new(viewer.as_deref(), admin.as_deref()),
            tls: tls(settings)?,
        })
    }
}

fn token(file: Option<&PathBuf>) -> Result<Option<String>, ConsoleSecretsError> {
    let Some(path) = file else { return Ok(None) };
    let token = read_token(path)?.trim().to_owned();
    if token.len() < MIN_TOKEN {
        return Err(ConsoleSecretsError::ShortToken(path.clone()));
    }
    Ok(Some(token))
}

fn tls(settings: &ConsoleSettings) -> Result<Option<Arc<ServerConfig>>, ConsoleSecretsError> {
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.private_key) else {
        return Ok(None);
    };
    // Named here: the default of rustls depends on the features of all crates in the program.
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let config = match &settings.client_ca {
        None => config.with_no_client_auth(),
        Some(ca) => {
            let mut authorities = RootCertStore::empty();
            for certificate in certificates(ca)? {
                authorities.add(certificate)?;
            }
            // A browser without a certificate may have a token. A wrong certificate ends the handshake.
            let clients = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider)
                .allow_unauthenticated()
                .build()?;
            config.with_client_cert_verifier(clients)
        }
    };
    let config = config.with_single_cert(certificates(certificate)?, read_private_key(key)?)?;
    Ok(Some(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(listen: &str) -> ConsoleSettings {
        ConsoleSettings {
            listen: listen.parse().unwrap(),
            token_file: Some("token".into()),
            admin_token_file: None,
            certificate: None,
            private_key: None,
            client_ca: None,
            admin_socket: "admin.sock".into(),
            audit: None,
            bounds: ConsoleBounds {
                connections: 1,
                watchers: 1,
                sessions: 1,
                session_lifetime: Duration::from_secs(1),
                request_timeout: Duration::from_secs(1),
            },
        }
    }

    #[test]
    fn address_of_other_machines_needs_tls_and_access() {
        let file = |name: &str| Some(PathBuf::from(name));
        for listen in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert_eq!(settings(listen).check(), Ok(()), "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            let of = settings(listen);
            assert_eq!(of.check(), Err(ConsoleSettingsError::NoTls(of.listen)));
            let half = ConsoleSettings {
                certificate: file("c"),
                ..of
            };
            assert_eq!(half.check(), Err(ConsoleSettingsError::HalfTls));
            let whole = ConsoleSettings {
                private_key: file("k"),
                ..half
            };
            assert_eq!(whole.check(), Ok(()));
        }
        let nobody = ConsoleSettings {
            token_file: None,
            ..settings("127.0.0.1:1")
        };
        assert_eq!(nobody.check(), Err(ConsoleSettingsError::NoAccess));
        let clients = ConsoleSettings {
            client_ca: file("ca"),
            ..nobody
        };
        assert_eq!(
            clients.check(),
            Err(ConsoleSettingsError::ClientsWithoutTls)
        );
    }
}
