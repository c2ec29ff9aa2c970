//! HTTP client of a web service that the admin names, with its authorities and secret header fields.
use crate::{
    CredentialError, WebhookUrl,
    secret::{SecretKind, secret_text},
    syslog::{client_tls, roots},
    webhook::secret_header,
};
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore};
use std::{
    error::Error,
    path::{Path, PathBuf},
    time::Duration,
};
use thiserror::Error as ThisError;

/// Maximum size of the part of a reply that is read, in bytes.
const MAX_REPLY_BYTES: usize = 64 << 10;

/// Access to a web service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebServiceSettings {
    /// URL whose host is connected to.
    pub url: WebhookUrl,
    /// File with a header field on each line, readable by its owner only.
    pub headers_file: Option<PathBuf>,
    /// Certificates of authorities in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Maximum time of a request, from the connection to the end of the reply.
    pub timeout: Duration,
}

/// Web service that takes posts.
#[derive(Clone, Debug)]
pub struct WebService {
    url: Url,
    client: Client,
    headers: HeaderMap,
}

/// Reply of a web service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceReply {
    /// HTTP status.
    pub status: u16,
    /// Beginning of the body.
    pub body: Vec<u8>,
}

/// Error of a post without a reply.
#[derive(Clone, PartialEq, Eq, Debug, ThisError)]
pub enum PostError {
    /// The path leads away from the service.
    #[error("{path:?} is no path of the web service; it should begin with one /")]
    Path {
        /// The path.
        path: String,
    },
    /// The service was not reached, or its certificate or reply is invalid.
    #[error("{reason}")]
    Unreachable {
        /// The error with its causes.
        reason: String,
    },
}

impl WebService {
    /// Reads the files of the settings. A connection is made by the first post.
    ///
    /// # Errors
    ///
    /// Fails if a file is unusable, or readable by others and has secrets.
    pub fn open(settings: &WebServiceSettings) -> Result<WebService, CredentialError> {
        let WebServiceSettings {
            url,
            headers_file,
            ca,
            timeout,
        } = settings;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, agent());
        if let Some(path) = headers_file {
            let kind = SecretKind::Headers;
            for (number, line) in secret_text(kind, path)?.lines().enumerate() {
                if line.trim().is_empty() {
                    continue;
                }
                let (name, value) = secret_header(line).map_err(|reason| {
                    kind.invalid(&format!("invalid on line {}: {reason}", number + 1))
                })?;
                headers.append(name, value);
            }
        }
        let tls = service_tls(url, ca.as_deref())?;
        let client = http_client(tls, *timeout).map_err(|error| CredentialError::Tls {
            subject: url.origin(),
            reason: causes(&error),
        })?;
        Ok(WebService {
            url: url.url().clone(),
            client,
            headers,
        })
    }

    /// Posts a body to a path of the service. Runs on a runtime of tokio.
    ///
    /// # Errors
    ///
    /// Fails without a reply. A reply with an error status is none.
    pub async fn post(
        &self,
        path: &str,
        content_type: HeaderValue,
        body: Vec<u8>,
    ) -> Result<ServiceReply, PostError> {
        let joined = self.url.join(path).ok();
        let url = joined
            .filter(|joined| path.starts_with('/') && joined.origin() == self.url.origin())
            .ok_or_else(|| PostError::Path {
                path: path.to_owned(),
            })?;
        let request = self.client.post(url).headers(self.headers.clone());
        let response = request
            .header(CONTENT_TYPE, content_type)
            .body(body)
            .send()
            .await
            // The path of the URL may be a secret.
            .map_err(|error| PostError::Unreachable {
                reason: causes(&error.without_url()),
            })?;
        Ok(ServiceReply {
            status: response.status().as_u16(),
            body: beginning(response, MAX_REPLY_BYTES).await,
        })
    }
}

/// Returns the beginning of the body of a reply. The status says what becomes of a message, so that an
/// incomplete body is no error.
pub(crate) async fn beginning(mut response: Response, max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = max.saturating_sub(bytes.len());
        bytes.extend(chunk.iter().take(room));
        if room <= chunk.len() {
            break;
        }
    }
    bytes
}

/// Returns the header field that names this program.
pub(crate) fn agent() -> HeaderValue {
    HeaderValue::from_static(concat!("peal/", env!("CARGO_PKG_VERSION")))
}

/// Returns the TLS configuration for a service with these authorities.
pub(crate) fn service_tls(
    url: &WebhookUrl,
    ca: Option<&Path>,
) -> Result<ClientConfig, CredentialError> {
    // Without TLS no authority is needed, and the client takes a configuration nevertheless.
    let authorities = if url.is_https() {
        roots(ca)?
    } else {
        RootCertStore::empty()
    };
    Ok(client_tls(authorities)?.with_no_client_auth())
}

/// Returns a client of one web service.
pub(crate) fn http_client(tls: ClientConfig, timeout: Duration) -> reqwest::Result<Client> {
    Client::builder()
        // The environment names no proxy, and a reply no other host.
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .http1_only()
        .tls_backend_preconfigured(tls)
        .connect_timeout(timeout)
        .timeout(timeout)
        .pool_max_idle_per_host(1)
        .build()
}

/// Returns the texts of an error and its causes.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    fn settings(headers_file: &Path) -> WebServiceSettings {
        WebServiceSettings {
            url: "http://127.0.0.1:1".parse().unwrap(),
            headers_file: Some(headers_file.to_owned()),
            ca: None,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn headers_file_is_private_and_its_lines_are_header_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let opened = || WebService::open(&settings(&path));
        write("Authorization: Bearer a b\n\nX-Scope: one\n", 0o600);
        let service = opened().unwrap();
        assert_eq!(service.headers["authorization"], "Bearer a b");
        assert!(service.headers["authorization"].is_sensitive());
        assert_eq!(service.headers["x-scope"], "one");
        for (text, reason) in [
            ("X-Scope: one\nsecret", "on line 2: the colon is missing"),
            ("Content-Length: 3", "on line 1: this field is set"),
            ("X: \u{7f}", "the value is not printable ASCII"),
        ] {
            write(text, 0o600);
            let error = opened().unwrap_err().to_string();
            assert!(
                error.contains(reason) && !error.contains("secret"),
                "{error}"
            );
        }
        write("X-Scope: one", 0o640);
        let error = opened().unwrap_err().to_string();
        assert!(
            error.starts_with("the headers file \"") && error.contains("mode 640"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn path_of_another_host_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let service = WebService::open(&settings(&path)).unwrap();
        let content_type = HeaderValue::from_static("text/plain");
        for path in ["", "v1", "//evil.example/x", "https://evil.example/x"] {
            let posted = service.post(path, content_type.clone(), Vec::new()).await;
            assert_eq!(
                posted,
                Err(PostError::Path {
                    path: path.to_owned()
                })
            );
        }
    }
}
