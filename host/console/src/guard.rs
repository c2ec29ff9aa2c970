//! Checks before a page: the name of the host, the origin of a change, the rights of the visitor; and the
//! header fields of every answer.
use crate::{
    console::{Console, MAX_BODY},
    html::problem_page,
    listener::UnknownConnection,
    tokens::{ActiveSession, ConsoleRights, is_form_token},
};
use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

/// Name of the cookie. With TLS the prefix keeps other hosts from setting it.
const COOKIE: &str = "peal-console";
const SECURE_COOKIE: &str = "__Host-peal-console";

/// Header fields of every answer. Nothing comes from elsewhere, and no other page may frame these.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    // Without any referrer browsers send no origin with a form either.
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct BrowserPeer {
    pub(crate) address: SocketAddr,
    /// True if the browser has shown a certificate of `console.client_ca`.
    pub(crate) has_certificate: bool,
    /// Place of the connection among those without rights.
    pub(crate) place: Arc<UnknownConnection>,
}

/// Visitor with rights.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) rights: ConsoleRights,
    /// Name of the session of a browser that has logged in.
    pub(crate) session: Option<String>,
    /// Token that forms carry; empty for a visitor without a session.
    pub(crate) form_token: String,
    /// Visitor in words, for the server's record of what the visitor does.
    pub(crate) behalf: String,
}

impl Visitor {
    /// Returns true if a form of this visitor carries the right token. A request with a token of its own in
    /// its header was not made by another page.
    pub(crate) fn sent_form(&self, given: &str) -> bool {
        self.session.is_none()
            || is_form_token(
                &ActiveSession {
                    rights: self.rights,
                    form_token: self.form_token.clone(),
                },
                given,
            )
    }
}

/// Result of the search for rights.
enum Credentials {
    Valid(Visitor),
    /// A token in the header is wrong.
    Wrong,
    None,
}

/// Adds the header fields of every answer.
pub(crate) async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, value);
    }
    // Files of the pages say otherwise.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Reads the body of a request, a form, which must come in time.
pub(crate) async fn read_body(
    State(timeout): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(timeout, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(parts, body.into())).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// Ends the wait for an answer that takes too long. Live pages begin their answer at once.
pub(crate) async fn limit_time(
    State(timeout): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    let is_change = is_change(request.method());
    // The server may be asked more than once.
    match tokio::time::timeout(timeout.saturating_mul(2), next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let reason = if is_change {
                "The server has not answered in time. What was asked for may still be carried out: look at the \
                 modules before you ask for it again."
            } else {
                "The server has not answered in time."
            };
            problem_page(StatusCode::GATEWAY_TIMEOUT, "No answer", reason)
        }
    }
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// Refuses requests that other pages cause: by a name of theirs that leads to a loopback address, or by a form.
pub(crate) async fn check_host_and_origin(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let host = text(headers, &header::HOST);
    // A certificate names the hosts of a console with TLS.
    if !console.has_tls() && !host.is_some_and(is_loopback_host) {
        let reason = "The address of this page must be a loopback address or localhost.";
        return problem_page(StatusCode::MISDIRECTED_REQUEST, "Wrong host", reason);
    }
    // Browsers send it with each change. Another client need not.
    let origin = text(headers, &header::ORIGIN);
    let is_own = origin.is_none_or(|origin| is_origin_of(origin, host, console.has_tls()));
    if is_change(request.method()) && !is_own {
        let reason = "The request comes from another page.";
        return problem_page(StatusCode::FORBIDDEN, "Other origin", reason);
    }
    next.run(request).await
}

/// Lets visitors with rights pass, and adds the [`Visitor`] to the request.
pub(crate) async fn require_rights(
    State(console): State<Arc<Console>>,
    mut request: Request,
    next: Next,
) -> Response {
    match credentials(&console, &request) {
        Credentials::Valid(visitor) => {
            // A browser sends the origin with each form. The cookie alone may come from another port of this host.
            if visitor.session.is_some()
                && is_change(request.method())
                && !request.headers().contains_key(header::ORIGIN)
            {
                let reason = "A form of a browser must name the page that it comes from (Origin).";
                return problem_page(StatusCode::FORBIDDEN, "No origin", reason);
            }
            if let Some(peer) = request.extensions().get::<BrowserPeer>() {
                peer.place.keep();
            }
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Credentials::Wrong => {
            if console.delay_wrong_token(sender(&request)).await {
                unauthorized("The token is wrong.")
            } else {
                StatusCode::TOO_MANY_REQUESTS.into_response()
            }
        }
        Credentials::None => {
            let accepts = text(request.headers(), &header::ACCEPT).unwrap_or_default();
            if request.method() == Method::GET && accepts.contains("text/html") {
                Redirect::to("/login").into_response()
            } else {
                unauthorized("Log in, or send the token as Authorization: Bearer TOKEN.")
            }
        }
    }
}

fn unauthorized(reason: &str) -> Response {
    let page = problem_page(StatusCode::UNAUTHORIZED, "No rights", reason);
    ([(header::WWW_AUTHENTICATE, "Bearer")], page).into_response()
}

fn credentials(console: &Console, request: &Request) -> Credentials {
    let headers = request.headers();
    let peer = request.extensions().get::<BrowserPeer>();
    let from = sender(request).map_or_else(String::new, |from| format!(", from {from}"));
    if let Some(given) = text(headers, &header::AUTHORIZATION) {
        return match bearer_token(given).and_then(|token| console.tokens.rights(token)) {
            Some(rights) => Credentials::Valid(Visitor {
                rights,
                session: None,
                form_token: String::new(),
                behalf: format!("the web console: {}{from}", whose_token(rights)),
            }),
            None => Credentials::Wrong,
        };
    }
    if let Some(name) = session_name(console, headers)
        && let Some(session) = console.sessions.get(&name, Instant::now())
    {
        let ActiveSession { rights, form_token } = session;
        return Credentials::Valid(Visitor {
            rights,
            session: Some(name),
            form_token,
            behalf: format!("the web console: {}{from}", whose_token(rights)),
        });
    }
    if peer.is_some_and(|peer| peer.has_certificate) {
        return Credentials::Valid(Visitor {
            rights: ConsoleRights::View,
            session: None,
            form_token: String::new(),
            behalf: format!("the web console: a client's certificate{from}"),
        });
    }
    Credentials::None
}

/// Returns the address of a request's sender.
fn sender(request: &Request) -> Option<IpAddr> {
    let peer = request.extensions().get::<BrowserPeer>();
    peer.map(|peer| peer.address.ip())
}

/// Returns the token in a field `Authorization`. Upper and lower case of the scheme are alike.
fn bearer_token(field: &str) -> Option<&str> {
    let (scheme, token) = field.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("Bearer")
        .then_some(token.trim())
}

fn whose_token(rights: ConsoleRights) -> &'static str {
    match rights {
        ConsoleRights::View => "the token of viewers",
        ConsoleRights::Change => "the token of administrators",
    }
}

/// Returns the header field of a cookie with this value, which lasts as long as the browser; none ends it.
pub(crate) fn cookie(has_tls: bool, value: Option<&str>) -> String {
    let (name, secure) = if has_tls {
        (SECURE_COOKIE, "; Secure")
    } else {
        (COOKIE, "")
    };
    let ends = if value.is_none() { "; Max-Age=0" } else { "" };
    let value = value.unwrap_or_default();
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}")
}

fn session_name(console: &Console, headers: &HeaderMap) -> Option<String> {
    let wanted = if console.has_tls() {
        SECURE_COOKIE
    } else {
        COOKIE
    };
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| value.to_owned())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns true if the name of a host, with or without a port, means this machine.
fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_address = |ip: std::net::IpAddr| ip.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_address)
}

/// Returns true if a page of this origin is one of the console.
fn is_origin_of(origin: &str, host: Option<&str>, has_tls: bool) -> bool {
    let scheme = if has_tls { "https://" } else { "http://" };
    let of_host = origin.strip_prefix(scheme);
    of_host.is_some_and(|of| host.is_some_and(|host| of.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_lead_elsewhere_are_no_loopback_hosts() {
        for host in [
            "localhost",
            "localhost:1",
            "127.0.0.1:9465",
            "[::1]:9465",
            "LOCALHOST:80",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "192.0.2.1:1",
            "[::2]:1",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }

    #[test]
    fn token_follows_the_scheme_in_any_case() {
        for field in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(bearer_token(field), Some("abc"), "{field}");
        }
        for field in ["abc", "Basic abc", "Bearerabc"] {
            assert_eq!(bearer_token(field), None, "{field}");
        }
    }

    #[test]
    fn origin_has_scheme_and_host_of_the_console() {
        let host = Some("127.0.0.1:9465");
        assert!(is_origin_of("http://127.0.0.1:9465", host, false));
        for (origin, host, has_tls) in [
            ("http://127.0.0.1:9466", host, false),
            ("http://127.0.0.1:9465", host, true),
            ("null", host, false),
            ("http://evil.example", host, false),
            ("http://127.0.0.1:9465", None, false),
        ] {
            assert!(!is_origin_of(origin, host, has_tls), "{origin}");
        }
    }

    #[test]
    fn cookies_are_hidden_from_scripts_and_other_sites() {
        assert_eq!(
            cookie(false, Some("x")),
            "peal-console=x; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            cookie(true, None),
            "__Host-peal-console=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0"
        );
    }
}
