//! Replies of web services, and their meaning for a message.
use crate::worker::DeliveryResult;
use reqwest::StatusCode;
use std::time::{Duration, SystemTime};

/// Maximum number of characters of a reply in an error.
const SHOWN: usize = 200;

/// Reply to a request.
#[derive(Debug)]
pub(super) struct WebhookReply {
    pub(super) status: StatusCode,
    /// The pause that the service asks for.
    pub(super) retry_after: Option<Duration>,
    /// The beginning of the body.
    pub(super) text: String,
}

impl WebhookReply {
    /// Returns the result for the message that this replies to. Reasons begin with the name of the
    /// peer.
    pub(super) fn result(&self, peer: &str) -> DeliveryResult {
        let status = self.status;
        let reason = |what: &str| {
            let text: String = self.text.chars().take(SHOWN).collect();
            match text.trim() {
                "" => format!("{peer}: {what} ({status})"),
                // The quotes escape control characters.
                text => format!("{peer}: {what} ({status}): {text:?}"),
            }
        };
        match status {
            _ if status.is_success() => DeliveryResult::Delivered {
                refused: Vec::new(),
            },
            // These concern all messages for the service, or the service behind a gateway.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => DeliveryResult::Busy {
                reason: reason("the service asks to wait"),
                pause: self.retry_after.unwrap_or_default(),
            },
            StatusCode::REQUEST_TIMEOUT => DeliveryResult::Later {
                reason: reason("the service did not get the request in time"),
                refused: Vec::new(),
            },
            // One message may be the cause, so others are delivered meanwhile.
            _ if status.is_server_error() => DeliveryResult::Later {
                reason: reason("the service failed"),
                refused: Vec::new(),
            },
            _ if status.is_redirection() => {
                DeliveryResult::Never(reason("the service redirects, and redirects are refused"))
            }
            _ => DeliveryResult::Never(reason("the service refuses the message")),
        }
    }
}

/// Parses a `Retry-After` field: seconds, or the time of the next attempt.
pub(super) fn retry_after(field: &str, now: SystemTime) -> Option<Duration> {
    let field = field.trim();
    if !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are a long time.
        return Some(Duration::from_secs(field.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(field).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn status_decides_what_becomes_of_a_message() {
        let kind = |status: u16| {
            let reply = WebhookReply {
                status: StatusCode::from_u16(status).unwrap(),
                retry_after: Some(Duration::from_secs(7)),
                text: "no \u{1b}room\n".to_owned(),
            };
            match reply.result("https://h") {
                DeliveryResult::Delivered { .. } => "delivered".to_owned(),
                DeliveryResult::Later { reason, .. } => format!("later {reason}"),
                DeliveryResult::Busy { reason, pause } => {
                    assert_eq!(pause, Duration::from_secs(7));
                    format!("busy {reason}")
                }
                DeliveryResult::Never(reason) => format!("never {reason}"),
                DeliveryResult::Unreachable(reason) => panic!("{reason}"),
            }
        };
        for (statuses, result) in [
            (&[200, 201, 202, 204, 299][..], "delivered"),
            (
                &[429, 502, 503, 504],
                "busy https://h: the service asks to wait (",
            ),
            (
                &[408],
                "later https://h: the service did not get the request",
            ),
            (
                &[500, 501, 507, 599],
                "later https://h: the service failed (",
            ),
            (
                &[300, 301, 302, 304, 307, 308],
                "never https://h: the service redirects",
            ),
            (
                &[400, 401, 403, 404, 410, 413, 499],
                "never https://h: the service refuses",
            ),
        ] {
            for status in statuses {
                assert!(kind(*status).starts_with(result), "{}", kind(*status));
            }
        }
        let told = kind(400);
        assert!(
            told.ends_with("(400 Bad Request): \"no \\u{1b}room\""),
            "{told}"
        );
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (field, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            let wanted = seconds.map(Duration::from_secs);
            assert_eq!(retry_after(field, now), wanted, "{field:?}");
        }
    }
}
