//! URLs and header fields of webhooks, as an admin writes them.
use reqwest::{
    Url,
    header::{self, HeaderName, HeaderValue},
};
use std::{fmt, net::IpAddr, str::FromStr};
use thiserror::Error;

/// URL of a web service: `https://HOST/PATH`. It has no user, password or fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookUrl(Url);

/// Error of parsing a URL.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{text:?} should be the URL of a web service, as in https://HOST/PATH: {reason}")]
pub struct MalformedUrl {
    text: String,
    reason: String,
}

/// Header field of a request: `NAME: VALUE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
}

/// Error of parsing a header field.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{text:?} should be a header field, NAME: VALUE: {reason}")]
pub struct MalformedHeader {
    text: String,
    reason: &'static str,
}

/// Name of the header field with the id of a message, by which a service recognizes a copy.
pub(super) const MESSAGE_ID: HeaderName = HeaderName::from_static("idempotency-key");

/// Header fields that the sink sets, or that change the form of a request.
const OWN: [HeaderName; 11] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    MESSAGE_ID,
];

/// Header fields with secrets, which do not belong in a configuration.
const SECRET: [HeaderName; 3] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
];

impl WebhookUrl {
    /// Returns scheme, host and port. They hold no secret.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// Returns true for a URL with TLS.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Returns true if the host is a loopback address in digits. A name may have any address.
    pub fn is_loopback(&self) -> bool {
        let address: Result<IpAddr, _> = self.host().parse();
        address.is_ok_and(|address| address.is_loopback())
    }

    /// Returns true if more follows the host.
    pub fn has_path(&self) -> bool {
        self.0.path() != "/" || self.0.query().is_some()
    }

    /// Returns true if a query follows the path.
    pub fn has_query(&self) -> bool {
        self.0.query().is_some()
    }

    /// Returns the path without a final slash.
    pub fn path(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }

    /// Returns the host, IPv6 without brackets.
    pub(crate) fn host(&self) -> &str {
        self.0
            .host_str()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']')
    }

    /// Returns the port, which the scheme has if the URL has none.
    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// Returns the URL with another path, which may have a query. `None` if it could lead to another
    /// host.
    pub(super) fn with_path(&self, path: &str) -> Option<Url> {
        let is_path = path.starts_with('/')
            && !path.starts_with("//")
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\' && byte != b'#');
        let joined = self.0.join(path).ok().filter(|_| is_path)?;
        (joined.origin() == self.0.origin()).then_some(joined)
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for WebhookUrl {
    type Err = MalformedUrl;

    fn from_str(text: &str) -> Result<WebhookUrl, MalformedUrl> {
        let malformed = |reason: &str| MalformedUrl {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        // The parser leaves out line ends and tabs, and blanks around the URL.
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed("a character is no printable ASCII"));
        }
        let url = Url::parse(text).map_err(|error| malformed(&error.to_string()))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(malformed("the scheme is not https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(malformed("a user or a password does not belong in it"));
        }
        if url.fragment().is_some() {
            return Err(malformed("a part after # is not sent"));
        }
        if url.port() == Some(0) {
            return Err(malformed("the port is not a number from 1 to 65535"));
        }
        Ok(WebhookUrl(url))
    }
}

impl fmt::Display for WebhookHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are ASCII, since they are parsed from text.
        let value = self.value.to_str().unwrap_or_default();
        write!(f, "{}: {value}", self.name)
    }
}

impl FromStr for WebhookHeader {
    type Err = MalformedHeader;

    fn from_str(text: &str) -> Result<WebhookHeader, MalformedHeader> {
        let malformed = |reason| MalformedHeader {
            text: text.to_owned(),
            reason,
        };
        let (name, value) = header(text).map_err(malformed)?;
        if SECRET.contains(&name) {
            return Err(malformed("secrets belong in token_file"));
        }
        if OWN.contains(&name) {
            return Err(malformed("the sink sets this field"));
        }
        Ok(WebhookHeader { name, value })
    }
}

/// Parses a header field that may hold a secret. The error does not show it.
pub(crate) fn secret_header(text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, mut value) = header(text)?;
    if OWN.contains(&name) {
        return Err("this field is set by the server");
    }
    value.set_sensitive(true);
    Ok((name, value))
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let invalid = "the value is not printable ASCII";
    let (name, value) = text.split_once(':').ok_or("the colon is missing")?;
    let name = HeaderName::from_str(name).map_err(|_| "the name is not a token")?;
    let value = value.trim_matches([' ', '\t']);
    if value.is_empty() || !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(invalid);
    }
    let value = HeaderValue::from_str(value).map_err(|_| invalid)?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> WebhookUrl {
        text.parse().unwrap()
    }

    #[test]
    fn urls_are_read_and_written() {
        for (text, host, port) in [
            (
                "https://chat.example.org/hooks/x?y=1",
                "chat.example.org",
                443,
            ),
            ("https://10.0.0.1:8443/", "10.0.0.1", 8443),
            ("https://[fe80::1]/x", "fe80::1", 443),
            ("http://127.0.0.1:8065/x", "127.0.0.1", 8065),
        ] {
            let url = url(text);
            assert_eq!((url.host(), url.port()), (host, port));
            assert_eq!(url.to_string(), text);
        }
        assert_eq!(url("https://h:443/secret").origin(), "https://h");
        assert!(!url("https://h").has_path() && url("https://h/?q").has_path());
    }

    #[test]
    fn only_loopback_addresses_in_digits_are_loopback() {
        for (text, is_loopback) in [
            ("http://127.0.0.1/", true),
            ("http://127.255.0.9:1/", true),
            ("http://[::1]:8065/", true),
            ("http://2130706433/", true),
            ("http://localhost/", false),
            ("http://127.0.0.1.example.org/", false),
            ("http://10.0.0.1/", false),
            ("http://[::2]/", false),
        ] {
            assert_eq!(url(text).is_loopback(), is_loopback, "{text}");
        }
    }

    #[test]
    fn invalid_url_is_refused_with_reason() {
        for (text, reason) in [
            ("", "relative URL without a base"),
            ("chat.example.org/x", "relative URL without a base"),
            ("ftp://h/x", "the scheme is not https"),
            ("unix:/run/x", "the scheme is not https"),
            ("https://", "empty host"),
            ("https://u@h/", "a user or a password does not belong in it"),
            (
                "https://u:p@h/",
                "a user or a password does not belong in it",
            ),
            ("https://h/#x", "a part after # is not sent"),
            ("https://h:0/", "the port is not a number from 1 to 65535"),
            ("https://h:65536/", "invalid port number"),
            ("https://h/a b", "a character is no printable ASCII"),
            ("https://h/\n", "a character is no printable ASCII"),
        ] {
            let error = text.parse::<WebhookUrl>().unwrap_err();
            assert_eq!(error.reason, reason, "{text:?}");
        }
    }

    #[test]
    fn path_from_a_file_leads_to_the_same_host() {
        let base = url("https://h:8443");
        let joined = base.with_path("/hooks/secret?x=1").unwrap();
        assert_eq!(joined.as_str(), "https://h:8443/hooks/secret?x=1");
        for path in [
            "",
            "hooks",
            "//evil.example/x",
            "/\\evil.example/x",
            "\\\\evil.example/x",
            "https://evil.example/x",
            "/a b",
            "/a#b",
            "/a\rb",
        ] {
            assert_eq!(base.with_path(path), None, "{path:?}");
        }
    }

    #[test]
    fn header_fields_of_the_sink_and_secrets_are_refused() {
        let header: WebhookHeader = "X-Site:  alpha beta ".parse().unwrap();
        assert_eq!(header.to_string(), "x-site: alpha beta");
        for (text, reason) in [
            ("X-Site", "the colon is missing"),
            ("X Site: a", "the name is not a token"),
            (": a", "the name is not a token"),
            ("X-Site:", "the value is not printable ASCII"),
            ("X-Site: a\r\nB: c", "the value is not printable ASCII"),
            ("X-Site: ä", "the value is not printable ASCII"),
            ("authorization: Bearer x", "secrets belong in token_file"),
            ("Cookie: x", "secrets belong in token_file"),
            ("Host: evil.example", "the sink sets this field"),
            ("Content-Length: 3", "the sink sets this field"),
            ("Transfer-Encoding: chunked", "the sink sets this field"),
        ] {
            let error = text.parse::<WebhookHeader>().unwrap_err();
            assert_eq!(error.reason, reason, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn url_is_written_as_read(text in "(https?://|)[a-z0-9.:@\\[\\]]{0,12}(/[ -~]{0,12})?") {
            if let Ok(url) = text.parse::<WebhookUrl>() {
                prop_assert_eq!(url.to_string().parse::<WebhookUrl>(), Ok(url));
            }
        }

        #[test]
        fn path_from_any_file_keeps_the_origin(path in "/?[ -~]{0,20}") {
            let base = url("https://h:8443");
            if let Some(joined) = base.with_path(&path) {
                prop_assert_eq!(joined.origin(), base.url().origin());
            }
        }
    }
}
