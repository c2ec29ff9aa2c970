//! Style and script of the pages, which are in the program.
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");

/// Serves the style.
pub(crate) async fn style(headers: HeaderMap) -> Response {
    file(&headers, "text/css; charset=utf-8", STYLE)
}

/// Serves the script.
pub(crate) async fn script(headers: HeaderMap) -> Response {
    file(&headers, "text/javascript; charset=utf-8", SCRIPT)
}

/// Serves a file, which browsers keep and ask for again.
fn file(headers: &HeaderMap, media_type: &'static str, content: &'static str) -> Response {
    let digest = Sha256::digest(content.as_bytes());
    let digits: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("\"{digits}\"");
    let known = headers.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let kept = [
        (header::ETAG, HeaderValue::from_str(&tag)),
        (
            header::CACHE_CONTROL,
            Ok(HeaderValue::from_static("no-cache")),
        ),
        (
            header::CONTENT_TYPE,
            Ok(HeaderValue::from_static(media_type)),
        ),
    ];
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        content.into_response()
    };
    for (name, value) in kept {
        // The tag has digits alone.
        if let Ok(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
