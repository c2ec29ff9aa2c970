//! Webhook sinks: they post each message to a web service whose URL the admin names.
mod body;
mod post;
mod reply;
mod url;

pub(crate) use body::WebhookBody;
pub(crate) use url::secret_header;
pub use url::{MalformedHeader, MalformedUrl, WebhookHeader, WebhookUrl};

use crate::{SinkError, worker::SinkTransport};
use post::WebhookPost;
use std::{path::PathBuf, time::Duration};

/// Settings of a webhook sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookSettings {
    /// The URL that messages are posted to.
    pub url: WebhookUrl,
    /// Permission for a URL without TLS.
    pub http: PlainHttp,
    /// A file with the path of the URL on its first line, readable by its owner only. It replaces
    /// that of `url`.
    pub path_file: Option<PathBuf>,
    /// A file with a bearer token on its first line, readable by its owner only. It is not sent
    /// without TLS.
    pub token_file: Option<PathBuf>,
    /// Header fields that each request has besides those of the sink.
    pub headers: Vec<WebhookHeader>,
    /// Certificates of authorities in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Form of the body.
    pub format: WebhookFormat,
    /// Maximum size of a body in bytes.
    pub max_bytes: usize,
    /// Maximum time of a request, from the connection to the end of the reply.
    pub timeout: Duration,
}

/// Permission to send messages without TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlainHttp {
    /// None: all URLs begin with `https://`.
    #[default]
    Refused,
    /// To a loopback address of this machine, in digits.
    Loopback,
}

/// Form of the body of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WebhookFormat {
    /// Modules write text, and the body is `{"text": "..."}`, which chat services accept.
    #[default]
    Text,
    /// Modules write one JSON object, which is the body.
    Json,
}

/// Rule of a webhook sink that its URL or other settings break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WebhookRule {
    /// A URL without TLS is not permitted.
    HttpsOnly,
    /// A URL without TLS leads to another machine.
    LoopbackOnly,
    /// A token would be sent without TLS.
    SecretToken,
    /// The URL has a path, and a file has another one.
    OnePath,
}

impl WebhookRule {
    /// Returns what the rule requires.
    pub fn right(self) -> &'static str {
        match self {
            WebhookRule::HttpsOnly => {
                "a URL that begins with https://, unless `http` is \"loopback\""
            }
            WebhookRule::LoopbackOnly => {
                "a URL that begins with https://, or has a loopback address as its host: 127.0.0.1 or [::1]"
            }
            WebhookRule::SecretToken => {
                "a URL that begins with https:// if there is a token: it is not sent without encryption"
            }
            WebhookRule::OnePath => {
                "a URL without a path if there is a file with the path: https://HOST or https://HOST:PORT"
            }
        }
    }
}

impl WebhookSettings {
    /// Returns the default settings for a URL.
    pub fn new(url: WebhookUrl) -> WebhookSettings {
        WebhookSettings {
            url,
            http: PlainHttp::default(),
            path_file: None,
            token_file: None,
            headers: Vec::new(),
            ca: None,
            format: WebhookFormat::default(),
            max_bytes: 64 << 10,
            timeout: Duration::from_secs(30),
        }
    }

    /// Returns the rules that these settings break.
    pub fn broken_rules(&self) -> Vec<WebhookRule> {
        let is_open = !self.url.is_https();
        let all = [
            (
                WebhookRule::HttpsOnly,
                is_open && self.http == PlainHttp::Refused,
            ),
            (
                WebhookRule::LoopbackOnly,
                is_open && self.http == PlainHttp::Loopback && !self.url.is_loopback(),
            ),
            (
                WebhookRule::SecretToken,
                is_open && self.token_file.is_some(),
            ),
            (
                WebhookRule::OnePath,
                self.path_file.is_some() && self.url.has_path(),
            ),
        ];
        let broken = all.into_iter().filter(|(_, is_broken)| *is_broken);
        broken.map(|(rule, _)| rule).collect()
    }

    /// Creates the transport.
    pub(crate) fn carrier(&self, name: &str) -> Result<Box<dyn SinkTransport>, SinkError> {
        let invalid = |setting, value, right| SinkError::Setting {
            name: name.to_owned(),
            setting,
            value,
            right,
        };
        if self.timeout.is_zero() {
            return Err(invalid("timeout", "0".to_owned(), "greater than 0"));
        }
        if let Some(rule) = self.broken_rules().first() {
            return Err(invalid(
                "url",
                format!("{:?}", self.url.origin()),
                rule.right(),
            ));
        }
        Ok(Box::new(WebhookPost::new(name, self)?))
    }
}
