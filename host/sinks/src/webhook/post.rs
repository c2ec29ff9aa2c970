//! HTTP connection to a web service: posts a message and reads the beginning of the reply.
use super::{
    WebhookHeader, WebhookSettings,
    reply::{WebhookReply, retry_after},
    url::MESSAGE_ID,
};
use crate::{
    CredentialError, SinkError,
    queue::QueuedMessage,
    secret::{SecretKind, secret},
    web_service::{agent, beginning, causes, http_client, service_tls},
    worker::{DeliveryResult, IdleTransport, SinkTransport},
};
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT},
};
use rustls::ClientConfig;
use std::time::{Duration, SystemTime};
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
        let unusable = |error| SinkError::credential(name, error);
        let url = match &settings.path_file {
            None => settings.url.url().clone(),
            Some(file) => {
                let path = secret(SecretKind::UrlPath, file).map_err(unusable)?;
                let invalid = || unusable(SecretKind::UrlPath.invalid("another text"));
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
        headers.entry(USER_AGENT).or_insert(agent());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(file) = &settings.token_file {
            let token = secret(SecretKind::Token, file).map_err(unusable)?;
            headers.insert(AUTHORIZATION, bearer(&token).map_err(unusable)?);
        }
        let tls = service_tls(&settings.url, settings.ca.as_deref()).map_err(unusable)?;
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
        let client = http_client(self.tls.clone(), self.timeout).map_err(|error| causes(&error))?;
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
    let response = request.send().await?;
    let status = response.status();
    let field = response.headers().get(RETRY_AFTER);
    let field = field.and_then(|field| field.to_str().ok());
    let retry_after = field.and_then(|field| retry_after(field, SystemTime::now()));
    let bytes = beginning(response, MAX_REPLY_BYTES).await;
    Ok(WebhookReply {
        status,
        retry_after,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

fn bearer(token: &str) -> Result<HeaderValue, CredentialError> {
    let invalid = || SecretKind::Token.invalid("another text");
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
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
