//! HTTP connection to a web service: posts a message and reads the beginning of the reply.
use super::{
    WebhookHeader, WebhookSettings,
    reply::{WebhookReply, retry_after},
    url::MESSAGE_ID,
};
use crate::{
    SinkError,
    queue::QueuedMessage,
    secret::{SecretKind, secret},
    syslog::{client_tls, roots},
    worker::{DeliveryResult, IdleTransport, SinkTransport},
};
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore};
use std::{
    error::Error,
    time::{Duration, SystemTime},
};
use tokio::runtime::{Builder, Runtime};

/// Maximum size of the part of a reply that is read, in bytes.
const MAX_REPLY_BYTES: usize = 4096;

/// Transport that posts messages.
pub(super) struct WebhookPost {
    /// Scheme, host and port, without secrets.
    peer: String,
    url: Url,
    headers: HeaderMap,
    tls: ClientConfig,
    timeout: Duration,
    /// An open connection, kept for the next message.
    open: Option<HttpConnection>,
}

/// A client with its connection, and the runtime on which both run while a message is posted.
struct HttpConnection {
    runtime: Runtime,
    client: Client,
}

impl WebhookPost {
    pub(super) fn new(name: &str, settings: &WebhookSettings) -> Result<WebhookPost, SinkError> {
        let url = match &settings.path_file {
            None => settings.url.url().clone(),
            Some(file) => {
                let path = secret(name, SecretKind::UrlPath, file)?;
                let invalid = || SecretKind::UrlPath.invalid(name, "another text");
                settings
                    .url
                    .with_path(path.trim_end())
                    .ok_or_else(invalid)?
            }
        };
        let mut headers = HeaderMap::new();
        for WebhookHeader { name, value } in &settings.headers {
            headers.append(name, value.clone());
        }
        let agent = concat!("peal/", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_static(agent);
        headers.entry(USER_AGENT).or_insert(agent);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(file) = &settings.token_file {
            headers.insert(
                AUTHORIZATION,
                bearer(name, &secret(name, SecretKind::Token, file)?)?,
            );
        }
        // Without TLS no authority is needed, and the client takes a configuration nevertheless.
        let authorities = if settings.url.is_https() {
            roots(name, settings.ca.as_deref())?
        } else {
            RootCertStore::empty()
        };
        let tls = client_tls(name, authorities)?.with_no_client_auth();
        Ok(WebhookPost {
            peer: settings.url.origin(),
            url,
            headers,
            tls,
            timeout: settings.timeout,
            open: None,
        })
    }

    fn connection(&self) -> Result<HttpConnection, String> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| error.to_string())?;
        let client = Client::builder()
            // The environment names no proxy, and a reply no other host.
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .http1_only()
            .tls_backend_preconfigured(self.tls.clone())
            .connect_timeout(self.timeout)
            .timeout(self.timeout)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|error| causes(&error))?;
        Ok(HttpConnection { runtime, client })
    }

    fn post(&mut self, parcel: &QueuedMessage) -> Result<WebhookReply, String> {
        let id = HeaderValue::from_str(&parcel.head).map_err(|error| error.to_string())?;
        let HttpConnection { runtime, client } = match self.open.take() {
            Some(open) => open,
            None => self.connection()?,
        };
        let request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(MESSAGE_ID, id)
            .body(parcel.body.clone());
        let reply = runtime
            .block_on(reply_to(request))
            // The path of the URL may be a secret.
            .map_err(|error| causes(&error.without_url()))?;
        // After an error the next attempt begins with a new connection.
        self.open = Some(HttpConnection { runtime, client });
        Ok(reply)
    }
}

async fn reply_to(request: reqwest::RequestBuilder) -> reqwest::Result<WebhookReply> {
    let mut response = request.send().await?;
    let status = response.status();
    let field = response.headers().get(RETRY_AFTER);
    let field = field.and_then(|field| field.to_str().ok());
    let retry_after = field.and_then(|field| retry_after(field, SystemTime::now()));
    let mut bytes = Vec::new();
    // The status says what becomes of the message. The rest is for the admin, who may miss it.
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_REPLY_BYTES.saturating_sub(bytes.len());
        bytes.extend(chunk.iter().take(room));
        if room <= chunk.len() {
            break;
        }
    }
    Ok(WebhookReply {
        status,
        retry_after,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

fn bearer(name: &str, token: &str) -> Result<HeaderValue, SinkError> {
    let invalid = || SecretKind::Token.invalid(name, "another text");
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the texts of an error and its causes.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

impl SinkTransport for WebhookPost {
    fn peer(&self, _: &str) -> String {
        self.peer.clone()
    }

    fn carry(&mut self, parcel: &mut QueuedMessage) -> DeliveryResult {
        match self.post(parcel) {
            Ok(reply) => reply.result(&self.peer),
            Err(reason) => DeliveryResult::Unreachable(format!("{}: {reason}", self.peer)),
        }
    }

    fn rest(&mut self) -> IdleTransport {
        // A connection that nothing waits for would not see that the service closes it.
        self.open = None;
        IdleTransport::Closed
    }
}
